"""What people test with: scripts, tapes, and servers that misbehave."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman import (
    Finish,
    InvalidRequest,
    Overloaded,
    RateLimited,
    Registry,
    Response,
    Tool,
    ToolCall,
    Truncated,
    assistant,
    wires,
)
from dragoman.engine.effects import Open, Send
from dragoman.http import HttpRequest
from dragoman.testing import (
    ClaudeSimulator,
    CloseAfter,
    CloseAtOnce,
    FaultyServer,
    KeepOpen,
    NoResponse,
    Paced,
    RawResponse,
    Recorder,
    Replayer,
    ReplayMiss,
    ResetAfter,
    Scripted,
    StallAfter,
    Tape,
    as_response,
    wire_of,
)
from dragoman.testing.script import base_path

CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
OTHER_CALL = ToolCall(id="call_2", name="tide", arguments={"port": "Brest"})
PORT = {"type": "object", "properties": {"port": {"type": "string"}}}
TIDE = Tool(name="tide", description="The tide", parameters=PORT)
EVERY_WIRE = pytest.mark.parametrize("wire", wires.NAMES)

# ── scripts ─────────────────────────────────────────────────────────────────


@EVERY_WIRE
def test_a_script_speaks_every_wire(wire: str) -> None:
    script = Scripted("Hello.", CALL, (CALL, OTHER_CALL), [CALL, OTHER_CALL], assistant("Bye."), Overloaded("busy"))
    model = script.model(wire, retries=0)
    assert model.generate("hi").text == "Hello."
    assert model.generate("hi", tools=[TIDE]).tool_calls[0].arguments == {"port": "Brest"}
    assert len(model.generate("hi", tools=[TIDE]).tool_calls) == 2
    assert len(model.generate("hi", tools=[TIDE]).tool_calls) == 2
    assert asyncio.run(model.agenerate("hi")).text == "Bye."
    with pytest.raises(Overloaded):
        model.generate("hi")


def test_a_script_that_is_at_its_end_is_loud() -> None:
    script = Scripted("Hello.")
    model = script.model()
    model.generate("hi")
    with pytest.raises(Truncated, match="only 1 lines"):
        model.generate("hi")
    script.add("More.")
    assert Scripted("Hello.", repeat=True).model().generate("hi").text == "Hello."


def test_a_script_has_what_was_asked_without_keys() -> None:
    script = Scripted("Hello.", repeat=True)
    registry = Registry(env={"OPENAI_API_KEY": "sk-secret-key"}, http_client=script)
    registry.model("openai/gpt").generate("hi", temperature=0.5)
    assert script.requests[0].temperature == 0.5
    assert "sk-secret-key" not in repr(script.http)


@pytest.mark.parametrize("line", [NoResponse(), CloseAtOnce(), CloseAfter(3), StallAfter(3), ResetAfter(3)], ids=str)
def test_faults_of_a_script_do_not_wait(line: Any) -> None:
    for streamed in (False, True):
        model = Scripted(line, "Hello.").model(backoff=0.0)
        response = list(model.stream("hi"))[-1] if streamed else model.generate("hi")
        assert isinstance(response, Response)
        assert response.text == "Hello."


def test_an_answer_has_short_forms() -> None:
    whole = Response(message=assistant("hi"), finish=Finish(reason="stop"))
    assert as_response(whole) is whole
    assert as_response(CALL).finish.reason == "tool_calls"


def test_a_wire_is_known_by_its_path() -> None:
    paths = {
        "/v1/chat/completions": "openai_chat",
        "/openai/v1/responses": "openai_responses",
        "/v1/messages": "anthropic",
        "/v1beta/models/gemini:streamGenerateContent?alt=sse": "google",
        "/api/chat": "ollama",
    }
    for path, name in paths.items():
        wire = wire_of(HttpRequest(method="POST", path=path))
        assert wire is not None
        assert wire.name == name
    assert wire_of(HttpRequest(method="POST", path="/nowhere")) is None


# ── servers ─────────────────────────────────────────────────────────────────


def test_a_server_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with FaultyServer(StallAfter(3), NoResponse(), KeepOpen("Hello."), "Hello.") as server:
        model = server.model(retries=0, timeout=0.1)
        outcomes = [_outcome(model, streamed=True) for _ in range(2)]
        started = set(threading.enumerate()) - before
    assert started
    assert not any(thread.is_alive() for thread in started)
    assert "served" not in outcomes


def test_a_rate_limit_says_how_long() -> None:
    with FaultyServer(RateLimited("slow down", retry_after=7.0), repeat=True) as server:
        with pytest.raises(RateLimited) as caught:
            server.model(retries=0).generate("hi")
        assert server.http[0].path == "/v1/chat/completions"
    assert caught.value.retry_after is not None


def test_a_server_tells_what_it_does_not_know() -> None:
    with FaultyServer(repeat=True) as server:
        request = HttpRequest(method="GET", origin=server.origin, path="/nowhere")
        assert server.registry().transport.send(Send(request)).status == 404


def test_a_server_refuses_what_it_cannot_read() -> None:
    with FaultyServer("Hello.") as server:
        request = HttpRequest(method="POST", origin=server.origin, path="/v1/messages", body=b"?")
        assert server.registry().transport.send(Send(request)).status == 400


# ── tapes ───────────────────────────────────────────────────────────────────


@EVERY_WIRE
@pytest.mark.parametrize("other", ["openai_chat", "anthropic"])
def test_what_is_recorded_by_one_wire_is_replayed_to_another(wire: str, other: str, tmp_path: Path) -> None:
    recorder = Recorder(Scripted("Hello, world.", CALL, "Streamed."))
    model = _model(recorder, wire)
    texts = [model.generate("one").text, model.generate("two", tools=[TIDE]).tool_calls[0].name]
    texts.append(list(model.stream("three"))[-1].text)
    recorder.save(tmp_path / "tape.json")
    replayer = Replayer(tmp_path / "tape.json")
    again = _model(replayer, other)
    assert [
        again.generate("one").text,
        asyncio.run(again.agenerate("two", tools=[TIDE])).tool_calls[0].name,
        list(again.stream("three"))[-1].text,
    ] == texts
    assert replayer.remaining == []


def _model(transport: Any, wire: str) -> Any:
    registry = Registry(env={}, http_client=transport)
    base = "http://scripted.invalid" + base_path(wire)
    registry.add_provider(name="p", wire=wire, base_url=base, needs_key=True, api_key="sk-secret-key")
    return registry.model("p/m", retries=0)


def test_a_tape_holds_no_key(tmp_path: Path) -> None:
    recorder = Recorder(Scripted("Hello."))
    _model(recorder, "openai_chat").generate("one")
    recorder.save(tmp_path / "tape.json")
    assert b"sk-secret-key" not in (tmp_path / "tape.json").read_bytes()


def test_a_miss_is_loud_and_shows_the_difference() -> None:
    recorder = Recorder(Scripted("Hello."))
    _model(recorder, "openai_chat").generate("one", temperature=0.5)
    with pytest.raises(ReplayMiss) as caught:
        _model(Replayer(recorder.tape), "openai_chat").generate("one", temperature=0.7)
    assert '-  "temperature": 0.5' in str(caught.value)
    assert '+  "temperature": 0.7' in str(caught.value)
    with pytest.raises(ReplayMiss, match="no more exchanges"):
        _model(Replayer(Tape()), "openai_chat").generate("one")
    with pytest.raises(ReplayMiss, match="must be a path of a wire"):
        Replayer(Tape()).send(Send(HttpRequest(method="GET", path="/nowhere")))


def test_failures_are_replayed() -> None:
    recorder = Recorder(
        Scripted(
            RateLimited("slow", retry_after=3.0), Overloaded("busy"), CloseAtOnce(), ResetAfter(3), ResetAfter(200)
        )
    )
    model = _model(recorder, "openai_chat")
    seen = [_outcome(model, streamed=number in (1, 4)) for number in range(5)]
    replay = _model(Replayer(recorder.tape), "anthropic")
    assert [_outcome(replay, streamed=number in (1, 4)) for number in range(5)] == seen
    assert "RateLimited" in seen[0]


def _outcome(model: Any, *, streamed: bool) -> str:
    try:
        _ = list(model.stream("hi")) if streamed else model.generate("hi")
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same again
        return type(error).__name__
    return "served"


def test_timing_is_kept() -> None:
    recorder = Recorder(Scripted("Hello."))
    list(_model(recorder, "openai_chat").stream("hi"))
    times = [moment.at for moment in recorder.tape.exchanges[0].moments]
    assert times == sorted(times)
    assert Replayer(recorder.tape, speed=2.0).wait(1.0) == 0.5
    assert Replayer(recorder.tape).wait(1.0) == 0.0


def test_a_recorder_works_async_and_over_sockets() -> None:
    async def work(model: Any) -> list[Any]:
        await model.agenerate("one")
        return [item async for item in model.astream("two")]

    with FaultyServer("Hello.", "World.") as server:
        recorder = Recorder()
        registry = server.registry(http_client=recorder)
        items = asyncio.run(work(registry.model("server/m")))
        recorder.close()
    assert items[-1].text == "World."
    assert len(recorder.tape.exchanges) == 2


def test_other_paths_pass_unrecorded() -> None:
    with FaultyServer(RawResponse(body=b'{"data":[{"id":"a"}]}')) as server:
        recorder = Recorder()
        assert server.registry(http_client=recorder).model("server/m").list_models()[0].id == "a"
        recorder.close()
    assert recorder.tape.exchanges == []


def test_a_fault_of_the_transport_is_recorded() -> None:
    recorder = Recorder(Scripted(CloseAtOnce(), CloseAtOnce()))
    model = _model(recorder, "openai_chat")
    for streamed in (False, True):
        assert "ConnectFailed" in _outcome(model, streamed=streamed)
    assert [exchange.failure.kind for exchange in recorder.tape.exchanges if exchange.failure] == ["ConnectFailed"] * 2
    effect = Open(HttpRequest(method="POST", path="/v1/chat/completions", body=b'{"model":"m","messages":[]}'))
    with pytest.raises(Exception, match="refused"):
        asyncio.run(Recorder(Scripted(CloseAtOnce())).aopen(effect))


def test_a_paced_answer_is_streamed_word_by_word() -> None:
    with FaultyServer(Paced("a calm sea", 0.001)) as server, server.model().stream("hi") as stream:
        assert list(stream.text_deltas()) == ["a ", "calm ", "sea"]
    assert Scripted(Paced("a calm sea")).model().generate("hi").text == "a calm sea"


def test_a_simulator_with_a_delay_streams_word_by_word() -> None:
    simulator = ClaudeSimulator("a calm sea", delay=0.001)
    with simulator.serve() as server:
        model = simulator.registry().model(simulator.spec, base_url=server.url)
        with model.stream("hi") as stream:
            assert list(stream.text_deltas()) == ["a ", "calm ", "sea"]
    with pytest.raises(InvalidRequest, match="delay must be a number of seconds, got -1"):
        ClaudeSimulator(delay=-1)


@pytest.mark.parametrize("sent", [b"", b"POST /v1 HT"], ids=["nothing", "half a request"])
def test_a_client_that_leaves_before_its_request_is_seen(sent: bytes) -> None:
    with FaultyServer(NoResponse(), repeat=True) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(sent)
        assert server.client_disconnected.acquire(timeout=10)
    assert not server.http
