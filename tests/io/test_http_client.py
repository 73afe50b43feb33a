"""The HTTP client behind its port: real sockets, both ways of use, every way in which an answer can fail."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import trustme
from msgspec.structs import replace

from dragoman.demo.provider import DemoTransport
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import (
    ConnectFailed,
    ConnectTimeout,
    DragomanError,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    ReadTimeout,
    Reset,
    SetupError,
    TimedOut,
    TooLarge,
    TransportError,
)
from dragoman.http import Head, HttpRequest, HttpResponse, retry_after
from dragoman.io import connection_pool as pool_module
from dragoman.io import http1
from dragoman.io import http_client as http_client_module
from dragoman.io.connect import destination_of
from dragoman.io.connection_pool import Pool
from dragoman.io.http_client import HttpClient
from dragoman.io.transport import RoutingTransport, Transport, make_transport
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.provider import Provider
from dragoman.testing import (
    CloseAfter,
    CloseAtOnce,
    FaultyServer,
    InvalidBody,
    KeepOpen,
    NoResponse,
    RawResponse,
    ResetAfter,
    Scripted,
    ScriptLine,
    StallAfter,
    refused_url,
)
from tests.support.clock import soonest
from tests.support.sockets import FullListener
from tests.support.work import NewObjects

CHAT = "/v1/chat/completions"
PLAIN = b'{"model":"m","messages":[]}'
STREAMED = b'{"model":"m","messages":[],"stream":true}'
SECRET = "hush-hush"
PATIENCE = 10.0
"""Seconds after which a test that waits for an event has failed."""


class Way(Protocol):
    """One of the two ways of use."""

    def send(self, transport: Transport, effect: Send) -> HttpResponse: ...
    def read(self, transport: Transport, effect: Open, *, within: float | None = None) -> tuple[Head, bytes]: ...
    def leave(self, transport: Transport, effect: Open) -> bytes: ...


class Blocking:
    def send(self, transport: Transport, effect: Send) -> HttpResponse:
        return transport.send(effect)

    def read(self, transport: Transport, effect: Open, *, within: float | None = None) -> tuple[Head, bytes]:
        exchange = transport.open(effect)
        try:
            return exchange.head, b"".join(iter(lambda: exchange.handle.read(within), b""))
        finally:
            exchange.handle.finish()

    def leave(self, transport: Transport, effect: Open) -> bytes:
        exchange = transport.open(effect)
        try:
            return bytes(exchange.handle.read(PATIENCE))
        finally:
            exchange.handle.close()


class Async:
    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def send(self, transport: Transport, effect: Send) -> HttpResponse:
        return self.runner.run(transport.asend(effect))

    def read(self, transport: Transport, effect: Open, *, within: float | None = None) -> tuple[Head, bytes]:
        async def work() -> tuple[Head, bytes]:
            exchange = await transport.aopen(effect)
            pieces: list[bytes] = []
            try:
                while data := await exchange.handle.aread(within):
                    pieces.append(data)
            finally:
                await exchange.handle.afinish()
            return exchange.head, b"".join(pieces)

        return self.runner.run(work())

    def leave(self, transport: Transport, effect: Open) -> bytes:
        async def work() -> bytes:
            exchange = await transport.aopen(effect)
            try:
                return bytes(await exchange.handle.aread(PATIENCE))
            finally:
                await exchange.handle.aclose()

        return self.runner.run(work())


@pytest.fixture(params=["blocking", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    if request.param == "blocking":
        yield Blocking()
    else:
        asynchronous = Async()
        with asynchronous.runner:
            yield asynchronous


@pytest.fixture(params=["own", "httpx"])
def transport(request: pytest.FixtureRequest, way: Way) -> Iterator[Transport]:
    """Each transport, for each way of use."""
    if request.param == "own":
        made = make_transport()
        yield made
        made.close()
    elif isinstance(way, Async):
        async_client = httpx.AsyncClient(trust_env=False)
        yield make_transport(async_client)
        way.runner.run(async_client.aclose())
    else:
        with httpx.Client(trust_env=False) as client:
            yield make_transport(client)


@pytest.fixture
def pooled() -> Iterator[Transport]:
    made = make_transport()
    yield made
    made.close()


def http(server: FaultyServer | str, *, streamed: bool = False, path: str = CHAT) -> HttpRequest:
    origin = server if isinstance(server, str) else server.origin
    body = STREAMED if streamed else PLAIN
    return HttpRequest(method="POST", origin=origin, path=path, headers={"x-api-key": "sk-secret"}, body=body)


# ── what arrives ────────────────────────────────────────────────────────────


def test_a_body_arrives_whole(way: Way, transport: Transport) -> None:
    with FaultyServer(RawResponse(status=203, headers={"x-told": "yes"}, body=b"12345")) as server:
        reply = way.send(transport, Send(http(server)))
    assert (reply.status, reply.header("x-told"), reply.body) == (203, "yes", b"12345")


def test_a_stream_arrives_whole(way: Way, transport: Transport) -> None:
    with FaultyServer("Hello, world.") as server:
        head, body = way.read(transport, Open(http(server, streamed=True)))
    assert head.status == 200
    assert b"Hello, world." in body
    assert body.endswith(b"data: [DONE]\n\n")


def test_other_tasks_have_their_turn_while_a_stream_arrives_at_once(pooled: Transport) -> None:
    """A provider that sends megabytes at once must not let other calls of the loop wait."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (b"a" * 100, b"b" * 70_000, b"c" * 7) * 20)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> tuple[bytes, list[int], list[int]]:
        counting = asyncio.create_task(count())
        exchange = await pooled.aopen(Open(http(server)))
        pieces, seen = [b""], [0]
        while data := await exchange.handle.aread(PATIENCE):
            pieces.append(data)
            seen.append(turns)
        await exchange.handle.afinish()
        counting.cancel()
        return b"".join(pieces), [len(piece) for piece in pieces], seen

    answer = RawResponse(headers={"transfer-encoding": "chunked"}, body=body + b"0\r\n\r\n")
    with FaultyServer(answer) as server:
        whole, sizes, seen = asyncio.run(work())
    assert whole == (b"a" * 100 + b"b" * 70_000 + b"c" * 7) * 20
    assert max(sizes) <= http1.PIECE
    assert all(before < after for before, after in pairwise(seen))


