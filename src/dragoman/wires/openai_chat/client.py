"""A Request in, the bytes of a Chat Completions call out; its answer's bytes in, events out."""

from dragoman.errors import ProviderError
from dragoman.events import Event
from dragoman.failure import decode_failure
from dragoman.framing import SseDecoder
from dragoman.http import Head, HttpRequest
from dragoman.options import own_tools
from dragoman.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, ToolResult
from dragoman.wire import Notes, Reader, StreamDecoder, read_whole
from dragoman.wires.openai_chat.parts import encode_tool
from dragoman.wires.openai_chat.reader import ChatReader
from dragoman.wires.openai_chat.request import encode_request
from dragoman.wires.openai_chat.shapes import NAME
from dragoman.wires.openai_chat.turns import encode_result


class Client:
    """We call them."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The exact bytes for this target."""
        return encode_request(request, target)

    def encode_tools(self, tools: tuple[Tool | Opaque, ...], /) -> list[JsonObject]:
        """The definitions of some tools, as they stand in a request."""
        return [encode_tool(tool) for tool in own_tools(Request(tools=tools), Notes(NAME))]

    def encode_result(self, result: ToolResult, /) -> JsonObject:
        """A tool's result, as it stands in the next request."""
        return encode_result(result)

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body."""
        reader = ChatReader(request)
        return read_whole(reader.read_body, body, reader.out)

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The typed error of an answer that is no."""
        return decode_failure(head, body)

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer."""
        reader = ChatReader(request)
        return Reader(SseDecoder(), reader.out, reader.read_frame, reader.end)
