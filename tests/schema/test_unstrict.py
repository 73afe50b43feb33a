"""Answers to tightened schemas as they were asked for: which arm of a choice they are, whole and in part."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman.engine.typed_output import Partials
from dragoman.errors import OutputError
from dragoman.events import PartDelta
from dragoman.schema.output_type import OutputType
from dragoman.schema.unstrict import NO_VALUE, StrictConverter, from_strict
from dragoman.types import JsonObject
from tests.support.output_types import ANY, MAYBE, STRING, an_object
from tests.support.work import calls_of
from tests.test_typed_stream import grows


@dataclass
class A:
    x: int


@dataclass
class B:
    y: str
    n: int = 3


@dataclass
class Tagged:
    inner: "A | tuple[int, int]"


ENTRY = '[{"key": "a", "value": "b"}]'
CHOICES: list[tuple[Any, str, Any]] = [
    (list[str] | dict[str, str], ENTRY, {"a": "b"}),
    (list[str] | dict[str, str], '["a"]', ["a"]),
    (str | list[str] | dict[str, str], ENTRY, {"a": "b"}),
    (str | list[str] | dict[str, str], '"a"', "a"),
    (list[dict[str, str]] | dict[str, str], ENTRY, {"a": "b"}),
    (list[dict[str, str]] | dict[str, str], f"[{ENTRY}]", [{"a": "b"}]),
    (tuple[int, int] | A, '{"x": 1}', A(1)),
    (tuple[int, int] | A, '{"item_1": 1, "item_2": 2}', (1, 2)),
    (list[A] | list[B], '[{"y": "a", "n": null}]', [B("a")]),
    (list[A] | list[B], '[{"x": 1}]', [A(1)]),
    (dict[str, A] | dict[str, B], '[{"key": "b", "value": {"y": "a", "n": 1}}]', {"b": B("a", 1)}),
    (dict[str, A] | dict[str, B], '{"b": {"y": "a"}}', {"b": B("a")}),
    (list[tuple[int, int] | A], '[{"x": 1}, {"item_1": 1, "item_2": 2}]', [A(1), (1, 2)]),
    (Tagged | B, '{"inner": {"item_1": 1, "item_2": 2}}', Tagged((1, 2))),
]


@pytest.mark.parametrize(("hint", "text", "value"), CHOICES)
def test_an_answer_is_the_arm_whose_schema_it_satisfies(hint: Any, text: str, value: object) -> None:
    assert OutputType[Any](hint).read(f'{{"value": {text}}}') == value


@pytest.mark.parametrize(("hint", "text", "value"), CHOICES)
def test_what_was_shown_of_a_choice_is_not_taken_back(hint: Any, text: str, value: object) -> None:
    partials = Partials(OutputType(hint))
    shown = [partials.feed(PartDelta(index=0, text=letter)) for letter in f'{{"value": {text}}}']
    values = [one for one in shown if one is not NO_VALUE]
    last = OutputType[Any](hint).converter.convert(json.loads(text))
    assert all(grows(before, after) for before, after in zip(values, [*values[1:], last], strict=False))


def test_nothing_is_shown_before_the_arm_is_certain() -> None:
    choice = StrictConverter(OutputType[Any](dict[str, int] | list[int]).type_schema)
    assert choice.convert_partial({"value": []}) is NO_VALUE
    assert choice.convert_partial({"value": [1]}) == [1]
    assert choice.convert_partial({"value": [{"key": "a", "value": 1}]}) == {"a": 1}


def test_what_all_arms_agree_on_is_shown() -> None:
    assert StrictConverter(OutputType[Any](list[int] | list[float]).type_schema).convert_partial({"value": [1]}) == [1]


def test_nothing_is_shown_of_what_no_arm_may_become() -> None:
    choice = StrictConverter(OutputType[Any](list[A] | list[B]).type_schema)
    assert choice.convert_partial({"value": [{"z": 1}]}) is NO_VALUE


@dataclass
class Sum:
    left: "Sum | Product | int"
    note: str = ""


@dataclass
class Product:
    left: "Sum | Product | int"
    remark: str = ""


def test_arms_within_arms_are_each_looked_at_once() -> None:
    choice = StrictConverter(OutputType[Any](Sum | Product).type_schema)

    def work(depth: int) -> int:
        value: JsonObject = {}
        for _ in range(depth):
            value = {"left": value}
        return calls_of(lambda: choice.convert_partial({"value": value}))

    assert work(40) < 3 * work(20)


def test_a_key_with_two_values_is_a_reason() -> None:
    output = OutputType[Any](dict[str, int])
    assert output.read('{"value": [{"key": "a", "value": 1}, {"key": "a", "value": 1}]}') == {"a": 1}
    with pytest.raises(OutputError, match="the key 'a' has two values"):
        output.read('{"value": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]}')
    assert output.converter.convert_partial({"value": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]}) is NO_VALUE


@pytest.mark.parametrize(
    ("value", "arms", "converted"),
    [
        ({"kind": "b", "n": None, "z": 1}, ["a", "b"], {"kind": "b", "z": 1}),
        ({"kind": "c"}, ["a", "b"], {"kind": "c"}),
    ],
)
def test_what_satisfies_no_arm_is_taken_as_the_nearest(value: JsonObject, arms: list[str], converted: object) -> None:
    made = [
        {
            "type": "object",
            "properties": {"kind": {"const": name}, "n": {"type": "integer"}, "more": True},
            "required": ["kind"],
        }
        for name in arms
    ]
    assert from_strict({"value": value}, {"anyOf": [*made, {"type": "array"}]}) == converted


def test_what_is_of_no_arms_type_stays_as_it_is() -> None:
    assert from_strict({"value": [1]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}) == [1]
    assert from_strict({"value": [1]}, {"anyOf": [{"type": "object"}, {"type": "string"}]}) == [1]
    lists = [{"type": "array", "items": {"type": kind}} for kind in ("integer", "string")]
    assert from_strict({"value": [1, "a"]}, {"anyOf": lists}) == [1, "a"]
    assert from_strict({"a": {"b": None}}, {"type": "object", "properties": {"a": lists[0]}}) == {"a": {"b": None}}


@pytest.mark.parametrize(
    ("value", "schema", "converted"),
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
def test_an_answer_is_loosened(value: object, schema: JsonObject, converted: object) -> None:
    assert from_strict(value, schema) == converted
