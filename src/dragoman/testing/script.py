"""What a provider shall do, in words, in; the bytes in which its wire would do it, and how they end, out."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman import wires
from dragoman.errors import DragomanError, Truncated
from dragoman.events import Event, fold, to_events
from dragoman.http import HttpRequest
from dragoman.types import (
    Finish,
    Message,
    Request,
    Response,
    ToolCall,
    Usage,
    assistant,
    is_list,
    is_object,
)
from dragoman.wires.base import Wire

Ending: TypeAlias = Literal["end", "cut", "stall", "reset", "open"]
Bend: TypeAlias = Literal["missing_index", "wrong_index", "missing_id"]


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly this answer.

    >>> Raw(status=502, body=b"<html>Bad gateway</html>").status
    502
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""


class Cut(msgspec.Struct, frozen=True):
    """The connection is closed after so many bytes of the body.

    >>> Cut(10, "hello").at
    10
    """

    at: int
    answer: "Good" = "Hello."


class Stall(msgspec.Struct, frozen=True):
    """Nothing more comes after so many bytes of the body; the connection stays.

    >>> Stall(0).at
    0
    """

    at: int
    answer: "Good" = "Hello."


class Break(msgspec.Struct, frozen=True):
    """The connection is reset after so many bytes of the body.

    >>> Break(5).at
    5
    """

    at: int
    answer: "Good" = "Hello."


class Silence(msgspec.Struct, frozen=True):
    """Not even a head comes.

    >>> Silence()
    Silence()
    """


class Drop(msgspec.Struct, frozen=True):
    """The connection is closed before a head comes.

    >>> Drop()
    Drop()
    """


class Linger(msgspec.Struct, frozen=True):
    """The whole answer comes, and then the connection is not ended, as some servers do.

    >>> Linger("hello").answer
    'hello'
    """

    answer: "Good" = "Hello."


class Garbage(msgspec.Struct, frozen=True):
    """A 200 whose body is no word of the wire's.

    >>> Garbage().body[:5]
    b'<html'
    """

    body: bytes = b"<html>It works!</html>"


class Inside(msgspec.Struct, frozen=True):
    """An error behind a 200.

    >>> Inside(DragomanError("busy")).error.message
    'busy'
    """

    error: DragomanError


class Bent(msgspec.Struct, frozen=True):
    """A good answer with something wrong in it, as some servers send it.

    >>> Bent("missing_id", ToolCall(id="call_1", name="tide")).how
    'missing_id'
    """

    how: Bend
    answer: "Good" = "Hello."


Good: TypeAlias = str | Message | Response | ToolCall | tuple[ToolCall, ...]
Line: TypeAlias = Good | DragomanError | Raw | Cut | Stall | Break | Silence | Drop | Linger | Garbage | Inside | Bent
"""One answer of a script."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as bytes: the pieces that come, and what happens then. No status is no head."""

    status: int | None = None
    headers: dict[str, str] = {}
    pieces: list[bytes] = []
    ending: Ending = "end"
    streamed: bool = False
    length: int | None = None
    """What a whole body claims to have."""


def as_response(answer: Good, /) -> Response:
    """The response that a short form stands for.

    >>> as_response("hello").usage.output
    1
    """
    if isinstance(answer, Response):
        return answer
    parts: Iterable[Any] = (
        (answer,) if isinstance(answer, str | ToolCall) else answer if isinstance(answer, tuple) else ()
    )
    message = answer if isinstance(answer, Message) else assistant(*parts)
    words = len(message.text.split()) + sum(len(call.arguments) + 1 for call in message.tool_calls)
    reason: Literal["tool_calls", "stop"] = "tool_calls" if message.tool_calls else "stop"
    usage = Usage(input=1, output=words)
    return Response(id="scripted", model="scripted", message=message, finish=Finish(reason=reason), usage=usage)


def wire_of(http: HttpRequest, /) -> Wire | None:
    """The wire whose path a request goes to; None where it is none of them.

    >>> wire_of(HttpRequest(method="POST", path="/v1/chat/completions")).name
    'openai_chat'
    """
    path = http.path.partition("?")[0]
    for name in wires.NAMES:
        wire = wires.get(name)
        for route in wire.server.routes:
            tail = re.escape(re.sub(r"^/v\d+(beta)?", "", route.path)).replace(r"\{model\}", ".+")
            if re.search(f"{tail}$", path):
                return wire
    return None


def base_path(wire: str, /) -> str:
    """The path that stands before a wire's own: up to its version, where it has one.

    >>> base_path("google"), base_path("ollama")
    ('/v1beta', '')
    """
    found = re.match(r".*?/v\d+(beta)?(?=/)", wires.get(wire).server.routes[0].path)
    return found[0] if found else ""


