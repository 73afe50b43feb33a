"""A request, a response, a recorded stream or an error of one dialect in, the same in another one out. Pure.

`canonical` is a dialect, too: our own values as JSON, a stream as one event a line.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.cli.input_files import decode, readable, refuse_unknown
from dragoman.errors import DragomanError, InvalidRequest, Truncated
from dragoman.events import Event, Finished, fold
from dragoman.http import Head, HttpRequest
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Finish, JsonObject, Notice, Request, Response, dump, is_object
from dragoman.wires.common.error_record import ErrorRecord, dump_error, load_error

CANONICAL = "canonical"
S = TypeVar("S", bound=msgspec.Struct)
Kind: TypeAlias = Literal["request", "response", "stream", "error"]
_ASKS = frozenset({"messages", "contents", "input"})
"""What a request of any dialect has, and no answer."""
_ANSWERS = frozenset({"candidates", "choices", "content", "done", "finish", "message", "output", "promptFeedback"})
"""What an answer of any dialect has, and no request."""
_REFUSES = frozenset({"error", "message", "detail"})
"""What a refusal has: servers that are compatible with a dialect have shapes of their own for it."""


class TranslatedRequest(msgspec.Struct, frozen=True):
    """A request, and the model that it names."""

    model: str
    request: Request


class Streamed(msgspec.Struct, frozen=True):
    """The events of a stream, and the error that it ended with."""

    events: tuple[Event, ...]
    error: DragomanError | None = None


Said: TypeAlias = TranslatedRequest | Response | Streamed | DragomanError
"""What was read of any dialect."""


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, in another dialect: its bytes, where a request goes to, and what was bent."""

    data: bytes
    place: str | None = None
    notices: tuple[Notice, ...] = ()


# Reading --------------------------------------------------------------------------------------------------------------


def kind_of(data: bytes, dialect: str | None = None, /) -> Kind:
    """What some bytes are, by their shape.

    >>> kind_of(b'{"messages": []}'), kind_of(b'{"choices": []}'), kind_of(b"data: {}")
    ('request', 'response', 'stream')
    """
    if not data.lstrip().startswith(b"{") or _is_first_of_many(data):
        return "stream"
    value: JsonObject = decode(data)
    if dialect == CANONICAL and "type" in value:
        return "stream"
    if _ASKS & value.keys():
        return "request"
    if isinstance(value.get("message"), str) or not _ANSWERS & value.keys():
        return "error" if _REFUSES & value.keys() else "request"
    return "response"


