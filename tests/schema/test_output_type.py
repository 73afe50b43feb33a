"""A type as the output of a model: what is sent for it, and how the answer is read."""

import contextlib
import datetime as dt
import subprocess
import sys
import time
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
import typing_extensions

from dragoman.errors import OutputError
from dragoman.schema.find_json import find_json, strip_code_fence
from dragoman.schema.output_type import OutputType, output_type_of, schema_of
from dragoman.schema.validate import validate
from tests.support.output_types import (
    KINDS,
    Bill,
    Box,
    Port,
    Weather,
)

Ages = typing_extensions.TypeAliasType("Ages", dict[str, int])


def test_an_output_type_is_named_after_its_type() -> None:
    assert [OutputType(hint).name for hint in (Port, Annotated[Bill, "x"], list[int], int | None, Ages)] == [
        "port",
        "bill",
        "response",
        "response",
        "response",
    ]


def test_pydantic_is_not_imported_for_other_types() -> None:
    code = (
        "import sys, dataclasses\nfrom dragoman.schema.output_type import OutputType\n"
        "P = dataclasses.make_dataclass('P', [('x', int)])\n"
        "assert OutputType(P).read('{\"x\": 1}').x == 1\nprint('pydantic' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "False"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is new in 3.12")
def test_an_alias_may_be_recursive() -> None:
    names: dict[str, Any] = {}
    exec("type Tree = dict[str, Tree] | int", names)  # noqa: S102 - 3.11 cannot read it
    assert OutputType[Any](names["Tree"]).read('{"value": [{"key": "a", "value": 1}]}') == {"a": 1}


def test_output_types_are_cached() -> None:
    assert output_type_of(Port) is output_type_of(Port)
    assert [output_type_of(hint).type_schema["anyOf"][0]["type"] for hint in (int | str, str | int)] == [
        "integer",
        "string",
    ]


def test_metadata_need_not_be_hashable() -> None:
    unhashable: Any = Annotated[int, {"a": 1}]
    assert output_type_of(unhashable).read('{"value": 3}') == 3
    assert output_type_of(Box[unhashable]).read('{"item": 3, "spare": null}') == Box(3)


class Total(TypedDict):
    weather: list[Weather]


def test_schema_of_is_the_schema_of_the_output_type() -> None:
    assert schema_of(Total) == OutputType(Total).schema


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
    assert strip_code_fence(text) == plain


def test_the_error_says_that_a_text_is_not_json() -> None:
    with pytest.raises(OutputError, match=r"the answer does not match int: \$: not JSON") as caught:
        OutputType(int).read("seven")
    assert caught.value.text == "seven"


@pytest.mark.no_cover
def test_nesting_without_end_is_no_json() -> None:
    with pytest.raises(OutputError, match="not JSON"):
        OutputType(int).read("[" * 100_000)


def test_the_schema_of_a_type_is_a_valid_schema() -> None:
    for hint, _ in KINDS.values():
        validate(None, OutputType(hint).type_schema)


FOUND = {
    '{"x": 1}': {"x": 1},
    'Sure! The answer is {"x": 1}. Anything else?': {"x": 1},
    'Given {x}, it is {"x": 1}': {"x": 1},
    '{"x": 1,}': {"x": 1},
    'So: {"x": [1, 2, ], "y": {"z": ",}",},}': {"x": [1, 2], "y": {"z": ",}"}},
    '<think>{"x": 0}? No.</think>{"x": 1}': {"x": 1},
    '<think>```json\n{"x": 0}\n```</think>\n```json\n{"x": 1}\n```': {"x": 1},
    'Perhaps {"x": 0}.</think>\n\n{"x": 1}': {"x": 1},
    '<think>So it is {"x": 1}</think>': {"x": 1},
    '{"x": "</think>"}': {"x": "</think>"},
    'It is {"x": "</think>"}': {"x": "</think>"},
    'It is {"x": "\\"}"} so': {"x": '"}'},
    'First {"x": 0}, then {"x": 1}': {"x": 1},
    'don"t: {"x": 1} "': {"x": 1},
    "(see [1) and [2]": [2],
    '```json\n{"x": 0}\n```\nNo, it is\n```json\n{"x": 1}\n```': {"x": 1},
    '```json\n{"x": 1}\n```\nas {"y": 2} says': {"x": 1},
    "```\n1\n```\nor\n```\n2\n```": 1,
    'A: "{\'x\': 0}", B: {"x": 1}': {"x": 1},
}


@pytest.mark.parametrize("text", FOUND)
def test_json_is_found_in_what_models_say(text: str) -> None:
    assert find_json(text)[0] == FOUND[text]


DEEP = pytest.param("[" * 1_000_000 + "]" * 1_000_000, id="deep", marks=pytest.mark.no_cover)


@pytest.mark.parametrize("text", ["", "no", "{x}", "{" * 20, '{"x": 1', "so [1}", DEEP])
def test_a_text_without_json_is_an_error(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        find_json(text)


def test_of_several_values_one_that_matches_is_taken() -> None:
    text = 'The schema was {"type": "object"}; so: {"value": [1, 2]}. I used {"tool": "none"} for it.'
    assert OutputType[list[int]](list[int]).read(text) == [1, 2]
    assert OutputType[list[int]](list[int]).read('```\n{"tool": 1}\n```\nso {"value": [1, 2]}') == [1, 2]
    with pytest.raises(OutputError, match='"tool":2') as caught:
        OutputType[list[int]](list[int]).read('{"type": 1} and {"tool": 2}')
    assert caught.value.text == '{"type": 1} and {"tool": 2}'


@pytest.mark.no_cover
@pytest.mark.parametrize("text", ["{" * 200_000, '{"' + '\\"' * 200_000, "{}" * 50_000 + "x", ", " * 200_000])
def test_a_long_answer_is_searched_in_bounded_time(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        find_json(text)
    assert time.process_time() - began < 5


class Entry(msgspec.Struct):
    n: int
    day: dt.date


def test_a_wrong_date_is_told_together_with_the_other_reasons() -> None:
    with pytest.raises(OutputError) as caught:
        OutputType(Entry).read('{"n": "x", "day": "3 March"}')
    assert sorted(caught.value.reasons) == [
        '$.day: "3 March" is not a date such as 2026-01-31',
        '$.n: "x" is not of type "integer"',
    ]
    with pytest.raises(OutputError) as caught:
        OutputType(Entry).read('{"n": 1, "day": "3 March"}')
    assert caught.value.reasons == ('$.day: "3 March" is not a date such as 2026-01-31',)
