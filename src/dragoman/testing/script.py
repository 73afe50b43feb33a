"""The lines of a script, and how each wire writes them: a line becomes the bytes of an answer and the way they end."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman import wires
from dragoman.errors import DragomanError, Truncated
from dragoman.events import Event, PartDelta, fold, to_events
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import (
    Finish,
    JsonObject,
    Message,
    Request,
    Response,
    ToolCall,
    Usage,
    assistant,
    is_list,
    is_object,
)
from dragoman.types.base import WholeNumber
from dragoman.types.checks import check_choice, wrong_value
from dragoman.types.fields import WRONG, field_kind
from dragoman.types.structs import CheckedStruct
from dragoman.wires.base import Wire

Ending: TypeAlias = Literal["end", "close", "stall", "reset", "open"]
"""What happens to the connection after the last byte of an answer."""
Defect: TypeAlias = Literal["missing_index", "wrong_index", "missing_id"]


class RawResponse(CheckedStruct, frozen=True, kw_only=True):
    """Sends exactly this status, these headers and this body."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""


class Paced(CheckedStruct, frozen=True):
    """Streams an answer word by word, with a pause after each word, as a model does. `Scripted` does not wait."""

    answer: "Answer"
    delay: float = 0.03
    """Seconds."""


class CloseAfter(CheckedStruct, frozen=True):
    """Closes the connection after `size` bytes of the body."""

    size: WholeNumber
    answer: "Answer | Paced" = "Hello."


class StallAfter(CheckedStruct, frozen=True):
    """Sends nothing more after `size` bytes of the body, and keeps the connection open."""

    size: WholeNumber
    answer: "Answer | Paced" = "Hello."


class ResetAfter(CheckedStruct, frozen=True):
    """Resets the connection after `size` bytes of the body."""

    size: WholeNumber
    answer: "Answer | Paced" = "Hello."


class NoResponse(CheckedStruct, frozen=True):
    """Sends nothing at all, not even a status, and keeps the connection open."""


class CloseAtOnce(CheckedStruct, frozen=True):
    """Closes the connection before it sends a status."""


class KeepOpen(CheckedStruct, frozen=True):
    """Sends the whole answer, but never ends the response. Some servers do that."""

    answer: "Answer" = "Hello."


class InvalidBody(CheckedStruct, frozen=True):
    """Sends status 200 with a body that is not valid on the wire."""

    body: bytes = b"<html>It works!</html>"


class ErrorInside200(CheckedStruct, frozen=True):
    """Sends status 200 with an error in the body or the stream."""

    error: DragomanError


class DefectiveAnswer(CheckedStruct, frozen=True):
    """Sends an answer with a defect that real servers have: a missing index, a wrong index, or a missing id."""

    defect: Defect
    answer: "Answer" = "Hello."


Answer: TypeAlias = str | Message | Response | ToolCall | tuple[ToolCall, ...] | list[ToolCall]
"""A response, or a short form of one."""
ScriptLine: TypeAlias = (
    Answer
    | DragomanError
    | RawResponse
    | Paced
    | CloseAfter
    | StallAfter
    | ResetAfter
    | NoResponse
    | CloseAtOnce
    | KeepOpen
    | InvalidBody
    | ErrorInside200
    | DefectiveAnswer
)
"""What a script does for one request."""


class EncodedAnswer(CheckedStruct, frozen=True, kw_only=True):
    """The bytes of an answer, in chunks, and what happens after them."""

    status: int | None = None
    """None if not even the head is sent."""
    headers: dict[str, str] = {}
    chunks: list[bytes] = []
    ending: Ending = "end"
    streamed: bool = False
    length: int | None = None
    """The content-length of a body that is not streamed."""
    delay: float = 0.0
    """Seconds between two chunks."""


def check_lines(lines: Iterable[Any], /) -> list[ScriptLine]:
    """The lines of a script; InvalidRequest if a value cannot be a line."""
    for line in lines:
        if field_kind(ScriptLine).read(line) is WRONG:
            raise wrong_value("lines", "answers, errors of dragoman.errors, or faults", line)
    return list(lines)


