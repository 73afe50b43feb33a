"""A Request in, the bytes of a Messages call out; its answer's bytes in, events out."""

from dragoman.types import JsonObject, Opaque, Request, Tool, ToolResult
from dragoman.wires.anthropic.decoder import MessageReader
from dragoman.wires.anthropic.encoder import encode_request
from dragoman.wires.anthropic.parts import encode_result, encode_tool
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.client import Client
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import own_tools


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    notes = NoticeCollector(NAME)
    return [encode_tool(tool, notes) for tool in own_tools(Request(tools=tools), notes)]


def _encode_result(result: ToolResult) -> JsonObject:
    return encode_result(result, NoticeCollector(NAME))


CLIENT = Client(
    encode_request=encode_request, encode_tools=_encode_tools, encode_result=_encode_result, reader=MessageReader
)
