"""The provider's ids of calls in, ours out, and back: in requests, answers and streams. Never global."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.events import PartEnded, StreamEvent
from dragoman.types import Message, Part, Request, Response, ToolCall, ToolResult

HEADER = "x-dragoman-tool-ids"
MAX_PAIRS = 64
"""Pairs that a header tells, the latest: servers and clients have limits. What is not told goes under our own id."""
MAX_ID = 256
E = TypeVar("E", bound=StreamEvent)


def fresh_id() -> str:
    """An id of a call that nobody has had.

    >>> fresh_id().startswith("call_")
    True
    """
    return f"call_{uuid4()}"


class CallIds:
    """The ids of one conversation, as one request sees them: `known` is ours → the provider's.

    >>> ids = CallIds({}, fresh=lambda: "call_x")
    >>> ids.ours(ToolCall(id="toolu_1", name="tide")).id, ids.made
    ('call_x', {'call_x': 'toolu_1'})
    """

    def __init__(self, known: Mapping[str, str], /, *, fresh: Callable[[], str] = fresh_id) -> None:
        self.made: dict[str, str] = {}
        """Ours → the provider's, of the calls of this answer."""
        self._known = dict(known)
        self._fresh = fresh

    def lower(self, request: Request, /) -> Request:
        """The request with the provider's ids; a call whose pair is not known keeps the id that it has."""
        if not self._known:
            return request
        messages = tuple(self._lower_message(message) for message in request.messages)
        used = {part.id for message in request.messages for part in message.tool_calls}
        self._known = {ours: theirs for ours, theirs in self._known.items() if ours in used}
        return replace(request, messages=messages)

    def _lower_message(self, message: Message) -> Message:
        if not message.tool_calls and not message.tool_results:
            return message
        return replace(message, parts=tuple(self._lower_part(part) for part in message.parts))

    def _lower_part(self, part: Part) -> Part:
        if isinstance(part, ToolCall | ToolResult) and part.id in self._known:
            return replace(part, id=self._known[part.id])
        return part

    def ours(self, call: ToolCall, /) -> ToolCall:
        """A call of the answer under an id of ours."""
        id = self._fresh()
        self.made[id] = call.id
        return replace(call, id=id)

    def lift(self, response: Response, /) -> Response:
        """The answer with our ids."""
        if not response.tool_calls:
            return response
        parts = tuple(self.ours(part) if isinstance(part, ToolCall) else part for part in response.message.parts)
        return replace(response, message=replace(response.message, parts=parts))

    def lift_event(self, event: E, /) -> E:
        """An event of the answer with our ids."""
        if isinstance(event, PartEnded) and isinstance(event.part, ToolCall):
            return replace(event, part=self.ours(event.part))
        return event

    def header(self) -> str | None:
        """All pairs that the next request of the conversation needs, for the header; None where there are none."""
        pairs = [*self._known.items(), *self.made.items()][-MAX_PAIRS:]
        told = ",".join(f"{quote(ours, safe='')}={quote(theirs, safe='')}" for ours, theirs in pairs)
        return told or None


def decode_ids(header: str, /) -> dict[str, str]:
    """The pairs that a client sends back; InvalidRequest where they are none.

    >>> decode_ids("call_1=toolu%3A1, call_2=b")
    {'call_1': 'toolu:1', 'call_2': 'b'}
    """
    pairs: dict[str, str] = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        ours, _, theirs = pair.partition("=")
        if not ours or not theirs or len(pair) > 2 * MAX_ID or len(pairs) >= MAX_PAIRS:
            raise InvalidRequest(f"{HEADER}: write at most {MAX_PAIRS} pairs ours=theirs, as the header of an answer")
        pairs[unquote(ours)] = unquote(theirs)
    return pairs