def as_response(answer: Answer, /) -> Response:
    """Turn the short form of an answer into a `Response`.

    >>> as_response("hello").usage.output
    1
    """
    if isinstance(answer, Response):
        return answer
    if field_kind(Answer).read(answer) is WRONG:
        raise wrong_value("answer", "a str, a Message, a Response, a ToolCall or a list of them", answer)
    parts: Iterable[Any] = (
        (answer,) if isinstance(answer, str | ToolCall) else answer if isinstance(answer, tuple | list) else ()
    )
    message = answer if isinstance(answer, Message) else assistant(*parts)
    words = len(message.text.split()) + sum(len(call.arguments) + 1 for call in message.tool_calls)
    reason: Literal["tool_calls", "stop"] = "tool_calls" if message.tool_calls else "stop"
    usage = Usage(input=1, output=words)
    return Response(id="scripted", model="scripted", message=message, finish=Finish(reason=reason), usage=usage)


def wire_of(http: HttpRequest, /) -> Wire | None:
    """Find the wire that a request speaks by its path; None if no wire has that path.

    >>> wire_of(HttpRequest(method="POST", path="/v1/chat/completions")).name
    'openai_chat'
    """
    if not isinstance(http, HttpRequest):
        raise wrong_value("http", "an HttpRequest", http)
    path = http.path.partition("?")[0]
    return next((wire for tail, wire in _tails() if tail.search(path)), None)


@cache
def _tails() -> tuple[tuple[re.Pattern[str], Wire], ...]:
    """The ends of all routes, without the version, each with its wire."""
    ends = [
        (re.escape(re.sub(r"^/v\d+(beta)?", "", route.path)).replace(r"\{model\}", ".+"), wire)
        for wire in map(wires.get, wires.NAMES)
        for route in wire.server.routes
    ]
    return tuple((re.compile(f"{end}$"), wire) for end, wire in ends)


def base_path(wire: str, /) -> str:
    """Return the path of a base URL for a wire: the version prefix of its routes, if they have one.

    >>> base_path("google"), base_path("ollama")
    ('/v1beta', '')
    """
    check_choice("wire", wire, wires.NAMES)
    prefix = re.match(r".*?/v\d+(beta)?(?=/)", wires.get(wire).server.routes[0].path)
    return prefix[0] if prefix else ""


def render(line: ScriptLine, wire: Wire, request: Request, /) -> EncodedAnswer:
    """Encode one line of a script as this wire writes it."""
    match line:
        case RawResponse():
            return whole_answer(line)
        case CloseAfter() | StallAfter() | ResetAfter():
            whole = render(line.answer, wire, request)
            endings: dict[type, Ending] = {CloseAfter: "close", StallAfter: "stall", ResetAfter: "reset"}
            chunks = _first_bytes(whole.chunks, line.size)
            return msgspec.structs.replace(whole, chunks=chunks, ending=endings[type(line)])
        case Paced():
            events = split_words(to_events(as_response(line.answer)))
            return msgspec.structs.replace(render_events(events, wire, request), delay=line.delay)
        case KeepOpen():
            return msgspec.structs.replace(render(line.answer, wire, request), ending="open")
        case NoResponse():
            return EncodedAnswer(ending="stall")
        case CloseAtOnce():
            return EncodedAnswer(ending="close")
        case InvalidBody():
            return EncodedAnswer(status=200, chunks=[line.body], length=len(line.body), streamed=request.stream)
        case ErrorInside200():
            return _error_inside_200(line.error, wire, request)
        case DefectiveAnswer():
            whole = render(line.answer, wire, request)
            chunks = [_with_defect(chunk, line.defect) for chunk in whole.chunks]
            return msgspec.structs.replace(whole, chunks=chunks, length=sum(map(len, chunks)))
        case DragomanError():
            return whole_answer(wire.server.encode_error(line))
        case _:
            return render_events(to_events(as_response(line)), wire, request)


