"""The adapter for granian, an RSGI server. A client that disconnects cancels its request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from importlib import import_module
from typing import Protocol, Self

from dragoman.errors import DragomanError
from dragoman.gateway.accounting.accounting import CLIENT_CLOSED_REQUEST
from dragoman.gateway.app import App
from dragoman.gateway.errors import BodyTooLarge, BodyTooSlow
from dragoman.gateway.server.limits import MAX_DRAINED
from dragoman.gateway.server.response import GatewayResponse
from dragoman.http import HttpRequest

WATCH_DELAY = 0.05
"""Seconds before we watch for the client to disconnect: most requests are faster, and do not pay for it."""


class Headers(Protocol):
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

    @property
    def headers(self) -> Headers: ...


class GranianTransport(Protocol):
    """Where a streamed response is written."""

    def send_bytes(self, data: bytes, /) -> Awaitable[None]:
        """Returns when there is room for more."""
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


class Rsgi:
    """The app as an RSGI application."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __rsgi__(self, scope: Scope, protocol: HttpProtocol) -> None:
        watch = _ClientWatch(protocol, self._app.runtime.config.gateway.body_timeout)
        try:
            response = await self._answer(scope, protocol, watch)
            if isinstance(response.body, bytes):
                protocol.response_bytes(response.status, response.headers, response.body)
            else:
                with _StreamWriter(protocol.response_stream(response.status, response.headers)) as writer:
                    await response.body(writer.write)
        except asyncio.CancelledError:
            if not watch.is_disconnected:
                raise
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        except _protocol_closed():
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        finally:
            watch.end()

    async def _answer(self, scope: Scope, protocol: HttpProtocol, watch: "_ClientWatch") -> GatewayResponse:
        headers = dict(scope.headers.items())
        path = f"{scope.path}?{scope.query_string}" if scope.query_string else scope.path
        limits = self._app.runtime.config.gateway
        error: DragomanError
        try:
            body = await _read(headers, protocol, limits.max_body)
        except BodyTooLarge as too_large:
            error = too_large
        except asyncio.CancelledError:
            if not watch.is_late:
                raise
            error = BodyTooSlow(f"the body did not arrive within {limits.body_timeout} s")
        else:
            watch.has_body = True
            return await self._app.answer(HttpRequest(method=scope.method, path=path, headers=headers, body=body))
        return self._app.refuse(HttpRequest(method=scope.method, path=path, headers=headers), error)


def _protocol_closed() -> type[Exception]:
    # Imported only after an error: it is slow, and the app runs without granian, too.
    error: type[Exception] = import_module("granian.rsgi").ProtocolClosed
    return error


class _StreamWriter:
    """Holds granian's transport only until the stream ends: the traceback of an error would keep it open."""

    __slots__ = ("_transport",)

    def __init__(self, transport: GranianTransport) -> None:
        self._transport = transport

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._transport

    def write(self, data: bytes) -> Awaitable[None]:
        return self._transport.send_bytes(data)


async def _read(headers: dict[str, str], protocol: HttpProtocol, max_body: int) -> bytes:
    if (length := headers.get("content-length")) is not None:
        if int(length) <= max_body:
            return await protocol()
        if "expect" in headers or int(length) > max_body + MAX_DRAINED:
            raise BodyTooLarge(f"the body has {length} bytes; the limit is {max_body}")
    pieces: list[bytes] = []
    size = 0
    async for piece in protocol:
        size += len(piece)
        if size <= max_body:
            pieces.append(piece)
        elif size > max_body + MAX_DRAINED:
            break
    if size > max_body:
        raise BodyTooLarge(f"the body is larger than {max_body} bytes")
    return b"".join(pieces)


class _ClientWatch:
    """Cancels the current task if the client disconnects or its body is too slow."""

    __slots__ = ("_body_timeout", "_protocol", "_task", "_timer", "_waiting", "has_body", "is_disconnected", "is_late")

    def __init__(self, protocol: HttpProtocol, body_timeout: float) -> None:
        self.has_body = False
        self.is_disconnected = False
        self.is_late = False
        self._protocol = protocol
        self._body_timeout = body_timeout
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._waiting: asyncio.Future[None] | None = None
        self._timer = loop.call_later(WATCH_DELAY, self._start)

    def end(self) -> None:
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _start(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait())
        if not self.has_body:
            self._timer = asyncio.get_running_loop().call_later(self._body_timeout, self._expire)

    def _expire(self) -> None:
        if not self.has_body and self._task is not None:
            self.is_late = True
            self._task.cancel()

    async def _wait(self) -> None:
        await self._protocol.client_disconnect()
        self.is_disconnected = True
        if self._task is not None:
            self._task.cancel()
