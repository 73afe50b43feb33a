"""The contract of a wire, and what all wires need to keep it: bytes and values on one side, events on the other."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, Malformed, ProviderError, Truncated, Unsupported
from dragoman.events import Assembler, Event, kind_of
from dragoman.failure import decode_failure
from dragoman.framing import Frame, FrameDecoder, SseDecoder
from dragoman.http import Head, HttpReply, HttpRequest, split_base_url
from dragoman.target import Target
from dragoman.tolerance import UNREADABLE, decode_again
from dragoman.types import (
    Finish,
    FinishReason,
    JsonObject,
    Notice,
    NoticeKind,
    Opaque,
    Part,
    Request,
    Response,
    Tool,
    ToolResult,
    Usage,
    is_object,
)

ERROR_PREFIX = "ERROR: "
"""What stands before a tool's error on wires that have no word for it."""


class StreamDecoder(Protocol):
    """Bytes to events; b"" is the end of the file.

    An error is raised by the `feed` after the one that gave the last events before it; `error` has it at once.
    """

    error: DragomanError | None

    @property
    def heard(self) -> int:
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


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A path that a server half answers; `{model}` stands for a model's name, `{id}` for an id.

    Where two dialects have one path, the header that only one's clients send tells them apart.

    >>> Route(method="POST", path="/v1/messages").path
    '/v1/messages'
    """

    method: str
    path: str
    header: str | None = None


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

    def says(self, part: Part, /) -> bool:
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
    others: tuple[ServerHalf, ...] = ()
    """Other ways in which this dialect's clients ask for generation."""
    own_ids: bool = False
    """Whether clients are told calls under ids of the gateway's own making."""
    loads: bool = False
    """Whether a request that says nothing asks only that the model be there."""


