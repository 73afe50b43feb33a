"""Beginnings of prompts that a provider stores under a name, and bills by the hour: made, reused, renewed, deleted.

Only a `CachePoint` of the caller makes one, because it costs money. The index of uploads notes what is stored, so the
next request with the same beginning refers to it. If anything goes wrong, the whole prompt is sent, with a notice.
"""

from hashlib import sha256

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.attempt import attempt, encode_with_media, send_extra_request
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Plan, Recall, RecallAll, Remember, RemoteCopy
from dragoman.engine.exchange import Completed
from dragoman.errors import ProviderError, TransportError, WireError
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Notice, Opaque, Request
from dragoman.types.caching import mark_of
from dragoman.wires.base import WirePromptCaches
from dragoman.wires.common.caching import block_point
from dragoman.wires.common.prompt_caches import CacheSplit

DEFAULT_TTL = 300
"""Seconds. Each use renews it, and a beginning that is no longer used costs little."""
MARGIN = 10.0
"""Seconds before its end in which a stored beginning is not used any more."""
REFUSED_TTL = 300.0
"""Seconds in which a beginning that was refused, because it is too short, is not sent again."""
_FAILURES = (ProviderError, TransportError, WireError)


def cached_attempt(request: Request, target: Target, call: CallContext, /) -> Plan[Completed]:
    """Make an attempt; if the target stores beginnings of prompts and the request has a cache point, with that."""
    if target.quirks.caching != "contents" or (beginning := _beginning(request)) is None:
        return attempt(request, target, call)
    caches = wires.get(target.wire).prompt_caches
    return attempt(request, target, call) if caches is None else _Cached(caches, target, call, *beginning).run(request)


def has_points(request: Request, /) -> bool:
    """Whether a request has a cache point of the caller's own."""
    return _beginning(request) is not None


def _beginning(request: Request) -> tuple[Request | None, int] | None:
    """The request up to its last cache point that something follows, and the time; None if there is no such point.

    A point in the system prompt alone means the system prompt and the tools; then there is no request.
    """
    is_end = True
    for i in range(len(request.messages) - 1, -1, -1):
        message = request.messages[i]
        for j in range(len(message.parts) - 1, -1, -1):
            part = message.parts[j]
            point = block_point(part) if isinstance(part, Opaque) else mark_of(part.extra)
            if point is not None and not is_end:
                last = replace(message, parts=message.parts[: j + 1])
                messages = (*request.messages[:i], last)
                ttl = point.ttl or request.cache_ttl or DEFAULT_TTL
                return replace(request, messages=messages, stream=False), ttl
            is_end = False
    for text in () if request.system is None or isinstance(request.system, str) else reversed(request.system):
        if (point := mark_of(text.extra)) is not None:
            return None, point.ttl or request.cache_ttl or DEFAULT_TTL
    return None


def account_prefix(target: Target, /) -> str:
    """How the keys of the stored prompts of one account begin in the index."""
    account = f"{target.provider}\0{target.base_url}\0{target.api_key or ''}"
    return f"prompt:{sha256(account.encode()).hexdigest()[:32]}:"


class _Cached:
    """One attempt with a stored beginning of its prompt."""

    def __init__(
        self, caches: WirePromptCaches, target: Target, call: CallContext, beginning: Request | None, ttl: int
    ) -> None:
        self._caches = caches
        self._target = target
        self._call = call
        self._beginning = beginning
        self._ttl = ttl
        self._recalled: tuple[str, str] | None = None
        """The key and the name of a beginning that was stored before."""

    def run(self, request: Request) -> Plan[Completed]:
        call = replace(self._call, change_http=self._change)
        try:
            return (yield from attempt(request, self._target, call))
        except ProviderError as error:
            if self._recalled is None or error.status not in (400, 403, 404) or "cache" not in error.message.lower():
                raise
            key, _ = self._recalled
        yield Remember(key, None)
        return (yield from attempt(request, self._target, call))

    def _change(self, whole: HttpRequest) -> Plan[HttpRequest]:
        """The request that refers to its stored beginning, or the whole one with a notice."""
        beginning = None
        if self._beginning is not None:
            encode = wires.get(self._target.wire).client.encode_request
            beginning = yield from encode_with_media(self._beginning, self._target, self._call, encode)
        split = self._caches.split(whole, beginning, self._target, self._ttl)
        if split is None:
            return _with_notice(whole, "cache point", "the prompt cannot be divided here, so it is sent as a whole")
        key = account_prefix(self._target) + split.key
        copy: RemoteCopy | None = yield Recall(key)
        if copy is None or copy.seconds <= MARGIN:
            return (yield from self._create(key, split))
        if not copy.id:
            return _with_notice(whole, "cache point", "the provider refused to store this beginning a moment ago")
        self._recalled = key, copy.id
        if copy.seconds < self._ttl / 2:
            yield from self._renew(key, copy.id)
        return self._caches.use(split, copy.id)

    def _create(self, key: str, split: CacheSplit) -> Plan[HttpRequest]:
        self._recalled = None
        try:
            response = yield from send_extra_request(split.create, self._target, self._call)
            stored = self._caches.decode(response)
        except _FAILURES as error:
            yield Remember(key, RemoteCopy("", REFUSED_TTL))
            return _with_notice(split.whole, "cache point", f"not stored, so the whole prompt is sent: {error.message}")
        yield Remember(key, RemoteCopy(stored.name, float(self._ttl)))
        size = "the beginning of the prompt" if stored.tokens is None else f"{stored.tokens} tokens"
        why = f"stored {size} for {self._ttl} s as {stored.name}; the provider bills the storage by tokens and hours"
        return _with_notice(self._caches.use(split, stored.name), "cost of a cache", why)

    def _renew(self, key: str, name: str) -> Plan[None]:
        """Let a beginning live longer; if that fails, it is used as long as it is there."""
        try:
            yield from send_extra_request(self._caches.renew(name, self._target, self._ttl), self._target, self._call)
        except _FAILURES:
            return
        yield Remember(key, RemoteCopy(name, float(self._ttl)))


def _with_notice(http: HttpRequest, what: str, why: str) -> HttpRequest:
    return replace(http, notices=(*http.notices, Notice(kind="info", what=what, why=why)))


def delete_prompts(target: Target, call: CallContext, /) -> Plan[int]:
    """Delete all stored beginnings of prompts that the index knows for the account of a target. Returns how many."""
    caches = wires.get(target.wire).prompt_caches
    if caches is None:
        return 0
    copies: dict[str, RemoteCopy] = yield RecallAll(account_prefix(target))
    count = 0
    for key, copy in copies.items():
        if copy.id:
            try:
                yield from send_extra_request(caches.delete(copy.id, target), target, call)
            except ProviderError as error:
                if error.status not in (403, 404):  # it is gone already
                    raise
            count += 1
        yield Remember(key, None)
    return count
