"""Examples of the types in a union of an official SDK: one with the required fields only, and one with all fields."""

import enum
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
import typing_extensions

_WORDS: dict[str, str] = {"arguments": '{"a":1}', **dict.fromkeys(("data", "result", "file_data"), "aGk=")}
_PLAIN: dict[Any, Any] = {int: 7, float: 0.5, bool: True, bytes: "aGk=", datetime: "2026-01-01T00:00:00Z"}
_DEPTH = 6
_WRAPPERS = (
    Annotated,
    typing.Required,
    typing.NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)


def examples(union: Any) -> Iterator[tuple[str, Any]]:
    """Each member of a union, once with what it must have, and with all that it may have for each of its arms."""
    for member in _members(union):
        seen: list[Any] = []
        for arm in range(-1, 6):
            example = _example(member, 0, arm, "")
            if example not in seen:
                seen.append(example)
                yield f"{member.__name__}{len(seen)}", example


def _members(union: Any) -> list[Any]:
    if get_origin(union) is Annotated:
        return _members(get_args(union)[0])
    if get_origin(union) in (Union, types.UnionType):
        return [member for arm in get_args(union) for member in _members(arm)]
    return [union]


def _example(kind: Any, depth: int, arm: int, name: str) -> Any:
    """A value of a type; `arm` is which of several is taken, and -1 is the least that there may be."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in _WRAPPERS:
        return _example(args[0], depth, arm, name)
    if origin in (Union, types.UnionType):
        arms = [inner for inner in args if inner is not type(None)]
        return _example(arms[min(max(arm, 0), len(arms) - 1)], depth, arm, name)
    if origin is Literal:
        return args[0]
    if origin is dict:
        return {"7": _example(args[1], depth + 1, arm, name)} if arm >= 0 and depth < _DEPTH else {}  # also a token id
    if origin is not None:
        return [_example(args[0], depth + 1, arm, name)] if depth < _DEPTH else []
    fields = _fields(kind, arm) if depth <= _DEPTH else {}
    return {key: _example(inner, depth + 1, arm, key) for key, inner in fields.items()} or _scalar(kind, name)


def _fields(kind: Any, arm: int) -> dict[str, Any]:
    if typing_extensions.is_typeddict(kind):
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        required: tuple[Any, ...] = (typing.Required, typing_extensions.Required)
        return {key: hint for key, hint in hints.items() if arm >= 0 or get_origin(hint) in required}
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        known = kind.model_fields.items()
        return {f.alias or name: f.annotation for name, f in known if arm >= 0 or f.is_required()}
    return {}


def _scalar(kind: Any, name: str) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is str:
        return "https://example.org/a.png" if name.endswith(("url", "uri")) else _WORDS.get(name, f"{name}_x")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[-1].value
    return {}