class Notes:
    """Collects notices on the way to one target; under `strict`, a loss is refused instead.

    A wire that `carries_all` takes along what only other wires understand.

    >>> notes = Notes("ollama")
    >>> notes.add("dropped", "user", "it has no user id")
    >>> notes.notices[0].why
    'ollama: it has no user id'
    """

    def __init__(self, wire: str, *, strict: bool = False, carries_all: bool = False) -> None:
        self.wire = wire
        self.carries_all = carries_all
        self._strict = strict
        self._notices: dict[Notice, None] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All of them, each once, in order."""
        return tuple(self._notices)

    def add(self, kind: NoticeKind, what: str, why: str) -> None:
        """Note one thing."""
        self.take(Notice(kind=kind, what=what, why=f"{self.wire}: {why}"))

    def take(self, *notices: Notice) -> None:
        """Note what somebody else found."""
        for notice in notices:
            if self._strict and notice.loss:
                raise Unsupported(f"{notice.what}: {notice.why} (strict)")
            self._notices[notice] = None


class Reader:
    """A stream decoder made of a framing, a function that reads one frame, and one that says farewell.

    >>> from dragoman.framing import NdjsonDecoder
    >>> out = Assembler()
    >>> reader = Reader(NdjsonDecoder(), out, lambda frame: out.delta(0, "text", frame.data.decode()), lambda: None)
    >>> len(reader.feed(b"1\\n"))
    3
    """

    def __init__(
        self, framing: FrameDecoder, out: Assembler, read: Callable[[Frame], None], end: Callable[[], None]
    ) -> None:
        self.error: DragomanError | None = None
        self._framing = framing
        self._out = out
        self._read = read
        self._end = end

    @property
    def heard(self) -> int:
        """Characters of content so far, shown or still being gathered."""
        return self._out.heard

    def feed(self, data: bytes, /) -> list[Event]:
        """The events that these bytes complete; b"" is the end of the file."""
        if self.error is not None:
            raise self.error
        out = self._out
        if out.is_finished():
            return []
        try:
            self._advance(data)
        except DragomanError as error:
            self.error = error
            _tell_usage(error, out)
            events = out.take()
            if not data or not events:
                raise
            return events
        return out.take()

    def _advance(self, data: bytes) -> None:
        try:
            for frame in self._framing.feed(data):
                self._read(frame)
                if self._out.is_finished():
                    return
            if not data:
                self._end()
        except RecursionError as error:
            raise Malformed("an event is nested too deeply") from error


class AnswerReader(Protocol):
    """Reads one answer, whole or in frames, into an assembler."""

    out: Assembler

    def read_body(self, body: bytes, /) -> None:
        """A whole answer."""
        ...

    def read_frame(self, frame: Frame, /) -> None:
        """One frame of a stream."""
        ...

    def end(self) -> None:
        """The connection closed."""
        ...


class Client:
    """A client half, made of the functions in which wires differ.

    >>> from dragoman import wires
    >>> wires.get("anthropic").client.encode_tools((Tool(name="now"),))[0]["name"]
    'now'
    """

    def __init__(
        self,
        *,
        encode_request: Callable[[Request, Target], HttpRequest],
        encode_tools: Callable[[tuple[Tool | Opaque, ...]], list[JsonObject]],
        encode_result: Callable[[ToolResult], JsonObject],
        reader: Callable[[Request | None], AnswerReader],
        framing: Callable[[], FrameDecoder] = SseDecoder,
        decode_error: Callable[[Head, bytes], ProviderError] = decode_failure,
    ) -> None:
        self.encode_request = encode_request
        self.encode_tools = encode_tools
        self.encode_result = encode_result
        self.decode_error = decode_error
        self._reader = reader
        self._framing = framing

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body; an error has the usage that was told before it, as a stream's has."""
        reader = self._reader(request)
        try:
            reader.read_body(body)
        except DragomanError as error:
            _tell_usage(error, reader.out)
            raise
        return reader.out.take()

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer; the request tells it what came before."""
        reader = self._reader(request)
        return Reader(self._framing(), reader.out, reader.read_frame, reader.end)


def _tell_usage(error: DragomanError, out: Assembler) -> None:
    if error.usage is None and out.usage is not None:
        error.usage = msgspec.structs.replace(out.usage, source="partial")


def decode_frame(decoder: "msgspec.json.Decoder[Any]", frame: Frame, /) -> Any:
    """A frame's JSON, {} where it is blank; Truncated where the frame itself had no end, Malformed otherwise.

    >>> decode_frame(msgspec.json.Decoder(), Frame(name="", data=b"{}"))
    {}
    """
    try:
        return decoder.decode(frame.data)
    except UNREADABLE:
        try:
            return decode_again(decoder, frame.data.strip() or b"{}" * frame.whole)
        except UNREADABLE as error:
            if not frame.whole and not isinstance(error, msgspec.ValidationError):
                raise Truncated(f"the stream ended inside an event: {preview(frame.data)}") from error
            raise Malformed(f"an event is not what the protocol says ({error}): {preview(frame.data)}") from error


def decode_json(decoder: "msgspec.json.Decoder[Any]", body: bytes, /) -> Any:
    """A body's JSON; Truncated where it is empty or breaks off, Malformed otherwise.

    >>> decode_json(msgspec.json.Decoder(), b' {"a": 1} ')
    {'a': 1}
    """
    try:
        return decoder.decode(body)
    except UNREADABLE:
        try:
            return decode_again(decoder, body)
        except UNREADABLE as error:
            kind = Truncated if not body.strip() or "truncated" in str(error) else Malformed
            raise kind(f"the body is not what the protocol says ({error}): {preview(body)}") from error


def preview(data: bytes, /) -> str:
    """The beginning of some bytes, for a message.

    >>> preview(b"hello")
    'hello'
    """
    return data[:200].decode("utf-8", "replace")


def truncated(wire: str, /) -> Truncated:
    """The error of a stream that ended without its farewell.

    >>> truncated("ollama").message
    'ollama: the stream ended before its end'
    """
    return Truncated(f"{wire}: the stream ended before its end")


def http_request(target: Target, path: str, body: JsonObject, notes: Notes, /, **headers: str) -> HttpRequest:
    """The POST of a JSON body to a target, with its key and its own headers.

    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x/v1", api_key="k")
    >>> http_request(target, "/chat", {}, Notes("w")).url
    'https://x/v1/chat'
    """
    origin, prefix = split_base_url(target.base_url)
    return HttpRequest(
        method="POST",
        origin=origin,
        path=prefix + path,
        headers={"content-type": "application/json", **headers, **target.auth_headers(), **target.headers},
        body=encode_json(body),
        notices=notes.notices,
        secret=target.api_key,
    )


def encode_json(value: object, /) -> bytes:
    """Compact JSON; what cannot be JSON is the caller's mistake.

    >>> encode_json({"a": [1]})
    b'{"a":[1]}'
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"the request is not JSON: {error}") from error


def wire_extra(extra: Mapping[str, Any], wire: str, /) -> JsonObject:
    """What `extra` holds for this wire.

    >>> wire_extra({"ollama": {"keep_alive": 0}}, "ollama")
    {'keep_alive': 0}
    """
    data = extra.get(wire) if extra else None
    return data if is_object(data) else {}


MOST_TOLD = 8
"""How many members of a field that is left out are told."""
VERBATIM = ".verbatim"
"""Behind a wire's name in the `extra` of a request: a client's own form of what our words say whole."""


