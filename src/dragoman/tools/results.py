"""Turns what a tool returned or raised into the ToolResult that the model gets.

Text stays text, images and documents become parts, and everything else becomes JSON. `to_json_value` accepts more than
`json.dumps`: all mappings, sequences and sets, dataclasses, pydantic models, enums, paths, numpy arrays and numbers.
The size of a result is limited, also for values that generate their items without end.
"""

import math
from collections import UserString
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, MalformedToolCall, Unsupported, redact
from dragoman.media import check_readable
from dragoman.types import Document, Image, ResultPart, Text, ToolCall, ToolResult

_MAX_ERROR_LENGTH = 2_000
"""Characters of an error message that the model gets."""


def to_tool_result(call: ToolCall, value: object, limit: int, /) -> ToolResult:
    """Make the result of a call from what the tool returned; its text has at most `limit` bytes.

    >>> to_tool_result(ToolCall(id="call_1", name="tide"), {"metres": 4.2}, 100).content
    '{"metres":4.2}'
    """
    result = value if isinstance(value, ToolResult) else ToolResult(id=call.id, content="")
    try:
        content = _content((result.content or "") if result is value else value, limit)
        content, has_unreadable = _without_unreadable_media(content)
    except (TypeError, ValueError, RecursionError) as error:
        return error_result(call, f"{call.name}: the result cannot be sent: {error}")
    is_error = result.is_error or has_unreadable
    return msgspec.structs.replace(result, id=call.id, name=call.name, content=_cut(content, limit), is_error=is_error)


def error_result(call: ToolCall | MalformedToolCall, reason: str | BaseException, /) -> ToolResult:
    """Make an error result from a message or an exception. Keys in it are redacted.

    >>> error_result(ToolCall(id="call_1", name="tide"), KeyError("port")).content
    "KeyError: 'port'"
    """
    if isinstance(reason, str):
        text = reason
    else:
        message = reason.message if isinstance(reason, DragomanError) else str(reason)
        text = f"{type(reason).__name__}: {message}" if message else type(reason).__name__
    text = _valid_unicode(redact(text))
    if len(text) > _MAX_ERROR_LENGTH:
        text = f"{text[:_MAX_ERROR_LENGTH]}…"
    return ToolResult(id=call.id, name=call.name, content=text, is_error=True)


# Content --------------------------------------------------------------------------------------------------------------


def _content(value: object, limit: int) -> str | tuple[ResultPart, ...]:
    if isinstance(value, ResultPart):
        return (value,)
    if _converter(value) is not _to_list:
        return _text(value, limit)
    items = _items(value, limit)  # an item takes a byte or more, so more than `limit` items never fit
    if any(isinstance(item, ResultPart) for item in items):
        return tuple(item if isinstance(item, ResultPart) else _text_part(item, limit) for item in items)
    return _text(items, limit)


def _text_part(value: object, limit: int) -> Text:
    return Text(text=_valid_unicode(_text(value, limit)))


def _text(value: object, limit: int) -> str:
    if isinstance(value, UserString):
        return value.data
    return value if isinstance(value, str) else msgspec.json.encode(to_json_value(value, limit)).decode()


def _without_unreadable_media(content: str | tuple[ResultPart, ...]) -> tuple[str | tuple[ResultPart, ...], bool]:
    """Replace media that no target can read with a text; return whether there were any."""
    if isinstance(content, str):
        return content, False
    problems = [_media_problem(part) for part in content]
    if len(problems) == 1 and problems[0] is not None:
        raise ValueError(problems[0])
    pairs = zip(content, problems, strict=True)
    parts = tuple(part if problem is None else Text(text=f"[left out: {problem}]") for part, problem in pairs)
    return parts, any(problem is not None for problem in problems)


def _media_problem(part: ResultPart) -> str | None:
    if not isinstance(part, Image | Document):
        return None
    try:
        check_readable(part)
    except (InvalidRequest, Unsupported) as error:
        return error.message
    return None


def _cut(content: str | tuple[ResultPart, ...], limit: int) -> str | tuple[ResultPart, ...]:
    """Limit the bytes of all texts together; images and documents stay whole."""
    if isinstance(content, str):
        return _cut_text(content, limit)
    remaining = limit
    parts: list[ResultPart] = []
    for part in content:
        if isinstance(part, Text):
            text = _cut_text(part.text, remaining)
            remaining = max(0, remaining - len(text.encode()))
            parts.append(part if text == part.text else Text(text=text, extra=part.extra))
        else:
            parts.append(part)
    return tuple(parts)


