"""How a Chat Completions request may differ in form after it was decoded and encoded again."""

from collections.abc import Callable
from typing import Any

from dragoman.types import is_list, is_object
from dragoman.wires.openai_chat.messages import MEDIA_BELOW
from tests.support.corpus.rules import Rule, arguments, without_nulls

Json = dict[str, Any]


def each_message(change: Callable[[Json], Json | None]) -> Callable[[Json], Json]:
    """Apply a function to each message; None drops the message."""

    def level(body: Json) -> Json:
        changed = [change(message) for message in body.get("messages", [])]
        return {**body, "messages": [message for message in changed if message is not None]}

    return level


def _plain_content(message: Json) -> Json:
    content = message.get("content")
    if is_list(content):
        content = [_part(part) for part in content]
        texts = [str(part.get("text")) for part in content if part.keys() == {"type", "text"}]
        separator = "\n" if message["role"] == "tool" else ""
        if len(texts) == len(content) and (len(texts) == 1 or message["role"] in ("assistant", "tool")):
            content = separator.join(texts)
    elif is_object(content):
        content = [content]
    return {**message, "content": content or ""}


def _part(part: str | Json) -> Json:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _image_objects(message: Json) -> Json:
    content = message.get("content")
    if not is_list(content):
        return message
    return {**message, "content": [_image(part) for part in content]}


def _image(part: Json) -> Json:
    if part.get("type") == "image_url" and isinstance(part["image_url"], str):
        return {**part, "image_url": {"url": part["image_url"]}}
    return part


def _calls(message: Json) -> Json:
    calls = [
        {**{key: value for key, value in call.items() if key != "index"}, "type": call.get("type", "function")}
        for call in message.get("tool_calls") or ()
    ]
    for call in calls:
        if "function" in call:
            call["function"] = {**call["function"], "arguments": arguments(call["function"].get("arguments"))}
    return {**message, "tool_calls": calls} if calls else {k: v for k, v in message.items() if k != "tool_calls"}


def _system(body: Json) -> Json:
    texts: list[Json] = []
    others: list[Json] = []
    for message in body.get("messages", []):
        if message["role"] not in ("system", "developer"):
            others.append(message)
            continue
        content = message["content"]
        parts: list[Json] = content if is_list(content) else [_part(content)]
        rest = {key: value for key, value in message.items() if key not in ("role", "content")}
        texts += [{**part, **rest} for part in parts]
    plain = all(text.keys() == {"type", "text"} for text in texts)
    content = "\n\n".join(text["text"] for text in texts) if plain else texts
    return {**body, "messages": [{"role": "system", "content": content}, *others] if texts else others}


def _tokens(body: Json) -> Json:
    body = dict(body)
    capabilities = [body.pop(key, None) for key in ("max_tokens", "max_completion_tokens")]
    limit = next((limit for limit in capabilities if limit is not None), None)
    return {**body, "max_tokens": limit} if limit is not None else body


def _streaming(body: Json) -> Json:
    body = {key: value for key, value in body.items() if key != "stream" or value}
    if options := body.pop("stream_options", None):
        rest = {key: value for key, value in options.items() if key != "include_usage"}
        return {**body, "stream_options": rest} if rest and body.get("stream") else body
    return body


def _stop(body: Json) -> Json:
    stop = body.get("stop")
    if isinstance(stop, str):
        return {**body, "stop": [stop]}
    return {key: value for key, value in body.items() if key != "stop" or value}


def _tools(body: Json) -> Json:
    body = dict(body)
    tools = body.pop("tools", None)
    if not tools:
        choice = body.get("tool_choice")
        body.pop("parallel_tool_calls", None)
        return {k: v for k, v in body.items() if k != "tool_choice" or not isinstance(choice, str)}
    return {**body, "tools": [{"type": "function", **tool} for tool in tools]}


def _choice(body: Json) -> Json:
    choice = body.get("tool_choice")
    if choice == "any":
        return {**body, "tool_choice": "required"}
    if is_object(choice) and "function" in choice:
        return {**body, "tool_choice": {"type": "function", **choice}}
    return body


def _format(body: Json) -> Json:
    form = body.get("response_format")
    if form == {"type": "text"}:
        return {key: value for key, value in body.items() if key != "response_format"}
    if is_object(form) and is_object(form.get("json_schema")):
        return {**body, "response_format": {**form, "json_schema": {"name": "response", **form["json_schema"]}}}
    return body


