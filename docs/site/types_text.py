"""Types as text: as Python writes them, and in words for the settings of a file."""

import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin

import msgspec

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", datetime: "date and time"}


def python_type(hint: Any) -> str:
    """A type without the names of modules and without the limits of msgspec: `Literal["a", "b"] | None`."""
    if isinstance(hint, str | ForwardRef):
        return hint if isinstance(hint, str) else hint.__forward_arg__
    if hint in (None, types.NoneType):
        return "None"
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return python_type(args[0])
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(python_type, args)))
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, args))}]"
    if isinstance(hint, list):  # the parameters of a Callable
        return f"[{', '.join(map(python_type, hint))}]"
    if hint is Ellipsis:
        return "..."
    name: str = getattr(hint, "__name__", None) or repr(hint).rpartition(".")[2]
    return f"{name}[{', '.join(map(python_type, args))}]" if args else name


def toml_type(hint: Any, *, plural: bool = False) -> str:
    """A type in the words of a TOML file, where nothing is None: `list of texts`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return toml_type(args[0], plural=plural)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(toml_type(arg, plural=plural) for arg in args if arg is not types.NoneType))
    if origin is Literal:
        *first, last = (f"`{_quoted(value)}`" for value in args)
        return f"{', '.join(first)} or {last}" if first else last
    if origin is tuple:
        return f"list{'s' if plural else ''} of {toml_type(args[0], plural=True)}"
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "table" if args[1] is Any else f"table of {toml_type(args[1], plural=True)}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "tables" if plural else "table"
    if origin is Callable:
        raise TypeError(f"{hint} cannot be in a file")
    word = _WORDS[hint]
    return f"{word}s" if plural and hint is not bool else word


def toml_value(value: Any) -> str:
    """A default as it would be in a TOML file; `not set` for None."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}" if value >= 10_000 else str(value)
        case float():
            return f"{value:g}" if value < 10_000 else f"{value:,.0f}".replace(",", "_")
        case str():
            return _quoted(value)
        case tuple() | list():
            return f"[{', '.join(map(toml_value, value))}]"
        case msgspec.Struct():
            return "{}"
        case _:
            return "{}" if not value else str(value)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
