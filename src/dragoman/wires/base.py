"""The contract of a wire, and what all wires need to keep it: bytes and values on one side, events on the other."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from dragoman.errors import DragomanError, ProviderError
from dragoman.events import Event, kind_of
from dragoman.http import Head, HttpReply, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import (
    JsonObject,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Tool,
    ToolResult,
)
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.server_endpoints import Route, ServerEndpoint, StoredConversations


class StreamDecoder(Protocol):
    """Bytes to events; b"" is the end of the file.

    An error is raised by the `feed` after the one that gave the last events before it; `error` has it at once.
    """

    error: DragomanError | None

    @property
    def content_length(self) -> int:
        """Characters of content so far, shown or still being gathered; pings are none."""
        ...

    def feed(self, data: bytes, /) -> list[Event]:
        """The events that these bytes complete."""
        ...


class StreamEncoder(Protocol):
    """Events to bytes: the mirror. An error is said as the dialect says it, and ends the stream."""

    content_type: str

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        ...


class ClientHalf(Protocol):
    """We call them."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The exact bytes for this target."""
        ...

    def encode_tools(self, tools: tuple[Tool | Opaque, ...], /) -> list[JsonObject]:
        """The definitions of some tools, as they stand in a request."""
        ...

    def encode_result(self, result: ToolResult, /) -> JsonObject:
        """A tool's result, as it stands in the next request."""
        ...

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body."""
        ...

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The typed error of an answer that is no."""
        ...

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer; the request tells it what came before."""
        ...


class ServerHalf(Protocol):
    """They call us."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The paths of this dialect."""
        ...

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        ...

    def check(self, model: str, request: Request, /) -> None:
        """Refuse what can be read, and is no request that this dialect's servers answer."""
        ...

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect, to the request that asked for it."""
        ...

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part; one that has none is left out."""
        ...

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        ...

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        ...


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol, both directions.

    >>> from dragoman import wires
    >>> wires.get("anthropic").name
    'anthropic'
    """

    name: str
    client: ClientHalf
    server: ServerHalf
    endpoints: Endpoints
    """Model lists, token counts and embeddings, as a client."""
    server_endpoints: tuple[ServerEndpoint, ...] = ()
    """The same, and stored responses, as a server."""
    stored_conversations: StoredConversations | None = None
    """How requests continue from a stored response; None if the dialect has no such thing."""
    other_servers: tuple[ServerHalf, ...] = ()
    """Other ways in which this dialect's clients ask for generation."""
    gateway_call_ids: bool = False
    """Whether clients are told calls under ids of the gateway's own making."""
    empty_request_loads_model: bool = False
    """Whether a request that says nothing asks only that the model be there."""


def unsupported_parts(wire: Wire, parts: Iterable[Part], /) -> tuple[Notice, ...]:
    """What a dialect leaves out of an answer, for the client to be told.

    >>> from dragoman import wires
    >>> unsupported_parts(wires.get("ollama"), [Opaque(wire="google", data={})])[0].what
    'a part of the answer (opaque)'
    """
    left_out = [part for part in parts if not wire.server.supports_part(part)]
    if not left_out:
        return ()
    notes = NoticeCollector(wire.name)
    for part in left_out:
        notes.add("dropped", f"a part of the answer ({kind_of(part)})", "the dialect has no word for it")
    return notes.notices
