"""How a Messages request may differ in form after it was decoded and encoded again."""

from typing import Any

from dragoman.schema.adapt import adapt
from dragoman.types import is_list, is_object
from dragoman.wires.anthropic.schema import SCHEMA_DIALECT
from tests.support.corpus.rules import Rule, without_nulls

Json = dict[str, Any]


def _plain_texts(body: Json) -> Json:
    messages = [{**message, "content": _plain(message["content"])} for message in body.get("messages", [])]
    system = {"system": _plain(body["system"])} if "system" in body else {}
    return {**body, **system, "messages": messages}


def _plain(content: Any) -> Any:
    if is_list(content) and len(content) == 1 and content[0].keys() == {"type", "text"}:
        return content[0]["text"]
    return content


def _defaults(body: Json) -> Json:
    empty: Json = {"stream": False, "tools": [], "system": []}
    body = {key: value for key, value in body.items() if key not in empty or value != empty[key]}
    return body if "tools" in body else {key: value for key, value in body.items() if key != "tool_choice"}


def _results_without_error(body: Json) -> Json:
    return {**body, "messages": [_good_message(message) for message in body.get("messages", [])]}


def _good_message(message: Json) -> Json:
    content = message["content"]
    if not is_list(content):
        return message
    return {**message, "content": [_good_block(block) for block in content]}


def _good_block(block: Json) -> Json:
    return {key: value for key, value in block.items() if key != "is_error" or value is not False}


def _old_format(body: Json) -> Json:
    body = dict(body)
    if format := body.pop("output_format", None):
        body["output_config"] = {**body.get("output_config", {}), "format": format}
    return body


def _versions(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "anthropic_version"}


def _adapted_schemas(body: Json) -> Json:
    config = body.get("output_config", {})
    if is_object(config.get("format")):
        format = {**config["format"], "schema": adapt(config["format"]["schema"], SCHEMA_DIALECT, where="schema")[0]}
        body = {**body, "output_config": {**config, "format": format}}
    if "tools" in body:
        body = {**body, "tools": [_adapted_schemas_tool(tool) for tool in body["tools"]]}
    return body


def _adapted_schemas_tool(tool: Json) -> Json:
    if not tool.get("strict") or "input_schema" not in tool:
        return tool
    return {**tool, "input_schema": adapt(tool["input_schema"], SCHEMA_DIALECT, where="tool")[0]}


def _joined_turns(body: Json) -> Json:
    messages: list[Json] = []
    for message in body.get("messages", []):
        if messages and message["role"] == messages[-1]["role"]:
            content = [*_blocks(messages[-1]["content"]), *_blocks(message["content"])]
            messages[-1] = {**messages[-1], "content": content}
        else:
            messages.append(message)
    return {**body, "messages": messages}


def _blocks(content: Any) -> list[Any]:
    return content if is_list(content) else [{"type": "text", "text": content}]


RULES = [
    Rule("joined-turns", "the API joins consecutive turns of one role", _joined_turns),
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule("plain-texts", "a string is the short form of a list of one text block", _plain_texts),
    Rule(
        "defaults",
        "stream: false and tools: [] are the defaults, and tool_choice has no effect without tools",
        _defaults,
    ),
    Rule("results-without-error", "is_error: false is the default", _results_without_error),
    Rule("old-format", "output_format is the beta form of output_config.format", _old_format),
    Rule(
        "cloud-version",
        "clouds take anthropic_version in the body, the API takes it as a header",
        _versions,
    ),
    Rule("adapted-schemas", "keywords that the API refuses are moved into descriptions", _adapted_schemas),
]
