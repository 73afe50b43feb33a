"""Type hints have names and fields."""

from typing import Any, Literal

import typing_extensions

from dragoman.schema.type_hints import fields_of, name_of
from tests.support.output_types import (
    Box,
    Point,
    Port,
)

Ages = typing_extensions.TypeAliasType("Ages", dict[str, int])


def test_a_hint_has_a_name() -> None:
    names = [name_of(hint) for hint in (Port, Box[Point], list[int | None], Ages, Literal["a"], Any)]
    assert names == ["Port", "Box[Point]", "list[int | None]", "Ages", "Literal['a']", "Any"]


def test_fields_of_a_class_that_has_none_are_none() -> None:
    assert fields_of(int) is fields_of(int | None) is None
