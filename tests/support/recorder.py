"""An HTTP server on loopback that notes what clients send, and answers all of them the same."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class SentRequest(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Recorder:
    """Notes requests. Leaving the `with` block ends it."""

    def __init__(self, status: int = 400, body: object = None) -> None:
        self.requests: list[SentRequest] = []
        self.status = status
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self.body = json.dumps({"message": "no", "error": {"message": "no"}} if body is None else body).encode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def last(self) -> SentRequest:
        return self.requests[-1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                recorder.requests.append(SentRequest(self.command, self.path, headers, body))
                self.send_response(recorder.status)
                for name, value in recorder.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(recorder.body)))
                self.end_headers()
                self.wfile.write(recorder.body)

            do_GET = do_POST  # noqa: N815 - the name that http.server calls

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
