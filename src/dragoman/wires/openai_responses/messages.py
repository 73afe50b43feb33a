"""Encodes the messages of a request as instructions and input items."""

import re
from collections.abc import Iterable
from typing import Any, TypeGuard

import msgspec

from dragoman.targets.target import Target
from dragoman.types import (
    SYSTEM_ROLES,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.types.fast_constructors import new_message
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.history import ERROR_PREFIX, History, cannot_send, check_urls, error_text, fit_id, repair
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.openai_responses.client_tools import encode_call, encode_client_output, item_of_message
from dragoman.wires.openai_responses.parts import (
    by_item,
    encode_content,
    encode_image_call,
    encode_message,
    encode_reasoning,
    type_of,
)
from dragoman.wires.openai_responses.schema import CUSTOM, NAME

MADE_BEFORE = "Made by the assistant:"
_CALL_ID = r"[\s\S]{1,64}"
_ITEM = r"message|.*_(call|output|response|reference|tools)"
_REPLAYED = ("id", "encrypted_content", "content")
"""A reasoning item needs one of these for the server to recognise it."""


def encode_input(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    """The instructions, and all items in an order and with ids that the target accepts."""
    history = repair(_with_system_turns(request, target), notices, citations="all")
    check_urls(history.turns, target)
    plain = [text.text for text in history.system if not wire_extra(text.extra, NAME)]
    items = [_system_item(text) for text in history.system if wire_extra(text.extra, NAME)]
    items += _json_instructions(request, target, history, notices)
    for turn in history.turns:
        items += _encode_turn(turn, notices)
    custom = {item.get("call_id") for item in items if type_of(item) == CUSTOM}
    items = [_with_valid_id(item, custom, target, notices) for item in _without_lone_reasoning(items, notices)]
    return {**({"instructions": "\n\n".join(plain)} if plain else {}), **({"input": items} if items else {})}


def encode_result(result: ToolResult) -> JsonObject:
    """The item with the result of one call."""
    if (item := encode_client_output(result)) is not None:
        return item
    output: Any = error_text(result) if isinstance(result.content, str) else _output(result.content, result)
    extra = wire_extra(result.extra, NAME)
    return {"type": "function_call_output", "call_id": result.id, "output": output, **extra}


def _output(parts: tuple[ResultPart, ...], result: ToolResult) -> list[JsonObject]:
    content = [encode_content(part) for part in parts if not isinstance(part, Opaque) or part.wire == NAME]
    if not result.is_error:
        return content
    if content and type_of(content[0]) == "input_text":
        return [{**content[0], "text": ERROR_PREFIX + content[0]["text"]}, *content[1:]]
    return [{"type": "input_text", "text": ERROR_PREFIX}, *content]


def _with_system_turns(request: Request, target: Target) -> Request:
    """Keep items with tools in their place, and system messages for targets that support it."""
    if not any(message.role in SYSTEM_ROLES for message in request.messages):
        return request
    return msgspec.structs.replace(request, messages=tuple(_in_place(message, target) for message in request.messages))


def _in_place(message: Message, target: Target) -> Message:
    if message.role not in SYSTEM_ROLES:
        return message
    if (item := item_of_message(message)) is not None:
        return new_message(role="user", parts=(Opaque(wire=NAME, data=item),))
    if not target.quirks.system_turns:
        return message
    extra = {"role": "developer", **wire_extra(message.extra, NAME)}
    return new_message(role="user", parts=message.parts, extra={NAME: extra})


def _system_item(text: Text) -> JsonObject:
    extra = dict(wire_extra(text.extra, NAME))
    role = extra.pop("role", "developer")
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text.text, **extra}]}


def _json_instructions(
    request: Request, target: Target, history: History, notices: NoticeCollector
) -> list[JsonObject]:
    """The schema as text if the target does not support schemas, and the word JSON, which JSON mode requires."""
    if request.schema and not target.quirks.json_schema:
        notices.add("changed", "schema", "moved to a message: schemas are not supported")
        text = json_instruction(request.schema)
    elif request.schema == {} and not _mentions_json(history):
        notices.add("repaired", "input", "added the word JSON: JSON mode requires it")
        text = json_instruction()
    else:
        return []
    return [{"type": "message", "role": "developer", "content": text}]


