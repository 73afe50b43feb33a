"""The OpenAPI document of the admin API, made from the table of operations."""

from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.gateway.management.operations import PREFIX, AdminOperation
from dragoman.types import JsonObject, is_list, is_object

VERSION = "1"
_REF = "#/components/schemas/{name}"
ERRORS: dict[int, str] = {
    400: "A parameter or the body is not valid; the message names the parameter.",
    401: "The key is missing, wrong, disabled or expired.",
    403: "The key does not have the role.",
    404: "There is nothing with this name.",
    405: "The path does not support this method.",
    408: "The body arrived too slowly.",
    409: "The name is in use.",
    413: "The body is too large.",
    415: "The encoding of the body is not supported.",
    503: "The store cannot be reached, or the gateway is busy.",
}


def document(operations: Sequence[AdminOperation], /) -> JsonObject:
    """The document."""
    types = {each for operation in operations for each in (operation.body, operation.result) if _is_struct(each)}
    _, components = msgspec.json.schema_components(sorted(types, key=lambda each: each.__name__), ref_template=_REF)
    paths: JsonObject = {}
    for operation in operations:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _operation(operation)
    error: JsonObject = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "code": {"type": ["string", "null"]},
                    "param": {"type": ["string", "null"]},
                    "request_id": {"type": "string"},
                },
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dragoman admin API", "version": VERSION, "description": "Manages a dragoman gateway."},
        "paths": paths,
        "components": {
            "schemas": {**{name: _plain(schema) for name, schema in components.items()}, "Error": error},
            "responses": {
                f"E{status}": {
                    "description": text,
                    "content": {"application/json": {"schema": {"$ref": _REF.format(name="Error")}}},
                }
                for status, text in ERRORS.items()
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _operation(operation: AdminOperation) -> JsonObject:
    parameters: list[JsonObject] = []
    if operation.has_name:
        text = {"type": "string", "minLength": 1}
        parameters.append({"name": "name", "in": "path", "required": True, "schema": text})
    if operation.query is not None:
        parameters += _query_parameters(operation.query)
    role = "any key" if operation.role is None else operation.role
    described: JsonObject = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"Needs the role: {role}.",
        "tags": [operation.id.partition(".")[0]],
        "parameters": parameters,
        "responses": {
            str(operation.status): {
                "description": "The result.",
                "content": {operation.content_type: {"schema": _schema(operation.result)}},
            },
            **{str(status): {"$ref": f"#/components/responses/E{status}"} for status in ERRORS},
        },
    }
    if operation.body is not None:
        schema = {"$ref": _REF.format(name=operation.body.__name__)}
        is_required = any(field.required for field in msgspec.structs.fields(operation.body))
        described["requestBody"] = {"required": is_required, "content": {"application/json": {"schema": schema}}}
    return described


def _query_parameters(query: type[msgspec.Struct]) -> list[JsonObject]:
    schema = msgspec.json.schema(query, ref_template=_REF)
    fields = schema["$defs"][query.__name__]["properties"] if "$defs" in schema else schema["properties"]
    return [{"name": name, "in": "query", "schema": _without_null(_plain(field))} for name, field in fields.items()]


def _schema(result: Any) -> JsonObject:
    return {"$ref": _REF.format(name=result.__name__)} if _is_struct(result) else msgspec.json.schema(result)


def _is_struct(type: Any) -> bool:
    return isinstance(type, msgspec.StructMeta)


def _without_null(schema: JsonObject) -> JsonObject:
    """The schema of a query parameter, which cannot be null."""
    if is_list(choices := schema.get("anyOf")):
        rest = [choice for choice in choices if choice != {"type": "null"}]
        schema = {**{name: value for name, value in schema.items() if name != "anyOf"}, **rest[0]}
    return {name: value for name, value in schema.items() if not (name == "default" and value is None)}


def _plain(schema: Any) -> Any:
    """A schema with descriptions of one line."""
    if is_list(schema):
        return [_plain(inner) for inner in schema]
    if not is_object(schema):
        return schema
    return {
        name: inner.partition("\n")[0] if name == "description" and isinstance(inner, str) else _plain(inner)
        for name, inner in schema.items()
    }
