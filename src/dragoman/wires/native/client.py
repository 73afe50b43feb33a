"""A Request in, the bytes of a call of another gateway out; its answer's bytes in, events out."""

from dragoman.options import own_tools
from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wire import Client, Notes
from dragoman.wires.native.parts import encode_result, encode_tool
from dragoman.wires.native.reader import ChunkReader, decode_error
from dragoman.wires.native.request import encode_request
from dragoman.wires.native.shapes import NAME


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    return [encode_tool(tool) for tool in own_tools(Request(tools=tools), Notes(NAME))]


CLIENT = Client(
    encode_request=encode_request,
    encode_tools=_encode_tools,
    encode_result=encode_result,
    reader=ChunkReader,
    decode_error=decode_error,
)
