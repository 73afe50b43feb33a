import json
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import Malformed, TooLarge
from dragoman.events import fold
from dragoman.http import Head
from dragoman.types import Usage
from dragoman.wires.common.errors import decode_http_error
from dragoman.wires.common.json import (
    LARGE,
    MAX_OBJECTS,
    MAX_VALUES,
    check_structure,
    convert_tolerantly,
    decode_tolerantly,
)
from tests.support.wires import laws

EMPTY: list[Any] = ["", [], {}, 0, False, None]


class Inner(msgspec.Struct):
    count: int = 1


class Shape(msgspec.Struct):
    name: str | None = None
    inner: Inner | None = None
    items: list[Inner] = []


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("field", ["name", "inner", "items"])
def test_a_member_that_is_empty_is_as_one_that_is_left_out(field: str, empty: object) -> None:
    found = convert_tolerantly({field: empty}, Shape)
    assert found in (Shape(), Shape(name=""), Shape(inner=Inner()))


def test_each_of_several_is_left_out_wherever_it_stands() -> None:
    value: dict[str, object] = {"name": [], "inner": {"count": ""}, "items": [{"count": 2}, {"count": {}}]}
    assert convert_tolerantly(value, Shape) == Shape(inner=Inner(), items=[Inner(count=2), Inner()])


EXPECTED: list[Any] = [{"name": [1]}, {"items": [[]]}, [], {"items": [{"count": ""} for _ in range(101)]}]


@pytest.mark.parametrize("value", EXPECTED)
def test_what_says_something_is_not_left_out(value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        convert_tolerantly(value, Shape)


@pytest.mark.parametrize("data", [b"null", b"[]", b'""'])
def test_nothing_is_a_value_of_which_nothing_is_told(data: bytes) -> None:
    assert decode_tolerantly(msgspec.json.Decoder(Shape), data) == Shape()


def test_a_byte_order_mark_says_nothing() -> None:
    assert decode_tolerantly(msgspec.json.Decoder(Shape), b'\xef\xbb\xbf{"name": "a"}') == Shape(name="a")


def chat(**more: Any) -> bytes:
    choice = {"index": 0, "message": {"content": "ebb", **more.pop("message", {})}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "choices": [choice], "usage": {"prompt_tokens": 3}, **more}).encode()


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize(
    "field", ["tool_calls", "function_call", "annotations", "audio", "images", "reasoning_details"]
)
def test_an_answer_may_say_nothing_in_any_way(field: str, empty: object) -> None:
    response = fold(wires.get("openai_chat").client.decode_body(chat(message={field: empty})))
    assert response.message.parts == fold(wires.get("openai_chat").client.decode_body(chat())).message.parts


def test_a_stream_may_say_nothing_in_any_way() -> None:
    client = wires.get("openai_chat").client
    chunk = chat(usage=[], model={}).replace(b'"message"', b'"delta"')
    events, error = laws.read(client.stream_decoder(), [b"data: %b\n\ndata: [DONE]\n\n" % chunk])
    assert error is None
    assert fold(events).usage == Usage(source="unknown")


def test_an_answer_that_says_another_thing_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"usage"):
        wires.get("openai_chat").client.decode_body(chat(usage="none"))


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic", "google"])
def test_an_answer_that_takes_long_to_decode_is_refused(wire: str) -> None:
    body = b'{"choices":[' + b"{}," * MAX_OBJECTS + b"{}]}"
    client = wires.get(wire).client
    with pytest.raises(TooLarge, match="1000000 objects"):
        client.decode_response(body)
    with pytest.raises(TooLarge, match="1000000 objects"):
        client.decode_body(body)
    _, error = laws.read(client.stream_decoder(), [b"data: %b\n\n" % body])
    assert isinstance(error, TooLarge)


def test_the_values_of_a_large_answer_are_counted() -> None:
    check_structure(b'["' + b"a" * LARGE + b'"]')
    with pytest.raises(TooLarge, match="20000000 values"):
        check_structure(b"[1" + b",1" * (MAX_VALUES + 1) + b"]")


def test_a_large_error_is_not_decoded() -> None:
    error = decode_http_error(Head(status=400), b'{"error":{"message":"no","x":[' + b"{}," * MAX_OBJECTS + b"{}]}}")
    assert str(error).startswith('{"error":')
