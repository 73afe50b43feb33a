"""Calls every public function and method with wrong values, one parameter at a time, by its signature.

A call may succeed, because some odd values are fine. Otherwise it raises an error of our tree that names the parameter.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import dragoman
from dragoman import (
    Agent,
    AuthFailed,
    DragomanError,
    Finish,
    Registry,
    Response,
    Tool,
    Toolbox,
    ToolCall,
    assistant,
    user,
)
from dragoman.agents.agent import AgentOptions
from dragoman.models import CallOptions

NO_ARGUMENTS: Mapping[str, Any] = {}


class Weird:
    """An object of the caller's own."""


def bad_iterable() -> Iterator[int]:
    yield 1
    yield 2


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "huge": lambda: 10**400,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "empty text": lambda: "",
    "text": lambda: "no such thing",
    "surrogate": lambda: "\ud800",
    "nul": lambda: "a\x00b",
    "bytes": lambda: b"\xff",
    "empty list": list,
    "list": lambda: [1, None],
    "nested": lambda: [["a"], {"b": 1}],
    "dict": lambda: {"a": 1},
    "int keys": lambda: {1: 2},
    "object": Weird,
    "class": lambda: Weird,
    "function": lambda: lambda: 1 / 0,
    "generator": bad_iterable,
    "message": lambda: user("hi"),
    "tool": lambda: Tool(name="t"),
    "exception": lambda: ValueError("x"),
    "complex": lambda: 1j,
    "set": lambda: {1},
}

OPTIONS = {
    **dict.fromkeys(
        ("generate", "explain", "Registry().model", "Model().stream", "Agent().run"),
        sorted(CallOptions.__annotations__),
    ),
    "Agent": sorted(AgentOptions.__annotations__),
}
"""By function: the names of its options."""

MODEL = "demo/any"
RESPONSE = Response(message=assistant("hi"), finish=Finish(reason="stop"))


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def registry() -> Registry:
    return Registry(env={})


class Case(NamedTuple):
    """One function, and how to call it."""

    name: str
    function: Callable[[Mapping[str, Any]], Any]
    arguments: Mapping[str, Any]
    """Valid values of the required parameters."""
    parameters: list[str]


def nothing(_: object) -> None:
    """A resolver that knows no name, and an observer."""


GOOD: dict[str, Any] = {
    "model": MODEL,
    "spec": MODEL,
    "prompt": "hi",
    "output_type": int,
    "texts": "hi",
    "text": "aGk=",
    "mime": "image/png",
    "data": b"[]",
    "role": "user",
    "id": "call_1",
    "name": "tide",
    "wire": "openai_chat",
    "value": user("hi"),
    "path": "/nonexistent/file.png",
    "url": "data:image/gif;base64,R0lGODlh",
    "type": int,
    "messages": [user("hi")],
    "tools": [],
    "reason": "stop",
    "message": assistant("hi"),
    "finish": Finish(reason="stop"),
    "history": [user("hi")],
    "scheme": "mine",
    "provider": "openai",
    "resolver": nothing,
    "observer": nothing,
    "env": {},
    "config": {},
    "tables": {},
    "events": [],
    "response": RESPONSE,
    "function": double,
    "toolbox": double,
    "description": "d",
    "instructions": "do",
    "token": "a",
    "logprob": -1.0,
    "output": None,
    "hint": int,
    "hooks": dragoman.Hooks(),
    "call": ToolCall(id="call_1", name="double", arguments={"number": 1}),
}


def cases() -> Iterator[Case]:
    """Every public function, constructor and method that users call."""
    for name in FUNCTIONS:
        yield _case(name, getattr(dragoman, name))
    for name in CLASSES:
        kind = getattr(dragoman, name)
        yield _case(name, kind, more=MORE.get(name, {}))
        for method, function in inspect.getmembers(kind, inspect.ismethod):
            if not method.startswith("_") and f"{name}.{method}" not in SKIPPED:
                yield _case(f"{name}.{method}", function)
    objects: dict[str, Callable[[], Any]] = {
        "Registry": registry,
        "Model": lambda: registry().model(MODEL),
        "Agent": lambda: Agent(MODEL),
        "Toolbox": lambda: Toolbox(dragoman.tool(double)),
    }
    for name, make in objects.items():
        members: Any = type(make()).__dict__
        for method, function in members.items():
            if not inspect.isfunction(function):
                continue
            if not method.startswith("_") and method not in SKIPPED:
                yield _case(f"{name}().{method}", _bound(make, method), function)


def _bound(make: Callable[[], Any], method: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(make(), method)(*args, **kwargs)

    return call


_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _case(
    name: str, function: Callable[..., Any], described: Any = None, *, more: Mapping[str, Any] = NO_ARGUMENTS
) -> Case:
    parameters = _parameters(described or function)
    required = {
        parameter.name: GOOD[parameter.name]
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIADIC
    }
    names = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    positional = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]

    def call(arguments: Mapping[str, Any]) -> Any:
        given = dict(arguments)
        first = [given.pop(name) for name in positional if name in given]
        variadic = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
        rest = [given.pop(name) for name in variadic if name in given]
        return function(*first, *rest, **given)

    return Case(name, call, {**required, **more}, names)


def _parameters(function: Any) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    return [parameter for parameter in found if parameter.name not in ("self", "cls")]


FUNCTIONS = (
    "acount_tokens aembed aextract agenerate alist_models aprobe assistant astream astream_extract compact "
    "count_tokens dump embed explain extract fold generate list_models load messages_from model probe schema_of stream "
    "stream_extract system to_events tool tool_results tools_from user"
).split()
CLASSES = (
    "Agent Audio Budget ChainOptions Document HealthPolicy Image Message Opaque Registry Request Text Thinking "
    "Timeouts Tool ToolCall ToolResult Toolbox"
).split()
MORE: dict[str, Any] = {"Image": {"url": "https://x"}, "Opaque": {"data": {}}}
SKIPPED = {
    "Image.from_pil",
    "Toolbox.from_mcp",
    "Image.from_path",
    "Document.from_path",
    "Audio.from_path",
    "close",
    "plan",
    "driver",
    "target",
}


def outcome(case: Case, parameter: str, value: Any) -> str | None:
    """What is wrong with the call, or None."""
    arguments = {**case.arguments, parameter: value}
    try:
        result = case.function(arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
        _consume(result)
    except DragomanError as error:
        is_named = parameter in str(error) or error.param == parameter or _alias(parameter) in str(error)
        is_unwritable = "surrogates not allowed" in str(error)
        is_own_function = isinstance(error, AuthFailed) and "ZeroDivisionError" in str(error)
        return (
            None
            if is_named or is_unwritable or is_own_function
            else f"does not name {parameter}: {type(error).__name__}: {error}"
        )
    except ZeroDivisionError:
        return None  # of the caller's own function
    except Exception as error:  # noqa: BLE001 - this is what the test looks for
        return f"{type(error).__name__}: {error}"
    return None


def _alias(parameter: str) -> str:
    return {"model": "spec", "spec": "model", "timeouts": "timeout", "function": "tool", "type": "data"}.get(
        parameter, parameter
    )


async def _await(result: Any) -> Any:
    return await result


def _consume(result: Any) -> None:
    if isinstance(result, dragoman.Stream | dragoman.TypedStream):
        for _ in result:
            pass
    elif isinstance(result, dragoman.AsyncStream | dragoman.AsyncTypedStream):
        asyncio.run(_aconsume(result))


async def _aconsume(result: Any) -> None:
    async for _ in result:
        pass
