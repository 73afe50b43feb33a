"""The contract of a wire: one protocol, in both directions.

A wire translates between the types of dragoman and the HTTP messages of one protocol. It does no I/O: it makes
`HttpRequest` values that a driver sends, and it is fed the bytes that came back. Each wire has two halves:

    client half (dragoman calls a provider)           server half (a client calls the gateway)
    Request        -> encode_request  -> HttpRequest   HttpRequest -> decode_request -> Request
    body bytes     -> decode_body     -> events        Response    -> encode_body    -> HttpResponse
    stream bytes   -> stream_decoder  -> events        events      -> stream_encoder -> stream bytes
    error response -> decode_error    -> exception     exception   -> encode_error   -> HttpResponse

Both halves speak in events (`dragoman.events`), so that any server half can answer with what any client half received.
A feature that the other side cannot express is dropped or changed with a `Notice`, or refused if it is essential.
Data that only one protocol understands travels in the `extra` of requests, messages and parts, under the wire's name.

A folder `wires/<name>/` holds one wire: `encoder` and `decoder` are its client half, `server` and `stream_encoder` its
server half, `messages` and `parts` convert messages for both, `schema` has the types of the protocol's JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from dragoman.errors import DragomanError, ProviderError
from dragoman.events import Event, Started, kind_of
from dragoman.http import Head, HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import (
    AnyTool,
    Choice,
    Finish,
    JsonObject,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.wires.common.batch_values import BatchRowResult
from dragoman.wires.common.batches import Batches
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.prompt_caches import CacheSplit, StoredPrompt
from dragoman.wires.common.server_endpoints import ResponseContinuation, Route, ServerEndpoint, StoredChats
from dragoman.wires.common.uploads import Media, NextUpload, Uploaded


class StreamDecoder(Protocol):
    """Turns the bytes of one stream into events.

    If the bytes contain an error, `error` has it at once; `feed` first returns the events before it and raises it when
    it is called again.
    """

    error: DragomanError | None

    @property
    def call_deltas(self) -> bool:
        """Whether to emit the fragments of tool calls, as CallDelta; False at first."""
        ...

    @call_deltas.setter
    def call_deltas(self, value: bool, /) -> None: ...

    @property
    def content_length(self) -> int:
        """Characters of content so far, including incomplete tool calls but not pings."""
        ...

    def feed(self, data: bytes, /) -> list[Event]:
        """The events that these bytes complete; b"" is the same as `end(is_complete=False)`."""
        ...

    def end(self, *, is_complete: bool = True) -> list[Event]:
        """The last events. `is_complete`: the body is complete by the rules of HTTP, so nothing was cut off."""
        ...

    def emit_call_as_text(self, name: str, /) -> None:
        """Emit the arguments of the first call of this tool as text, if they arrive in pieces."""
        ...


class StreamEncoder(Protocol):
    """Turns events into the bytes of one stream; an error is written as the protocol does it, and ends the stream."""

    content_type: str

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        ...


class ClientHalf(Protocol):
    """What dragoman needs to call a provider that speaks the protocol."""

    def encode_request(self, request: Request, target: Target, /) -> HttpRequest:
        """The HTTP request for this target, with notices of what was dropped or changed."""
        ...

    def encode_tools(self, tools: tuple[AnyTool, ...], /) -> list[JsonObject]:
        """Tool definitions as they stand in a request."""
        ...

    def encode_result(self, result: ToolResult, /) -> JsonObject:
        """A tool result as it stands in the next request."""
        ...

    def decode_body(self, body: bytes, request: Request | None = None, target: Target | None = None, /) -> list[Event]:
        """The events of a whole response body; `target` says how the server differs from its wire."""
        ...

    def decode_response(self, body: bytes, request: Request | None = None, target: Target | None = None, /) -> Response:
        """The response of a whole body: what `fold` makes of its events."""
        ...

    def decode_error(self, head: Head, body: bytes, /) -> ProviderError:
        """The exception for an error response."""
        ...

    def stream_decoder(self, request: Request | None = None, target: Target | None = None, /) -> StreamDecoder:
        """A decoder for one stream; `request` is needed for ids of tool calls that do not repeat."""
        ...


class ServerHalf(Protocol):
    """What the gateway needs to answer clients that speak the protocol."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The paths for generation."""
        ...

    @property
    def has_citations(self) -> bool:
        """Whether responses can contain citations; otherwise they are dropped."""
        ...

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model name and the request."""
        ...

    def check(self, model: str, request: Request, /) -> None:
        """Raise `InvalidRequest` for a request that can be decoded but that the provider would refuse."""
        ...

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        """The whole response to `request`."""
        ...

    def supports_part(self, part: Part, /) -> bool:
        """Whether responses of this protocol can contain the part; other parts are dropped."""
        ...

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        """The error response."""
        ...

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """An encoder for one stream."""
        ...


class WireCompaction(Protocol):
    """How a conversation is compacted for clients of the protocol, if the target cannot do it itself."""

    def is_requested(self, request: Request, /) -> bool:
        """Whether the request asks for a compaction."""
        ...

    def summary_request(self, request: Request, /) -> Request:
        """The request that asks a target for a summary instead."""
        ...

    def to_compaction(self, response: Response, /) -> Response:
        """The answer to `summary_request` as the client expects a compaction."""
        ...


class ResponseProgress(Protocol):
    """A response that runs in the background, as far as it is."""

    frames: list[bytes]
    """The events of its stream so far, each as it is sent; they are numbered from 0."""
    snapshot: JsonObject
    """The response object that clients fetch."""

    def feed(self, data: bytes, /) -> None:
        """Add whole events of the stream."""
        ...

    def cancel(self) -> None:
        """Note that the client cancelled it."""
        ...


class WireBackground(Protocol):
    """How clients of the protocol see a response that runs in the background."""

    def progress(self, request: Request, head: Started, /) -> ResponseProgress:
        """A response that has not begun."""
        ...

    def encode(self, snapshot: JsonObject, /) -> HttpResponse:
        """The response to a client that fetches a snapshot."""
        ...

    def is_over(self, snapshot: JsonObject, /) -> bool:
        """Whether the response of a snapshot has ended."""
        ...

    def fail(self, snapshot: JsonObject, message: str, /) -> JsonObject:
        """The snapshot of a response that failed for some reason."""
        ...

    def encode_failed(self, snapshot: JsonObject, number: int, /) -> bytes:
        """The last event of a stream, with its number, for a response that failed."""
        ...

    def was_background(self, request: Request, /) -> bool:
        """Whether a stored response ran in the background, by the request that is stored with it."""
        ...


class WireFiles(Protocol):
    """How files are stored at a provider of the protocol, and how requests refer to them."""

    def start(self, part: Media, target: Target, /) -> HttpRequest | None:
        """The first request of an upload; None if the provider takes files of this type only as bytes."""
        ...

    def follow(self, response: HttpResponse, part: Media, target: Target, /) -> Uploaded | NextUpload:
        """What follows from a response: the upload is complete, or needs another request."""
        ...

    def refer(self, part: Media, id: str, /) -> Opaque:
        """The part of a request that refers to a stored file."""
        ...

    def complete(self, request: Request, /) -> Request:
        """A request with such parts, with what else it needs."""
        ...


class WirePromptCaches(Protocol):
    """How beginnings of prompts are stored at a provider of the protocol, and how requests refer to them."""

    def split(
        self, whole: HttpRequest, beginning: HttpRequest | None, target: Target, ttl: int, /
    ) -> CacheSplit | None:
        """A request in two, where an encoded beginning ends; None if it cannot be divided there.

        Without a beginning, the system prompt and the tools are stored.
        """
        ...

    def use(self, split: CacheSplit, name: str, /) -> HttpRequest:
        """The request that refers to a stored beginning."""
        ...

    def decode(self, response: HttpResponse, /) -> StoredPrompt:
        """What was stored, from the response to `split.create`."""
        ...

    def renew(self, name: str, target: Target, ttl: int, /) -> HttpRequest:
        """The request that lets a stored beginning live longer."""
        ...

    def delete(self, name: str, target: Target, /) -> HttpRequest:
        """The request that deletes a stored beginning."""
        ...


class SocketRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a client on a WebSocket."""

    lane: str | None = None
    """Requests of one lane are answered in order, those of different lanes at the same time."""
    body: bytes = b""
    """The body of the same request as POST, for a streamed answer."""
    answer: bytes | None = None
    """The message that answers it, if there is nothing to generate."""


