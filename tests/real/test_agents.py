"""An agent on llama.cpp's own server: its tiny model writes random letters, and its grammar makes calls of them."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
import pytest

from dragoman import Agent, Model, Registry, Result, StepFinished, tool, user
from tests.real.conftest import Server

EVERY_WAY = ("llama-cpp", "chat", "responses", "messages")
Short = Annotated[str, msgspec.Meta(max_length=20)]
Day = Annotated[int, msgspec.Meta(ge=1, le=31)]


class Ship(msgspec.Struct):
    name: Short
    masts: Annotated[int, msgspec.Meta(ge=1, le=5)]
    afloat: bool


class Harbour:
    """Keeps what its tool was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []

    @tool
    def tide(self, port: Short, day: Day, unit: Literal["m", "ft"]) -> str:
        """Tide height at a port."""
        self.calls.append((port, day, unit))
        return "4.2 m"


@pytest.fixture(params=EVERY_WAY)
def model(request: pytest.FixtureRequest, registry: Registry, server: Server) -> Model:
    return registry.model(f"{request.param}/{server.name}", max_tokens=1000, timeout=30)


@pytest.mark.parametrize("manner", ["blocking", "async", "streamed"])
def test_a_forced_call_is_run_and_answered(model: Model, manner: str) -> None:
    harbour = Harbour()
    agent = Agent(model, tools=[harbour.tide], system="Be brief.")
    result: Result[Any]
    match manner:
        case "blocking":
            result = agent.run("How high is the tide?", tool_choice="required")
        case "async":
            result = asyncio.run(agent.arun("How high is the tide?", tool_choice="required"))
        case _:
            with agent.stream("How high is the tide?", tool_choice="required") as stream:
                finished = [item.step for item in stream if isinstance(item, StepFinished)]
            result = stream.result
            assert tuple(finished) == result.steps
    first = result.steps[0]
    assert first.response.tool_calls
    assert {one.text for one in first.results} == {"4.2 m"}
    assert len(harbour.calls) == sum(len(step.results) for step in result.steps)
    assert all(1 <= day <= 31 and unit in ("m", "ft") for _, day, unit in harbour.calls)
    assert result.output.strip()
    assert result.usage.source == "reported"
    assert (result.usage.input or 0) > (first.response.usage.input or 0)


def test_a_terminal_tool_has_the_type_of_the_output(model: Model) -> None:
    agent = Agent(model, output=Ship, terminal_tool="launch")
    ship = agent.run("A ship!", tool_choice="required").output
    assert isinstance(ship, Ship)
    assert 1 <= ship.masts <= 5


def test_a_run_goes_on_with_another_wire(registry: Registry, server: Server) -> None:
    harbour = Harbour()
    first = Agent(registry.model(f"messages/{server.name}", max_tokens=1000), tools=[harbour.tide])
    done = first.run("How high is the tide?", tool_choice="required")
    other = Agent(registry.model(f"llama-cpp/{server.name}", max_tokens=1000), tools=[harbour.tide])
    again = other.run([*done.messages, user("And now?")])
    assert again.output.strip()