def test_what_is_sent_arrives(way: Way, transport: Transport) -> None:
    with FaultyServer("Hello.") as server:
        way.send(transport, Send(http(server)))
    (seen,) = server.http
    assert (seen.method, seen.path, seen.body) == ("POST", CHAT, PLAIN)
    assert seen.headers["x-api-key"] == "[redacted]"


def test_each_request_has_its_own_headers_and_method(way: Way, pooled: Transport) -> None:
    """The client keeps the head of the last request to a URL."""
    lines = [{"x-name": "one"}, {"x-name": "one"}, {"x-name": "two"}, {"x-name": "two", "x-more": "3"}, {}]
    with FaultyServer(RawResponse(body=b"{}"), repeat=True) as server:
        for headers in lines:
            way.send(pooled, Send(replace(http(server), headers=headers)))
        way.send(pooled, Send(replace(http(server), method="GET", headers={}, body=b"")))
        headers = {"x-name": "one"}
        request = replace(http(server), headers=headers)
        way.send(pooled, Send(request))
        headers["x-name"] = "changed"
        way.send(pooled, Send(request))
    own = [{name: seen.headers[name] for name in ("x-name", "x-more") if name in seen.headers} for seen in server.http]
    assert own == [*lines, {}, {"x-name": "one"}, {"x-name": "changed"}]
    assert [seen.method for seen in server.http] == ["POST"] * 5 + ["GET"] + ["POST"] * 2
    assert [seen.headers.get("content-length") for seen in server.http] == [str(len(PLAIN))] * 5 + [None] + [
        str(len(PLAIN))
    ] * 2


def test_a_client_keeps_a_limited_number_of_heads(way: Way, pooled: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client_module, "MAX_DESTINATIONS", 3)
    with FaultyServer(RawResponse(body=b"{}"), repeat=True) as server:
        for number in range(10):
            way.send(pooled, Send(http(server, path=f"/{number}")))
    assert [seen.path for seen in server.http] == [f"/{number}" for number in range(10)]
    assert isinstance(pooled, RoutingTransport)
    assert len(vars(pooled.transport)["_heads"]) <= 3


def test_names_of_headers_are_kept_in_a_limited_number(
    way: Way, pooled: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "_MAX_NAMES", 3)
    long = "X-" + "a" * 100
    headers = {f"X-Name-{number}": f"{number}" for number in range(10)} | {long: "long"}
    with FaultyServer(RawResponse(headers=headers, body=b"{}"), repeat=True) as server:
        for _ in range(2):
            reply = way.send(pooled, Send(http(server)))
            assert {name: reply.headers[name.lower()] for name in headers} == headers
    names = http1.HEADER_NAMES
    assert len(names) <= 3
    assert long.encode() not in names


def test_a_first_piece_is_seen_before_the_next(way: Way, pooled: Transport) -> None:
    """The first 64 kB are not held back."""
    with FaultyServer(StallAfter(10, "Hello.")) as server:
        assert len(way.leave(pooled, Open(http(server, streamed=True)))) == 10


def test_a_redirect_is_not_followed(way: Way, transport: Transport) -> None:
    with FaultyServer(RawResponse(status=307, headers={"location": "/elsewhere"})) as server:
        assert way.send(transport, Send(http(server))).status == 307
    assert len(server.http) == 1


def test_a_body_over_its_limit_is_refused(way: Way, transport: Transport) -> None:
    with FaultyServer(RawResponse(body=b"x" * 100_000), RawResponse(body=b"x" * 10)) as server:
        with pytest.raises(TooLarge):
            way.send(transport, Send(http(server), limit=1000))
        assert len(way.send(transport, Send(http(server), limit=10)).body) == 10


