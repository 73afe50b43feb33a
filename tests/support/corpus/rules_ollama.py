"""How an Ollama chat request may differ in form after it was decoded and encoded again."""

from typing import Any

from dragoman.schema.adapt import adapt
from dragoman.wires.common.json_prompt import split_json_instruction
from dragoman.wires.ollama.schema import TOOL_DIALECT
from tests.support.corpus.rules import Rule, without_nulls

Json = dict[str, Any]


def _empty(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in ("options", "tools", "format") or value}


def _streaming(body: Json) -> Json:
    return {**body, "stream": body.get("stream", True)}


def _system(body: Json) -> Json:
    """One system message, without the schema at its end."""
    texts: list[str] = []
    others: list[Json] = []
    for message in body.get("messages", []):
        if message["role"] == "system":
            texts.append(message["content"])
        else:
            others.append(message)
    prompt = split_json_instruction("\n\n".join(texts))[0] if texts else None
    return {**body, "messages": [*([{"role": "system", "content": prompt}] if prompt else []), *others]}


def _contents(body: Json) -> Json:
    return {**body, "messages": [{"content": "", **message} for message in body.get("messages", [])]}


def _calls(body: Json) -> Json:
    """Ids as numbers of calls, in order; a result without an id belongs to the first open call with its name."""
    numbers: dict[str, int] = {}
    waiting: list[tuple[int, str]] = []
    count = 0
    messages: list[Json] = []
    for message in body.get("messages", []):
        changed = dict(message)
        if "tool_calls" in message:
            calls: list[Json] = []
            for call in message["tool_calls"]:
                count += 1
                name = call["function"]["name"]
                numbers[call.get("id") or f"call_{count}"] = count
                waiting.append((count, name))
                calls.append({"id": count, "function": {"name": name, "arguments": call["function"]["arguments"]}})
            changed["tool_calls"] = calls
        if message["role"] == "tool":
            id, tool = message.get("tool_call_id"), message.get("tool_name")
            found = [pair for pair in waiting if (pair[0] == numbers.get(id) if id else tool in (None, pair[1]))]
            if not found:
                source = f"{tool or 'the tool'} ({id})" if id else tool or "a tool"
                text = f"The result of {source} has no call in this conversation:\n{message['content']}"
                messages.append({"role": "user", "content": text})
                continue
            waiting.remove(found[0])
            changed["tool_call_id"], changed["tool_name"] = found[0]
        messages.append(changed)
    return {**body, "messages": messages}


def _tools(body: Json) -> Json:
    tools = [{**tool, "function": _function(tool["function"])} for tool in body.get("tools", [])]
    return {**body, "tools": tools} if tools else body


def _function(function: Json) -> Json:
    return {**function, "parameters": adapt(function["parameters"], TOOL_DIALECT, where="")[0]}


def _context(body: Json) -> Json:
    options = {key: value for key, value in body.get("options", {}).items() if key != "num_ctx"}
    return {**body, "options": options}


RULES = [
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule("explicit-stream", "a missing stream means true, so it is always set", _streaming),
    Rule("context-size", "num_ctx is set from the prompt, so that the server does not truncate it silently", _context),
    Rule("empty-is-absent", "empty options, tools and format have no effect", _empty),
    Rule("explicit-content", "a missing content is an empty one", _contents),
    Rule(
        "one-system-message",
        "system texts are joined into one message, with the schema at its end, because the model does not see it otherwise",
        _system,
    ),
    Rule(
        "ids-by-call",
        "a call without an id gets one; a result refers to it by id and name; a result without a call is a text of the user; "
        "type and index have no effect",
        _calls,
    ),
    Rule(
        "tool-schemas",
        "keywords that the server drops from a tool schema are moved into a description, or not sent",
        _tools,
    ),
]
