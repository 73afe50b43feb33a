"""Counts the structure of JSON before it is decoded: the decoder lets no other thread run, so it must not take long."""

import re
from typing import Any

from dragoman.types.base import is_list, is_object

MAX_KEYS = 100_000
MAX_VALUES = 1_000_000
_SIGN = re.compile(rb'["{}:,]|[][]')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.){1,4096}+', re.DOTALL)
"""A piece of a string: a longer match would let no other thread run."""


def find_excess(
    data: bytes, /, *, depth: int, objects: int, keys: int = MAX_KEYS, values: int = MAX_VALUES
) -> str | None:
    """What JSON has too much of; None if it is within the limits.

    >>> find_excess(b'{"a": [[1]]}', depth=2, objects=9), find_excess(b'{"a": "[[[["}', depth=2, objects=9)
    ('is nested more than 2 levels deep', None)
    """
    # A cheap count first: signs inside strings count, too.
    if data.count(b"{") + data.count(b"[") <= min(depth, objects) and data.count(b",") < min(keys, values):
        return None
    level = opened = colons = commas = position = 0
    # A loop of short matches: other threads run between its steps.
    while (sign := _SIGN.search(data, position)) is not None:
        position = sign.end()
        match sign[0]:
            case b'"':
                while (piece := _IN_STRING.match(data, position)) is not None:
                    position = piece.end()
                position += 1
            case b"{" | b"[":
                opened += 1
                level += 1
                if level > depth:
                    return f"is nested more than {depth} levels deep"
                if opened > objects:
                    return f"has more than {objects} objects and lists"
            case b":":
                colons += 1
                if colons > keys:
                    return f"has more than {keys} keys"
            case b",":
                commas += 1
                if commas > values:
                    return f"has more than {values} values"
            case _:
                level -= 1
    return None


def count_values(value: Any, most: int, /) -> int:
    """The number of values in a JSON value, without an end beyond `most`.

    >>> count_values({"a": [1, 2]}, 100), count_values([[1, 2], [3]], 2)
    (3, 2)
    """
    count = 0
    open_values: list[Any] = [value]
    while open_values and count < most:
        inner = open_values.pop()
        if is_object(inner) or is_list(inner):
            items: list[Any] = list(inner.values()) if is_object(inner) else [*inner]
            count += len(items)
            open_values += items[: most - count] if count < most else ()
    return min(count, most)
