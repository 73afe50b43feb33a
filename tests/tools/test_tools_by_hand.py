"""Tools made by hand are checked wherever they are given, before anything is sent."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Agent, InvalidTool, Registry, Tool, Toolbox
from dragoman.testing import Scripted

WRONG: dict[str, Tool] = {
    "no name": Tool(name=""),
    "blank": Tool(name="my tool"),
    "long name": Tool(name="a" * 65),
    "no object": Tool(name="t", parameters={"type": "string"}),
    "no schema": Tool(name="t", parameters={"type": "object", "properties": 3}),
    "nan": Tool(name="t", parameters={"type": "object", "default": {"a": [float("nan")]}}),
    "inf": Tool(name="t", parameters={"maxProperties": float("inf")}),
    "no JSON": Tool(name="t", parameters={"default": object()}),
    "int key": Tool(name="t", parameters={"properties": {"a": {1: 2}}}),
    "foreign reference": Tool(name="t", parameters={"$ref": "https://example.org/schema"}),
}
TWICE = [Tool(name="t", description="d"), Tool(name="t", description="d")]


def generate(tools: list[Tool]) -> object:
    script = Scripted()
    try:
        return script.model().generate("hi", tools=tools)
    finally:
        assert script.requests == []


PLACES: dict[str, Callable[[list[Tool]], object]] = {
    "generate": generate,
    "stream": lambda tools: Scripted().model().stream("hi", tools=tools),
    "explain": lambda tools: Registry(env={}).model("demo/any").explain("hi", tools=tools),
    "count_tokens": lambda tools: Registry(env={}).model("demo/any").count_tokens("hi", tools=tools),
    "model": lambda tools: Registry(env={}).model("demo/any", tools=tools),
    "Agent": lambda tools: Agent("demo/any", tools=tools),
    "Agent.run": lambda tools: Agent("demo/any").run("hi", tools=tools),
    "Toolbox": lambda tools: Toolbox(*tools),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("tools", [*([tool] for tool in WRONG.values()), TWICE], ids=[*WRONG, "twice"])
def test_a_wrong_tool_is_refused(place: str, tools: list[Tool]) -> None:
    with pytest.raises(InvalidTool) as caught:
        PLACES[place](tools)
    assert caught.value.param == "tools"


def test_tuples_in_a_schema_are_lists() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": (1.5, "b")}}, "required": ("a",)}
    script = Scripted("hi")
    script.model().generate("hi", tools=[Tool(name="t", parameters=schema)])
    assert len(script.requests) == 1
