"""Schemas that are small to send and endless to work on are refused quickly, on every way to a model."""

import json
import time
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.schema.validate import validate
from dragoman.types import Request, Tool, user
from tests.support.clock import slowness
from tests.support.gateway.dialects import app_of, request_of, send_blocking
from tests.support.gateway.live import record

DOUBLED = {f"d{n}": {"allOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)}
NAMED = {f"d{n}": {"$anchor": f"a{n}", "allOf": 2 * [{"$ref": f"#a{n + 1}"}]} for n in range(39)} | {
    "d39": {"$anchor": "a39"}
}
GROWING = {"properties": {"a": {"allOf": 3 * [{"$ref": "#/$defs/g"}]}}, "required": ["a"], "type": "object"}
MANY = {f"p{n}": {"type": "string"} for n in range(50_000)}
SOME = {f"p{n}": {"type": "string"} for n in range(4_000)}
CHAIN = {f"c{n}": {"properties": {"x": {"$ref": f"#/$defs/c{n + 1}"}}} for n in range(3_000)}
IDS = {f"d{n}": {"$id": f"i{n}"} for n in range(2_400)}
ATTACKS: dict[str, dict[str, Any]] = {
    "doubled": {"$ref": "#/$defs/d0", "$defs": DOUBLED},
    "doubled in a property": {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": DOUBLED},
    "doubled by names": {"type": "object", "properties": {"x": {"$ref": "#a0"}}, "$defs": NAMED},
    "doubled with a choice": {"anyOf": [{"$ref": "#/$defs/d0"}, {"type": "string"}], "$defs": DOUBLED},
    "doubled with an enum": {"enum": [1, 2], "allOf": [{"$ref": "#/$defs/d0"}], "$defs": DOUBLED},
    "doubled, with unevaluated properties": {
        "type": "object",
        "unevaluatedProperties": False,
        "anyOf": [{"$ref": "#/$defs/d0"}],
        "$defs": {**DOUBLED, "d40": {}},
    },
    "growing": {"$ref": "#/$defs/g", "$defs": {"g": GROWING}},
    "50 000 properties": {"type": "object", "properties": MANY, "required": [*MANY]},
    "4 000 properties": {"type": "object", "properties": SOME, "required": [*SOME]},
    "merged properties": {"allOf": [{"type": "object", "properties": SOME, "required": [*SOME]}] * 2},
    "a chain of definitions": {"$ref": "#/$defs/c0", "$defs": CHAIN},
    "references that may be any name": {"anyOf": [{"$ref": "x#/a"} for _ in range(2_400)], "$defs": IDS},
    "long references": {"anyOf": [{"$ref": "#" + "/x" * 700} for _ in range(6_000)]},
    "a reference that is followed often": {"items": {"$ref": "#" + "/x" * 300_000}, "minItems": 4_000, "type": "array"},
    "open brackets in a pattern": {"type": "string", "pattern": "[" * 100_000},
    "fewer open brackets": {"type": "string", "pattern": "[" * 9_000},
    "a pattern that backtracks": {
        "type": "object",
        "patternProperties": {"(a+)+$": {"type": "string"}},
        "required": ["a" * 60 + "!"],
    },
    "a large pattern": {"type": "string", "pattern": r"(\w{100}){500}"},
    "a pattern that looks around": {"type": "string", "pattern": r"^(?=(a+)+$)(?!.*b)x"},
    "a pattern of classes": {"type": "string", "pattern": r"\S" * 5_000},
    "a choice of classes": {"type": "string", "pattern": r"\w|" * 3_000},
    "many patterns": {"type": "object", "properties": {f"p{n}": {"pattern": "^.{900}"} for n in range(6_000)}},
    "many patterns that repeat a part": {
        "type": "object",
        "patternProperties": {rf"^(\d{{9}}){{99}}{n}": {"type": "string"} for n in range(6_000)},
    },
    "a long text for a pattern that looks around": {
        "type": "string",
        "pattern": "(?=.*.*.*.*.*x)y",
        "examples": ["a" * 100_000] * 100,
    },
    "names for many patterns": {
        "type": "object",
        "required": [f"r{n}" for n in range(4_000)],
        "patternProperties": {f"^a{n}": {} for n in range(1_000)},
    },
}
PROVIDERS = "".join(record(wire, "http://127.0.0.1:9", wire) for wire in wires.NAMES if wire != "native")
CONFIG = f"[gateway]\nproviders = ['demo']\n[chain]\nretries = 0\n{PROVIDERS}"
BOUND = 2.0
"""Seconds of the processor."""


@pytest.mark.parametrize("place", ["schema", "tool"])
@pytest.mark.parametrize(
    "model", ["demo/any", "openai_chat/m", "openai_responses/m", "anthropic/m", "google/m", "ollama/m"]
)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_schema_costs_much_time(name: str, model: str, place: str) -> None:
    schema = ATTACKS[name]
    tools = (Tool(name="t", description="", parameters=schema),) if place == "tool" else ()
    request = Request(
        messages=(user("hello"),),
        schema=schema if place == "schema" else None,
        tools=tools,
        tool_choice="required" if tools else None,
    )
    http = request_of("openai_chat", model, request)
    body = json.dumps(json.loads(http.body)).encode()
    app = app_of(CONFIG)
    start = time.process_time()
    seen = send_blocking(app, type(http)(method="POST", path="/v1/chat/completions", headers={}, body=body))
    assert time.process_time() - start < BOUND * slowness()
    assert seen.status in (200, 400, 502, 503)


@pytest.mark.parametrize("place", ["schema", "tool"])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_schema_costs_much_time_in_the_native_dialect(name: str, place: str) -> None:
    """It compiles every schema, to say what is wrong with it."""
    body = native_body(schema=ATTACKS[name]) if place == "schema" else native_body(ATTACKS[name])
    assert native_status(body) in (400, 502)


def test_many_tools_share_one_bound() -> None:
    choices = {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(11)} | {"d11": {}}
    large = {"type": "object", "unevaluatedProperties": False, "$ref": "#/$defs/d0", "$defs": choices}
    classes = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"\S" * 150}}}
    assert native_status(native_body(classes)) == 502
    assert native_status(native_body(*[classes] * 200)) == 400
    assert native_status(native_body(large)) == 502
    assert native_status(native_body(*[large] * 200)) == 400


