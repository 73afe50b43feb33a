"""The client half of the gateway's own protocol."""

from dragoman.types import JsonObject, Opaque, Tool
from dragoman.wires.common.client import WireClient
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.native.decoder import ChunkReader, decode_error
from dragoman.wires.native.encoder import encode_request
from dragoman.wires.native.parts import encode_result, encode_tool
from dragoman.wires.native.schema import NAME


def _encode_tools(tools: list[Tool | Opaque], _: NoticeCollector) -> list[JsonObject]:
    return [encode_tool(tool) for tool in tools]


CLIENT = WireClient(
    NAME,
    encode_request=encode_request,
    encode_tools=_encode_tools,
    encode_result=encode_result,
    decoder=ChunkReader,
    decode_error=decode_error,
)
