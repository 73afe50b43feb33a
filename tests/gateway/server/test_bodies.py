"""A body is read only for a client with a key, and all bodies together have a limit."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.server.asgi import Asgi
from dragoman.gateway.server.body_limits import BodyBytes
from dragoman.http import HttpRequest
from tests.support.gateway.dialects import app_of, post
from tests.support.gateway.live import PATIENCE, Gateway, chat
from tests.support.gateway.stalls import memory, stalls

CHAT = "/v1/chat/completions"
PLAIN, HASH = new_key()
KEYED = f'[keys.alice]\nhash = "{HASH}"\n'
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), KEYED) as running:
        yield running


def head(length: int, key: str = "") -> bytes:
    sent = f"authorization: Bearer {key}\r\n" if key else ""
    return f"POST {CHAT} HTTP/1.1\r\nhost: x\r\n{sent}content-length: {length}\r\n\r\n".encode()


def test_who_has_no_key_is_refused_before_the_body(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(head(30 * MEGABYTE))
        assert b" 401 " in connection.recv(65536)


def test_a_refusal_without_a_key_reaches_a_client_that_sends_all_first(gateway: Gateway) -> None:
    assert gateway.post(CHAT, b" " * 20 * MEGABYTE)[0] == 401


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_thirty_connections_without_a_key_hold_no_memory(gateway: Gateway) -> None:
    before = memory(gateway)
    connections = [socket.create_connection(("127.0.0.1", gateway.port), timeout=1.0) for _ in range(30)]
    try:
        for connection in connections:
            connection.sendall(head(30 * MEGABYTE))
            try:
                connection.sendall(b" " * 8 * MEGABYTE)
            except OSError:
                continue
        assert memory(gateway) - before < 64 * MEGABYTE
    finally:
        for connection in connections:
            connection.close()


def test_bodies_that_are_too_large_together_are_a_503(tmp_path: Path) -> None:
    limits = f"[gateway]\nmax_body = {2 * MEGABYTE}\nmax_body_memory = {3 * MEGABYTE}\n"
    with Gateway(tmp_path, limits + KEYED) as gateway:
        with (
            socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as first,
            socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as second,
        ):
            for connection in (first, second):
                connection.sendall(head(2 * MEGABYTE, PLAIN) + b" " * (2 * MEGABYTE - 1))
            # Whichever is read last does not fit.
            connections: Any = (first, second)
            assert any(b" 503 " in answer for answer in answers(connections))
        gateway.wait_until(lambda: gateway.post(CHAT, chat("demo/any"), authorization=f"Bearer {PLAIN}")[0] == 200)


def answers(connections: tuple[socket.socket, ...]) -> Iterator[bytes]:
    for connection in connections:
        connection.settimeout(3.0)
        try:
            yield connection.recv(65536)
        except TimeoutError:
            yield b""


def test_a_request_whose_body_is_being_read_counts_as_in_progress() -> None:
    async def fill(app: App) -> int:
        reading, stop = asyncio.Event(), asyncio.Event()

        async def read(_bytes: BodyBytes) -> bytes:
            reading.set()
            await stop.wait()
            return b"{}"

        first = asyncio.create_task(app.answer(post(CHAT, b""), read))
        await reading.wait()
        second = await app.answer(post(CHAT, b"{}"))
        stop.set()
        await first
        return second.status

    assert asyncio.run(fill(app_of("[gateway]\nmax_requests = 1\n"))) == 503


LIMITED = f'[keys.alice]\nhash = "{HASH}"\nconcurrent = 1\n'


def _keyed(path: str, **headers: str) -> HttpRequest:
    return post(path, b"", authorization=f"Bearer {PLAIN}", **headers)


@pytest.mark.parametrize("more", ["", "requests_per_minute = 9\n"])
def test_a_body_that_is_being_read_counts_among_the_concurrent_requests_of_its_key(more: str) -> None:
    body = json.dumps(chat("demo/any")).encode()
    sized = {"content-length": str(len(body))}

    async def fill(app: App) -> tuple[list[int], dict[str, str], bytes]:
        reading, stop = asyncio.Event(), asyncio.Event()

        async def read_slowly(_bytes: BodyBytes) -> bytes:
            reading.set()
            await stop.wait()
            return body

        async def read(_bytes: BodyBytes) -> bytes:
            return body

        async def no_read(_bytes: BodyBytes) -> bytes:
            raise AssertionError("the body was read")

        slow = asyncio.create_task(app.answer(_keyed(CHAT, **sized), read_slowly))
        await reading.wait()
        refused = await app.answer(_keyed(CHAT, **sized), no_read)
        chunked = await app.answer(_keyed(CHAT, **{"transfer-encoding": "chunked"}), no_read)
        models = await app.answer(HttpRequest(method="GET", path="/v1/models", headers=_keyed("").headers), read)
        stop.set()
        served = await slow
        cut = asyncio.create_task(app.answer(_keyed(CHAT, **sized), read_slowly))
        stop.clear()
        await asyncio.sleep(0)
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)
        wrong = await app.answer(_keyed("/v1/messages", **sized), no_body)
        again = await app.answer(_keyed(CHAT, **sized), read)
        statuses = [each.status for each in (refused, chunked, models, served, wrong, again)]
        return statuses, dict(again.headers), cast("bytes", refused.body)

    async def no_body(_bytes: BodyBytes) -> bytes:
        return b"not JSON"

    statuses, headers, refusal = asyncio.run(fill(app_of(LIMITED + more)))
    assert statuses == [429, 429, 200, 200, 400, 200]
    assert b"the limit of 1 concurrent requests is reached" in refusal
    assert headers["X-RateLimit-Remaining-Concurrent"] == "1"
    assert ("X-RateLimit-Limit-Requests" in headers) is bool(more)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/", "/api/version", "/native/openapi.json"])
def test_a_public_route_reads_no_body_and_takes_no_place(path: str) -> None:
    async def fill(app: App) -> tuple[int, int]:
        reading, stop = asyncio.Event(), asyncio.Event()

        async def read(_bytes: BodyBytes) -> bytes:
            reading.set()
            await stop.wait()
            return b"{}"

        async def no_read(_bytes: BodyBytes) -> bytes:
            raise AssertionError("the body was read")

        public = HttpRequest(method="GET", path=path, headers={"content-encoding": "gzip"}, body=b"no gzip")
        alone = await app.answer(public, no_read)
        first = asyncio.create_task(app.answer(post(CHAT, b""), read))
        await reading.wait()
        beside = await app.answer(public, no_read)
        stop.set()
        await first
        return alone.status, beside.status

    assert asyncio.run(fill(app_of("[gateway]\nmax_requests = 1\n"))) == (200, 200)


def test_asgi_reads_no_body_without_a_key() -> None:
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Asgi(app_of(KEYED))(scope, receive, send))
    assert sent[0]["status"] == 401


def test_bytes_are_given_back_when_a_request_ends() -> None:
    app = app_of(f"[gateway]\nmax_body = {MEGABYTE}\nmax_body_memory = {MEGABYTE}\n")

    async def read(body_bytes: BodyBytes) -> bytes:
        body_bytes.add(MEGABYTE)
        return b"{}"

    async def several() -> list[int]:
        return [(await app.answer(post(CHAT, b""), read)).status for _ in range(3)]

    assert asyncio.run(several()) == [400, 400, 400]


# Large JSON -----------------------------------------------------------------------------------------------------------

KEYS = b"{" + b",".join(b'"k%d":1' % n for n in range(1_000_000)) + b"}"
LARGE = {
    "a million keys": KEYS,
    "many values": b"[" + b"1," * 3_000_000 + b"1]",
    "many lists": b"[" + b"[]," * 3_000_000 + b"[]]",
    "deep": b"[" * 10_000_000,
    "signs in a text": b'"' + b"[{:,}]" * 2_000_000 + b'"',
    "an open text": b'["' + b"a" * 10_000_000,
    "escapes": b'"' + b'\\"' * 5_000_000 + b'"',
    "numbers that take long to decode": b"[" + b"1e300," * 500_000 + b"1]",
    "texts with nothing in between": b"[" + b'""' * 5_000_000 + b"]",
}


@pytest.mark.parametrize("name", LARGE)
def test_nobody_waits_for_a_large_body_of_another_client(gateway: Gateway, name: str) -> None:
    body = b'{"model": "demo/any", "messages": [{"role": "user", "content": "hi"}], "x": %s}' % LARGE[name]
    others_go_on(gateway, body, 200 if name in ("signs in a text", "escapes") else 400)


def _with_call(arguments: str, result: str = "ok", count: int = 1) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    calls = [{"id": f"c{index}", **call} for index in range(count)]
    results = [{"role": "tool", "tool_call_id": each["id"], "content": result} for each in calls]
    return [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": calls}, *results]


NESTED = {
    "a million keys": (_with_call(KEYS.decode()), 400),
    "many values": (_with_call('{"a":[%s1]}' % ("1," * 3_000_000)), 400),
    "many lists": (_with_call('{"a":[%s1]}' % ("[]," * 3_000_000)), 400),
    "many calls": (_with_call(json.dumps({f"k{n}": 1 for n in range(19_000)}), count=25), 200),
    "a large result": (_with_call("{}", KEYS.decode()), 200),
    "a long prompt": ([{"role": "user", "content": "12:00:01, " * 400_000}], 200),
}


@pytest.mark.parametrize("name", NESTED)
def test_nobody_waits_for_large_texts_in_a_body_of_another_client(gateway: Gateway, name: str) -> None:
    messages, status = NESTED[name]
    others_go_on(gateway, json.dumps({"model": "demo/any", "messages": messages}).encode(), status)


def others_go_on(gateway: Gateway, body: bytes, status: int) -> None:
    statuses: list[int] = []

    def attack() -> None:
        statuses.append(gateway.post(CHAT, body, authorization=f"Bearer {PLAIN}")[0])

    waits = stalls(gateway, attack)
    assert statuses == [status]
    assert max(waits) < 0.2, waits
