"""JSON values: what an encoder would change silently, such as NaN, is refused; numbers as JavaScript writes them."""

from math import isfinite
from typing import Any, cast

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types.base import dump_model, is_list, is_object
from dragoman.types.checks import shown


def encode_value(parameter: str, value: Any, expected: str, /) -> bytes:
    """The JSON of a value; InvalidRequest if JSON cannot express it.

    >>> encode_value("content", {"metres": 4.2}, "any JSON value")
    b'{"metres":4.2}'
    """
    try:
        data = msgspec.json.encode(value, enc_hook=dump_model)
        # The encoder writes null for NaN, and quotes keys that are numbers.
        wrong = not_json(value) if b"null" in data or b'":' in data else None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        reason = "a list or dict that contains itself" if isinstance(error, RecursionError) else str(error)
        raise InvalidRequest(
            f"{parameter} must be {expected}, got {shown(value)}; JSON cannot express it: {reason}", param=parameter
        ) from error
    if wrong is not None:
        raise InvalidRequest(f"{parameter} must be {expected}, got {wrong} in it", param=parameter)
    return data


def not_json(value: object, /) -> str | None:
    """What JSON cannot express in a value and an encoder changes silently: a number, or a key that is not a str.

    >>> not_json({"a": [float("inf")]}), not_json({"a": [1]})
    ('inf', None)
    """
    if isinstance(value, float):
        return None if isfinite(value) else repr(value)
    if is_object(value):
        keys = (None if isinstance(key, str) else f"the key {shown(key)}" for key in list[Any](value))
        return next((wrong for wrong in (*keys, *map(not_json, value.values())) if wrong is not None), None)
    if isinstance(value, list | tuple):
        return next((wrong for wrong in map(not_json, cast("list[Any]", value)) if wrong is not None), None)
    return None


def plain_numbers(value: object, /) -> object:
    """A JSON value as clients in JavaScript write it: 1.0 is 1.

    >>> plain_numbers({"depth": [1.0, 1.5]})
    {'depth': [1, 1.5]}
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_list(value):
        return [plain_numbers(each) for each in value]
    return {name: plain_numbers(each) for name, each in value.items()} if is_object(value) else value