def request_extra(wire: str, rest: JsonObject, covered: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a request that a client sent: what our words do not say, and its own form of what they do.

    >>> request_extra("w", {"n": 2}, {"top_k": 5})
    {'w': {'n': 2}, 'w.verbatim': {'top_k': 5}}
    """
    return {**own_extra(wire, rest), **own_extra(wire + VERBATIM, covered)}


def said_verbatim(request: Request, wire: str, /) -> JsonObject:
    """All that a request's `extra` holds for this wire.

    >>> said_verbatim(Request(extra={"w": {"n": 2}, "w.verbatim": {"top_k": 5}}), "w")
    {'top_k': 5, 'n': 2}
    """
    return {**wire_extra(request.extra, wire + VERBATIM), **wire_extra(request.extra, wire)}


def body_extra(request: Request, target: Target, notes: Notes, /) -> JsonObject:
    """What the caller wants merged verbatim into the body: under the wire's name, then under the provider's.

    >>> target = Target(provider="groq", model="m", wire="openai_chat", base_url="https://x")
    >>> body_extra(Request(extra={"groq": {"a": 1}, "openai_chat": {"b": 2}}), target, Notes("openai_chat"))
    {'b': 2, 'a': 1}
    """
    if not request.extra:
        return {}
    for name in request.extra:
        if name not in (target.wire, target.provider) and not name.endswith(VERBATIM):
            _drop(request, name, "it belongs to another wire", notes)
    own = wire_extra(request.extra, target.provider)
    if not target.quirks.other_fields:
        _drop(request, target.wire, "it has no such option", notes)
        return {**wire_extra(request.extra, target.wire + VERBATIM), **own}
    return {**said_verbatim(request, target.wire), **own}


def _drop(request: Request, name: str, why: str, notes: Notes) -> None:
    """Say which fields are left out, and what stood in them."""
    for field, value in wire_extra(request.extra, name).items():
        inside = ", ".join([*value][:MOST_TOLD]) if is_object(value) else ""
        notes.add("dropped", f"{name}: {field}", f"{why} ({inside})" if inside else why)


def without_none(data: JsonObject, /) -> JsonObject:
    """The same without what is not told.

    >>> without_none({"a": None, "b": 0})
    {'b': 0}
    """
    return {key: value for key, value in data.items() if value is not None}


def own_extra(wire: str, data: JsonObject, /) -> dict[str, Any]:
    """The `extra` of a value that holds this for one wire; nothing where there is nothing.

    >>> own_extra("ollama", {}), own_extra("ollama", {"index": 0})
    ({}, {'ollama': {'index': 0}})
    """
    return {wire: data} if data else {}


def whole_number(value: object, /) -> int | None:
    """A number without a fraction, and no bool.

    >>> whole_number(3), whole_number(3.0), whole_number(True), whole_number("3")
    (3, 3, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def moment(value: object, /) -> int | None:
    """A time in seconds, whole or not; 0 is not told.

    >>> moment(1794700000), moment(1794700000.25), moment(0), moment("today")
    (1794700000, 1794700000, None, None)
    """
    return int(value) or None if isinstance(value, int | float) and value is not True else None


def finish_word(finish: Finish, meanings: Mapping[str, FinishReason], words: Mapping[FinishReason, str], /) -> str:
    """A dialect's word for a finish: the provider's own where it is of this dialect and means the same.

    >>> finish_word(Finish(reason="stop", raw="eos"), {"eos": "stop"}, {"stop": "stop"})
    'eos'
    """
    raw = finish.raw
    return raw if raw and meanings.get(raw) == finish.reason else words[finish.reason]


def error_headers(error: DragomanError, /) -> dict[str, str]:
    """The headers of a refusal.

    >>> error_headers(DragomanError("slow down", retry_after=1.5))
    {'content-type': 'application/json', 'retry-after': '2'}
    """
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    return headers


def unsaid(wire: Wire, parts: Iterable[Part], /) -> tuple[Notice, ...]:
    """What a dialect leaves out of an answer, for the client to be told.

    >>> from dragoman import wires
    >>> unsaid(wires.get("ollama"), [Opaque(wire="google", data={})])[0].what
    'a part of the answer (opaque)'
    """
    left_out = [part for part in parts if not wire.server.says(part)]
    if not left_out:
        return ()
    notes = Notes(wire.name)
    for part in left_out:
        notes.add("dropped", f"a part of the answer ({kind_of(part)})", "the dialect has no word for it")
    return notes.notices


def latest_usage(old: Usage | None, new: Usage, /) -> Usage:
    """Usage with what was told last, field by field.

    >>> latest_usage(Usage(input=3), Usage(output=1))
    Usage(input=3, output=1, cache_read=None, cache_write=None, reasoning=None, source='reported')
    """
    if old is None:
        return new
    return Usage(
        input=old.input if new.input is None else new.input,
        output=old.output if new.output is None else new.output,
        cache_read=old.cache_read if new.cache_read is None else new.cache_read,
        cache_write=old.cache_write if new.cache_write is None else new.cache_write,
        reasoning=old.reasoning if new.reasoning is None else new.reasoning,
        source=new.source,
    )
