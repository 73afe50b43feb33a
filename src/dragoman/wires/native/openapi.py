"""The tables of our own protocol in, its OpenAPI document out."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dragoman.types import (
    JsonObject,
    ModelInfo,
    Notice,
    is_list,
    is_object,
)
from dragoman.wires.native.problems import Problem
from dragoman.wires.native.schema import (
    BODY,
    CALL,
    CALLED,
    FUNCTION,
    MESSAGES,
    PARTS,
    PATH,
    REQUIRED,
    TOOL,
    NativeUsage,
)

VERSION = "1"
FIELDS: dict[str, str] = {
    "messages": "The conversation so far. What was answered can be sent back as it is.",
    "model": "Who answers: provider/model, an alias, or several of them with commas between, tried in turn.",
    "tier": "A class of models, in place of a model; without both it is `simple`.",
    "temperature": "How much chance: 0 to 2.",
    "max_tokens": "The most tokens that the answer may have.",
    "top_p": "The part of the likeliest tokens that is drawn from: 0 to 1.",
    "stop": "One text, or up to four, at which the answer ends.",
    "stream": "Whether the answer comes in pieces, as server-sent events.",
    "conversation_id": "Keeps a conversation with one model, and remembers the ids of its calls.",
    "tools": "Functions that the model may call.",
    "tool_choice": "auto, none, required, or one function by its name.",
    "schema": "A JSON Schema that the text of the answer satisfies.",
    "schema_name": "What the schema is called.",
    "reasoning": "How hard to think: a word, or a budget of tokens.",
}
"""What each field of a request means."""
ERRORS: dict[int, str] = {
    400: "Something is wrong with the request; `problems` has each with its place.",
    401: "The key is missing or wrong.",
    403: "The key may not do this.",
    404: "There is no such model, or nothing at that path.",
    405: "The path takes another method.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is packed in a way that is not read.",
    422: "No target can do what is asked.",
    429: "Too many requests, or no credit left. Retry-After tells when.",
    500: "The gateway failed.",
    502: "A provider failed.",
    503: "No target can answer now. Retry-After tells when.",
    504: "No answer came in time.",
}
"""What each status of a refusal means."""
_COMPONENTS = {NativeUsage.__name__: "Usage"}
_NOTHING: JsonObject = {"type": "null"}
_REF = "#/components/schemas/{name}"


def document() -> JsonObject:
    """The whole document."""
    refused = {str(status): {"$ref": f"#/components/responses/E{status}"} for status in ERRORS}
    chat = {
        "operationId": "complete",
        "summary": "Ask a model",
        "parameters": [
            _header("X-Dragoman-Tool-Ids", "The ids of calls, as the header of an earlier answer told them.")
        ],
        "requestBody": {"required": True, "content": _json("Request")},
        "responses": {"200": _answer(), **refused},
    }
    models = {
        "operationId": "models",
        "summary": "List what can be asked",
        "responses": {"200": {"description": "The models.", "content": _json("Models")}, **refused},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dragoman", "version": VERSION, "description": "One API before all models."},
        "paths": {f"{PATH}/chat/completions": {"post": chat}, f"{PATH}/models": {"get": models}},
        "components": {
            "schemas": _schemas(),
            "responses": {
                f"E{status}": {"description": why, "content": _json("Error")} for status, why in ERRORS.items()
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _answer() -> JsonObject:
    stream = "A chunk of JSON for each piece; an error on a fault, else [DONE] at the end."
    data: JsonObject = {"data": {"type": "string", "description": stream}}
    events: JsonObject = {"schema": {"type": "object", "properties": data, "required": ["data"]}}
    headers = {
        "X-Dragoman-Target": "Who answered.",
        "X-Dragoman-Tier": "The tier that was asked for.",
        "X-Dragoman-Attempts": "How many targets were tried.",
        "X-Dragoman-Tool-Ids": "The ids of calls, where there is no conversation_id; send them back.",
        "X-Request-Id": "The name of this request in the logs.",
    }
    told: JsonObject = {name: {"description": why, "schema": {"type": "string"}} for name, why in headers.items()}
    content = {**_json("Completion"), "text/event-stream": events}
    return {"description": "The answer.", "headers": told, "content": content}


def _json(name: str) -> JsonObject:
    return {"application/json": {"schema": _ref(name)}}


def _ref(name: str) -> JsonObject:
    return {"$ref": _REF.format(name=name)}


def _header(name: str, why: str) -> JsonObject:
    return {"name": name, "in": "header", "description": why, "schema": {"type": "string"}}


def _schemas() -> JsonObject:
    _, made = msgspec.json.schema_components(
        (*PARTS["assistant"], ModelInfo, Notice, Problem, NativeUsage), ref_template=_REF
    )
    listed: JsonObject = {"object": {"const": "list"}, "data": {"type": "array", "items": _ref("ModelInfo")}}
    return {
        **{_COMPONENTS.get(name, name): _plain(schema) for name, schema in made.items()},
        **_messages(),
        "Request": _request(),
        "Tool": _object(TOOL, required=("type", "function"), known={"function": _ref("Function")}),
        "Function": _object(FUNCTION, required=("name", "description", "parameters")),
        "Call": _object(CALL, required=("id", "function"), known={"function": _ref("Called")}),
        "Called": _object(CALLED, required=("name",)),
        "Completion": _completion(),
        "Models": {"type": "object", "properties": listed, "required": ["object", "data"]},
        "Error": _error(),
    }


def _messages() -> JsonObject:
    calls: JsonObject = {"tool_calls": {"type": "array", "items": _ref("Call")}}
    made: JsonObject = {
        f"{role.capitalize()}Message": _object(
            kinds, required=REQUIRED[role], known={**calls, "role": {"const": role}, "content": _content(role)}
        )
        for role, kinds in MESSAGES.items()
    }
    # Any JSON is a result, null too, and one must be told.
    result = made["ToolMessage"]
    result["properties"]["content"] = {}
    result["required"].append("content")
    return made


def _content(role: str) -> JsonObject:
    parts: JsonObject = {"anyOf": [_ref(part.__name__) for part in PARTS.get(role, ())]}
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": parts}]}


def _request() -> JsonObject:
    turns: JsonObject = {"anyOf": [_ref(f"{role.capitalize()}Message") for role in MESSAGES]}
    known = {
        "messages": {"type": "array", "minItems": 1, "items": turns},
        "tools": {"type": "array", "items": _ref("Tool")},
    }
    request = _object(BODY, required=("messages",), known=known)
    for name, why in FIELDS.items():
        request["properties"][name]["description"] = why
    return request


def _object(kinds: Mapping[str, Any], *, required: Collection[str], known: JsonObject | None = None) -> JsonObject:
    """An object that has these members and no others; what is not required may be null."""
    members: JsonObject = {name: (known or {}).get(name) or _schema(kind) for name, kind in kinds.items()}
    told = {name: member if name in required else {"anyOf": [member, _NOTHING]} for name, member in members.items()}
    return {
        "type": "object",
        "properties": told,
        "required": sorted(required),
        "additionalProperties": False,
    }


def _schema(kind: Any) -> JsonObject:
    return {**_plain(msgspec.json.schema(kind))}


def _plain(schema: Any) -> Any:
    """A schema whose descriptions are one sentence: what msgspec takes from docstrings has examples, too."""
    if is_list(schema):
        return [_plain(inner) for inner in schema]
    if not is_object(schema):
        return schema
    return {
        key: value.partition("\n")[0] if key == "description" and isinstance(value, str) else _plain(value)
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
            "finish_raw": {"type": "string", "description": "The provider's own word."},
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
    words = {name: {"type": "string"} for name in ("message", "type", "code", "param", "provider", "request_id")}
    error = {
        "type": "object",
        "properties": {**words, "problems": {"type": "array", "items": _ref("Problem")}},
        "required": ["message", "type", "code"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
