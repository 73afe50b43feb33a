"""How a generateContent request may differ in form after it was decoded and encoded again."""

import re
from typing import Any

from dragoman.types import is_list, is_object
from tests.support.corpus.rules import Rule, without_nulls

Json = dict[str, Any]


def _names(value: Any) -> Any:
    if is_object(value):
        return {_camel(key): _names(inner) for key, inner in value.items()}
    return [_names(inner) for inner in value] if is_list(value) else value


def _camel(name: str) -> str:
    return re.sub("(?<=[a-z0-9])_([a-z0-9])", lambda found: found[1].upper(), name)


def _parts(content: Json) -> list[Json]:
    parts = content.get("parts", [])
    return parts if is_list(parts) else [parts]


def _without_false_thought(part: Json) -> Json:
    return {key: value for key, value in part.items() if (key, value) != ("thought", False)}


def _turns(body: Json) -> Json:
    contents = body.get("contents", [])
    turns: list[Json] = []
    for content in contents if is_list(contents) else [contents]:
        role = "model" if content.get("role") == "model" else "user"
        parts = [
            plain for part in _parts(content) if (plain := _without_false_thought(part)) not in ({"text": ""}, _BEGUN)
        ]
        parts = [part for part in parts if part.get("functionResponse", {}).get("response") != _UNAVAILABLE]
        if turns and turns[-1]["role"] == role:
            parts = [*turns.pop()["parts"], *parts]
        if parts:
            turns.append({"role": role, "parts": sorted(parts, key=lambda part: "functionResponse" not in part)})
    return {**body, "contents": turns}


_BEGUN = {"text": "(The conversation begins.)"}
_UNAVAILABLE = {"error": "result unavailable; do not assume that it ran"}


def _system(body: Json) -> Json:
    body = dict(body)
    content = body.pop("systemInstruction", {})
    parts = [plain for part in _parts(content) if (plain := _without_false_thought(part)) != {"text": ""}]
    return {**body, "systemInstruction": {"parts": parts}} if parts else body


def _base64(value: Any) -> Any:
    if is_object(value):
        return {
            key: inner.translate(str.maketrans("-_", "+/")).rstrip("=")
            if key == "data" and isinstance(inner, str)
            else _base64(inner)
            for key, inner in value.items()
        }
    return [_base64(inner) for inner in value] if is_list(value) else value


def _config(body: Json) -> Json:
    config = {key: value for key, value in body.get("generationConfig", {}).items() if value != []}
    if config.keys() & {"responseSchema", "responseJsonSchema"}:
        config = {"responseMimeType": "application/json", **config}
    rest = {key: value for key, value in body.items() if key != "generationConfig"}
    return {**rest, "generationConfig": config} if config else rest


def _tools(body: Json) -> Json:
    functions: list[Json] = []
    others: list[Json] = []
    for tool in body.get("tools", []):
        functions += tool.get("functionDeclarations", [])
        others += [{name: value} for name, value in tool.items() if name != "functionDeclarations"]
    rest = {key: value for key, value in body.items() if key not in ("tools", "toolConfig")}
    config = dict(body.get("toolConfig", {}))
    calling = dict(config.pop("functionCallingConfig", {}))
    output = {key: value for key, value in calling.items() if key != "allowedFunctionNames" or value}
    output["mode"] = output.get("mode", "AUTO").upper()
    if output != {"mode": "AUTO"}:
        config["functionCallingConfig"] = output
    return {**rest, "functions": functions, "tools": others, "toolConfig": config}


def _model(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "model"}


RULES = [
    Rule("null-is-absent", "null and a missing member mean the same in proto3 JSON", without_nulls),
    Rule("json-names", "snake_case and camelCase are two spellings of one field in proto3 JSON", _names),
    Rule("model-in-the-path", "the path names the model; the body may repeat it", _model),
    Rule(
        "one-turn",
        "consecutive contents of one role are one turn; user is the default role, and function is an old name for it; "
        "function responses come first in a turn; thought: false is the default; an empty text without a signature has "
        "no effect; a call without a result gets an error as its result; if a history begins with the model, a user "
        "turn is put before it",
        _turns,
    ),
    Rule("system-text", "the role of a system instruction is ignored, and an empty text has no effect", _system),
    Rule("base64-alphabet", "standard and URL-safe base64 are both accepted", _base64),
    Rule("plain-config", "an empty list in the config has no effect, and a schema implies JSON", _config),
    Rule(
        "tools-in-one-entry",
        "tools are a set: all functions are in one entry, and each other tool is in its own; modes may be in lower "
        "case; AUTO is the default; no allowed names means all",
        _tools,
    ),
]