def _cut_text(text: str, limit: int) -> str:
    text = _valid_unicode(text)
    data = text.encode()
    if len(data) <= limit:
        return text
    beginning = data[:limit].decode("utf-8", "ignore")
    return f"{beginning}\n[cut: these are the first {limit} of {len(data)} bytes]"


def _valid_unicode(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    if type(text) is str and text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# JSON -----------------------------------------------------------------------------------------------------------------

_Converter: TypeAlias = Callable[[Any, int], Any]
_BYTES = (bytes, bytearray, memoryview)
_FINITE: frozenset[type] = frozenset({list, tuple, set, frozenset, type(dict[Any, Any]().items())})
"""Collections that are in memory. Any other may generate its items without end."""


def to_json_value(value: object, max_items: int, /) -> Any:
    """Convert a value to what JSON has. A collection that generates more than `max_items` items is a ValueError.

    >>> from fractions import Fraction
    >>> to_json_value({None: range(2), 1.5: [Fraction(1, 2), float("nan")]}, 100)
    {'null': [0, 1], '1.5': [0.5, 'NaN']}
    """
    converter = _converter(value)
    if converter is not None:
        return converter(value, max_items)
    builtin = msgspec.to_builtins(
        value, builtin_types=_BYTES, enc_hook=partial(_convert_field, max_items), str_keys=True
    )
    return to_json_value(builtin, max_items)


def _convert_field(max_items: int, value: object) -> Any:
    """Convert a field of a struct or dataclass that msgspec does not know."""
    converter = _converter(value)
    if converter is None:
        kind = type(value).__name__
        raise TypeError(f"a result must be text, a number, a list, a dict or a dataclass, got {kind}")
    return converter(value, max_items)


def _converter(value: object) -> _Converter | None:
    """Find the converter for a value; None if msgspec has to convert it."""
    exact = _BY_TYPE.get(type(value))
    if exact is not None:
        return exact
    for kind, converter in _BY_BASE:
        if isinstance(value, kind):
            return converter
    return next((converter for method, converter in _BY_METHOD if callable(getattr(value, method, None))), None)


def _items(value: Any, max_items: int) -> Collection[Any]:
    if type(value) in _FINITE:
        return value  # type: ignore[no-any-return]
    items: list[object] = []
    for item in value:
        if len(items) >= max_items:
            raise ValueError(f"{type(value).__name__} has more than {max_items} items")
        items.append(item)
    return items


def _same(value: object, _: int) -> object:
    return value


def _to_text(value: str, _: int) -> str:
    return _valid_unicode(value)


def _to_number(value: Real, _: int) -> float | str:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _refuse_bytes(_: object, __: int) -> None:
    raise TypeError("a result must be text, got bytes; return an Image or Document with the bytes as its data")


def _to_object(value: Mapping[Any, Any], max_items: int) -> dict[str, Any]:
    return {_key(key, max_items): to_json_value(item, max_items) for key, item in _items(value.items(), max_items)}


def _to_list(value: Collection[object], max_items: int) -> list[Any]:
    return [to_json_value(item, max_items) for item in _items(value, max_items)]


def _key(key: object, max_items: int) -> str:
    value = to_json_value(key, max_items)
    if isinstance(value, list | dict):
        raise TypeError(f"a key of a dict must be text or a number, got {type(key).__name__}")
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_BY_TYPE: dict[type, _Converter] = {
    str: _to_text,
    NoneType: _same,
    bool: _same,
    int: _same,
    float: _to_number,
    dict: _to_object,
    list: _to_list,
    tuple: _to_list,
}
_BY_BASE: tuple[tuple[type | tuple[type, ...], _Converter], ...] = (
    (str, _to_text),
    (UserString, lambda value, _: _valid_unicode(value.data)),
    (Integral, lambda value, _: int(value)),
    (Real, _to_number),
    (_BYTES, _refuse_bytes),
    (Mapping, _to_object),
    ((Sequence, AbstractSet), _to_list),
    (Enum, lambda value, max_items: to_json_value(value.value, max_items)),
)
_BY_METHOD: tuple[tuple[str, _Converter], ...] = (
    ("model_dump", lambda value, max_items: to_json_value(value.model_dump(mode="json"), max_items)),  # pydantic
    ("tolist", lambda value, max_items: to_json_value(value.tolist(), max_items)),  # numpy arrays and numbers
    ("__fspath__", lambda value, max_items: to_json_value(value.__fspath__(), max_items)),
)