# ── what fails ──────────────────────────────────────────────────────────────

BROKEN: list[tuple[ScriptLine, type[DragomanError]]] = [
    (CloseAtOnce(), Reset),
    (CloseAfter(5), Reset),
    (ResetAfter(5), Reset),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("line", "error"), BROKEN, ids=lambda value: type(value).__name__)
def test_a_broken_answer_is_never_a_clean_end(
    way: Way, transport: Transport, line: ScriptLine, error: type[DragomanError], *, streamed: bool
) -> None:
    with FaultyServer(line) as server:
        plain, whole = Send(http(server)), Open(http(server, streamed=True))
        with pytest.raises(error):
            _ = way.read(transport, whole) if streamed else way.send(transport, plain)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_a_stale_connection_is_not_a_failure_of_the_server(way: Way, pooled: Transport, *, streamed: bool) -> None:
    def broken() -> Reset:
        with pytest.raises(Reset) as caught:
            _ = way.read(pooled, Open(http(server))) if streamed else way.send(pooled, Send(http(server)))
        return caught.value

    with FaultyServer("Hello.", CloseAtOnce(), CloseAtOnce(), "Hello.", CloseAtOnce()) as server:
        way.send(pooled, Send(http(server)))
        old, new = broken(), broken()
        way.send(pooled, Send(http(server)))
        again = broken()
    assert [(error.count_failure, error.retry_after) for error in (old, new, again)] == [
        (False, 0.0),
        (True, None),
        (False, 0.0),
    ]


def test_a_new_connection_that_breaks_is_a_failure_of_the_server(way: Way, pooled: Transport) -> None:
    with FaultyServer(CloseAtOnce()) as server, pytest.raises(Reset) as caught:
        way.send(pooled, Send(http(server)))
    assert (caught.value.count_failure, caught.value.retry_after) == (True, None)


def test_a_refused_connection_is_told(way: Way, transport: Transport) -> None:
    with pytest.raises(ConnectFailed, match=r"http://127\.0\.0\.1:\d+: cannot connect"):
        way.send(transport, Send(http(refused_url())))


def test_an_unknown_host_is_connect_failed(way: Way, transport: Transport) -> None:
    with pytest.raises(ConnectFailed):
        way.send(transport, Send(http("http://nobody.invalid")))


def test_an_unknown_certificate_is_connect_failed(way: Way, transport: Transport, tls: ssl.SSLContext) -> None:
    with FaultyServer("Hello.", tls=tls) as server, pytest.raises(ConnectFailed):
        way.send(transport, Send(http(server)))


def test_what_is_not_http_is_malformed(way: Way, pooled: Transport) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def babble() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"220 mail.example.org ESMTP\r\n\r\n")

    thread = threading.Thread(target=babble, daemon=True)
    thread.start()
    with pytest.raises(Malformed):
        way.send(pooled, Send(http(f"http://127.0.0.1:{listener.getsockname()[1]}")))
    thread.join()
    listener.close()


def test_an_error_does_not_show_an_invalid_header(way: Way, transport: Transport) -> None:
    for value in ("sk-\nsecret", "sk-\0secret"):
        with FaultyServer("Hello.") as server:
            request = HttpRequest(method="POST", origin=server.origin, path="/", headers={"x-api-key": value})
            with pytest.raises(InvalidRequest) as caught:
                way.send(transport, Send(request))
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert caught.value.fail_over


def test_an_error_does_not_show_a_header_that_httpx_refuses() -> None:
    request = HttpRequest(method="POST", origin="http://127.0.0.1:1", path="/", headers={"x-api-key": "…secret"})
    with httpx.Client() as client, pytest.raises(InvalidRequest) as caught:
        make_transport(client).send(Send(request))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_an_error_does_not_show_a_password(way: Way, transport: Transport) -> None:
    with pytest.raises(ConnectFailed) as caught:
        way.send(transport, Send(http(refused_url().replace("//", "//me:hush@"))))
    assert "hush" not in f"{caught.value} {caught.value.__cause__!r}"


def test_an_error_does_not_show_the_query(way: Way, transport: Transport) -> None:
    """It may hold a key; their error, which is the cause, is shown with ours."""
    with pytest.raises(ConnectFailed) as caught:
        way.send(transport, Send(http(refused_url(), path=f"/v1?key={SECRET}")))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# ── time ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", [NoResponse(), StallAfter(5)], ids=["head", "body"])
def test_a_total_timeout_holds(way: Way, transport: Transport, line: ScriptLine) -> None:
    assert isinstance(transport, RoutingTransport)
    most = 0.25 if isinstance(transport.transport, HttpClient) else 0.5
    with FaultyServer(line, repeat=True) as server:
        took = soonest(lambda: way.send(transport, Send(http(server), 0.2)), TimedOut, most=most)
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"
    assert 0.19 <= took <= most


