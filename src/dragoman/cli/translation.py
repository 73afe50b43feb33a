"""Translate a request, a response, a recorded stream or an error from one dialect to another, offline.

`canonical` is a dialect, too: our own values as JSON, and a stream as one event per line.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import DragomanError, InvalidRequest, Truncated
from dragoman.events import Event, Finished, fold
from dragoman.http import Head, HttpRequest
from dragoman.io.json_input import decode_json, json_errors, reject_unknown_fields
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities, Target
from dragoman.types import Finish, JsonObject, Notice, Request, Response, dump, is_object
from dragoman.wires.common.error_record import ErrorRecord, dump_error, load_error

CANONICAL = "canonical"
S = TypeVar("S", bound=msgspec.Struct)
Kind: TypeAlias = Literal["request", "response", "stream", "error"]
_REQUEST_FIELDS = frozenset({"messages", "contents", "input"})
"""Fields that only requests have, in any dialect."""
_RESPONSE_FIELDS = frozenset(
    "candidates choices completion content done finish generation generations message output outputs promptFeedback "
    "results steps updated".split()
)
"""Fields that only responses have, in any dialect."""
_ERROR_FIELDS = frozenset({"error", "message", "detail"})
"""Fields of errors; compatible servers have error formats of their own."""


class RequestPayload(msgspec.Struct, frozen=True):
    """A request and the model it names."""

    model: str
    request: Request


class StreamPayload(msgspec.Struct, frozen=True):
    """The events of a stream, and its error if it ended with one."""

    events: tuple[Event, ...]
    error: DragomanError | None = None


Payload: TypeAlias = RequestPayload | Response | StreamPayload | DragomanError
"""Any decoded input."""


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A payload in another dialect, the method and path of a request, and the notices."""

    data: bytes
    request_line: str | None = None
    notices: tuple[Notice, ...] = ()


# Decoding -------------------------------------------------------------------------------------------------------------


def detect_kind(data: bytes, dialect: str | None = None, /) -> Kind:
    """What kind of payload some bytes are, judged by their fields.

    >>> detect_kind(b'{"messages": []}'), detect_kind(b'{"choices": []}'), detect_kind(b"data: {}")
    ('request', 'response', 'stream')
    """
    if not data.lstrip().startswith(b"{") or _is_ndjson(data):
        return "stream"
    value: JsonObject = decode_json(data)
    if dialect == CANONICAL and "type" in value:
        return "stream"
    if _REQUEST_FIELDS & value.keys():
        return "request"
    if isinstance(value.get("message"), str) or not _RESPONSE_FIELDS & value.keys():
        return "error" if _ERROR_FIELDS & value.keys() else "request"
    return "response"


