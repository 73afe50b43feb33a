"""Schemas in the form that every provider can enforce, and answers to that form as they were asked for."""

from typing import Any

import pytest

from dragoman.errors import OutputError
from dragoman.schema.adapt import SchemaDialect, fit
from dragoman.schema.output_type import OutputType, unfenced
from dragoman.schema.strict import tighten
from dragoman.schema.unstrict import loosen
from dragoman.schema.validate import is_strict, validate
from dragoman.types import JsonObject
from tests.support.output_types import KINDS, Leaf, Point, written

ANY: JsonObject = {}
STRING: JsonObject = {"type": "string"}
MAYBE: JsonObject = {"type": ["string", "null"]}


def an_object(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("kind", KINDS)
def test_a_tightened_schema_is_strict(kind: str) -> None:
    assert is_strict(OutputType(KINDS[kind][0]).schema)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_strict_is_loosened_to_what_the_type_says(kind: str) -> None:
    hint, value = KINDS[kind]
    form = OutputType[Any](hint)
    assert form.read(written(hint, value)) == value


@pytest.mark.parametrize(
    ("schema", "tight"),
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
def test_what_is_not_required_may_be_null(schema: Any, tight: JsonObject) -> None:
    tightened = tighten(an_object(a=schema))
    assert tightened["properties"]["a"] == tight
    assert (tightened["required"], tightened["additionalProperties"]) == (["a"], False)


@pytest.mark.parametrize(
    ("value", "schema", "loose"),
    [
        ({"a": None}, an_object(a=STRING), ANY),
        ({"a": None}, an_object(a=MAYBE), {"a": None}),
        ({"a": None}, an_object(a={}), {"a": None}),
        ({"a": None}, {**an_object(a=STRING), "required": ["a"]}, {"a": None}),
        ({"b": None}, an_object(a=STRING), {"b": None}),
        ({"value": [1]}, {"type": "array"}, [1]),
        ([1], {"type": "array"}, [1]),
        ({"value": [{"key": "a", "value": 1}]}, {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"a": 1}, {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"value": [{"key": 1, "value": 1}]}, {"type": "object"}, {"1": 1}),
        ({"value": 3}, {"type": "object"}, 3),
        ({"value": [3]}, {"type": "object"}, [3]),
        ({"value": {"item_1": 1, "item_2": 2}}, {"type": "array", "prefixItems": [ANY, ANY], "items": False}, [1, 2]),
        ({"value": [1, 2, 3]}, {"type": "array", "prefixItems": [ANY], "items": an_object()}, [1, 2, 3]),
        ({"value": 3}, {"anyOf": [{"type": "object"}, {"type": "number"}]}, 3),
        ({"value": {"a": None}}, {"anyOf": [STRING, an_object(a=STRING)]}, ANY),
        ({"value": {"a": None, "k": 1}}, {"oneOf": [an_object(k={"const": 2}, a={}), an_object(k={"const": 1}, a=STRING)]}, {"k": 1}),
        ({"a": {"a": None}}, {"$defs": ANY, **an_object(a={"$ref": "#"})}, {"a": ANY}),
        ("x", {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "x"),
    ],
)  # fmt: skip
def test_an_answer_is_loosened(value: object, schema: JsonObject, loose: object) -> None:
    assert loosen(value, schema) == loose


def test_a_map_that_may_be_null_stays_so() -> None:
    tight = tighten(an_object(a={"type": ["object", "null"], "minProperties": 1, "propertyNames": {"pattern": "^a"}}))
    assert tight["properties"]["a"]["type"] == ["array", "null"]
    assert tight["properties"]["a"]["minItems"] == 1
    assert tight["properties"]["a"]["items"]["properties"]["key"] == {"type": "string", "pattern": "^a"}


def test_a_tuple_that_may_be_null_stays_so() -> None:
    pair = {"type": ["array", "null"], "prefixItems": [STRING, STRING], "maxItems": 2, "description": "Two"}
    tight = tighten({**an_object(a=pair), "required": ["a"]})["properties"]["a"]
    assert (tight["type"], [*tight["properties"]], tight["description"]) == (
        ["object", "null"],
        ["item_1", "item_2"],
        "Two",
    )


def test_recursion_can_be_had_in_properties_that_are_not_required() -> None:
    tree = OutputType(Leaf).schema
    fitted, notices = fit(tree, SchemaDialect(name="some", required_recursion=False), where="schema")
    assert fitted["required"] == ["name", "leaves", "next"]
    assert fitted["$defs"]["Leaf"]["required"] == ["name"]
    assert [(notice.kind, notice.what) for notice in notices] == [("changed", "schema.$defs.Leaf: required")]


def test_recursion_to_the_root_is_freed_too() -> None:
    tree = {**an_object(a={"$ref": "#"}, b=STRING), "required": ["a", "b"]}
    fitted, _ = fit(tree, SchemaDialect(name="some", required_recursion=False), where="schema")
    assert fitted["required"] == ["b"]


def test_what_is_not_recursive_is_left_alone() -> None:
    for schema in (OutputType(Point).schema, STRING):
        assert fit(schema, SchemaDialect(name="some", required_recursion=False), where="schema") == (schema, ())


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (" {} \n", "{}"),
        ("```json\n{}\n```", "{}"),
        ("```\n{}\n```", "{}"),
        ("Here:\n```json\n[1]\n```\nDone.", "[1]"),
        ('"```\\na```"', '"```\\na```"'),
        ("plain", "plain"),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('```json\n{"a": "```"}```', '{"a": "```"}'),
        ('```json {"a": 1}```', '{"a": 1}'),
        ('```{"a": 1}```', '{"a": 1}'),
        ("```true```", "true"),
        ("\ufeff{}", "{}"),
        ("\ufeff```json\n{}\n```", "{}"),
        ("```json\n[1]\n```\nand\n```\n[2]\n```", "[1]"),
        ("```json\n[1]", "[1]"),
    ],
)
def test_white_space_and_fences_are_stripped(text: str, plain: str) -> None:
    assert unfenced(text) == plain


def test_a_text_that_is_no_json_is_told() -> None:
    with pytest.raises(OutputError, match=r"the answer is not int: \$: not JSON") as caught:
        OutputType(int).read("seven")
    assert caught.value.text == "seven"


def test_nesting_without_end_is_no_json() -> None:
    with pytest.raises(OutputError, match="not JSON"):
        OutputType(int).read("[" * 100_000)


def test_the_outline_is_a_valid_schema() -> None:
    for hint, _ in KINDS.values():
        validate(None, OutputType(hint).outline)
