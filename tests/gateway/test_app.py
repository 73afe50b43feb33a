"""Every dialect before every target, driven without a socket."""

import asyncio
import contextlib
import gc

import pytest

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, ModelNotFound, Overloaded, RateLimited
from dragoman.events import Ping
from dragoman.gateway.app import App
from dragoman.gateway.stream import TICKS
from dragoman.testing import (
    CloseAfter,
    CloseAtOnce,
    FaultyServer,
    InvalidBody,
    RawResponse,
    ResetAfter,
    ScriptLine,
    StallAfter,
)
from dragoman.testing.script import render
from dragoman.types import Request, Tool, user
from dragoman.wires.common.json import encode_json
from tests.support.gateway.dialects import app_of, error_of, hello, request_of, response_of, send_blocking
from tests.support.gateway.live import PATIENCE, record

DIALECTS = tuple(wires.NAMES)
ENDINGS = (b"[DONE]", b"message_stop", b'"done":true', b'"finishReason":"STOP"', b"response.completed")
WORDS = "one two three"
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).chunks[:2])) + 9
"""Bytes of the words and a bit of what follows them, as the provider streams them."""

pytestmark = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture
def app() -> App:
    return app_of()


@pytest.mark.parametrize("stream", [False, True])
def test_the_demo_answers_in_every_dialect(app: App, dialect: str, stream: bool) -> None:  # noqa: FBT001
    request = hello(stream=stream)
    seen = send_blocking(app, request_of(dialect, "demo/any", request))
    assert response_of(dialect, request, seen).text.startswith("Hello!")
    assert seen.headers["x-dragoman-target"] == "demo/any"
    assert seen.headers["x-dragoman-attempts"] == "1"
    assert seen.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool_reaches_every_dialect(app: App, dialect: str, stream: bool) -> None:  # noqa: FBT001
    tool = Tool(name="tide", description="When the tide turns.", parameters={"type": "object", "properties": {}})
    request = Request(
        messages=(user("When does the tide turn?"),), tools=(tool,), tool_choice="required", stream=stream
    )
    response = response_of(dialect, request, send_blocking(app, request_of(dialect, "demo/any", request)))
    assert [call.name for call in response.tool_calls] == ["tide"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_has_its_status_and_shape(dialect: str, stream: bool) -> None:  # noqa: FBT001
    request = hello(stream=stream)
    seen = send_blocking(app_of("[chain]\nretries = 0\n"), request_of(dialect, "demo/ratelimited", request))
    assert seen.status == 429
    assert int(seen.headers["retry-after"]) == 20
    assert isinstance(error_of(dialect, request, seen), RateLimited)


def test_the_next_target_answers_when_one_fails(app: App, dialect: str) -> None:
    request = hello()
    seen = send_blocking(app, request_of(dialect, "demo/overloaded,demo/any", request))
    assert response_of(dialect, request, seen).text.startswith("Hello!")
    assert seen.headers["x-dragoman-attempts"] == "3"
    assert seen.headers["x-dragoman-target"] == "demo/any"


@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt",
        "nix",
        "http://127.0.0.1:1/x",
        "ollama+http://box/x",
        "demo/",
        "/",
        "",
        "demo/any,",
        "demo/any,groq/x",
        "x" * 3000,
    ],
)
def test_what_the_config_does_not_name_cannot_be_asked(app: App, dialect: str, name: str) -> None:
    seen = send_blocking(app, request_of(dialect, name, hello()))
    assert seen.status in (400, 404, 405)
    assert isinstance(error_of(dialect, hello(), seen), ModelNotFound | InvalidRequest | DragomanError)


@pytest.mark.parametrize("line", [CloseAfter(SHOWN, WORDS), ResetAfter(SHOWN, WORDS)])
def test_a_cut_stream_never_ends_as_if_it_were_whole(dialect: str, line: CloseAfter | ResetAfter) -> None:
    request = hello(stream=True)
    with FaultyServer(line) as upstream:
        seen = send_blocking(app_of(record("up", upstream.base_url())), request_of(dialect, "up/m", request))
    assert b"one" in seen.body
    assert not any(ending in seen.body for ending in ENDINGS)
    assert error_of(dialect, request, seen) is not None


@pytest.mark.parametrize("line", [CloseAfter(0), InvalidBody(), Overloaded("busy")])
def test_a_stream_that_fails_before_its_first_word_has_a_status(
    dialect: str, line: CloseAfter | InvalidBody | Overloaded
) -> None:
    request = hello(stream=True)
    with FaultyServer(line, repeat=True) as upstream:
        config = record("up", upstream.base_url()) + "[chain]\nretries = 0\n"
        seen = send_blocking(app_of(config), request_of(dialect, "up/m", request))
    assert seen.status in (502, 503, 529)


