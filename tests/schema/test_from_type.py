"""Types and functions have a JSON Schema."""

import dataclasses
import enum
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NamedTuple, NewType, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.schema.from_type import parameters_schema, schema_from_type
from dragoman.schema.type_hints import Field
from dragoman.types import JsonObject
from tests.support.output_types import (
    Box,
    Circle,
    Home,
    Leaf,
    Point,
    Port,
    Rank,
    Square,
    Unit,
)

T = TypeVar("T")
B = TypeVar("B", bound=int)
Pair = typing_extensions.TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Ages = typing_extensions.TypeAliasType("Ages", dict[str, int])


class Odd:
    """Metadata that means something to somebody else."""

    metadata: ClassVar = {"a": 1}
    description: ClassVar = 3
    min_length: ClassVar = "long"


class Colour(enum.Enum):
    RED = object()


@dataclasses.dataclass
class Picky:
    even: int
    twice: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.even % 2:
            raise ValueError("odd")
        self.twice = 2 * self.even


@dataclasses.dataclass
class Lost:
    where: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


class Untyped(NamedTuple):
    a: Any


class Late(typing_extensions.TypedDict, total=False):
    seen: typing_extensions.Required[int]
    known: typing_extensions.ReadOnly[str]


@dataclasses.dataclass
class Bounded(Generic[B]):
    item: B


class Holder(pydantic.BaseModel):
    own: Point
    other: "Point2 | None" = None


class Sparse(msgspec.Struct):
    a: int
    b: str | msgspec.UnsetType | None = msgspec.UNSET


class Nothing(enum.Enum):
    """Has no members."""


@dataclasses.dataclass
class Begun:
    seed: dataclasses.InitVar[int]


class Point2(pydantic.BaseModel):
    x: int


class Picture(pydantic.BaseModel):
    data: bytes


