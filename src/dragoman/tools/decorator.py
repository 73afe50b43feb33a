"""`@tool`: makes a Tool from a Python function.

The schema comes from the annotations and the docstring. The decorated function stays as it is and carries its Tool as
an attribute, so you can pass it wherever a Tool is accepted, and still call it.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar, get_args, overload, runtime_checkable

import msgspec

from dragoman.errors import InvalidRequest, InvalidTool
from dragoman.schema.from_type import parameters_schema
from dragoman.schema.to_value import decode_arguments
from dragoman.schema.type_hints import hints_of, unwrap_hint
from dragoman.schema.validate import validate
from dragoman.tools.docstrings import parse_docstring
from dragoman.types import AnyTool, HostedTool, JsonObject, Message, Opaque, Response, Tool, ToolCall, is_list
from dragoman.types.checks import as_items, shown
from dragoman.types.fields import WRONG, read_text
from dragoman.types.json_values import not_json
from dragoman.types.parameters import named_parameters

F = TypeVar("F", bound=Callable[..., Any])
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TIMEOUT = 60.0
"""Seconds that a tool may take."""
LIMIT = 64 * 1024
"""Bytes of the text of a result."""
_TOOL_ATTRIBUTE = "__dragoman_tool__"
_MAX_DEPTH = 20
"""Lists of tools inside of lists."""


class Context(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The run that called a tool. A parameter with this annotation gets it; it is hidden from the model.

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
    """The `data=` of the run."""
    spend: Callable[[Response], None] = lambda _response: None
    """Counts the response of another model in the usage and the budget of the run."""


class Handler:
    """Runs a tool: a function, the name of its Context parameter, and the limits.

    If it is typed, the arguments are decoded into the annotated types; otherwise the function gets plain JSON values.
    It is not a Struct, because a saved tool has no handler.
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
        return f"Handler({getattr(self.function, '__qualname__', self.function)})"

    def of(self, function: Callable[..., Any], /) -> "Handler":
        """Return the same handler for another function, such as the bound method of an object."""
        return Handler(function, context=self.context, timeout=self.timeout, limit=self.limit, is_typed=self.is_typed)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def is_async(self) -> bool:
        """Whether the function, or the `__call__` of the object, is a coroutine function."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - the method itself is needed
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    def bind(self, arguments: JsonObject, context: Context, /) -> Callable[[], Any]:
        """Return the call with decoded arguments. Raises OutputError if an argument does not fit its annotation."""
        hidden = {self.context: context} if self.context else {}
        named = decode_arguments(arguments, self.function, skip=hidden) if self.is_typed else arguments
        return lambda: self.function(**named, **hidden)


@runtime_checkable
class HasTools(Protocol):
    """A collection of tools, such as a Toolbox."""

    @property
    def tools(self) -> Iterable[Any]: ...


ToolLike: TypeAlias = Tool | Callable[..., Any] | HasTools
"""What you can pass as a tool: a Tool, a function, or a collection of tools."""


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
@named_parameters
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool from a function. You can still call the function, and pass it wherever a Tool is accepted.

    `@tool(…)` has these options: `name` and `description` instead of those of the function; `timeout`, seconds that a
    call may take (60; None for no limit); `limit`, bytes of the text of a result (64 KiB); and `strict`, whether the
    provider must enforce the schema.

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
    _check_tool_options(options)
    if function is None:
        return partial(tool, **options)
    definition = _define(function, **options)
    try:
        setattr(function, _TOOL_ATTRIBUTE, definition)
    except AttributeError as error:
        raise InvalidTool(
            f"{definition.name}: @tool cannot set an attribute on it; pass it in tools= without @tool",
            param="function",
        ) from error
    return function


def _check_tool_options(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in _TOOL_OPTIONS:
            raise InvalidTool(f"tool has no option {name}; the options are {', '.join(_TOOL_OPTIONS)}", param=name)
        expected, is_right = _TOOL_OPTIONS[name]
        if not is_right(value):
            raise InvalidTool(f"{name} must be {expected}, got {shown(value)}", param=name)


def _is_optional_text(value: object) -> bool:
    return value is None or read_text(value) is not WRONG


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_tool_timeout(value: object, /) -> bool:
    """Whether a value is a number of seconds, or None for no limit.

    >>> is_tool_timeout(30), is_tool_timeout(True)
    (True, False)
    """
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_TOOL_OPTIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("a str or None", _is_optional_text),
    "description": ("a str or None", _is_optional_text),
    "timeout": ("seconds > 0 or None", is_tool_timeout),
    "limit": ("bytes as an int > 0", _is_limit),
    "strict": ("True, False or None", lambda value: value is None or isinstance(value, bool)),
}


def tool_of(function: Tool | Callable[..., Any], /) -> Tool:
    """Return the Tool of a function, or the Tool itself. Raises InvalidTool if it is not usable."""
    if isinstance(function, Tool):
        return _checked(function)
    definition: Tool | None = getattr(function, _TOOL_ATTRIBUTE, None)
    if inspect.isfunction(function) and _self_parameter(function):
        reason = f"{function.__qualname__}: a tool must be a bound method; pass it from an object"
        raise InvalidTool(reason, param="function")
    if definition is None:
        return _define(function)
    if inspect.ismethod(function):
        return msgspec.structs.replace(definition, handler=handler_of(definition).of(function))
    return definition


def handler_of(tool: Tool, /) -> Handler:
    """Return what runs a tool. Raises InvalidTool if nothing does.

    >>> handler_of(Tool(name="now", description="The time", handler=lambda: "noon"))()
    'noon'
    """
    if tool.handler is None:
        reason = f"{tool.name}: the tool has no handler; pass Tool(handler=...), or use @tool"
        raise InvalidTool(reason, param="handler")
    return tool.handler if isinstance(tool.handler, Handler) else Handler(tool.handler)


def gather(tools: Iterable[ToolLike | list[ToolLike]], /) -> tuple[Tool, ...]:
    """Collect the Tools of functions, tools and toolboxes, in order. Raises InvalidTool if two have the same name.

    >>> gather([Tool(name="now", description="The time"), Tool(name="now", description="The time")])
    Traceback (most recent call last):
    dragoman.errors.InvalidTool: two tools are named 'now'; rename one of them
    """
    by_name: dict[str, Tool] = {}
    for tool in _flatten(tools):
        if tool.name in by_name:
            raise InvalidTool(f"two tools are named {tool.name!r}; rename one of them", param="tools")
        by_name[tool.name] = tool
    return tuple(by_name.values())


def _flatten(tools: Iterable[Any], depth: int = 0) -> Iterator[Tool]:
    if depth > _MAX_DEPTH:
        raise InvalidTool("tools must be a tool or a list of tools, got a list that contains itself", param="tools")
    for one in tools:
        if isinstance(one, HasTools) and not isinstance(one, type):
            yield from _flatten(as_tool_list(one.tools), depth + 1)
        elif is_list(one):
            yield from _flatten(one, depth + 1)
        else:
            yield tool_of(one)


def tool_definitions(
    tools: ToolLike | HostedTool | Opaque | Iterable[ToolLike | HostedTool | Opaque], /
) -> tuple[AnyTool, ...]:
    """Return the tools of a request. Functions and toolboxes become Tools; Tools are checked."""
    result: list[AnyTool] = []
    for one in as_tool_list(tools):
        if isinstance(one, HostedTool):
            result.append(one if one.fallback is None else msgspec.structs.replace(one, fallback=tool_of(one.fallback)))
        elif isinstance(one, Opaque):
            result.append(one)
        elif isinstance(one, Tool):
            check_definition(one)
            result.append(one)
        else:
            result += _flatten((one,))
    return tuple(result)


def as_tool_list(tools: Any, /) -> Iterable[Any]:
    """One tool, or each of several, as the items of a list; InvalidTool for anything else."""
    # isinstance with a protocol is slow, so lists and tuples skip it.
    is_plain = type(tools) in (list, tuple)
    if not is_plain and (isinstance(tools, Tool | HostedTool | Opaque | HasTools) or callable(tools)):
        return (tools,)
    try:
        return as_items("tools", tools, "a tool or a list of tools")
    except InvalidRequest as error:
        raise InvalidTool(error.message, param="tools") from None


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
        raise InvalidTool(f"a tool must be a function, a Tool or a Toolbox, got {shown(function)}", param="function")
    whole = _without_partial(function)
    name = name or str(getattr(whole, "__name__", type(whole).__name__))
    if isinstance(whole, type):
        raise InvalidTool(f"{name}: a tool must be a function or a callable object, got a class", param="function")
    routine: Any = function
    function = routine if inspect.isroutine(function) or whole is not function else routine.__call__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        reason = f"{name}: a tool must return its result, got a function that yields; return a list"
        raise InvalidTool(reason, param="function")
    docstring = parse_docstring((function is not routine and function.__doc__) or whole.__doc__)
    try:
        context, hidden = _hidden_parameters(function, name)
        schema = parameters_schema(function, skip=hidden, descriptions=docstring.parameters)
    except InvalidTool as error:
        raise error.annotate(param="function") from error.__cause__
    except InvalidRequest as error:
        raise InvalidTool(f"{name}: {error.message}", param="function") from error
    except ValueError as error:
        reason = f"{name}: its parameters must be known, got none; wrap it in a Python function"
        raise InvalidTool(reason, param="function") from error
    handler = Handler(function, context=context, timeout=timeout, limit=limit, is_typed=True)
    description = description or docstring.summary
    return _checked(Tool(name=name, description=description, parameters=schema, strict=strict, handler=handler))


def _hidden_parameters(function: Callable[..., Any], tool_name: str) -> tuple[str | None, Collection[str]]:
    """Return the Context parameter, and all parameters that the model does not see."""
    hints = hints_of(function)
    contexts = [name for name, hint in hints.items() if name != "return" and _is_context(hint)]
    if len(contexts) > 1:
        reason = f"{tool_name}: at most one parameter may be a Context, got {' and '.join(contexts)}"
        raise InvalidTool(reason, param="function")
    bound: Mapping[str, Any] = getattr(function, "keywords", {})
    return (contexts[0] if contexts else None), [*contexts, *_self_parameter(function), *bound]


def _is_context(hint: Any) -> bool:
    kind = unwrap_hint(hint)[0]
    return kind is Context or {*get_args(kind)} == {Context, NoneType}


def _self_parameter(function: Callable[..., Any]) -> list[str]:
    """Return `self` or `cls`, if the function is a method without an object."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    is_self = first is not None and first.name in ("self", "cls") and first.annotation is first.empty
    return [first.name] if first is not None and is_self else []


