"""llama.cpp's own server is understood by three of our wires; what it does otherwise is told where a test expects it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterable
from typing import Any, Protocol, TypeVar, Unpack

import pytest

from dragoman import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    Image,
    Model,
    ModelInfo,
    ProviderError,
    Registry,
    Response,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolResult,
    Unsupported,
    assistant,
    tool_results,
    user,
)
from dragoman.engine.call_options import CallOptions
from dragoman.models import Prompt
from dragoman.schema.validate import validate
from dragoman.streaming import Item
from dragoman.types import JsonObject
from tests.real.conftest import Server
from tests.support.paths import ROOT

T = TypeVar("T")


class Manner(Protocol):
    """Blocking or async."""

    def generate(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> Response: ...
    def stream(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> list[Item]: ...
    def list_models(self, model: Model) -> tuple[ModelInfo, ...]: ...
    def count_tokens(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> int: ...


class Blocking:
    def generate(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> Response:
        return model.generate(prompt, **options)

    def stream(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> list[Item]:
        with model.stream(prompt, **options) as stream:
            return list(stream)

    def list_models(self, model: Model) -> tuple[ModelInfo, ...]:
        return model.list_models()

    def count_tokens(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> int:
        return model.count_tokens(prompt, **options)


class Async:
    def generate(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> Response:
        return asyncio.run(model.agenerate(prompt, **options))

    def stream(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> list[Item]:
        async def main() -> list[Item]:
            async with model.astream(prompt, **options) as stream:
                return await listed(stream)

        return asyncio.run(main())

    def list_models(self, model: Model) -> tuple[ModelInfo, ...]:
        return asyncio.run(model.alist_models())

    def count_tokens(self, model: Model, prompt: Prompt, **options: Unpack[CallOptions]) -> int:
        return asyncio.run(model.acount_tokens(prompt, **options))


async def listed(items: AsyncIterable[T]) -> list[T]:
    return [item async for item in items]


CHAT = ("llama-cpp", "chat")
"""By Chat Completions: with the facts that are known of llama.cpp, and as if it were OpenAI."""
EVERY_WAY = (*CHAT, "responses", "messages")
SEEDS = range(5)
TIDE = Tool(
    name="tide",
    description="Tide height at a port",
    parameters={
        "type": "object",
        "properties": {
            "port": {"type": "string", "maxLength": 20},
            "day": {"type": "integer", "minimum": 1, "maximum": 31},
            "unit": {"enum": ["m", "ft"]},
        },
        "required": ["port", "day", "unit"],
        "additionalProperties": False,
    },
)
NOW = Tool(name="now", description="The time")
SHIP: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "masts": {"type": "integer", "minimum": 1, "maximum": 5},
        "ports": {"type": "array", "items": {"enum": ["Brest", "Cadiz"]}, "minItems": 2, "maxItems": 3},
        "afloat": {"type": "boolean"},
    },
    "required": ["name", "masts", "ports", "afloat"],
    "additionalProperties": False,
}
RED_DOT = Image.from_base64(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
    mime="image/png",
)


@pytest.fixture(params=EVERY_WAY)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[Blocking(), Async()], ids=["blocking", "async"])
def manner(request: pytest.FixtureRequest) -> Manner:
    chosen: Manner = request.param
    return chosen


@pytest.fixture
def model(registry: Registry, server: Server, way: str) -> Model:
    return registry.model(f"{way}/{server.name}", max_tokens=1000, retries=0, timeout=30)


def last(items: list[Item]) -> Response:
    assert isinstance(items[-1], Response)
    return items[-1]


def thinking(way: str) -> dict[str, Any]:
    """The template's own switch."""
    return {way: {"chat_template_kwargs": {"enable_thinking": True}}}


