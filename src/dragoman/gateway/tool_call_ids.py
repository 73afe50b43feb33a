"""Tool call ids of the gateway's own, for dialects whose clients need them.

The client sees ids that the gateway made, the provider sees its own. The pairs are stored with the conversation. If the
request has no conversation, the client sends them back: in the `extra` of the calls, if it returns the assistant's
message unchanged, or in the header `X-Dragoman-Tool-Ids`. A stream sends its headers before its calls are known, so the
header has only the pairs of a stream that begins with a call.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.events import PartEnded, PartStarted, StreamEvent
from dragoman.types import JsonObject, Message, Part, Request, Response, ToolCall, ToolResult

HEADER = "x-dragoman-tool-ids"
MAX_PAIRS = 64
"""Pairs in the header, the first: servers and clients limit headers. A call without a pair keeps the gateway's id. The
id of an old call never changes, because its pair stays."""
MAX_ID = 256
EXTRA = "gateway"
"""The key in the extra of a call that has the provider's id."""
E = TypeVar("E", bound=StreamEvent)


def new_call_id() -> str:
    """A new, unique id for a tool call."""
    return f"call_{uuid4()}"


class ToolCallIds:
    """The tool call ids of one request: `known` maps the gateway's ids to the provider's.

    With `in_extra`, the calls of the response have the provider's ids in their extra.
    """

    def __init__(
        self, known: Mapping[str, str], /, *, in_extra: bool = False, new_id: Callable[[], str] = new_call_id
    ) -> None:
        self.new: dict[str, str] = {}
        """The gateway's id to the provider's, for the calls of this response."""
        self._known = dict(known)
        self._in_extra = in_extra
        self._new_id = new_id
        self._started: dict[int, str] = {}

    def to_provider(self, request: Request, /) -> Request:
        """The request with the provider's ids; a call without a known pair keeps its id."""
        self._known |= _ids_in_extra(request)
        if not self._known:
            return request
        messages = tuple(self._message_to_provider(message) for message in request.messages)
        used = {part.id for message in request.messages for part in message.tool_calls}
        self._known = {id: provider_id for id, provider_id in self._known.items() if id in used}
        return replace(request, messages=messages)

    def _message_to_provider(self, message: Message) -> Message:
        if not message.tool_calls and not message.tool_results:
            return message
        return replace(message, parts=tuple(self._part_to_provider(part) for part in message.parts))

    def _part_to_provider(self, part: Part) -> Part:
        if isinstance(part, ToolCall | ToolResult) and part.id in self._known:
            extra = {wire: data for wire, data in part.extra.items() if wire != EXTRA}
            return replace(part, id=self._known[part.id], extra=extra)
        return part

    def to_client(self, response: Response, /) -> Response:
        """The response with the gateway's ids."""
        if not response.tool_calls:
            return response
        parts = tuple(self.replace_id(part) if isinstance(part, ToolCall) else part for part in response.message.parts)
        return replace(response, message=replace(response.message, parts=parts))

    def event_to_client(self, event: E, /) -> E:
        """An event with the gateway's id; the start and the end of a call have the same."""
        if isinstance(event, PartStarted) and event.id is not None:
            id = self._started[event.index] = self._new_id()
            self.new[id] = event.id
            return replace(event, id=id, extra=self._with_id(event.extra, event.id))
        if isinstance(event, PartEnded) and isinstance(event.part, ToolCall):
            return replace(event, part=self.replace_id(event.part, self._started.get(event.index)))
        return event

    def replace_id(self, call: ToolCall, id: str | None = None, /) -> ToolCall:
        """A call of the provider with an id of the gateway; a new one if its start had none."""
        id = id or self._new_id()
        self.new[id] = call.id
        return replace(call, id=id, extra=self._with_id(call.extra, call.id))

    def _with_id(self, extra: JsonObject, id: str) -> JsonObject:
        return {**extra, EXTRA: {"id": id}} if self._in_extra else extra

    def header(self) -> str | None:
        """All pairs that the next request of the conversation needs; None if there are none."""
        pairs = [*self._known.items(), *self.new.items()][:MAX_PAIRS]
        return ",".join(f"{quote(id, safe='')}={quote(provider_id, safe='')}" for id, provider_id in pairs) or None


def _ids_in_extra(request: Request) -> dict[str, str]:
    """The pairs in the calls that a client sends back."""
    pairs: dict[str, str] = {}
    for message in request.messages:
        for call in message.tool_calls:
            match call.extra.get(EXTRA):
                case {"id": str(provider_id)} if provider_id and len(provider_id) <= MAX_ID:
                    pairs[call.id] = provider_id
                case _:
                    continue
    return pairs


def decode_ids(header: str, /) -> dict[str, str]:
    """The pairs that a client sends back."""
    pairs: dict[str, str] = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        id, _, provider_id = pair.partition("=")
        if not id or not provider_id or len(pair) > 2 * MAX_ID or len(pairs) >= MAX_PAIRS:
            raise InvalidRequest(
                f"{HEADER} must be at most {MAX_PAIRS} pairs id=provider_id, got {header[:200]!r}; "
                "send the header of the last response unchanged"
            )
        pairs[unquote(id)] = unquote(provider_id)
    return pairs
