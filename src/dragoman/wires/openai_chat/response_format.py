"""The `response_format` of a client's request."""

from typing import Any

from dragoman.schema.strict import is_strict
from dragoman.types import JsonObject, is_object
from dragoman.wires.common.json import without_none


def decode_format(data: JsonObject) -> dict[str, Any]:
    """The fields of `Request` for a format."""
    if data.get("type") == "json_object":
        return {"schema": data["schema"] if is_object(data.get("schema")) else {}}
    inner = _json_schema(data)
    if inner is None:
        return {}
    name, strict = inner.get("name"), inner.get("strict")
    return {
        "schema": inner["schema"],
        "schema_name": name if isinstance(name, str) else "response",
        "schema_strict": strict if isinstance(strict, bool) else None,
    }


def format_extra(data: JsonObject) -> JsonObject:
    """The response format verbatim, if `Request` would not give the same format again."""
    inner = _json_schema(data)
    if inner is None:
        plain = data.keys() <= {"type"} and data.get("type") in (None, "text", "json_object")
    else:
        plain = is_covered_format(data) and (not inner.get("strict") or is_strict(inner["schema"]))
    return {} if plain else {"response_format": data}


def is_covered_format(data: JsonObject) -> bool:
    """Whether `Request` has the whole meaning of a format."""
    inner = _json_schema(data)
    if inner is None:
        return data.keys() == {"type", "schema"} and data["type"] == "json_object" and is_object(data["schema"])
    fields = without_none(inner)
    known = data.keys() <= {"type", "json_schema"} and fields.keys() <= {"name", "schema", "strict"}
    return known and isinstance(fields.get("strict", False), bool)


def _json_schema(data: JsonObject) -> JsonObject | None:
    inner = data.get("json_schema")
    if data.get("type") != "json_schema" or not is_object(inner) or not is_object(inner.get("schema")):
        return None
    return inner
