"""A request to a model."""

from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from dragoman.errors import InvalidTool
from dragoman.types.base import Extra, JsonObject, Value
from dragoman.types.checks import as_items, as_object, as_text, check_choice, wrong_value
from dragoman.types.content import read_parts
from dragoman.types.messages import Message, Tool, ToolChoice
from dragoman.types.parts import Opaque, Text, all_are

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Request(Value, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to a model. Fields that are None are not sent.

    >>> from dragoman import user
    >>> request = Request(messages=(user("hello"),), temperature=0.0)
    >>> msgspec.structs.replace(request, max_tokens=5).max_tokens
    5
    """

    messages: tuple[Message, ...] = ()
    system: str | tuple[Text, ...] | None = None
    tools: tuple[Tool | Opaque, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    schema: JsonObject | None = None
    """JSON Schema of the answer; an empty one stands for any JSON."""
    schema_name: str = "response"
    schema_strict: bool | None = None
    schema_mode: Literal["native", "auto"] = "native"
    """`native` fails if a target has no structured output; `auto` then uses a forced tool call or a prompt."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning: Effort | int | None = None
    """How much the model thinks: an effort, or a budget of tokens."""
    cache: bool | None = None
    user: str | None = None
    metadata: dict[str, str] = {}
    stream: bool = False
    strict: bool = False
    extra: Extra = {}
    """By provider or wire name: fields that are merged into the body as they are."""

    def __post_init__(self) -> None:
        check_fields(self)


_EFFORTS: tuple[str, ...] = get_args(Effort)
_OPTIONAL_NUMBER: frozenset[type] = frozenset({NoneType, int, float})
_OPTIONAL_INT: frozenset[type] = frozenset({NoneType, int})
_OPTIONAL_FLAG: frozenset[type] = frozenset({NoneType, bool})
_OPTIONAL_TEXT: frozenset[type] = frozenset({NoneType, str})
_OPTIONAL_OBJECT: frozenset[type] = frozenset({NoneType, dict})
_FIELD_TYPES: tuple[tuple[str, frozenset[type]], ...] = (
    ("tool_choice", _OPTIONAL_TEXT),
    ("parallel_tool_calls", _OPTIONAL_FLAG),
    ("schema", _OPTIONAL_OBJECT),
    ("schema_name", frozenset({str})),
    ("schema_strict", _OPTIONAL_FLAG),
    ("temperature", _OPTIONAL_NUMBER),
    ("top_p", _OPTIONAL_NUMBER),
    ("top_k", _OPTIONAL_INT),
    ("max_tokens", _OPTIONAL_INT),
    ("seed", _OPTIONAL_INT),
    ("cache", _OPTIONAL_FLAG),
    ("user", _OPTIONAL_TEXT),
    ("metadata", frozenset({dict})),
    ("stream", frozenset({bool})),
    ("strict", frozenset({bool})),
    ("extra", frozenset({dict})),
)
"""The exact types of the fields. Others are converted or refused; a test of the exact type is fast."""
_EXPECTED = {
    _OPTIONAL_NUMBER: "a number",
    _OPTIONAL_INT: "an int",
    _OPTIONAL_FLAG: "True or False",
    frozenset({bool}): "True or False",
}


def check_fields(request: Request, /) -> None:
    """Convert or refuse fields of a wrong type."""
    for name, kinds in _FIELD_TYPES:
        if type(getattr(request, name)) not in kinds:
            _convert(request, name, kinds)
    if type(request.messages) is not tuple or not all_are(request.messages, _MESSAGES):
        _set_items(request, "messages", Message, "a list of Message", 'such as [dragoman.user("hi")]')
    if type(request.stop) is not tuple or not all_are(request.stop, _TEXTS):
        _set_stop(request)
    if request.tools and not (type(request.tools) is tuple and all_are(request.tools, _TOOLS)):
        _set_items(request, "tools", Tool | Opaque, "a list of Tool", "pass functions to the methods of a model")
    if len(request.tools) > 1:
        _check_tool_names(request.tools)
    if request.system is not None and type(request.system) is not str:
        _set_system(request)
    if request.schema_mode not in ("native", "auto"):
        check_choice("schema_mode", request.schema_mode, ("native", "auto"))
    if request.reasoning is not None:
        check_reasoning(request.reasoning)


_MESSAGES: frozenset[type] = frozenset({Message})
_TEXTS: frozenset[type] = frozenset({str})
_TOOLS: frozenset[type] = frozenset({Tool, Opaque})


def check_reasoning(value: object, /) -> None:
    """Refuse a value that is neither an effort nor a number of tokens."""
    if isinstance(value, bool) or not (isinstance(value, int) or value in _EFFORTS):
        raise wrong_value("reasoning", f"one of {', '.join(_EFFORTS)}, or a number of tokens", value)


def _convert(request: Request, name: str, kinds: frozenset[type]) -> None:
    value = getattr(request, name)
    if kinds == _OPTIONAL_NUMBER and isinstance(value, float | int) and not isinstance(value, bool):
        force_setattr(request, name, float(value))
    elif str in kinds:
        force_setattr(request, name, as_text(name, value))
    elif dict in kinds:
        force_setattr(request, name, as_object(name, value))
    else:
        raise wrong_value(name, _EXPECTED[kinds], value)


def _set_items(request: Request, name: str, kinds: Any, expected: str, hint: str) -> None:
    """Set a tuple of items from any list of them, or from a single one."""
    value = getattr(request, name)
    items = (value,) if isinstance(value, kinds) else as_items(name, value, expected, hint)
    for item in items:
        if not isinstance(item, kinds):
            raise wrong_value(name, expected, item, hint)
    force_setattr(request, name, items)


def _set_stop(request: Request) -> None:
    stop: Any = request.stop
    stop = (stop,) if isinstance(stop, str) else () if stop is None else stop
    items = as_items("stop", stop, "a str or a list of str")
    force_setattr(request, "stop", tuple(as_text("stop", text) for text in items))


def _set_system(request: Request) -> None:
    system: Any = request.system
    if isinstance(system, str):
        force_setattr(request, "system", str.__str__(system))
        return
    parts = read_parts("system", system)
    for part in parts:
        if not isinstance(part, Text):
            raise wrong_value("system", "a str or a list of Text", part)
    force_setattr(request, "system", parts)


def _check_tool_names(tools: tuple[Tool | Opaque, ...]) -> None:
    names = [tool.name for tool in tools if isinstance(tool, Tool)]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InvalidTool(f"tools must have unique names, but two are named {name!r}; rename one", param="tools")
