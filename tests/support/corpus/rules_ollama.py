"""How an Ollama chat may differ after it went through the vocabulary, and still mean the same."""

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
    """One system message, without the schema that is said at its end."""
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
    """Ids as numbers of calls, in order; a result without one answers the first call of its name that waits."""
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
    Rule("stream-said", "a missing stream means true, so it is always said", _streaming),
    Rule("context-size", "num_ctx is set from need, so that the server does not cut a long prompt silently", _context),
    Rule("empty-is-absent", "no options, no tools and an empty format say nothing", _empty),
    Rule("content-said", "a missing content is an empty one", _contents),
    Rule(
        "one-system-message",
        "system texts are folded into one message, with the schema said at its end, which the model is not shown else",
        _system,
    ),
    Rule(
        "ids-by-call",
        "a call without an id gets one, a result answers it by id and name, and one that answers no call is left out; "
        "type and index say nothing",
        _calls,
    ),
    Rule("tool-schemas", "what the server drops from a tool's schema is said in a description, or not sent", _tools),
]
