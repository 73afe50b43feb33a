"""The demo: deterministic, by the real path, and good enough to try everything with."""

import asyncio
import io
import json
import time
from typing import Any

import msgspec
import pytest
from PIL import Image as Picture

from dragoman import (
    EmptyResponse,
    Image,
    Interrupted,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Registry,
    TimedOut,
    Timeouts,
    Tool,
    ToolCall,
    ToolResult,
    Truncated,
    assistant,
    tool_results,
    user,
    wires,
)
from dragoman.demo import provider
from dragoman.demo.answers import count_tokens
from dragoman.demo.provider import DemoTransport
from dragoman.demo.schema_example import example_value
from dragoman.engine.effects import Send
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.schema.validate import validate
from dragoman.types import Audio, Document

TIDE = Tool(
    name="tide_height",
    description="The height of the water at a port",
    parameters={"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
)
SUM = Tool(
    name="add",
    description="Sum of numbers",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)


@pytest.fixture
def model() -> Any:
    return Registry(env={}).model("demo/any")


def test_it_says_the_same_every_time(model: Any) -> None:
    first, second = model.generate("What is love?"), Registry(env={}).model("demo/any").generate("What is love?")
    assert (first.text, first.id, first.usage) == (second.text, second.id, second.usage)
    assert first.text == "You said “What is love?”, which is 3 words."


def test_a_stream_says_the_same(model: Any) -> None:
    assert list(model.stream("What is love?"))[-1].text == model.generate("What is love?").text


def test_usage_is_counted(model: Any) -> None:
    usage = model.generate("one two three", reasoning="high").usage
    assert usage.input == 3
    assert 0 < usage.reasoning < usage.output


def test_nothing_and_greetings(model: Any) -> None:
    assert model.generate("").text == "You said nothing."
    assert model.generate("Hi!").text.startswith("Hello!")


def test_limits_are_obeyed(model: Any) -> None:
    cut = model.generate("What is love?", max_tokens=3)
    assert (cut.text, cut.finish.reason) == ("You said “", "length")
    assert model.generate("What is love?", stop=["love"]).text == "You said “What is "


# ── tools ───────────────────────────────────────────────────────────────────


def test_a_tool_is_called_when_it_fits(model: Any) -> None:
    (call,) = model.generate("How high is the tide in Saint Malo?", tools=[TIDE, SUM]).tool_calls
    assert (call.id, call.name, call.arguments) == ("call_1", "tide_height", {"port": "Saint Malo"})
    assert not model.generate("Tell me a joke", tools=[TIDE, SUM]).tool_calls


def test_numbers_of_the_prompt_are_used(model: Any) -> None:
    (call,) = model.generate("Please add 2 and 3.5", tools=[TIDE, SUM]).tool_calls
    assert call.arguments == {"a": 2, "b": 3.5}


def test_a_choice_is_obeyed(model: Any) -> None:
    assert not model.generate("the tide", tools=[TIDE], tool_choice="none").tool_calls
    assert len(model.generate("anything", tools=[TIDE, SUM], tool_choice="required").tool_calls) == 1
    (call,) = model.generate("the tide", tools=[TIDE, SUM], tool_choice="add").tool_calls
    assert call.name == "add"
    both = "add up the tide"
    assert len(model.generate(both, tools=[TIDE, SUM]).tool_calls) == 2
    assert len(model.generate(both, tools=[TIDE, SUM], parallel_tool_calls=False).tool_calls) == 1


def test_results_are_quoted(model: Any) -> None:
    question = user("How high is the tide in Brest?")
    called = assistant(*(ToolCall(id=f"call_{n}", name="tide_height", arguments={"port": "Brest"}) for n in (1, 2)))
    results = tool_results(
        ToolResult(id="call_1", name="tide_height", content="4.2 m"),
        ToolResult(id="call_2", name="tide_height", content="no port", is_error=True),
    )
    answer = model.generate([question, called, results], tools=[TIDE])
    assert answer.text.startswith("tide_height says: 4.2 m")
    assert "failed: no port" in answer.text
    assert model.generate([question, called, results], tools=[TIDE], tool_choice="required").tool_calls


def test_a_greeting_calls_no_tool(model: Any) -> None:
    assert not model.generate("Hello! Is the tide high?", tools=[TIDE]).tool_calls
    assert model.generate("Hello! Is the tide high?", tools=[TIDE], tool_choice="required").tool_calls


# ── schemas ─────────────────────────────────────────────────────────────────

NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
}
SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "string"},
    {"type": "string", "minLength": 40},
    {"type": "string", "maxLength": 2},
    {"type": "integer", "minimum": 3, "maximum": 4},
    {"type": "integer", "exclusiveMinimum": 9, "multipleOf": 7},
    {"type": "integer", "maximum": -5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "multipleOf": 0.25, "minimum": 1.1},
    {"type": ["null", "boolean"]},
    {"type": "null"},
    {"const": {"a": [1]}},
    {"enum": ["a", 3, None]},
    {"enum": [1, "two"], "type": "string"},
    {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 5}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string", "format": "date"}]},
    {"allOf": [{"type": "integer", "minimum": 3}, {"minimum": 7, "maximum": 9}]},
    {"allOf": [{"type": "number"}, {"type": "integer"}]},
    {"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]},
    {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"type": "integer"}, "minItems": 4, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {"type": "array", "contains": {"const": 5}, "minContains": 2},
    {"type": "array", "maxItems": 0},
    {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{3,5}$"}, "minProperties": 1},
    {
        "type": "object",
        "patternProperties": {"^x-": {"type": "integer"}},
        "minProperties": 1,
        "additionalProperties": False,
    },
    {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"], "maxProperties": 1},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": False}},
    {"type": "object", "additionalProperties": False},
    {"allOf": [{"properties": {"a": {"minimum": 3}}, "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]},
    {
        "if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]},
        "then": {"required": ["a"]},
        "type": "object",
    },
    {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    {"$ref": "#/definitions/list", "definitions": {"list": {"type": "array", "items": {"$ref": "#/definitions/list"}}}},
    {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]},
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}$", "examples": ["AB-123"]},
    {"type": "string", "pattern": "^(cat|dog)s?$", "default": "dog"},
    {"type": "string", "pattern": "^\\+?[0-9 ]{7,15}$"},
    {"type": "string", "pattern": "^[A-Z]{3}$"},
    {"type": "string", "pattern": "[^a-c]+", "minLength": 5},
    {"type": "string", "pattern": "^\\w+@\\w+\\.(com|org)$"},
    *(
        {"type": "string", "format": name}
        for name in ("date", "date-time", "time", "email", "uuid", "uri", "ipv4", "ipv6")
    ),
    *(
        {"type": "string", "format": name}
        for name in ("duration", "hostname", "regex", "json-pointer", "uri-reference")
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_schema_is_filled(schema: dict[str, Any]) -> None:
    value = example_value(schema, words=("Brest", "Saint Malo"), numbers=(2.0, 100.0))
    assert validate(value, schema) == ()
    assert value == example_value(schema, words=("Brest", "Saint Malo"), numbers=(2.0, 100.0))


def test_recursion_ends() -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert example_value(endless) is not None


DOUBLING: dict[str, Any] = {
    f"a{level}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/a{level + 1}"} for side in "xy"}}
    | {"required": ["x", "y"]}
    for level in range(24)
}

NESTED: dict[str, Any] = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(24)}

UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"$ref": "#/$defs/a0", "$defs": DOUBLING | {"a24": {}}}, "more than 5000 steps"),
    ({"type": "string", "minLength": 10**7}, "more than 10000 characters"),
    ({"$ref": "#/$defs/a0", "$defs": NESTED | {"a24": {}}}, "more than 5000 steps"),
    ({"type": "string", "pattern": "^(?:a|b)(?P<n>c)?[\\d\\s]*\\.$"}, "no simple text matches the pattern"),
    ({"type": "object", "properties": {"a": None}}, "properties.a: null is not"),
    ({"type": "object", "required": [None]}, "required"),
    ({"type": [[]]}, "type"),
]


@pytest.mark.parametrize(("schema", "why"), UNFIT)
def test_a_schema_that_cannot_be_filled_is_refused(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the demo cannot fill this schema: .*{why}"):
        example_value(schema)


@pytest.mark.parametrize("size", [0, -1, 10**6, "many"])
def test_a_vector_has_a_number_of_dimensions(size: Any) -> None:
    body = msgspec.json.encode({"model": "any", "input": "hi", "dimensions": size})
    http = HttpRequest(method="POST", origin="demo://", path="/v1/embeddings", body=body)
    assert DemoTransport().send(Send(http)).status == 400


def test_an_answer_is_json_of_the_schema(model: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    response = model.generate('Meet "Bob", aged 44', schema=schema)
    assert response.text == '{"name":"Bob","age":44}'
    assert model.generate("any", schema={}).text.startswith("{")


# ── pictures and other parts ────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG", "WEBP"])
def test_pictures_are_measured(model: Any, kind: str) -> None:
    file = io.BytesIO()
    Picture.new("RGB", (31, 17), "red").save(file, kind)
    text = model.generate(["Look!", Image(data=file.getvalue(), mime=f"image/{kind.lower()}")]).text
    assert "31 by 17 pixels" in text
    assert kind.lower() in text.lower()


def test_other_parts_are_told(model: Any) -> None:
    text = model.generate(
        [
            Document(data=b"%PDF", mime="application/pdf", name="bill.pdf"),
            Audio(data=b"RIFFxxxxWAVE", mime="audio/wav"),
        ]
    ).text
    assert "bill.pdf" in text
    assert "12 bytes of audio/wav" in text


# ── failing on purpose ──────────────────────────────────────────────────────


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("overloaded", Overloaded),
        ("ratelimited", RateLimited),
        ("empty", EmptyResponse),
        ("slow", TimedOut),
        ("nobody", ModelNotFound),
    ],
)
def test_it_fails_on_purpose(name: str, error: type[Exception], *, streamed: bool) -> None:
    model = Registry(env={}).model(f"demo/{name}", retries=0, timeout=0.05 if error is TimedOut else 30.0)
    with pytest.raises(error):
        _ = list(model.stream("hi")) if streamed else model.generate("hi")


