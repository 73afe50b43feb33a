"""The body that a client sent in, what we know of it out; where it is wrong, a refusal with the place."""

import re
from collections.abc import Iterable
from functools import cache
from math import inf
from typing import Any, TypeVar

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Request, is_object
from dragoman.wires.common.json import DECODE_ERRORS

T = TypeVar("T", bound=msgspec.Struct)


def read_fields(shape: type[T], data: object, where: str, /) -> tuple[T, JsonObject]:
    """What we know of an object that a client sent, checked, and the rest of it verbatim.

    >>> class Point(msgspec.Struct):
    ...     x: int
    >>> read_fields(Point, {"x": 1, "y": 2}, "$")
    (Point(x=1), {'y': 2})
    """
    try:
        known = _convert(data, shape)
    except msgspec.ValidationError as error:
        raise _unfit(error, where) from error
    fields = _fields(shape)
    if not is_object(data) or data.keys() <= fields:
        return known, {}
    return known, {key: value for key, value in data.items() if key not in fields}


def _convert(data: object, shape: type[T]) -> T:
    """A value of a shape; 5.0 is a whole number, as JSON has one kind of number only."""
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError:
        if not is_object(data):
            raise
        whole = {key: int(value) for key, value in data.items() if isinstance(value, float) and value.is_integer()}
        return msgspec.convert({**data, **whole}, shape)


def _unfit(error: msgspec.ValidationError, where: str) -> InvalidRequest:
    reason, _, path = str(error).partition(" - at `$")
    place = where + path.rstrip("`")
    if absent := _MISSING.fullmatch(reason):
        return missing_field(f"{place}.{absent[1]}")
    return invalid_field(place, reason, code="invalid_type" if ", got " in reason else "invalid_value")


_MISSING = re.compile("Object missing required field `(.+)`")


def invalid_field(where: str, why: str, /, *, code: str = "invalid_value") -> InvalidRequest:
    """The refusal of a field that a client sent; the code is one of OpenAI's.

    >>> invalid_field("messages[0].role", "it is none of user, assistant").param
    'messages[0].role'
    """
    where = where.removeprefix("body.")
    error = InvalidRequest(f"{where}: {why}", code=code)
    error.param = where
    return error


def check_bounds(request: Request, bounds: Iterable[tuple[str, str, float, float]], /) -> None:
    """Refuse an option that is out of bounds; they are its name, the dialect's name for it, the least and the most.

    >>> check_bounds(Request(temperature=1.0), [("temperature", "heat", 0, 2)])
    """
    for option, field, least, most in bounds:
        value = getattr(request, option)
        if value is not None and not least <= value <= most:
            raise invalid_field(field, f"it must be at least {least}" + (f" and at most {most}" if most < inf else ""))


def missing_field(field: str, /) -> InvalidRequest:
    """The refusal of a request without a field that it must have.

    >>> missing_field("messages").message
    'messages: it is required'
    """
    return invalid_field(field, "it is required", code="missing_required_parameter")


@cache
def _fields(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(shape.__struct_encode_fields__)


def decode_request_json(http: HttpRequest, /) -> JsonObject:
    """The JSON object that a client sent.

    >>> decode_request_json(HttpRequest(method="POST", path="/", body=b"{}"))
    {}
    """
    try:
        return _OBJECT.decode(http.body)
    except DECODE_ERRORS as error:
        half = " (half of a character, as where a text was cut; send it whole)" if "surrogate" in str(error) else ""
        raise InvalidRequest(f"the body is not a JSON object: {error}{half}") from error


_OBJECT = msgspec.json.Decoder(dict[str, Any])
