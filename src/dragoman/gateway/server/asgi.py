"""The adapter for ASGI servers such as uvicorn; it can be mounted in a Starlette or FastAPI app."""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.gateway.app import App
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, BodyTooSlow, HeadTooLarge
from dragoman.gateway.runtime import Runtime, read_gateway_config
from dragoman.gateway.server.body_limits import MAX_DRAINED, MAX_HEADERS, BodyBytes
from dragoman.gateway.server.received import ReceivedBytes
from dragoman.gateway.server.response import GatewayResponse
from dragoman.gateway.server.websocket import SocketSession
from dragoman.http import HttpRequest

REFUSED = 1008
"""The code that refuses a WebSocket if the server cannot send a response."""
AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]


def application(config: Path | None = None) -> "Asgi":
    """A gateway to run or mount; the config is by default ./dragoman.toml if it exists, else the environment."""
    return Asgi(App(Runtime(read_gateway_config(config), os.environ)))


class Asgi:
    """The app as an ASGI application."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __call__(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        """Handle one request, or the start and stop of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await self._serve_socket(scope, receive, send)

    async def _serve_socket(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()  # websocket.connect
        http = _request_head({**scope, "method": "GET"})
        protocol = await self._app.open_socket(http)
        if isinstance(protocol, GatewayResponse):
            await _refuse_socket(protocol, scope, send)
            return
        await send({"type": "websocket.accept"})
        socket = _AsgiSocket(receive, send, self._app.runtime.config.gateway.write_timeout)
        await SocketSession(self._app, http, protocol, socket).run()
        if not socket.is_closed:
            await send({"type": "websocket.close", "code": 1001})

    async def _serve(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        client = _Client(scope, receive, self._app.runtime.config.gateway)
        work = asyncio.ensure_future(self._answer(client, send))
        disconnect = asyncio.ensure_future(client.wait_for_disconnect())
        try:
            await asyncio.wait((work, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            if not work.done():
                work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if not disconnect.done() or disconnect.cancelled():
                raise
            return None

    async def _answer(self, client: "_Client", send: AsgiSend) -> None:
        timeout = self._app.runtime.config.gateway.write_timeout
        with suppress(TimeoutError):
            await _send(await self._app.answer(client.head, client.read), send, timeout)

    async def _lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()
        background = asyncio.create_task(self._app.run())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._app.drain()
        background.cancel()
        await self._app.close()
        await send({"type": "lifespan.shutdown.complete"})


class _AsgiSocket:
    """A WebSocket of an ASGI server."""

    def __init__(self, receive: AsgiReceive, send: AsgiSend, write_timeout: float) -> None:
        self.is_closed = False
        self._receive = receive
        self._send = send
        self._timeout = write_timeout

    async def receive(self) -> bytes | None:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self.is_closed = True
            return None
        text: str | None = message.get("text")
        data: bytes = message.get("bytes") or b""
        return data if text is None else text.encode()

    async def send(self, message: bytes) -> None:
        # The server makes us wait while the client reads nothing.
        async with asyncio.timeout(self._timeout):
            await self._send({"type": "websocket.send", "text": message.decode()})


async def _refuse_socket(response: GatewayResponse, scope: AsgiMessage, send: AsgiSend) -> None:
    if "websocket.http.response" not in scope.get("extensions", ()):
        await send({"type": "websocket.close", "code": REFUSED})
        return
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": response.body})


class _Client:
    """One request, and what its client sends."""

    def __init__(self, scope: AsgiMessage, receive: AsgiReceive, settings: GatewaySettings) -> None:
        self.head = _request_head(scope)
        self._head_bytes = sum(len(name) + len(value) for name, value in scope["headers"])
        self._receive = receive
        self._settings = settings
        self._body_read = asyncio.Event()
        """The body is read, or the client disconnected before its end."""
        self._is_disconnected = False

    async def read(self, body_bytes: BodyBytes) -> bytes:
        if self._head_bytes > MAX_HEADERS:  # not every ASGI server limits it
            raise HeadTooLarge(f"the headers are larger than {MAX_HEADERS} bytes")
        timeout = self._settings.body_timeout
        try:
            async with asyncio.timeout(timeout):
                body = await self._read(body_bytes)
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive within {timeout} s") from None
        self._body_read.set()
        return body

    async def _read(self, body_bytes: BodyBytes) -> bytes:
        limit = self._settings.max_body
        body = ReceivedBytes()
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_disconnected = True
                self._body_read.set()
                await asyncio.Event().wait()  # until `wait_for_disconnect` has cancelled us
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size <= limit:
                body_bytes.add(len(piece))
                body.append(piece)
            if not message.get("more_body", False) or size > limit + MAX_DRAINED:
                break
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        return body.take()

    async def wait_for_disconnect(self) -> None:
        """Returns when the client has disconnected. It receives nothing before the body is read."""
        await self._body_read.wait()
        while not self._is_disconnected:
            self._is_disconnected = (await self._receive())["type"] == "http.disconnect"


def _request_head(scope: AsgiMessage) -> HttpRequest:
    """The request without its body, and without the prefix that the app is mounted at."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    query = scope.get("query_string", b"").decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return HttpRequest(method=scope["method"], path=f"{path}?{query}" if query else path, headers=headers)


async def _send(response: GatewayResponse, send: AsgiSend, write_timeout: float) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    body = response.body
    if isinstance(body, bytes):
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return

    async def write(data: bytes) -> None:
        # The server makes us wait while the client reads nothing.
        async with asyncio.timeout(write_timeout):
            await send({"type": "http.response.body", "body": data, "more_body": True})

    await body(write)
    await send({"type": "http.response.body", "body": b""})
