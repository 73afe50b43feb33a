"""The minimum of work for our server and our HTTP client: forward a request and its answer without parsing.

`python -m benchmarks.gateway.passthrough PORT UPSTREAM`: HttpServer and HttpClient, with nothing between them.
"""

import asyncio
import sys
from typing import Any, cast

import uvloop

from dragoman.engine.effects import Open, Send
from dragoman.gateway.app import App
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.body_limits import BodyMemory
from dragoman.gateway.server.http_server import HttpServer
from dragoman.gateway.server.response import GatewayResponse, Write
from dragoman.gateway.server.start_checks import override_settings
from dragoman.gateway.server.worker import listen
from dragoman.http import HttpRequest
from dragoman.io.http_client import HttpClient

_HEADERS = {"content-type": "application/json"}
_JSON = [("content-type", "application/json")]
_EVENTS = [("content-type", "text/event-stream")]
TIMEOUT = 60.0


class _Config:
    gateway = GatewaySettings()


class _Runtime:
    config = _Config()


class Passthrough:
    """What the server needs of an app."""

    runtime = cast("Runtime", _Runtime())
    is_stopping = False

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._client = HttpClient(env={})
        self._bodies = BodyMemory()

    async def answer(self, http: HttpRequest, read: Any) -> GatewayResponse:
        """Handle one request."""
        with self._bodies.request(_Config.gateway) as body_bytes:
            body: bytes = await read(body_bytes)
        request = HttpRequest(method="POST", origin=self._upstream, path=http.path, headers=_HEADERS, body=body)
        if b'"stream":true' not in body:
            answer = await self._client.asend(Send(request, TIMEOUT))
            return GatewayResponse(200, _JSON, answer.body)
        exchange = await self._client.aopen(Open(request, TIMEOUT))

        async def write_all(write: Write) -> None:
            while chunk := await exchange.handle.aread(TIMEOUT):
                await write(chunk)
            await exchange.handle.afinish()

        return GatewayResponse(200, _EVENTS, write_all)


async def serve(port: int, upstream: str) -> None:
    """Serve until SIGTERM."""
    server = HttpServer(cast("App", Passthrough(upstream)), asyncio.get_running_loop())
    await server.listen(listen(override_settings(_Config.gateway, port=port), is_first=True))
    await server.wait_until_ended()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), f"http://127.0.0.1:{sys.argv[2]}"))