def check_calls(response: Response) -> None:
    assert TIDE.parameters is not None
    assert response.finish.reason == "tool_calls"
    assert response.tool_calls
    assert [validate(call.arguments, TIDE.parameters) for call in response.tool_calls if call.name == "tide"] == [
        () for _ in response.tool_calls
    ]
    ids = [call.id for call in response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


# ── text ────────────────────────────────────────────────────────────────────


def test_an_answer_comes_with_its_receipt(model: Model, manner: Manner, server: Server) -> None:
    response = manner.generate(model, "How high is the tide?", system="Be brief.")
    assert response.text.strip()
    assert response.finish.reason == "stop"
    assert response.model == server.name
    assert response.target == model.spec
    assert [attempt.outcome for attempt in response.attempts] == ["served"]
    assert not response.notices


def test_a_stream_adds_up_to_its_response(model: Model, manner: Manner) -> None:
    *pieces, response = manner.stream(model, "How high is the tide?")
    assert isinstance(response, Response)
    assert all(isinstance(piece, TextDelta) for piece in pieces)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == response.text
    assert response.text.strip()
    assert response.finish.reason == "stop"


def test_usage_is_reported(model: Model, manner: Manner) -> None:
    for response in (manner.generate(model, "hello"), last(manner.stream(model, "hello"))):
        usage = response.usage
        assert usage.source == "reported"
        assert usage.input is not None
        assert usage.output is not None
        assert usage.input > len("hello")  # a letter is a token, and the template has some
        assert usage.output == len(response.text) + 1  # and the one that ends it


@pytest.mark.parametrize("way", ["llama-cpp", "chat", "messages"])
def test_a_limit_of_tokens_is_told(model: Model, manner: Manner) -> None:
    """By /v1/responses the server says `completed`, however an answer ended."""
    response = manner.generate(model, "hello", max_tokens=1)
    assert response.finish.reason == "length"
    assert response.usage.output == 1


@pytest.mark.parametrize("way", CHAT)
def test_a_seed_gives_the_same_again(model: Model) -> None:
    texts = [[model.generate("hello", seed=seed).text for seed in SEEDS] for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


def test_a_stream_may_be_left(model: Model) -> None:
    with model.stream("hello") as stream:
        assert isinstance(next(iter(stream)), TextDelta)
    assert model.generate("hello", timeout=10).text


def test_many_at_once_are_all_served(model: Model) -> None:
    async def main() -> list[Response]:
        return await asyncio.gather(*(model.agenerate(f"hello {number}") for number in range(16)))

    assert all(response.text.strip() for response in asyncio.run(main()))


# ── structured output ───────────────────────────────────────────────────────


@pytest.mark.parametrize("way", CHAT)
def test_an_answer_keeps_to_its_schema(model: Model, manner: Manner) -> None:
    """The server hangs up after a stream, whatever its head said: who asks again at once may need a second try."""
    answers = [manner.generate(model, "A ship!", schema=SHIP, seed=seed) for seed in SEEDS]
    answers += [last(manner.stream(model, "A ship!", schema=SHIP, seed=seed, retries=2)) for seed in SEEDS]
    assert [validate(json.loads(answer.text), SHIP) for answer in answers] == [() for _ in answers]


@pytest.mark.parametrize("way", ["responses", "messages"])
def test_a_schema_does_no_harm_where_the_server_does_not_know_it(model: Model, manner: Manner) -> None:
    """It knows neither `text.format` nor `output_config`, and does not say so."""
    assert manner.generate(model, "A ship!", schema=SHIP).text.strip()


@pytest.mark.parametrize("way", ["responses"])
def test_extra_goes_to_the_server_as_it_is(model: Model, manner: Manner) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "ship", "schema": SHIP}}
    response = manner.generate(model, "A ship!", extra={"responses": {"response_format": form}})
    assert validate(json.loads(response.text), SHIP) == ()


# ── tools ───────────────────────────────────────────────────────────────────


def test_a_forced_call_has_valid_arguments(model: Model, manner: Manner) -> None:
    check_calls(manner.generate(model, "hello", tools=[TIDE], tool_choice="required"))


def test_a_streamed_call_comes_whole(model: Model, manner: Manner) -> None:
    items = manner.stream(model, "hello", tools=[TIDE], tool_choice="required")
    response = last(items)
    check_calls(response)
    assert tuple(item for item in items if isinstance(item, ToolCall)) == response.tool_calls


def test_a_free_choice_may_be_a_call(model: Model) -> None:
    check_calls(model.generate("hello", tools=[TIDE]))


@pytest.mark.parametrize("way", CHAT)
def test_calls_may_be_many(model: Model) -> None:
    answers = (model.generate("hello", tools=[TIDE], tool_choice="required", seed=seed) for seed in range(60))
    response = next(answer for answer in answers if len(answer.tool_calls) > 1 and answer.finish.reason != "length")
    check_calls(response)


@pytest.mark.parametrize("way", ["llama-cpp"])
def test_a_named_tool_is_called(model: Model, manner: Manner) -> None:
    """The server takes a named choice for `auto`, so the record says that it has none."""
    response = manner.generate(model, "hello", tools=[TIDE, NOW], tool_choice="now")
    assert {call.name for call in response.tool_calls} == {"now"}
    assert [notice.what for notice in response.notices] == ["tool_choice"]


def test_a_result_is_answered(model: Model, manner: Manner) -> None:
    question = user("How high is the tide?")
    first = manner.generate(model, question, tools=[TIDE], tool_choice="required")
    results = tool_results(*(ToolResult(id=call.id, name=call.name, content="4.2 m") for call in first.tool_calls))
    second = manner.generate(model, [question, first.message, results], tools=[TIDE])
    assert second.text.strip()
    assert not second.tool_calls
    assert second.finish.reason == "stop"
    assert (second.usage.input or 0) > (first.usage.input or 0)
    assert last(manner.stream(model, [question, first.message, results], tools=[TIDE])).text.strip()


# ── thinking ────────────────────────────────────────────────────────────────


def test_thinking_is_apart_from_the_text(model: Model, manner: Manner, way: str) -> None:
    response = manner.generate(model, "hello", extra=thinking(way))
    assert response.thinking.strip()
    assert response.text.strip()
    assert "think>" not in response.thinking + response.text


def test_thinking_is_streamed_first(model: Model, manner: Manner, way: str) -> None:
    *pieces, response = manner.stream(model, "hello", extra=thinking(way))
    assert isinstance(response, Response)
    is_text = [isinstance(piece, TextDelta) for piece in pieces]
    assert is_text == sorted(is_text)
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == response.thinking
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == response.text
    assert response.thinking.strip()


