"""HTTP/1.1 as clients send it: whole, split, pipelined, slowly, wrongly, and over TLS."""

import asyncio
import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import SetupError, StoreDown
from dragoman.gateway.app import App
from dragoman.gateway.server import connection as connections
from dragoman.gateway.server import http_server
from dragoman.gateway.server.http_server import HttpServer, tls_context
from dragoman.gateway.server.response import GatewayResponse, Write
from tests.support.gateway.dialects import app_of
from tests.support.gateway.live import PATIENCE, Gateway, chat
from tests.support.work import NewObjects

BODY = json.dumps(chat("demo/any")).encode()
STREAM = json.dumps(chat("demo/any", stream=True)).encode()


class Live:
    """A server with its event loop in a thread."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)  # noqa: FBT003 - the API of sockets
        self.port: int = listener.getsockname()[1]
        self.server: Any = None
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listener, started))
        self._thread.start()
        started.result(PATIENCE)

    def _run(self, listener: socket.socket, started: "Future[None]") -> None:
        async def serve() -> None:
            self.server = HttpServer(self.app, self.loop)
            await self.server.listen(listener)
            started.set_result(None)
            await self.server.wait_until_ended()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(serve())

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.server.stop)
        self.wait_for_end()

    def wait_for_end(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, data: bytes) -> bytes:
        """Everything that comes until the server closes the connection."""
        with self.connect() as client:
            client.sendall(data)
            return read_all(client)


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def request(body: bytes = BODY, *headers: str, method: str = "POST", path: str = "/v1/chat/completions") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


LAST = request(BODY, "connection: close")


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    server = Live(app_of("[gateway]\nmax_body = 200000\n"))
    yield server
    server.stop()


def test_requests_of_one_connection_are_answered_in_order(live: Live) -> None:
    missing = request(BODY.replace(b"demo/any", b"none/x"))
    answer = live.ask(request() + missing + request(STREAM) + LAST)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200", b"200"]
    assert answer.count(b"connection: close") == 1
    assert answer.count(b"\r\n0\r\n\r\n") == 1


@settings(max_examples=10)
@given(st.integers(1, 60))
def test_a_request_may_come_in_any_pieces(live: Live, size: int) -> None:
    data = request() + request(b"", method="GET", path="/health/live") + LAST
    with live.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            client.sendall(data[start : start + size])
        assert read_all(client).count(b"HTTP/1.1 200 OK\r\n") == 3


def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    with NewObjects(connections.HttpConnection) as open_connections:
        live = Live(app_of())
        live.ask(LAST)
        with live.connect() as client:
            client.sendall(request(STREAM))
            client.recv(10)
        live.stop()
        assert open_connections.count() == 0


def test_a_body_in_chunks_with_trailers(live: Live) -> None:
    half = len(BODY) // 2
    pieces = b"%x;note=1\r\n%b\r\n%x\r\n%b\r\n" % (half, BODY[:half], len(BODY) - half, BODY[half:])
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    assert live.ask(head + pieces + b"0\r\nauthorization: Bearer x\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_client_that_expects_100_continue_gets_it(live: Live) -> None:
    head, _, body = LAST.partition(b"\r\n\r\n")
    with live.connect() as client:
        client.sendall(head + b"\r\nexpect: 100-continue\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_http_1_0_gets_no_chunks_and_its_connection_is_closed(live: Live) -> None:
    answer = live.ask(request(STREAM).replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"transfer-encoding" not in answer
    assert b"data: [DONE]\n\n" in answer[-20:]
    answer = live.ask(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"connection: close" in answer


def test_http_1_0_may_keep_its_connection(live: Live) -> None:
    kept = request(BODY, "connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = live.ask(kept + request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert answer.count(b"200 OK") == 2
    assert answer.count(b"connection: keep-alive") == 1


def test_head_has_the_length_and_no_body(live: Live) -> None:
    answer = live.ask(request(b"", "connection: close", method="HEAD", path="/health/live"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length: 17" in head
    assert body == b""


def test_an_upgrade_to_another_protocol_is_ignored(live: Live) -> None:
    """Java's HttpClient sends it with every first request."""
    upgrade = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAA")
    answer = live.ask(request(BODY, *upgrade) + request(b"", *upgrade, method="GET", path="/health/live") + LAST)
    assert answer.count(b"HTTP/1.1 200 OK") == 3


def test_a_path_may_be_encoded_and_a_proxy_may_send_a_whole_url(live: Live) -> None:
    get = request(b"", method="GET", path="http://localhost/%68ealth/live?x=%20")
    assert live.ask(get + LAST).count(b"200 OK") == 2


