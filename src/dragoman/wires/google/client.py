"""A Request in, the bytes of a generateContent call out; its answer's bytes in, events out."""

from dragoman.errors import ProviderError
from dragoman.events import Event
from dragoman.failure import decode_failure
from dragoman.http import Head, HttpRequest
from dragoman.options import own_tools
from dragoman.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, ToolResult
from dragoman.wire import Notes, Reader, StreamDecoder, read_whole
from dragoman.wires.google.parts import encode_result
from dragoman.wires.google.reader import ChunkReader, Framing
from dragoman.wires.google.request import encode_request, encode_tools
from dragoman.wires.google.shapes import NAME


class Client:
    """We call them."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The exact bytes for this target."""
        return encode_request(request, target)

    def encode_tools(self, tools: tuple[Tool | Opaque, ...], /) -> list[JsonObject]:
        """The definitions of some tools, as they stand in a request."""
        notes = Notes(NAME)
        return encode_tools(own_tools(Request(tools=tools), notes), notes)

    def encode_result(self, result: ToolResult, /) -> JsonObject:
        """A tool's result, as it stands in the next request."""
        return encode_result(result)

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body."""
        reader = ChunkReader(request)
        return read_whole(reader.read_body, body, reader.out)

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The typed error of an answer that is no."""
        return decode_failure(head, body)

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer, whichever form it comes in."""
        reader = ChunkReader(request)
        return Reader(Framing(), reader.out, reader.read_frame, reader.end)
