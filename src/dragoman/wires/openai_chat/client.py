"""A Request in, the bytes of a Chat Completions call out; its answer's bytes in, events out."""

from dragoman.options import own_tools
from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wire import Client, Notes
from dragoman.wires.openai_chat.parts import encode_tool
from dragoman.wires.openai_chat.reader import ChatReader
from dragoman.wires.openai_chat.request import encode_request
from dragoman.wires.openai_chat.shapes import NAME
from dragoman.wires.openai_chat.turns import encode_result


def _encode_tools(tools: tuple[Tool | Opaque, ...]) -> list[JsonObject]:
    return [encode_tool(tool) for tool in own_tools(Request(tools=tools), Notes(NAME))]


CLIENT = Client(
    encode_request=encode_request, encode_tools=_encode_tools, encode_result=encode_result, reader=ChatReader
)