def whole_answer(whole: HttpResponse | RawResponse, /) -> EncodedAnswer:
    """A response that is sent at once."""
    return EncodedAnswer(status=whole.status, headers=dict(whole.headers), chunks=[whole.body], length=len(whole.body))


def json_answer(status: int, body: JsonObject, /) -> EncodedAnswer:
    """A response with a JSON body."""
    return whole_answer(HttpResponse(status=status, body=msgspec.json.encode(body)))


def render_events(events: Iterable[Event], wire: Wire, request: Request, /) -> EncodedAnswer:
    """Encode the events of an answer: as a stream if the request asks for one, otherwise as one body."""
    if not request.stream:
        return whole_answer(wire.server.encode_body(fold(events), request))
    encoder = wire.server.stream_encoder(request)
    chunks = [chunk for event in events if (chunk := encoder.feed(event))]
    return EncodedAnswer(status=200, headers={"content-type": encoder.content_type}, chunks=chunks, streamed=True)


def split_words(events: Iterable[Event], /) -> Iterator[Event]:
    """The same events with one delta for each word.

    >>> [event.text for event in split_words([PartDelta(index=0, text="a calm sea")])]
    ['a ', 'calm ', 'sea']
    """
    for event in events:
        if isinstance(event, PartDelta):
            yield from (PartDelta(index=event.index, text=word) for word in re.findall(r"\s*\S+\s*|\s+$", event.text))
        else:
            yield event


def script_ended_error(count: int, /) -> Truncated:
    """Build the error for a request that comes after the last line."""
    return Truncated(
        f"the script has only {count} lines; add a line, or pass repeat=True", retry=False, fail_over=False
    )


def _error_inside_200(error: DragomanError, wire: Wire, request: Request) -> EncodedAnswer:
    if not request.stream:
        return whole_answer(HttpResponse(body=wire.server.encode_error(error).body))
    encoder = wire.server.stream_encoder(request)
    started = to_events(as_response("Hello."))[0]
    chunks = [chunk for event in (started, error) if (chunk := encoder.feed(event))]
    return EncodedAnswer(status=200, headers={"content-type": encoder.content_type}, chunks=chunks, streamed=True)


def _first_bytes(chunks: list[bytes], size: int) -> list[bytes]:
    result: list[bytes] = []
    for chunk in chunks:
        if size <= 0:
            break
        result.append(chunk[:size])
        size -= len(chunk)
    return result


# Defects --------------------------------------------------------------------------------------------------------------

_INDEXES = frozenset({"index", "output_index", "content_index"})
_CHOICE_FIELDS = frozenset({"finish_reason", "finishReason", "message", "content"})
"""Fields of a choice. A choice and a part both have an index; the defect changes only that of a part."""
_IDS = frozenset({"id", "call_id", "tool_call_id", "item_id"})
_Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
_DEFECTS: dict[Defect, _Change] = {
    "missing_index": lambda data: {key: value for key, value in data.items() if key not in _INDEXES},
    "wrong_index": lambda data: {
        key: 7 if key in _INDEXES and not data.keys() & _CHOICE_FIELDS else value for key, value in data.items()
    },
    "missing_id": lambda data: {key: value for key, value in data.items() if key not in _IDS},
}


def _with_defect(chunk: bytes, defect: Defect) -> bytes:
    return b"\n".join(_change_line(line, _DEFECTS[defect]) for line in chunk.split(b"\n"))


def _change_line(line: bytes, change: _Change) -> bytes:
    prefix = b"data: " if line.startswith(b"data: ") else b""
    try:
        data = msgspec.json.decode(line[len(prefix) :])
    except msgspec.DecodeError:
        return line
    return prefix + msgspec.json.encode(_change_objects(data, change))


def _change_objects(data: object, change: _Change) -> object:
    if is_object(data):
        return change({key: _change_objects(value, change) for key, value in data.items()})
    return [_change_objects(item, change) for item in data] if is_list(data) else data
