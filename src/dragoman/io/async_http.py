"""A connection on asyncio, for async calls.

The protocol feeds what arrives straight to the parser and wakes the one task that waits. A cancelled task aborts the
transport, which closes the socket at once, whatever the stage. Idle connections belong to an event loop; they are
closed when that loop shuts down its async generators, as `asyncio.run` does.
"""

import asyncio
import math
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, cast

from dragoman.errors import DragomanError
from dragoman.io.connect import STAGGER, Address, Addresses, Destination, is_address, ordered, resolve
from dragoman.io.connection_pool import Pool, discard_unsent, watch
from dragoman.io.http1 import ResponseParser

if TYPE_CHECKING:
    from ssl import SSLContext

MAX_BUFFERED = 128 * 1024
"""Bytes of a body that may wait to be read before the server is held back."""
READ_SIZE = 64 * 1024
"""Bytes that are read at once."""
DRAIN_SECONDS = 1.0
"""How long the end of a response may take after its last event; the caller does not wait for it."""


class _Buffers(threading.local):
    """One buffer for all connections of a thread: an event loop reads one after the other."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_SIZE))


_BUFFERS = _Buffers()


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection. `connect` it first; `is_new` says that no request has been answered on it yet."""

    __slots__ = ("_drain", "_ends", "_error", "_is_lost", "_is_paused", "_loop", "_pool", "_timer", "_transport",
                 "_waiter", "_watch", "destination", "idle_since", "is_aborted", "is_connected", "is_new",
                 "parser")  # fmt: skip

    def __init__(
        self, destination: Destination, pool: "Pool[AsyncConnection]", loop: asyncio.AbstractEventLoop
    ) -> None:
        self.destination = destination
        self.parser = ResponseParser()
        self.idle_since = 0.0
        self.is_new = True
        self.is_connected = False
        self.is_aborted = False
        self._loop = loop
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ends = math.inf
        """When the wait of `_waiter` is over."""
        self._timer: asyncio.TimerHandle | None = None
        """Looks at `_ends`. It is not stopped after a wait: the next one is over later, so it can use it, too."""
        self._error: Exception | None = None
        self._is_lost = False
        self._is_paused = False
        self._drain: asyncio.TimerHandle | None = None
        self._watch: Callable[[], object] | None = None

    def __enter__(self) -> None:
        """Whatever is raised in this block closes the connection."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.close()

    # What asyncio calls ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is connected."""
        self._transport = cast("asyncio.Transport", transport)
        # uvloop collects what is written until all that is ready has run, unless its buffer would be full. A request is
        # one write, and the provider can work on it while the others run.
        self._transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - how much comes is not known before
        """Where the next bytes go.

        A plain protocol would get new bytes for each read. asyncio makes room for 256 KiB then, which the system may
        have to map, clear and unmap each time: a third of the cost of a call, or nothing, as the heap happens to be.
        """
        return _BUFFERS.view

    def buffer_updated(self, nbytes: int) -> None:
        """Some bytes are in the buffer. The parser copies what it keeps."""
        try:
            self.parser.feed(_BUFFERS.view[:nbytes])
        except DragomanError as error:
            self._error = error
            self.close()
        if self._drain is not None:
            self._drained()
            return
        if self._waiter is not None:
            self._wake()
        # Also if a call waits: uvloop may read many pieces before the call continues.
        if self.parser.buffered > MAX_BUFFERED and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """The server will send nothing more; asyncio closes the transport."""
        self.parser.feed(b"")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._is_lost = True
        self._error = self._error or exc
        self.parser.end()
        self._stop_draining()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    # What callers do -------------------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and nothing came since the last response."""
        return not self._is_lost and self.parser.keeps_alive and not self._is_closed_by_server()

    def send(self, data: bytes, /) -> None:
        """Send a request."""
        if self._transport is not None:
            self._transport.write(data)

    def receive(self, ends: float | None, /) -> "asyncio.Future[None]":
        """Wait for more of the response, or for the end of the connection, until a moment; then TimeoutError."""
        if self._is_lost or self._error is not None:
            raise self._error or ConnectionResetError("the server closed the connection")
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        waiter = self._waiter = self._loop.create_future()
        if ends is None:
            self._ends = math.inf
        else:
            if self._timer is None or ends < self._ends:
                self._start_timer(ends)
            self._ends = ends
        return waiter

    def _start_timer(self, ends: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, ends - time.monotonic()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done() or self._ends == math.inf:
            return
        if time.monotonic() < self._ends:  # another wait than that for which the timer was started
            self._start_timer(self._ends)
        else:
            waiter.set_exception(TimeoutError())

    def release(self) -> None:
        """The response was read to its end: keep the connection if the server does."""
        # Not `is_usable`: to ask the socket is a system call, and the pool does it when the connection is used again.
        if not self._is_lost and self.parser.keeps_alive:
            self.is_new = False
            self._pool.put(self.destination, self, time.monotonic())
        else:
            self.close()

    def drain(self) -> None:
        """The rest of the response is not needed: keep the connection if its end comes soon, without waiting for it."""
        if self.parser.complete or self._is_lost or self._transport is None:
            self.release()
            return
        if self._is_paused:
            self._transport.resume_reading()
        self._pool.waiting.add(self)
        self._drain = self._loop.call_later(DRAIN_SECONDS, self.close)

    def close(self) -> None:
        """Close it now."""
        if self._transport is not None and not self._loop.is_closed():
            if self._transport.get_write_buffer_size() > 0:
                discard_unsent(self._transport.get_extra_info("socket"))
            self._transport.abort()

    def abort(self) -> None:
        """End the call that waits on it; in the thread of the loop."""
        self.is_aborted = True
        self.close()

    def _is_closed_by_server(self) -> bool:
        # The event loop may not have run since the server closed the connection, so the socket itself is checked.
        transport = self._transport
        if transport is None or transport.is_closing():
            return True
        try:
            if self._watch is None:
                self._watch = watch(transport.get_extra_info("socket"))
            return bool(self._watch())
        except (OSError, ValueError):
            return True

    def _drained(self) -> None:
        self.parser.take()
        if self.parser.complete:
            self._stop_draining()
            self.release()

    def _stop_draining(self) -> None:
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None
            self._pool.waiting.discard(self)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():  # done: its task was cancelled, or the time is over
            waiter.set_result(None)

    # Connecting ------------------------------------------------------------------------------------------------------

    async def connect(self, ends: float | None, /, *, tls: "SSLContext | None", address: str | None = None) -> None:
        """Connect, until a moment; `address` is where the host is known to be."""
        async with asyncio.timeout(None if ends is None else ends - time.monotonic()):
            host, port = self.destination.next_hop
            sock = await _connect(self._loop, ordered(await _resolve(self._loop, address or host, port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                if self.destination.is_tunnel and tls is not None:
                    await self._open_tunnel(sock, tls)
                elif tls is not None:
                    await self._loop.create_connection(
                        lambda: self, sock=sock, ssl=tls, server_hostname=self.destination.host
                    )
                else:
                    await self._loop.create_connection(lambda: self, sock=sock)
                self.is_connected = True
            finally:
                if not self.is_connected:
                    sock.close()
        if self.is_aborted:
            raise ConnectionAbortedError

    async def _open_tunnel(self, sock: socket.socket, tls: "SSLContext") -> None:
        plain = AsyncConnection(self.destination, self._pool, self._loop)
        transport, _ = await self._loop.create_connection(lambda: plain, sock=sock)
        with plain:
            plain.send(self.destination.connect_request())
            while not plain.parser.has_head:
                await plain.receive(None)
            if plain.parser.status != 200:
                raise ConnectionRefusedError(f"the proxy answered {plain.parser.status}")
            self._transport = await self._loop.start_tls(transport, self, tls, server_hostname=self.destination.host)


async def _connect(loop: asyncio.AbstractEventLoop, addresses: list[Address]) -> socket.socket:
    """Connect to the first address that answers; the next one is tried if one fails, or after a moment."""
    if len(addresses) == 1:
        return await _connect_to(loop, addresses[0])
    failure: BaseException = OSError("the host has no address")
    waiting = addresses[::-1]
    attempts: set[asyncio.Task[socket.socket]] = set()
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(loop.create_task(_connect_to(loop, waiting.pop())))
            done, _ = await asyncio.wait(
                attempts, timeout=STAGGER if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            attempts -= done
            for attempt in done:
                error = attempt.exception()
                if error is None:
                    attempts |= done - {attempt}
                    return attempt.result()
                failure = error
        raise failure
    finally:
        for attempt in attempts:
            attempt.add_done_callback(_close_late)
            attempt.cancel()


def _close_late(attempt: "asyncio.Task[socket.socket]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _connect_to(loop: asyncio.AbstractEventLoop, address: Address) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    is_connected = False
    try:
        sock.setblocking(False)  # noqa: FBT003 - the API of sockets
        await loop.sock_connect(sock, where)
        is_connected = True
    finally:
        if not is_connected:
            sock.close()
    return sock


async def _resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[Address]:
    if is_address(host):
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    future: asyncio.Future[list[Address]] = loop.create_future()

    def set_result(result: Addresses) -> None:
        if future.done():
            return
        if isinstance(result, OSError):
            future.set_exception(result)
        else:
            future.set_result(result)

    def done(result: Addresses) -> None:
        try:
            loop.call_soon_threadsafe(set_result, result)
        except RuntimeError:  # the loop is closed: no call waits for it
            return

    resolve(host, port, done)
    return await future


# Pools ----------------------------------------------------------------------------------------------------------------


class LoopPools:
    """The connections of each event loop."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, Pool[AsyncConnection]] = {}
        self._closers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    def known(self, loop: asyncio.AbstractEventLoop) -> "Pool[AsyncConnection] | None":
        """The pool of the running loop; None before its first call."""
        return self._pools.get(loop)

    async def current(self, loop: asyncio.AbstractEventLoop) -> "Pool[AsyncConnection]":
        """The pool of the running loop, also a new one."""
        pool = self._pools.get(loop)
        if pool is None:
            for other in list(self._pools):
                if other.is_closed():
                    self._remove(other)
            pool = self._pools[loop] = Pool()
            closer = self._closers[loop] = self._close_with(loop, pool)
            await anext(closer)
        return pool

    def close(self) -> None:
        """Close all; connections of another thread's loop are closed by that loop."""
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                self._remove(loop)
            elif loop is asyncio._get_running_loop() or not loop.is_running():  # noqa: SLF001 - raises nothing
                pool.close()
            else:
                loop.call_soon_threadsafe(pool.close)

    async def _close_with(
        self, loop: asyncio.AbstractEventLoop, pool: "Pool[AsyncConnection]"
    ) -> AsyncGenerator[None, None]:
        """Closes a pool when its loop shuts down its async generators."""
        try:
            yield
        finally:
            pool.close()
            self._remove(loop)
            await asyncio.sleep(0)  # asyncio closes sockets in the next turn of the loop

    def _remove(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pools.pop(loop, None)
        self._closers.pop(loop, None)
