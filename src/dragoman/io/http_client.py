"""The default transport: HTTP/1.1 on plain sockets and on asyncio, with pooled connections.

There is no thread between the caller and the socket, and no library that owns the connection. So a cancelled call
closes its connection at once at every stage, Ctrl-C works, threads may come and go, and a call costs little.
docs/decisions/0008-http-client.md compares it with other clients.

The blocking and the async half mirror each other, and have connections of their own.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import ConnectFailed, ConnectTimeout, DragomanError, ReadTimeout, Reset
from dragoman.http import Head, HttpRequest, HttpResponse, redact_url
from dragoman.io.async_http import AsyncConnection, LoopPools
from dragoman.io.blocking_http import BlockingConnection
from dragoman.io.connect import Destination, destination_of, tls_context
from dragoman.io.connection_pool import Pool
from dragoman.io.forks import FORKS
from dragoman.io.http1 import RequestHead, ResponseParser, encode_head
from dragoman.io.transport import unsendable, with_date

if TYPE_CHECKING:
    from ssl import SSLContext

DRAIN_SECONDS = 0.02
"""How long a blocking caller waits for the end of a response after its last event; it comes at once or not at all."""
MAX_DESTINATIONS = 256
_FAULTS = (OSError, ValueError, DragomanError)
"""What a connection raises. TimeoutError and SSLError are OSErrors; a host name that TLS refuses is a ValueError."""
_RESPONSE = HttpResponse()
_OF_PARENT: list[object] = []
"""The async connections of the process that this one was forked from. To free them would disturb its event loops."""


class HttpClient:
    """The default transport: pooled connections, proxies of the environment, the trust store of the system.

    `ca` is a PEM file or its bytes, trusted in addition to the system's certificates; it is read when TLS is first
    used. `env` has the proxy variables; None means those of the process. Loopback addresses never go through a proxy.
    `pin` is a host and the address to use for it, without DNS and without a proxy.
    """

    def __init__(
        self,
        *,
        ca: "bytes | str | Path | SSLContext | None" = None,
        env: Mapping[str, str] | None = None,
        pin: tuple[str, str] | None = None,
    ) -> None:
        self._ca = ca
        self._env = env
        self._address = None if pin is None else pin[1]
        self._destinations: dict[str, Destination] = {}
        self._heads: dict[tuple[str, str], RequestHead] = {}
        """By origin and path: the head of the last request."""
        self._pool: Pool[BlockingConnection] = Pool()
        self._loop_pools = LoopPools()
        self._forks = FORKS.count

    def __repr__(self) -> str:
        return "HttpClient()"

    def close(self) -> None:
        """Close the connections: calls without an answer end with Reset, a later call opens new connections."""
        self._check_process()
        self._heads = {}  # they hold keys
        self._pool.close()
        self._loop_pools.close()

    # Blocking --------------------------------------------------------------------------------------------------------

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        ends = _moment(effect.total_timeout)
        head_ends = ends if effect.head_timeout is None else _earlier(ends, _moment(effect.head_timeout))
        connection = self._request(effect, head_ends, effect.limit)
        parser = connection.parser
        if not parser.complete:
            try:
                with connection:
                    while not parser.complete:
                        connection.receive(ends)
            except _FAULTS as error:
                _fail(error, effect.request, connection, "no complete answer in time")
        self._release(connection)
        return _response(parser)

    def open(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        ends = _moment(effect.total_timeout)
        connection = self._request(effect, _earlier(ends, _moment(effect.head_timeout)))
        head = _head(connection.parser)
        return OpenResponse(head, _BlockingHandle(self._release, connection, effect.request, ends))

    def _request(self, effect: Send | Open, ends: float | None, limit: int | None = None) -> BlockingConnection:
        """A connection on which the head of the answer has come."""
        destination, data = self._prepare(effect.request)
        now = time.monotonic()
        pool = self._pool
        connection = pool.get(destination, now) or BlockingConnection(destination)
        parser = connection.parser
        pool.waiting.add(connection)
        if effect.stopper is not None:
            connection.stopper = effect.stopper
            effect.stopper.attach(connection.abort)
        try:
            with connection:
                if not connection.is_connected:
                    connect_ends = None if effect.connect_timeout is None else now + effect.connect_timeout
                    connection.connect(
                        _earlier(ends, connect_ends), tls=self._tls if destination.tls else None, address=self._address
                    )
                    parser = connection.parser
                parser.start(limit)
                connection.send(data, ends)
                while not parser.has_head:
                    connection.receive(ends)
        except _FAULTS as error:
            _fail(error, effect.request, connection, "no answer in time")
        finally:
            pool.waiting.discard(connection)
        return connection

    def _release(self, connection: BlockingConnection) -> None:
        if connection.stopper is not None:
            connection.stopper.detach()
            connection.stopper = None
        if connection.parser.keeps_alive and not connection.is_aborted:
            connection.is_new = False
            self._pool.put(connection.destination, connection, time.monotonic())
        else:
            connection.close()

    # Async -----------------------------------------------------------------------------------------------------------

    async def asend(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        ends = _moment(effect.total_timeout)
        head_ends = ends if effect.head_timeout is None else _earlier(ends, _moment(effect.head_timeout))
        connection = await self._arequest(effect, head_ends, effect.limit)
        parser = connection.parser
        if not parser.complete:
            try:
                with connection:
                    while not parser.complete:
                        await connection.receive(ends)
            except _FAULTS as error:
                _fail(error, effect.request, connection, "no complete answer in time")
        answer = _response(parser)
        connection.release()
        return answer

    async def aopen(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        ends = _moment(effect.total_timeout)
        connection = await self._arequest(effect, _earlier(ends, _moment(effect.head_timeout)))
        head = _head(connection.parser)
        return OpenResponse(head, _AsyncHandle(connection, effect.request, ends))

    async def _arequest(self, effect: Send | Open, ends: float | None, limit: int | None = None) -> AsyncConnection:
        """A connection on which the head of the answer has come."""
        destination, data = self._prepare(effect.request)
        now = time.monotonic()
        loop = asyncio.get_running_loop()
        pool = self._loop_pools.known(loop) or await self._loop_pools.current(loop)
        connection = pool.get(destination, now) or AsyncConnection(destination, pool, loop)
        parser = connection.parser
        pool.waiting.add(connection)
        is_open = False
        try:
            if not connection.is_connected:
                connect_ends = None if effect.connect_timeout is None else now + effect.connect_timeout
                await connection.connect(
                    _earlier(ends, connect_ends), tls=self._tls if destination.tls else None, address=self._address
                )
            parser.start(limit)
            connection.send(data)
            while not parser.has_head:
                await connection.receive(ends)
            is_open = True
        except _FAULTS as error:
            _fail(error, effect.request, connection, "no answer in time")
        finally:
            pool.waiting.discard(connection)
            if not is_open:
                connection.close()
        return connection

    # Both ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _tls(self) -> "SSLContext":
        return tls_context(self._ca)

    def _prepare(self, request: HttpRequest) -> tuple[Destination, bytes]:
        """Where a request goes, and its bytes."""
        if self._forks != FORKS.count:
            self._check_process()
        head = self._heads.get((request.origin, request.path))
        if head is None or not head.fits(request):
            head = self._head(request)
        return head.destination, head.with_body(request.body)

    def _head(self, request: HttpRequest) -> RequestHead:
        head = encode_head(request, self._destinations.get(request.origin) or self._destination(request))
        if head is None:
            raise unsendable(request)
        if len(self._heads) >= MAX_DESTINATIONS:
            self._heads = {}
        self._heads[request.origin, request.path] = head
        return head

    def _destination(self, request: HttpRequest) -> Destination:
        env = os.environ if self._env is None else self._env
        destination = destination_of(request.origin, {} if self._address else env)
        if destination is None:
            raise unsendable(request)
        if len(self._destinations) >= MAX_DESTINATIONS:
            self._destinations = {}
        self._destinations[request.origin] = destination
        return destination

    def _check_process(self) -> None:
        """After a fork the connections belong to the parent; the child makes its own."""
        if self._forks != FORKS.count:
            self._forks = FORKS.count
            _OF_PARENT.append(self._loop_pools)
            self._pool.forget()
            self._loop_pools = LoopPools()


class _BlockingHandle:
    """An answer that is being read, blocking."""

    def __init__(
        self,
        release: Callable[[BlockingConnection], object],
        connection: BlockingConnection,
        request: HttpRequest,
        ends: float | None,
    ) -> None:
        self._release = release
        self._connection: BlockingConnection | None = connection
        self._request = request
        self._ends = ends

    def read(self, seconds: float | None, /) -> bytes:
        connection = self._connection
        if connection is None:
            raise _closed(self._request)
        parser = connection.parser
        if parser.needs_more:
            ends = _earlier(self._ends, _moment(seconds))
            try:
                with connection:
                    while parser.needs_more:
                        connection.receive(ends)
            except _FAULTS as error:
                _fail(error, self._request, connection, "no more data in time")
        return parser.take()

    def finish(self) -> None:
        """Keep the connection if the end of the answer is there or comes at once; else close it."""
        connection = self._connection
        if connection is None:
            return
        ends = time.monotonic() + DRAIN_SECONDS
        self._connection = None
        try:
            with connection:
                while not connection.parser.complete:
                    connection.receive(ends)
                    connection.parser.take()
        except _FAULTS:
            return
        self._release(connection)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.parser.complete:
            self._release(connection)
        else:
            connection.close()


class _AsyncHandle:
    """An answer that is being read, async."""

    def __init__(self, connection: AsyncConnection, request: HttpRequest, ends: float | None) -> None:
        self._connection: AsyncConnection | None = connection
        self._request = request
        self._ends = ends

    async def aread(self, seconds: float | None, /) -> bytes:
        """The next bytes that have arrived; b"" at the end. Other tasks have their turn after each piece of many."""
        connection = self._connection
        if connection is None:
            raise _closed(self._request)
        parser = connection.parser
        if parser.needs_more:
            ends = _earlier(self._ends, _moment(seconds))
            try:
                with connection:
                    while parser.needs_more:
                        await connection.receive(ends)
            except _FAULTS as error:
                _fail(error, self._request, connection, "no more data in time")
        elif parser.has_more:
            await asyncio.sleep(0)
        return parser.take_piece()

    async def afinish(self) -> None:
        """Let the connection read to the end by itself, and keep it then."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drain()

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.parser.complete:
            connection.release()
        else:
            connection.close()