class WireSocket(Protocol):
    """How clients of the protocol send requests over a WebSocket, on the paths of its server half."""

    def decode(self, http: HttpRequest, /) -> SocketRequest:
        """The message in the body; raises InvalidRequest."""
        ...

    def messages(self, data: bytes, lane: str | None, /) -> Iterable[bytes]:
        """The messages for some whole events of a streamed answer."""
        ...

    def with_headers(self, message: bytes, headers: Iterable[tuple[str, str]], /) -> bytes:
        """The first message of an answer with what HTTP says in headers."""
        ...

    def error(self, response: HttpResponse, headers: Iterable[tuple[str, str]], lane: str | None, /) -> bytes:
        """The message for an answer that is an error."""
        ...


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol, in both directions."""

    name: str
    client: ClientHalf
    server: ServerHalf
    endpoints: Endpoints
    """Model lists, token counts and embeddings, for calls to a provider."""
    server_endpoints: tuple[ServerEndpoint, ...] = ()
    """The same, and stored responses, for clients of the gateway."""
    continuation: ResponseContinuation | None = None
    """How requests continue from a stored response; None if the protocol has no stored responses."""
    batches: Mapping[str, Batches] = {}
    """How providers run batches, by the value of their quirk `batches`."""
    batch_files: Callable[[Iterable[BatchRowResult]], tuple[bytes, bytes]] | None = None
    """The files with the results of a batch of a client, answers and errors; None if the protocol has no such files."""
    stored_chats: StoredChats | None = None
    """How requests ask for a stored chat; None if the protocol has none."""
    compaction: WireCompaction | None = None
    """How clients ask for a conversation to be compacted; None if the protocol has no compaction."""
    background: WireBackground | None = None
    """How responses run in the background; None if the protocol has no such responses."""
    socket: WireSocket | None = None
    """How clients send requests over a WebSocket; None if the protocol has none."""
    prompt_caches: WirePromptCaches | None = None
    """How beginnings of prompts are stored; None if the protocol has no such thing."""
    files: WireFiles | None = None
    """How files are uploaded and referred to; None if the protocol has no files."""
    returned_call: Callable[[Request], Callable[[ToolCall], ToolCall]] | None = None
    """For a request: makes of a call in the answer the call that its client sends back; None if they are the same."""
    other_servers: tuple[ServerHalf, ...] = ()
    """Further server halves, for protocols with more than one way to ask for generation."""
    gateway_call_ids: bool = False
    """Whether the gateway replaces the ids of tool calls with its own."""
    lists_notices: bool = False
    """Whether the last event of a stream lists all notices, and not only those that came after the headers."""
    add_durations: Callable[[Finish, float, float], Finish] | None = None
    """Adds to the end of an answer how long all of it took, and its start, in seconds; None if responses do not say."""
    empty_request_loads_model: bool = False
    """Whether a request without messages only asks the server to load the model."""


def unsupported_parts(wire: Wire, parts: Sequence[Part], others: Sequence[Choice] = (), /) -> tuple[Notice, ...]:
    """Notices for the parts of a response, and of its other choices, that a protocol cannot express.

    >>> from dragoman import wires
    >>> unsupported_parts(wires.get("ollama"), [Opaque(wire="google", data={})])[0].what
    'response part (opaque)'
    """
    if others:
        parts = (*parts, *(part for choice in others for part in choice.message.parts))
    if len(parts) == 1 and type(parts[0]) is Text and not (parts[0].citations or parts[0].extra):
        return ()  # every protocol can express a text
    unsupported = [part for part in parts if not wire.server.supports_part(part)]
    is_uncited = not wire.server.has_citations and any(isinstance(part, Text) and part.citations for part in parts)
    if not unsupported and not is_uncited:
        return ()
    notices = NoticeCollector(wire.name)
    for part in unsupported:
        notices.add("dropped", f"response part ({kind_of(part)})", "not supported")
    if is_uncited:
        notices.add("dropped", "citations", "not supported")
    return notices.notices
