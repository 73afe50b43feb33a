"""A Python function in, the Tool that stands for it out: its schema by annotations and docstring, and how to run it."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar, get_args, overload, runtime_checkable

import msgspec

from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.schema.from_type import parameters_schema
from dragoman.schema.to_value import decode_arguments
from dragoman.schema.type_hints import hints_of, unwrap_hint
from dragoman.schema.validate import validate
from dragoman.tools.docstrings import describe
from dragoman.types import JsonObject, Message, Opaque, Response, Tool, ToolCall, is_list

F = TypeVar("F", bound=Callable[..., Any])
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TIMEOUT = 60.0
"""Seconds that a tool may take."""
LIMIT = 64 * 1024
"""Bytes that the text of a result may have."""
_CARRIED = "__dragoman_tool__"


class Context(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a tool may know of the run that called it: a parameter with this annotation gets it, and no model sees it.

    >>> @tool
    ... def note(text: str, context: Context) -> str:
    ...     "Keep a note."
    ...     return f"{context.call.id}: {text}"
    >>> list(tool_of(note).parameters["properties"])
    ['text']
    """

    call: ToolCall
    step: int = 0
    messages: tuple[Message, ...] = ()
    data: Any = None
    """Whatever the caller of the run gave as `data=`."""
    spend: Callable[[Response], None] = lambda _response: None
    """Counts the answer of another model as part of the run."""


class Handler:
    """What runs a tool: a function, which parameter of it gets the Context, and its limits.

    Where it is typed, arguments are made what the annotations say; otherwise they are given as JSON has them. It is no
    Struct: a tool that is saved has no handler.

    >>> Handler(max)(1, 2)
    2
    """

    __slots__ = ("context", "function", "is_typed", "limit", "timeout")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        context: str | None = None,
        timeout: float | None = TIMEOUT,
        limit: int = LIMIT,
        is_typed: bool = False,
    ) -> None:
        self.function = function
        self.context = context
        self.timeout = timeout
        self.limit = limit
        self.is_typed = is_typed

    def __repr__(self) -> str:
        """What it runs."""
        return f"Handler({getattr(self.function, '__qualname__', self.function)})"

    def of(self, function: Callable[..., Any], /) -> "Handler":
        """The same for another function, such as the method of an object."""
        return Handler(function, context=self.context, timeout=self.timeout, limit=self.limit, is_typed=self.is_typed)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function as it is."""
        return self.function(*arguments, **named)

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function, or an object that is called like one."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - the method itself is looked at
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    def bind(self, arguments: JsonObject, context: Context, /) -> Callable[[], Any]:
        """The call that is to be made; OutputError where an argument is not what its annotation says."""
        hidden = {self.context: context} if self.context else {}
        named = decode_arguments(arguments, self.function, skip=hidden) if self.is_typed else arguments
        return lambda: self.function(**named, **hidden)


@runtime_checkable
class HasTools(Protocol):
    """A collection of tools, such as a Toolbox."""

    @property
    def tools(self) -> Iterable[Any]: ...


ToolLike: TypeAlias = Tool | Callable[..., Any] | HasTools
"""What can be given as a tool: a Tool, a function, or a collection of tools."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
    strict: bool | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **told: Any) -> Any:
    """Make a tool of a function: it stays what it is, and can be given wherever a Tool can.

    >>> @tool
    ... def tide(port: str, day: int = 1) -> float:
    ...     '''Tide height at a port, in metres.
    ...
    ...     Args:
    ...         port: The name of the port.
    ...     '''
    ...     return 4.2
    >>> tool_of(tide).description, tool_of(tide).parameters["required"]
    ('Tide height at a port, in metres.', ['port'])
    """
    if function is None:
        return partial(tool, **told)
    made = _define(function, **told)
    try:
        setattr(function, _CARRIED, made)
    except AttributeError as error:
        raise InvalidTool(f"{made.name}: it cannot be marked; give it among the tools as it is") from error
    return function


def tool_of(given: Tool | Callable[..., Any], /) -> Tool:
    """The Tool that stands for a function; a Tool is one already. InvalidTool where it cannot be used.

    >>> tool_of(Tool(name="now", description="The time")).name
    'now'
    """
    if isinstance(given, Tool):
        return _checked(given)
    carried: Tool | None = getattr(given, _CARRIED, None)
    if inspect.isfunction(given) and _selves(given):
        raise InvalidTool(f"{given.__qualname__}: it is a method, and there is no object; give the object's own")
    if carried is None:
        return _define(given)
    if inspect.ismethod(given):
        return msgspec.structs.replace(carried, handler=handler_of(carried).of(given))
    return carried


def handler_of(tool: Tool, /) -> Handler:
    """What runs a tool; InvalidTool where nothing does.

    >>> handler_of(Tool(name="now", description="The time", handler=lambda: "noon"))()
    'noon'
    """
    if tool.handler is None:
        raise InvalidTool(f"{tool.name}: there is nothing to run; give the Tool a handler=, or use @tool")
    return tool.handler if isinstance(tool.handler, Handler) else Handler(tool.handler)


