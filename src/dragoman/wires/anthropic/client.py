"""The client half of the Messages API."""

from dragoman.types import JsonObject, Opaque, Tool, ToolResult
from dragoman.wires.anthropic.decoder import MessageReader
from dragoman.wires.anthropic.encoder import encode_request
from dragoman.wires.anthropic.parts import encode_result, encode_tool
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.client import WireClient
from dragoman.wires.common.notices import NoticeCollector


def _encode_tools(tools: list[Tool | Opaque], notes: NoticeCollector) -> list[JsonObject]:
    return [encode_tool(tool, notes) for tool in tools]


def _encode_result(result: ToolResult) -> JsonObject:
    return encode_result(result, NoticeCollector(NAME))


CLIENT = WireClient(
    NAME, encode_request=encode_request, encode_tools=_encode_tools, encode_result=_encode_result, decoder=MessageReader
)
