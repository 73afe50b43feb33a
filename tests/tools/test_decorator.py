"""Tools from functions: their schema, what is refused, and how they are bound to arguments."""

import dataclasses
import datetime as dt
import enum
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest
from pydantic import BaseModel

from dragoman import (
    Agent,
    Context,
    InvalidTool,
    Opaque,
    OutputError,
    Request,
    Skill,
    Tool,
    Toolbox,
    ToolCall,
    dump,
    load,
    tool,
)
from dragoman.testing import Scripted
from dragoman.tools.decorator import Handler, gather, handler_of, tool_definitions, tool_of

CALL = ToolCall(id="call_1", name="tide")


class Unit(enum.Enum):
    METRES = "m"
    FEET = "ft"


@dataclasses.dataclass
class Place:
    name: str
    depth: float = 0.0


class Ship(BaseModel):
    name: str
    masts: int = 3


@tool
def tide(
    port: str,
    day: dt.date,
    unit: Unit = Unit.METRES,
    kind: Literal["high", "low"] = "high",
    place: Place | None = None,
    near: Annotated[list[str] | None, "Other ports"] = None,
) -> str:
    """Tide height at a port.

    In metres, or in feet.

    Args:
        port: The name of the port.
        day: Which day.
    """
    return f"{port} {day:%d.%m.} {unit.name} {kind} {place} {near}"


def parameters(function: Any) -> dict[str, Any]:
    found = tool_of(function).parameters
    assert found is not None
    return found


# ── definition ──────────────────────────────────────────────────────────────


def test_a_function_stays_what_it_is() -> None:
    assert tide("Brest", dt.date(2026, 11, 17)).startswith("Brest 17.11. METRES high")


