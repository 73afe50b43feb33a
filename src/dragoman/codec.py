"""Three functions for code that talks to a provider itself: tool definitions, tool calls and tool results as its JSON.

`wire` is the name of a wire; `openai` stands for `openai_chat`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman import wires
from dragoman.errors import Malformed, MalformedToolCall, Truncated, Unsupported
from dragoman.events import fold
from dragoman.tools.decorator import ToolLike, tool_definitions
from dragoman.types import HostedTool, JsonObject, Opaque, Request, Response, ToolCall, ToolResult, is_list, is_object
from dragoman.types.checks import check_choice, naming, wrong_value
from dragoman.types.json_values import encode_value
from dragoman.types.parameters import named_parameters
from dragoman.wires.base import Wire
from dragoman.wires.common.history import result_media
from dragoman.wires.common.json import DECODE_ERRORS


@named_parameters
def encode_definitions(
    tools: ToolLike | HostedTool | Opaque | Iterable[ToolLike | HostedTool | Opaque], wire: str
) -> list[JsonObject]:
    """The definitions of some tools, as they are in a request.

    >>> from dragoman import Tool
    >>> encode_definitions([Tool(name="now", description="The time")], "anthropic")
    [{'name': 'now', 'description': 'The time', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    client = _wire(wire).client
    with naming("tools"):
        return client.encode_tools(Request(tools=tool_definitions(tools)).tools)


@named_parameters
def decode_tool_calls(body: bytes | str | JsonObject, wire: str) -> list[ToolCall]:
    """The tool calls in the body of a response; an empty list if there are none.

    If one of them is malformed or cut off, MalformedToolCall is raised: no call is lost silently.

    >>> decode_tool_calls({"message": {"tool_calls": [{"function": {"name": "now"}}]}, "done": True}, "ollama")[0].name
    'now'
    """
    client, data = _wire(wire).client, _body_bytes(body)
    try:
        response = fold(client.decode_body(data))
    except MalformedToolCall:
        raise
    except (Malformed, Truncated) as error:
        json = _json_object(data)
        if json is None:
            raise error.annotate(param="body") from error.__cause__
        if _mentions_call(json):
            raise MalformedToolCall(error.message) from error
        return []
    _check_calls(response)
    return list(response.tool_calls)


def _check_calls(response: Response) -> None:
    """Refuse a response with a call that was cut off or could not be read, or that has no name."""
    for notice in response.notices:
        if notice.kind == "dropped" and notice.what.startswith("tool call"):
            raise MalformedToolCall(f"{notice.what}: {notice.why}")
    for part in response.message.parts:
        if isinstance(part, Opaque) and _mentions_call(part.data):
            raise MalformedToolCall(f"{part.wire}: cannot decode a tool call")
        if isinstance(part, ToolCall) and not part.name:
            raise MalformedToolCall("a tool call has no name", id=part.id)


def _body_bytes(body: Any) -> bytes:
    if is_object(body):
        return encode_value("body", body, _EXPECTED)
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    if not isinstance(body, bytes | bytearray):
        raise wrong_value("body", _EXPECTED, body)
    return bytes(body)


_EXPECTED = "the bytes or the JSON object of a response"


def _json_object(data: bytes) -> JsonObject | None:
    try:
        value = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None
    return value if is_object(value) else None


_CALL_MARKS = frozenset({"tool_calls", "function_call", "functionCall", "tool_use", "toolUse", "custom_tool_call"})
"""Fields of a response that have calls, and types of blocks that are calls."""


def _mentions_call(body: JsonObject) -> bool:
    """Whether a body has a tool call anywhere, also one that cannot be read."""
    values: list[Any] = [body]
    while values:
        value = values.pop()
        if is_object(value):
            kind = value.get("type")
            if (isinstance(kind, str) and kind in _CALL_MARKS) or any(value.get(mark) for mark in _CALL_MARKS):
                return True
            values += value.values()
        elif is_list(value):
            values += value
    return False


@named_parameters
def encode_result(result: ToolResult, wire: str) -> JsonObject:
    """The result of a tool as a whole message (or item, or content) of the next request.

    >>> encode_result(ToolResult(id="call_1", name="now", content="noon"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'noon'}
    """
    codec = _wire(wire)
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance] - callers err
        raise wrong_value("result", "a ToolResult", result)
    if codec.name in _TEXT_RESULTS and result_media([result]) is not None:
        reason = f"{codec.name}: a tool result must be text; send its media in the next user message"
        raise Unsupported(reason, param="result")
    return codec.client.encode_result(result)


_TEXT_RESULTS = frozenset({"google", "ollama", "openai_chat"})
"""Wires that send the media of a result in the message after it, which is not part of one result."""


def _wire(name: Any) -> Wire:
    known = {"openai": "openai_chat", **{wire: wire for wire in wires.NAMES}}
    check_choice("wire", name, tuple(known))
    return wires.get(known[name])
