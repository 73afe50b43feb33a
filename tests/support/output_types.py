"""Types of every kind that an answer can have, each with a value: what typed output is tested with."""

import enum
import json
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import annotated_types
import msgspec
import pydantic

from dragoman.schema.output_type import OutputType
from dragoman.schema.strict import needs_wrapper, resolve_ref
from dragoman.schema.validate import validate
from dragoman.types import JsonObject, is_list, is_object

T = TypeVar("T")
Metres = NewType("Metres", float)


class Unit(enum.Enum):
    """How warmth is measured."""

    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Weather(pydantic.BaseModel):
    """The weather at a place."""

    city: str = pydantic.Field(description="Where", min_length=1)
    degrees: float = pydantic.Field(ge=-100, le=100)
    unit: Unit = Unit.CELSIUS
    at: datetime
    rain: Decimal | None = None
    winds: dict[str, int] = {}
    tags: set[str] = set()


class Leaf(pydantic.BaseModel):
    name: str
    leaves: list["Leaf"] = []
    next: "Leaf | None" = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Home(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    spare: Weather | None = None


@pydantic.dataclasses.dataclass
class Coin:
    side: Literal["head", "tail"]


@dataclass
class Port:
    """A harbour."""

    name: Annotated[str, "What sailors call it"]
    depth: Annotated[Metres, annotated_types.Gt(0)]
    opened: date
    berths: list[int] = field(default_factory=list[int], metadata={"description": "How long each is"})
    twin: "Port | None" = None


@dataclass
class Box(Generic[T]):
    item: T
    spare: list[T] = field(default_factory=list[T])


@dataclass
class Full(Box[int]):
    note: str = ""


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: float
    label: str = "square"


class Bill(TypedDict):
    payee: str
    total: Annotated[float, msgspec.Meta(ge=0, description="In euros")]
    note: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int = 0


class Tide(msgspec.Struct, frozen=True, rename="camel"):
    """The sea at a port."""

    port_name: str
    high_water: time
    lasts: timedelta
    id: UUID
    heights: tuple[float, ...] = ()
    span: tuple[int, str] = (0, "")


class Buy(msgspec.Struct, tag="buy"):
    what: str


class Sell(msgspec.Struct, tag="sell"):
    what: str
    price: int


@dataclass
class Log:
    entries: list[Buy | Sell]
    places: dict[str, Point]
    ranks: dict[Rank, Unit]
    by_number: dict[int, str]
    anything: "Circle | Square | str | None"
    home: Home | None = None


KINDS: dict[str, tuple[Any, Any]] = {
    "pydantic": (
        Weather,
        Weather(
            city="Brest",
            degrees=11.5,
            unit=Unit.KELVIN,
            at=datetime(2026, 11, 17, 8, 30, tzinfo=UTC),
            rain=Decimal("0.30"),
            winds={"north": 3, "west": 5},
            tags={"grey"},
        ),
    ),
    "pydantic with defaults": (
        Weather,
        Weather(city="Brest", degrees=0, at=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    "pydantic recursive": (Leaf, Leaf(name="a", leaves=[Leaf(name="b")], next=Leaf(name="c", leaves=[Leaf(name="d")]))),
    "pydantic discriminated": (Home, Home(pet=Dog(kind="dog", tricks=["sit"]))),
    "pydantic dataclass": (Coin, Coin(side="tail")),
    "pydantic in a list": (list[Cat], [Cat(kind="cat", lives=9)]),
    "dataclass": (Port, Port(name="Brest", depth=Metres(12.5), opened=date(1631, 1, 1), berths=[300, 200])),
    "dataclass recursive": (
        Port,
        Port("Brest", Metres(12.5), date(1631, 1, 1), [], Port("Cork", Metres(9.0), date(1800, 2, 3))),
    ),
    "dataclass generic": (Box[Point], Box(item=Point(1, 2), spare=[Point(3)])),
    "dataclass of a generic": (Full, Full(item=3, spare=[4], note="n")),
    "typed dict": (Bill, {"payee": "Ann", "total": 9.5}),
    "typed dict whole": (Bill, {"payee": "Ann", "total": 9.5, "note": "cash"}),
    "named tuple": (Point, Point(1)),
    "struct": (
        Tide,
        Tide(
            port_name="Brest",
            high_water=time(6, 30),
            lasts=timedelta(hours=6, minutes=12),
            id=UUID("12345678-1234-5678-1234-567812345678"),
            heights=(4.2, 4.5),
            span=(3, "days"),
        ),
    ),
    "tagged struct": (Buy | Sell, Sell(what="rope", price=7)),
    "enum": (Unit, Unit.KELVIN),
    "int enum": (Rank, Rank.HIGH),
    "literal": (Literal["yes", "no", 3] | None, "no"),
    "lone literal": (Literal["yes"], "yes"),
    "list": (list[int], [1, 2, 3]),
    "set": (set[str], {"a", "b"}),
    "frozen set": (frozenset[int], frozenset({1})),
    "tuple": (tuple[int, str], (1, "a")),
    "open tuple": (tuple[Point, ...], (Point(1), Point(2, 3))),
    "map": (dict[str, list[Point]], {"a": [Point(1)], "b c": []}),
    "union": (Circle | Square, Square(side=2.0, label="s")),
    "union of scalars": (int | str | None, "7"),
    "optional": (int | None, None),
    "nested": (
        Log,
        Log(
            entries=[Buy(what="rope"), Sell(what="tar", price=2)],
            places={"here": Point(1, 2)},
            ranks={Rank.HIGH: Unit.KELVIN},
            by_number={3: "three"},
            anything=Circle(radius=1.5),
            home=Home(pet=Cat(kind="cat", lives=3)),
        ),
    ),
    "str": (str, "some “words”\n"),
    "int": (int, 7),
    "float": (float, 2.5),
    "bool": (bool, False),
    "date": (date, date(2026, 11, 17)),
    "uuid": (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    "decimal": (Decimal, Decimal("12.10")),
    "annotated": (Annotated[int, "How many", annotated_types.Interval(ge=1, lt=10)], 3),
    "new type": (Metres, 2.5),
}
"""By name: the type, and a value of it."""


def written(hint: Any, value: Any) -> str:
    """The JSON text that a model writes under the strict schema of a type."""
    form: OutputType[Any] = OutputType(hint)
    plain = _plain(value)
    return json.dumps(
        _strictly(
            {"value": plain} if needs_wrapper(form.type_schema) else plain, form.closed_schema, form.closed_schema
        )
    )


def _plain(value: Any) -> Any:
    """A value as the JSON of its type: absent where it is a default that JSON has no word for."""
    if isinstance(value, pydantic.BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, msgspec.Struct):
        tag = {value.__struct_config__.tag_field: value.__struct_config__.tag}
        own = {one.encode_name: _plain(getattr(value, one.name)) for one in msgspec.structs.fields(value)}
        return {**(tag if value.__struct_config__.tag else {}), **own}
    if isinstance(value, Point):
        return value._asdict()
    if is_object(value):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if is_list(made := [*value] if type(value) in (list, tuple, set, frozenset) else None):
        return [_plain(item) for item in made]
    return msgspec.to_builtins(value)


def _strictly(value: Any, schema: Any, root: Any) -> Any:
    schema = resolve_ref(schema, root)
    for arm in schema.get("anyOf", schema.get("oneOf", ())):
        result = _strictly(value, arm, root)
        if not validate(result, {**arm, "$defs": root.get("$defs", {})}):
            return result
    if is_object(value) and "array" in schema.get("type", ()):
        return _strictly([{"key": key, "value": item} for key, item in value.items()], schema, root)
    if is_list(value) and "object" in schema.get("type", ()):
        return _strictly({f"item_{number}": item for number, item in enumerate(value, 1)}, schema, root)
    if is_object(value):
        return {key: _strictly(value.get(key), known, root) for key, known in schema.get("properties", {}).items()}
    if is_list(value):
        return [_strictly(item, schema.get("items", {}), root) for item in value]
    return value


ANY: JsonObject = {}
STRING: JsonObject = {"type": "string"}
MAYBE: JsonObject = {"type": ["string", "null"]}


def an_object(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}