def test_a_cut_answer_is_truncated() -> None:
    model = Registry(env={}).model("demo/cut", retries=0)
    with pytest.raises(Truncated):
        model.generate("hi")
    with pytest.raises(Interrupted) as caught:
        list(model.stream("hi"))
    assert caught.value.partial is not None
    assert caught.value.partial.text


def test_the_error_of_the_slow_model_names_it() -> None:
    with pytest.raises(TimedOut, match=r"^demo/slow: no response within `total` \(0\.05 s\)$"):
        Registry(env={}).model("demo/slow", retries=0).generate("hi", timeout=0.05)


def test_a_plain_call_of_the_slow_model_ends_at_first_event() -> None:
    model = Registry(env={}).model("demo/slow, demo/any", retries=1, backoff=0.0)
    began = time.monotonic()
    response = model.generate("hi", timeout=Timeouts(total=20, first_event=0.05))
    assert [attempt.outcome for attempt in response.attempts] == ["failed", "failed", "served"]
    assert time.monotonic() - began < 5
    error = str(response.attempts[0].error)
    assert error == "TimedOut: no response within `first_event` (0.05 s)"


def test_an_async_plain_call_of_the_slow_model_ends_at_first_event() -> None:
    model = Registry(env={}).model("demo/slow, demo/any", retries=0)
    response = asyncio.run(model.agenerate("hi", timeout=Timeouts(total=20, first_event=0.05)))
    assert response.target == "demo/any"


def test_a_slow_answer_can_be_cancelled() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.05):
            await Registry(env={}).model("demo/slow").agenerate("hi")

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(work())
    assert time.monotonic() - began < 5


def test_rate_limits_are_left_for_another_target() -> None:
    response = Registry(env={}).model("demo/ratelimited,demo/any").generate("hello")
    assert response.target == "demo/any"


def test_tokens_are_words_and_marks() -> None:
    assert count_tokens("Don't stop!") == 5


UNREAD: list[tuple[str, dict[str, object], str]] = [
    ("/v1/completions", {"prompt": ["a", "b"]}, "must be one text: the demo continues one at a time"),
    ("/v1/completions", {"prompt": [1, 2]}, "must have no tokens: the demo cannot read it"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]},
        "must have no file: the demo cannot read it",
    ),
]


@pytest.mark.parametrize(("path", "fields", "said"), UNREAD)
def test_the_demo_refuses_what_it_would_not_look_at(path: str, fields: dict[str, object], said: str) -> None:
    body = json.dumps({"model": "any", **fields}).encode()
    response = provider._route(HttpRequest(method="POST", path=path, body=body))  # pyright: ignore[reportPrivateUsage]
    assert response.status == 400
    assert said in response.body.decode()


def test_options_that_the_demo_does_not_know_are_noticed() -> None:
    wire = wires.get("openai_chat")
    body = json.dumps({"model": "any", "prompt": "a", "best_of": 2, "echo": True}).encode()
    request = wire.other_servers[0].decode_request(HttpRequest(method="POST", path="/v1/completions", body=body))[1]
    http = wire.client.encode_request(request, Registry(env={}).target("demo/any"))
    assert {notice.what for notice in http.notices} == {"best_of", "echo"}
    assert "echo" not in json.loads(http.body)
