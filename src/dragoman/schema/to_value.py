"""A JSON value and a type in, a value of that type out; where it does not fit, the reasons with their places."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, overload

import msgspec

from dragoman.errors import OutputError
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
_LISTS: dict[str, Callable[[Iterable[Any]], Any]] = {
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.tuple": tuple,
    "collections.deque": deque,
    "collections.abc.Set": frozenset,
    "collections.abc.MutableSet": set,
}
"""What is made of a list; a list where the hint says no more."""


class _Misfit(Exception):
    """A value that is not of its type: the reasons."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


@overload
def to_value(value: object, hint: type[T], /) -> T: ...
@overload
def to_value(value: object, hint: Any, /) -> Any: ...
def to_value(value: object, hint: Any, /) -> Any:
    """A JSON value as a value of a type, made by the type itself; OutputError where it does not fit.

    >>> to_value({"a": ["1999-12-31"]}, dict[str, tuple[str, ...]])
    {'a': ('1999-12-31',)}
    """
    try:
        return _decode(value, hint, ())
    except _Misfit as misfit:
        raise OutputError(
            f"not {name_of(hint)}: {'; '.join(misfit.reasons)}", text=_text(value), reasons=misfit.reasons
        ) from misfit.__cause__


def decode_arguments(
    arguments: JsonObject, function: Callable[..., Any], /, *, skip: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments of a call as the function's annotations want them; OutputError where one does not fit.

    >>> def tide(port: str, days: set[int] = frozenset()) -> str: ...
    >>> decode_arguments({"port": "Brest", "days": [1, 1]}, tide)
    {'port': 'Brest', 'days': {1}}
    """
    called = getattr(function, "__name__", "the function")
    try:
        return _fields(arguments, parameters(function, skip=skip), (), called)
    except _Misfit as misfit:
        why = f"not arguments of {called}: {'; '.join(misfit.reasons)}"
        raise OutputError(why, text=_text(arguments), reasons=misfit.reasons) from misfit.__cause__


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _misfit(path: _Path, why: str) -> _Misfit:
    return _Misfit(f"{json_path(path)}: {why}")


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
    made = qualified_name(origin or kind)
    if made.endswith(("dict", "Dict", "Mapping")):
        return _mapped(made, _map(value, arguments or (Any, Any), path), arguments)
    if made == "builtins.tuple" and origin is not None and arguments[-1:] != (Ellipsis,):
        return _tuple(value, arguments, path)
    if origin is not None or made in _LISTS or made == "builtins.list":
        item = arguments[0] if arguments else Any
        items = [_decode(one, item, (*path, index)) for index, one in enumerate(_listed(value, path))]
        return _LISTS.get(made, list)(items)
    return _leaf(value, kind, path)


def _leaf(value: object, kind: Any, path: _Path, *, strict: bool = True) -> Any:
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # to JSON, 5.0 is an integer
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _misfit(path, str(error)) from error


def _choice(value: object, choices: tuple[Any, ...], path: _Path, told: Callable[[Any], Any] = choice_value) -> Any:
    for choice in choices:
        plain = told(choice)
        if plain == value and isinstance(plain, bool) == isinstance(value, bool):
            return choice
    raise _misfit(path, f"{_text(value)} is none of {_text([told(choice) for choice in choices])}")


def _any_of(value: object, arms: tuple[Any, ...], path: _Path) -> Any:
    """The first arm that fits; of objects the one that has a place for the most keys."""
    misfits: list[_Misfit] = []
    for arm in sorted(arms, key=lambda arm: _strangers(value, arm)):
        try:
            return _decode(value, arm, path)
        except _Misfit as misfit:
            misfits.append(misfit)
    raise _Misfit(*dict.fromkeys(reason for misfit in misfits for reason in misfit.reasons))


def _strangers(value: object, arm: Any) -> int:
    """How many keys of a value an arm has no place for."""
    kind, _ = unwrap_hint(arm)
    if not is_object(value):
        return 0
    if is_pydantic(kind):
        known = {name for key, field in getattr(kind, "model_fields", {}).items() for name in (key, field.alias)}
    else:
        known = {field.key for field in fields_of(kind) or ()}
    return len(value.keys() - known)


def _object(value: object, kind: Any, fields: tuple[Field, ...], path: _Path) -> Any:
    told = _fields(value, fields, path, name_of(kind))
    made = get_origin(kind) or kind
    try:
        return made(**told)
    except (ValueError, TypeError, AssertionError) as error:
        raise _misfit(path, str(error)) from error


def _fields(value: object, fields: tuple[Field, ...], path: _Path, called: str) -> dict[str, Any]:
    if not is_object(value):
        raise _misfit(path, f"{_text(value)[:200]} is no object, as {called} is")
    told: dict[str, Any] = {}
    reasons: list[str] = []
    for field in fields:
        if field.key not in value:
            reasons += [f"{json_path(path)}: {field.key!r} is required"] if field.required else []
            continue
        try:
            told[field.name] = _decode(value[field.key], field.hint, (*path, field.key))
        except _Misfit as misfit:
            reasons += misfit.reasons
    if reasons:
        raise _Misfit(*reasons)
    told.pop("", None)
    return told


def _listed(value: object, path: _Path) -> list[Any]:
    if not is_list(value):
        raise _misfit(path, f"{_text(value)[:200]} is no list")
    return value


def _tuple(value: object, hints: tuple[Any, ...], path: _Path) -> tuple[Any, ...]:
    items = _listed(value, path)
    if len(items) != len(hints):
        raise _misfit(path, f"{len(items)} items, and not {len(hints)}")
    return tuple(
        _decode(item, hint, (*path, index)) for index, (item, hint) in enumerate(zip(items, hints, strict=True))
    )


def _map(value: object, hints: tuple[Any, ...], path: _Path) -> dict[Any, Any]:
    if not is_object(value):
        raise _misfit(path, f"{_text(value)[:200]} is no object")
    return {_key(key, hints[0], (*path, key)): _decode(item, hints[1], (*path, key)) for key, item in value.items()}


def _mapped(made: str, items: dict[Any, Any], hints: tuple[Any, ...]) -> dict[Any, Any]:
    """The items as the hint's own kind of dict; of what is not there, one that has a default makes an empty one."""
    if made == "collections.OrderedDict":
        return OrderedDict(items)
    if made != "collections.defaultdict":
        return items
    kind = unwrap_hint(hints[1])[0] if hints else None
    empty = get_origin(kind) or kind
    return defaultdict(empty if isinstance(empty, type) else None, items)


def _key(key: str, hint: Any, path: _Path) -> Any:
    """A key: JSON has only text, so numbers are read from it."""
    kind, _ = unwrap_hint(hint)
    if (choices := choices_of(kind)) is not None:
        return _choice(key, choices, path, told=lambda choice: str(choice_value(choice)))
    if qualified_name(kind) in ("builtins.int", "builtins.float", "builtins.bool"):
        return _leaf(key, kind, path, strict=False)
    return _decode(key, hint, path)


def _pydantic(value: object, kind: Any, path: _Path) -> Any:
    from pydantic import ValidationError

    try:
        return kind.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False, include_input=False)
        raise _Misfit(*(f"{json_path((*path, *one['loc']))}: {one['msg']}" for one in told)) from error
