"""A request of an ASGI server in, the app's answer out: for uvicorn, or mounted in a Starlette or FastAPI app."""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.errors import DragomanError
from dragoman.gateway.app import App
from dragoman.gateway.errors import BodyTooLarge, BodyTooSlow, HeadTooLarge
from dragoman.gateway.runtime import Runtime, read_config
from dragoman.gateway.server.limits import MAX_DRAINED, MAX_HEADERS
from dragoman.gateway.server.response import GatewayResponse
from dragoman.http import HttpRequest

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


def application(path: Path | None = None, /) -> "Asgi":
    """A gateway to mount, of a config file; of ./dragoman.toml or the environment where none is named.

    >>> type(application()).__name__
    'Asgi'
    """
    return Asgi(App(Runtime(read_config(path), os.environ)))


class Asgi:
    """The app as ASGI servers want it."""

    def __init__(self, app: App, /) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, or the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        http = _request(scope)
        try:
            _check_head(scope)
            async with asyncio.timeout(self._app.runtime.config.gateway.body_timeout):
                body = await self._read(receive)
        except TimeoutError:
            return await _send(self._app.refuse(http, BodyTooSlow("the body did not come in time")), send)
        except DragomanError as error:
            return await _send(self._app.refuse(http, error), send)
        if body is None:
            return None
        work = asyncio.ensure_future(self._answer(http, body, send))
        gone = asyncio.ensure_future(_wait_for_leave(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if not gone.done() or gone.cancelled():
                raise
            return None

    async def _live(self, receive: Receive, send: Send) -> None:
        """From start-up to shutdown: those who ask are told that it stops, and what waits is written before the end."""
        await receive()
        living = asyncio.create_task(self._app.run())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._app.drain()
        living.cancel()
        await self._app.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, http: HttpRequest, body: bytes, send: Send) -> None:
        whole = HttpRequest(method=http.method, path=http.path, headers=http.headers, body=body)
        await _send(await self._app.answer(whole), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None where the client went before it was whole."""
        limit = self._app.runtime.config.gateway.max_body
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            if not message.get("more_body", False) or size > limit + MAX_DRAINED:
                break
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        return b"".join(pieces)


def _request(scope: Message) -> HttpRequest:
    """The head of a request; a prefix that the app is mounted at is none of its business."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    query = scope.get("query_string", b"").decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return HttpRequest(method=scope["method"], path=f"{path}?{query}" if query else path, headers=headers)


def _check_head(scope: Message) -> None:
    """Not all servers bound it."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
        raise HeadTooLarge(f"the headers have more than {MAX_HEADERS} bytes")


async def _send(answer: GatewayResponse, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    body = answer.body
    if isinstance(body, bytes):
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return

    async def write(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    await body(write)
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_leave(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
