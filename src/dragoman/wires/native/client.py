"""A Request in, the bytes of a call of another gateway out; its answer's bytes in, events out."""

from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wires.common.client import Client
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import own_tools
from dragoman.wires.native.decoder import ChunkReader, decode_error
from dragoman.wires.native.encoder import encode_request
from dragoman.wires.native.parts import encode_result, encode_tool
from dragoman.wires.native.schema import NAME


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    return [encode_tool(tool) for tool in own_tools(Request(tools=tools), NoticeCollector(NAME))]


CLIENT = Client(
    encode_request=encode_request,
    encode_tools=_encode_tools,
    encode_result=encode_result,
    reader=ChunkReader,
    decode_error=decode_error,
)