def render(line: Line, wire: Wire, request: Request, /) -> Rendered:
    """The bytes of an answer, as this wire writes them."""
    match line:
        case Raw():
            return Rendered(status=line.status, headers=line.headers, pieces=[line.body], length=len(line.body))
        case Cut() | Stall() | Break():
            whole = render(line.answer, wire, request)
            ending: dict[type, Ending] = {Cut: "cut", Stall: "stall", Break: "reset"}
            pieces = _first(whole.pieces, line.at)
            return msgspec.structs.replace(whole, pieces=pieces, ending=ending[type(line)])
        case Linger():
            return msgspec.structs.replace(render(line.answer, wire, request), ending="open")
        case Silence():
            return Rendered(ending="stall")
        case Drop():
            return Rendered(ending="cut")
        case Garbage():
            return Rendered(status=200, pieces=[line.body], length=len(line.body), streamed=request.stream)
        case Inside():
            return _inside(line.error, wire, request)
        case Bent():
            whole = render(line.answer, wire, request)
            pieces = [_bend(piece, line.how) for piece in whole.pieces]
            return msgspec.structs.replace(whole, pieces=pieces, length=sum(map(len, pieces)))
        case DragomanError():
            reply = wire.server.encode_error(line)
            return Rendered(
                status=reply.status, headers=dict(reply.headers), pieces=[reply.body], length=len(reply.body)
            )
        case _:
            return render_events(to_events(as_response(line)), wire, request)


def render_events(events: Iterable[Event], wire: Wire, request: Request, /) -> Rendered:
    """The bytes of an answer that is these events."""
    if not request.stream:
        reply = wire.server.encode_body(fold(events), request)
        return Rendered(status=reply.status, headers=dict(reply.headers), pieces=[reply.body], length=len(reply.body))
    encoder = wire.server.stream_encoder(request)
    pieces = [piece for event in events if (piece := encoder.feed(event))]
    return Rendered(status=200, headers={"content-type": encoder.content_type}, pieces=pieces, streamed=True)


def _inside(error: DragomanError, wire: Wire, request: Request) -> Rendered:
    if not request.stream:
        body = wire.server.encode_error(error).body
        return Rendered(status=200, headers={"content-type": "application/json"}, pieces=[body], length=len(body))
    encoder = wire.server.stream_encoder(request)
    started = to_events(as_response("Hello."))[0]
    pieces = [piece for event in (started, error) if (piece := encoder.feed(event))]
    return Rendered(status=200, headers={"content-type": encoder.content_type}, pieces=pieces, streamed=True)


def _first(pieces: list[bytes], size: int) -> list[bytes]:
    kept: list[bytes] = []
    for piece in pieces:
        if size <= 0:
            break
        kept.append(piece[:size])
        size -= len(piece)
    return kept


_INDEXES = frozenset({"index", "output_index", "content_index"})
_CHOICE = frozenset({"finish_reason", "finishReason", "message", "content"})
"""What tells one of several answers from a part of an answer: both have an index."""
_IDS = frozenset({"id", "call_id", "tool_call_id", "item_id"})


def _bend(piece: bytes, how: Bend) -> bytes:
    """The same bytes with the JSON of each line bent."""
    return b"\n".join(_bend_line(line, _BENDS[how]) for line in piece.split(b"\n"))


def _bend_line(line: bytes, bend: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    prefix = b"data: " if line.startswith(b"data: ") else b""
    try:
        data = msgspec.json.decode(line[len(prefix) :])
    except msgspec.DecodeError:
        return line
    return prefix + msgspec.json.encode(_walk(data, bend))


def _walk(data: object, bend: Callable[[dict[str, Any]], dict[str, Any]]) -> object:
    if is_object(data):
        return bend({key: _walk(value, bend) for key, value in data.items()})
    return [_walk(item, bend) for item in data] if is_list(data) else data


_BENDS: dict[Bend, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "missing_index": lambda data: {key: value for key, value in data.items() if key not in _INDEXES},
    "wrong_index": lambda data: {
        key: 7 if key in _INDEXES and not data.keys() & _CHOICE else value for key, value in data.items()
    },
    "missing_id": lambda data: {key: value for key, value in data.items() if key not in _IDS},
}


def truncated_script(count: int, /) -> Truncated:
    """What a request gets that comes after the last line."""
    return Truncated(f"the script has only {count} lines; write one more, or repeat=True", retry=False, fail_over=False)
