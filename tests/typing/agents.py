"""Never run: what type checkers see of tools and agents."""

from typing import Any, assert_type

from dragoman import Agent, AgentStream, AsyncAgentStream, Model, Result, Toolbox, tool
from tests.support.output_types import Circle, Port, Square


@tool
def tide(port: str, day: int = 1) -> float:
    """Tide height at a port."""
    return 4.2


@tool(timeout=5)
async def later(port: str) -> float:
    """Tide height at a port, later."""
    return 4.2


def blocking(model: Model) -> None:
    assert_type(tide("Brest", day=2), float)
    assert_type(Agent(model), Agent[str])
    assert_type(Agent("a/b", tools=[tide, later, Toolbox(tide)]).run("?"), Result[str])
    assert_type(Agent(model, output=Port, max_steps=3), Agent[Port])
    assert_type(Agent(model, output=Port).run("?").output, Port)
    assert_type(Agent(model, output=Port).stream("?"), AgentStream[Port])
    assert_type(Agent(model, output=Circle | Square), Agent[Any])
    model.generate("?", tools=[tide, later, Toolbox(tide)])


async def awaiting(model: Model) -> None:
    assert_type(await later("Brest"), float)
    assert_type((await Agent(model, output=Port).arun("?")).output, Port)
    assert_type(Agent(model).astream("?"), AsyncAgentStream[str])
    async with Toolbox.from_mcp("x") as toolbox:
        assert_type(toolbox, Toolbox)
    assert_type(await Toolbox.from_mcp(["x"]), Toolbox)
    with Toolbox.from_mcp("x") as toolbox:
        assert_type(toolbox, Toolbox)
