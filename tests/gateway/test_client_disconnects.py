"""A client that hangs up cancels the call that is made for it: the provider sees it go."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman import wires
from dragoman.testing import FaultyServer, NoResponse, RawResponse, StallAfter
from dragoman.testing.script import render
from dragoman.types import Request
from tests.support.clock import moment
from tests.support.gateway.live import PATIENCE, Gateway, chat, record
from tests.support.sockets import STAGES, DeafServer, StoppedServer, stopped_server

LIMIT = 0.05
WORDS = "one two three"
LONG = "long " * 4_000_000
"""More than the systems of both sides buffer."""
WAIT = 60
"""Seconds for which a provider asks, much longer than a test takes."""
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).chunks[:2])) + 9


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def busy() -> Iterator[FaultyServer]:
    """A server that is busy, and asks for a wait before the retry."""
    body = b'{"error":{"message":"busy"}}'
    with FaultyServer(RawResponse(status=503, headers={"retry-after": f"{WAIT}"}, body=body), repeat=True) as server:
        yield server


@pytest.fixture(scope="module")
def stopped() -> Iterator[dict[str, StoppedServer]]:
    """A server for each stage, which stops there."""
    with ExitStack() as stack:
        yield {stage: stack.enter_context(stopped_server(stage)) for stage in STAGES}


@pytest.fixture(scope="module")
def deaf() -> Iterator[dict[bool, DeafServer]]:
    """A server that reads nothing, for a plain call and for a streamed one."""
    with DeafServer() as plain, DeafServer() as streamed:
        yield {False: plain, True: streamed}


def name_of(stage: str) -> str:
    return stage.lower().replace(" ", "_")


@pytest.fixture(scope="module")
def gateway(
    upstream: FaultyServer,
    busy: FaultyServer,
    stopped: dict[str, StoppedServer],
    deaf: dict[bool, DeafServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    records = [record(name_of(stage), f"{server.origin}/v1") for stage, server in stopped.items()]
    records += [record(name, busy.base_url()) for name in ("busy_plain", "busy_streamed")]
    records += [record(f"deaf_{stream}", f"{server.origin}/v1") for stream, server in deaf.items()]
    chain = f"[chain]\nmax_retry_after = {WAIT}\n"
    with Gateway(folder, "\n".join([chain, record("up", upstream.base_url()), *records])) as running:
        # The first call of a process makes its HTTP client, which takes longer than a client may stay.
        upstream.add("Hello.")
        running.post("/v1/chat/completions", chat("up/m"))
        assert upstream.request_received.acquire(timeout=PATIENCE)
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_client_that_leaves_closes_the_connection_to_the_provider_at_once(
    gateway: Gateway, stopped: dict[str, StoppedServer], stage: str, *, stream: bool
) -> None:
    """The row of the matrix in tests/io/test_cancellation.py for clients of a gateway."""

    with gateway.send(chat(f"{name_of(stage)}/m", stream=stream)):
        stopped[stage].wait_until_reached()
    left_at = moment(*gateway.processes())
    assert left_at.until(stopped[stage].wait_until_left()) < LIMIT


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_while_the_gateway_sends_the_request_closes_the_connection_at_once(
    gateway: Gateway, deaf: dict[bool, DeafServer], *, stream: bool
) -> None:
    with gateway.send(chat(f"deaf_{stream}/m", stream=stream, text=LONG)):
        deaf[stream].wait_until_reached()
    left_at = moment(*gateway.processes())
    assert left_at.until(deaf[stream].wait_until_left()) < LIMIT


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_leaving_while_the_gateway_waits_for_a_retry_ends_the_wait(
    gateway: Gateway, busy: FaultyServer, *, stream: bool
) -> None:
    target = "busy_streamed/m" if stream else "busy_plain/m"
    attempts = f'dragoman_attempts_total{{target="{target}",outcome="failed"}} 1'
    requests = len(busy.http)
    with gateway.send(chat(target, stream=stream)):
        gateway.wait_until(lambda: attempts.encode() in gateway.get("/metrics")[1])
        assert b'"in_flight":2,' in gateway.get("/health")[1]
    left_at = time.monotonic()
    gateway.wait_until(lambda: b'"in_flight":1,' in gateway.get("/health")[1])
    assert time.monotonic() - left_at < WAIT / 2
    assert len(busy.http) == requests + 1


def test_leaving_a_plain_call_cancels_it(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(StallAfter(10))
    with gateway.send(chat("up/m")):
        assert upstream.request_received.acquire(timeout=PATIENCE)
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)


def test_leaving_before_the_head_of_the_provider_cancels_it(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(NoResponse())
    with gateway.send(chat("up/m")):
        assert upstream.request_received.acquire(timeout=PATIENCE)
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)


def test_leaving_a_stream_before_its_first_byte_cancels_it(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(StallAfter(0))
    with gateway.send(chat("up/m", stream=True)):
        assert upstream.request_received.acquire(timeout=PATIENCE)
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)


def test_leaving_a_stream_in_the_middle_cancels_it(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(StallAfter(SHOWN, WORDS))
    with gateway.send(chat("up/m", stream=True)) as connection:
        seen = b""
        while b"three" not in seen:
            seen += connection.recv(65536)
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)


def test_leaving_within_a_body_is_no_fault_of_the_gateway(gateway: Gateway) -> None:
    for length in (b"content-length: 100", b"transfer-encoding: chunked"):
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
            connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n" + length + b"\r\n\r\n5\r\nhalf ")
    assert gateway.get("/health/live")[0] == 200
    assert "xception" not in gateway.log.read_text()


def test_a_gateway_that_clients_left_answers_the_next(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add("Hello.")
    assert gateway.post("/v1/chat/completions", chat("up/m"))[0] == 200
    assert b'"in_flight":1,' in gateway.get("/health")[1]
