"""Counts the structure of JSON before it is decoded: the decoder lets no other thread run, so it must not take long."""

import re
from typing import Any

from dragoman.types.base import is_list, is_object

MAX_KEYS = 100_000
MAX_VALUES = 1_000_000
MAX_EXPONENTS = 1000
"""Numbers whose exponent has three digits: msgspec (0.22) takes up to 50 µs for one beyond 1e295 or below 1e-305."""
_SIGN = re.compile(rb'["{}:,]|[][]|[eE][-+]?[0-9]{3}')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.){1,4096}+', re.DOTALL)
"""A piece of a string: a longer match would let no other thread run."""
_SMALL = 16 * 1024
_QUICK_SIZE = 2 * 1024 * 1024
_QUICK_QUOTES = 200_000
"""Bytes and quotes of JSON that is looked at as a whole, which lets no other thread run for some milliseconds."""
_QUICK_ESCAPES = 5000
"""Escapes that are cut out one by one; more are replaced in two passes, which takes longer if there are few."""
_NO_SIGNS = bytes(byte for byte in range(256) if byte not in b"{}[]:,")
_BRACES = bytes.maketrans(b"[]", b"{}")


def find_excess(
    data: bytes, /, *, depth: int, objects: int, keys: int = MAX_KEYS, values: int = MAX_VALUES
) -> str | None:
    """What JSON has too much of; None if it is within the limits.

    >>> find_excess(b'{"a": [[1]]}', depth=2, objects=9), find_excess(b'{"a": "[[[["}', depth=2, objects=9)
    ('is nested more than 2 levels deep', None)
    """
    # A cheap count first: signs inside strings count, too. It is not cheap for long texts.
    most = min(keys, values)
    if (
        len(data) <= _SMALL
        and data.count(b"{") + data.count(b"[") <= min(depth, objects)
        and (len(data) < most or data.count(b",") < most)
    ):
        return None
    if _is_within(data, depth, objects, keys, values):
        return None
    level = opened = colons = commas = strings = exponents = position = 0
    # A loop of short matches: other threads run between its steps.
    while (sign := _SIGN.search(data, position)) is not None:
        position = sign.end()
        match sign[0]:
            case b'"':
                strings += 1
                if strings > 1 + opened + colons + commas:
                    return None  # two strings with nothing in between: the decoder stops here
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
            case b"}" | b"]":
                level -= 1
            case _:
                exponents += 1
                if exponents > MAX_EXPONENTS:
                    return f"has more than {MAX_EXPONENTS} numbers with an exponent of three digits"
    return None


def _is_within(data: bytes, depth: int, objects: int, keys: int, values: int) -> bool:
    """Whether JSON is certainly within the limits: a few operations on all bytes instead of a step for each sign.

    A request of 400 kB has ten thousand signs, and a step for each takes longer than all the rest of its translation.
    Here the strings are cut out, then all bytes but the signs; a pass removes the innermost brackets, so the number of
    passes is the depth.
    """
    if len(data) > _QUICK_SIZE:
        return False
    pieces = _without_escapes(data).split(b'"', _QUICK_QUOTES)
    if len(pieces) > _QUICK_QUOTES:
        return False
    outside = b"".join(pieces[::2])
    exponents = outside.count(b"e") + outside.count(b"E") - outside.count(b"true") - outside.count(b"false")
    if exponents > MAX_EXPONENTS:
        return False
    signs = outside.translate(_BRACES, _NO_SIGNS)
    if signs.count(b"{") > objects or signs.count(b":") > keys or signs.count(b",") > values:
        return False
    brackets = signs.translate(None, b":,")
    for _ in range(depth):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"")
        if not brackets or len(brackets) == before:
            break
    return not brackets


def _without_escapes(data: bytes) -> bytes:
    """JSON without its escaped quotes and backslashes, and maybe without other escaped signs."""
    pieces = data.split(b"\\", _QUICK_ESCAPES)
    if len(pieces) == 1:
        return data
    if len(pieces) > _QUICK_ESCAPES:
        return data.replace(b"\\\\", b"").replace(b'\\"', b"")
    rest = iter(pieces)
    unescaped = [next(rest)]
    # The first byte of a piece is escaped; an empty piece is an escaped backslash.
    unescaped += [piece[1:] if piece else next(rest, b"") for piece in rest]
    return b"".join(unescaped)


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