def native_body(*parameters: dict[str, Any], schema: dict[str, Any] | None = None) -> bytes:
    tools = [
        {"type": "function", "function": {"name": f"t{number}", "description": "d", "parameters": each}}
        for number, each in enumerate(parameters)
    ]
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    sent = {"model": "openai_chat/m", "messages": messages, "tools": tools, "schema": schema}
    return json.dumps({name: value for name, value in sent.items() if value}).encode()


def native_status(body: bytes) -> int:
    app = app_of(CONFIG)
    start = time.process_time()
    seen = send_blocking(app, HttpRequest(method="POST", path="/native/v1/chat/completions", headers={}, body=body))
    assert time.process_time() - start < BOUND * slowness()
    return seen.status


@pytest.mark.parametrize("name", ["doubled", "doubled in a property", "growing", "50 000 properties"])
def test_a_schema_beyond_the_bounds_is_a_400(name: str) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": ATTACKS[name]}}
    messages = [{"role": "user", "content": "hello"}]
    body = json.dumps({"model": "demo/any", "messages": messages, "response_format": format}).encode()
    start = time.process_time()
    http = request_of("openai_chat", "demo/any", Request(messages=(user("hello"),)))
    seen = send_blocking(app_of(), type(http)(method="POST", path="/v1/chat/completions", headers={}, body=body))
    assert seen.status == 400
    assert time.process_time() - start < BOUND * slowness()


@pytest.mark.parametrize("place", ["schema", "tool"])
@pytest.mark.parametrize(
    ("schema", "status"),
    [
        (ATTACKS["a pattern of classes"], 400),
        ({"type": "object", "properties": {f"p{n}": {"pattern": r"^(\d{1,3}\.){3}\d{1,3}$"} for n in range(58)}}, 502),
    ],
    ids=["classes", "addresses"],
)
def test_patterns_are_counted_before_a_provider_is_asked(schema: dict[str, Any], status: int, place: str) -> None:
    tools = (Tool(name="t", description="", parameters=schema),) if place == "tool" else ()
    request = Request(messages=(user("hello"),), schema=None if tools else schema, tools=tools)
    seen = send_blocking(app_of(CONFIG), request_of("openai_chat", "openai_chat/m", request))
    assert seen.status == status


def test_references_that_may_be_any_name_are_counted_only_up_to_the_limit() -> None:
    start = time.process_time()
    with pytest.raises(InvalidRequest, match="steps"):
        validate(1, ATTACKS["references that may be any name"])
    assert time.process_time() - start < BOUND * slowness()  # it was 12 s


def test_references_by_name_are_counted() -> None:
    with pytest.raises(InvalidRequest, match="steps"):
        validate({"x": 1}, ATTACKS["doubled by names"])


def test_many_tools_that_grow_share_one_bound() -> None:
    """Ollama's templates take no `$ref`; 100 tools of 1 kB took 22 s."""
    both = [{"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(10)]
    definitions = {f"d{n}": {"type": "object", "properties": each} for n, each in enumerate(both)} | {"d10": {}}
    grows = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    tools = tuple(Tool(name=f"t{n}", description="", parameters={**grows, "title": str(n)}) for n in range(100))
    http = request_of("openai_chat", "ollama/m", Request(messages=(user("hello"),), tools=tools))
    start = time.process_time()
    assert send_blocking(app_of(CONFIG), http).status == 400
    assert time.process_time() - start < 2 * BOUND * slowness()
