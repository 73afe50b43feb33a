"""Responses that run in the background: clients fetch, follow or cancel them while they run.

A response runs in the worker that took the request; its events are in the memory of that worker. The store has a
snapshot and the input for the other workers and for a response without an answer, a mark if a client cancels it through
another worker, and its events if a client of another worker follows it (`shared_events.py`). While it runs, its worker
renews a lease, which expires soon: a response without an end and without a lease has failed, because its worker died.

A response goes on even if nobody reads it, so what it holds is limited: the bytes of its events, the bytes of all
responses of the worker, and the number of responses of a key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, StoreDown, TooLarge, Truncated
from dragoman.events import Started
from dragoman.gateway.errors import Busy
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.response import GatewayResponse, Write, with_headers
from dragoman.gateway.shared_events import PING, EventReader, EventWriter
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, read_value, store_key
from dragoman.types import Finish, JsonObject, Message, Response, dump, load
from dragoman.wires.base import ResponseProgress, WireBackground
from dragoman.wires.common.server_endpoints import (
    CancelResponse,
    EndpointRequest,
    FetchResponse,
    ResponseContinuation,
    StoredResponse,
)

LEASE = 30.0
"""Seconds after its last renewal for which a response counts as running."""
RENEWAL = 10.0
CHECK = 0.5
"""Seconds between two checks for a mark of another worker."""
CANCEL_TIMEOUT = 10.0
"""Seconds in which the worker of a response must notice that it is cancelled."""
SNAPSHOT_TTL = 30 * DAY
WORKER_STOPPED = "the worker of the response has stopped"
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of the events of one response; with more, it fails."""
MAX_ALL_BYTES = 16 * MAX_BYTES
"""Bytes of the events of all responses that run in this worker; the one that adds more fails."""
MAX_RUNNING = 100
"""Responses of one key that run in this worker at the same time."""
WriteAll: TypeAlias = Callable[[Write], Awaitable[None]]
EndWith: TypeAlias = Callable[[DragomanError], None]
_decode = msgspec.json.Decoder(JsonObject).decode