def _is_ndjson(data: bytes) -> bool:
    line, _, rest = data.lstrip().partition(b"\n")
    try:
        return bool(rest.strip()) and is_object(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def decode(
    data: bytes, dialect: str, /, *, kind: Kind | None = None, model: str = "model", status: int = 400
) -> Payload:
    """Decode bytes of a dialect.

    `model` is used if the dialect names the model in the URL, `status` if the payload is an error.

    >>> decode(b'{"messages": [{"role": "user", "content": "hi"}]}', "ollama").request.messages[0].text
    'hi'
    """
    kind = kind or detect_kind(data, dialect)
    with json_errors():
        return (
            _decode_canonical(data, kind) if dialect == CANONICAL else _decode_wire(data, dialect, kind, model, status)
        )


def _decode_wire(data: bytes, dialect: str, kind: Kind, model: str, status: int) -> Payload:
    wire = wires.get(dialect)
    match kind:
        case "request":
            path = wire.server.routes[0].path.replace("{model}", model)
            model_in_body, request = wire.server.decode_request(HttpRequest(method="POST", path=path, body=data))
            return RequestPayload(model_in_body or model, request)
        case "response":
            return fold(wire.client.decode_body(data))
        case "stream":
            return _decode_stream(data, dialect)
        case "error":
            return wire.client.decode_error(Head(status=status), data)


def _decode_stream(data: bytes, dialect: str) -> StreamPayload:
    decoder = wires.get(dialect).client.stream_decoder()
    events: list[Event] = []
    try:
        for piece in (data, b""):
            events += decoder.feed(piece)
    except DragomanError as error:
        return StreamPayload(tuple(events), error)
    return StreamPayload(tuple(events))


def _decode_canonical(data: bytes, kind: Kind) -> Payload:
    match kind:
        case "request":
            return _decode_request(data)
        case "response":
            return load_strict(data, Response)
        case "stream":
            return _decode_lines(data)
        case "error":
            fields = decode_json(data)
            record = fields.get("error") if is_object(fields) else None
            return load_error(load_strict(msgspec.json.encode(record), ErrorRecord))


def _decode_request(data: bytes) -> RequestPayload:
    fields = decode_json(data)
    model = fields.pop("model", "model") if is_object(fields) else "model"
    if not isinstance(model, str):
        raise InvalidRequest(f"model must be a string, got {model!r}")
    try:
        return RequestPayload(model, load_strict(msgspec.json.encode(fields), Request))
    except InvalidRequest as error:
        raise InvalidRequest(f"{error.message}; for another dialect, use --from openai_chat or similar") from error


def load_strict(data: bytes, kind: type[S], /) -> S:
    """Decode JSON to one of our types; InvalidRequest if it does not fit or has unknown fields."""
    fields = decode_json(data)
    with json_errors():
        value = msgspec.convert(fields, kind)
    reject_unknown_fields(value, fields)
    return value


def _decode_lines(data: bytes) -> StreamPayload:
    events: list[Event] = []
    for line in data.splitlines():
        if line.strip():
            item: Event | ErrorRecord = load_strict(line, _LINE)
            if isinstance(item, ErrorRecord):
                return StreamPayload(tuple(events), load_error(item))
            events.append(item)
    is_complete = bool(events) and isinstance(events[-1], Finished)
    return StreamPayload(tuple(events), None if is_complete else Truncated("the stream has no `finished` event"))


_LINE: Any = Event | ErrorRecord


# Encoding -------------------------------------------------------------------------------------------------------------


def encode(payload: Payload, dialect: str, /, *, target: Target | None = None) -> Translation:
    """Encode a payload in a dialect; a request is adapted to `target`, or to a target without limits.

    >>> from dragoman.types import Finish, assistant
    >>> answer = Response(message=assistant("hi"), finish=Finish(reason="stop"))
    >>> b'"content":"hi"' in encode(answer, "openai_chat").data
    True
    """
    if dialect == CANONICAL:
        return Translation(data=_encode_canonical(payload))
    server = wires.get(dialect).server
    match payload:
        case RequestPayload():
            return _encode_request(payload, target or generic_target(dialect, payload.model))
        case Response():
            data = server.encode_body(replace(payload, finish=_with_reason(payload.finish))).body + b"\n"
            finish = fold(wires.get(dialect).client.decode_body(data)).finish
            return Translation(data=data, notices=(*payload.notices, *_changes(payload.finish, finish, dialect)))
        case StreamPayload():
            return _encode_stream(payload, dialect)
        case DragomanError():
            return Translation(data=server.encode_error(payload).body + b"\n")


def generic_target(dialect: str, model: str, /) -> Target:
    """A target that speaks the dialect, without limits and quirks."""
    path = next(record.default_path for record in PROVIDERS.values() if record.wire == dialect)
    base_url = f"https://provider.invalid{path}"
    return Target(
        provider=dialect, model=model, wire=dialect, base_url=base_url, capabilities=Capabilities(image_urls=True)
    )


def _encode_request(payload: RequestPayload, target: Target) -> Translation:
    http = wires.get(target.wire).client.encode_request(payload.request, target)
    notices = (*http.notices, *_additions(payload.request, http, target.wire))
    return Translation(data=http.body + b"\n", request_line=f"{http.method} {http.redacted().path}", notices=notices)


def _additions(request: Request, http: HttpRequest, dialect: str) -> tuple[Notice, ...]:
    """A notice if the dialect requires max_tokens and the request has none."""
    _, result = wires.get(dialect).server.decode_request(http)
    if request.max_tokens is not None or result.max_tokens is None:
        return ()
    return (Notice(kind="info", what="max_tokens", why=f"{dialect}: required, so it is set to {result.max_tokens}"),)


def _encode_stream(payload: StreamPayload, dialect: str) -> Translation:
    encoder = wires.get(dialect).server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(_finish_with_reason(event)) for event in payload.events)
    data += b"" if payload.error is None else encoder.feed(payload.error)
    notices = [notice for event in _finishes(payload.events) for notice in event.notices]
    results = _finishes(_decode_stream(data, dialect).events)
    for event, result in zip(_finishes(payload.events), results, strict=False):
        notices += _changes(event.finish, result.finish, dialect)
    return Translation(data=data, notices=tuple(notices))


def _finishes(events: Iterable[Event]) -> list[Finished]:
    return [event for event in events if isinstance(event, Finished)]


def _finish_with_reason(event: Event) -> Event:
    return replace(event, finish=_with_reason(event.finish)) if isinstance(event, Finished) else event


def _with_reason(finish: Finish) -> Finish:
    """The finish; "stop" if its reason is unknown, because clients require one."""
    return Finish(reason="stop") if finish == Finish(reason="other") else finish


def _changes(finish: Finish, result: Finish, dialect: str) -> tuple[Notice, ...]:
    if finish.reason == result.reason:
        return ()
    return (Notice(kind="changed", what="finish", why=f"{dialect}: {finish.reason!r} became {result.reason!r}"),)


def _encode_canonical(payload: Payload) -> bytes:
    match payload:
        case RequestPayload():
            fields: dict[str, Any] = {"model": payload.model, **msgspec.json.decode(dump(payload.request))}
            return msgspec.json.encode(fields) + b"\n"
        case Response():
            return dump(payload) + b"\n"
        case StreamPayload():
            lines = [dump(event) for event in payload.events]
            lines += [] if payload.error is None else [dump(dump_error(payload.error))]
            return b"".join(line + b"\n" for line in lines)
        case DragomanError():
            return msgspec.json.encode({"error": dump_error(payload)}) + b"\n"