def _is_first_of_many(data: bytes) -> bool:
    """Whether the first line is a value and others follow, as in NDJSON."""
    line, _, rest = data.lstrip().partition(b"\n")
    try:
        return bool(rest.strip()) and is_object(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def read(data: bytes, dialect: str, /, *, kind: Kind | None = None, model: str = "model", status: int = 400) -> Said:
    """What some bytes of a dialect say; `model` is for dialects that name it elsewhere, `status` for an error.

    >>> read(b'{"messages": [{"role": "user", "content": "hi"}]}', "ollama").request.messages[0].text
    'hi'
    """
    kind = kind or kind_of(data, dialect)
    with readable():
        return _read_canonical(data, kind) if dialect == CANONICAL else _read_wire(data, dialect, kind, model, status)


def _read_wire(data: bytes, dialect: str, kind: Kind, model: str, status: int) -> Said:
    wire = wires.get(dialect)
    match kind:
        case "request":
            path = wire.server.routes[0].path.replace("{model}", model)
            named, request = wire.server.decode_request(HttpRequest(method="POST", path=path, body=data))
            return TranslatedRequest(named or model, request)
        case "response":
            return fold(wire.client.decode_body(data))
        case "stream":
            return _read_stream(data, dialect)
        case "error":
            return wire.client.decode_error(Head(status=status), data)


def _read_stream(data: bytes, dialect: str) -> Streamed:
    decoder = wires.get(dialect).client.stream_decoder()
    events: list[Event] = []
    try:
        for piece in (data, b""):
            events += decoder.feed(piece)
    except DragomanError as error:
        return Streamed(tuple(events), error)
    return Streamed(tuple(events))


def _read_canonical(data: bytes, kind: Kind) -> Said:
    match kind:
        case "request":
            return _read_request(data)
        case "response":
            return load_all(data, Response)
        case "stream":
            return _read_lines(data)
        case "error":
            fields = decode(data)
            told = fields.get("error") if is_object(fields) else None
            return load_error(load_all(msgspec.json.encode(told), ErrorRecord))


def _read_request(data: bytes) -> TranslatedRequest:
    fields = decode(data)
    model = fields.pop("model", "model") if is_object(fields) else "model"
    if not isinstance(model, str):
        raise InvalidRequest("model: not a text")
    try:
        return TranslatedRequest(model, load_all(msgspec.json.encode(fields), Request))
    except InvalidRequest as error:
        raise InvalidRequest(f"{error.message}; what is not canonical needs --from openai_chat, say") from error


def load_all(data: bytes, kind: type[S], /) -> S:
    """A value of ours that JSON is; InvalidRequest where it is none, or says more than that.

    >>> load_all(b'{"seed": 7}', Request).seed
    7
    """
    fields = decode(data)
    with readable():
        value = msgspec.convert(fields, kind)
    refuse_unknown(value, fields)
    return value


def _read_lines(data: bytes) -> Streamed:
    events: list[Event] = []
    for line in data.splitlines():
        if line.strip():
            said = _read_line(line)
            if isinstance(said, ErrorRecord):
                return Streamed(tuple(events), load_error(said))
            events.append(said)
    ended = bool(events) and isinstance(events[-1], Finished)
    return Streamed(tuple(events), None if ended else Truncated("the events end before `finished`"))


def _read_line(line: bytes) -> Event | ErrorRecord:
    said: Event | ErrorRecord = load_all(line, _LINE)
    return said


_LINE: Any = Event | ErrorRecord


# Writing --------------------------------------------------------------------------------------------------------------


def write(said: Said, dialect: str, /, *, target: Target | None = None) -> Translation:
    """What was said, in a dialect; `target` is who a request is fitted to, otherwise it is nobody in particular.

    >>> from dragoman.types import Finish, assistant
    >>> answer = Response(message=assistant("hi"), finish=Finish(reason="stop"))
    >>> b'"content":"hi"' in write(answer, "openai_chat").data
    True
    """
    if dialect == CANONICAL:
        return Translation(data=_write_canonical(said))
    server = wires.get(dialect).server
    match said:
        case TranslatedRequest():
            return _write_request(said, target or plain_target(dialect, said.model))
        case Response():
            data = server.encode_body(replace(said, finish=_reason(said.finish))).body + b"\n"
            again = fold(wires.get(dialect).client.decode_body(data)).finish
            return Translation(data=data, notices=(*said.notices, *_bent(said.finish, again, dialect)))
        case Streamed():
            return _write_stream(said, dialect)
        case DragomanError():
            return Translation(data=server.encode_error(said).body + b"\n")


def plain_target(dialect: str, model: str, /) -> Target:
    """Nobody in particular who speaks a dialect: no limits, no habits.

    >>> plain_target("anthropic", "m")
    Target(anthropic/m)
    """
    path = next(record.default_path for record in PROVIDERS.values() if record.wire == dialect)
    base_url = f"https://provider.invalid{path}"
    return Target(
        provider=dialect, model=model, wire=dialect, base_url=base_url, capabilities=Capabilities(image_urls=True)
    )


def _write_request(asked: TranslatedRequest, target: Target) -> Translation:
    http = wires.get(target.wire).client.encode_request(asked.request, target)
    notices = (*http.notices, *_added(asked.request, http, target.wire))
    return Translation(data=http.body + b"\n", place=f"{http.method} {http.redacted().path}", notices=notices)


def _added(request: Request, http: HttpRequest, dialect: str) -> tuple[Notice, ...]:
    """What a dialect cannot do without, and the request does not say."""
    _, again = wires.get(dialect).server.decode_request(http)
    if request.max_tokens is not None or again.max_tokens is None:
        return ()
    return (Notice(kind="info", what="max_tokens", why=f"{dialect}: it needs one, so it says {again.max_tokens}"),)


def _write_stream(said: Streamed, dialect: str) -> Translation:
    encoder = wires.get(dialect).server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(_reasoned(event)) for event in said.events)
    data += b"" if said.error is None else encoder.feed(said.error)
    notices = [notice for event in _ends(said.events) for notice in event.notices]
    for event, again in zip(_ends(said.events), _ends(_read_stream(data, dialect).events), strict=False):
        notices += _bent(event.finish, again.finish, dialect)
    return Translation(data=data, notices=tuple(notices))


def _ends(events: Iterable[Event]) -> list[Finished]:
    return [event for event in events if isinstance(event, Finished)]


def _reasoned(event: Event) -> Event:
    return replace(event, finish=_reason(event.finish)) if isinstance(event, Finished) else event


def _reason(finish: Finish) -> Finish:
    """Why it ended; clients want to hear of some reason, also where nobody told one."""
    return Finish(reason="stop") if finish == Finish(reason="other") else finish


def _bent(finish: Finish, again: Finish, dialect: str) -> tuple[Notice, ...]:
    if finish.reason == again.reason:
        return ()
    return (Notice(kind="changed", what="finish", why=f"{dialect}: {finish.reason!r} became {again.reason!r}"),)


def _write_canonical(said: Said) -> bytes:
    match said:
        case TranslatedRequest():
            fields: dict[str, Any] = {"model": said.model, **msgspec.json.decode(dump(said.request))}
            return msgspec.json.encode(fields) + b"\n"
        case Response():
            return dump(said) + b"\n"
        case Streamed():
            lines = [dump(event) for event in said.events]
            lines += [] if said.error is None else [dump(dump_error(said.error))]
            return b"".join(line + b"\n" for line in lines)
        case DragomanError():
            return msgspec.json.encode({"error": dump_error(said)}) + b"\n"
