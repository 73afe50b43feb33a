"""Calls executed by a toolbox, blocking and async."""

import asyncio
import dataclasses
from typing import Any, Protocol

import pytest

from dragoman import Context, InvalidTool, MalformedToolCall, Tool, Toolbox, ToolCall, ToolResult, tool


@tool
def tide(port: str, day: int = 1) -> str:
    """Tide height."""
    return f"4.2 m in {port} on {day}"


@tool
async def later(port: str) -> str:
    """Tide height, later."""
    await asyncio.sleep(0)
    return f"1.1 m in {port}"


class Way(Protocol):
    def __call__(self, toolbox: Toolbox, call: ToolCall | MalformedToolCall, /, **options: Any) -> ToolResult: ...


def blocking(toolbox: Toolbox, call: ToolCall | MalformedToolCall, /, **options: Any) -> ToolResult:
    return toolbox.execute(call, **options)


def awaited(toolbox: Toolbox, call: ToolCall | MalformedToolCall, /, **options: Any) -> ToolResult:
    return asyncio.run(toolbox.aexecute(call, **options))


@pytest.fixture(params=[blocking, awaited], ids=["blocking", "async"])
def execute(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="call_1", name=name, arguments=arguments)


def test_a_toolbox_is_ordered_and_knows_its_names() -> None:
    box = Toolbox(later, tide)
    assert [one.name for one in box] == ["later", "tide"]
    assert len(box) == 2
    assert repr(box) == "Toolbox(later, tide)"
    assert [one.name for one in Toolbox([later], tide)] == ["later", "tide"]


def test_a_duplicate_is_an_error_at_construction() -> None:
    with pytest.raises(InvalidTool, match="two tools are named 'tide'"):
        Toolbox(tide, tide)


def test_functions_and_coroutines_are_executed_either_way(execute: Way) -> None:
    box = Toolbox(tide, later)
    assert execute(box, call("tide", port="Brest")).text == "4.2 m in Brest on 1"
    assert execute(box, call("later", port="Brest")).text == "1.1 m in Brest"


@pytest.mark.parametrize(
    ("invalid", "reasons"),
    [
        (call("tide"), ['$: "port" is a required property']),
        (call("tide", port=1, day="x"), ['$.port: 1 is not of type "string"', '$.day: "x" is not of type "integer"']),
        (call("tide", port="Brest", harbour=1), ["harbour"]),
    ],
)
def test_wrong_arguments_are_told_with_their_places(execute: Way, invalid: ToolCall, reasons: list[str]) -> None:
    result = execute(Toolbox(tide), invalid)
    assert result.is_error
    assert all(reason in result.text for reason in reasons)


def test_a_tool_without_parameters_takes_no_arguments(execute: Way) -> None:
    box = Toolbox(Tool(name="now", description="The time", handler=lambda: "noon"))
    assert execute(box, call("now")).text == "noon"
    assert execute(box, call("now", zone="UTC")).is_error


def test_an_unknown_tool_is_an_error_with_the_known_names(execute: Way) -> None:
    result = execute(Toolbox(tide, later), call("tied"))
    assert (result.text, result.is_error) == ("no tool named 'tied'; the tools are tide, later", True)


def test_a_malformed_call_is_an_error_result(execute: Way) -> None:
    result = execute(Toolbox(tide), MalformedToolCall("arguments are not a JSON object", id="call_9", name="tide"))
    assert (result.id, result.is_error) == ("call_9", True)
    assert result.text == "tide was not run: arguments are not a JSON object"
    assert execute(Toolbox(tide), MalformedToolCall("no")).text.startswith("the call was not run")


def test_data_is_in_the_context(execute: Way) -> None:
    @tool
    def whose(context: Context) -> str:
        """Whose."""
        return f"{context.data} {context.step} {context.call.id}"

    assert execute(Toolbox(whose), call("whose"), data="Ann").text == "Ann 0 call_1"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (LookupError, "LookupError: not x"),
        (ValueError, "take was not run: invalid arguments: $.odd: not x"),
    ],
)
def test_validators_of_the_users_types_may_raise_anything(execute: Way, kind: type[Exception], message: str) -> None:
    @dataclasses.dataclass
    class Odd:
        name: str

        def __post_init__(self) -> None:
            raise kind(f"not {self.name}")

    @tool
    def take(odd: Odd) -> None:
        """Take."""

    result = execute(Toolbox(take), call("take", odd={"name": "x"}))
    assert result.is_error
    assert result.text == message


def test_an_error_that_cannot_say_what_it_is_is_a_result_too(execute: Way) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @tool
    def speak() -> None:
        """Speak."""
        raise Mute

    assert execute(Toolbox(speak), call("speak")).text == "RuntimeError: Mute (its message cannot be shown)"


def test_a_result_may_fail_to_be_told_in_any_way(execute: Way) -> None:
    class Odd:
        def model_dump(self, **_options: object) -> object:
            raise LookupError("no form")

    @tool
    def give() -> object:
        """Give."""
        return Odd()

    assert execute(Toolbox(give), call("give")).text == "LookupError: no form"


def test_a_toolbox_of_nobodys_can_be_closed() -> None:
    with Toolbox(tide) as box:
        assert len(box) == 1

    async def main() -> int:
        async with Toolbox(tide) as box:
            return len(box)

    assert asyncio.run(main()) == 1