def _mentions_json(history: History) -> bool:
    """Whether the first turn contains the word JSON: what comes later must not change what stands before it."""
    parts = (part for turn in history.turns[:1] for part in turn.parts)
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text | ToolResult))


def _encode_turn(turn: Message, notices: NoticeCollector) -> list[JsonObject]:
    match turn.role:
        case "assistant":
            return _encode_assistant(turn, notices)
        case "tool":
            return [encode_result(result) for result in turn.tool_results]
        case _:
            return _encode_user(turn)


def encode_user_items(turns: Iterable[Message]) -> list[JsonObject]:
    """The items of user messages, each with a list of content parts."""
    items = [item for turn in turns for item in _encode_user(turn)]
    return [{**item, "content": _as_parts(item["content"])} if "content" in item else item for item in items]


def _as_parts(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _encode_user(turn: Message) -> list[JsonObject]:
    items = [part.data for part in turn.parts if _is_item(part)]
    parts = [part for part in turn.parts if not _is_item(part)]
    return [*items, {**_user(parts), **wire_extra(turn.extra, NAME)}] if parts else items


def _is_item(part: Part) -> TypeGuard[Opaque]:
    return isinstance(part, Opaque) and re.fullmatch(_ITEM, type_of(part.data)) is not None


def _user(parts: Iterable[Part]) -> JsonObject:
    content: Any = [encode_content(part) for part in parts]
    if len(content) == 1 and content[0].keys() == {"type", "text"}:
        content = content[0]["text"]
    return {"type": "message", "role": "user", "content": content}


def _encode_assistant(turn: Message, notices: NoticeCollector) -> list[JsonObject]:
    items: list[JsonObject] = []
    for part in by_item(turn.parts):
        match part:
            case [Text(text=text, extra=extra, citations=())] if not wire_extra(extra, NAME):
                items.append({"type": "message", "role": "assistant", "content": text})
            case list():
                items.append(encode_message(part))
            case Thinking() if any(wire_extra(part.extra, NAME).get(key) for key in _REPLAYED):
                items.append(encode_reasoning(part))
            case Thinking():
                notices.add("dropped", "thinking", "has no encrypted content")
            case ToolCall():
                items.append(encode_call(part, to_provider=True))
            case Image() if wire_extra(part.extra, NAME):
                items.append(encode_image_call(part))
            case Image():
                notices.add("changed", "image of the assistant", "moved to a user message")
                items.append(_user([Text(text=MADE_BEFORE), part]))
            case Opaque():
                items.append(part.data)
            case _:  # `repair` made blocks or texts of the calls of hosted tools
                raise cannot_send(part[0] if isinstance(part, tuple) else part, NAME)
    return items


def _without_lone_reasoning(items: list[JsonObject], notices: NoticeCollector) -> list[JsonObject]:
    """Remove reasoning items without an item after them: the server refuses them (seen 2025-09)."""
    paired: list[JsonObject] = []
    follows = False
    for item in reversed(items):
        kind = type_of(item)
        if kind != "reasoning":
            follows = item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")
        elif not follows:
            notices.add("dropped", "thinking", "nothing follows it")
            continue
        paired.append(item)
    return paired[::-1]


def _with_valid_id(item: JsonObject, custom: set[Any], target: Target, notices: NoticeCollector) -> JsonObject:
    """An item with a call id that the target accepts; a result gets the type that fits its call."""
    id = item.get("call_id")
    if not isinstance(id, str):
        return item
    kind = f"{CUSTOM}_output" if type_of(item) == "function_call_output" and id in custom else type_of(item)
    pattern, length = (target.quirks.call_id, target.quirks.call_id_length) if target.quirks.call_id else (_CALL_ID, 40)
    return {**item, "type": kind, "call_id": fit_id(id, pattern, length, notices)}
