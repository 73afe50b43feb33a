"""The adapter for granian, an RSGI server. A client that disconnects cancels its request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, Self

from dragoman.gateway.accounting.accounting import CLIENT_CLOSED_REQUEST
from dragoman.gateway.app import App
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, BodyTooSlow, HeadTooLarge
from dragoman.gateway.server.backpressure import ClientTooSlow, StreamPressure
from dragoman.gateway.server.limits import MAX_DRAINED, MAX_HEADERS, BodyBytes
from dragoman.gateway.server.response import GatewayResponse
from dragoman.gateway.server.websocket import SocketSession
from dragoman.http import HttpRequest

WATCH_DELAY = 0.02
"""Seconds before we watch for the client to disconnect: most requests are faster, and do not pay for it."""

SMALL_BODY = 64 * 1024
"""Bytes of a body that is read in one piece; a larger one is counted as it arrives."""
CHUNKED = "transfer-encoding"
DRAIN_TIMEOUT = 5.0
"""Seconds for which the body of a refused request is read and dropped."""


class RsgiHeaders(Protocol):
    """The headers of a request."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names in lower case, and values."""
        ...


class Scope(Protocol):
    """What granian knows of a request before its body."""

    proto: str
    method: str
    path: str
    query_string: str
    client: str
    server: str

    @property
    def headers(self) -> RsgiHeaders: ...


class GranianTransport(Protocol):
    """Where a streamed response is written."""

    def send_bytes(self, data: bytes, /) -> Awaitable[None]:
        """Puts the data into a queue; it never waits for the client."""
        ...


class HttpProtocol(Protocol):
    """What granian gives us to read the body and to respond."""

    def __call__(self) -> Awaitable[bytes]:
        """The whole body."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body in pieces."""
        ...

    def client_disconnect(self) -> Awaitable[None]:
        """Returns when the client has disconnected."""
        ...

    def response_empty(self, status: int, headers: list[tuple[str, str]], /) -> None: ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes, /) -> None: ...

    def response_stream(self, status: int, headers: list[tuple[str, str]], /) -> GranianTransport: ...


class SocketMessage(Protocol):
    """A message of a WebSocket."""

    kind: int
    """0 at the end of the connection."""
    data: str | bytes


class SocketTransport(Protocol):
    """A WebSocket that was accepted."""

    def receive(self) -> Awaitable[SocketMessage]: ...

    def send_str(self, data: str, /) -> Awaitable[None]: ...


class SocketProtocol(Protocol):
    """What granian gives us to accept or refuse a WebSocket."""

    def accept(self) -> Awaitable[SocketTransport]: ...

    def close(self, status: int | None = None, /) -> object:
        """Before `accept`, the status is that of the HTTP response; after it, nothing more is sent."""
        ...


class Rsgi:
    """The app as an RSGI application."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __rsgi__(self, scope: Scope, protocol: Any) -> None:
        if scope.proto == "http":
            await self._serve(scope, protocol)
        else:
            await self._serve_socket(scope, protocol)

    async def _serve_socket(self, scope: Scope, protocol: SocketProtocol) -> None:
        path = f"{scope.path}?{scope.query_string}" if scope.query_string else scope.path
        http = HttpRequest(method=scope.method, path=path, headers=dict(scope.headers.items()))
        hooks = await self._app.open_socket(http)
        if isinstance(hooks, GatewayResponse):
            protocol.close(hooks.status)
            return
        timeout = self._app.runtime.config.gateway.write_timeout
        pressure = StreamPressure(scope.client, scope.server, timeout)
        try:
            socket = _GranianSocket(await protocol.accept(), pressure, timeout)
            await SocketSession(self._app, http, hooks, socket).run()
        finally:
            pressure.close()
            protocol.close()

    async def _serve(self, scope: Scope, protocol: HttpProtocol) -> None:
        headers = dict(scope.headers.items())
        path = f"{scope.path}?{scope.query_string}" if scope.query_string else scope.path
        client = _Client(headers, protocol, self._app.runtime.config.gateway)
        try:
            response = await self._app.answer(HttpRequest(method=scope.method, path=path, headers=headers), client.read)
            if isinstance(response.body, bytes):
                protocol.response_bytes(response.status, response.headers, response.body)
                await client.drain()
            else:
                pressure = StreamPressure(scope.client, scope.server, self._app.runtime.config.gateway.write_timeout)
                stream = protocol.response_stream(response.status, response.headers)
                with _StreamWriter(stream, pressure) as writer:
                    await response.body(writer.write)
        except asyncio.CancelledError:
            if not client.is_disconnected:
                raise
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        except (ClientTooSlow, _protocol_closed()):
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        finally:
            client.end()


def _protocol_closed() -> type[Exception]:
    # Imported only after an error: it is slow, and the app runs without granian, too.
    error: type[Exception] = import_module("granian.rsgi").ProtocolClosed
    return error


class _StreamWriter:
    """Holds granian's transport only until the stream ends: the traceback of an error would keep it open."""

    __slots__ = ("_pressure", "_transport")

    def __init__(self, transport: GranianTransport, pressure: StreamPressure) -> None:
        self._transport = transport
        self._pressure = pressure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pressure.close()
        del self._transport

    def write(self, data: bytes) -> Awaitable[None]:
        # granian itself never makes a writer wait.
        if self._pressure.is_due:
            return self._write_slowly(data)
        self._pressure.add(len(data))
        return self._transport.send_bytes(data)

    async def _write_slowly(self, data: bytes) -> None:
        await self._pressure.wait()
        self._pressure.add(len(data))
        await self._transport.send_bytes(data)


