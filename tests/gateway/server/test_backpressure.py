"""A client that reads nothing does not fill the memory of a worker, and is disconnected after a while."""

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.listener import bind
from dragoman.gateway.server.worker import listen
from dragoman.testing import FaultyServer, RawResponse
from tests.gateway.server.test_bodies import MEGABYTE
from tests.support.gateway.live import Gateway, chat, record
from tests.support.gateway.stalls import memory

PIECE = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x" * 20_000}}]}
LINE = f"data: {json.dumps(PIECE)}\n\n".encode()
LARGE = RawResponse(headers={"content-type": "text/event-stream"}, body=LINE * 6_000 + b"data: [DONE]\n\n")
"""120 MB."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO of Linux")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with FaultyServer(LARGE, repeat=True) as upstream:
        config = "[gateway]\nwrite_timeout = 3\n" + record("up", upstream.base_url())
        with Gateway(tmp_path, config) as running:
            yield running


def test_a_client_that_reads_nothing_holds_little_memory_and_is_disconnected(gateway: Gateway) -> None:
    with gateway.send(chat("up/m", stream=True)) as connection:  # what the first request loads is not counted
        connection.recv(1000)
    gateway.wait_until(lambda: b'"client_disconnected"' in gateway.log.read_bytes())
    gateway.log.write_bytes(b"")
    before = memory(gateway)
    with gateway.send(chat("up/m", stream=True)) as connection:
        highest = before
        for _ in range(30):
            time.sleep(0.1)
            highest = max(highest, memory(gateway))
        assert highest - before < 40 * MEGABYTE
        gateway.wait_until(lambda: b'"client_disconnected"' in gateway.log.read_bytes())
        drained = read_all(connection)
        assert len(drained) < 60 * MEGABYTE
        assert b"[DONE]" not in drained
    assert gateway.get("/health/live")[0] == 200


def test_a_client_that_reads_slowly_gets_everything(gateway: Gateway) -> None:
    with gateway.send(chat("up/m", stream=True)) as connection:
        time.sleep(1.0)
        size, last = 0, b""
        while b"[DONE]" not in last[-100:] and (data := connection.recv(1 << 20)):
            size += len(data)
            last = data
            if size % 7 == 0:
                time.sleep(0.005)
        assert b"[DONE]" in last
        assert size > 100 * MEGABYTE


@pytest.mark.parametrize("is_inherited", [False, True])
def test_the_kernel_takes_little_of_a_stream_before_it_sends_it(is_inherited: bool) -> None:  # noqa: FBT001
    """Before, it took 2.5 MB at once for each client that reads nothing, and others waited for their translation."""
    given = bind(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) if is_inherited else None
    with listen(GatewaySettings(port=0), given, is_first=False) as listener, socket.socket() as client:
        if is_inherited:
            assert listener is given
            listener.listen()  # as the server does
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        client.connect(listener.getsockname())
        listener.setblocking(True)  # noqa: FBT003 - the API of sockets
        server, _ = listener.accept()
        with server:
            server.setblocking(False)  # noqa: FBT003 - the API of sockets
            sent = 0
            with suppress(BlockingIOError):
                while sent < 10 * MEGABYTE:
                    sent += server.send(b"x" * 64 * 1024)
    assert sent < MEGABYTE


def read_all(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    try:
        while data := connection.recv(1 << 20):
            pieces.append(data)
    except OSError:
        pass
    return b"".join(pieces)
