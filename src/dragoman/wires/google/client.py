"""The client half of the Gemini API."""

from dragoman.wires.common.client import WireClient
from dragoman.wires.google.decoder import ChunkReader, Framing
from dragoman.wires.google.encoder import encode_request, encode_tools
from dragoman.wires.google.parts import encode_result
from dragoman.wires.google.schema import NAME

CLIENT = WireClient(
    NAME,
    encode_request=encode_request,
    encode_tools=encode_tools,
    encode_result=encode_result,
    decoder=ChunkReader,
    framing=Framing,
)