def gather(given: Iterable[ToolLike | list[ToolLike]], /) -> tuple[Tool, ...]:
    """All tools of some tools, functions and toolboxes, in order; InvalidTool where two have one name.

    >>> gather([Tool(name="now", description="The time"), Tool(name="now", description="The time")])
    Traceback (most recent call last):
    dragoman.errors.InvalidTool: two tools are called 'now'; give one of them another name
    """
    found: dict[str, Tool] = {}
    for tool in _flat(given):
        if tool.name in found:
            raise InvalidTool(f"two tools are called {tool.name!r}; give one of them another name")
        found[tool.name] = tool
    return tuple(found.values())


def _flat(given: Iterable[Any]) -> Iterator[Tool]:
    for one in given:
        if isinstance(one, HasTools):
            yield from _flat(_several(one.tools))
        elif is_list(one):
            yield from _flat(one)
        else:
            yield tool_of(one)


def definitions(given: ToolLike | Opaque | Iterable[ToolLike | Opaque], /) -> tuple[Tool | Opaque, ...]:
    """What a request has of some tools, or of one: as they are, with functions and toolboxes made tools.

    >>> definitions([Tool(name="now")])[0].name
    'now'
    """
    found: list[Tool | Opaque] = []
    for one in _several(given):
        if isinstance(one, Tool | Opaque):
            found.append(one)
        else:
            found += _flat((one,))
    return tuple(found)


def _several(given: Any) -> Iterable[Any]:
    """Some tools, from some or from one. A list is known at once: to look for tools in something takes long."""
    is_plain = type(given) in (list, tuple)
    if not is_plain and (isinstance(given, Tool | Opaque | HasTools) or callable(given)):
        return (given,)
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise InvalidTool(f"tools: {given!r} is none; give a list of tools")
    some: Iterable[Any] = given
    return some


# Definition -----------------------------------------------------------------------------------------------------------


def _define(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
    strict: bool | None = None,
) -> Tool:
    if not callable(function):
        raise InvalidTool(f"{function!r} is no tool; give a function, a Tool or a Toolbox")
    whole = _whole(function)
    called = name or str(getattr(whole, "__name__", type(whole).__name__))
    if isinstance(whole, type):
        raise InvalidTool(f"{called}: it is a class; give a function that makes one, or an object that can be called")
    routine: Any = function
    function = routine if inspect.isroutine(function) or whole is not function else routine.__call__
    said = describe((function is not routine and function.__doc__) or whole.__doc__)
    try:
        context, hidden = _hidden(function, called)
        schema = parameters_schema(function, skip=hidden, descriptions=said.parameters)
    except InvalidRequest as error:
        raise InvalidTool(f"{called}: {error.message}") from error
    except ValueError as error:
        raise InvalidTool(f"{called}: nobody knows its parameters; give a function of yours that calls it") from error
    handler = Handler(function, context=context, timeout=timeout, limit=limit, is_typed=True)
    told = description or said.summary
    return _checked(Tool(name=called, description=told, parameters=schema, strict=strict, handler=handler))


def _hidden(function: Callable[..., Any], called: str) -> tuple[str | None, Collection[str]]:
    """The parameter that gets the Context, and all that no model sees: that, `self`, and what is given already."""
    hints = hints_of(function)
    wanted = [name for name, hint in hints.items() if name != "return" and _is_context(hint)]
    if len(wanted) > 1:
        raise InvalidTool(f"{called}: {' and '.join(wanted)} are both a Context; one is enough")
    given: Mapping[str, Any] = getattr(function, "keywords", {})
    return (wanted[0] if wanted else None), [*wanted, *_selves(function), *given]


def _is_context(hint: Any) -> bool:
    kind = unwrap_hint(hint)[0]
    return kind is Context or {*get_args(kind)} == {Context, NoneType}


def _selves(function: Callable[..., Any]) -> list[str]:
    """The parameter of a method that stands for its object, where none is bound to it."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    is_self = first is not None and first.name in ("self", "cls") and first.annotation is first.empty
    return [first.name] if first is not None and is_self else []


def _whole(function: Any) -> Any:
    """The function that a part of one was made from; it has the name and the words."""
    while isinstance(function, partial):
        function = function.func
    return function


def _checked(tool: Tool) -> Tool:
    if NAME.fullmatch(tool.name) is None:
        raise InvalidTool(f"{tool.name!r} is no name for a tool: it has 1 to 64 of a-z, A-Z, 0-9, _ and -")
    if not (tool.description or "").strip():
        raise InvalidTool(f"{tool.name}: no description; write a docstring, or pass description=")
    schema = tool.parameters
    if schema is None:
        return tool
    if schema.get("type", "object") != "object":
        raise InvalidTool(f"{tool.name}: the schema of its arguments is of type {schema['type']!r}, not an object")
    try:
        validate({}, schema)  # by the draft that the schema names
    except InvalidRequest as error:
        raise InvalidTool(f"{tool.name}: {error.message}") from error
    return tool
