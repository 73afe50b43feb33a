"""The bodies that clients send: what is known of them, the rest, and what is wrong with its place."""

from typing import Annotated

import msgspec
import pytest

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.wires.common.request_body import (
    check_inner_json,
    decode_request_json,
    invalid_field,
    missing_field,
    read_fields,
)

DEEP = b"[" * 100_000


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"\xff": 1}', b'{"a":' + DEEP])
def test_a_request_that_is_no_json_object_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^the body must be a JSON object: "):
        decode_request_json(HttpRequest(method="POST", path="/", body=body))


class Point(msgspec.Struct, rename={"y": "Y"}):
    x: int
    y: int = 0
    inner: "Point | None" = None


def test_what_a_shape_does_not_know_is_kept() -> None:
    assert read_fields(Point, {"x": 1, "Y": 2, "z": 3}, "$") == (Point(x=1, y=2), {"z": 3})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": "1"}, "messages[0].x must be int, got str"),
        ({"x": 1, "inner": {"x": None}}, "messages[0].inner.x must be int, got null"),
        ({}, "messages[0].x is required"),
        ([], "messages[0] must be object, got array"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(data: object, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_fields(Point, data, "messages[0]")
    assert str(caught.value) == message


def test_a_shape_without_names_has_no_rest() -> None:
    class Pair(msgspec.Struct, array_like=True):
        a: int

    assert read_fields(Pair, [1, 2], "$") == (Pair(a=1), {})


@pytest.mark.parametrize(
    ("data", "param", "code"),
    [
        ({"x": "1"}, "x", "invalid_type"),
        ({"x": -1}, "x", "invalid_value"),
        ({}, "x", "missing_required_parameter"),
        ([], "body", "invalid_type"),
    ],
)
def test_a_wrong_field_is_named_as_openai_names_it(data: object, param: str, code: str) -> None:
    class Count(msgspec.Struct):
        x: Annotated[int, msgspec.Meta(ge=0)]

    with pytest.raises(InvalidRequest) as caught:
        read_fields(Count, data, "body")
    assert (caught.value.param, caught.value.code) == (param, code)


def test_a_refusal_has_the_name_of_its_field() -> None:
    assert (invalid_field("body.n", "no").message, invalid_field("tools[0]", "no").param) == ("n: no", "tools[0]")
    assert missing_field("input").param == "input"


class Limit(msgspec.Struct):
    tokens: int | None = None
    share: float | None = None


def test_a_number_without_a_fraction_is_whole_however_it_is_written() -> None:
    assert read_fields(Limit, {"tokens": 5.0, "share": 1.0}, "$") == (Limit(tokens=5, share=1.0), {})


@pytest.mark.parametrize("data", [{"tokens": 5.5}, {"tokens": "5"}, [5.0]])
def test_what_is_no_whole_number_is_refused(data: object) -> None:
    with pytest.raises(InvalidRequest):
        read_fields(Limit, data, "$")


def test_json_inside_a_field_has_limits() -> None:
    check_inner_json(b"[[]]" * 10, "a")
    with pytest.raises(InvalidRequest, match=r"^a has more than 3 objects and lists; send less$") as caught:
        check_inner_json(b"[]" * 20_001, "a", objects=3)
    assert caught.value.param == "a"
