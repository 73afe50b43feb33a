"""The minimum of work for our server and our HTTP client: forward a request and its answer without parsing.

`python -m benchmarks.gateway.passthrough PORT UPSTREAM`: granian and pyreqwest, with nothing between them.
"""

import sys
from datetime import timedelta
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

_HEADERS = {"content-type": "application/json"}
_JSON = [("content-type", "application/json")]
_EVENTS = [("content-type", "text/event-stream")]


class Passthrough:
    """An RSGI app."""

    def __init__(self, upstream: str) -> None:
        from pyreqwest.client import ClientBuilder

        self._upstream = upstream
        self._client = ClientBuilder().no_proxy().read_timeout(timedelta(seconds=60)).build()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Handle one request."""
        body = await protocol()
        request = self._client.post(self._upstream + scope.path).headers(_HEADERS).body_bytes(body)
        if b'"stream":true' not in body:
            async with request.streamed_read_buffer_limit(1).build_streamed() as response:
                protocol.response_bytes(200, _JSON, bytes(await response.bytes()))
            return
        async with request.streamed_read_buffer_limit(0).build_streamed() as response:
            transport = protocol.response_stream(200, _EVENTS)
            while chunk := await response.body_reader.read_chunk():
                await transport.send_bytes(bytes(chunk))


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
