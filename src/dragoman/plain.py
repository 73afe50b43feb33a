"""Any value in, the same as JSON has it out: objects, lists, text, numbers. What has no form there is a TypeError."""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from numbers import Integral, Real
from types import NoneType
from typing import Any

import msgspec

_BYTES = (bytes, bytearray, memoryview)


def plain(value: object, /) -> Any:
    """A value as JSON has it: what `json.dumps` and msgspec take, all mappings, sequences and sets, paths, arrays.

    >>> from fractions import Fraction
    >>> plain({None: range(2), 1.5: [Fraction(1, 2), float("nan")]})
    {'null': [0, 1], '1.5': [0.5, 'NaN']}
    """
    form = _form(value)
    if form is not None:
        return form(value)
    return plain(msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_inner, str_keys=True))


def sound(text: str, /) -> str:
    """The same with halves of letters replaced: UTF-8 has no bytes for them.

    >>> sound("\\ud83d") == "\\ufffd"
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _inner(value: object) -> Any:
    """What is in a value that msgspec knows, and is none itself."""
    form = _form(value)
    if form is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON; give text, numbers, lists, dicts or a dataclass")
    return form(value)


def _form(value: object) -> Callable[[Any], Any] | None:
    """How a value is told; None where only msgspec may know."""
    for kind, form in _KINDS:
        if isinstance(value, kind):
            return form
    return next((form for method, form in _METHODS if callable(getattr(value, method, None))), None)


def _number(value: Real) -> float | str:
    """JSON has no number for some."""
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _refuse(_: object) -> None:
    raise TypeError("bytes are no text; give text, or an Image or Document with the bytes as its data")


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {_key(key): plain(item) for key, item in value.items()}


def _key(key: object) -> str:
    told = plain(key)
    if isinstance(told, list | dict):
        raise TypeError(f"{type(key).__name__} is no key: JSON has only text there")
    return told if isinstance(told, str) else msgspec.json.encode(told).decode()


_KINDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (str, sound),
    ((NoneType, bool), lambda value: value),
    (Integral, int),
    (Real, _number),
    (_BYTES, _refuse),
    (Mapping, _object),
    ((Sequence, AbstractSet), lambda value: [plain(item) for item in value]),
    (Enum, lambda value: plain(value.value)),
)
_METHODS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("model_dump", lambda value: plain(value.model_dump(mode="json"))),  # pydantic
    ("tolist", lambda value: plain(value.tolist())),  # arrays, and the numbers in them
    ("__fspath__", lambda value: plain(value.__fspath__())),
)