def test_a_head_that_does_not_come_times_out(way: Way, transport: Transport) -> None:
    with FaultyServer(NoResponse(), repeat=True) as server:
        took = soonest(
            lambda: way.read(transport, Open(http(server, streamed=True), 0.2, total_timeout=5.0, read_timeout=0.3)),
            TimedOut,
            most=0.25,
        )
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"
    assert 0.19 <= took <= 0.25


def test_a_read_has_its_own_limit(way: Way, pooled: Transport) -> None:
    with FaultyServer(StallAfter(5), repeat=True) as server:
        effect = Open(http(server, streamed=True), 5.0, total_timeout=5.0)
        took = soonest(lambda: way.read(pooled, effect, within=0.2), TimedOut, most=0.25)
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"
    assert 0.19 <= took <= 0.25


def test_a_stream_has_a_total_limit(way: Way, pooled: Transport) -> None:
    with FaultyServer(StallAfter(5), repeat=True) as server:
        effect = Open(http(server, streamed=True), 5.0, total_timeout=0.2)
        took = soonest(lambda: way.read(pooled, effect, within=5.0), TimedOut, most=0.25)
    assert 0.19 <= took <= 0.25


def drip(
    data: bytes, *, every: float = 0.0, then: tuple[bytes, ...] = (), pause: float = 0.0
) -> tuple[str, threading.Event]:
    """The origin of a server that sends some bytes one by one, and an event for the end of its connection.

    After them it sends more pieces, with a pause before each.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            request = b""
            while not request.endswith(b"}"):  # a body that is not read resets the connection
                request += connection.recv(65536)
            for number in range(len(data)):
                connection.sendall(data[number : number + 1])
                time.sleep(every)
            for piece in then:
                time.sleep(pause)
                connection.sendall(piece)
        ended.set()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", ended


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n"
DRIPPING = HEAD + b"x-filler: " + b"x" * 1000


@pytest.mark.parametrize("data", [DRIPPING, HEAD + b"\r\n" + b"x" * 1000], ids=["head", "body"])
def test_an_answer_that_drips_ends_in_time(way: Way, transport: Transport, data: bytes) -> None:
    """Each read is short, all together are not."""

    def call() -> None:
        origin, ended = drip(data, every=0.005)
        try:
            way.send(transport, Send(http(origin), 0.4))
        finally:
            assert ended.wait(PATIENCE), "the connection was not closed"

    assert 0.39 <= soonest(call, ReadTimeout, most=0.5) <= 0.5


def test_a_head_has_its_own_limit(way: Way, transport: Transport) -> None:
    def call() -> None:
        origin, _ = drip(DRIPPING, every=0.005)
        way.send(transport, Send(http(origin), 5.0, head_timeout=0.2))

    assert 0.19 <= soonest(call, ReadTimeout, most=0.3) <= 0.3


def test_the_head_of_a_stream_that_drips_ends_in_time(way: Way, transport: Transport) -> None:
    def call() -> None:
        origin, ended = drip(DRIPPING, every=0.005)
        try:
            way.read(transport, Open(http(origin, streamed=True), 0.2, total_timeout=5.0))
        finally:
            assert ended.wait(PATIENCE), "the connection was not closed"

    assert 0.19 <= soonest(call, ReadTimeout, most=0.3) <= 0.3


def test_the_limit_of_a_head_does_not_limit_the_body(way: Way, transport: Transport) -> None:
    """A pause in the body may be longer than the head may take."""
    origin, _ = drip(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", then=(b"ab",), pause=2.5)
    assert way.send(transport, Send(http(origin), PATIENCE, head_timeout=2.0)).body == b"ab"
    origin, _ = drip(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", then=(b"ab",), pause=2.5)
    assert way.read(transport, Open(http(origin, streamed=True), 2.0, total_timeout=PATIENCE))[1] == b"ab"


def test_the_limit_of_a_call_limits_connecting_too(way: Way, transport: Transport) -> None:
    with FullListener() as listener:
        took = soonest(lambda: way.send(transport, Send(http(listener.origin), 0.2, 10.0)), ConnectTimeout, most=0.3)
    assert 0.19 <= took <= 0.3


def test_a_head_that_drips_ends_in_time_in_a_transport_that_wraps_another() -> None:
    class Wrapper(httpx.BaseTransport):
        """As those for retries, caches and logs."""

        def __init__(self) -> None:
            self._inner = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return self._inner.handle_request(request)

        def close(self) -> None:
            self._inner.close()

    with httpx.Client(transport=Wrapper(), trust_env=False) as client:
        transport = make_transport(client)

        def call() -> None:
            origin, _ = drip(DRIPPING, every=0.005)
            transport.send(Send(http(origin), 0.2))

        assert 0.19 <= soonest(call, ReadTimeout, most=0.3) <= 0.3


def test_headers_are_read_as_latin_1(way: Way, transport: Transport) -> None:
    origin, _ = drip(b"HTTP/1.1 200 OK\r\nx-note: caf\xc3\xa9 \xff\r\nx-note: 2\r\ncontent-length: 0\r\n\r\n")
    assert way.send(transport, Send(http(origin))).headers["x-note"] == "caf\xc3\xa9 \xff, 2"


def test_a_server_that_is_silent_is_not_one_that_cannot_be_reached(way: Way, transport: Transport) -> None:
    with FaultyServer(NoResponse()) as server, pytest.raises(ReadTimeout, match=r"no answer in time$"):
        way.send(transport, Send(http(server), 0.1, 0.1))


def test_a_connection_that_is_not_accepted_is_a_connect_timeout(way: Way, transport: Transport) -> None:
    with FullListener() as listener, pytest.raises(ConnectTimeout, match=r"no connection in time$"):
        way.send(transport, Send(http(listener.origin), 5.0, 0.1))


def test_an_interrupt_ends_a_blocking_call_at_once(pooled: Transport) -> None:
    with FaultyServer(StallAfter(5)) as server:
        exchange = pooled.open(Open(http(server, streamed=True)))
        assert len(exchange.handle.read(PATIENCE)) == 5
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            exchange.handle.read(PATIENCE)
        timer.join()
        exchange.handle.close()
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


# ── connections ─────────────────────────────────────────────────────────────


def test_leaving_early_closes_the_connection(way: Way, transport: Transport) -> None:
    with FaultyServer(StallAfter(5)) as server:
        assert len(way.leave(transport, Open(http(server, streamed=True)))) == 5
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


def test_what_a_closed_stream_had_buffered_is_freed_without_the_garbage_collector(way: Way, pooled: Transport) -> None:
    with NewObjects(http1.ResponseParser) as parsers, FaultyServer(StallAfter(5), StallAfter(5), "Hello.") as server:
        for _ in range(2):
            way.leave(pooled, Open(http(server, streamed=True)))
        way.send(pooled, Send(http(server)))
        assert parsers.count() == 1, "that of the connection which is kept"


def test_cancelling_closes_the_connection(pooled: Transport) -> None:
    async def work(server: FaultyServer) -> None:
        exchange = await pooled.aopen(Open(http(server, streamed=True)))
        await exchange.handle.aread(None)
        reading = asyncio.ensure_future(exchange.handle.aread(None))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await exchange.handle.aclose()

    with FaultyServer(StallAfter(5)) as server:
        asyncio.run(work(server))
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


def test_a_connection_is_used_again(way: Way, pooled: Transport) -> None:
    with FaultyServer("Hello.", repeat=True) as server:
        for _ in range(3):
            way.send(pooled, Send(http(server)))
            way.read(pooled, Open(http(server, streamed=True)))
    assert server.connections <= 2, "a connection goes back to the pool by itself, maybe a moment too late for the next"


def test_a_stream_that_was_read_to_its_last_event_keeps_its_connection(way: Way, pooled: Transport) -> None:
    """The wire is content with [DONE]; the end of the body comes after it."""
    with FaultyServer("Hello.", repeat=True) as server:
        model = server.registry(http_client=pooled).model("server/model")
        for _ in range(3):
            list(model.stream("hi"))
    assert server.connections < 3


def test_a_stream_that_the_server_does_not_end_is_closed(way: Way, pooled: Transport) -> None:
    with FaultyServer(KeepOpen("Hello.")) as server:
        began = time.monotonic()
        response = server.registry(http_client=pooled).model("server/model").stream("hi")
        assert [item.text for item in response][-1] == "Hello."  # type: ignore[union-attr]  # all of them have a text
        assert time.monotonic() - began < 1.0
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


def test_blocking_and_async_calls_have_connections_of_their_own(pooled: Transport) -> None:
    with FaultyServer("Hello.", repeat=True) as server:
        for _ in range(3):
            pooled.send(Send(http(server)))
        assert server.connections == 1

        async def work() -> None:
            for _ in range(3):
                await pooled.asend(Send(http(server)))

        asyncio.run(work())
    assert server.connections == 2


def test_an_idle_connection_that_the_server_closed_is_not_used(way: Way, pooled: Transport) -> None:
    """The server does not say that it will close."""
    closed = threading.Semaphore(0)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            closed.release()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for _ in range(3):
        assert way.send(pooled, Send(http(f"http://127.0.0.1:{listener.getsockname()[1]}"))).body == b"{}"
        assert closed.acquire(timeout=PATIENCE)
    thread.join()
    listener.close()


def test_bytes_after_an_answer_end_the_connection(way: Way, pooled: Transport) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply + b"ok" + reply + b"no")
                connection.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for _ in range(2):
        assert way.send(pooled, Send(http(f"http://127.0.0.1:{listener.getsockname()[1]}"))).body == b"ok"
    pooled.close()
    thread.join()
    listener.close()


def test_idle_connections_are_limited_in_number_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        idle_since = 0.0
        is_usable = True
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

        def abort(self) -> None:
            raise AssertionError

    monkeypatch.setattr(pool_module, "MAX_IDLE", 2)
    here, there = (destination_of(f"http://box:{port}", {}) for port in (1, 2))
    assert here is not None
    assert there is not None
    pool: Pool[Idle] = Pool()
    first, second, third, last = (Idle() for _ in range(4))
    for number, connection in enumerate((first, second, third)):
        pool.put(here, connection, float(number))
    assert [connection.is_closed for connection in (first, second, third)] == [True, False, False]
    assert pool.get(here, 80.0) is third
    pool.put(here, third, 80.0)
    pool.put(there, last, 100.0)
    assert [connection.is_closed for connection in (second, third)] == [True, False]
    assert pool.get(here, 200.0) is None
    assert third.is_closed
    pool.close()
    assert last.is_closed


def test_an_error_without_a_date_gets_one(way: Way, transport: Transport) -> None:
    then = formatdate(time.time() + 600, usegmt=True)
    with FaultyServer(RawResponse(status=429, headers={"retry-after": then}, body=b"{}")) as server:
        head = way.send(transport, Send(http(server)))
    assert 500 < (retry_after(head) or 0.0) <= 600


@pytest.mark.parametrize("fault", [OSError("no such device"), RuntimeError("the loop is closed")])
def test_any_error_of_an_httpx_client_is_a_transport_error(fault: Exception) -> None:
    def handle(_request: httpx.Request) -> httpx.Response:
        raise fault

    with httpx.Client(transport=httpx.MockTransport(handle)) as client, FaultyServer("fine") as server:
        registry = server.registry(http_client=client)
        with pytest.raises(TransportError, match="the client failed") as caught:
            registry.model("server/m", retries=0).generate("hi")
        assert registry.model("server/m, demo/any", retries=0).generate("hi").target == "demo/any"
    assert caught.value.__cause__ is not None


def test_closing_is_safe_at_any_time(way: Way, pooled: Transport) -> None:
    with FaultyServer("Hello.", repeat=True) as server:
        pooled.close()
        assert way.send(pooled, Send(http(server))).status == 200
        pooled.close()
        pooled.close()
        assert way.send(pooled, Send(http(server))).status == 200


def test_closing_ends_calls_that_have_no_answer_yet(way: Way, pooled: Transport) -> None:
    with FaultyServer(NoResponse()) as server:

        def close() -> None:
            assert server.request_received.acquire(timeout=PATIENCE)
            pooled.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(Reset, match="closed during the request") as caught:
            way.send(pooled, Send(http(server), PATIENCE))
        thread.join()
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"
    assert [caught.value.retry, caught.value.fail_over, caught.value.count_failure] == [False] * 3


def test_closing_lets_an_answer_that_has_begun_end(way: Way, pooled: Transport) -> None:
    begun, go_on = threading.Event(), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhe")
            begun.set()
            go_on.wait(PATIENCE)
            connection.sendall(b"ll")

    def close() -> None:
        begun.wait(PATIENCE)
        time.sleep(0.1)
        pooled.close()
        go_on.set()

    threads = [threading.Thread(target=work, daemon=True) for work in (serve, close)]
    for thread in threads:
        thread.start()
    assert way.send(pooled, Send(http(f"http://127.0.0.1:{listener.getsockname()[1]}"))).body == b"hell"
    for thread in threads:
        thread.join()
    listener.close()


def test_one_transport_serves_many_threads(pooled: Transport) -> None:
    with FaultyServer("Hello.", repeat=True) as server:
        statuses: list[int] = []

        def work() -> None:
            statuses.extend(pooled.send(Send(http(server))).status for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 160


def test_one_transport_serves_loops_one_after_another(pooled: Transport) -> None:
    async def work(server: FaultyServer) -> list[int]:
        replies = await asyncio.gather(*(pooled.asend(Send(http(server))) for _ in range(10)))
        return [reply.status for reply in replies]

    with FaultyServer("Hello.", repeat=True) as server:
        for _ in range(3):
            assert asyncio.run(work(server)) == [200] * 10


def test_a_blocking_call_works_where_a_loop_runs(pooled: Transport) -> None:
    async def work(server: FaultyServer) -> int:
        status = pooled.send(Send(http(server))).status
        await asyncio.sleep(0)
        assert asyncio.get_running_loop().is_running()
        return status

    with FaultyServer("Hello.") as server:
        assert asyncio.run(work(server)) == 200


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_first_call_after_a_fork_works(*, asynchronous: bool) -> None:
    code = f"""