WRONG = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "two lengths": request(BODY, "content-length: 3"),
    "length and chunks": request(BODY, "transfer-encoding: chunked"),
    "a name with a space": request(BODY, "x y: z"),
    "a folded header": request(BODY, "x: y", " z"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_invalid_http_is_a_400_and_closes_the_connection(live: Live, data: bytes) -> None:
    answer = live.ask(data)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"invalid_request_error" in answer


def test_garbage_after_a_request_does_not_spoil_its_answer(live: Live) -> None:
    answer = live.ask(request(STREAM) + b"garbage\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"0\r\n\r\n")


def test_a_head_without_an_end_is_a_431(live: Live) -> None:
    answer = live.ask(b"GET /health/live HTTP/1.1\r\nx: " + b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_too_many_requests_at_once_on_one_connection_close_it_after_their_answers(live: Live) -> None:
    live_path = request(b"", method="GET", path="/health/live")
    answer = live.ask(live_path * 200)
    assert 1 < answer.count(b"HTTP/1.1 200 OK") <= connections.MAX_PIPELINED + 1


def test_too_many_requests_with_an_upgrade_at_once_close_the_connection_after_their_answers(live: Live) -> None:
    """Each made the parser start again inside the one before: thousands were an error in the log, and 100 MB."""
    upgrade = b"GET /x HTTP/1.1\r\nhost: x\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
    answer = live.ask(upgrade * 1000)
    assert 1 < answer.count(b"HTTP/1.1 404 ") <= connections.MAX_PIPELINED + 1


def test_a_body_that_nobody_reads_does_not_end_the_connection(live: Live) -> None:
    unread = request(b"x" * 150_000, path="/v1/nothing")
    answer = live.ask(unread + LAST)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"404", b"200"]


def test_a_value_with_a_line_break_cannot_add_a_header() -> None:
    class Unsafe(App):
        async def answer(self, *_: Any, **__: Any) -> GatewayResponse:
            return GatewayResponse(200, [("x-note", "one\r\nset-cookie: two")], b"")

    server = Live(Unsafe(app_of().runtime))
    try:
        answer = server.ask(LAST)
    finally:
        server.stop()
    assert b"\r\nx-note: one  set-cookie: two\r\n" in answer


@pytest.mark.parametrize("headers", [[], [("content-length", "8")]], ids=["chunks", "length"])
def test_a_response_that_fails_after_its_head_is_cut(
    headers: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """Its end must not look like an end, and the error is one line of the log."""

    async def fail(write: Write) -> None:
        await write(b"one")
        raise StoreDown("the store is down")

    class Failing(App):
        async def answer(self, *_: Any, **__: Any) -> GatewayResponse:
            return GatewayResponse(200, headers, fail)

    server = Live(Failing(app_of().runtime))
    try:
        got = server.ask(request(b"", method="GET", path="/v1/a%0Ab?key=secret"))
    finally:
        server.stop()
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not got.endswith(b"\r\n0\r\n\r\n")
    (logged,) = caplog.records
    assert logged.getMessage() == "the response to GET '/v1/a\\nb' broke off: the store is down"


def test_a_response_in_pieces_whose_length_is_known_has_no_chunks() -> None:
    async def write_pieces(write: Write) -> None:
        for piece in (b"one ", b"two"):
            await write(piece)

    class Known(App):
        async def answer(self, *_: Any, **__: Any) -> GatewayResponse:
            return GatewayResponse(200, [("content-length", "7")], write_pieces)

    server = Live(Known(app_of().runtime))
    try:
        answer = server.ask(request() + LAST)
    finally:
        server.stop()
    first, second = answer.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert first.endswith(b"\r\n\r\none two")
    assert second.endswith(b"\r\n\r\none two")
    assert b"transfer-encoding" not in answer


def test_clients_that_do_nothing_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_INTERVAL", 0.02)
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.05)
    monkeypatch.setattr(connections, "IDLE_TIMEOUT", 0.05)
    monkeypatch.setattr(connections, "DRAIN_TIMEOUT", 0.05)
    server = Live(app_of())
    try:
        assert server.ask(b"") == b""
        assert server.ask(request()).startswith(b"HTTP/1.1 200 ")
        assert server.ask(b"POST /v1/chat").startswith(b"HTTP/1.1 408 ")
        assert server.ask(request() + b"POST /v1/chat").count(b"HTTP/1.1 408 ") == 1
        unfinished = request(b"x" * 100, path="/v1/nothing")[:-50]
        assert server.ask(unfinished).startswith(b"HTTP/1.1 404 ")
    finally:
        server.stop()


def test_a_worker_has_room_for_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_IDLE_CONNECTIONS", 1)
    server = Live(app_of("[gateway]\nmax_requests = 1\n"))
    try:
        with server.connect() as first, server.connect() as second:
            for client in (first, second):
                client.sendall(request(b"", method="GET", path="/health/live"))
                assert b" 200 " in client.recv(1000)
            assert server.ask(b"").startswith(b"HTTP/1.1 503 ")
    finally:
        server.stop()


def test_a_stop_waits_for_answers_and_closes_the_rest() -> None:
    class Slow(App):
        def __init__(self) -> None:
            super().__init__(app_of().runtime)
            self.began, self.may_end = threading.Event(), asyncio.Event()

        async def answer(self, *_: Any, **__: Any) -> GatewayResponse:
            self.began.set()
            await self.may_end.wait()
            return GatewayResponse(200, [], b"done")

    app = Slow()
    server = Live(app)
    with server.connect() as idle, server.connect() as busy:
        busy.sendall(request())
        assert app.began.wait(PATIENCE)
        server.loop.call_soon_threadsafe(server.server.stop)
        assert idle.recv(100) == b""
        server.loop.call_soon_threadsafe(app.may_end.set)
        assert read_all(busy).endswith(b"done")
    server.wait_for_end()


def test_a_stop_answers_what_waits_in_the_queue_of_the_listener() -> None:
    server = Live(app_of())
    blocked, may_go = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        may_go.wait(PATIENCE)
        server.server.stop()

    server.loop.call_soon_threadsafe(block)
    assert blocked.wait(PATIENCE)
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        client.sendall(request())
    may_go.set()
    answers = [read_all(client) for client in clients]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200"}
    assert all(b"\r\nconnection: close\r\n" in answer for answer in answers)
    for client in clients:
        client.close()
    server.wait_for_end()


def test_a_stop_waits_for_a_connection_that_the_event_loop_has_just_accepted() -> None:
    async def stop() -> bytes:
        server: Any = HttpServer(app_of(), asyncio.get_running_loop())
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)  # noqa: FBT003 - the API of sockets
        place = listener.getsockname()
        await server.listen(listener)
        with socket.create_connection(place):
            while not server._connections:  # noqa: ASYNC110 - it counts rounds of the event loop
                await asyncio.sleep(0)
            with socket.create_connection(place) as late:
                late.sendall(request())
                while select.select([listener], [], [], 0)[0]:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0)
                (reported,) = server._connections  # the other one is accepted, but not reported
                server.stop()
                reported.abort()
                await asyncio.wait_for(server.wait_until_ended(), PATIENCE)
                late.setblocking(False)  # noqa: FBT003 - the API of sockets
                return late.recv(65536)

    assert asyncio.run(stop()).startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_may_send_one_more_request_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LAST_REQUEST_TIME", PATIENCE)
    server = Live(app_of())
    with server.connect() as client:
        client.sendall(request())
        assert b"connection: close" not in client.recv(65536)
        stopped = threading.Event()
        server.loop.call_soon_threadsafe(server.server.stop)
        server.loop.call_soon_threadsafe(stopped.set)
        assert stopped.wait(PATIENCE)
        client.sendall(request())
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer
    server.wait_for_end()


