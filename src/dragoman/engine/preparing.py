"""A request and a target in, the HTTP request for it out: checked, its pictures fetched and fitted, encoded. A plan."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.effects import Compute, Fetch, Now, Plan
from dragoman.engine.structured_output import shape
from dragoman.errors import AuthFailed, DragomanError, ModelNotFound, TimedOut, Unsupported
from dragoman.http import MIN_SECRET, HttpRequest, redact_url
from dragoman.media import Media, MediaCache, has_result_media
from dragoman.targets.target import Target
from dragoman.types import Message, Notice, Request
from dragoman.wires.common.errors import copy_notes
from dragoman.wires.common.notices import NoticeCollector

FETCH_PATIENCE = 15.0
"""Seconds until a picture that is fetched must be there."""
Encode: TypeAlias = Callable[[Request, Target], HttpRequest]


def check(request: Request, target: Target, /) -> None:
    """Refuse what the target cannot do, so that a caller who skips the chain is told the truth, too.

    A forced choice, a schema that may be asked for in any way, and thinking are no part of it: where a target cannot do
    these, the nearest that there is is asked for and told in a notice, or refused where the request is strict.

    >>> from dragoman.targets.providers import target
    >>> check(Request(), target("ollama/x"))
    """
    _check(request, target, Media(request, target.capabilities))


def prepare(request: Request, target: Target, /) -> HttpRequest:
    """The exact HTTP request for a target; refused where it cannot be made or the key is not there.

    >>> from dragoman.targets.providers import target
    >>> prepare(Request(), target("ollama/x")).path
    '/api/chat'
    """
    try:
        return _Preparing(request, target, MediaCache()).encode(lambda: False)
    except Unsupported:
        if not has_result_media(request):
            raise
        return _Preparing(request, target, MediaCache(), spare=True).encode(lambda: False)


def prepared(
    request: Request,
    target: Target,
    deadline: float | None,
    /,
    *,
    album: MediaCache | None = None,
    fetch_images: bool = False,
    encode: Encode | None = None,
    spare: bool = False,
) -> Plan[HttpRequest]:
    """As `prepare`; pictures are fetched where that is wanted, and what takes long is done where it blocks nobody.

    `encode` makes something else of the fitted request than the wire's own call, as a question for its tokens. To
    `spare` the tools is to send words in the place of media in their results that the target cannot take.

    >>> from dragoman.targets.providers import target
    >>> from dragoman.types import Image, user
    >>> link = Request(messages=(user(Image(url="https://example.org/a.png")),))
    >>> next(prepared(link, target("ollama/x"), None, fetch_images=True))
    Now()
    """
    preparing = _Preparing(request, target, album or MediaCache(), encode, spare=spare)
    return (yield from preparing.run(deadline, fetch=fetch_images))


class _Preparing:
    """One request on its way to one target. Its media are gathered once."""

    def __init__(
        self, request: Request, target: Target, album: MediaCache, encode: Encode | None = None, *, spare: bool = False
    ) -> None:
        self._request = request
        self._target = target
        self._album = album
        self._spare = spare
        self._media = Media(request, target.capabilities, album, spare=spare)
        self._encode = encode or wires.get(target.wire).client.encode_request

    def run(self, deadline: float | None, *, fetch: bool) -> Plan[HttpRequest]:
        try:
            self._check()
            if fetch:
                yield from self._fetch(deadline)
            if not self._media.is_heavy:
                return self.encode(lambda: False)
            now: float = yield Now()
            http: HttpRequest = yield Compute(self.encode, left(deadline, now))
        except DragomanError as error:
            error.count_failure = False
            raise named(error, self._target) from error.__cause__
        return http

    def encode(self, stop: Callable[[], bool]) -> HttpRequest:
        target = self._target
        try:
            self._check()
            shaped = shape(self._request, target)
            try:
                http = self._sent(shaped.request, stop)
            except Unsupported as error:
                if not self._spare:
                    raise
                http = self._sent(shaped.request, stop, error)
        except DragomanError as error:
            raise named(error, target) from error.__cause__
        return replace(http, notices=shaped.notices + http.notices) if shaped.notices else http

    def _sent(self, asked: Request, stop: Callable[[], bool], bar: Unsupported | None = None) -> HttpRequest:
        """What is sent; `bar` is why the wire cannot carry what is in the results."""
        messages, bent = self._fit(stop, bar)
        http = self._encode(asked if asked.messages is messages else replace(asked, messages=messages), self._target)
        return replace(http, notices=bent + http.notices) if bent else http

    def _check(self) -> None:
        target = self._target
        _check(self._request, target, self._media)
        check_key(target)

    def _fit(self, stop: Callable[[], bool], bar: Unsupported | None) -> tuple[tuple[Message, ...], tuple[Notice, ...]]:
        """The messages with their media as the target takes them, and what was bent."""
        try:
            fitted = self._media.fit(stop, bar=bar)
        except Unsupported as error:
            raise _told_by(self._target, error) from error.__cause__
        if not fitted.notices:
            return fitted.request.messages, ()
        notes = NoticeCollector(self._target.name, strict=self._request.strict)
        for notice in fitted.notices:
            notes.add(notice.kind, notice.what, notice.why)
        return fitted.request.messages, notes.notices

    def _fetch(self, deadline: float | None) -> Plan[None]:
        """Put the pictures that the target cannot fetch into the album."""
        try:
            for url in self._media.urls:
                found = yield from _fetched(url, deadline, self._album.room)
                self._album.keep(url, found)
                if isinstance(found, Unsupported) and self._media.needs(url):
                    raise found
        except Unsupported as error:
            raise _told_by(self._target, error) from error.__cause__


def _fetched(url: str, deadline: float | None, room: int) -> Plan[bytes | Unsupported]:
    """The bytes of a picture, or why there are none."""
    now: float = yield Now()
    timeout = left(deadline, now, FETCH_PATIENCE)
    if room <= 0:
        return Unsupported(f"cannot fetch {redact_url(url)}: all bytes that pictures may have are used up")
    try:
        data: bytes = yield Fetch(url, timeout or FETCH_PATIENCE, room)
    except Unsupported as error:
        return error
    return data


def _check(request: Request, target: Target, media: Media) -> None:
    capabilities = target.capabilities
    if request.tools and not capabilities.tools:
        raise Unsupported(f"{target.name}: cannot take tools")
    if request.schema is not None and not capabilities.structured and request.schema_mode == "native":
        raise Unsupported(f"{target.name}: cannot take a schema for its answer")
    if request.stream and not capabilities.streaming:
        raise Unsupported(f"{target.name}: cannot take a wish for a stream")
    try:
        media.check()
    except Unsupported as error:
        raise _told_by(target, error) from error.__cause__


def check_key(target: Target, /) -> None:
    """Refuse a target that needs a key and has none.

    >>> check_key(Target(provider="p", model="m", wire="w", base_url="https://x", needs_key=True))
    Traceback (most recent call last):
        ...
    dragoman.errors.AuthFailed: p: no key; pass api_key=
    """
    if target.needs_key and not target.api_key:
        ways = [f"set {' or '.join(target.key_names)}"] if target.key_names else []
        # Nothing was sent: the target is not set up, and another one may be.
        raise AuthFailed(f"{target.provider}: no key; {' or '.join([*ways, 'pass api_key='])}", fail_over=True)


def _told_by(target: Target, error: Unsupported) -> Unsupported:
    return copy_notes(Unsupported(f"{target.name}: {error.message}"), [error])


def named(error: DragomanError, target: Target, http: HttpRequest | None = None, /) -> DragomanError:
    """The same with whose it is, also in its text, and without the key that a server said back.

    A 404 has the place that was asked.
    """
    error.provider = error.provider or target.provider
    error.model = error.model or target.model
    key = target.api_key or ""
    message = error.message
    if http is not None and error.status == 404 and isinstance(error, ModelNotFound):
        message = f"{message} (at {redact_url(http.url)})"
    if len(key) >= MIN_SECRET:
        message = message.replace(key, "[redacted]")
    is_named = message.startswith((f"{target.name}:", f"{target.provider}:"))
    error.message, error.args = message, (message if is_named else f"{target.name}: {message}",)
    if len(key) >= MIN_SECRET and error.code is not None:
        error.code = error.code.replace(key, "[redacted]")
    return error


def left(deadline: float | None, now: float, /, *limits: float | None) -> float | None:
    """The shortest of the time that is left and some limits; TimedOut where none is left.

    >>> left(10.0, 7.0, 5.0, None)
    3.0
    """
    if deadline is not None and deadline <= now:
        raise TimedOut("the deadline of the call has passed", count_failure=False)
    least = None if deadline is None else deadline - now
    for limit in limits:
        if limit is not None and (least is None or limit < least):
            least = limit
    return least
