"""Turns the validation errors of msgspec into messages of our form: `port must be a whole number >= 1, got 0`."""

import re
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.wires.common.json import DECODE_ERRORS

S = TypeVar("S")

MAX_TEXT = 12
"""Characters of a text that a message shows; keys are longer."""
_WORDS: tuple[tuple[type[inspect.Type] | tuple[type[inspect.Type], ...], str], ...] = (
    (inspect.BoolType, "true or false"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.StrType, "a text"),
    (inspect.DateTimeType, "a time such as 2027-01-31T00:00:00Z"),
    ((inspect.CollectionType, inspect.TupleType), "a list"),
    ((inspect.DictType, inspect.StructType), "a table"),
)


def describe_mismatch(error: msgspec.ValidationError, value: object, type: object, /) -> str:
    """What is wrong with a value, to follow its name.

    >>> try:
    ...     msgspec.convert([1, "x"], list[int])
    ... except msgspec.ValidationError as error:
    ...     f"sizes{describe_mismatch(error, [1, 'x'], list[int])}"
    "sizes[1] must be a whole number, got 'x'"
    """
    reason, _, path = str(error).replace("`", "").partition(" - at $")
    if reason.startswith(("Object missing required field ", "Object contains unknown field ")):
        field = reason.rpartition(" ")[2]
        return f"{path}.{field} is required" if "missing" in reason else f"{path}.{field} is not a known field"
    if not reason.startswith(("Expected ", "Invalid enum value ")):
        return f"{path}: {reason}"
    info = inspect.type_info(type)
    for index, field in re.findall(r"\[(\d+)\]|\.(\w+)", path):
        info = _inner_type(info, field)
        value = cast("Any", value)[int(index) if index else field]
    return f"{path} must be {_expected(info, value)}, got {_show(value)}"


def decode_query(http: HttpRequest, type: type[S], /) -> S:
    """The query of a path as a struct; raises InvalidRequest."""
    fields = dict(parse_qsl(http.path.partition("?")[2], keep_blank_values=True))
    if "key" not in getattr(type, "__struct_fields__", ()):
        fields.pop("key", None)  # the API key of a client
    try:
        return msgspec.convert(fields, type, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, fields, type) from error


def decode_json(body: bytes, type: type[S], /) -> S:
    """A JSON body as a value; raises InvalidRequest."""
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise InvalidRequest(f"the body must be JSON: {error}") from error
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        raise _invalid(error, value, type) from error


def _invalid(error: msgspec.ValidationError, value: object, type: object) -> InvalidRequest:
    problem = describe_mismatch(error, value, type)
    field = re.match(r"\.(\w+)", problem)
    return InvalidRequest(problem[1:] if field else f"the body{problem}", param=field[1] if field else None)


def _show(value: object) -> str:
    """The value for a message. A long text is not shown: it may be a key in the wrong place."""
    match value:
        case str() if len(value) > MAX_TEXT:
            return f"a text of {len(value)} characters"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case _:
            return repr(value)


def _without_null(info: inspect.Type) -> inspect.Type:
    if isinstance(info, inspect.UnionType):
        return next(each for each in info.types if not isinstance(each, inspect.NoneType))
    return info


def _inner_type(info: inspect.Type, field: str) -> inspect.Type:
    """The type of a field, or of the items of a list."""
    match _without_null(info):
        case inspect.StructType(fields=fields):
            return next(each.type for each in fields if each.encode_name == field)
        case inspect.CollectionType(item_type=item):
            return item
        case other:
            return other


def _expected(info: inspect.Type, value: object) -> str:
    info = _without_null(info)
    if isinstance(info, inspect.LiteralType):
        *others, last = map(str, info.values)
        return f"{', '.join(others)} or {last}" if others else last
    words = next((words for kinds, words in _WORDS if isinstance(info, kinds)), "another value")
    if isinstance(info, inspect.Metadata):
        schema = cast("dict[str, str]", info.extra_json_schema or {})  # pyright: ignore[reportUnknownMemberType]
        words, info = schema.get("title", words), info.type
    return words + _bound(info, value)


def _bound(info: inspect.Type, value: object) -> str:
    """The limit of a number that its value exceeds; the lower limit if the value is not a number."""
    if not isinstance(info, inspect.IntType | inspect.FloatType):
        return ""
    if info.le is not None and isinstance(value, int | float) and value > info.le:
        return f" <= {info.le:g}"
    if info.gt is not None:
        return f" > {info.gt:g}"
    return "" if info.ge is None else f" >= {info.ge:g}"
