"""Converts the OpenAPI schemas of Google's clients (types in capitals, `nullable`) to JSON Schema."""

from collections.abc import Callable
from typing import Any

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.google.schema import camel_name

_RENAMED = {"ref": "$ref", "defs": "$defs", "example": "examples"}
_COUNTS = frozenset("minItems maxItems minLength maxLength minProperties maxProperties".split())


def from_openapi(schema: JsonObject, /) -> JsonObject:
    """The JSON Schema of an OpenAPI schema.

    >>> from_openapi({"type": "STRING", "nullable": True, "min_length": "2"})
    {'type': ['string', 'null'], 'minLength': 2}
    """
    try:
        return _convert(schema)
    except RecursionError as error:
        raise InvalidRequest("a schema is nested too deeply; flatten it") from error


def _convert(schema: JsonObject) -> JsonObject:
    plain: JsonObject = {}
    for key, value in schema.items():
        keyword = camel_name(key)
        keyword = _RENAMED.get(keyword, keyword)
        if value is not None:
            plain[keyword] = _KEYWORDS.get(keyword, _same)(value)
    if plain.get("format") == "enum":
        del plain["format"]
    return _with_null(plain) if plain.pop("nullable", False) is True else plain


def _with_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    values = schema.get("enum")
    enum = {"enum": [*values, None]} if is_list(values) and None not in values else {}
    return {**schema, "type": [kind, "null"], **enum}


def _same(value: Any) -> Any:
    return value


def _type(value: Any) -> Any:
    return [_type(one) for one in value] if is_list(value) else str(value).lower()


def _count(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _one(value: Any) -> Any:
    return _convert(value) if is_object(value) else value


def _many(value: Any) -> Any:
    return [_one(item) for item in value] if is_list(value) else value


def _named(value: Any) -> Any:
    return {name: _one(item) for name, item in value.items()} if is_object(value) else value


def _ref(value: Any) -> Any:
    return value.replace("#/defs/", "#/$defs/") if isinstance(value, str) else value


_KEYWORDS: dict[str, Callable[[Any], Any]] = {
    "type": _type,
    "examples": lambda value: value if is_list(value) else [value],
    "$ref": _ref,
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(("items", "additionalProperties", "not"), _one),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _many),
    **dict.fromkeys(("properties", "$defs"), _named),
}