class RunningResponse:
    """One response that runs in this worker."""

    def __init__(
        self, key: tuple[str | None, str], progress: ResponseProgress, stored: StoredResponse, writer: EventWriter
    ) -> None:
        self.key = key
        self.progress = progress
        self.stored = stored
        """The response without an answer, for its input."""
        self.writer = writer
        """Writes its events for clients of other workers."""
        self.is_over = False
        self.is_cancelled = False
        self.task: asyncio.Task[None] | None = None
        self.size = 0
        """Bytes of its events."""
        self._waiters: set[asyncio.Event] = set()

    def add(self, data: bytes) -> None:
        """Add events of the stream."""
        self.size += len(data)
        self.progress.feed(data)
        self.notify()

    def notify(self) -> None:
        """Wake everyone who follows."""
        for waiter in self._waiters:
            waiter.set()

    async def follow(self, write: Write, /, *, start: int, ping: float) -> None:
        """Write the events from a number on, as they come, until the end."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            while True:
                changed.clear()
                frames, is_over = self.progress.frames[start:], self.is_over
                start += len(frames)
                if frames:
                    await write(b"".join(frames))
                elif is_over:
                    return
                elif not await _happens(changed, ping):
                    await write(PING)
        finally:
            self._waiters.discard(changed)


class BackgroundResponses:
    """All responses that run in this worker, and what the store says of others."""

    def __init__(self) -> None:
        self._running: dict[tuple[str | None, str], RunningResponse] = {}
        self._size = 0
        """Bytes of the events of all of them."""

    async def start(self, context: RequestContext, write_all: WriteAll, end_with: EndWith, /) -> RunningResponse:
        """Run a response; `write_all` writes its whole stream, and `end_with` ends that with an error."""
        wire, id = context.wire, context.response_id or ""
        if wire is None or wire.background is None or wire.continuation is None:
            raise InvalidRequest("background must be left out: this protocol has none", param="background")
        if sum(owner == context.owner for owner, _ in self._running) >= MAX_RUNNING:
            raise Busy(
                f"{MAX_RUNNING} responses of this key run in the background; wait until one ends, or cancel one",
                retry_after=1.0,
            )
        head = Started(id=id, model=context.model, created=int(time.time()))
        stored = _without_answer(wire.continuation, context, head)
        store, progress = context.runtime.store, wire.background.progress(context.request, head)
        writer = EventWriter(store, context.owner, id)
        running = RunningResponse((context.owner, id), progress, stored, writer)
        self._running[running.key] = running
        is_saved = False
        try:
            await _lease(store, running)
            await _save(store, running)
            await store.write(_input_key(*running.key), dump(stored), ttl=SNAPSHOT_TTL)
            is_saved = True
        finally:
            if not is_saved:
                del self._running[running.key]
        running.task = asyncio.create_task(self._run(running, store, write_all, end_with))
        await asyncio.sleep(0)  # a task that is cancelled before its first step does nothing, not even its end
        return running

    async def _run(self, running: RunningResponse, store: Store, write_all: WriteAll, end_with: EndWith) -> None:
        renewing = asyncio.create_task(_renew(running, store))

        async def write(data: bytes) -> None:
            running.add(data)
            self._size += len(data)
            if running.size > MAX_BYTES:
                end_with(TooLarge(f"the events of a response in the background exceed {MAX_BYTES} bytes"))
            elif self._size > MAX_ALL_BYTES:
                end_with(Busy(f"the events of all responses in the background exceed {MAX_ALL_BYTES} bytes"))
            await asyncio.sleep(0)  # here it ends; a provider that is fast enough would never make it wait

        try:
            await write_all(write)
        except asyncio.CancelledError:
            if not running.is_cancelled:
                raise
            running.progress.cancel()
        finally:
            renewing.cancel()
            with suppress(StoreDown):
                if store.is_shared:
                    await running.writer.write(running.progress.frames, is_last=True)
                await _save(store, running)
                if await store.version(store_key("response", *running.key)) is not None:  # it has the input, too
                    await store.delete(_input_key(*running.key))
            running.is_over = True
            running.notify()
            del self._running[running.key]
            self._size -= running.size

    async def answer(self, context: RequestContext, request: EndpointRequest, /) -> GatewayResponse | None:
        """The response to a client that asks for a response in the background; None for any other request."""
        if context.wire is None or (background := context.wire.background) is None:
            return None
        match request:
            case FetchResponse(id=id, options=None | int() as after):
                return await self._fetch(context, background, id, after)
            case CancelResponse(id=id):
                return await self._cancel(context, background, id)
            case _:
                return None

    async def drop(self, context: RequestContext, id: str, /) -> bool:
        """Cancel a response and forget it; False if there was none."""
        if (running := self._running.get((context.owner, id))) is not None:
            await _end(running)
        store = context.runtime.store
        await store.delete(_input_key(context.owner, id))
        return await store.delete(store_key("background", context.owner, id))

    async def wait(self) -> None:
        """Wait for all responses to end."""
        tasks = [running.task for running in self._running.values() if running.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def input_of(self, context: RequestContext, request: EndpointRequest, /) -> StoredResponse | None:
        """A response without its answer for a client that wants only its input: it runs, failed or was cancelled."""
        if not isinstance(request, FetchResponse) or isinstance(request.options, int | None):
            return None
        if (running := self._running.get((context.owner, request.id))) is not None:
            return running.stored
        key = _input_key(context.owner, request.id)
        return await read_value(context.runtime.store, key, lambda data: load(data, StoredResponse))

    async def _fetch(
        self, context: RequestContext, background: WireBackground, id: str, after: int | None
    ) -> GatewayResponse | None:
        running = self._running.get((context.owner, id))
        if running is None:
            snapshot = await self._stored(context, background, id)
            if snapshot is None:
                return None
            if after is not None:
                return await self._stream_from_store(context, background, id, after)
            return with_headers(background.encode(snapshot), context.response_headers())
        if after is None:
            return with_headers(background.encode(running.progress.snapshot), context.response_headers())
        return self.stream(context, running, start=after + 1)

    async def _stream_from_store(
        self, context: RequestContext, background: WireBackground, id: str, after: int
    ) -> GatewayResponse | None:
        """The events of a response that runs in another worker; None if it is complete in the meantime."""

        async def is_over() -> bool:
            snapshot = await self._stored(context, background, id)
            return snapshot is None or background.is_over(snapshot)

        reader = EventReader(context.runtime.store, context.owner, id, is_over)

        async def follow(write: Write, /, *, ping: float) -> None:
            try:
                await reader.follow(write, start=after + 1, ping=ping)
            except Truncated:
                if (snapshot := await self._stored(context, background, id)) is None:
                    raise
                await write(background.encode_failed(snapshot, reader.count))

        if not await is_over() and await reader.ask():
            return _event_stream(context, follow)
        snapshot = await self._stored(context, background, id)
        if snapshot is None:
            return None
        why = "has no answer" if background.is_over(snapshot) else "runs in another worker, which does not answer"
        raise InvalidRequest(f"stream must be left out: the response {why}; fetch it instead", param="stream")

    def stream(self, context: RequestContext, running: RunningResponse, /, *, start: int = 0) -> GatewayResponse:
        """The events of a response; a client that hangs up does not end it."""
        return _event_stream(context, partial(running.follow, start=start))

    async def _stored(self, context: RequestContext, background: WireBackground, id: str) -> JsonObject | None:
        """The snapshot of a response that runs elsewhere, failed or was cancelled; None if it is complete."""
        if await context.runtime.responses.load(context.owner, id) is not None:
            return None
        store = context.runtime.store
        # Read before the snapshot: a response that ends in between has its end there.
        lease = await store.read(store_key("lease", context.owner, id))
        snapshot = await read_value(store, store_key("background", context.owner, id), _decode)
        if snapshot is None:
            return None
        return (
            background.fail(snapshot, WORKER_STOPPED)
            if lease is None and not background.is_over(snapshot)
            else snapshot
        )

    async def _cancel(self, context: RequestContext, background: WireBackground, id: str) -> GatewayResponse | None:
        running = self._running.get((context.owner, id))
        if running is not None:
            await _end(running)
            return with_headers(background.encode(running.progress.snapshot), context.response_headers())
        store, deadline = context.runtime.store, time.monotonic() + CANCEL_TIMEOUT
        snapshot = await self._stored(context, background, id)
        if snapshot is not None and not background.is_over(snapshot):
            await store.write(store_key("cancel", context.owner, id), b"1", ttl=LEASE)
            while snapshot is not None and not background.is_over(snapshot) and time.monotonic() < deadline:
                await asyncio.sleep(CHECK / 2)
                snapshot = await self._stored(context, background, id)
        return None if snapshot is None else with_headers(background.encode(snapshot), context.response_headers())


def _event_stream(context: RequestContext, follow: "Callable[..., Awaitable[None]]") -> GatewayResponse:
    ping = context.runtime.config.gateway.ping
    headers = [("content-type", "text/event-stream"), ("cache-control", "no-cache"), *context.response_headers()]
    return GatewayResponse(200, headers, partial(follow, ping=ping))


def _without_answer(continuation: ResponseContinuation, context: RequestContext, head: Started) -> StoredResponse:
    message, finish = Message(role="assistant"), Finish(reason="stop")
    response = Response(id=head.id, model=head.model, created=head.created, message=message, finish=finish)
    return continuation.record(context.request, response)


async def _end(running: RunningResponse) -> None:
    """Cancel a response, and wait until it has ended."""
    running.is_cancelled = True
    if running.task is not None:
        running.task.cancel()
        await asyncio.wait((running.task,))


async def _renew(running: RunningResponse, store: Store) -> None:
    """Renew the lease and the snapshot, and end the response if a client cancelled it through another worker."""
    if not store.is_shared:
        return
    owner, id = running.key
    saved, renewed_at = running.progress.snapshot, time.monotonic()
    while True:
        await asyncio.sleep(CHECK)
        with suppress(StoreDown):
            if await store.read(store_key("cancel", owner, id)) is not None and running.task is not None:
                running.is_cancelled = True
                running.task.cancel()
                return
            await running.writer.write(running.progress.frames)
            if time.monotonic() - renewed_at > RENEWAL:
                renewed_at = time.monotonic()
                await _lease(store, running)
                if running.progress.snapshot is not saved:
                    saved = running.progress.snapshot
                    await _save(store, running)


def _input_key(owner: str | None, id: str) -> str:
    return store_key("background-input", owner, id)


async def _lease(store: Store, running: RunningResponse) -> None:
    owner, id = running.key
    await store.write(store_key("lease", owner, id), b"1", ttl=LEASE)


async def _save(store: Store, running: RunningResponse) -> None:
    owner, id = running.key
    await store.write(
        store_key("background", owner, id), msgspec.json.encode(running.progress.snapshot), ttl=SNAPSHOT_TTL
    )


async def _happens(event: asyncio.Event, timeout: float) -> bool:  # noqa: ASYNC109 - a ping is due then
    try:
        async with asyncio.timeout(timeout):
            return await event.wait()
    except TimeoutError:
        return False