def _without_partial(function: Any) -> Any:
    """Return the function inside of `functools.partial`; it has the name and the docstring."""
    while isinstance(function, partial):
        function = function.func
    return function


def _checked(tool: Tool) -> Tool:
    check_definition(tool)
    if not (tool.description or "").strip():
        reason = f"{tool.name}: a tool must have a description; write a docstring, or pass description="
        raise InvalidTool(reason, param="description")
    return tool


def check_definition(tool: Tool, /) -> None:
    """Raise InvalidTool if the name or the parameters of a tool are not valid.

    >>> check_definition(Tool(name="my tool"))
    Traceback (most recent call last):
    dragoman.errors.InvalidTool: a tool name must have 1 to 64 characters of a-z, A-Z, 0-9, _ and -, got 'my tool'
    """
    if NAME.fullmatch(tool.name) is None:
        reason = f"a tool name must have 1 to 64 characters of a-z, A-Z, 0-9, _ and -, got {tool.name!r}"
        raise InvalidTool(reason, param="tools")
    schema = tool.parameters
    if schema is None:
        return
    if schema.get("type", "object") != "object":
        reason = f"{tool.name}: parameters must be a schema of type 'object', got {schema['type']!r}"
        raise InvalidTool(reason, param="tools")
    try:
        encoded = msgspec.json.encode(schema)
        if msgspec.json.decode(encoded) != schema and (wrong := not_json(schema)) is not None:
            raise InvalidTool(f"{tool.name}: parameters must be JSON, got {wrong} in them", param="tools")
        problem = _schema_problem(encoded)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidTool(f"{tool.name}: parameters must be JSON: {error}", param="tools") from error
    if problem is not None:
        raise InvalidTool(f"{tool.name}: {problem}", param="tools")


@lru_cache(maxsize=1024)
def _schema_problem(schema: bytes) -> str | None:
    """Why a schema is not valid; cached, because tools are checked in every call that has them."""
    try:
        validate({}, msgspec.json.decode(schema))  # raises InvalidRequest if the schema itself is invalid
    except InvalidRequest as error:
        return error.message
    return None
