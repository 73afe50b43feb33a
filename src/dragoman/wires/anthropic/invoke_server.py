"""The Messages API as Amazon Bedrock's InvokeModel serves it: other paths, AWS's errors, and AWS's event stream."""

from base64 import b64encode

from dragoman.errors import DragomanError
from dragoman.events import Event
from dragoman.http import HttpResponse
from dragoman.types import Request
from dragoman.wires.anthropic.server import AnthropicServer
from dragoman.wires.anthropic.stream_encoder import AnthropicStreamEncoder
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.aws_errors import encode_aws_error, encode_error, exception_name
from dragoman.wires.common.event_stream import CONTENT_TYPE, encode_event, encode_exception
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.server_endpoints import Route


class InvokeServer(AnthropicServer):
    """Serves `/model/{model}/invoke` and `/model/{model}/invoke-with-response-stream`."""

    routes = (
        Route(method="POST", path="/model/{model}/invoke"),
        Route(method="POST", path="/model/{model}/invoke-with-response-stream"),
    )

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return encode_aws_error(error)

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return _InvokeStreamEncoder()


class _InvokeStreamEncoder:
    """Wraps each server-sent event of the Messages API in a message of AWS's event stream."""

    content_type = CONTENT_TYPE

    def __init__(self) -> None:
        self._events = AnthropicStreamEncoder()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        if isinstance(event, DragomanError):
            return encode_exception(exception_name(event), encode_json(encode_error(event)))
        lines = self._events.feed(event).split(b"\n")
        return b"".join(
            encode_event("chunk", encode_json({"bytes": b64encode(line[6:]).decode()}))
            for line in lines
            if line.startswith(b"data: ")
        )
