"""Encodes the messages of a request for Chat Completions servers."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from dragoman.targets.target import Target
from dragoman.types import (
    SYSTEM_ROLES,
    Document,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    ToolResult,
    is_object,
    user,
)
from dragoman.types.fast_constructors import new_text
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.history import (
    ERROR_PREFIX,
    FILLER_ANSWER,
    History,
    check_urls,
    error_text,
    fit_id,
    repair,
    result_media,
)
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.openai_chat.parts import encode_assistant, encode_part, is_function_call
from dragoman.wires.openai_chat.schema import NAME, REASONING_FIELDS

MEDIA_BELOW = "(See the next message of the user.)"
"""The content of a message whose images or documents stand in the next one."""
MADE_BEFORE = "Made by the assistant:"
NO_REASONING = " "
"""The reasoning of a step that has none."""


def encode_messages(request: Request, target: Target, notices: NoticeCollector) -> list[JsonObject]:
    """All messages, in an order and with ids that the target accepts."""
    history = repair(request, notices, system_turns=target.quirks.system_turns, citations="none")
    turns = list(_with_images_in_user_turns(history.turns, notices))
    check_urls(turns, target)
    messages = _encode_system((*history.system, *_json_instructions(request, target, history, notices)))
    answers = [turn for turn in turns if turn.role == "assistant"]
    function_calls = {call.id for turn in answers for call in turn.tool_calls if call.extra and is_function_call(call)}
    for turn in turns:
        if turn.role == "user" or turn.role in SYSTEM_ROLES:
            messages.append(_encode_user(turn))
        elif turn.role == "assistant":
            messages.append(_encode_assistant(turn, target, notices))
        else:
            messages += _encode_results(turn.tool_results, function_calls)
    if target.quirks.call_id:
        _fit_ids(messages, target, notices)
    return messages if target.quirks.user_after_tool else list(_with_assistant_between(messages, notices))


def encode_result(result: ToolResult) -> JsonObject:
    """The message with the result of one call, without its images and documents."""
    if isinstance(result.content, str):
        content: Any = error_text(result)
        return {"role": "tool", "tool_call_id": result.id, "content": content, **wire_extra(result.extra, NAME)}
    parts = [
        part for part in result.parts if isinstance(part, Text) or (isinstance(part, Opaque) and part.wire == NAME)
    ]
    content = error_text(result)
    if any(isinstance(part, Opaque) or NAME in part.extra for part in parts):
        content = [encode_part(part) for part in _with_prefix(parts, ERROR_PREFIX if result.is_error else "")]
    elif any(isinstance(part, Image | Document) for part in result.parts):
        content = content or MEDIA_BELOW
    return {"role": "tool", "tool_call_id": result.id, "content": content, **wire_extra(result.extra, NAME)}


def _with_prefix(parts: Iterable[Text | Opaque], prefix: str) -> Iterator[Text | Opaque]:
    for part in parts:
        if prefix and isinstance(part, Text):
            yield msgspec.structs.replace(part, text=prefix + part.text)
            prefix = ""
        else:
            yield part


def _json_instructions(request: Request, target: Target, history: History, notices: NoticeCollector) -> list[Text]:
    """The schema as text if the target does not support schemas, and the word JSON, which JSON mode requires."""
    if request.schema and not target.quirks.json_schema:
        notices.add("changed", "schema", "moved to the system prompt: schemas are not supported")
        return [Text(text=json_instruction(request.schema))]
    if request.schema == {} and not _mentions_json(history):
        notices.add("repaired", "system prompt", "added the word JSON: JSON mode requires it")
        return [Text(text=json_instruction())]
    return []


def _mentions_json(history: History) -> bool:
    """Whether the beginning contains the word JSON: what comes later must not change the system prompt."""
    parts = (*history.system, *(part for turn in history.turns[:1] for part in turn.parts))
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text | ToolResult))


def _encode_system(texts: tuple[Text, ...]) -> list[JsonObject]:
    """One message; several if the client gave some of them fields of their own."""
    if len(texts) == 1 and not texts[0].extra:
        return [{"role": "system", "content": texts[0].text}]
    messages: list[JsonObject] = []
    for fields, group in groupby(texts, lambda text: wire_extra(text.extra, NAME).get("message")):
        parts = [_without_message(text) for text in group]
        plain = not any(NAME in text.extra for text in parts)
        content = "\n\n".join(text.text for text in parts) if plain else [encode_part(text) for text in parts]
        messages.append({"role": "system", "content": content, **(fields or {})})
    return messages


def _without_message(text: Text) -> Text:
    rest = {key: value for key, value in wire_extra(text.extra, NAME).items() if key != "message"}
    return msgspec.structs.replace(text, extra={NAME: rest} if rest else {})


def _encode_user(turn: Message) -> JsonObject:
    """A message of the user, or a system message inside the history."""
    content: Any
    match turn.parts:
        case (Text() as part,) if not wire_extra(part.extra, NAME):
            content = part.text
        case parts:
            content = [encode_part(part) for part in parts]
    return {"role": turn.role, "content": content, **wire_extra(turn.extra, NAME)}


def _encode_assistant(turn: Message, target: Target, notices: NoticeCollector) -> JsonObject:
    parts = (_replayed(part, target, notices) for part in turn.parts)
    message = encode_assistant([part for part in parts if part is not None], None, to_provider=True)
    if is_object(audio := message.get("audio")):
        message["audio"] = {"id": audio.get("id")}
    if target.quirks.calls_need_reasoning and "tool_calls" in message and not message.get(REASONING_FIELDS[0]):
        # 400 if it is absent; one server refuses an empty text, too (reported, 2026-05).
        notices.add("repaired", "assistant message with calls", "a blank reasoning_content is sent: it must have one")
        message[REASONING_FIELDS[0]] = NO_REASONING
    return {**message, **wire_extra(turn.extra, NAME)}


def _replayed(part: Part, target: Target, notices: NoticeCollector) -> Part | None:
    """The part; thinking only in the fields that the target accepts, None if it accepts none of them."""
    accepted = target.quirks.reasoning_replay_fields
    if accepted is None or not isinstance(part, Thinking):
        return part
    extra = wire_extra(part.extra, NAME)
    fields: JsonObject = {"fields": [field for field in extra.get("fields", ()) if field in accepted]}
    if "details" in extra and "reasoning_details" in accepted:
        fields["details"] = extra["details"]
    if state := {name: value for name, value in extra.get("state", {}).items() if name in accepted}:
        fields["state"] = state
    if not any(fields.values()):
        notices.add("dropped", "thinking", "does not accept the thinking of another server")
        return None
    return msgspec.structs.replace(part, extra={NAME: {**extra, "details": None, "state": {}, **fields}})


def _encode_results(results: tuple[ToolResult, ...], function_calls: set[str]) -> list[JsonObject]:
    encoders = (_encode_function_result if result.id in function_calls else encode_result for result in results)
    messages = [encode(result) for encode, result in zip(encoders, results, strict=True)]
    media = result_media(results)
    return [*messages, _encode_user(media)] if media is not None else messages


def _encode_function_result(result: ToolResult) -> JsonObject:
    """The message with the result of a `function_call`, which has no id but the name of its function."""
    message = {**encode_result(result), "role": "function", "name": result.name}
    del message["tool_call_id"]
    return message


def _with_images_in_user_turns(turns: Iterable[Message], notices: NoticeCollector) -> Iterator[Message]:
    """Move images that a model made on another wire to a user turn: assistant messages cannot contain them."""
    images: list[Part] = []
    for turn in turns:
        if images and turn.role != "tool":
            yield user(MADE_BEFORE, *images)
            images = []
        if turn.role != "assistant":
            yield turn
            continue
        images = [part for part in turn.parts if isinstance(part, Image) and NAME not in part.extra]
        if not images:
            yield turn if turn.parts else msgspec.structs.replace(turn, parts=(new_text(text=MEDIA_BELOW),))
            continue
        notices.add("changed", "image of the assistant", "moved to a user message")
        rest = tuple(part for part in turn.parts if part not in images) or (new_text(text=MEDIA_BELOW),)
        yield msgspec.structs.replace(turn, parts=rest)
    if images:
        yield user(MADE_BEFORE, *images)


def _with_assistant_between(messages: list[JsonObject], notices: NoticeCollector) -> Iterator[JsonObject]:
    """Insert an assistant message between a result and a user message."""
    before = ""
    for message in messages:
        if before == "tool" and message["role"] == "user":
            notices.add("repaired", "history", "added an assistant message: a user message must not follow a result")
            yield {"role": "assistant", "content": FILLER_ANSWER}
        before = message["role"]
        yield message


def _fit_ids(messages: list[JsonObject], target: Target, notices: NoticeCollector) -> None:
    pattern, length = target.quirks.call_id or "", target.quirks.call_id_length
    for message in messages:
        if message["role"] == "tool":
            message["tool_call_id"] = fit_id(message["tool_call_id"], pattern, length, notices)
        for call in message.get("tool_calls", ()) if message["role"] == "assistant" else ():
            call["id"] = fit_id(call["id"], pattern, length, notices)
