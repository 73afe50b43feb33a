"""Three functions for code that talks to a provider itself: tool definitions, tool calls and tool results as its JSON.

`wire` is the name of a wire; `openai` stands for `openai_chat`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman import wires
from dragoman.errors import InvalidRequest, Malformed, MalformedToolCall, Truncated, Unsupported
from dragoman.events import fold
from dragoman.tools.decorator import ToolLike, definitions
from dragoman.types import JsonObject, Opaque, Request, ToolCall, ToolResult, is_object
from dragoman.types.checks import wrong_value
from dragoman.wires.base import Wire
from dragoman.wires.common.history import result_media
from dragoman.wires.common.json import DECODE_ERRORS, encode_json


def encode_definitions(tools: ToolLike | Opaque | Iterable[ToolLike | Opaque], wire: str) -> list[JsonObject]:
    """The definitions of some tools, as they are in a request.

    >>> from dragoman import Tool
    >>> encode_definitions([Tool(name="now", description="The time")], "anthropic")
    [{'name': 'now', 'description': 'The time', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    return _wire(wire).client.encode_tools(Request(tools=definitions(tools)).tools)


def decode_tool_calls(body: bytes | str | JsonObject, wire: str) -> list[ToolCall]:
    """The tool calls in the body of a response; an empty list if there are none.

    >>> decode_tool_calls({"message": {"tool_calls": [{"function": {"name": "now"}}]}, "done": True}, "ollama")[0].name
    'now'
    """
    client, data = _wire(wire).client, _body_bytes(body)
    try:
        return list(fold(client.decode_body(data)).tool_calls)
    except MalformedToolCall:
        raise
    except (Malformed, Truncated):
        if not _is_json_object(data):
            raise
        return []


def _body_bytes(body: Any) -> bytes:
    if is_object(body):
        return encode_json(body)
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    if not isinstance(body, bytes | bytearray):
        raise wrong_value("body", "the bytes or the JSON object of a response", body)
    return bytes(body)


def _is_json_object(data: bytes) -> bool:
    try:
        return is_object(msgspec.json.decode(data))
    except DECODE_ERRORS:
        return False


def encode_result(result: ToolResult, wire: str) -> JsonObject:
    """The result of a tool as a whole message (or item, or content) of the next request.

    >>> encode_result(ToolResult(id="call_1", name="now", content="noon"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'noon'}
    """
    codec = _wire(wire)
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance] - callers err
        raise wrong_value("result", "a ToolResult", result)
    if codec.name in _TEXT_RESULTS and result_media([result]) is not None:
        raise Unsupported(f"{codec.name}: a tool result must be text; send its media in the next user message")
    return codec.client.encode_result(result)


_TEXT_RESULTS = frozenset({"google", "ollama", "openai_chat"})
"""Wires that send the media of a result in the message after it, which is not part of one result."""


def _wire(name: Any) -> Wire:
    known = {"openai": "openai_chat", **{wire: wire for wire in wires.NAMES}}
    if not isinstance(name, str) or name not in known:
        raise InvalidRequest(f"wire must be one of {', '.join(known)}, got {name!r}")
    return wires.get(known[name])
