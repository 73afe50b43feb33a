"""A request, a response, a recorded stream or an error of one dialect in, the same in another one out. Pure.

`canonical` is a dialect, too: our own values as JSON, a stream as one event a line.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman import wires
from dragoman.errors import DragomanError, Truncated
from dragoman.events import Event, Finished, fold
from dragoman.facts import Facts, error_of, facts_of
from dragoman.http import Head, HttpRequest
from dragoman.target import Limits, Target
from dragoman.types import Notice, Request, Response, dump, is_object, load

CANONICAL = "canonical"
Kind: TypeAlias = Literal["request", "response", "stream", "error"]
_ASKS = frozenset({"messages", "contents", "input"})
"""What a request of any dialect has, and no answer."""
_ANSWERS = frozenset({"candidates", "choices", "content", "done", "finish", "message", "output", "promptFeedback"})
"""What an answer of any dialect has, and no request."""
_REFUSES = frozenset({"error", "message", "detail"})
"""What a refusal has: servers that are compatible with a dialect have shapes of their own for it."""


class Asked(msgspec.Struct, frozen=True):
    """A request, and the model that it names."""

    model: str
    request: Request


class Streamed(msgspec.Struct, frozen=True):
    """The events of a stream, and the error that it ended with."""

    events: tuple[Event, ...]
    error: DragomanError | None = None


Said: TypeAlias = Asked | Response | Streamed | DragomanError
"""What was read of any dialect."""


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, in another dialect: its bytes, where a request goes to, and what was bent."""

    data: bytes
    place: str | None = None
    notices: tuple[Notice, ...] = ()


# Reading --------------------------------------------------------------------------------------------------------------


def kind_of(data: bytes, /) -> Kind:
    """What some bytes are, by their shape.

    >>> kind_of(b'{"messages": []}'), kind_of(b'{"choices": []}'), kind_of(b"data: {}")
    ('request', 'response', 'stream')
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "stream"
    if not is_object(value):
        return "stream"
    if _ASKS & value.keys():
        return "request"
    if isinstance(value.get("message"), str) or not _ANSWERS & value.keys():
        return "error" if _REFUSES & value.keys() else "request"
    return "response"


def read(data: bytes, dialect: str, /, *, kind: Kind | None = None, model: str = "model", status: int = 400) -> Said:
    """What some bytes of a dialect say; `model` is for dialects that name it elsewhere, `status` for an error.

    >>> read(b'{"messages": [{"role": "user", "content": "hi"}]}', "ollama").request.messages[0].text
    'hi'
    """
    kind = kind or kind_of(data)
    if dialect == CANONICAL:
        return _read_canonical(data, kind)
    wire = wires.get(dialect)
    match kind:
        case "request":
            path = wire.server.routes[0].path.replace("{model}", model)
            named, request = wire.server.decode_request(HttpRequest(method="POST", path=path, body=data))
            return Asked(named or model, request)
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
            return Asked(load(data, _Named).model, load(data, Request))
        case "response":
            return load(data, Response)
        case "stream":
            return _read_lines(data)
        case "error":
            return error_of(load(data, _Refused).error)


class _Named(msgspec.Struct):
    model: str = "model"


class _Refused(msgspec.Struct):
    error: Facts


def _read_lines(data: bytes) -> Streamed:
    events: list[Event] = []
    for line in data.splitlines():
        if line.strip():
            said = _read_line(line)
            if isinstance(said, Facts):
                return Streamed(tuple(events), error_of(said))
            events.append(said)
    ended = bool(events) and isinstance(events[-1], Finished)
    return Streamed(tuple(events), None if ended else Truncated("the events end before `finished`"))


def _read_line(line: bytes) -> Event | Facts:
    said: Event | Facts = load(line, _LINE)
    return said


_LINE: Any = Event | Facts


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
        case Asked():
            return _write_request(said, target or plain_target(dialect, said.model))
        case Response():
            return Translation(data=server.encode_body(said).body + b"\n", notices=said.notices)
        case Streamed():
            encoder = server.stream_encoder(Request(stream=True))
            written = b"".join(encoder.feed(event) for event in said.events)
            ended = b"" if said.error is None else encoder.feed(said.error)
            return Translation(data=written + ended, notices=_notices(said.events))
        case DragomanError():
            return Translation(data=server.encode_error(said).body + b"\n")


def plain_target(dialect: str, model: str, /) -> Target:
    """Nobody in particular who speaks a dialect: no limits, no habits.

    >>> plain_target("anthropic", "m")
    Target(anthropic/m)
    """
    limits = Limits(image_urls=True)
    return Target(provider=dialect, model=model, wire=dialect, base_url="https://provider.invalid/v1", limits=limits)


def _write_request(asked: Asked, target: Target) -> Translation:
    http = wires.get(target.wire).client.encode_request(asked.request, target)
    return Translation(data=http.body + b"\n", place=f"{http.method} {http.redacted().path}", notices=http.notices)


def _notices(events: Iterable[Event]) -> tuple[Notice, ...]:
    return tuple(notice for event in events if isinstance(event, Finished) for notice in event.notices)


def _write_canonical(said: Said) -> bytes:
    match said:
        case Asked():
            fields: dict[str, Any] = {"model": said.model, **msgspec.json.decode(dump(said.request))}
            return msgspec.json.encode(fields) + b"\n"
        case Response():
            return dump(said) + b"\n"
        case Streamed():
            lines = [dump(event) for event in said.events]
            lines += [] if said.error is None else [dump(facts_of(said.error))]
            return b"".join(line + b"\n" for line in lines)
        case DragomanError():
            return msgspec.json.encode({"error": facts_of(said)}) + b"\n"
