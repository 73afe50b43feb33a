"""A request of an RSGI server (granian) in, the app's answer out; a client that hangs up cancels its call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

from dragoman.errors import DragomanError
from dragoman.gateway.answer import Answer, Write
from dragoman.gateway.app import CLOSED, App
from dragoman.gateway.refusals import BodyTooLarge, BodyTooSlow
from dragoman.http import HttpRequest

PATIENCE = 0.05
"""Seconds before we ask whether the client is still there: most calls pay nothing for it."""


class Headers(Protocol):
    """Those of a request."""

    def items(self) -> list[tuple[str, str]]:
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


class Transport(Protocol):
    """Where a stream is written to."""

    send_bytes: Write


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

    def response_stream(self, status: int, headers: list[tuple[str, str]], /) -> Transport:
        """An answer whose body comes."""
        ...


class Rsgi:
    """The app as granian wants it."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __rsgi__(self, scope: Scope, protocol: HttpProtocol) -> None:
        """One request."""
        watch = _Watch(protocol)
        try:
            answer = await self._answer(scope, protocol)
            if isinstance(answer.body, bytes):
                protocol.response_bytes(answer.status, answer.headers, answer.body)
            else:
                await answer.body(protocol.response_stream(answer.status, answer.headers).send_bytes)
        except asyncio.CancelledError:
            if not watch.is_gone:
                raise
            protocol.response_empty(CLOSED, [])
        finally:
            watch.end()

    async def _answer(self, scope: Scope, protocol: HttpProtocol) -> Answer:
        headers = dict(scope.headers.items())
        path = f"{scope.path}?{scope.query_string}" if scope.query_string else scope.path
        try:
            body = await self._read(headers.get("content-length"), protocol)
        except DragomanError as error:
            return self._app.refuse(HttpRequest(method=scope.method, path=path, headers=headers), error)
        return await self._app.answer(HttpRequest(method=scope.method, path=path, headers=headers, body=body))

    async def _read(self, length: str | None, protocol: HttpProtocol) -> bytes:
        """The body, when it is neither too large nor too slow."""
        limits = self._app.setup.config.gateway
        try:
            async with asyncio.timeout(limits.body_timeout):
                if length is not None:
                    if int(length) > limits.max_body:
                        raise BodyTooLarge(f"the body has {length} bytes; at most {limits.max_body} are taken")
                    return await protocol()
                pieces: list[bytes] = []
                size = 0
                async for piece in protocol:
                    size += len(piece)
                    if size > limits.max_body:
                        raise BodyTooLarge(f"the body is larger than {limits.max_body} bytes")
                    pieces.append(piece)
                return b"".join(pieces)
        except TimeoutError as error:
            raise BodyTooSlow(f"the body did not come within {limits.body_timeout} s") from error


class _Watch:
    """Cancels the task that it was made in when the client hangs up."""

    def __init__(self, protocol: HttpProtocol) -> None:
        self.is_gone = False
        self._protocol = protocol
        self._task = asyncio.current_task()
        self._waiting: asyncio.Future[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._begin)

    def end(self) -> None:
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    def _begin(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        await self._protocol.client_disconnect()
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()