def _empty_turns(message: Json) -> Json | None:
    meaning = {key for key, value in message.items() if key != "role" and value not in ("", [], None)}
    return message if meaning or message["role"] == "tool" else None


def _ids(body: Json) -> Json:
    """Ids as numbers of calls, in order; a result without an id belongs to the first open call."""
    numbers: dict[str, int] = {}
    waiting: list[int] = []
    count = 0
    messages: list[Json] = []
    for message in body.get("messages", []):
        changed = dict(message)
        for call in changed.get("tool_calls", ()):
            count += 1
            numbers[call.get("id") or str(count)] = count
            waiting.append(count)
        if "tool_calls" in changed:
            first = count - len(changed["tool_calls"]) + 1
            changed["tool_calls"] = [{**call, "id": first + i} for i, call in enumerate(changed["tool_calls"])]
        if message["role"] == "tool":
            id = message.get("tool_call_id")
            changed["tool_call_id"] = numbers.get(id) if id else (waiting[0] if waiting else None)
            waiting = [number for number in waiting if number != changed["tool_call_id"]]
        messages.append(changed)
    return {**body, "messages": messages}


def _result_media(body: Json) -> Json:
    messages: list[Json] = []
    moved: list[Json] = []
    for message in body.get("messages", []):
        content = message.get("content")
        if message["role"] != "tool":
            if moved:
                messages.append({"role": "user", "content": moved})
                moved = []
            if is_list(content):
                content = [part for part in content if not str(part.get("text", "")).startswith("From the result of")]
            messages.append({**message, "content": content})
            continue
        if is_list(content):
            moved += [part for part in content if part.get("type") == "image_url"]
            content = [part for part in content if part.get("type") != "image_url"]
        plain = _plain_content({**message, "content": content})
        messages.append({**plain, "content": "" if plain["content"] == MEDIA_BELOW else plain["content"]})
    if moved:
        messages.append({"role": "user", "content": moved})
    return {**body, "messages": messages}


def _thinking_lists(message: Json) -> Json:
    content = message.get("content")
    if not is_list(content):
        return message
    return {**message, "content": [_one_thought(part) for part in content]}


def _one_thought(part: Json) -> Json:
    if part.get("type") != "thinking":
        return part
    return {**part, "thinking": "".join(item["text"] for item in part["thinking"])}


def _repaired(message: Json) -> Json | None:
    return None if message.get("content") == "ERROR: result unavailable; do not assume that it ran" else message


RULES = [
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule(
        "plain-content",
        "a list of one text is that text; texts of an assistant or a result are one string, which every server takes",
        each_message(_plain_content),
    ),
    Rule("image-objects", "image_url as a string is the short form of the object", each_message(_image_objects)),
    Rule(
        "calls",
        "type is always function, index is not part of a request, arguments are compared as JSON",
        each_message(_calls),
    ),
    Rule("one-system-message", "system and developer texts are joined into one message at the start", _system),
    Rule(
        "token-limit-name",
        "max_tokens and max_completion_tokens mean the same; the target's quirks name the field",
        _tokens,
    ),
    Rule("usage-always", "stream: false is the default, and usage is always requested", _streaming),
    Rule("stop-list", "one stop string is a list of one", _stop),
    Rule(
        "tools-typed",
        "tools: [] is the default; without tools, tool_choice and parallel_tool_calls have no effect; the type is function",
        _tools,
    ),
    Rule("choice-names", "any is an old name for required", _choice),
    Rule(
        "format",
        "text is the default format; the name of a schema is required, and is response if there was none",
        _format,
    ),
    Rule(
        "ids-by-call",
        "a call without an id gets one; a result without an id belongs to the first open call",
        _ids,
    ),
    Rule(
        "images-after-results",
        "a result is text on this wire; its images follow in a user message; a result without text refers to it",
        _result_media,
    ),
    Rule("one-thinking-text", "the texts of one thinking part are joined", each_message(_thinking_lists)),
    Rule("unanswered-calls", "a call without a result gets an error as its result", each_message(_repaired)),
    Rule("empty-messages", "a message without content is left out", each_message(_empty_turns)),
]
