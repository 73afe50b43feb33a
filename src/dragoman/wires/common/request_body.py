"""Decodes the JSON body of a client's request, with errors that name the field that is wrong."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import inf
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

import msgspec

from dragoman.errors import InvalidRequest, explain_validation
from dragoman.http import HttpRequest
from dragoman.types import JsonObject, Request, is_object
from dragoman.types.checks import shown
from dragoman.types.data_urls import decode_base64
from dragoman.types.json_size import find_excess
from dragoman.wires.common.item_cache import CachedRequest, RawItems
from dragoman.wires.common.json import DECODE_ERRORS

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
Bound: TypeAlias = tuple[str, str, float, float]
"""The name of an option, the dialect's name for it, the minimum and the maximum."""

MAX_INNER_DEPTH = 128
MAX_INNER_OBJECTS = 20_000
"""Of JSON that a field holds as text or in base64; a body may have as much by default."""
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def decode_request_json(http: HttpRequest, /) -> JsonObject:
    """The JSON object in the body of a request."""
    try:
        return _OBJECT.decode(http.body)
    except DECODE_ERRORS as error:
        hint = " (half of a surrogate pair: a string was cut inside a character)" if "surrogate" in str(error) else ""
        raise InvalidRequest(f"the body must be a JSON object: {error}{hint}") from error


def read_fields(into: type[T], data: object, where: str, /) -> tuple[T, JsonObject]:
    """The fields of an object that a type knows, validated, and its other fields as they are.

    >>> class Point(msgspec.Struct):
    ...     x: int
    >>> read_fields(Point, {"x": 1, "y": 2}, "$")
    (Point(x=1), {'y': 2})
    """
    try:
        fields = _convert(data, into)
    except msgspec.ValidationError as error:
        raise _invalid(error, where) from error
    names = _field_names(into)
    if not is_object(data) or data.keys() <= names:
        return fields, {}
    return fields, {key: value for key, value in data.items() if key not in names}


def read_body(
    into: type[T], http: HttpRequest, lists: Sequence[str], change: Callable[[JsonObject], JsonObject] | None = None, /
) -> tuple[T, JsonObject]:
    """The fields of a body that a type knows, validated, and its other fields as they are.

    `lists` are fields whose items go to `decode_items`. `change` is applied to the body first.
    """
    data, raw_lists = http.split(lists) if isinstance(http, CachedRequest) else (decode_request_json(http), {})
    fields, rest = read_fields(into, data if change is None else change(data), "body")
    for name, items in raw_lists.items():
        setattr(fields, name, items)
    return fields, rest


def decode_items(items: Sequence[JsonObject] | None, decode: Callable[[JsonObject, str], V], where: str, /) -> list[V]:
    """Decode the items of a list of a body, each by itself; `where` is its name.

    >>> decode_items([{"n": 1}, {"n": 2}], lambda item, place: (place, item["n"]), "items")
    [('items[0]', 1), ('items[1]', 2)]
    """
    if isinstance(items, RawItems):
        return items.cache.decode(items, decode, where)
    return [decode(item, f"{where}[{i}]") for i, item in enumerate(items or ())]


def _convert(data: object, into: type[T]) -> T:
    """Convert to a type that has int fields: 5.0 is accepted, because JSON has only one type of number."""
    try:
        return msgspec.convert(data, into)
    except msgspec.ValidationError:
        if not is_object(data):
            raise
        integers = {key: int(value) for key, value in data.items() if isinstance(value, float) and value.is_integer()}
        return msgspec.convert({**data, **integers}, into)


def _invalid(error: msgspec.ValidationError, where: str) -> InvalidRequest:
    path, reason = explain_validation(error)
    if reason == "is required":
        return missing_field(where + path)
    return invalid_field(where + path, reason, code="invalid_type" if ", got " in reason else "invalid_value")


@cache
def _field_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(struct.__struct_encode_fields__)


def invalid_field(where: str, why: str, /, *, code: str = "invalid_value") -> InvalidRequest:
    """The error for a field with a wrong value; `code` is one of OpenAI's.

    >>> invalid_field("messages[0].role", "must be user or assistant, got 'me'").param
    'messages[0].role'
    """
    where = where.removeprefix("body.")
    return InvalidRequest(name_field(where, why), code=code, param=where)


def name_field(where: str, why: str, /) -> str:
    """The message about a field: "x must be int", or "x: unknown" if the reason is not a sentence about the field.

    >>> name_field("top_p", "must be float, got str")
    'top_p must be float, got str'
    """
    return f"{where} {why}" if why.startswith(("must ", "is ", "has ")) else f"{where}: {why}"


def check_inner_json(data: bytes, where: str, /, *, objects: int = MAX_INNER_OBJECTS) -> None:
    """Raise `InvalidRequest` if JSON inside a field has too much of something: the limits of the body do not see it.

    >>> check_inner_json(b"[" * 999, "schema")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: schema is nested more than 128 levels deep; send less
    """
    excess = find_excess(data, depth=MAX_INNER_DEPTH, objects=objects)
    if excess is not None:
        raise invalid_field(where, f"{excess}; send less")


def decode_base64_field(text: str, where: str, /) -> bytes:
    """The bytes of a field in base64.

    >>> decode_base64_field("aGk=", "data")
    b'hi'
    """
    try:
        return decode_base64(text)
    except InvalidRequest as error:
        raise invalid_field(where, error.message) from error


def require_object(value: object, where: str, /) -> JsonObject:
    """The value of a field that must be an object.

    >>> require_object(3, "input[0]")
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: input[0] must be an object, got 3
    """
    if not is_object(value):
        raise invalid_field(where, f"must be an object, got {shown(value)}")
    return value


def missing_field(where: str, /) -> InvalidRequest:
    """The error for a required field that is absent."""
    where = where.removeprefix("body.")
    return InvalidRequest(f"{where} is required", code="missing_required_parameter", param=where)


def require_fields(fields: Mapping[str, object], /) -> None:
    """Raise `InvalidRequest` for the first field that is empty.

    >>> require_fields({"model": "m", "messages": ()})
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: messages is required
    """
    for name, value in fields.items():
        if not value:
            raise missing_field(name)


def make_request(bounds: Iterable[Bound], /, **fields: Any) -> Request:
    """A request; an option out of bounds is an error in the words of the dialect.

    >>> make_request([("temperature", "heat", 0, 2)], temperature=-1)
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: heat must be between 0 and 2, got -1
    """
    try:
        return Request(**fields)
    except InvalidRequest:
        check_bounds(SimpleNamespace(**fields), bounds)
        raise


def check_bounds(request: Request | SimpleNamespace, bounds: Iterable[Bound], /) -> None:
    """Raise `InvalidRequest` if an option is out of bounds."""
    for option, field, low, high in bounds:
        value = getattr(request, option, None)
        if value is not None and not low <= value <= high:
            expected = f"between {low} and {high}" if high < inf else f"at least {low}"
            raise invalid_field(field, f"must be {expected}, got {value}")
