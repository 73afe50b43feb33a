"""A request that goes on from an earlier answer in, one that says all by itself out; and what is kept for the next."""

from msgspec.structs import replace

from dragoman.types import Message, Notice, Opaque, Part, Request, Response, ToolResult
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import system_texts
from dragoman.wires.common.server_endpoints import StoredResponse, StoredResponseQuery
from dragoman.wires.openai_responses.request_echo import ECHO, read_echo
from dragoman.wires.openai_responses.schema import NAME
from dragoman.wires.openai_responses.server import OUTPUTS, decode_result

_FIELDS = frozenset({"background", "previous_response_id", "store"})
_AT_ONCE = Notice(kind="changed", what="background", why=f"{NAME}: the answer is given at once, and kept as any other")


class PreviousResponse:
    """`previous_response_id` and `store` of the Responses API."""

    PREFIX = "resp_"

    def split(self, request: Request, body: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """What is asked of the server's memory, and the request without it. Where nothing is said, an answer is kept."""
        extra = wire_extra(request.extra, NAME)
        previous = extra.get("previous_response_id")
        rest = make_extra(NAME, {field: value for field, value in extra.items() if field not in _FIELDS})
        others = {name: data for name, data in request.extra.items() if name != NAME}
        wanted = StoredResponseQuery(
            previous_id=previous if isinstance(previous, str) else None,
            store=extra.get("store") is not False,
            notices=(_AT_ONCE,) if extra.get("background") else (),
        )
        return wanted, replace(request, extra={**others, **rest, **make_extra(ECHO, read_echo(body))})

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """The request with all that came before it; results whose calls stand there find them."""
        names = {call.id: call.name for message in stored.messages for call in message.tool_calls}
        turns = list(stored.messages)
        for message in request.messages:
            results = tuple(_result(part, names) for part in message.parts if _is_result(part))
            rest = tuple(part for part in message.parts if not _is_result(part))
            turns += [Message(role="tool", parts=results)] if results else []
            turns += [replace(message, parts=rest)] if rest or not results else []
        return replace(request, messages=tuple(turns))

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """What the next request may go on from. Instructions hold for one answer only; system items stay."""
        system = (Message(role="system", parts=(text,)) for text in system_texts(request) if NAME in text.extra)
        asked = Request(extra=make_extra(ECHO, wire_extra(request.extra, ECHO)))
        return StoredResponse(messages=(*system, *request.messages, response.message), response=response, request=asked)


def _is_result(part: Part) -> bool:
    return isinstance(part, Opaque) and part.wire == NAME and part.data.get("type") in OUTPUTS


def _result(part: Part, names: dict[str, str]) -> ToolResult:
    return decode_result(part.data if isinstance(part, Opaque) else {}, "input", names)
