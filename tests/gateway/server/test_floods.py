"""Clients that send what takes more memory or time than its bytes: trailers without an end, bodies in tiny chunks,
messages that never end; and clients that leave their response in the socket.
"""

import json
import os
import select
import signal
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.server import connection as connections
from dragoman.gateway.server.body_limits import MAX_HEADERS
from dragoman.gateway.server.response import GatewayResponse
from tests.gateway.server.test_connection import BODY, LAST, Live, read_all, request
from tests.support.gateway.dialects import app_of
from tests.support.gateway.live import PATIENCE, Gateway, chat
from tests.support.gateway.stalls import memory, stalls

ALICE = "dgm-alice-000000000000000000000000"
KEYS = f'[keys.alice]\nhash = "{hash_key(ALICE)}"\n'
MIB = 1024 * 1024
CHUNKED = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{}transfer-encoding: chunked\r\n\r\n"
HANDSHAKE = (
    "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
EMPTY_PONG = struct.pack("!BBI", 0x8A, 0x80, 0)


def send_until_closed(client: socket.socket, piece: bytes, count: int) -> None:
    """Send pieces until the server closes the connection."""
    with suppress(OSError):
        for _ in range(count):
            client.sendall(piece)


def memory_when_warm(gateway: Gateway) -> int:
    """Bytes of the worker's memory after a first request, which loads much of the program."""
    assert gateway.post("/v1/chat/completions", chat("demo/any"))[0] == 200
    return memory(gateway)


@pytest.mark.parametrize(("key", "status"), [("", 401), (f"authorization: Bearer {ALICE}\r\n", 431)])
def test_trailers_without_an_end_are_refused_at_once(key: str, status: int) -> None:
    live = Live(app_of(KEYS))
    try:
        with live.connect() as client:
            client.sendall(CHUNKED.format(key).encode() + b"0\r\nx: ")
            start = time.monotonic()
            client.sendall(b"x" * (MAX_HEADERS + 300_000))  # one read of the server is not counted
            assert client.recv(12) == b"HTTP/1.1 %d" % status
            read_all(client)
            assert time.monotonic() - start < connections.DRAIN_TIMEOUT + 2
    except ConnectionResetError:
        assert status == 401  # closed while the client was sending
    finally:
        live.stop()


def test_what_is_no_chunk_ends_the_wait_for_the_body() -> None:
    live = Live(app_of(""))
    try:
        start = time.monotonic()
        answer = live.ask(CHUNKED.format("").encode() + b"5\r\nhello\r\nno chunk\r\n")
        assert time.monotonic() - start < 2 * connections.DRAIN_TIMEOUT  # not `body_timeout`
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close\r\n" in answer
        assert answer.count(b"HTTP/1.1 ") == 1
    finally:
        live.stop()


def test_what_is_no_chunk_gets_no_second_response() -> None:
    live = Live(app_of(KEYS))
    try:
        with live.connect() as client:
            client.sendall(CHUNKED.format("").encode())
            first = client.recv(65536)
            assert first.startswith(b"HTTP/1.1 401 ")
            client.sendall(b"no chunk\r\n")
            assert b"HTTP/1.1 " not in read_all(client)
    finally:
        live.stop()


def test_a_large_body_before_the_next_head_is_no_large_head() -> None:
    live = Live(app_of("[gateway]\nmax_body = 1000000\n"))
    try:
        large = request(json.dumps({"model": "demo/any", "messages": [], "x": "y" * 200_000}).encode())
        with live.connect() as client:
            client.sendall(large + LAST[:30])
            client.sendall(LAST[30:])
            answers = read_all(client)
        assert answers.count(b"HTTP/1.1 ") == 2
        assert b"HTTP/1.1 431" not in answers
    finally:
        live.stop()


def test_a_body_in_tiny_chunks_holds_about_its_size(tmp_path: Path) -> None:
    with Gateway(tmp_path, '[gateway]\nproviders = ["demo"]\n') as gateway:
        before = memory_when_warm(gateway)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as client:
            client.sendall(CHUNKED.format("").encode())
            for _ in range(100):
                client.sendall(b"2\r\nab\r\n" * 40_000)  # 8 MB, which took 250 MB as pieces
            assert memory(gateway) - before < 24 * MIB


def test_a_worker_that_waits_without_work_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.gateway.stalls.MAX_WAIT", 0.2)

    def block() -> None:
        worker = gateway.processes()[1]
        os.kill(worker, signal.SIGSTOP)
        try:
            threading.Event().wait(2.0)
        finally:
            os.kill(worker, signal.SIGCONT)

    with (
        Gateway(tmp_path, '[gateway]\nproviders = ["demo"]\n') as gateway,
        pytest.raises(AssertionError, match="the worker answered after"),
    ):
        stalls(gateway, block)


def test_others_go_on_while_a_websocket_gets_empty_frames(tmp_path: Path) -> None:
    def flood() -> None:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as client:
            client.sendall(HANDSHAKE.encode())
            assert client.recv(12) == b"HTTP/1.1 101"
            send_until_closed(client, EMPTY_PONG * 100_000, 5)

    with Gateway(tmp_path, '[gateway]\nproviders = ["demo"]\n') as gateway:
        waits = stalls(gateway, flood)
    assert max(waits) < 0.2, waits  # one read of 256 KiB took 0.1 s, and an answer waits for several


@pytest.mark.parametrize("key", ["", f"authorization: Bearer {ALICE}\r\n"])
def test_others_go_on_while_a_body_comes_in_tiny_chunks(tmp_path: Path, key: str) -> None:
    with Gateway(tmp_path, f'[gateway]\nproviders = ["demo"]\n{KEYS}') as gateway:

        def flood() -> None:
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as client:
                client.sendall(CHUNKED.format(key).encode())
                send_until_closed(client, b"2\r\nab\r\n" * 40_000, 200)

        waits = stalls(gateway, flood)
    assert max(waits) < 0.2, waits  # it was more than a second


def test_messages_of_websockets_share_the_memory_for_bodies(tmp_path: Path) -> None:
    config = f'[gateway]\nproviders = ["demo"]\nmax_body = {8 * MIB}\nmax_body_memory = {24 * MIB}\n'
    with Gateway(tmp_path, config) as gateway, ExitStack() as stack:
        before = memory_when_warm(gateway)
        clients: list[socket.socket] = []
        for _ in range(8):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE))
            client.sendall(HANDSHAKE.encode())
            head = stack.enter_context(client.makefile("rb"))
            assert head.readline().startswith(b"HTTP/1.1 101 ")
            assert [line for line in iter(head.readline, b"\r\n") if line.startswith(b"sec-websocket-accept")]
            client.sendall(struct.pack("!BBQI", 0x81, 0xFF, 8 * MIB, 0))
            send_until_closed(client, b" " * MIB, 7)
            clients.append(client)
        # Three fit. Which ones stay depends on the order in which the server reads.
        gateway.wait_until(lambda: len(_readable(clients)) >= 5)
        assert all(map(_is_closed, _readable(clients)))
        assert memory(gateway) - before < 36 * MIB
        # As soon as these have left, there is room for others.
        stack.close()
        connection = gateway.connect()

        def is_answered() -> bool:
            connection.request("POST", "/v1/chat/completions", BODY, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200

        gateway.wait_until(is_answered)
        connection.close()


def _readable(clients: list[socket.socket]) -> list[socket.socket]:
    return select.select(clients, [], [], 0)[0]


def _is_closed(client: socket.socket) -> bool:
    """Whether the server sends a last frame (1013, try again later), or has closed the connection before."""
    try:
        data = client.recv(1000)
    except ConnectionResetError:
        return True
    return not data or data[0] == 0x88


def test_a_client_that_never_reads_the_last_response_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(app_of("[gateway]\nwrite_timeout = 1\n"))
    open_connections: set[object] = live.server._connections  # what the server has, without a look at the time
    size = _kernel_takes()

    async def answer(*_: object) -> GatewayResponse:
        return GatewayResponse(200, [], b"x" * (size + 30_000))

    monkeypatch.setattr(live.app, "answer", answer)
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", live.port))
            client.sendall(request(b"", "connection: close", method="GET", path="/health/live"))
            deadline = time.monotonic() + 20
            while not open_connections and time.monotonic() < deadline:
                time.sleep(0.01)
            while open_connections and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not open_connections
    finally:
        live.stop()


def _kernel_takes() -> int:
    """Bytes that the kernel takes for a client with a small buffer that reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            peer.setblocking(False)  # noqa: FBT003 - the API of sockets
            size = 0
            try:
                while True:
                    size += peer.send(b"x" * 65536)
            except BlockingIOError:
                return size
