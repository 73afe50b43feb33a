"""A Request in, the bytes of a Messages call out; its answer's bytes in, events out."""

from dragoman.options import own_tools
from dragoman.types import JsonObject, Opaque, Request, Tool, ToolResult
from dragoman.wire import Client, Notes
from dragoman.wires.anthropic.parts import encode_result, encode_tool
from dragoman.wires.anthropic.reader import MessageReader
from dragoman.wires.anthropic.request import encode_request
from dragoman.wires.anthropic.shapes import NAME


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    notes = Notes(NAME)
    return [encode_tool(tool, notes) for tool in own_tools(Request(tools=tools), notes)]


def _encode_result(result: ToolResult) -> JsonObject:
    return encode_result(result, Notes(NAME))


CLIENT = Client(
    encode_request=encode_request, encode_tools=_encode_tools, encode_result=_encode_result, reader=MessageReader
)
