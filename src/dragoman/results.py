"""What a tool gave, or how it failed, in; the ToolResult that the model gets out."""

import math
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from dragoman.errors import DragomanError, MalformedToolCall, redact
from dragoman.types import ResultPart, Text, ToolCall, ToolResult, is_object

_MAX_WORDS = 2_000
"""Characters of an error's message that a model is told."""


def result_of(call: ToolCall, value: object, limit: int, /) -> ToolResult:
    """What a tool gave, as a result: text as it is, pictures and documents as parts, all else as JSON.

    >>> result_of(ToolCall(id="call_1", name="tide"), {"metres": 4.2}, 100).content
    '{"metres":4.2}'
    """
    if isinstance(value, ToolResult):
        return msgspec.structs.replace(value, id=call.id, name=call.name, content=_cut(value.content, limit))
    try:
        content = _content(value)
    except (TypeError, ValueError, RecursionError) as error:
        return failure(call, f"{call.name}: its result cannot be told: {error}")
    return ToolResult(id=call.id, name=call.name, content=_cut(content, limit))


def failure(call: ToolCall | MalformedToolCall, why: str | BaseException, /) -> ToolResult:
    """A result that is an error: in words, or what was raised, with its kind and without keys.

    >>> failure(ToolCall(id="call_1", name="tide"), KeyError("port")).content
    "KeyError: 'port'"
    """
    if isinstance(why, str):
        told = why
    else:
        message = why.message if isinstance(why, DragomanError) else str(why)
        told = f"{type(why).__name__}: {message}" if message else type(why).__name__
    told = _sound(redact(told))
    told = told if len(told) <= _MAX_WORDS else f"{told[:_MAX_WORDS]}…"
    return ToolResult(id=call.id, name=call.name, content=told, is_error=True)


def _content(value: object) -> str | tuple[ResultPart, ...]:
    if isinstance(value, str):
        return value
    if isinstance(value, ResultPart):
        return (value,)
    items = tuple(_items(value))
    if any(isinstance(item, ResultPart) for item in items):
        return tuple(item if isinstance(item, ResultPart) else Text(text=_text(item)) for item in items)
    return _text(value)


def _items(value: Any) -> Iterable[Any]:
    return cast("Iterable[Any]", value) if isinstance(value, list | tuple | set | frozenset) else ()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    plain = msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview), enc_hook=_plain, str_keys=True)
    return msgspec.json.encode(_spelt(plain)).decode()


def _plain(value: object) -> object:
    """A value of a class that JSON has no word for; pydantic's know themselves."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON; give text, numbers, lists, dicts or a dataclass")


def _spelt(value: Any) -> Any:
    """Plain values with what JSON has no number for as words; bytes are refused."""
    if is_object(value):
        return {_sound(key): _spelt(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_spelt(item) for item in _items(value)]
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are no text; give text, or an Image or Document with the bytes as its data")
    if isinstance(value, str):
        return _sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _sound(text: str) -> str:
    """The same with halves of letters replaced: UTF-8 has no bytes for them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _cut(content: str | tuple[ResultPart, ...], limit: int) -> str | tuple[ResultPart, ...]:
    """The first bytes of the text, up to the limit, saying so; pictures and documents stay whole."""
    if isinstance(content, str):
        return _cut_text(content, limit)
    left = limit
    kept: list[ResultPart] = []
    for part in content:
        if isinstance(part, Text):
            text = _cut_text(part.text, left)
            left = max(0, left - len(text.encode()))
            kept.append(part if text == part.text else Text(text=text, extra=part.extra))
        else:
            kept.append(part)
    return tuple(kept)


def _cut_text(text: str, limit: int) -> str:
    text = _sound(text)
    data = text.encode()
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut: these are the first {limit} of {len(data)} bytes]"
