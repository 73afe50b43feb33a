"""Typed output: every kind of type, through every wire, in every way, is the same value."""

import json
from typing import Any

import pytest

from dragoman import Finish, Model, Overloaded, Response, Tool, ToolCall, Usage, assistant, wires
from dragoman.testing import Line, Scripted
from tests import schema_rules
from tests.kinds import KINDS, written

WAYS: dict[str, dict[str, bool]] = {
    "native": {},
    "tool": {"structured": False, "forced_choice": True},
    "instruction": {"structured": False, "tools": False},
}
TIDE = Tool(name="tide", description="The height of the water")
CALL = ToolCall(id="call_1", name="tide")


def scripted(script: Scripted, wire: str = "openai_chat", **facts: Any) -> Model:
    registry = script.registry(wire)
    registry.set_limits("scripted", **facts)
    return registry.model("scripted/model", retries=0)


def line(text: str, way: str, *, finish: Finish | None = None) -> Line:
    """An answer, as a model gives it in a way."""
    if way == "tool":
        return ToolCall(id="call_1", name="final_answer", arguments=json.loads(text))
    said = f"Here it is:\n```json\n{text}\n```\n" if way == "instruction" else text
    usage = Usage(input=10, output=5)
    return Response(message=assistant(said), finish=finish or Finish(reason="stop"), usage=usage)


# Every kind, through every wire, in every way ------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", wires.NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_same_value_through_every_wire_in_every_way(kind: str, wire: str, way: str) -> None:
    hint, value = KINDS[kind]
    script = Scripted(line(written(hint, value), way))
    assert scripted(script, wire, **WAYS[way]).extract(hint, "Which?", repairs=0) == value
    asked = script.requests[0]
    assert (asked.schema is not None, len(asked.tools)) == {"native": (True, 0), "tool": (False, 1)}.get(
        way, (False, 0)
    )


@pytest.mark.parametrize("wire", wires.NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_grows_into_the_same_value(kind: str, wire: str) -> None:
    hint, value = KINDS[kind]
    script = Scripted(written(hint, value))
    with scripted(script, wire).stream_extract(hint, "Which?", repairs=0) as stream:
        *_, last = stream
    assert last == value == stream.parsed


@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_fills_every_kind(kind: str) -> None:
    from dragoman import Registry

    hint, value = KINDS[kind]
    made = Registry(env={}).model("demo/any").extract(hint, "Which?", repairs=0)
    assert type(made) is type(value) or kind in ("literal", "optional", "union of scalars", "tagged struct", "union")


# What is sent ---------------------------------------------------------------------------------------------------------


def sent(wire: str, hint: Any) -> dict[str, Any]:
    script = Scripted(Overloaded("busy"))
    with pytest.raises(Overloaded):
        scripted(script, wire).extract(hint, "Which?", repairs=0)
    body: dict[str, Any] = json.loads(script.http[0].body)
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_what_openai_is_sent_is_strict(kind: str) -> None:
    form = sent("openai_chat", KINDS[kind][0])["response_format"]["json_schema"]
    assert form["strict"] is True
    assert schema_rules.openai(form["schema"]) == []
    assert sent("openai_responses", KINDS[kind][0])["text"]["format"]["schema"] == form["schema"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_anthropic_is_sent_is_in_its_subset(kind: str) -> None:
    body = sent("anthropic", KINDS[kind][0])
    assert schema_rules.anthropic(body["output_config"]["format"]["schema"]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_google_is_sent_is_in_its_subset(kind: str) -> None:
    body = sent("google", KINDS[kind][0])
    assert schema_rules.google(body["generationConfig"]["responseJsonSchema"]) == []


@pytest.mark.parametrize(
    ("rules", "schema"),
    [
        (schema_rules.openai, {"type": "array"}),
        (schema_rules.openai, {"type": "object", "properties": {"a": {}}, "additionalProperties": False}),
        (schema_rules.openai, {"type": "object", "properties": {}, "required": [], "default": {}}),
        (schema_rules.anthropic, {"type": "object"}),
        (schema_rules.anthropic, {"type": "array", "maxItems": 3}),
        (schema_rules.anthropic, {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}),
        (schema_rules.google, {"type": "string", "const": "a"}),
        (schema_rules.google, {"type": "boolean", "enum": [True]}),
        (schema_rules.google, {"$ref": "#/$defs/A", "description": "x", "$defs": {"A": {"type": "string"}}}),
        (
            schema_rules.google,
            {"$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}, "$ref": "#/$defs/A"},
        ),
    ],
)
def test_each_rule_is_able_to_fail(rules: Any, schema: dict[str, Any]) -> None:
    assert rules(schema)
