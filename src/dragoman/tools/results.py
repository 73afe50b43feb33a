"""What a tool gave, or how it failed, in; the ToolResult that the model gets out."""

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


_Form: TypeAlias = Callable[[Any, int], Any]


_BYTES = (bytes, bytearray, memoryview)


_HELD: frozenset[type] = frozenset({list, tuple, set, frozenset, type(dict[Any, Any]().items())})
"""What is in memory, so that its walk ends; all else may make its items as it goes."""


def plain(value: object, most: int, /) -> Any:
    """A value as JSON has it: what `json.dumps` and msgspec take, all mappings, sequences and sets, paths, arrays.

    What makes its items as it goes may have so many at `most`; more are a ValueError.

    >>> from fractions import Fraction
    >>> plain({None: range(2), 1.5: [Fraction(1, 2), float("nan")]}, 100)
    {'null': [0, 1], '1.5': [0.5, 'NaN']}
    """
    form = _form(value)
    if form is not None:
        return form(value, most)
    told = msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=partial(_inner, most), str_keys=True)
    return plain(told, most)


def items(value: Any, most: int, /) -> Collection[object] | None:
    """What is in a value that JSON has as a list, as it is; None where it has another form.

    >>> items(range(2), 100), items({"a": 1}, 100)
    ([0, 1], None)
    """
    return _walk(value, most) if _form(value) is _list else None


def sound(text: str, /) -> str:
    """The same with halves of letters replaced: UTF-8 has no bytes for them.

    >>> sound("\\ud83d") == "\\ufffd"
    True
    """
    if type(text) is str and text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _inner(most: int, value: object) -> Any:
    """What is in a value that msgspec knows, and is none itself."""
    form = _form(value)
    if form is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON; give text, numbers, lists, dicts or a dataclass")
    return form(value, most)


def _form(value: object) -> _Form | None:
    """How a value is told; None where only msgspec may know."""
    exact = _EXACT.get(type(value))
    if exact is not None:
        return exact
    for kind, form in _KINDS:
        if isinstance(value, kind):
            return form
    return next((form for method, form in _METHODS if callable(getattr(value, method, None))), None)


def _walk(value: Collection[Any], most: int) -> Collection[Any]:
    """All that is in a value, of which there may be no end."""
    if type(value) in _HELD:
        return value
    found: list[object] = []
    for item in value:
        if len(found) >= most:
            raise ValueError(f"{type(value).__name__} has more than {most} items")
        found.append(item)
    return found


def _same(value: object, _: int) -> object:
    return value


def _plain_text(value: str, _: int) -> str:
    return sound(value)


def _number(value: Real, _: int) -> float | str:
    """JSON has no number for some."""
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _refuse(_: object, __: int) -> None:
    raise TypeError("bytes are no text; give text, or an Image or Document with the bytes as its data")


def _object(value: Mapping[Any, Any], most: int) -> dict[str, Any]:
    return {_key(key, most): plain(item, most) for key, item in _walk(value.items(), most)}


def _list(value: Collection[object], most: int) -> list[Any]:
    return [plain(item, most) for item in _walk(value, most)]


def _key(key: object, most: int) -> str:
    told = plain(key, most)
    if isinstance(told, list | dict):
        raise TypeError(f"{type(key).__name__} is no key: JSON has only text there")
    return told if isinstance(told, str) else msgspec.json.encode(told).decode()


_EXACT: dict[type, _Form] = {
    str: _plain_text,
    NoneType: _same,
    bool: _same,
    int: _same,
    float: _number,
    dict: _object,
    list: _list,
    tuple: _list,
}


_KINDS: tuple[tuple[type | tuple[type, ...], _Form], ...] = (
    (str, _plain_text),
    (UserString, lambda value, _: sound(value.data)),
    (Integral, lambda value, _: int(value)),
    (Real, _number),
    (_BYTES, _refuse),
    (Mapping, _object),
    ((Sequence, AbstractSet), _list),
    (Enum, lambda value, most: plain(value.value, most)),
)


_METHODS: tuple[tuple[str, _Form], ...] = (
    ("model_dump", lambda value, most: plain(value.model_dump(mode="json"), most)),  # pydantic
    ("tolist", lambda value, most: plain(value.tolist(), most)),  # arrays, and the numbers in them
    ("__fspath__", lambda value, most: plain(value.__fspath__(), most)),
)