import asyncio, os
from dragoman.testing import FaultyServer
with FaultyServer("Hello.", repeat=True) as server:
    model = server.registry().model("server/m")
    call = (lambda: asyncio.run(model.agenerate("hi"))) if {asynchronous} else (lambda: model.generate("hi"))
    call()
    child = os.fork()
    if child == 0:
        os._exit(3 if call().text == "Hello." else 4)
    _, status = os.waitpid(child, 0)
    call()
    print(os.waitstatus_to_exitcode(status), server.connections)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["3", "3" if asynchronous else "2"]


# ── TLS and proxies ─────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    return context


@pytest.fixture
def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


@pytest.mark.parametrize("form", [bytes, str, Path])
def test_a_ca_is_trusted(way: Way, tls: ssl.SSLContext, pem: bytes, tmp_path: Path, form: Callable[[Any], Any]) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(b"# two of them\n" + trustme.CA().cert_pem.bytes() + pem)
    transport = HttpClient(ca=file.read_bytes() if form is bytes else form(file))
    with FaultyServer("Hello.", tls=tls) as server:
        assert way.send(transport, Send(http(server))).status == 200
    transport.close()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_proxy_of_the_environment_is_reached_by_tls(
    tls: ssl.SSLContext, pem: bytes, tmp_path: Path, *, asynchronous: bool
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(pem)
    with FaultyServer("Aye.", "Aye, aye.", tls=tls) as server:
        env = {"LLM_YARD": f"foreman://sk-token@127.0.0.1:{server.port}", "SSL_CERT_FILE": str(file)}
        model = Registry(env=env).model("yard/qwen3:8b")
        response = asyncio.run(model.agenerate("Ready?")) if asynchronous else model.generate("Ready?")
        assert (response.text, response.target) == ("Aye.", "yard/qwen3:8b")
        assert server.http[0].path == "/api/chat"
        assert "authorization" in server.http[0].headers
        assert list(model.stream("Sure?"))[-1].text == "Aye, aye."  # type: ignore[union-attr]  # a response has a text


def test_a_proxy_of_the_environment_is_used(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer(RawResponse(body=b"by proxy")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        monkeypatch.delenv("NO_PROXY", raising=False)
        transport = HttpClient()
        assert way.send(transport, Send(http("http://provider.invalid"))).body == b"by proxy"
        transport.close()
    assert proxy.http[0].path == f"http://provider.invalid{CHAT}"


def test_no_proxy_is_obeyed(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer(repeat=True) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        monkeypatch.setenv("NO_PROXY", "provider.invalid")
        transport = HttpClient()
        with pytest.raises(ConnectFailed):
            way.send(transport, Send(http("http://provider.invalid")))
        transport.close()
    assert not proxy.http


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_never_goes_through_a_proxy(way: Way, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with FaultyServer("Hello.") as server:
        monkeypatch.setenv("HTTP_PROXY", refused_url())
        monkeypatch.delenv("NO_PROXY", raising=False)
        transport = HttpClient()
        assert way.send(transport, Send(http(f"http://{host}:{server.port}"))).status == 200
        transport.close()


def test_proxies_come_from_the_env_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer(RawResponse(status=404), repeat=True) as proxy, FaultyServer(repeat=True) as shell:
        monkeypatch.setenv("HTTP_PROXY", shell.origin)
        monkeypatch.delenv("NO_PROXY", raising=False)
        place = "http://provider.invalid/v1"
        for env in (
            {"HTTP_PROXY": proxy.origin},
            {"http_proxy": proxy.origin},
            {"ALL_PROXY": proxy.origin.removeprefix("http://")},
        ):
            registry = Registry(env={"VLLM_BASE_URL": place, **env})
            with pytest.raises(ModelNotFound):
                registry.model("vllm/m").generate("hi")
            registry.close()
        for none in ({}, {"HTTPS_PROXY": proxy.origin}, {"HTTP_PROXY": proxy.origin, "NO_PROXY": "provider.invalid"}):
            registry = Registry(env={"VLLM_BASE_URL": place, **none})
            with pytest.raises(ConnectFailed):
                registry.model("vllm/m", retries=0).generate("hi")
            registry.close()
    assert len(proxy.http) == 3
    assert not shell.http


def test_an_invalid_proxy_is_an_error_without_its_value() -> None:
    registry = Registry(env={"HTTPS_PROXY": "http://hush:@", "OPENAI_API_KEY": "k"})
    with pytest.raises(SetupError, match="HTTPS_PROXY must be the URL of a proxy") as caught:
        registry.model("openai/m").generate("hi")
    assert "hush" not in f"{caught.value} {caught.value.__cause__!r}"


NO_PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "cannot be read: .*nowhere"), ("junk", "has no PEM certificate"), (NO_PEM, "cannot be used: ")],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_invalid_certificates_are_an_error_at_the_first_connection(
    tmp_path: Path, text: str | None, why: str, *, asynchronous: bool
) -> None:
    file = tmp_path / "nowhere.pem"
    if text is not None:
        file.write_text(text)
    registry = Registry(env={"SSL_CERT_FILE": str(file), "OPENAI_API_KEY": "k"})
    assert registry.model("demo/any").generate("hi").text
    model = registry.model("openai/m")
    with pytest.raises(SetupError, match=rf"the certificates of ca= or SSL_CERT_FILE .*{why}"):
        _ = asyncio.run(model.agenerate("hi")) if asynchronous else model.generate("hi")


# ── which transport ─────────────────────────────────────────────────────────


def test_an_httpx_client_of_the_wrong_kind_is_an_error() -> None:
    with httpx.Client() as client, pytest.raises(SetupError, match=r"httpx\.AsyncClient"):
        asyncio.run(make_transport(client).asend(Send(http("http://127.0.0.1:1"))))
    with pytest.raises(SetupError, match=r"must be an httpx\.Client for blocking calls"):
        make_transport(httpx.AsyncClient()).send(Send(http("http://127.0.0.1:1")))


def test_a_transport_passes_through() -> None:
    scripted = Scripted("Hello.")
    assert make_transport(make_transport(scripted)).send(Send(http("http://anywhere"))).status == 200
    assert len(scripted.http) == 1


def test_an_http_client_of_another_type_is_an_error() -> None:
    with pytest.raises(SetupError, match="got str"):
        make_transport("http://proxy")


def test_the_demo_is_reached_by_every_transport() -> None:
    request = HttpRequest(method="GET", origin="demo://local", path="/v1/models")
    for client in (None, Scripted(), httpx.Client(), DemoTransport()):
        assert b'"any"' in make_transport(client).send(Send(request)).body


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_of_a_provider_is_for_that_provider_only(*, asynchronous: bool, streamed: bool) -> None:
    seen: list[str] = []

    def note(request: httpx.Request) -> None:
        seen.append(request.url.path)

    async def anote(request: httpx.Request) -> None:
        note(request)

    client: httpx.Client | httpx.AsyncClient = (
        httpx.AsyncClient(trust_env=False, event_hooks={"request": [anote]})
        if asynchronous
        else httpx.Client(trust_env=False, event_hooks={"request": [note]})
    )
    with FaultyServer("Hello.", "Hello.", "Hello.") as server:
        registry = Registry(env={"VLLM_BASE_URL": server.origin})
        registry.add_provider(name="own", like="vllm", base_url=server.origin, http_client=client)
        registry.add_provider(name="other", like="own", base_url=server.origin)
        models = [registry.model(spec) for spec in ("own/m", "vllm/m", "other/m")]

        async def ask(model: Model) -> None:
            _ = [item async for item in model.astream("hi")] if streamed else await model.agenerate("hi")

        async def ask_all(client: httpx.AsyncClient) -> None:
            async with client:
                for model in models:
                    await ask(model)

        if isinstance(client, httpx.AsyncClient):
            asyncio.run(ask_all(client))
        else:
            with client:
                for model in models:
                    _ = list(model.stream("hi")) if streamed else model.generate("hi")
        registry.close()
    assert len(server.http) == 3
    assert seen == [CHAT]


def test_a_client_of_a_provider_is_used_for_all_endpoints() -> None:
    answer = httpx.Response(200, json={"data": [{"id": "small"}]})
    with httpx.Client(transport=httpx.MockTransport(lambda _: answer)) as client:
        registry = Registry(env={})
        place = "http://own.invalid/v1"
        record = Provider(name="own", wire="openai_chat", base_url=place, needs_key=False, http_client=client)
        registry.add_provider(record)
        assert [model.id for model in registry.model("own/any").list_models()] == ["small"]


def test_a_client_of_a_provider_may_be_the_registrys_own() -> None:
    with FaultyServer("Hello.") as server:
        registry = Registry(env={})
        registry.add_provider(like="vllm", base_url=server.origin, http_client=registry.transport)
        assert registry.model("vllm/m").generate("hi").text == "Hello."
        registry.close()


def test_an_invalid_client_of_a_provider_is_an_error_at_once() -> None:
    with pytest.raises(SetupError, match=r"http_client must be an httpx\.Client"):
        Registry(env={}).add_provider(like="groq", http_client="http://proxy")


def test_httpx_is_not_imported_without_need() -> None:
    code = "import sys, dragoman\ndragoman.generate('demo/any', 'hi')\nprint('httpx' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_a_body_of_garbage_is_returned_as_bytes(way: Way, transport: Transport) -> None:
    with FaultyServer(InvalidBody(b"\x00\xff")) as server:
        assert way.send(transport, Send(http(server))).body == b"\x00\xff"


def test_reading_after_closing_is_a_reset(pooled: Transport) -> None:
    with FaultyServer("Hello.") as server:
        exchange: OpenResponse = pooled.open(Open(http(server, streamed=True)))
        exchange.handle.close()
        with pytest.raises(Reset):
            exchange.handle.read(None)


def test_an_interrupt_inside_the_parser_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """httptools replaces every exception of its callbacks."""

    def interrupt(_parser: http1.ResponseParser, _name: bytes, _value: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(http1.ResponseParser, "on_header", interrupt)
    with pytest.raises(KeyboardInterrupt):
        http1.ResponseParser().feed(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n")
