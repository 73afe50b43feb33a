"""Converts JSON values to values of a Python type, and words each mismatch with its place."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, overload

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.formats import wrong_text
from dragoman.schema.type_hints import (
    Field,
    alias_target,
    choice_value,
    choices_of,
    fields_of,
    is_alias,
    is_pydantic,
    name_of,
    parameters,
    qualified_name,
    unwrap_hint,
)
from dragoman.schema.validate import json_path
from dragoman.types import JsonObject, is_list, is_object

T = TypeVar("T")
_Path = tuple[str | int, ...]
_LIST_TYPES: dict[str, Callable[[Iterable[Any]], Any]] = {
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.tuple": tuple,
    "collections.deque": deque,
    "collections.abc.Set": frozenset,
    "collections.abc.MutableSet": set,
}
"""The classes that a JSON list is converted to; list is the default."""


class _Mismatch(Exception):
    """A value does not match its type."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


@overload
def to_value(value: object, hint: type[T], /) -> T: ...
@overload
def to_value(value: object, hint: Any, /) -> Any: ...
def to_value(value: object, hint: Any, /) -> Any:
    """A JSON value as a value of a type; OutputError if it does not match.

    >>> to_value({"a": ["1999-12-31"]}, dict[str, tuple[str, ...]])
    {'a': ('1999-12-31',)}
    """
    try:
        return _decode(value, hint, ())
    except _Mismatch as mismatch:
        raise OutputError(
            f"not {name_of(hint)}: {'; '.join(mismatch.reasons)}", text=_text(value), reasons=mismatch.reasons
        ) from mismatch.__cause__