class Unsayable(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: Field


# Types as schemas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (object, {}),
        (None, {"type": "null"}),
        (list, {"type": "array", "items": {}}),
        (tuple, {"type": "array", "items": {}}),
        (dict, {"type": "object", "additionalProperties": {}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (AbstractSet[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[()], {"type": "array", "items": {"type": "null"}, "maxItems": 0}),
        (defaultdict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Sparse, {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}}, "required": ["a"]}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Final[int], {"type": "integer"}),
        (NewType("Knots", int), {"type": "integer"}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Literal["a", 1], {"type": ["string", "integer"], "enum": ["a", 1]}),
        (Literal[Unit.KELVIN], {"type": "string", "const": "kelvin"}),
        (Unit, {"type": "string", "enum": ["celsius", "kelvin"], "description": "How warmth is measured."}),
        (Rank, {"type": "integer", "enum": [1, 2]}),
        (Unit | None, {"anyOf": [schema_from_type(Unit), {"type": "null"}]}),
        (Literal["a"] | None, {"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[int, "How many", annotated_types.Ge(1)], {"type": "integer", "description": "How many", "minimum": 1}),
        (Annotated[str, annotated_types.Len(1, 9)], {"type": "string", "minLength": 1, "maxLength": 9}),
        (Annotated[list[int], annotated_types.MinLen(2)], {"type": "array", "items": {"type": "integer"}, "minItems": 2}),
        (Annotated[Ages, annotated_types.MaxLen(2)], {**schema_from_type(Ages), "maxLength": 2}),
        (Annotated[str, typing_extensions.Doc("Words")], {"type": "string", "description": "Words"}),
        (Annotated[str, msgspec.Meta(pattern="^a", examples=["ab"])], {"type": "string", "pattern": "^a", "examples": ["ab"]}),
        (Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})], {"type": "string", "format": "uri"}),
        (Annotated[str, re.compile("^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[date, annotated_types.Ge(date(2026, 1, 1)), Odd()], {"type": "string", "format": "date"}),
        (Annotated[int, pydantic.Field(gt=2, multiple_of=3)], {"type": "integer", "exclusiveMinimum": 2, "multipleOf": 3}),
        (dict[Literal["a", "b"], int], {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"type": "string", "enum": ["a", "b"]}}),
        (dict[date, int], {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"type": "string", "format": "date"}}),
        (Ages, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Pair[int], {"type": "array", "prefixItems": [{"type": "integer"}] * 2, "minItems": 2, "maxItems": 2}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (Bounded, {"type": "object", "properties": {"item": {"type": "integer"}}, "required": ["item"]}),
        (Late, {"type": "object", "properties": {"seen": {"type": "integer"}, "known": {"type": "string"}}, "required": ["seen"]}),
        (Point, {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}),
        (Untyped, {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        (Picky, {"type": "object", "properties": {"even": {"type": "integer"}}, "required": ["even"]}),
    ],
)  # fmt: skip
def test_a_type_is_said_as_json_schema(hint: Any, schema: JsonObject) -> None:
    assert schema_from_type(hint) == schema


def test_a_class_speaks_by_its_docstring_and_the_metadata_of_its_fields() -> None:
    schema = schema_from_type(Port)
    assert schema["description"] == "A harbour."
    assert schema["properties"]["name"]["description"] == "What sailors call it"
    assert schema["properties"]["berths"]["description"] == "How long each is"
    assert schema["properties"]["depth"] == {"type": "number", "exclusiveMinimum": 0}


def test_what_a_machine_wrote_is_no_description() -> None:
    assert "description" not in schema_from_type(Circle) | schema_from_type(Point)


def test_a_type_that_is_used_once_stands_in_its_place() -> None:
    assert schema_from_type(Circle | list[Square])["anyOf"][1]["items"]["required"] == ["side"]


def test_a_type_that_is_used_more_often_is_defined_once() -> None:
    schema = schema_from_type(tuple[Circle, Circle, Box[Circle]])
    assert schema["prefixItems"][0] == schema["prefixItems"][1] == {"$ref": "#/$defs/Circle"}
    assert [*schema["$defs"]] == ["Circle"]


def test_a_recursive_type_refers_to_itself() -> None:
    assert schema_from_type(Leaf)["properties"]["leaves"]["items"] == {"$ref": "#/$defs/Leaf"}
    assert schema_from_type(Port)["properties"]["twin"]["anyOf"][0] == {"$ref": "#/$defs/Port"}
    assert schema_from_type(list[Port])["items"] == {"$ref": "#/$defs/Port"}


def test_types_of_one_name_are_told_apart() -> None:
    other: Any = dataclasses.make_dataclass("Circle", [("area", float)])
    schema = schema_from_type(tuple[Circle, Circle, other, other])
    assert [*schema["$defs"]] == ["Circle", "Circle_2"]


def test_pydantics_definitions_do_not_hide_ours() -> None:
    twin = pydantic.create_model("Point", z=(int, ...))
    own: Any = pydantic.create_model("Own", a=(twin, ...), b=(twin, ...))
    schema = schema_from_type(tuple[Point, Point, own])
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["$defs"]["Own.Point"]["required"] == ["z"]


def test_pydantics_models_inside_of_each_other_are_resolved() -> None:
    assert schema_from_type(Home)["properties"]["pet"]["discriminator"]["propertyName"] == "kind"
    assert schema_from_type(Holder)["properties"]["other"]["anyOf"][0]["required"] == ["x"]


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (bytes, "use str with base64"),
        (list[bytearray], "use str with base64"),
        (Picture, "use str with base64"),
        (Path, "type must have a JSON Schema, got Path; use a dataclass"),
        (complex | int, "type must have a JSON Schema, got complex; use a dataclass"),
        (Literal[b"a"], "values must be str, numbers"),
        (Colour, "Colour: values must be str, numbers"),
        (Lost, "Lost: name 'Nowhere' is not defined"),
        (Unsayable, "Unsayable: "),
        (Nothing, "Nothing must have at least one value"),
        (Begun, "Begun.seed: InitVar is not supported"),
        (dict[tuple[int, int], str], r"dict\[tuple\[int, int\], …\]: a key must be a str"),
        (dict[Point, str], r"dict\[Point, …\]: a key must be a str"),
    ],
)
def test_what_json_cannot_say_is_refused_by_name(hint: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        schema_from_type(hint)


# Functions ------------------------------------------------------------------------------------------------------------


def tide(
    port: str, day: date, *, unit: Unit = Unit.KELVIN, days: int = 1, note: str | None = None, clock: Any = 3
) -> None:
    """The tide."""


def test_a_function_is_an_object_of_its_parameters() -> None:
    schema = parameters_schema(tide, skip=["clock"], descriptions={"port": "The harbour"})
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["port", "day"], False)
    assert schema["properties"] == {
        "port": {"type": "string", "description": "The harbour"},
        "day": {"type": "string", "format": "date"},
        "unit": schema_from_type(Unit),
        "days": {"type": "integer", "default": 1},
        "note": {"type": ["string", "null"]},
    }


def test_a_parameter_without_a_hint_is_anything() -> None:
    def ask(question):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
        ...

    assert parameters_schema(ask)["properties"] == {"question": {}}  # pyright: ignore[reportUnknownArgumentType]


def test_what_cannot_be_given_by_name_is_refused() -> None:
    def spread(*ports: str) -> None: ...
    def first(port: str, /) -> None: ...
    def more(**ports: str) -> None: ...

    for function in (spread, first, more):
        with pytest.raises(InvalidTool, match="can be passed by name"):
            parameters_schema(function)