class _GranianSocket:
    """A WebSocket of granian. Its `send` waits for slow clients as a stream does."""

    def __init__(self, transport: SocketTransport, pressure: StreamPressure, write_timeout: float) -> None:
        self._transport = transport
        self._pressure = pressure
        self._timeout = write_timeout

    async def receive(self) -> bytes | None:
        try:
            message = await self._transport.receive()
        except _protocol_closed():
            return None
        if message.kind == 0:
            return None
        return message.data.encode() if isinstance(message.data, str) else message.data

    async def send(self, message: bytes) -> None:
        if self._pressure.is_due:
            await self._pressure.wait()
        self._pressure.add(len(message))
        try:
            async with asyncio.timeout(self._timeout):
                await self._transport.send_str(message.decode())
        except _protocol_closed() as error:
            raise ConnectionResetError("the client closed the WebSocket") from error


class _Client:
    """The client of one request: reads its body, and cancels the current task if it disconnects or is too slow."""

    __slots__ = (
        "_headers",
        "_is_late",
        "_limits",
        "_protocol",
        "_task",
        "_timer",
        "_waiting",
        "is_body_over",
        "is_disconnected",
    )

    def __init__(self, headers: dict[str, str], protocol: HttpProtocol, limits: GatewaySettings) -> None:
        self.is_body_over = False
        """Whether nothing more of the body will be read."""
        self.is_disconnected = False
        self._is_late = False
        self._headers = headers
        self._protocol = protocol
        self._limits = limits
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._waiting: asyncio.Future[None] | None = None
        self._timer = loop.call_later(WATCH_DELAY, self._start)

    async def read(self, body_bytes: BodyBytes) -> bytes:
        """The body."""
        if sum(map(len, self._headers)) + sum(map(len, self._headers.values())) > MAX_HEADERS:
            # granian (2.8) takes larger ones if it speaks HTTP/1 only.
            raise HeadTooLarge(f"the headers are larger than {MAX_HEADERS} bytes")
        try:
            body = await self._read(body_bytes)
        except asyncio.CancelledError:
            if not self._is_late:
                raise
            raise BodyTooSlow(f"the body did not arrive within {self._limits.body_timeout} s") from None
        except _protocol_closed():
            self.is_disconnected = True
            raise asyncio.CancelledError from None
        self.is_body_over = True
        return body

    async def _read(self, body_bytes: BodyBytes) -> bytes:
        limit = self._limits.max_body
        if (length := self._headers.get("content-length")) is not None:
            if int(length) <= min(SMALL_BODY, limit):
                body_bytes.add(int(length))
                return await self._protocol()
            if int(length) > limit and ("expect" in self._headers or int(length) > limit + MAX_DRAINED):
                self.is_body_over = True
                raise BodyTooLarge(f"the body has {length} bytes; the limit is {limit}")
        pieces: list[bytes] = []
        size = 0
        async for piece in self._protocol:
            size += len(piece)
            if size <= limit:
                body_bytes.add(len(piece))
                pieces.append(piece)
            elif size > limit + MAX_DRAINED:
                break
        if size > limit:
            self.is_body_over = True
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        return b"".join(pieces)

    async def drain(self) -> None:
        """Read and drop a body that was refused: many clients read no response before they sent their whole body."""
        if self.is_body_over or (self._headers.get("content-length", "0") == "0" and CHUNKED not in self._headers):
            return
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                async for piece in self._protocol:
                    size += len(piece)
                    if size > MAX_DRAINED:
                        return

    def end(self) -> None:
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _start(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait())
        if not self.is_body_over:
            self._timer = asyncio.get_running_loop().call_later(self._limits.body_timeout, self._expire)

    def _expire(self) -> None:
        if not self.is_body_over and self._task is not None:
            self._is_late = True
            self._task.cancel()

    async def _wait(self) -> None:
        await self._protocol.client_disconnect()
        self.is_disconnected = True
        if self._task is not None:
            self._task.cancel()
