"""`previous_response_id` and `store`: requests that continue from a stored response."""

from msgspec.structs import replace

from dragoman.types import Message, Notice, Opaque, Part, Request, Response, ToolResult
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import system_texts
from dragoman.wires.common.server_endpoints import StoredResponse, StoredResponseQuery
from dragoman.wires.openai_responses.request_echo import ECHO, read_echo
from dragoman.wires.openai_responses.schema import NAME
from dragoman.wires.openai_responses.server import RESULT_TYPES, decode_result

_FIELDS = frozenset({"background", "previous_response_id", "store"})
_NO_BACKGROUND = Notice(
    kind="changed", what="background", why=f"{NAME}: not supported; the response is returned at once and stored"
)


class PreviousResponse:
    """The `StoredConversations` of the Responses API."""

    PREFIX: str = "resp_"

    def split(self, request: Request, body: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """A response is stored unless the request has `store: false`."""
        extra = wire_extra(request.extra, NAME)
        previous = extra.get("previous_response_id")
        rest = make_extra(NAME, {field: value for field, value in extra.items() if field not in _FIELDS})
        others = {name: data for name, data in request.extra.items() if name != NAME}
        query = StoredResponseQuery(
            previous_id=previous if isinstance(previous, str) else None,
            store=extra.get("store") is not False,
            notices=(_NO_BACKGROUND,) if extra.get("background") else (),
        )
        return query, replace(request, extra={**others, **rest, ECHO: read_echo(body)})

    def note_completed(self, request: Request, at: int, /) -> None:
        """Only the gateway has a clock; the fields that the response repeats belong to this request alone."""
        wire_extra(request.extra, ECHO)["completed_at"] = at

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """Results of calls in the stored conversation get the names of these calls."""
        names = {call.id: call.name for message in stored.messages for call in message.tool_calls}
        turns = list(stored.messages)
        for message in request.messages:
            results = tuple(_result(part, names) for part in message.parts if _is_result(part))
            rest = tuple(part for part in message.parts if not _is_result(part))
            turns += [Message(role="tool", parts=results)] if results else []
            turns += [replace(message, parts=rest)] if rest or not results else []
        return replace(request, messages=tuple(turns))

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """Instructions apply to one response only, so they are not stored; system items are."""
        system = (Message(role="system", parts=(text,)) for text in system_texts(request) if NAME in text.extra)
        echo = Request(extra=make_extra(ECHO, wire_extra(request.extra, ECHO)))
        return StoredResponse(messages=(*system, *request.messages, response.message), response=response, request=echo)


def _is_result(part: Part) -> bool:
    return isinstance(part, Opaque) and part.wire == NAME and part.data.get("type") in RESULT_TYPES


def _result(part: Part, names: dict[str, str]) -> ToolResult:
    return decode_result(part.data if isinstance(part, Opaque) else {}, "input", names)
