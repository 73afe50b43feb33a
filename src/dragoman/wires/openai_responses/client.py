"""A Request in, the bytes of a Responses call out; its answer's bytes in, events out."""

from dragoman.options import own_tools
from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wire import Client, Notes
from dragoman.wires.openai_responses.parts import encode_tool
from dragoman.wires.openai_responses.reader import ItemReader
from dragoman.wires.openai_responses.request import encode_request
from dragoman.wires.openai_responses.shapes import NAME
from dragoman.wires.openai_responses.turns import encode_result


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    return [encode_tool(tool) for tool in own_tools(Request(tools=tools), Notes(NAME))]


CLIENT = Client(
    encode_request=encode_request, encode_tools=_encode_tools, encode_result=encode_result, reader=ItemReader
)
