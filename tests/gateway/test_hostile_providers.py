"""A provider that sends without end, or what grows when it is decoded, is a 502; other clients do not wait for it."""

import contextlib
import gzip
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.gateway.live import PATIENCE, Gateway, chat, record
from tests.support.gateway.stalls import stalls

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BOMB = gzip.compress(b"0" * 40_000_000, 1)
OBJECTS = b'{"choices":[' + b"{}," * 3_000_000 + b"{}]}"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(body: bytes, *headers: bytes) -> bytes:
    return (
        JSON
        + b"".join(header + b"\r\n" for header in (*headers, b"connection: close", b"content-length: %d" % len(body)))
        + b"\r\n"
        + body
    )


ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "a head without an end": (b"HTTP/1.1 200 OK\r\n", b"x-a: " + b"b" * 1000 + b"\r\n"),
    "interim heads without an end": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a line without an end": (SSE, chunk(b"x" * 100_000)),
    "an event without an end": (SSE, chunk(b"data: x\n" * 10_000)),
    "a body without an end": (JSON + b"\r\n", b" " * 100_000),
    "a gzip bomb": (whole(BOMB, b"content-encoding: gzip"), b""),
    "millions of objects": (whole(OBJECTS), b""),
    "millions of objects in an event": (SSE + chunk(b"data: " + OBJECTS + b"\n\n"), b""),
}


class Hostile:
    """A provider that answers each request with some bytes, and then with a piece again and again."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self._first = first
        self._again = again
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(PATIENCE)
                    received = b""
                    while not received.endswith(b"}"):
                        received += connection.recv(65536)
                    connection.sendall(self._first)
                    while self._again:  # until the gateway closes the connection
                        connection.sendall(self._again)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_provider_is_a_502_and_nobody_waits_for_it(tmp_path: Path, name: str) -> None:
    statuses: list[int] = []

    def ask() -> None:
        bodies = [chat("up/m"), chat("up/m", stream=True)]
        statuses.extend(gateway.post("/v1/chat/completions", body)[0] for body in bodies)

    with Hostile(*ATTACKS[name]) as provider:
        config = "[chain]\nretries = 0\n[timeouts]\ntotal = 5.0\n" + record("up", provider.base_url)
        with Gateway(tmp_path, config) as gateway:
            gateway.post("/v1/chat/completions", chat("nobody/m"))  # loads what is needed
            waits = stalls(gateway, ask)
    assert max(waits) < 0.2, waits
    assert set(statuses) <= {502, 504}
    assert len(statuses) == 2
