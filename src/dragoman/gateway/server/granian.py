"""A request of an RSGI server (granian) in, the app's answer out; a client that hangs up cancels its call."""

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

PATIENCE = 0.05
"""Seconds before we ask whether the client is still there: most calls pay nothing for it."""


class Headers(Protocol):
    """Those of a request."""

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
    def headers(self) -> Headers:
        """Those of the request."""
        ...


class GranianTransport(Protocol):
    """Where a stream is written to."""

    def send_bytes(self, data: bytes, /) -> Awaitable[None]:
        """Comes back when there is room for more."""
        ...


class HttpProtocol(Protocol):
    """What granian gives us to read from and to answer by."""

    def __call__(self) -> Awaitable[bytes]:
        """The whole body."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        ...

    def client_disconnect(self) -> Awaitable[None]:
        """Comes back when the client has gone."""
        ...

    def response_empty(self, status: int, headers: list[tuple[str, str]], /) -> None:
        """An answer without a body."""
        ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes, /) -> None:
        """An answer with its body."""
        ...

    def response_stream(self, status: int, headers: list[tuple[str, str]], /) -> GranianTransport:
        """An answer whose body comes."""
        ...


class Rsgi:
    """The app as granian wants it."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __rsgi__(self, scope: Scope, protocol: HttpProtocol) -> None:
        """One request."""
        watch = _Watch(protocol, self._app.runtime.config.gateway.body_timeout)
        try:
            answer = await self._answer(scope, protocol, watch)
            if isinstance(answer.body, bytes):
                protocol.response_bytes(answer.status, answer.headers, answer.body)
            else:
                with _Sink(protocol.response_stream(answer.status, answer.headers)) as sink:
                    await answer.body(sink.write)
        except asyncio.CancelledError:
            if not watch.is_gone:
                raise
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        except _closed():
            protocol.response_empty(CLIENT_CLOSED_REQUEST, [])
        finally:
            watch.end()

    async def _answer(self, scope: Scope, protocol: HttpProtocol, watch: "_Watch") -> GatewayResponse:
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
            error = BodyTooSlow(f"the body did not come within {limits.body_timeout} s")
        else:
            watch.has_body = True
            return await self._app.answer(HttpRequest(method=scope.method, path=path, headers=headers, body=body))
        return self._app.refuse(HttpRequest(method=scope.method, path=path, headers=headers), error)


def _closed() -> type[Exception]:
    """What granian raises where the client has gone, asked for when something was raised."""
    closed: type[Exception] = import_module("granian.rsgi").ProtocolClosed
    return closed


class _Sink:
    """Holds what a stream is written to: it ends when nobody does any more, and the traceback of its error might."""

    __slots__ = ("_transport",)

    def __init__(self, transport: GranianTransport) -> None:
        self._transport = transport

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._transport

    def write(self, data: bytes) -> Awaitable[None]:
        return self._transport.send_bytes(data)


async def _read(headers: dict[str, str], protocol: HttpProtocol, most: int) -> bytes:
    """The body, when it is not too large."""
    if (length := headers.get("content-length")) is not None:
        if int(length) <= most:
            return await protocol()
        if "expect" in headers or int(length) > most + MAX_DRAINED:
            raise BodyTooLarge(f"the body has {length} bytes; at most {most} are taken")
    pieces: list[bytes] = []
    size = 0
    async for piece in protocol:
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        elif size > most + MAX_DRAINED:
            break
    if size > most:
        raise BodyTooLarge(f"the body is larger than {most} bytes")
    return b"".join(pieces)


class _Watch:
    """Cancels the task that it was made in when the client hangs up, or its body does not come in time."""

    __slots__ = ("_body_timeout", "_protocol", "_task", "_timer", "_waiting", "has_body", "is_gone", "is_late")

    def __init__(self, protocol: HttpProtocol, body_timeout: float) -> None:
        self.has_body = False
        self.is_gone = False
        self.is_late = False
        self._protocol = protocol
        self._body_timeout = body_timeout
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._waiting: asyncio.Future[None] | None = None
        self._timer = loop.call_later(PATIENCE, self._begin)

    def end(self) -> None:
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _begin(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait())
        if not self.has_body:
            self._timer = asyncio.get_running_loop().call_later(self._body_timeout, self._expire)

    def _expire(self) -> None:
        if not self.has_body and self._task is not None:
            self.is_late = True
            self._task.cancel()

    async def _wait(self) -> None:
        await self._protocol.client_disconnect()
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()
