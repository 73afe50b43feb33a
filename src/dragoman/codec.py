"""Three functions for code that talks to a provider itself: tool definitions, tool calls and tool results as its JSON.

`wire` is the name of a wire; `openai` stands for `openai_chat`.
"""

from dragoman import wires
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.events import fold
from dragoman.types import JsonObject, Opaque, Tool, ToolCall, ToolResult
from dragoman.wires.base import Wire
from dragoman.wires.common.history import result_media
from dragoman.wires.common.json import encode_json


def encode_definitions(tools: "tuple[Tool | Opaque, ...] | list[Tool]", wire: str) -> list[JsonObject]:
    """The definitions of some tools, as they are in a request.

    >>> encode_definitions([Tool(name="now", description="The time")], "anthropic")
    [{'name': 'now', 'description': 'The time', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    return _wire(wire).client.encode_tools(tuple(tools))


def decode_tool_calls(body: bytes | JsonObject, wire: str) -> list[ToolCall]:
    """The tool calls in the body of a response.

    >>> decode_tool_calls({"message": {"tool_calls": [{"function": {"name": "now"}}]}, "done": True}, "ollama")[0].name
    'now'
    """
    data = body if isinstance(body, bytes) else encode_json(body)
    return list(fold(_wire(wire).client.decode_body(data)).tool_calls)


def encode_result(result: ToolResult, wire: str) -> JsonObject:
    """The result of a tool, as it is in the next request.

    >>> encode_result(ToolResult(id="call_1", name="now", content="noon"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'noon'}
    """
    codec = _wire(wire)
    if codec.name in _TEXT_RESULTS and result_media([result]) is not None:
        raise Unsupported(f"{codec.name}: a tool result must be text; send its media in the next user message")
    return codec.client.encode_result(result)


_TEXT_RESULTS = frozenset({"google", "ollama", "openai_chat"})
"""Wires that send the media of a result in the message after it, which is not part of one result."""


def _wire(name: str) -> Wire:
    known = {"openai": "openai_chat", **{wire: wire for wire in wires.NAMES}}
    if name not in known:
        raise InvalidRequest(f"wire must be one of {', '.join(known)}, got {name!r}")
    return wires.get(known[name])
