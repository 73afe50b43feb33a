"""What the gateway does not bear, it refuses in the client's dialect."""

import asyncio
import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import compress

import pytest

from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, Busy
from dragoman.gateway.server.body_limits import BodyBytes, BodyMemory, check_structure, decompress
from dragoman.http import HttpRequest
from dragoman.testing import CloseAfter, FaultyServer, StallAfter
from tests.support.clock import slowness
from tests.support.gateway.dialects import app_of, hello, post, request_of, send_blocking, send_request
from tests.support.gateway.live import PATIENCE, Gateway, chat, record

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), "[gateway]\nmax_body = 2000\n") as running:
        yield running


def test_a_body_that_is_too_large_is_refused_by_its_length(gateway: Gateway) -> None:
    status, _, body = gateway.post(CHAT, chat("demo/any", text="x" * 3000))
    assert status == 413
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_too_large_is_refused_in_the_dialect(gateway: Gateway) -> None:
    status, _, body = gateway.post("/v1/messages", chat("demo/any", text="x" * 3000))
    assert status == 413
    assert json.loads(body)["type"] == "error"


def test_a_refusal_is_heard_by_a_client_that_sends_all_first(gateway: Gateway) -> None:
    status, _, _ = gateway.post(CHAT, b" " * 8_000_000)
    assert status == 413


def test_a_client_that_asks_first_need_not_send_a_body_that_is_too_large(gateway: Gateway) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        assert b" 413 " in connection.recv(65536)


