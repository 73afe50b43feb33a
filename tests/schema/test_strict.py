"""Schemas in the form that every provider can enforce, and answers to that form as they were asked for."""

from typing import Any

import pytest

from dragoman.schema.output_type import OutputType
from dragoman.schema.strict import is_strict, to_strict
from dragoman.types import JsonObject
from tests.support.output_types import KINDS, MAYBE, STRING, an_object, written


@pytest.mark.parametrize("kind", KINDS)
def test_a_tightened_schema_is_strict(kind: str) -> None:
    assert is_strict(OutputType(KINDS[kind][0]).schema)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_strict_is_loosened_to_what_the_type_says(kind: str) -> None:
    hint, value = KINDS[kind]
    form = OutputType[Any](hint)
    assert form.read(written(hint, value)) == value


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRING, MAYBE),
        (MAYBE, MAYBE),
        ({"type": "string", "const": "a"}, {"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]}),
        ({"enum": ["a", None], "type": MAYBE["type"]}, {"enum": ["a", None], "type": MAYBE["type"]}),
        ({"anyOf": [STRING, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"title": "A", "default": "b", **STRING}, MAYBE),
        ({"minLength": 2, **STRING}, {"description": "minLength: 2", **MAYBE}),
        ({}, {}),
        (True, {}),
        ({"type": "array", "items": True}, {"type": ["array", "null"], "items": {}}),
    ],
)
def test_what_is_not_required_may_be_null(schema: Any, strict: JsonObject) -> None:
    strict_schema = to_strict(an_object(a=schema))
    assert strict_schema["properties"]["a"] == strict
    assert (strict_schema["required"], strict_schema["additionalProperties"]) == (["a"], False)


def test_a_map_that_may_be_null_stays_so() -> None:
    strict = to_strict(
        an_object(a={"type": ["object", "null"], "minProperties": 1, "propertyNames": {"pattern": "^a"}})
    )
    assert strict["properties"]["a"]["type"] == ["array", "null"]
    assert strict["properties"]["a"]["minItems"] == 1
    assert strict["properties"]["a"]["items"]["properties"]["key"] == {"type": "string", "pattern": "^a"}


def test_a_tuple_that_may_be_null_stays_so() -> None:
    pair = {"type": ["array", "null"], "prefixItems": [STRING, STRING], "maxItems": 2, "description": "Two"}
    strict = to_strict({**an_object(a=pair), "required": ["a"]})["properties"]["a"]
    assert (strict["type"], [*strict["properties"]], strict["description"]) == (
        ["object", "null"],
        ["item_1", "item_2"],
        "Two",
    )


# ── is_strict ──────────────────────────────────────────────────────────────

STRICT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 1},
        "b": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}], "description": "d"},
        "c": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["a", "b", "c"],
    "additionalProperties": False,
    "$defs": {"B": {"type": "string", "enum": ["x"]}},
}


def test_what_obeys_the_rules_is_strict() -> None:
    assert is_strict(STRICT_SCHEMA)
    assert is_strict({"type": "object", "properties": {}, "required": [], "additionalProperties": False})


def nest(levels: int) -> JsonObject:
    inner: JsonObject = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}
    return inner


@pytest.mark.parametrize(
    "change",
    [
        {"required": ["a"]},
        {"required": 3},
        {"additionalProperties": True},
        {"type": ["object", "null"]},
        {"type": "array"},
        {"anyOf": [{"type": "object"}]},
        {"properties": {"a": {}}, "required": ["a"]},
        {"properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "format": "iban"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "pattern": "(?=a)"}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "#/$defs/B", "description": "d"}}, "required": ["a"]},
        {"properties": {"a": {"oneOf": [{"type": "string"}]}}, "required": ["a"]},
        {"properties": {"a": {"type": "object", "properties": {}}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "enum": [str(number) for number in range(1001)]}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "enum": ["x" * 120_001]}}, "required": ["a"]},
        {
            "properties": {str(number): {"type": "null"} for number in range(5001)},
            "required": [str(n) for n in range(5001)],
        },
        {"properties": 3},
    ],
)
def test_what_breaks_a_rule_is_not_strict(change: JsonObject) -> None:
    assert not is_strict({**STRICT_SCHEMA, **change})


def test_more_than_ten_levels_are_not_strict() -> None:
    assert is_strict(nest(9))
    assert not is_strict(nest(11))
    assert not is_strict(nest(3000))
