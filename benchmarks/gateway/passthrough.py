"""The minimum of work for our server and our HTTP client: forward a request and its answer without parsing.

`python -m benchmarks.gateway.passthrough PORT UPSTREAM`: granian and HttpClient, with nothing between them.
"""

import sys
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

from dragoman.engine.effects import Open, Send
from dragoman.http import HttpRequest
from dragoman.io.http_client import HttpClient

_HEADERS = {"content-type": "application/json"}
_JSON = [("content-type", "application/json")]
_EVENTS = [("content-type", "text/event-stream")]
TIMEOUT = 60.0


class Passthrough:
    """An RSGI app."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._client = HttpClient(env={})

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Handle one request."""
        body: bytes = await protocol()
        request = HttpRequest(method="POST", origin=self._upstream, path=scope.path, headers=_HEADERS, body=body)
        if b'"stream":true' not in body:
            answer = await self._client.asend(Send(request, TIMEOUT))
            protocol.response_bytes(200, _JSON, answer.body)
            return
        exchange = await self._client.aopen(Open(request, TIMEOUT))
        transport = protocol.response_stream(200, _EVENTS)
        while chunk := await exchange.handle.aread(TIMEOUT):
            await transport.send_bytes(chunk)
        await exchange.handle.afinish()


def main() -> None:
    """Serve until SIGTERM."""
    _, port, upstream = sys.argv
    server: Any = Server(
        "passthrough", port=int(port), interface=Interfaces.RSGI, websockets=False, log_level=LogLevels.warning
    )

    def load(_target: str) -> Passthrough:
        return Passthrough(f"http://127.0.0.1:{upstream}")

    server.serve(target_loader=load)


if __name__ == "__main__":
    main()
