"""Model: options, answers, streams, explanations, and the functions of the package."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import (
    ChainExhausted,
    ChainOptions,
    InvalidRequest,
    InvalidTool,
    ModelNotFound,
    Overloaded,
    Registry,
    Response,
    SetupError,
    Text,
    TextDelta,
    ThinkingDelta,
    Timeouts,
    Tool,
    ToolCall,
)
from dragoman.engine.call_options import CallOptions
from dragoman.engine.effects import Send
from dragoman.events import Finished, Started
from dragoman.http import HttpResponse
from dragoman.io.transport import RoutingTransport
from dragoman.testing import FaultyServer, RawResponse, Scripted

TIDE = Tool(
    name="tide", description="The tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}}
)


@pytest.fixture
def registry() -> Registry:
    return Registry(env={})


# ── settings ────────────────────────────────────────────────────────────────


def test_settings_of_the_model_hold_for_its_calls() -> None:
    script = Scripted("a", "b")
    model = script.model(temperature=0.5, system="Be brief.", stop="x")
    model.generate("hi")
    model.generate("hi", temperature=0.0, stop=["y", "z"], max_tokens=5)
    first, second = script.requests
    assert (first.temperature, first.system, first.stop) == (0.5, "Be brief.", ("x",))
    assert (second.temperature, second.system, second.stop, second.max_tokens) == (0.0, "Be brief.", ("y", "z"), 5)


def test_a_change_in_one_request_is_not_seen_by_the_next() -> None:
    """The requests of a model without options of their own are copies of one."""
    script = Scripted("a", "b")
    model = script.model(metadata={"a": "1"}, extra={"openai_chat": {"x": 1}})
    first, _ = model.request("hi")
    first.metadata["b"] = "2"
    first.extra["other"] = {}
    second, _ = model.request("hi", stream=True)
    assert (second.metadata, second.extra, second.stream) == ({"a": "1"}, {"openai_chat": {"x": 1}}, True)
    assert (first.stream, first.messages) == (False, second.messages)


def test_an_unknown_option_is_refused(registry: Registry) -> None:
    with pytest.raises(InvalidRequest, match="temprature"):
        registry.model("demo/any").generate("hi", temprature=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_an_unknown_option_of_a_model_is_refused_at_once_with_a_suggestion(registry: Registry) -> None:
    wrong: Any = {"temprature": 1}
    for ask in (lambda: registry.model("demo/any", **wrong), lambda: registry.model("demo/any").generate("", **wrong)):
        with pytest.raises(InvalidRequest, match=r"unknown option 'temprature'; did you mean 'temperature'\?"):
            ask()


def test_every_setting_is_known_to_a_model(registry: Registry) -> None:
    for name in (*CallOptions.__annotations__, "timeouts"):
        registry.model("demo/any", **{name: None})  # type: ignore[arg-type]  # only names are looked at


def test_a_list_of_specs_is_a_model(registry: Registry) -> None:
    model = registry.model(["demo/overloaded", "demo/any"], retries=0)
    assert (model.spec, model.generate("hi").target) == ("demo/overloaded,demo/any", "demo/any")


@pytest.mark.parametrize("spec", [None, 5, [None]])
def test_a_value_that_is_not_a_spec_is_refused(registry: Registry, spec: Any) -> None:
    with pytest.raises(SetupError, match="spec must be a str"):
        registry.model(spec)


@pytest.mark.parametrize("texts", [None, 5, [None], b"ab", ["a", 1], {"a": 1}])
def test_a_value_that_is_not_a_text_is_not_embedded(registry: Registry, texts: Any) -> None:
    with pytest.raises(InvalidRequest, match="texts must be a str or a list of str, got "):
        registry.model("demo/any").embed(texts)


def test_a_config_may_be_a_file(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('\ufeff[aliases]\nfast = "demo/any"', encoding="utf-8")
    registry.load_config(file)
    assert registry.model("fast").generate("hi").target == "demo/any"
    for content, why in ((b"[aliases]]", "must be valid TOML"), (b"\xff", "cannot be read"), (None, "cannot be read")):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(SetupError, match=f"^{re.escape(str(file))}: .*{why}"):
            registry.load_config(file)


def test_a_number_is_the_total_time_out(registry: Registry) -> None:
    model = registry.model("demo/any", chain_options=ChainOptions(timeouts=Timeouts(total=9.0, connect=3.0)), retries=4)
    _, options = model.request("hi", timeout=2)
    assert (options.timeouts.total, options.timeouts.connect, options.retries) == (2.0, 3.0, 4)
    _, options = model.request("hi", timeout=Timeouts(total=None), retries=0)
    assert (options.timeouts.total, options.retries) == (None, 0)


def test_an_unknown_target_is_refused_at_once(registry: Registry) -> None:
    with pytest.raises(SetupError, match="grok"):
        registry.model("grok/x")


# ── answers ─────────────────────────────────────────────────────────────────


def test_a_call_has_a_receipt(registry: Registry) -> None:
    response = registry.model("demo/overloaded,demo/any", retries=0).generate("hello")
    assert response.target == "demo/any"
    assert [(attempt.target, attempt.outcome) for attempt in response.attempts] == [
        ("demo/overloaded", "failed"),
        ("demo/any", "served"),
    ]
    assert all(attempt.duration is not None for attempt in response.attempts)


def test_a_chain_that_fails_names_everyone(registry: Registry) -> None:
    with pytest.raises(ChainExhausted, match=r"demo/overloaded.*demo/empty") as caught:
        registry.model("demo/overloaded,demo/empty", retries=0).generate("hello")
    assert len(caught.value.attempts) == 2


class Down(RoutingTransport):
    """A transport whose server is always busy."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def send(self, effect: Send, /) -> HttpResponse:
        self.sent.append(effect)
        return HttpResponse(status=503, body=b"{}")


