"""A request to a model."""

from collections.abc import Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

from msgspec.structs import force_setattr

from dragoman.errors import InvalidTool
from dragoman.types.base import Extra, JsonObject
from dragoman.types.caching import MAX_TTL, read_ttl
from dragoman.types.checks import (
    as_items,
    as_object,
    as_text,
    as_texts,
    check_choice,
    is_mapping,
    naming,
    shown,
    wrong_value,
)
from dragoman.types.content import read_parts
from dragoman.types.fields import WRONG, read_text
from dragoman.types.hosted_tools import HOSTED_TYPES, HostedTool
from dragoman.types.messages import Message, Tool, ToolChoice
from dragoman.types.parts import Opaque, Text, all_are
from dragoman.types.structs import Value

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity: TypeAlias = Literal["low", "medium", "high"]
AnyTool: TypeAlias = Tool | HostedTool | Opaque
"""A function, a tool that the provider runs, or a tool in the form of one wire."""


class Request(Value, frozen=True, kw_only=True):
    """A request to a model. Fields that are None are not sent.

    >>> import msgspec
    >>> from dragoman import user
    >>> request = Request(messages=(user("hello"),), temperature=0.0)
    >>> msgspec.structs.replace(request, max_tokens=5).max_tokens
    5
    """

    messages: tuple[Message, ...] = ()
    system: str | tuple[Text, ...] | None = None
    tools: tuple[AnyTool, ...] = ()
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
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    """By token id: how much more or less likely the token is."""
    logprobs: bool | None = None
    """Whether the answer has the log probabilities of its tokens, in `response.logprobs`."""
    top_logprobs: int | None = None
    """How many other likely tokens each of them lists."""
    n: int | None = None
    """How many answers, in `response.choices`."""
    service_tier: str | None = None
    """How fast and at which price the provider serves the request: `auto`, `default`, `flex`, `priority`, …"""
    verbosity: Verbosity | None = None
    """How long the answer is."""
    reasoning: Effort | int | None = None
    """How much the model thinks: an effort, or a budget of tokens."""
    cache: bool | None = None
    """Whether the provider caches the prompt."""
    cache_ttl: int | None = None
    """How long, in seconds; a text such as "1h" is converted. Also for each `CachePoint` without a time of its own."""
    raw: bool | None = None
    """Whether each user message is a text that the model continues, without the template of a chat."""
    suffix: str | None = None
    """The text after a gap: the model fills what is between the prompt and it."""
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
    ("frequency_penalty", _OPTIONAL_NUMBER),
    ("presence_penalty", _OPTIONAL_NUMBER),
    ("logit_bias", _OPTIONAL_OBJECT),
    ("logprobs", _OPTIONAL_FLAG),
    ("top_logprobs", _OPTIONAL_INT),
    ("n", _OPTIONAL_INT),
    ("service_tier", _OPTIONAL_TEXT),
    ("verbosity", _OPTIONAL_TEXT),
    ("cache", _OPTIONAL_FLAG),
    ("raw", _OPTIONAL_FLAG),
    ("suffix", _OPTIONAL_TEXT),
    ("cache_ttl", _OPTIONAL_INT),
    ("user", _OPTIONAL_TEXT),
    ("metadata", frozenset({dict})),
    ("stream", frozenset({bool})),
    ("strict", frozenset({bool})),
    ("extra", frozenset({dict})),
)
"""The exact types of the fields. Others are converted or refused."""
_EXPECTED = {
    _OPTIONAL_NUMBER: "a number",
    _OPTIONAL_INT: "an int",
    _OPTIONAL_FLAG: "True or False",
    frozenset({bool}): "True or False",
}
_fields = attrgetter(*(name for name, _ in _FIELD_TYPES))
_KNOWN_TYPES: dict[tuple[type, ...], bool] = {}
"""Types of all fields that are right, and whether one of them has a range. A lookup is faster than many tests."""
_MAX_KNOWN_TYPES = 1024
MAX_CHOICES = 128
"""The largest `n`, and the most answers that are read from one response."""
MOST = 2**53
"""The largest int that every JSON reader reads exactly."""
_RANGES = (
    ("temperature", 0, MOST),
    ("top_p", 0, 1),
    ("top_k", -1, MOST),
    ("max_tokens", -1, MOST),
    ("seed", 1 - 2**63, 2**63 - 1),
    ("frequency_penalty", -2, 2),
    ("presence_penalty", -2, 2),
    ("top_logprobs", 0, 20),
    ("n", 1, MAX_CHOICES),
    ("cache_ttl", 1, MAX_TTL),
)
_MAX_BIAS = 100
RARE_OPTIONS = (
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "n",
    "service_tier",
    "verbosity",
)
"""Options that few requests have and few targets support."""
rare_options = attrgetter(*RARE_OPTIONS)
"""Their values. One comparison with NO_RARE_OPTIONS finds out whether there are any."""
NO_RARE_OPTIONS = (None,) * len(RARE_OPTIONS)


