"""A Request in, the bytes of a generateContent call out; its answer's bytes in, events out."""

from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wires.common.client import Client
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import own_tools
from dragoman.wires.google.decoder import ChunkReader, Framing
from dragoman.wires.google.encoder import encode_request, encode_tools
from dragoman.wires.google.parts import encode_result
from dragoman.wires.google.schema import NAME


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    notes = NoticeCollector(NAME)
    return encode_tools(own_tools(Request(tools=tools), notes), notes)


CLIENT = Client(
    encode_request=encode_request,
    encode_tools=_encode_tools,
    encode_result=encode_result,
    reader=ChunkReader,
    framing=Framing,
)