@pytest.mark.parametrize("verb", ["list_models", "probe", "embed", "count_tokens"])
def test_settings_of_the_model_hold_for_its_questions(verb: str) -> None:
    down = Down()
    model = Registry(env={}, http_client=down, api_key="k").model("google/m", retries=0, timeout=7)
    with pytest.raises(Overloaded):
        getattr(model, verb)(*(["ships"] if verb in ("embed", "count_tokens") else []))
    (sent,) = down.sent
    assert sent.total_timeout is not None
    assert sent.total_timeout <= 7


@pytest.mark.parametrize("timeout", [float("inf"), 1e18, Timeouts(total=None)])
def test_a_call_may_have_no_limit(timeout: Any) -> None:
    with FaultyServer("fine") as server:
        assert server.model().generate("hi", timeout=timeout).text == "fine"


def test_a_timeout_that_is_none_is_the_models_own(registry: Registry) -> None:
    assert registry.model("demo/any").request("hi", timeout=None)[1].timeouts == Timeouts()
    assert registry.model("demo/any", timeout=7).request("hi", timeout=None)[1].timeouts.total == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": 5}, "stop must be a str or a list of str, got 5"),
        ({"stop": [5]}, "stop must be a str or a list of str, got 5"),
        ({"system": ["a"]}, "system must be a str or a list of Text, got 'a'"),
        ({"system": 5}, "system must be a str or a list of Text, got 5"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(registry: Registry, options: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        registry.model("demo/any").generate("hi", **options)


def test_a_system_prompt_may_be_a_list_of_texts() -> None:
    script = Scripted("a")
    options: Any = {"system": [Text(text="Be brief.")]}
    script.model().generate("hi", **options)
    assert script.requests[0].system == "Be brief."


@pytest.mark.parametrize("tools", [5, "tide"])
def test_a_value_that_is_not_a_tool_is_refused(registry: Registry, tools: Any) -> None:
    with pytest.raises(InvalidTool, match="tools must be a tool or a list of tools, got "):
        registry.model("demo/any").generate("hi", tools=tools)


def test_one_tool_alone_will_do() -> None:
    def tide(port: str) -> str:
        """The tide of a port."""
        return port

    script = Scripted("a", "b")
    for one in (tide, TIDE):
        script.model().generate("hi", tools=one)
    assert [[each.name for each in request.tools if isinstance(each, Tool)] for request in script.requests] == [
        ["tide"],
        ["tide"],
    ]


def test_an_event_loop_other_than_asyncio_is_refused(registry: Registry) -> None:
    model = registry.model("demo/any")

    async def stream() -> None:
        async for _ in model.astream("hi"):
            pass

    for work in (model.agenerate("hi"), stream()):
        with pytest.raises(SetupError, match=r"asyncio.*trio"):
            work.send(None)


def test_observers_see_every_attempt(registry: Registry) -> None:
    seen: list[Any] = []
    registry.observe(seen.append)
    registry.model("demo/overloaded,demo/any", retries=0).generate("hello")
    assert len(seen) >= 2


def test_a_stream_has_friendly_items(registry: Registry) -> None:
    model = registry.model("demo/any")
    items = list(model.stream("hello there, friend", reasoning="low"))
    assert isinstance(items[0], ThinkingDelta)
    assert isinstance(items[-2], TextDelta)
    assert isinstance(items[-1], Response)
    text = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert text == items[-1].text
    (call,) = [item for item in model.stream("the tide, please", tools=[TIDE]) if isinstance(item, ToolCall)]
    assert call.name == "tide"


def test_a_stream_has_events(registry: Registry) -> None:
    stream = registry.model("demo/any").stream("hello")
    events = list(stream.events())
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert stream.response is not None


def test_a_stream_can_be_iterated_once_and_keeps_its_response(registry: Registry) -> None:
    stream = registry.model("demo/any").stream("hello")
    list(stream)
    assert list(stream) == [stream.response]


def test_an_async_stream_is_the_same(registry: Registry) -> None:
    async def work() -> tuple[list[Any], int, Response | None]:
        model = registry.model("demo/any")
        async with model.astream("hello") as stream:
            items = [item async for item in stream]
        events = [event async for event in model.astream("hello").events()]
        return items, len(events), stream.response

    items, events, response = asyncio.run(work())
    assert items[-1] == response
    assert events > 5


# ── knowing before sending ──────────────────────────────────────────────────


def test_explain_shows_the_request_without_the_key() -> None:
    registry = Registry(env={"OPENAI_API_KEY": "sk-secret-key"})
    ready, missing, unable = registry.model("openai/gpt,groq/llama,perplexity/sonar").explain("hi", tools=[TIDE])
    assert (ready.target, ready.ready, ready.reason) == ("openai/gpt", True, None)
    assert ready.request is not None
    assert b'"tide"' in ready.request.body
    assert "sk-secret-key" not in repr(ready.request.headers)
    assert (missing.ready, missing.reason) == (False, "no key; set GROQ_API_KEY")
    assert missing.request is not None
    assert not unable.ready
    assert unable.request is None
    assert "tools" in (unable.reason or "")


@pytest.mark.parametrize("key", ["hush-hush-hush", "hush"])
def test_explain_shows_no_key_under_a_header_of_its_own(key: str) -> None:
    registry = Registry(env={})
    registry.add_provider(name="own", like="groq", auth="x-mine", api_key=key, base_url="https://own", path="/v1")
    (explanation,) = registry.model("own/m").explain("hi")
    assert explanation.request is not None
    assert explanation.request.headers["x-mine"] == "[redacted]"
    assert explanation.request.headers["content-type"] == "application/json"
    assert "hush" not in f"{explanation} {explanation.request.secret}"


@pytest.mark.parametrize("ask", ["generate", "stream", "list_models"])
def test_a_404_names_the_url_without_its_secrets(ask: str) -> None:
    with FaultyServer(RawResponse(status=404, body=b"nothing here"), repeat=True) as server:
        registry = Registry(env={"LLM_BOX": f"openai+http://key@me:hush@127.0.0.1:{server.port}/v9"})
        model = registry.model("box/m")
        asks: dict[str, Callable[[], object]] = {
            "generate": lambda: model.generate("hi"),
            "stream": lambda: list(model.stream("hi")),
        }
        path = "models" if ask == "list_models" else "chat/completions"
        with pytest.raises(
            ModelNotFound, match=rf"nothing here \(at http://127.0.0.1:{server.port}/v9/{path}\)"
        ) as caught:
            asks.get(ask, model.list_models)()
        registry.close()
    assert "hush" not in str(caught.value)


def test_explain_has_the_notices() -> None:
    (explanation,) = Registry(env={}).model("anthropic/claude").explain("hi", seed=7, stream=True)
    assert any(notice.what == "seed" for notice in explanation.notices)
    assert explanation.request is not None
    assert b'"stream":true' in explanation.request.body


# ── the package ─────────────────────────────────────────────────────────────


def test_shortcuts_use_the_default_registry() -> None:
    assert dragoman.generate("demo/any", "hello").target == "demo/any"
    assert asyncio.run(dragoman.agenerate("demo/any", "hello")).target == "demo/any"
    assert isinstance(list(dragoman.stream("demo/any", "hello"))[-1], Response)
    assert dragoman.model("demo/any", temperature=0).generate("hello").text
    assert len(dragoman.embed("demo/any", ["a", "b"]).vectors) == 2


def test_names_are_the_functions_whatever_was_imported_first() -> None:
    code = "import dragoman.models, dragoman.streaming, dragoman\nprint(callable(dragoman.model), callable(dragoman.stream))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True True"
