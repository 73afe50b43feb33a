"""How a Responses request may differ in form after it was decoded and encoded again."""

from collections.abc import Callable
from typing import Any

from dragoman.types import is_list, is_object
from dragoman.wires.common.json_prompt import json_instruction
from tests.support.corpus.rules import Rule, arguments, without_nulls

Json = dict[str, Any]


def each_item(change: Callable[[Json], Json]) -> Callable[[Json], Json]:
    """Apply a function to each input item."""

    def level(body: Json) -> Json:
        items: Any = body.get("input")
        return {**body, "input": [change(item) for item in items]} if is_list(items) else body

    return level


def _input_list(body: Json) -> Json:
    given = body.get("input")
    if isinstance(given, str):
        return {**body, "input": [{"role": "user", "content": given}]}
    return {key: value for key, value in body.items() if key != "input" or value}


def _plain_content(item: Json) -> Json:
    if "role" not in item or item.get("type", "message") != "message":
        return item
    content = item.get("content")
    parts: list[Json] = content if is_list(content) else [{"text": content}]
    parts = [{key: value for key, value in part.items() if value != [] and key != "type"} for part in parts]
    return {**item, "type": "message", "content": parts}


def _detail(item: Json) -> Json:
    return {key: [_image(part) for part in value] if is_list(value) else value for key, value in item.items()}


def _image(part: Any) -> Any:
    if not is_object(part):
        return part
    return {key: value for key, value in part.items() if (key, value) != ("detail", "auto")}


def _status(item: Json) -> Json:
    return {key: value for key, value in item.items() if (key, value) != ("status", "completed")}


def _arguments(item: Json) -> Json:
    if item.get("type") != "function_call":
        return item
    return {**item, "arguments": arguments(item.get("arguments"))}


def _defaults(body: Json) -> Json:
    body = {key: value for key, value in body.items() if (key, value) not in (("stream", False), ("store", False))}
    include = [name for name in body.pop("include", ()) if name != "reasoning.encrypted_content"]
    return {**body, "include": include} if include else body


def _system(body: Json) -> Json:
    body = dict(body)
    instructions = body.pop("instructions", None)
    texts: list[Json] = [] if instructions is None else [{"text": instructions}]
    others: list[Json] = []
    for item in body.pop("input", ()):
        if item.get("role") in ("system", "developer") and item.get("type") == "message":
            texts += [text for text in item["content"] if text != {"text": json_instruction()}]
        else:
            others.append(item)
    plain = all(text.keys() == {"text"} for text in texts)
    prompt: Any = "\n\n".join(text["text"] for text in texts) if plain else texts
    return {**body, **({"input": others} if others else {}), **({"instructions": prompt} if texts else {})}


def _tools(body: Json) -> Json:
    body = dict(body)
    tools = body.pop("tools", None)
    if not tools:
        return {key: value for key, value in body.items() if key != "tool_choice" or not isinstance(value, str)}
    return {**body, "tools": [_tool(tool) for tool in tools]}


def _tool(tool: Json) -> Json:
    if tool.get("type") != "function" or "function" in tool:
        return tool
    return {**tool, "parameters": tool.get("parameters", {"type": "object", "properties": {}})}


def _format(body: Json) -> Json:
    form = body.get("text", {}).get("format")
    if not is_object(form) or form.get("type") != "json_schema":
        return body
    return {**body, "text": {**body["text"], "format": {"name": "response", **form}}}


def _limit(body: Json) -> Json:
    limit = body.get("max_output_tokens")
    return {**body, "max_output_tokens": max(16, limit)} if isinstance(limit, int) else body


def _turns(body: Json) -> Json:
    """Results in the order of their ids, without the replacements for missing ones, and only paired reasoning."""
    preserved: list[Json] = []
    follows = False
    for item in reversed(body.get("input", [])):
        kind = item.get("type")
        if item.get("output") == "ERROR: result unavailable; do not assume that it ran":
            continue
        if kind != "reasoning":
            follows = item.get("role") == "assistant" if kind == "message" else not str(kind).endswith("_output")
        if kind == "reasoning" and not follows:
            continue
        preserved.append(item)
    items: list[Json] = []
    for item in reversed(preserved):
        at = len(items)
        while at and _answers(item) and _answers(items[at - 1]) and items[at - 1]["call_id"] > item["call_id"]:
            at -= 1
        items.insert(at, item)
    return {**body, "input": items} if items else body


def _answers(item: Json) -> bool:
    return item.get("type") in ("function_call_output", "custom_tool_call_output")


RULES = [
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule("input-list", "a string is one user message; an empty list is no input", _input_list),
    Rule(
        "plain-content",
        "a string is a list of one text; the type of a message and empty annotations are the defaults",
        each_item(_plain_content),
    ),
    Rule("default-detail", "auto is the default detail of an image", each_item(_detail)),
    Rule("default-status", "an item that is sent back is completed, with or without a status", each_item(_status)),
    Rule("arguments", "arguments are compared as JSON", each_item(_arguments)),
    Rule(
        "private-and-replayable",
        "nothing is stored unless the caller sets store; encrypted reasoning is always requested, to be sent back later",
        _defaults,
    ),
    Rule(
        "one-system-prompt",
        "system and developer messages are joined into the instructions; JSON mode gets the word JSON that it requires",
        _system,
    ),
    Rule(
        "complete-tools",
        "tools: [] is the default; tool_choice has no effect without tools; a function without parameters takes none",
        _tools,
    ),
    Rule("format", "the name of a schema is required, and is response if there was none", _format),
    Rule("minimum-tokens", "the API takes at least 16 output tokens", _limit),
    Rule(
        "turns",
        "results follow in the order of their calls; a call without a result gets an error; reasoning without the item "
        "that followed it would be refused",
        _turns,
    ),
]