def test_a_body_without_a_length_is_counted(gateway: Gateway) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    piece = b"5dc\r\n" + b" " * 1500 + b"\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(head + piece + piece + b"0\r\n\r\n")
        assert b" 413 " in connection.recv(65536)


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with (
        Gateway(tmp_path, "[gateway]\nbody_timeout = 0.2\n") as hasty,
        socket.create_connection(("127.0.0.1", hasty.port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{".encode())
        assert b" 408 " in connection.recv(65536)


def test_headers_that_are_too_large_are_refused(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nhost: x\r\nx-long: {'x' * 100_000}\r\n\r\n".encode())
        assert b" 431 " in connection.recv(65536)


def test_a_head_that_does_not_come_whole_says_nothing_to_others(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(b"POST /v1/chat")
        assert gateway.post(CHAT, chat("demo/any"))[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null", b'{"model": 1}', b'{"model": "demo/any"}'])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/api/chat", "/native/v1/chat/completions"])
def test_what_is_no_request_is_a_400(path: str, body: bytes) -> None:
    # Some dialects take a request without messages; what the demo says to that is its business.
    assert send_blocking(app_of(), post(path, body)).status in (400, 422, *((200,) if b"demo/any" in body else ()))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_nested_too_deeply_is_a_400(opening: str) -> None:
    body = f'{{"model": "demo/any", "messages": [], "x": {opening * 100_000}'.encode()
    assert send_blocking(app_of(), post(CHAT, body)).status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/api/show",
        "/api/embed",
        "/v1/embeddings",
        "/v1/messages/count_tokens",
        "/v1/responses/input_tokens",
        "/v1beta/models/demo/any:countTokens",
    ],
)
def test_questions_beside_generation_may_be_nested_as_deeply(path: str) -> None:
    body = f'{{"model": "demo/any", "input": "x", "x": {"[" * 200}{"]" * 200}}}'.encode()
    seen = send_blocking(app_of(), post(path, body))
    assert seen.status == 400
    assert b"nested more than 128 levels deep" in seen.body


def test_half_a_character_is_told_as_what_it_is() -> None:
    seen = send_blocking(app_of(), post(CHAT, json.dumps(chat("demo/any", text="\ud83d")).encode()))
    assert seen.status == 400
    assert b"half of a surrogate pair" in seen.body


def test_an_address_of_an_image_is_refused_without_advice_that_no_client_can_follow() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    body = {"model": "demo/any", "messages": [{"role": "user", "content": parts}]}
    seen = send_blocking(
        app_of('[capabilities."demo/any"]\nimage_urls = false\n'), post(CHAT, json.dumps(body).encode())
    )
    assert seen.status == 400
    assert b"send the bytes of the image" in seen.body
    assert b"fetch_images" not in seen.body


# Packed bodies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", compress)])
def test_a_packed_body_is_read(packing: str, pack: Callable[[bytes], bytes]) -> None:
    body = pack(json.dumps(chat("demo/any")).encode())
    assert send_blocking(app_of(), post(CHAT, body, **{"content-encoding": packing})).status == 200


def test_a_body_that_is_packed_as_it_is_is_taken_as_it_is() -> None:
    body = json.dumps(chat("demo/any")).encode()
    assert send_blocking(app_of(), post(CHAT, body, **{"content-encoding": "identity"})).status == 200


def test_a_body_of_several_members_is_unpacked_whole() -> None:
    body = json.dumps(chat("demo/any")).encode()
    packed = gzip.compress(body[:20]) + gzip.compress(body[20:])
    assert send_blocking(app_of(), post(CHAT, packed, **{"content-encoding": "gzip"})).status == 200
    assert (
        send_blocking(app_of(), post(CHAT, gzip.compress(body) + b"more", **{"content-encoding": "gzip"})).status == 400
    )


@pytest.mark.parametrize(("members", "status"), [(9_000, 200), (200_000, 400)])
def test_many_empty_members_cost_little_time(members: int, status: int) -> None:
    packed = gzip.compress(json.dumps(chat("demo/any")).encode()) + gzip.compress(b"") * members
    start = time.process_time()
    assert send_blocking(app_of(), post(CHAT, packed, **{"content-encoding": "gzip"})).status == status
    assert time.process_time() - start < 2.0 * slowness()


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 1_000_000])
@pytest.mark.parametrize("pack", [gzip.compress, compress])
def test_bodies_of_all_sizes_are_decompressed(size: int, pack: Callable[[bytes], bytes]) -> None:
    body = b" " * size + json.dumps(chat("demo/any")).encode()
    assert send_blocking(app_of(), post(CHAT, pack(body), **{"content-encoding": "gzip"})).status == 200
    exact = json.dumps(chat("demo/any")).encode()
    exact = b" " * (65_536 - len(exact)) + exact
    assert send_blocking(app_of(), post(CHAT, pack(exact), **{"content-encoding": "gzip"})).status == 200


def test_decompressed_bytes_are_counted_as_they_appear() -> None:
    memory = BodyMemory()
    limits = GatewaySettings(max_body=20_000_000, max_body_memory=20_000_000)
    http = post(CHAT, gzip.compress(b" " * 19_000_000), **{"content-encoding": "gzip"})

    async def run() -> None:
        with memory.request(limits) as others, memory.request(limits) as body_bytes:
            others.add(19_000_000)
            added: list[int] = []

            class Counting(BodyBytes):
                def add(self, size: int, /) -> None:
                    body_bytes.add(size)
                    added.append(size)

            with pytest.raises(Busy):
                await decompress(http, limits.max_body, Counting(memory, limits))
            assert 900_000 < sum(added) <= 1_000_000
            assert memory.held == 19_000_000 + sum(added)
        assert memory.held == 0
        body_bytes.add(10)  # by a thread that works on
        assert memory.held == 0

    asyncio.run(run())


def test_decompression_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    reached, left = threading.Event(), threading.Event()

    class Slow:
        eof, unused_data, unconsumed_tail = False, b"", b""

        def decompress(self, piece: bytes, _size: int) -> bytes:
            pieces.append(len(piece))
            reached.set()
            assert left.wait(PATIENCE)
            return b""

    def slow(_bits: int) -> Slow:
        return Slow()

    monkeypatch.setattr(zlib, "decompressobj", slow)

    async def leave() -> None:
        request = post(CHAT, b"x" * 1_000_000, **{"content-encoding": "gzip"})
        work = asyncio.create_task(app_of().answer(request))
        await asyncio.to_thread(reached.wait, PATIENCE)
        work.cancel()
        await asyncio.wait((work,))
        left.set()

    asyncio.run(leave())  # waits for the threads
    assert len(pieces) == 1


def test_where_there_is_no_body_nothing_is_unpacked() -> None:
    http = HttpRequest(method="GET", path="/v1/models", headers={"content-encoding": "gzip"})
    assert send_blocking(app_of(), http).status == 200


@pytest.mark.parametrize(
    ("packing", "pack", "status"),
    [
        ("br", lambda: b"{}", 415),
        ("gzip, gzip", lambda: b"{}", 415),
        ("gzip", lambda: b"{}", 400),
        ("gzip", lambda: gzip.compress(b" " * 500)[:-9], 400),
        ("gzip", lambda: gzip.compress(b" " * 2001), 413),
        ("gzip", lambda: gzip.compress(b" " * 100_000_000), 413),
    ],
    ids=["unknown", "twice", "not packed", "cut", "too large", "a bomb"],
)
def test_a_packed_body_that_cannot_be_read_is_refused(packing: str, pack: Callable[[], bytes], status: int) -> None:
    app = app_of("[gateway]\nmax_body = 2000\n")
    seen = send_blocking(app, post("/v1/messages", pack(), **{"content-encoding": packing}))
    assert seen.status == status
    assert json.loads(seen.body)["type"] == "error"


def test_nothing_is_unpacked_for_strangers() -> None:
    assert send_blocking(app_of(KEYED), post(CHAT, b"no gzip", **{"content-encoding": "gzip"})).status == 401


def test_a_text_without_an_end_is_looked_through_once() -> None:
    check_structure(b"[]" * 99 + b'"' + b'\\"' * 5_000_000, GatewaySettings(max_depth=9))


def test_brackets_in_texts_are_no_depth() -> None:
    body = json.dumps(chat("demo/any", text='[{"' * 1000)).encode()
    assert send_blocking(app_of(), post(CHAT, body)).status == 200


def test_no_more_than_so_many_are_answered_at_once() -> None:
    async def both() -> tuple[int, str]:
        with FaultyServer(StallAfter(0), "Hello.") as upstream:
            app = app_of("[gateway]\nmax_requests = 1\n" + record("up", upstream.base_url()))
            first = asyncio.create_task(send_request(app, request_of("anthropic", "up/m", hello())))
            assert await asyncio.to_thread(upstream.request_received.acquire, timeout=PATIENCE)
            second = await send_request(app, request_of("anthropic", "up/m", hello()))
            live = await send_request(app, HttpRequest(method="GET", path="/health/live"))
            first.cancel()
            assert live.status == 200
            return second.status, second.headers["retry-after"]

    status, wait = asyncio.run(both())
    assert status in (503, 529)
    assert wait == "1"


def test_an_unknown_path_is_a_404_and_a_wrong_method_a_405() -> None:
    assert send_blocking(app_of(), post("/v2/chat", b"{}")).status == 404
    assert send_blocking(app_of(), HttpRequest(method="DELETE", path=CHAT)).status == 405


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (CHAT, "GET, HEAD, POST"),
        ("/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("/health", "GET, HEAD"),
        ("/v1/models", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(path: str, methods: str) -> None:
    assert send_blocking(app_of(), HttpRequest(method="PUT", path=path)).headers["allow"] == methods


def test_a_wrong_method_is_refused_in_the_dialect_of_the_path() -> None:
    seen = send_blocking(app_of(), HttpRequest(method="PUT", path="/v1/messages"))
    assert json.loads(seen.body)["type"] == "error"


@pytest.mark.parametrize(
    ("path", "header", "shape"),
    [
        ("/v1/messages/other", "", '{"type":"error","error":{"type":"not_found_error"'),
        ("/v1/skills", "anthropic-version", '{"type":"error","error":{"type":"not_found_error"'),
        ("/v1beta/files", "", '{"error":{"code":404,'),
        ("/v1/skills", "x-goog-api-client", '{"error":{"code":404,'),
        ("/api/pull", "", '{"error":"no route for /api/pull"}'),
        ("/native/v1/files", "", '{"error":{"message":"no route for /native/v1/files","type":"not_found"'),
        (
            "/v1/chat/files",
            "",
            '{"error":{"message":"no route for /v1/chat/files","type":"invalid_request_error"',
        ),
        ("/v1/skills", "", '{"error":{"message":"no route for /v1/skills","type":"invalid_request_error"'),
        ("/v2", "", '{"error":{"message":"no route for /v2","type":"invalid_request_error"'),
        (
            "/dashboard/nix",
            "",
            '{"error":{"message":"no route for /dashboard/nix","type":"invalid_request_error"',
        ),
    ],
)
def test_an_unknown_path_is_refused_in_the_dialect_whose_paths_begin_so(path: str, header: str, shape: str) -> None:
    seen = send_blocking(app_of(), post(path, b"{}", **({header: "1"} if header else {})))
    assert seen.status == 404
    assert seen.body.decode().startswith(shape)


@pytest.mark.parametrize(
    ("path", "headers", "hint", "is_anthropic"),
    [
        (
            "/chat/completions",
            {"host": "evil.example"},
            "; set the base URL of the client to http://HOST:PORT/v1",
            False,
        ),
        ("/v1/v1/messages", {}, "; set the base URL of the client to http://HOST:PORT, without /v1", True),
        ("/v1/api/chat", {}, "; set the base URL of the client to http://HOST:PORT, without /v1", False),
        ("/v1/nix", {}, "", False),
        ("/v1/v1/nix", {}, "", False),
    ],
)
def test_a_base_url_of_another_protocol_is_corrected(
    path: str, headers: dict[str, str], hint: str, *, is_anthropic: bool
) -> None:
    body = json.loads(send_blocking(app_of(), post(path, b"{}", **headers)).body)
    error = body["error"]
    assert (error if isinstance(error, str) else error["message"]) == f"no route for {path}{hint}"
    assert (body.get("type") == "error") == is_anthropic


async def too_large(_bytes: BodyBytes) -> bytes:
    raise BodyTooLarge("40 MiB")


def test_unknown_paths_are_not_among_the_requests() -> None:
    app = app_of()
    send_blocking(app, post("/api/pull", b"{}"))
    asyncio.run(app.answer(post("/api/pull", b""), too_large))
    assert (
        "dragoman_requests_total{" not in send_blocking(app, HttpRequest(method="GET", path="/metrics")).body.decode()
    )


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/api/version"])
def test_every_page_has_a_head(gateway: Gateway, path: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        connection.sendall(f"HEAD {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        seen = connection.makefile("rb").read()
    assert seen.startswith(b"HTTP/1.1 200 ")
    assert seen.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/files"])
def test_an_answer_has_its_id_where_the_official_packages_look_for_it(path: str) -> None:
    seen = send_blocking(app_of(), post(path, b"{}", **{"x-request-id": "mine-1"}))
    assert seen.headers["x-request-id"] == seen.headers["request-id"] == "mine-1"


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_names_the_request(stream: bool) -> None:  # noqa: FBT001
    with FaultyServer(CloseAfter(40, "one two three")) as upstream:
        app = app_of("[chain]\nretries = 0\n" + record("up", upstream.base_url()))
        body = json.dumps(chat("up/m", stream=stream)).encode()
        seen = send_blocking(app, post("/native/v1/chat/completions", body, **{"x-request-id": "mine-1"}))
    error = json.loads(seen.body.decode().rpartition("data: ")[2])["error"]
    assert error["request_id"] == "mine-1"


def test_an_id_that_came_with_the_request_is_kept() -> None:
    body = json.dumps(chat("demo/any")).encode()
    assert send_blocking(app_of(), post(CHAT, body, **{"x-request-id": "mine-1"})).headers["x-request-id"] == "mine-1"
    assert (
        send_blocking(app_of(), post(CHAT, body, **{"x-request-id": "a\nb"})).headers["x-request-id"].startswith("req_")
    )


def test_what_was_bent_is_told_in_a_header() -> None:
    body = json.dumps({**chat("demo/any"), "options": {"mirostat": 2}}).encode()
    assert "options" in send_blocking(app_of(), post("/api/chat", body)).headers["x-dragoman-notice"]


# Keys -----------------------------------------------------------------------------------------------------------------

PLAIN, HASH = new_key()
KEYED = f'[keys.alice]\nhash = "{HASH}"\nmodels = ["demo/*"]\n[aliases]\nother = "demo/any"\n'
SENT = [
    {"authorization": f"Bearer {PLAIN}"},
    {"authorization": f"bearer  {PLAIN}"},
    {"x-api-key": PLAIN},
    {"x-goog-api-key": PLAIN},
]


def test_without_its_key_nobody_is_answered() -> None:
    seen = send_blocking(app_of(KEYED), post(CHAT, json.dumps(chat("demo/any")).encode()))
    assert seen.status == 401
    assert send_blocking(app_of(KEYED), HttpRequest(method="GET", path="/health")).status == 401
    assert send_blocking(app_of(KEYED), HttpRequest(method="GET", path="/health/ready")).status == 200


def test_a_client_sees_the_health_of_what_it_may_use_and_an_operator_all() -> None:
    (alice, alice_hash), (bob, bob_hash), (ops, ops_hash) = new_key(), new_key(), new_key()
    app = app_of(
        f'[keys.alice]\nhash = "{alice_hash}"\nmodels = ["demo/a*"]\n'
        f'[keys.bob]\nhash = "{bob_hash}"\nmodels = ["fast"]\n'
        f'[keys.ops]\nhash = "{ops_hash}"\nadmin = true\n[aliases]\nfast = "demo/b"\n'
    )
    for target in ("demo/a", "demo/b", "demo/c"):
        app.runtime.registry.health.disable(target, 60.0)

    def health(key: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {key}"}
        report: dict[str, Any] = json.loads(
            send_blocking(app, HttpRequest(method="GET", path="/health", headers=headers)).body
        )
        return {**report, "targets": set(report["targets"])}

    assert health(alice) == {"status": "ok", "targets": {"demo/a"}}
    assert health(bob) == {"status": "ok", "targets": {"demo/b"}}
    assert health(ops) == {"status": "ok", "in_flight": 1, "store": "ok", "targets": {"demo/a", "demo/b", "demo/c"}}


@pytest.mark.parametrize("headers", SENT)
def test_a_key_is_taken_from_where_each_dialect_puts_it(headers: dict[str, str]) -> None:
    assert send_blocking(app_of(KEYED), post(CHAT, json.dumps(chat("demo/any")).encode(), **headers)).status == 200


def test_a_key_may_stand_in_the_query() -> None:
    assert (
        send_blocking(app_of(KEYED), post(f"{CHAT}?key={PLAIN}", json.dumps(chat("demo/any")).encode())).status == 200
    )


def test_a_wrong_key_is_a_401_and_is_not_said_back() -> None:
    wrong = "sk-dm-" + "x" * 43
    seen = send_blocking(
        app_of(KEYED), post(CHAT, json.dumps(chat("demo/any")).encode(), authorization=f"Bearer {wrong}")
    )
    assert seen.status == 401
    assert wrong.encode() not in seen.body


@pytest.mark.parametrize("model", ["other", "demo/any,other"])
def test_a_key_may_ask_only_for_its_models(model: str) -> None:
    seen = send_blocking(app_of(KEYED), post(CHAT, json.dumps(chat(model)).encode(), **{"x-api-key": PLAIN}))
    assert seen.status == 403


@pytest.mark.parametrize(("path", "word"), [(CHAT, "permission_denied"), ("/v1/messages", "permission_error")])
def test_what_a_key_may_not_is_told_apart_from_a_wrong_key(path: str, word: str) -> None:
    body = json.dumps({**chat("other"), "max_tokens": 5}).encode()
    assert f'"{word}"'.encode() in send_blocking(app_of(KEYED), post(path, body, **{"x-api-key": PLAIN})).body
