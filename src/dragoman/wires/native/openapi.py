"""The OpenAPI document of the native protocol, made from the tables of `schema`."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

import msgspec

from dragoman.types import (
    HostedTool,
    JsonObject,
    ModelInfo,
    Notice,
    is_list,
    is_object,
)
from dragoman.wires.native.problems import Problem
from dragoman.wires.native.schema import (
    CALL_FIELDS,
    CALLED_FIELDS,
    CONTENT_PARTS,
    FUNCTION_FIELDS,
    MESSAGE_FIELDS,
    PATH,
    REQUEST_FIELDS,
    REQUIRED_FIELDS,
    TOOL_FIELDS,
    NativeUsage,
)

VERSION = "1"
FIELDS: dict[str, str] = {
    "messages": "The conversation so far. Answers can be sent back unchanged.",
    "model": "The model: provider/model, an alias, or several of them separated by commas and tried in turn.",
    "tier": "A tier of models instead of a model; the default is `simple`.",
    "temperature": "Randomness of the answer, from 0 to 2.",
    "max_tokens": "Maximum number of tokens in the answer.",
    "top_p": "Nucleus sampling: the share of the most likely tokens to choose from, from 0 to 1.",
    "stop": "One string, or up to four, at which the answer ends.",
    "stream": "Whether to stream the answer as server-sent events.",
    "conversation_id": "Keeps a conversation on one model and remembers the ids of its calls.",
    "tools": "Functions that the model can call, and tools that the provider runs.",
    "tool_choice": "auto, none, required, or one function by name.",
    "schema": "A JSON Schema that the text of the answer satisfies.",
    "schema_name": "The name of the schema.",
    "reasoning": "How much the model thinks: an effort level, or a budget in tokens.",
    "cache": "Whether the provider caches the prompt.",
    "cache_ttl": "How long the provider caches the prompt, in seconds.",
}
"""The description of each field of a request."""
ERRORS: dict[int, str] = {
    400: "The request is not valid; `problems` lists each problem with its place.",
    401: "The key is missing or wrong.",
    403: "The key does not have permission.",
    404: "The model or the path does not exist.",
    405: "The path does not support this method.",
    408: "The body arrived too slowly.",
    413: "The body is too large.",
    415: "The encoding of the body is not supported.",
    422: "No target supports the request.",
    429: "Too many requests, or no credit. Retry-After says when to retry.",
    500: "The gateway failed.",
    502: "A provider failed.",
    503: "No target is available. Retry-After says when to retry.",
    504: "No answer came in time.",
}
"""The description of each error status."""
_COMPONENTS = {NativeUsage.__name__: "Usage"}
_NULL: JsonObject = {"type": "null"}
_HOSTED = tuple(kind.__name__ for kind in get_args(HostedTool))
_REF = "#/components/schemas/{name}"


def document() -> JsonObject:
    """The OpenAPI document."""
    errors = {str(status): {"$ref": f"#/components/responses/E{status}"} for status in ERRORS}
    chat = {
        "operationId": "complete",
        "summary": "Generate an answer",
        "parameters": [_header("X-Dragoman-Tool-Ids", "The ids of calls, from the same header of an earlier answer.")],
        "requestBody": {"required": True, "content": _json("Request")},
        "responses": {"200": _answer(), **errors},
    }
    models = {
        "operationId": "models",
        "summary": "List the models",
        "responses": {"200": {"description": "The models.", "content": _json("Models")}, **errors},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dragoman", "version": VERSION, "description": "One API for all models."},
        "paths": {f"{PATH}/chat/completions": {"post": chat}, f"{PATH}/models": {"get": models}},
        "components": {
            "schemas": _schemas(),
            "responses": {
                f"E{status}": {"description": text, "content": _json("Error")} for status, text in ERRORS.items()
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _answer() -> JsonObject:
    stream = "A chunk as JSON; at the end [DONE], or an error after a failure."
    data: JsonObject = {"data": {"type": "string", "description": stream}}
    events: JsonObject = {"schema": {"type": "object", "properties": data, "required": ["data"]}}
    headers = {
        "X-Dragoman-Target": "The target that answered.",
        "X-Dragoman-Tier": "The requested tier.",
        "X-Dragoman-Attempts": "The number of attempts.",
        "X-Dragoman-Tool-Ids": "The ids of calls, if there is no conversation_id; send them back.",
        "X-Request-Id": "The id of this request in the logs.",
    }
    described: JsonObject = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()
    }
    content = {**_json("Completion"), "text/event-stream": events}
    return {"description": "The answer.", "headers": described, "content": content}


def _json(name: str) -> JsonObject:
    return {"application/json": {"schema": _ref(name)}}


def _ref(name: str) -> JsonObject:
    return {"$ref": _REF.format(name=name)}


def _header(name: str, description: str) -> JsonObject:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


def _schemas() -> JsonObject:
    _, components = msgspec.json.schema_components(
        (*CONTENT_PARTS["assistant"], *get_args(HostedTool), ModelInfo, Notice, Problem, NativeUsage), ref_template=_REF
    )
    for name in _HOSTED:
        del components[name]["properties"]["fallback"]  # a function, which has no JSON
    models: JsonObject = {"object": {"const": "list"}, "data": {"type": "array", "items": _ref("ModelInfo")}}
    return {
        **{_COMPONENTS.get(name, name): _with_short_descriptions(schema) for name, schema in components.items()},
        **_messages(),
        "Request": _request(),
        "Tool": _object(TOOL_FIELDS, required=("type", "function"), known={"function": _ref("Function")}),
        "Function": _object(FUNCTION_FIELDS, required=("name", "description", "parameters")),
        "Call": _object(CALL_FIELDS, required=("id", "function"), known={"function": _ref("Called")}),
        "Called": _object(CALLED_FIELDS, required=("name",)),
        "Completion": _completion(),
        "Models": {"type": "object", "properties": models, "required": ["object", "data"]},
        "Error": _error(),
    }


def _messages() -> JsonObject:
    calls: JsonObject = {"tool_calls": {"type": "array", "items": _ref("Call")}}
    messages: JsonObject = {
        f"{role.capitalize()}Message": _object(
            kinds, required=REQUIRED_FIELDS[role], known={**calls, "role": {"const": role}, "content": _content(role)}
        )
        for role, kinds in MESSAGE_FIELDS.items()
    }
    # A result is required and may be any JSON, including null.
    result = messages["ToolMessage"]
    result["properties"]["content"] = {}
    result["required"].append("content")
    return messages


def _content(role: str) -> JsonObject:
    parts: JsonObject = {"anyOf": [_ref(part.__name__) for part in CONTENT_PARTS.get(role, ())]}
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": parts}]}


def _request() -> JsonObject:
    turns: JsonObject = {"anyOf": [_ref(f"{role.capitalize()}Message") for role in MESSAGE_FIELDS]}
    known = {
        "messages": {"type": "array", "minItems": 1, "items": turns},
        "tools": {"type": "array", "items": {"anyOf": [_ref(name) for name in ("Tool", *_HOSTED)]}},
    }
    request = _object(REQUEST_FIELDS, required=("messages",), known=known)
    for name, text in FIELDS.items():
        request["properties"][name]["description"] = text
    return request


def _object(kinds: Mapping[str, Any], *, required: Collection[str], known: JsonObject | None = None) -> JsonObject:
    """An object with exactly these fields; optional fields may be null."""
    fields: JsonObject = {name: (known or {}).get(name) or _schema(kind) for name, kind in kinds.items()}
    properties = {name: field if name in required else {"anyOf": [field, _NULL]} for name, field in fields.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }


def _schema(kind: Any) -> JsonObject:
    return {**_with_short_descriptions(msgspec.json.schema(kind))}


def _with_short_descriptions(schema: Any) -> Any:
    """A schema with descriptions of one line; msgspec takes them from docstrings with examples."""
    if is_list(schema):
        return [_with_short_descriptions(inner) for inner in schema]
    if not is_object(schema):
        return schema
    return {
        key: value.partition("\n")[0]
        if key == "description" and isinstance(value, str)
        else _with_short_descriptions(value)
        for key, value in schema.items()
    }


def _completion() -> JsonObject:
    text, number = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
    choice = {
        "type": "object",
        "properties": {
            "index": {"const": 0},
            "message": _ref("AssistantMessage"),
            "finish_reason": {"enum": ["stop", "length", "tool_calls", "blocked", "pause", "other"]},
            "finish_raw": {"type": "string", "description": "The provider's own finish reason."},
        },
        "required": ["index", "message", "finish_reason"],
    }
    return {
        "type": "object",
        "properties": {
            "id": text,
            "object": {"const": "chat.completion"},
            "created": number,
            "model": text,
            "choices": {"type": "array", "items": choice, "minItems": 1, "maxItems": 1},
            "usage": _ref("Usage"),
            "notices": {"type": "array", "items": _ref("Notice")},
        },
        "required": ["id", "object", "created", "model", "choices", "usage"],
    }


def _error() -> JsonObject:
    texts = {name: {"type": "string"} for name in ("message", "type", "code", "param", "provider", "request_id")}
    error = {
        "type": "object",
        "properties": {**texts, "problems": {"type": "array", "items": _ref("Problem")}},
        "required": ["message", "type", "code"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
