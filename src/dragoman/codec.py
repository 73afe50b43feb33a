"""Tools in, one provider's JSON for them out, and back: the three small operations for people who only want this.

Pure functions on the same code as the wires. Names are the wires', and `openai` for `openai_chat`.
"""

from dragoman import wires
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.events import fold
from dragoman.types import JsonObject, Opaque, Tool, ToolCall, ToolResult
from dragoman.wires.base import Wire
from dragoman.wires.common.history import result_media
from dragoman.wires.common.json import encode_json


def encode_definitions(tools: "tuple[Tool | Opaque, ...] | list[Tool]", wire: str, /) -> list[JsonObject]:
    """The definitions of some tools, as they stand in a request.

    >>> encode_definitions([Tool(name="now", description="The time")], "anthropic")
    [{'name': 'now', 'description': 'The time', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    return _wire(wire).client.encode_tools(tuple(tools))


def decode_tool_calls(body: bytes | JsonObject, wire: str, /) -> list[ToolCall]:
    """The calls of a response's body; none is an empty list.

    >>> decode_tool_calls({"message": {"tool_calls": [{"function": {"name": "now"}}]}, "done": True}, "ollama")[0].name
    'now'
    """
    data = body if isinstance(body, bytes) else encode_json(body)
    return list(fold(_wire(wire).client.decode_body(data)).tool_calls)


def encode_result(result: ToolResult, wire: str, /) -> JsonObject:
    """A tool's result, as it stands in the next request.

    >>> encode_result(ToolResult(id="call_1", name="now", content="noon"), "openai")
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'noon'}
    """
    found = _wire(wire)
    if found.name in _TEXT_RESULTS and result_media([result]) is not None:
        raise Unsupported(f"{found.name}: a result is text; send its pictures and documents in a user message after it")
    return found.client.encode_result(result)


_TEXT_RESULTS = frozenset({"google", "ollama", "openai_chat"})
"""Wires that carry the media of a result in the turn after it, which one result alone cannot show."""


def _wire(name: str) -> Wire:
    known = {"openai": "openai_chat", **{wire: wire for wire in wires.NAMES}}
    if name not in known:
        raise InvalidRequest(f"no wire {name!r}; there are {', '.join(known)}")
    return wires.get(known[name])
