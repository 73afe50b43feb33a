"""JSON is counted before it is decoded."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import InvalidRequest
from dragoman.types import is_list, is_object, json_size
from dragoman.types.arguments import MAX_KEYS, MAX_VALUES, parse_arguments, parse_history_arguments
from dragoman.types.json_size import count_values, find_excess

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('ab"\\[]{},:é')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def measure(value: Any) -> tuple[int, int, int]:
    """Depth, objects and keys of a value."""
    if is_object(value):
        inner = [measure(each) for each in value.values()]
        return (
            1 + max((i[0] for i in inner), default=0),
            1 + sum(i[1] for i in inner),
            len(value) + sum(i[2] for i in inner),
        )
    if is_list(value):
        inner = [measure(each) for each in value]
        return 1 + max((i[0] for i in inner), default=0), 1 + sum(i[1] for i in inner), sum(i[2] for i in inner)
    return 0, 0, 0


@given(VALUES)
def test_the_counts_are_those_of_the_decoded_value(value: object) -> None:
    data = json.dumps(value).encode()
    depth, objects, keys = measure(value)
    assert find_excess(data, depth=depth, objects=objects, keys=keys, values=len(data)) is None
    if depth:
        assert find_excess(data, depth=depth - 1, objects=objects) == f"is nested more than {depth - 1} levels deep"
        assert find_excess(data, depth=depth, objects=objects - 1) == f"has more than {objects - 1} objects and lists"
    if keys > 1:
        excess = find_excess(data, depth=depth, objects=objects, keys=keys - 1)
        # The cheap count knows no keys, only commas: one key for each object is not counted.
        assert excess in (None, f"has more than {keys - 1} keys")


@given(
    st.binary(max_size=40) | st.text(st.sampled_from('[]{}:,"\\\\1'), max_size=40).map(str.encode), st.integers(0, 4)
)
def test_the_quick_look_never_overlooks_an_excess(data: bytes, most: int) -> None:
    limits = {"depth": most, "objects": 2 * most, "keys": most, "values": most}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_SMALL", 0)
        excess = find_excess(data, **limits)
        for name in ("_QUICK_ESCAPES", "_QUICK_QUOTES", "_QUICK_SIZE"):
            patch.setattr(json_size, name, 0)
            # A backslash outside of a string is not JSON: the decoder stops there, whatever follows.
            assert find_excess(data, **limits) == excess or is_escape_outside(data)


def is_escape_outside(data: bytes) -> bool:
    return b"\\" in re.sub(rb'"(?:[^"\\]|\\.)*("|$)', b"", data, flags=re.DOTALL)


def test_large_json_is_counted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"[" + b'["a"],' * 20 + b"[]]"
    assert find_excess(data, depth=2, objects=22) is None
    monkeypatch.setattr(json_size, "_SMALL", 5)
    for name in ("_QUICK_QUOTES", "_QUICK_SIZE"):
        monkeypatch.setattr(json_size, name, 5)
        assert find_excess(data, depth=2, objects=22) is None
        assert find_excess(data, depth=2, objects=21) == "has more than 21 objects and lists"


def test_escapes_are_cut_out_one_by_one_or_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rb'["\\", "\"[[[", "\\\"{", "\u005b"]'
    assert find_excess(data, depth=1, objects=1) is None
    for name in ("_SMALL", "_QUICK_ESCAPES"):
        monkeypatch.setattr(json_size, name, 0)
        assert find_excess(data, depth=1, objects=1) is None
        assert find_excess(data, depth=1, objects=0) == "has more than 0 objects and lists"


def test_too_much_is_named() -> None:
    assert find_excess(b"[]", depth=1, objects=1) is None
    keys = b"{" + b'"a":1,' * 9 + b'"b":1}'
    assert find_excess(keys, depth=5, objects=5, keys=9) == "has more than 9 keys"
    assert find_excess(b"[1,2,3,4]", depth=5, objects=5, values=2) == "has more than 2 values"
    assert find_excess(b"[]]]" + b",1" * 3, depth=5, objects=5, values=3) is None
    assert find_excess(b'["' + b"\\", depth=1, objects=0) == "has more than 0 objects and lists"


@pytest.mark.parametrize("number", [b"1e300", b"1.5E+300", b"-5e-324"])
def test_numbers_that_take_long_to_decode_are_counted(number: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_size, "_SMALL", 0)
    data = b"[" + (number + b",") * json_size.MAX_EXPONENTS + b'"1e300", true, false, 1e99]'
    assert find_excess(data, depth=1, objects=1) is None
    excess = f"has more than {json_size.MAX_EXPONENTS} numbers with an exponent of three digits"
    assert find_excess(data[:-1] + b"," + number + b"]", depth=1, objects=1) == excess


def test_strings_with_nothing_in_between_end_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_size, "_SMALL", 0)
    monkeypatch.setattr(json_size, "_QUICK_SIZE", 0)
    assert find_excess(b'["a" "b"' + b"]" + b"[" * 9, depth=9, objects=1) == "has more than 1 objects and lists"
    assert find_excess(b'["a" "b" "c"]' + b"[" * 9, depth=9, objects=1) is None  # the decoder stops before


def test_a_long_string_is_skipped_in_pieces() -> None:
    data = b'["' + b'\\"[:,' * 20_000 + b'",[1]]'
    assert find_excess(data, depth=2, objects=2) is None
    assert find_excess(data, depth=1, objects=2) == "is nested more than 1 levels deep"


@pytest.mark.parametrize(
    ("value", "most", "count"),
    [("a", 9, 0), ({"a": {"b": [1, 2]}}, 9, 4), ([[1] * 9] * 9, 5, 5), ({"a": 1, "b": 2}, 2, 2), ([1, 2, 3], 2, 2)],
)
def test_values_are_counted_up_to_an_end(value: object, most: int, count: int) -> None:
    assert count_values(value, most) == count


def test_too_many_arguments_are_not_parsed() -> None:
    text = json.dumps({f"k{n}": 1 for n in range(MAX_KEYS + 1)})
    assert parse_arguments(text) is None
    with pytest.raises(InvalidRequest, match="arguments has more than 20000 keys") as caught:
        parse_history_arguments(text)
    assert caught.value.param == "arguments"


def encoded_twice(value: object) -> str:
    return " " + json.dumps(json.dumps(value))


EMPTY: dict[str, Any] = {}
LIMITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({f"k{n}": 1 for n in range(MAX_KEYS)}, {f"k{n}": 1 for n in range(MAX_KEYS + 1)}),
    ({"a": [EMPTY] * (MAX_KEYS - 2)}, {"a": [EMPTY] * (MAX_KEYS - 1)}),
    ({"a": [1] * (MAX_VALUES + 1)}, {"a": [1] * (MAX_VALUES + 2)}),
]


@pytest.mark.parametrize("encode", [json.dumps, encoded_twice])
@pytest.mark.parametrize(("most", "more"), LIMITS)
def test_arguments_are_counted_as_they_are_decoded(
    encode: Callable[[object], str], most: dict[str, Any], more: dict[str, Any]
) -> None:
    """Also if they are encoded twice."""
    assert parse_arguments(encode(most)) == parse_history_arguments(encode(most))[0] == most
    assert parse_arguments(encode(more)) is None
    with pytest.raises(InvalidRequest, match="arguments has more than"):
        parse_history_arguments(encode(more))


def test_a_string_that_does_not_end_is_counted_as_it_is() -> None:
    assert parse_arguments('"{') is None
    assert parse_history_arguments('"{') == ({"malformed_arguments": '"{'}, '"{')


def test_a_long_text_with_few_arguments_is_parsed() -> None:
    value = {"text": ':,{[\\"' * MAX_KEYS}
    assert parse_arguments(json.dumps(value)) == value
    assert parse_history_arguments("{" * (MAX_KEYS // 100))[0] == {"malformed_arguments": "{" * (MAX_KEYS // 100)}
