"""JSON values become values of a type, and mismatches are named with their place."""

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import pydantic
import pytest
import typing_extensions

from dragoman.errors import OutputError
from dragoman.schema.to_value import decode_arguments, to_value
from tests.support.output_types import (
    Box,
    Circle,
    Coin,
    Full,
    Point,
    Rank,
    Square,
    Tide,
    Unit,
)

T = TypeVar("T")
Pair = typing_extensions.TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Ages = typing_extensions.TypeAliasType("Ages", dict[str, int])


@dataclasses.dataclass
class Picky:
    even: int
    twice: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.even % 2:
            raise ValueError("odd")
        self.twice = 2 * self.even


class Untyped(NamedTuple):
    a: Any


class Sparse(msgspec.Struct):
    a: int
    b: str | msgspec.UnsetType | None = msgspec.UNSET


class Point2(pydantic.BaseModel):
    x: int


def tide(
    port: str, day: date, *, unit: Unit = Unit.KELVIN, days: int = 1, note: str | None = None, clock: Any = 3
) -> None:
    """The tide."""


def test_arguments_become_what_the_function_wants() -> None:
    arguments = decode_arguments({"port": "Brest", "day": "2026-11-17", "unit": "celsius"}, tide)
    assert arguments == {"port": "Brest", "day": date(2026, 11, 17), "unit": Unit.CELSIUS}


def test_wrong_arguments_are_told_with_their_places() -> None:
    with pytest.raises(OutputError, match=r"^not arguments of tide: ") as caught:
        decode_arguments({"port": 3, "unit": "hot"}, tide)
    assert caught.value.reasons == (
        "$.port: Expected `str`, got `int`",
        "$: 'day' is required",
        '$.unit: "hot" is not one of ["celsius","kelvin"]',
    )


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "hint", "made"),
    [
        ([1], list, [1]),
        (5.0, int, 5),
        ([1], Sequence[int], [1]),
        ([1, 1], AbstractSet[int], frozenset({1})),
        ([1, 2], deque[int], deque([1, 2])),
        ({"a": 1}, dict, {"a": 1}),
        ({"a": 1}, Mapping[str, int], {"a": 1}),
        ({"a": 1}, Ages, {"a": 1}),
        ({"a": 1}, OrderedDict[str, int], OrderedDict({"a": 1})),
        ({"a": [1]}, defaultdict[str, list[int]], defaultdict(list, a=[1])),
        ({"a": 1}, defaultdict[str, int | str], defaultdict(None, a=1)),
        ({"a": 1}, defaultdict, defaultdict(None, a=1)),
        ([], tuple[()], ()),
        ({"a": 1}, Sparse, Sparse(1)),
        ({"a": 1, "b": None}, Sparse, Sparse(1, None)),
        ([1, 2], Pair[int], (1, 2)),
        ([1, "a"], tuple, (1, "a")),
        ({"1": 2}, dict[int, int], {1: 2}),
        ({"2": 1}, dict[Rank, int], {Rank.HIGH: 1}),
        ({"even": 4}, Picky, Picky(4)),
        ({"a": None}, Untyped, Untyped(None)),
        ({"side": "head"}, Coin, Coin("head")),
        ({"item": 1, "spare": [2], "note": "x"}, Box[int] | Full, Full(1, [2], "x")),
        ({"x": 1}, Point2 | dict[str, int], Point2(x=1)),
        (True, int | bool, True),
        (3, float | None, 3.0),
        (None, None, None),
    ],
)
def test_a_value_is_made_by_its_type(value: object, hint: Any, made: object) -> None:
    found = to_value(value, hint)
    assert (found, type(found)) == (made, type(made))


def test_a_dict_with_a_default_has_it() -> None:
    assert to_value({}, defaultdict[str, list[int]])["new"] == []


@pytest.mark.parametrize(
    ("value", "hint", "reasons"),
    [
        ("x", int, ("$: Expected `int`, got `str`",)),
        ([1, "x"], list[int], ("$[1]: Expected `int`, got `str`",)),
        ("x", list[int], ('$: must be a list, got "x"',)),
        ([1], tuple[int, str], ("$: must have 2 items, got 1",)),
        ([1], tuple[()], ("$: must have 0 items, got 1",)),
        ([1], dict[str, int], ("$: must be an object, got [1]",)),
        ([1], Point, ("$: must be an object for Point, got [1]",)),
        ({"a b": "x"}, dict[str, int], ('$["a b"]: Expected `int`, got `str`',)),
        ({"x": 1}, dict[int, int], ("$.x: Expected `int`, got `str`",)),
        ({"even": 3}, Picky, ("$: odd",)),
        ({"x": "a"}, Point2, ("$.x: Input should be a valid integer, unable to parse string as an integer",)),
        (True, Literal[1], ("$: true is not one of [1]",)),
        ("x", int | None, ("$: Expected `int`, got `str`", "$: Expected `null`, got `str`")),
        ({"what": "x", "type": "rob"}, Tide, None),
        ({"places": 3}, Square | Circle, None),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(value: object, hint: Any, reasons: tuple[str, ...] | None) -> None:
    with pytest.raises(OutputError, match=r"^not ") as caught:
        to_value(value, hint)
    assert caught.value.reasons == (reasons or caught.value.reasons)


def test_a_value_of_any_type_is_as_it_is() -> None:
    value: Any = {"a": [1]}
    assert to_value(value, Any) is value
