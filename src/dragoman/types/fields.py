"""Checks the fields of a struct by their annotations, for structs that are made a few times per call.

An annotation is turned once into a reader and a description. A reader returns the value as the field holds it (a list
becomes a tuple), or `WRONG`. The values that decoders make in large numbers have checks of their own, which are faster.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from dragoman.errors import InvalidRequest, SetupError
from dragoman.types.base import is_list
from dragoman.types.checks import is_encodable, is_mapping, shown

WRONG = object()
"""What a reader returns for a wrong value."""
Reader: TypeAlias = Callable[[Any], Any]
_LEAST, _MOST = -(2**63), 2**64 - 1
"""The ints that JSON readers and writers of msgspec take."""


class FieldKind(NamedTuple):
    """What a field may hold."""

    expected: str
    read: Reader


class _Field(NamedTuple):
    name: str
    default: Any
    kind: FieldKind


def check_struct(
    value: msgspec.Struct,
    error: type[InvalidRequest] | type[SetupError] = InvalidRequest,
    /,
    *,
    without: str | None = None,
) -> None:
    """Convert or refuse the fields of a struct, except `without`; its `__post_init__` calls this.

    >>> from dragoman import Usage
    >>> Usage(input="3")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: input must be an int or None, got '3'
    """
    for name, default, kind in _fields(type(value)):
        own = getattr(value, name)
        if own is default or name == without:
            continue
        read = kind.read(own)
        if read is WRONG:
            raise error(f"{name} must be {kind.expected}, got {shown(own)}", param=name)
        if read is not own:
            force_setattr(value, name, read)


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[_Field, ...]:
    return tuple(_Field(field.name, field.default, field_kind(field.type)) for field in msgspec.structs.fields(struct))


def _if(is_right: "Callable[[Any], bool]") -> Reader:
    """A reader that returns a value as it is."""

    def read(value: Any) -> Any:
        return value if is_right(value) else WRONG

    return read


def _is_anything(_: Any) -> bool:
    return True


_ANY = FieldKind("any value", _if(_is_anything))
_FUNCTION = FieldKind("a function", _if(callable))


@cache
def field_kind(hint: Any, /) -> FieldKind:
    """The kind of an annotation.

    >>> field_kind(tuple[int, ...]).expected, field_kind(int).read(True) is WRONG
    ('a list of int', True)
    """
    if (known := _KINDS.get(hint)) is not None:
        return known
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _union([field_kind(each) for each in get_args(hint)])
    if (make := _GENERIC.get(origin)) is not None:
        return make(hint)
    base = origin or hint
    if isinstance(base, TypeVar) or getattr(base, "_is_protocol", False):
        return _ANY
    name = base.__name__
    article = "" if name[-1] == "s" else "an " if name[0] in "AEIO" else "a "

    def is_instance(value: Any) -> bool:
        return isinstance(value, base)

    return FieldKind(f"{article}{name}", _if(is_instance))


def _plural(kind: FieldKind) -> str:
    """The description of the items of a list."""
    return re.sub(r"\b(list|finite number)\b", r"\1s", kind.expected.removeprefix("a ").removeprefix("an "))


def _literal(hint: Any) -> FieldKind:
    choices: Collection[Any] = get_args(hint)

    def is_choice(value: Any) -> bool:
        return isinstance(value, str) and value in choices

    return FieldKind(f"one of {', '.join(map(str, choices))}", _if(is_choice))


def _union(kinds: list[FieldKind]) -> FieldKind:
    def read(value: Any) -> Any:
        for kind in kinds:
            if (result := kind.read(value)) is not WRONG:
                return result
        return WRONG

    return FieldKind(" or ".join(kind.expected for kind in kinds), read)


def _items(hint: Any) -> FieldKind:
    item = field_kind(get_args(hint)[0])

    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return WRONG
        sequence = cast("list[Any]", value)
        items = tuple([item.read(each) for each in sequence])
        if any(each is WRONG for each in items):
            return WRONG
        is_same = isinstance(value, tuple) and all(map(_is, items, sequence))
        return sequence if is_same else items

    return FieldKind(f"a list of {_plural(item)}", read)


def _is(one: object, other: object) -> bool:
    return one is other


def _list(hint: Any) -> FieldKind:
    item = field_kind(get_args(hint)[0])

    def read(value: Any) -> Any:
        items = value if is_list(value) else [WRONG]
        return WRONG if any(each is WRONG or item.read(each) is WRONG for each in items) else items

    return FieldKind(f"a list of {_plural(item)}", read)


def _mapping(hint: Any) -> FieldKind:
    item = field_kind(get_args(hint)[1])

    def read(value: Any) -> Any:
        if not is_mapping(value):
            return WRONG
        for key, each in value.items():
            if read_text(key) is WRONG or item.read(each) is WRONG:
                return WRONG
        return value

    if item.expected == "a str":
        return FieldKind("a dict of str", read)
    return FieldKind("a dict with str keys" + ("" if item is _ANY else f" and {_plural(item)}"), read)


def _annotated(hint: Any) -> FieldKind:
    base, *notes = get_args(hint)
    kind = field_kind(base)
    note = next(note for note in notes if isinstance(note, msgspec.Meta))
    pattern = note.pattern

    def is_match(value: Any) -> bool:
        return kind.read(value) is not WRONG and re.search(pattern or "", value) is not None

    def is_enough(value: Any) -> bool:
        return kind.read(value) is not WRONG and value >= note.ge

    if pattern is not None:
        return FieldKind(note.description or f"a text that matches {pattern}", _if(is_match))
    return FieldKind(f"{kind.expected} >= {note.ge}", _if(is_enough))


_GENERIC: dict[Any, Callable[[Any], FieldKind]] = {
    Literal: _literal,
    Annotated: _annotated,
    tuple: _items,
    list: _list,
    dict: _mapping,
    Mapping: _mapping,
    Callable: lambda _: _FUNCTION,
}


# Readers --------------------------------------------------------------------------------------------------------------


def read_text(value: Any, /) -> Any:
    """A str that can be written as UTF-8, without its subclass.

    >>> read_text("a"), read_text("\\ud800") is WRONG
    ('a', True)
    """
    if not isinstance(value, str):
        return WRONG
    value = value if type(value) is str else str.__str__(value)
    return value if value.isascii() or is_encodable(value) else WRONG


def _read_int(value: Any) -> Any:
    return value if isinstance(value, int) and type(value) is not bool and _LEAST <= value <= _MOST else WRONG


def _read_number(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else WRONG
    return _read_int(value)


def _is_none(value: object) -> bool:
    return value is None


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


_KINDS: dict[Any, FieldKind] = {
    Any: _ANY,
    object: _ANY,
    None: FieldKind("None", _if(_is_none)),
    NoneType: FieldKind("None", _if(_is_none)),
    str: FieldKind("a str", read_text),
    int: FieldKind("an int", _read_int),
    float: FieldKind("a finite number", _read_number),
    bool: FieldKind("True or False", _if(_is_flag)),
    bytes: FieldKind("bytes", _if(_is_bytes)),
}
