"""What a tool may give, and what the model gets of it."""

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import itertools
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from dragoman import AuthFailed, Document, Image, MalformedToolCall, Text, ToolCall, ToolResult
from dragoman.tools.results import error_result, to_tool_result
from dragoman.types.data_urls import data_url
from tests.support.images import bomb, picture

CALL = ToolCall(id="call_1", name="tide")
DOT = Image(data=picture(2, 1), mime="image/png")


class Struct(msgspec.Struct):
    metres: float


@dataclasses.dataclass
class Data:
    metres: Any


class Model(BaseModel):
    metres: float


class Typed(TypedDict):
    metres: float


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


class Count(int):
    pass


class Length(float):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Mark(str, enum.Enum):  # noqa: UP042 - as many still write it
    A = "a"


class Array:
    """As numpy's."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def tolist(self) -> list[Any]:
        return self.items


class Endless(Sequence[int]):
    """As a cursor that takes every index."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return index


class EndlessMap(Mapping[int, int]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: int) -> int:
        return key

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def result(value: object, limit: int = 1000) -> ToolResult:
    return to_tool_result(CALL, value, limit)


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
        (["a", Word("b"), {Word("c"): Count(3)}], '["a","b",{"c":3}]'),
        ([Length(4.5), Length("nan"), Level.LOW, Mark.A], '[4.5,"NaN",1,"a"]'),
        ({None: 1, True: 2, 1.5: 3, dt.date(2026, 11, 17): 4}, '{"null":1,"true":2,"1.5":3,"2026-11-17":4}'),
        (collections.deque([1, range(2)]), "[1,[0,1]]"),
        (types.MappingProxyType({"a": collections.UserDict(b=1)}), '{"a":{"b":1}}'),
        ({"a": 1}.keys(), '["a"]'),
        ([PurePosixPath("a/b"), fractions.Fraction(1, 2), 2**70], '["a/b",0.5,1180591620717411303424]'),
        (Array([1, Array([2.5])]), "[1,[2.5]]"),
        (Data(Array([Word("b")])), '{"metres":["b"]}'),
        (collections.UserString("é\ud83d"), "é\ufffd"),
        ([collections.UserString("a"), {collections.UserString("b"): 1}], '["a",{"b":1}]'),
        (array.array("i", [1, 2]), "[1,2]"),
    ],
)
def test_a_value_is_sent_as_json_and_text_as_it_is(value: object, content: str) -> None:
    assert result(value) == ToolResult(id="call_1", name="tide", content=content)


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"abc", "must be text, got bytes"),
        ({"a": [b"abc"]}, "must be text, got bytes"),
        ((bytearray(b"abc"),), "must be text, got bytes"),
        (object(), "a dataclass, got object"),
        (circle(), "recursion"),
        (Data(object()), "a dataclass, got object"),
        (iter([1]), "a dataclass, got list_iterator"),
        ({(1, 2): 3}, "a key of a dict must be text or a number, got tuple"),
        (
            Image(data=b"<svg/>", mime="image/svg+xml"),
            "tide: the result cannot be sent: an image is of an unknown type",
        ),
        (Image(data=picture(9, 9)[:60]), "an image (image/png, 9 by 9) is truncated"),
        (Image(data=bomb(30_000, 30_000)), "too large to be decoded"),
        (Image(data=b""), "an image is empty"),
        (Image(url="data:image/png;base64,?"), "data must be base64"),
        (Image(url=data_url("image/png", b"hello")), "an image is of an unknown type"),
        (Document(data=b"", mime="application/pdf"), "a document is empty"),
    ],
)
def test_what_cannot_be_sent_is_an_error(value: object, why: str) -> None:
    sent = result(value)
    assert sent.is_error
    assert why in sent.text


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Endless(), "Endless"),
        ({"a": [Endless()]}, "Endless"),
        (Data(Endless()), "Endless"),
        ([DOT, Endless()], "Endless"),
        (EndlessMap(), "ItemsView"),
        (range(10**12), "range"),
        (range(1001), "range"),
    ],
)
def test_what_makes_more_items_than_bytes_may_be_sent_is_an_error(value: object, name: str) -> None:
    sent = result(value, limit=1000)
    assert sent.is_error
    assert sent.text == f"tide: the result cannot be sent: {name} has more than 1000 items"


@pytest.mark.parametrize("value", [[1] * 2000, (1,) * 2000, range(1000), dict.fromkeys(range(2000))])
def test_what_is_in_memory_or_short_is_cut(value: object) -> None:
    sent = result(value, limit=1000)
    assert not sent.is_error
    assert "[cut: these are the first 1000 of" in sent.text


def test_pictures_and_documents_are_parts() -> None:
    page = Document(data=b"%PDF", mime="application/pdf")
    assert result(DOT).content == (DOT,)
    assert result(["See:", DOT, page, {"a": 1}]).content == (Text(text="See:"), DOT, page, Text(text='{"a":1}'))


def test_what_only_a_target_can_judge_stays() -> None:
    parts = (
        Image(url="https://x/a.png"),
        Document(data=b"PK", mime="application/zip"),
        Image(url=data_url("", DOT.data or b"")),
    )
    assert result(parts).content == parts


def test_words_stand_for_a_broken_picture_among_others() -> None:
    given = ToolResult(id="", content=(Text(text="See:"), Image(data=b"<svg/>"), DOT))
    sent = result(given)
    assert sent.content == (Text(text="See:"), Text(text="[left out: an image is of an unknown type]"), DOT)
    assert sent.is_error


@pytest.mark.parametrize(
    ("content", "sent"),
    [((), ""), (None, "null"), ({"a": 1}, '{"a":1}'), (["See:", DOT], (Text(text="See:"), DOT)), (Word("b"), "b")],
)
def test_a_result_with_any_content_is_one_that_can_be_sent(content: Any, sent: object) -> None:
    assert result(ToolResult(id="", content=content)).content == sent


def test_a_result_is_taken_as_it_is_and_gets_the_calls_id() -> None:
    given = ToolResult(id="?", content="no", is_error=True)
    assert result(given) == ToolResult(id="call_1", name="tide", content="no", is_error=True)


def test_a_half_letter_in_a_part_is_replaced() -> None:
    assert result(["\ud83d", DOT]).parts[0] == Text(text="\ufffd")


def test_a_long_text_is_cut_at_a_letter_and_says_so() -> None:
    sent = result("é" * 100, limit=51)
    assert sent.text == "é" * 25 + "\n[cut: these are the first 51 of 200 bytes]"
    assert not sent.is_error


def test_texts_share_the_limit_and_pictures_stay_whole() -> None:
    sent = result([Text(text="a" * 6), DOT, Text(text="b" * 6), "ccc"], limit=8)
    first, picture, second, third = sent.parts
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
    assert error_result(CALL, why) == ToolResult(id="call_1", name="tide", content=content, is_error=True)


def test_a_malformed_call_can_fail_too() -> None:
    sent = error_result(MalformedToolCall("no JSON", id="call_7", name="tide"), "not run")
    assert (sent.id, sent.name) == ("call_7", "tide")