def _head(parser: ResponseParser) -> Head:
    return Head(status=parser.status, headers=with_date(parser.status, parser.headers))


def _response(parser: ResponseParser) -> HttpResponse:
    headers = parser.headers if parser.status < 400 else with_date(parser.status, parser.headers)
    return replace(_RESPONSE, status=parser.status, headers=headers, body=parser.take())


def _moment(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _earlier(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


def _closed(request: HttpRequest) -> Reset:
    message = f"{redact_url(request.origin)}: the connection was closed during the request"
    return Reset(message, retry=False, fail_over=False, count_failure=False)


def _fail(
    error: Exception, request: HttpRequest, connection: BlockingConnection | AsyncConnection, timeout_message: str
) -> NoReturn:
    """Raise our error for what a connection raised. It does not quote the path, which may hold a key."""
    origin = redact_url(request.origin)
    parser = connection.parser
    if connection.is_aborted:
        raise _closed(request) from error
    if isinstance(error, DragomanError):
        raise error.annotate(message=f"{origin}: {error.message}")
    if not connection.is_connected:
        if isinstance(error, TimeoutError):
            raise ConnectTimeout(f"{origin}: no connection in time") from error
        raise ConnectFailed(
            f"{origin}: cannot connect: {_reason(error)}; check the base URL and the network"
        ) from error
    if isinstance(error, TimeoutError):
        raise ReadTimeout(f"{origin}: {timeout_message}", has_head=parser.has_head) from error
    message = f"{origin}: the connection broke: {_reason(error)}"
    if not connection.is_new and not parser.has_bytes:
        # The server had closed an idle connection: it has no fault, and a new connection works.
        raise Reset(message, count_failure=False, retry_after=0.0) from error
    raise Reset(message) from error


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text.partition("] ")[2] or text if text.startswith("[") else text