def reasoning_replay_fields(model: Model, way: str) -> tuple[Response, int]:
    """The answer to a history with thinking, and how many tokens of its prompt that thinking was."""
    first = model.generate("hello", extra=thinking(way))
    spoken = assistant(*(part for part in first.message.parts if not isinstance(part, Thinking)))
    answer = model.generate([user("hello"), first.message, user("and now?")])
    without = model.generate([user("hello"), spoken, user("and now?")])
    assert len(spoken.parts) < len(first.message.parts)
    return answer, (answer.usage.input or 0) - (without.usage.input or 0)


@pytest.mark.parametrize("way", ["llama-cpp", "responses"])
def test_thinking_goes_back(model: Model, way: str) -> None:
    answer, tokens = reasoning_replay_fields(model, way)
    assert tokens > 0
    assert not answer.notices


@pytest.mark.parametrize("way", ["chat", "messages"])
def test_thinking_that_the_provider_would_refuse_is_left_out_and_told(model: Model, way: str) -> None:
    """As OpenAI and Anthropic would: the one takes none back, the other none without a signature."""
    answer, tokens = reasoning_replay_fields(model, way)
    assert tokens == 0
    assert [(notice.kind, notice.what) for notice in answer.notices] == [("dropped", "thinking")]


def test_thinking_may_end_in_a_call(model: Model, manner: Manner, way: str) -> None:
    response = manner.generate(model, "hello", tools=[TIDE], tool_choice="required", extra=thinking(way))
    assert response.thinking.strip()
    check_calls(response)


# ── refusals ────────────────────────────────────────────────────────────────


def test_an_image_is_refused(model: Model, manner: Manner) -> None:
    with pytest.raises(ProviderError, match="image input is not supported"):
        manner.generate(model, ["What is this?", RED_DOT])


def test_an_image_is_not_sent_where_that_is_known(model: Model, registry: Registry, way: str) -> None:
    registry.set_capabilities(way, max_images=0)
    with pytest.raises(Unsupported, match="images"):
        model.generate(["What is this?", RED_DOT])


def test_too_long_a_prompt_is_told_with_its_numbers(model: Model, manner: Manner) -> None:
    for ask in (manner.generate, manner.stream):
        with pytest.raises(ContextTooLong) as caught:
            ask(model, "long " * 1000)
        assert caught.value.tokens is not None
        assert caught.value.tokens > 5000
        assert caught.value.limit == 2048
        assert caught.value.status == 400


def test_a_wrong_field_is_a_bad_request(model: Model, manner: Manner, way: str) -> None:
    for ask in (manner.generate, manner.stream):
        with pytest.raises(BadRequest, match="temperature") as caught:
            ask(model, "hello", extra={way: {"temperature": "hot"}})
        assert caught.value.status == 400
        assert caught.value.code == "invalid_request_error"


@pytest.mark.parametrize("way", CHAT)
def test_a_schema_that_the_server_cannot_take_is_a_bad_request(model: Model) -> None:
    with pytest.raises(BadRequest, match="pattern"):
        model.generate("hello", schema={"type": "string", "pattern": "^(a$"})


@pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic"])
def test_a_wrong_key_is_refused(server: Server, wire: str, manner: Manner) -> None:
    registry = Registry(env={"LLM_STRANGER": f"{wire}+http://wrong-key@{server.host}/v1"})
    with pytest.raises(AuthFailed) as caught:
        manner.generate(registry.model("stranger/any", retries=0), "hello")
    assert caught.value.status == 401
    registry.close()


# ── small questions ─────────────────────────────────────────────────────────


def test_the_model_is_listed(model: Model, manner: Manner, server: Server) -> None:
    assert [info.id for info in manner.list_models(model)] == [server.name]


@pytest.mark.parametrize("way", ["responses", "messages"])
def test_tokens_are_counted_as_they_are_charged(model: Model, manner: Manner) -> None:
    counted = manner.count_tokens(model, "hello", system="Be brief.", tools=[TIDE])
    assert counted == manner.generate(model, "hello", system="Be brief.", tools=[TIDE]).usage.input


# ── the server itself ───────────────────────────────────────────────────────


@pytest.mark.parametrize("wheel", ["xllamacpp", "gguf", "numpy"])
def test_a_missing_wheel_is_told(wheel: str) -> None:
    code = f"import sys; sys.modules[{wheel!r}] = None; from tests.support.real import serve; serve.main(None, 'name', 'key')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert "Error: " in json.loads(done.stdout)["missing"]


def test_a_probe_finds_what_the_server_does(model: Model, way: str) -> None:
    found = model.probe()
    outcomes = {finding.question: finding.outcome for finding in found.findings}
    assert outcomes["text"] == outcomes["streaming"] == "yes"
    assert found.facts["max_images"] == 0
    if way in CHAT:
        assert (outcomes["forced choice"], outcomes["schema"], outcomes["usage in streams"]) == ("yes", "yes", "yes")
