"""Writes tables as TOML: the standard library only reads it."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.types import is_list, is_object


def encode_toml(tables: Mapping[str, Any], /) -> str:
    """Tables as TOML.

    >>> print(encode_toml({"aliases": {"fast": "groq/llama"}, "pools": {"a.b": {"weights": {"x/y": 2}}}}), end="")
    [aliases]
    fast = "groq/llama"
    <BLANKLINE>
    [pools."a.b"]
    weights = { "x/y" = 2 }
    """
    blocks: list[str] = []
    for name, table in tables.items():
        plain = {field: value for field, value in table.items() if not is_object(value)}
        if plain:
            blocks.append(_table(_key(name), plain))
        blocks += [_table(f"{_key(name)}.{_key(field)}", inner) for field, inner in table.items() if is_object(inner)]
    return "\n".join(blocks)


def _table(name: str, fields: Mapping[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{_key(field)} = {_value(value)}\n" for field, value in fields.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if is_object(value):
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if is_list(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    # The texts, numbers and booleans of JSON are those of TOML, except for DEL.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