def test_a_request_that_has_begun_is_answered_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LAST_REQUEST_TIME", 0.0)
    server = Live(app_of())
    with server.connect() as client, server.connect() as idle:
        client.sendall(request()[:20])
        idle.sendall(request())  # when it is answered, the first bytes of the other have been read
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        server.loop.call_soon_threadsafe(server.server.stop)
        assert idle.recv(100) == b""  # idle connections are closed by now
        client.sendall(request()[20:])
        assert read_all(client).startswith(b"HTTP/1.1 200 ")
    server.wait_for_end()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    authority, path = trustme.CA(), tmp_path_factory.mktemp("tls") / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(path)
    return authority, path


def test_tls_with_a_certificate(tmp_path: Path, certificate: tuple[trustme.CA, Path]) -> None:
    authority, path = certificate
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]

    class Https(Gateway):
        def get(self, path: str, **headers: str) -> tuple[int, bytes]:
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as client,
            ):
                client.sendall(request(b"", "connection: close", method="GET", path=path))
                answer = read_all(client)
            return int(answer[9:12]), answer

    with Https(tmp_path, f'[gateway]\ntls_certificate = "{path}"\n') as gateway:
        assert f"https://127.0.0.1:{gateway.port}" in gateway.log.read_text()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_sends_no_handshake_does_not_hold_a_stop(certificate: tuple[trustme.CA, Path], loop: str) -> None:
    _, path = certificate

    async def stop() -> None:
        server = HttpServer(app_of(), asyncio.get_running_loop())
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)  # noqa: FBT003 - the API of sockets
        await server.listen(listener, tls_context(str(path), None))
        with socket.create_connection(listener.getsockname()):
            server.stop()  # it takes the connection from the queue
            for _ in range(10):
                await asyncio.sleep(0)  # the handshake begins
            server.abort()
            await asyncio.wait_for(server.wait_until_ended(), 10)

    module = asyncio if loop == "asyncio" else pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=module.new_event_loop) as runner:
        runner.run(stop())


@pytest.mark.parametrize("name", ["missing.pem", "empty.pem"])
def test_a_certificate_that_cannot_be_read_is_a_setup_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(SetupError, match="tls_certificate"):
        tls_context(str(tmp_path / name), None)