def decode_arguments(
    arguments: JsonObject, function: Callable[..., Any], /, *, skip: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments of a call, converted to the annotations of a function; OutputError if one does not match.

    >>> def tide(port: str, days: set[int] = frozenset()) -> str: ...
    >>> decode_arguments({"port": "Brest", "days": [1, 1]}, tide)
    {'port': 'Brest', 'days': {1}}
    """
    name = getattr(function, "__name__", "the function")
    try:
        return _fields(arguments, parameters(function, skip=skip), (), name)
    except _Mismatch as mismatch:
        why = f"not arguments of {name}: {'; '.join(mismatch.reasons)}"
        raise OutputError(why, text=_text(arguments), reasons=mismatch.reasons) from mismatch.__cause__


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _mismatch(path: _Path, why: str) -> _Mismatch:
    return _Mismatch(f"{json_path(path)}: {why}")


def _decode(value: Any, hint: Any, path: _Path) -> Any:
    kind, _ = unwrap_hint(hint)
    if kind is Any or kind is object:
        return value
    if is_alias(kind):
        return _decode(value, alias_target(kind), path)
    if is_pydantic(kind):
        return _pydantic(value, kind, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if (choices := choices_of(kind)) is not None:
        return _choice(value, choices, path)
    if origin in (Union, UnionType):
        return _any_of(value, arguments, path)
    if (fields := fields_of(kind)) is not None:
        return _object(value, kind, fields, path)
    name = qualified_name(origin or kind)
    if name.endswith(("dict", "Dict", "Mapping")):
        return _to_mapping(name, _map(value, arguments or (Any, Any), path), arguments)
    if name == "builtins.tuple" and origin is not None and arguments[-1:] != (Ellipsis,):
        return _tuple(value, arguments, path)
    if origin is not None or name in _LIST_TYPES or name == "builtins.list":
        item = arguments[0] if arguments else Any
        items = [_decode(one, item, (*path, index)) for index, one in enumerate(_list(value, path))]
        return _LIST_TYPES.get(name, list)(items)
    return _leaf(value, kind, path)


def _leaf(value: object, kind: Any, path: _Path, *, strict: bool = True) -> Any:
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # to JSON, 5.0 is an integer
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _mismatch(path, wrong_text(value, kind) or str(error)) from error


def _choice(value: object, choices: tuple[Any, ...], path: _Path, to_json: Callable[[Any], Any] = choice_value) -> Any:
    for choice in choices:
        plain = to_json(choice)
        if plain == value and isinstance(plain, bool) == isinstance(value, bool):
            return choice
    raise _mismatch(path, f"{_text(value)} is not one of {_text([to_json(choice) for choice in choices])}")


def _any_of(value: object, arms: tuple[Any, ...], path: _Path) -> Any:
    """The value of the first arm that matches; for objects, arms that know more keys come first."""
    mismatches: list[_Mismatch] = []
    for arm in sorted(arms, key=lambda arm: _unknown_keys(value, arm)):
        try:
            return _decode(value, arm, path)
        except _Mismatch as mismatch:
            mismatches.append(mismatch)
    raise _Mismatch(*dict.fromkeys(reason for mismatch in mismatches for reason in mismatch.reasons))


def _unknown_keys(value: object, arm: Any) -> int:
    """The number of keys of a value that an arm does not know."""
    kind, _ = unwrap_hint(arm)
    if not is_object(value):
        return 0
    if is_pydantic(kind):
        known = {name for key, field in getattr(kind, "model_fields", {}).items() for name in (key, field.alias)}
    else:
        known = {field.key for field in fields_of(kind) or ()}
    return len(value.keys() - known)


def _object(value: object, kind: Any, fields: tuple[Field, ...], path: _Path) -> Any:
    arguments = _fields(value, fields, path, name_of(kind))
    cls = get_origin(kind) or kind
    try:
        return cls(**arguments)
    except (ValueError, TypeError, AssertionError) as error:
        raise _mismatch(path, str(error)) from error


def _fields(value: object, fields: tuple[Field, ...], path: _Path, name: str) -> dict[str, Any]:
    if not is_object(value):
        raise _mismatch(path, f"must be an object for {name}, got {_text(value)[:200]}")
    arguments: dict[str, Any] = {}
    reasons: list[str] = []
    for field in fields:
        if field.key not in value:
            reasons += [f"{json_path(path)}: {field.key!r} is required"] if field.required else []
            continue
        try:
            arguments[field.name] = _decode(value[field.key], field.hint, (*path, field.key))
        except _Mismatch as mismatch:
            reasons += mismatch.reasons
    if reasons:
        raise _Mismatch(*reasons)
    arguments.pop("", None)
    return arguments


def _list(value: object, path: _Path) -> list[Any]:
    if not is_list(value):
        raise _mismatch(path, f"must be a list, got {_text(value)[:200]}")
    return value


def _tuple(value: object, hints: tuple[Any, ...], path: _Path) -> tuple[Any, ...]:
    items = _list(value, path)
    if len(items) != len(hints):
        raise _mismatch(path, f"must have {len(hints)} items, got {len(items)}")
    return tuple(
        _decode(item, hint, (*path, index)) for index, (item, hint) in enumerate(zip(items, hints, strict=True))
    )


def _map(value: object, hints: tuple[Any, ...], path: _Path) -> dict[Any, Any]:
    if not is_object(value):
        raise _mismatch(path, f"must be an object, got {_text(value)[:200]}")
    return {_key(key, hints[0], (*path, key)): _decode(item, hints[1], (*path, key)) for key, item in value.items()}


def _to_mapping(name: str, items: dict[Any, Any], hints: tuple[Any, ...]) -> dict[Any, Any]:
    """The items as the class of the hint; a defaultdict gets an empty value of its value type as default."""
    if name == "collections.OrderedDict":
        return OrderedDict(items)
    if name != "collections.defaultdict":
        return items
    kind = unwrap_hint(hints[1])[0] if hints else None
    empty = get_origin(kind) or kind
    return defaultdict(empty if isinstance(empty, type) else None, items)


def _key(key: str, hint: Any, path: _Path) -> Any:
    """A key; JSON has only text, so numbers are parsed from it."""
    kind, _ = unwrap_hint(hint)
    if (choices := choices_of(kind)) is not None:
        return _choice(key, choices, path, to_json=lambda choice: str(choice_value(choice)))
    if qualified_name(kind) in ("builtins.int", "builtins.float", "builtins.bool"):
        return _leaf(key, kind, path, strict=False)
    return _decode(key, hint, path)


def _pydantic(value: object, kind: Any, path: _Path) -> Any:
    from pydantic import ValidationError

    try:
        return kind.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise _Mismatch(*(f"{json_path((*path, *one['loc']))}: {one['msg']}" for one in problems)) from error
