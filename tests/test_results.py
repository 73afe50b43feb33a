"""What a tool may give, and what the model gets of it."""

import dataclasses
import datetime as dt
import decimal
import enum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from dragoman import AuthFailed, Document, Image, MalformedToolCall, Text, ToolCall, ToolResult
from dragoman.results import failure, result_of

CALL = ToolCall(id="call_1", name="tide")
DOT = Image(data=b"\x89PNG", mime="image/png")


class Struct(msgspec.Struct):
    metres: float


@dataclasses.dataclass
class Data:
    metres: float


class Model(BaseModel):
    metres: float


class Typed(TypedDict):
    metres: float


class Colour(enum.Enum):
    RED = "red"


def result(value: object, limit: int = 1000) -> ToolResult:
    return result_of(CALL, value, limit)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("4.2 m", "4.2 m"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (4.5, "4.5"),
        ({"metres": 4.5}, '{"metres":4.5}'),
        ({1: "a"}, '{"1":"a"}'),
        ([1, "é"], '[1,"é"]'),
        (Struct(4.5), '{"metres":4.5}'),
        (Data(4.5), '{"metres":4.5}'),
        (Model(metres=4.5), '{"metres":4.5}'),
        ([Model(metres=4.5)], '[{"metres":4.5}]'),
        (Typed(metres=4.5), '{"metres":4.5}'),
        (Colour.RED, '"red"'),
        (dt.date(2026, 11, 17), '"2026-11-17"'),
        (dt.datetime(2026, 11, 17, tzinfo=dt.UTC), '"2026-11-17T00:00:00Z"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (decimal.Decimal("4.20"), '"4.20"'),
        ({1}, "[1]"),
        ({"a": [float("nan"), float("inf"), -float("inf")]}, '{"a":["NaN","Infinity","-Infinity"]}'),
        ("half a letter: \ud83d", "half a letter: \ufffd"),
        ({"a\ud83d": "\ud83d"}, '{"a\ufffd":"\ufffd"}'),
        ("two halves: \ud83d\ude00", "two halves: 😀"),
    ],
)
def test_a_value_is_told_as_json_and_text_as_it_is(value: object, content: str) -> None:
    assert result(value) == ToolResult(id="call_1", name="tide", content=content)


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"abc", "bytes are no text"),
        ({"a": [b"abc"]}, "bytes are no text"),
        ((bytearray(b"abc"),), "bytes are no text"),
        (object(), "object has no form in JSON"),
        (circle(), "recursion"),
    ],
)
def test_what_cannot_be_told_is_an_error(value: object, why: str) -> None:
    told = result(value)
    assert told.is_error
    assert why in told.text


def test_pictures_and_documents_are_parts() -> None:
    page = Document(data=b"%PDF", mime="application/pdf")
    assert result(DOT).content == (DOT,)
    assert result(["See:", DOT, page, {"a": 1}]).content == (Text(text="See:"), DOT, page, Text(text='{"a":1}'))


def test_a_result_is_taken_as_it_is_and_gets_the_calls_id() -> None:
    given = ToolResult(id="?", content="no", is_error=True)
    assert result(given) == ToolResult(id="call_1", name="tide", content="no", is_error=True)


def test_a_half_letter_in_a_part_is_replaced() -> None:
    assert result([Text(text="\ud83d"), DOT]).parts[0] == Text(text="\ufffd")


def test_a_long_text_is_cut_at_a_letter_and_says_so() -> None:
    told = result("é" * 100, limit=51)
    assert told.text == "é" * 25 + "\n[cut: these are the first 51 of 200 bytes]"
    assert not told.is_error


def test_texts_share_the_limit_and_pictures_stay_whole() -> None:
    told = result([Text(text="a" * 6), DOT, Text(text="b" * 6), "ccc"], limit=8)
    first, picture, second, third = told.parts
    assert first == Text(text="a" * 6)
    assert picture == DOT
    assert isinstance(second, Text)
    assert second.text.startswith("bb\n[cut")
    assert isinstance(third, Text)
    assert third.text.startswith("\n[cut")


@pytest.mark.parametrize(
    ("why", "content"),
    [
        ("no such port", "no such port"),
        (ValueError("no such port"), "ValueError: no such port"),
        (RuntimeError(), "RuntimeError"),
        (AuthFailed("key sk-proj-1234567890 is wrong"), "AuthFailed: key [redacted] is wrong"),
        (ValueError("key sk-proj-1234567890 is wrong"), "ValueError: key [redacted] is wrong"),
        ("x" * 3000, "x" * 2000 + "…"),
        (ValueError("\ud83d"), "ValueError: \ufffd"),
        (OSError("https://ann:secret@x/y"), "OSError: https://[redacted]@x/y"),
    ],
)
def test_a_failure_has_kind_and_message_and_no_secret(why: str | BaseException, content: str) -> None:
    assert failure(CALL, why) == ToolResult(id="call_1", name="tide", content=content, is_error=True)


def test_a_malformed_call_can_fail_too() -> None:
    told = failure(MalformedToolCall("no JSON", id="call_7", name="tide"), "not run")
    assert (told.id, told.name) == ("call_7", "tide")