def test_an_idle_stream_is_kept_open(dialect: str) -> None:
    request = hello(stream=True)
    ping = wires.get(dialect).server.stream_encoder(request).feed(Ping())

    async def listen() -> None:
        writes: list[bytes] = []
        pinged = asyncio.Event()

        async def write(data: bytes) -> None:
            writes.append(data)
            if writes.count(ping) == 3:
                pinged.set()

        with FaultyServer(StallAfter(SHOWN, WORDS)) as upstream:
            app = app_of(record("up", upstream.base_url()) + "[gateway]\nping = 0.02\n")
            answer = await app.answer(request_of(dialect, "up/m", request))
            assert not isinstance(answer.body, bytes)
            writing = asyncio.ensure_future(answer.body(write))
            await asyncio.wait_for(pinged.wait(), PATIENCE)
            writing.cancel()
            await asyncio.wait((writing,))

    if ping:
        asyncio.run(listen())


def test_a_stream_that_begins_late_begins_with_pings(dialect: str) -> None:
    request = hello(stream=True)
    with FaultyServer(StallAfter(0)) as upstream:
        config = "[gateway]\nping = 0.02\n[timeouts]\nfirst_event = 0.3\n[chain]\nretries = 0\n"
        seen = send_blocking(app_of(record("up", upstream.base_url()) + config), request_of(dialect, "up/m", request))
    ping = wires.get(dialect).server.stream_encoder(request).feed(Ping())
    assert seen.status == 200
    assert not ping or seen.writes[0] == ping
    assert error_of(dialect, request, seen) is not None


def test_a_stream_is_never_silent_for_longer_than_a_ping(dialect: str) -> None:
    request = hello(stream=True)
    ping = wires.get(dialect).server.stream_encoder(request).feed(Ping())

    async def listen() -> list[int]:
        writes: list[bytes] = []
        received = asyncio.Event()

        async def write(data: bytes) -> None:
            writes.append(data)
            if b"three" in data:
                received.set()

        with FaultyServer(StallAfter(SHOWN, WORDS)) as upstream:
            app = app_of(record("up", upstream.base_url()) + "[gateway]\nping = 3600\n")
            answer = await app.answer(request_of(dialect, "up/m", request))
            assert not isinstance(answer.body, bytes)
            writing = asyncio.ensure_future(answer.body(write))
            await received.wait()
            counts: list[int] = []
            for _ in range(2 * TICKS):
                app._tick(3600.0)  # pyright: ignore[reportPrivateUsage] # an hour would be long
                await asyncio.sleep(0)
                counts.append(writes.count(ping))
            writing.cancel()
            await asyncio.wait((writing,))
        return counts

    assert not ping or asyncio.run(listen()) == [0, 0, 0, 1, 1, 1, 1, 2]


def test_a_ping_that_nobody_hears_is_no_fault(dialect: str) -> None:
    request = hello(stream=True)
    faults: list[object] = []

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))

        async def write(data: bytes) -> None:
            if b"one" not in data:
                raise ConnectionError("the client has gone")

        with FaultyServer(StallAfter(SHOWN, WORDS)) as upstream:
            app = app_of(record("up", upstream.base_url()) + "[gateway]\nping = 0.02\n[timeouts]\nidle = 0.2\n")
            answer = await app.answer(request_of(dialect, "up/m", request))
            assert not isinstance(answer.body, bytes)
            with contextlib.suppress(ConnectionError):
                await answer.body(write)
        gc.collect()

    asyncio.run(leave())
    assert faults == []


def test_a_schema_is_kept_by_a_target_without_structured_output(dialect: str) -> None:
    schema = {"type": "object", "properties": {"metres": {"type": "integer"}}, "required": ["metres"]}
    request = Request(messages=(user("How high is it?"),), schema=schema)
    app = app_of('[capabilities."demo/any"]\nstructured = false\n')
    seen = send_blocking(app, request_of(dialect, "demo/any", request))
    assert '"metres"' in response_of(dialect, request, seen).text


@pytest.mark.parametrize("line", [CloseAtOnce(), CloseAfter(SHOWN, WORDS), InvalidBody(), RawResponse(status=404)])
@pytest.mark.parametrize("stream", [False, True])
def test_no_client_hears_where_a_provider_is(dialect: str, stream: bool, line: ScriptLine) -> None:  # noqa: FBT001
    with FaultyServer(line) as upstream:
        app = app_of("[chain]\nretries = 0\n" + record("up", upstream.base_url()))
        assert b"127.0.0.1" not in send_blocking(app, request_of(dialect, "up/m", hello(stream=stream))).body


WORDY = "bad temperature, see https://u:planted@docs.example.org/t?token=planted and think: " + "said back " * 150


@pytest.mark.parametrize("chain", ["up/m", "up/m,up/n"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 500])
def test_a_providers_words_reach_the_client_without_what_is_secret_or_said_back(
    dialect: str,
    status: int,
    stream: bool,  # noqa: FBT001
    chain: str,
) -> None:
    line = RawResponse(status=status, body=encode_json({"error": {"message": WORDY}}))
    with FaultyServer(line, repeat=True) as upstream:
        app = app_of("[chain]\nretries = 0\n" + record("up", upstream.base_url()))
        seen = send_blocking(app, request_of(dialect, chain, hello(stream=stream)))
    assert dialect == "native" or b"bad temperature" in seen.body
    assert b"planted" not in seen.body
    assert seen.body.count(b"said back ") < 50 * (1 + chain.count(","))