def test_name_description_and_schema_come_from_the_function() -> None:
    made = tool_of(tide)
    assert (made.name, made.description) == ("tide", "Tide height at a port.")
    schema = parameters(tide)
    assert schema["required"] == ["port", "day"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["port"] == {"type": "string", "description": "The name of the port."}
    assert properties["day"]["format"] == "date"
    assert properties["unit"]["enum"] == ["m", "ft"]
    assert properties["kind"]["enum"] == ["high", "low"]
    assert properties["near"]["description"] == "Other ports"
    assert "depth" in str(properties["place"])


def test_what_is_told_wins() -> None:
    @tool(name="tide-2", description="Better.", timeout=1.5, limit=10, strict=True)
    def worse() -> None:
        """Worse."""

    made = tool_of(worse)
    assert (made.name, made.description, made.strict) == ("tide-2", "Better.", True)
    assert (handler_of(made).timeout, handler_of(made).limit) == (1.5, 10)


def test_a_plain_function_can_be_used_as_a_tool() -> None:
    def now() -> str:
        """The time."""
        return "noon"

    assert tool_of(now).parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_the_context_is_hidden_from_the_model() -> None:
    @tool
    def note(context: Context, text: str) -> str:
        """Note."""
        return f"{context.call.id} {context.data} {text}"

    assert list(parameters(note)["properties"]) == ["text"]
    bound = handler_of(tool_of(note)).bind({"text": "hi"}, Context(call=CALL, data=7))
    assert bound() == "call_1 7 hi"


def test_a_context_may_be_annotated() -> None:
    @tool
    def note(text: str, context: Annotated[Context, "hidden"]) -> str:
        """Note."""
        return text

    assert list(parameters(note)["properties"]) == ["text"]


def test_a_context_may_be_optional() -> None:
    @tool
    def note(text: str, context: Context | None = None) -> str:
        """Note."""
        return f"{context.call.id if context else ''} {text}"

    assert list(parameters(note)["properties"]) == ["text"]
    assert handler_of(tool_of(note)).bind({"text": "hi"}, Context(call=CALL))() == "call_1 hi"


def test_two_contexts_are_refused() -> None:
    with pytest.raises(InvalidTool, match="at most one parameter may be a Context, got one and two"):

        @tool
        def note(one: Context, two: Context) -> None:
            """Note."""


class Harbour:
    """Has a tool."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def ships(self, masts: int) -> str:
        """Which ships lie here."""
        return f"{self.name}: {masts}"

    def __call__(self, masts: int) -> str:
        """How many there are."""
        return f"{masts} in {self.name}"


def test_a_method_is_a_tool_of_its_object() -> None:
    brest, cork = Harbour("Brest"), Harbour("Cork")
    made = tool_of(brest.ships)
    assert list(parameters(brest.ships)["properties"]) == ["masts"]
    assert handler_of(made).bind({"masts": 3}, Context(call=CALL))() == "Brest: 3"
    assert handler_of(tool_of(cork.ships)).bind({"masts": 2}, Context(call=CALL))() == "Cork: 2"


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(InvalidTool, match=r"Harbour.ships: a tool must be a bound method"):
        Toolbox(Harbour.ships)


def test_a_part_of_a_function_has_the_name_and_the_words_of_the_whole() -> None:
    def depth(port: str, unit: str, key: str) -> str:
        """Depth of a harbour."""
        return f"{port} {unit} {key}"

    made = tool_of(functools.partial(functools.partial(depth, key="secret"), unit="m"))
    assert (made.name, made.description) == ("depth", "Depth of a harbour.")
    assert made.parameters is not None
    assert list(made.parameters["properties"]) == ["port"]
    assert handler_of(made).bind({"port": "Brest"}, Context(call=CALL))() == "Brest m secret"


def test_a_plain_method_can_be_used_too() -> None:
    class Quay:
        def length(self, unit: str) -> str:
            """How long it is."""
            return f"400 {unit}"

    made = tool_of(Quay().length)
    assert handler_of(made).bind({"unit": "m"}, Context(call=CALL))() == "400 m"


def test_an_option_of_another_type_is_refused_when_defined() -> None:
    options: Any = {"name": 3}
    with pytest.raises(InvalidTool, match="name must be a str or None, got 3") as caught:
        tool(**options)
    assert caught.value.param == "name"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "é"])
def test_a_bad_name_is_refused_when_defined(name: str) -> None:
    with pytest.raises(InvalidTool, match="a tool name must have 1 to 64 characters"):
        tool_of(Tool(name=name, description="x"))


def test_a_tool_without_a_description_is_refused_when_defined() -> None:
    with pytest.raises(InvalidTool, match="silent: a tool must have a description; write a docstring"):

        @tool
        def silent() -> None: ...


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "got 'array'"),
        ({"type": "object", "properties": 3}, "must be a valid JSON Schema"),
        ({"type": "object", "properties": {"a": {"type": "word"}}}, "must be a valid JSON Schema"),
    ],
)
def test_an_invalid_schema_is_refused_when_defined(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidTool, match=why):
        Toolbox(Tool(name="x", description="x", parameters=schema))


def test_a_schema_may_be_of_an_older_draft() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"place": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]}},
    }
    made = Tool(name="go", description="Go", parameters=old, handler=str)
    wrong = ToolCall(id="1", name="go", arguments={"place": [1, "x"]})
    assert "$.place[1]" in Toolbox(made).execute(wrong).text


def test_a_type_that_json_has_no_word_for_is_refused_when_defined() -> None:
    with pytest.raises(InvalidTool, match="blob"):

        @tool
        def blob(data: bytes) -> None:
            """Take."""


def test_a_parameter_that_has_no_name_is_refused_when_defined() -> None:
    with pytest.raises(InvalidTool, match="can be passed by name"):

        @tool
        def many(*words: str) -> None:
            """Take."""


def test_an_unknown_annotation_is_refused_when_defined() -> None:
    with pytest.raises(InvalidTool, match="Nowhere"):

        @tool  # pyright: ignore[reportUnknownArgumentType]
        def lost(place: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
            """Take."""


def test_what_cannot_be_marked_is_refused() -> None:
    with pytest.raises(InvalidTool, match="pass it in tools= without @tool"):
        tool(Harbour("Brest").ships)


@pytest.mark.parametrize(("given", "why"), [(max, "max: its parameters must be known"), (Harbour, "got a class")])
def test_what_says_nothing_of_its_parameters_is_no_tool(given: Any, why: str) -> None:
    with pytest.raises(InvalidTool, match=why):
        tool_of(given)


@pytest.mark.parametrize("given", ["tide", 7])
def test_what_cannot_be_called_is_no_tool(given: Any) -> None:
    with pytest.raises(InvalidTool, match="a tool must be a function, a Tool or a Toolbox"):
        Toolbox(given)


# ── binding ─────────────────────────────────────────────────────────────────


def test_arguments_are_made_what_the_annotations_say() -> None:
    bound = handler_of(tool_of(tide)).bind(
        {"port": "Brest", "day": "2026-11-17", "unit": "ft", "place": {"name": "quay", "depth": 3}},
        Context(call=CALL),
    )
    assert bound() == "Brest 17.11. FEET high Place(name='quay', depth=3.0) None"


def test_pydantic_models_are_made_too() -> None:
    @tool
    def launch(ship: Ship) -> int:
        """Launch."""
        return ship.masts

    assert handler_of(tool_of(launch)).bind({"ship": {"name": "Ann"}}, Context(call=CALL))() == 3


def test_an_argument_that_does_not_fit_is_told_with_its_place() -> None:
    with pytest.raises(OutputError) as caught:
        handler_of(tool_of(tide)).bind({"port": "Brest", "day": "soon"}, Context(call=CALL))
    assert caught.value.reasons[0].startswith("$.day: ")


def test_a_handler_of_ones_own_gets_plain_arguments() -> None:
    def echo(**given: object) -> dict[str, object]:
        return given

    made = Tool(name="echo", description="Echo", parameters={"type": "object"}, handler=echo)
    assert handler_of(made).bind({"a b": [1]}, Context(call=CALL))() == {"a b": [1]}


def test_a_handler_knows_whether_it_is_awaited() -> None:
    async def later() -> None: ...

    class Later:
        async def __call__(self) -> None: ...

    assert Handler(later).is_async
    assert Handler(Later()).is_async
    assert Handler(functools.partial(later)).is_async
    assert not Handler(int).is_async
    assert Handler(max)(1, 2) == 2


def test_a_tool_that_is_saved_has_no_handler() -> None:
    saved = load(dump(Request(tools=(tool_of(tide),))), Request)
    assert saved.tools == (msgspec.structs.replace(tool_of(tide), handler=None),)
    assert repr(handler_of(tool_of(tide))) == "Handler(tide)"


def test_a_tool_without_a_handler_cannot_be_run() -> None:
    with pytest.raises(InvalidTool, match="the tool has no handler"):
        handler_of(Tool(name="x", description="x"))


# ── many ────────────────────────────────────────────────────────────────────


def test_tools_functions_and_toolboxes_can_be_given_together() -> None:
    def now() -> str:
        """The time."""
        return "noon"

    plain = Tool(name="plain", description="Plain")
    assert [one.name for one in gather([tide, [now], Toolbox(plain)])] == ["tide", "now", "plain"]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidTool, match="two tools are named 'tide'"):
        Toolbox(tide, Toolbox(tide))


def test_an_object_that_can_be_called_is_a_tool() -> None:
    made = tool_of(Harbour("Brest"))
    assert (made.name, made.description) == ("Harbour", "How many there are.")
    assert list(parameters(Harbour("Brest"))["properties"]) == ["masts"]


@pytest.mark.parametrize("given", [tide, Toolbox(tide), tool_of(tide), Skill(name="tides", tools=cast("Any", tide))])
def test_one_tool_alone_is_taken(given: Any) -> None:
    script = Scripted("ok", "ok")
    script.model().generate("hi", tools=given)
    Agent(script.model()).run("hi", tools=given)
    assert [[one.name for one in request.tools if isinstance(one, Tool)] for request in script.requests] == [
        ["tide"]
    ] * 2


def test_what_is_no_tool_is_not_taken_for_some() -> None:
    with pytest.raises(InvalidTool, match="tools must be a tool or a list of tools, got 7"):
        Scripted().model().generate("hi", tools=cast("Any", 7))


def test_a_set_takes_what_comes_twice() -> None:
    def count(numbers: set[int]) -> int:
        """How many."""
        return len(numbers)

    call = ToolCall(id="call_1", name="count", arguments={"numbers": [1, 1, 2]})
    assert Toolbox(count).execute(call).content == "2"


def test_a_request_takes_functions_and_toolboxes_and_what_it_took_before() -> None:
    foreign = Opaque(wire="anthropic", data={"type": "web_search"})
    plain = Tool(name="no_description")
    assert tool_definitions([foreign, plain]) == (foreign, plain)
    script = Scripted("ok")
    script.model().generate("hi", tools=[tide, Toolbox(Harbour("Brest").ships)])
    assert [one.name for one in script.requests[0].tools if isinstance(one, Tool)] == ["tide", "ships"]


def test_a_function_that_yields_is_refused() -> None:
    def days(count: int) -> Iterator[int]:
        """The days."""
        yield count

    async def later(count: int) -> AsyncIterator[int]:
        """The days, later."""
        yield count

    for function in (days, later, functools.partial(days, count=1)):
        with pytest.raises(InvalidTool, match=r"a tool must return its result, .*; return a list"):
            tool(function)
