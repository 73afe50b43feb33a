"""A type as the output of a model: what is sent for it, and how the answer is read."""

import pytest

from dragoman.errors import OutputError
from dragoman.schema.output_type import OutputType, strip_code_fence
from dragoman.schema.validate import validate
from tests.support.output_types import KINDS


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


def test_a_text_that_is_no_json_is_told() -> None:
    with pytest.raises(OutputError, match=r"the answer is not int: \$: not JSON") as caught:
        OutputType(int).read("seven")
    assert caught.value.text == "seven"


def test_nesting_without_end_is_no_json() -> None:
    with pytest.raises(OutputError, match="not JSON"):
        OutputType(int).read("[" * 100_000)


def test_the_schema_of_a_type_is_a_valid_schema() -> None:
    for hint, _ in KINDS.values():
        validate(None, OutputType(hint).type_schema)