def check_fields(request: Request, /) -> None:
    """Convert or refuse wrong fields."""
    types = tuple(map(type, _fields(request)))
    has_ranges = _KNOWN_TYPES.get(types)
    if has_ranges is None:
        has_ranges = _check_types(request, types)
    if has_ranges:
        _check_values(request)
    if request.extra and not all(type(key) is str for key in request.extra):
        raise wrong_value("extra", "a dict with str keys", request.extra)
    if type(request.messages) is not tuple or not all_are(request.messages, _MESSAGES):
        _set_items(request, "messages", Message, "a list of Message", 'such as [dragoman.user("hi")]')
    if request.stop is not _NO_STOP:
        _set_stop(request)
    if type(request.tools) is not tuple or not all_are(request.tools, _TOOLS):
        _set_items(request, "tools", AnyTool, "a list of Tool", "pass functions to the methods of a model")
    if len(request.tools) > 1:
        _check_tool_names(request.tools)
    system = request.system
    if system is not None and (type(system) is not str or not system.isascii()):
        _set_system(request)
    mode: Any = request.schema_mode
    if type(mode) is not str or mode not in ("native", "auto"):
        check_choice("schema_mode", mode, ("native", "auto"))
    if request.reasoning is not None:
        check_reasoning(request.reasoning)
    if request.metadata:
        _check_keys(request)
    if _texts(request) != _NO_TEXTS:
        for name, text in zip(_TEXT_FIELDS, _texts(request), strict=True):
            if text is not None:
                as_text(name, text)


def with_messages(request: Request, messages: tuple[Message, ...], /, *, stream: bool) -> Request:
    """A copy of a request with other messages. Nothing is checked again: both were checked when they were made."""
    source: Any = request
    changed: Request = source.__copy__()  # as copy.copy() does, in a third of the time
    force_setattr(changed, "messages", messages)
    if stream:
        force_setattr(changed, "stream", stream)
    # Whoever changes these dicts in one request must not change the others.
    force_setattr(changed, "extra", {**request.extra})
    force_setattr(changed, "metadata", {**request.metadata})
    return changed


_MESSAGES: frozenset[type] = frozenset({Message})
_NO_STOP: tuple[str, ...] = ()
_TOOLS: frozenset[type] = frozenset({Tool, Opaque}) | HOSTED_TYPES


def _check_types(request: Request, types: tuple[type, ...]) -> bool:
    """Check or convert each field. Returns whether `_check_values` is needed."""
    for name, kinds in _FIELD_TYPES:
        if type(getattr(request, name)) not in kinds:
            _convert(request, name, kinds)
    if types == tuple(map(type, _fields(request))) and len(_KNOWN_TYPES) < _MAX_KNOWN_TYPES:
        checked = {*(name for name, *_ in _RANGES), "logit_bias", "verbosity"}
        _KNOWN_TYPES[types] = any(getattr(request, name) is not None for name in checked)
    return True


def _check_keys(request: Request) -> None:
    for key, value in request.metadata.items():
        if read_text(key) is WRONG or read_text(value) is WRONG:
            raise wrong_value("metadata", "a dict of str", value if read_text(key) is not WRONG else key)


_TEXT_FIELDS = ("tool_choice", "schema_name", "service_tier", "suffix", "user")
_texts = attrgetter(*_TEXT_FIELDS)
_NO_TEXTS = (None, "response", None, None, None)


def _check_values(request: Request) -> None:
    for name, low, high in _RANGES:
        value = getattr(request, name)
        # A comparison with NaN is false.
        if value is not None and not low <= value <= high:
            expected = f"between {low} and {high}" if high < MOST else f"a finite number >= {low}"
            raise wrong_value(name, expected if low > -MOST else "an int of 64 bits", value)
    if request.verbosity is not None:
        check_choice("verbosity", request.verbosity, get_args(Verbosity))
    if request.logit_bias:
        force_setattr(request, "logit_bias", _checked_bias(request.logit_bias))
    if request.top_logprobs and request.logprobs is False:
        raise wrong_value("logprobs", "True if top_logprobs is set", request.logprobs)


def _checked_bias(bias: Mapping[Any, Any]) -> dict[str, float]:
    """The bias with token ids as text, because JSON has no other keys."""
    expected = f"a dict of token ids and numbers between -{_MAX_BIAS} and {_MAX_BIAS}"
    for token, value in bias.items():
        if isinstance(token, bool) or not isinstance(token, int | str) or not str(token).isdecimal():
            raise wrong_value("logit_bias", expected, token)
        if isinstance(value, bool) or not isinstance(value, int | float) or not -_MAX_BIAS <= value <= _MAX_BIAS:
            raise wrong_value("logit_bias", expected, value, f"see token {shown(token)}")
    return {str(token): value for token, value in bias.items()}


def check_reasoning(value: object, /) -> None:
    """Refuse a value that is neither an effort nor a number of tokens."""
    if isinstance(value, str) and value in _EFFORTS:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise wrong_value("reasoning", f"one of {', '.join(_EFFORTS)}, or a number of tokens", value)


def _convert(request: Request, name: str, kinds: frozenset[type]) -> None:
    value = getattr(request, name)
    if kinds == _OPTIONAL_NUMBER and isinstance(value, float | int) and not isinstance(value, bool):
        force_setattr(request, name, float(value))
    elif name == "cache_ttl":
        force_setattr(request, name, read_ttl(name, value))
    elif str in kinds:
        force_setattr(request, name, as_text(name, value))
    elif name == "logit_bias" and is_mapping(value):
        force_setattr(request, name, _checked_bias(value))
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
    force_setattr(request, "stop", () if stop is None else as_texts("stop", stop))


def _set_system(request: Request) -> None:
    system: Any = request.system
    if isinstance(system, str):
        force_setattr(request, "system", as_text("system", system))
        return
    with naming("system"):
        parts = read_parts("system", system)
    for part in parts:
        if not isinstance(part, Text):
            raise wrong_value("system", "a str or a list of Text", part)
    force_setattr(request, "system", parts)


def _check_tool_names(tools: tuple[AnyTool, ...]) -> None:
    fallbacks = [getattr(tool, "fallback", None) for tool in tools]
    names = [tool.name for tool in (*tools, *fallbacks) if isinstance(tool, Tool)]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InvalidTool(f"tools must have unique names, but two are named {name!r}; rename one", param="tools")
