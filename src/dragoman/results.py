"""What a tool gave, or how it failed, in; the ToolResult that the model gets out."""

from collections import UserString

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, MalformedToolCall, Unsupported, redact
from dragoman.media import check_readable
from dragoman.plain import items, plain, sound
from dragoman.types import Document, Image, ResultPart, Text, ToolCall, ToolResult

_MAX_WORDS = 2_000
"""Characters of an error's message that a model is told."""


def result_of(call: ToolCall, value: object, limit: int, /) -> ToolResult:
    """What a tool gave, as a result: text as it is, pictures and documents as parts, all else as JSON.

    >>> result_of(ToolCall(id="call_1", name="tide"), {"metres": 4.2}, 100).content
    '{"metres":4.2}'
    """
    given = value if isinstance(value, ToolResult) else ToolResult(id=call.id, content="")
    try:
        content, is_broken = _unbroken(_content((given.content or "") if given is value else value, limit))
    except (TypeError, ValueError, RecursionError) as error:
        return failure(call, f"{call.name}: its result cannot be told: {error}")
    is_error = given.is_error or is_broken
    return msgspec.structs.replace(given, id=call.id, name=call.name, content=_cut(content, limit), is_error=is_error)


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
    told = sound(redact(told))
    told = told if len(told) <= _MAX_WORDS else f"{told[:_MAX_WORDS]}…"
    return ToolResult(id=call.id, name=call.name, content=told, is_error=True)


def _content(value: object, limit: int) -> str | tuple[ResultPart, ...]:
    if isinstance(value, ResultPart):
        return (value,)
    # Each item is a byte at least, so that no more of them than the limit are of use.
    found = items(value, limit)
    if found is None:
        return _text(value, limit)
    if any(isinstance(item, ResultPart) for item in found):
        return tuple(item if isinstance(item, ResultPart) else Text(text=_text(item, limit)) for item in found)
    return _text(found, limit)


def _text(value: object, limit: int) -> str:
    if isinstance(value, UserString):
        return value.data
    return value if isinstance(value, str) else msgspec.json.encode(plain(value, limit)).decode()


def _unbroken(content: str | tuple[ResultPart, ...]) -> tuple[str | tuple[ResultPart, ...], bool]:
    """The content with words in the place of what no target could take, and whether there was any of it."""
    if isinstance(content, str):
        return content, False
    flaws = [_flaw(part) for part in content]
    if len(flaws) == 1 and flaws[0] is not None:
        raise ValueError(flaws[0])
    pairs = zip(content, flaws, strict=True)
    told = tuple(part if flaw is None else Text(text=f"[left out: {flaw}]") for part, flaw in pairs)
    return told, any(flaw is not None for flaw in flaws)


def _flaw(part: ResultPart) -> str | None:
    if not isinstance(part, Image | Document):
        return None
    try:
        check_readable(part)
    except (InvalidRequest, Unsupported) as error:
        return error.message
    return None


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
    text = sound(text)
    data = text.encode()
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut: these are the first {limit} of {len(data)} bytes]"
