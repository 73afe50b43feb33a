"""The response cache: answers to requests that are equal, for clients that want that.

Requests are equal if their canonical forms are: dialects do not matter, and a stream and a whole answer are the same.
The cache is a plan around the chain of targets. If equal requests run at the same time, one of them calls a target, and
the others wait for its answer. An answer is stored before the plan ends, so a later request finds it.
"""

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.engine.effects import Emit, Job, Plan, perform
from dragoman.errors import InvalidRequest, StoreDown
from dragoman.events import to_events
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.store import Store, open_store
from dragoman.types import Request, Response, is_object
from dragoman.types.base import encode_unknown
from dragoman.types.checks import shown

log = logging.getLogger("dragoman.gateway")

HEADER = "x-dragoman-cache"
CacheScope: TypeAlias = Literal["key", "team", "all"]
CacheStatus: TypeAlias = Literal["hit", "miss", "refresh", "skipped"]
"""What `X-Dragoman-Cache` says: from the cache, not in the cache, stored again, or too large for it."""
MAX_REQUEST = 1024 * 1024
"""Bytes of a request that is looked up: to compare larger ones takes too long."""
STORED_FINISHES = frozenset({"stop", "tool_calls", "length"})
"""Finish reasons of answers that are stored."""
STREAM_OPTIONS = "stream_options"
"""The field of Chat Completions that only streams have."""
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table [cache]."""

    store: str = "memory"
    """`memory`, `sqlite:PATH` (a file of its own) or `redis://...`."""
    ttl: Annotated[float, msgspec.Meta(gt=0, le=30 * 86_400, title="seconds")] = 3600.0
    """Seconds until an answer is deleted."""
    scope: CacheScope = "key"
    """Who shares answers: the clients of one key, of one team, or all."""
    always: bool = False
    """Whether all requests use the cache; else those of keys with `cache = true` and those that ask for it."""
    max_bytes: _Size = 64 * 1024 * 1024
    """Bytes of all answers. If there are more, the oldest are deleted."""
    max_answer: _Size = 1024 * 1024
    """Bytes of one answer that is stored."""

    def __repr__(self) -> str:
        # Without the URL of the store, which may have a password.
        return f"CacheSettings(scope={self.scope!r}, ttl={self.ttl:g})"


class ResponseCache:
    """The answers of one gateway process, or of all that share a store."""

    def __init__(self, settings: CacheSettings, /) -> None:
        self.settings = settings
        self._store: Store = open_store(settings.store, max_bytes=settings.max_bytes)
        self._running: dict[str, asyncio.Future[Response | None]] = {}
        """By key: the answer that a request of this process waits for."""

    def entry(self, model: str, key: Key | None, size: int, header: str | None, /) -> "CacheEntry | None":
        """The cache entry of a request; None if the request does not use the cache."""
        mode = _mode(header)
        is_wanted = self.settings.always or (key is not None and key.uses_cache)
        if mode == "off" or (mode is None and not is_wanted):
            return None
        entry = CacheEntry(self, model, self._owner(key), refresh=mode == "refresh")
        if size > MAX_REQUEST:
            entry.status = "skipped"
        return entry

    def _owner(self, key: Key | None) -> str:
        if key is None or self.settings.scope == "all":
            return ""
        return f"team {key.team}" if self.settings.scope == "team" and key.team is not None else f"key {key.id}"

    async def find(self, key: str, entry: "CacheEntry", /) -> Response | None:
        """The answer under a key. If another request is about to get it, wait for that.

        If there is none, the entry leads: it must call `end`, with or without an answer.
        """
        while True:
            running = self._running.get(key)
            if running is not None:
                # If that request fails, or its client leaves, one of those that wait calls a target itself.
                answer = await asyncio.shield(running)
                if answer is not None:
                    return answer
                continue
            # No other request can come between the check of `_running` and this line: there is no await.
            self._running[key] = asyncio.get_running_loop().create_future()
            entry.leads = True
            try:
                return await self._read(key)
            except asyncio.CancelledError:
                entry.end(None)
                raise

    async def _read(self, key: str) -> Response | None:
        try:
            value = await self._store.read(key)
        except StoreDown as error:
            log.warning("the response cache cannot be read: %s", error)
            return None
        if value is None:
            return None
        try:
            return _decode(value.value)
        except msgspec.MsgspecError:  # of another version
            return None

    async def save(self, key: str, response: Response, /) -> None:
        """Store an answer, if it is complete and not too large."""
        if response.finish.reason not in STORED_FINISHES or response.is_empty:
            return
        data = _ENCODER.encode(replace(response, attempts=(), request_id=None, rate_limits={}, cost=None))
        if len(data) > self.settings.max_answer:
            return
        try:
            await self._store.write(key, data, ttl=self.settings.ttl)
        except StoreDown as error:
            log.warning("the response cache cannot be written: %s", error)

    def end(self, key: str, response: Response | None, /) -> None:
        """Give the answer to the requests that wait for it; None if there is none."""
        running = self._running.pop(key, None)
        if running is not None and not running.done():
            running.set_result(response)

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()


class CacheEntry:
    """One request, as the cache sees it: its key, and what the cache did for it."""

    __slots__ = ("_cache", "_key", "_model", "_owner", "_refresh", "leads", "status")

    def __init__(self, cache: ResponseCache, model: str, owner: str, /, *, refresh: bool) -> None:
        self.status: CacheStatus | None = None
        """None until the cache was read."""
        self.leads = False
        """Whether other requests wait for the answer of this one."""
        self._cache = cache
        self._model = model
        self._owner = owner
        self._key = ""
        self._refresh = refresh

    def plan(self, make: Callable[[Request], Plan[Response]], request: Request, /) -> Plan[Response]:
        """The plan of a call that `make` makes, if the answer is not in the cache."""
        if self.status == "skipped":
            return (yield from make(request))
        cache = self._cache
        key = self._key = cache_key(request, self._model, self._owner)
        if self._refresh:
            self.status = "refresh"
            response = yield from make(request)
            yield from perform(Job(lambda: cache.save(key, response), is_quick=True))
            return response
        answer: Response | None = None
        try:
            result = yield from perform(Job(lambda: cache.find(key, self), is_quick=True))
            if result.error is not None:
                raise result.error
            if result.value is not None:
                self.status = "hit"
                stored: Response = result.value
                self.end(stored)
                yield Emit(to_events(stored), stored.target, stored.notices)
                return stored
            self.status = "miss"
            response = yield from make(request)
            yield from perform(Job(lambda: cache.save(key, response), is_quick=True))
            answer = response if response.finish.reason in STORED_FINISHES else None
            return response
        finally:
            self.end(answer)

    def end(self, answer: Response | None, /) -> None:
        """Give the answer to the requests that wait for it."""
        if self.leads:
            self.leads = False
            self._cache.end(self._key, answer)


def _mode(header: str | None) -> str | None:
    """What a request asks for: `on`, `off` or `refresh`."""
    if header is None:
        return None
    mode = header.strip().lower()
    if mode not in ("on", "off", "refresh"):
        raise InvalidRequest(f"{HEADER} must be on, off or refresh, got {shown(header[:40])}", param=HEADER)
    return mode


def cache_key(request: Request, model: str, owner: str, /) -> str:
    """The digest of a request, whether it is streamed or not, unless it asks for several answers."""
    extra = {
        name: {field: value for field, value in fields.items() if field != STREAM_OPTIONS}
        if is_object(fields)
        else fields
        for name, fields in request.extra.items()
    }
    extra = {name: fields for name, fields in extra.items() if fields}
    # A stream of a target without `n` has fewer answers.
    is_stream = request.stream and request.n is not None and request.n > 1
    canonical = _ENCODER.encode((owner, model, replace(request, stream=is_stream, extra=extra)))
    return f"answer:{sha256(canonical).hexdigest()}"


_ENCODER = msgspec.json.Encoder(enc_hook=encode_unknown, order="sorted")
_decode = msgspec.json.Decoder(Response).decode
