"""`previous_interaction_id` and `store`: requests that continue from what is stored."""

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject, Message, Notice, Opaque, Part, Request, Response
from dragoman.wires.common.extra import VERBATIM, make_extra, wire_extra
from dragoman.wires.common.server_endpoints import StoredResponse, StoredResponseQuery
from dragoman.wires.common.times import write_time
from dragoman.wires.google_interactions.messages import encode_turn
from dragoman.wires.google_interactions.parts import decode_result
from dragoman.wires.google_interactions.schema import NAME

ECHO = f"{NAME}.echo{VERBATIM}"
"""The key of `Request.extra` with what the interaction repeats of its request."""
_START = "start"
"""A member of the echo: the number of messages before those of the request."""
_PREVIOUS = "previous_interaction_id"
_FIELDS = frozenset({"background", _PREVIOUS, "store"})
_NO_BACKGROUND = Notice(
    kind="changed", what="background", why=f"{NAME}: not supported; the interaction is returned at once and stored"
)


class PreviousInteraction:
    """The `ResponseContinuation` of the Interactions API. Its steps have no ids, so nothing refers to one."""

    PREFIX: str = "v1_"
    FIELD: str = _PREVIOUS

    def split(self, request: Request, _: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """An interaction is stored unless the request has `store: false`."""
        extra = wire_extra(request.extra, NAME)
        previous = extra.get(_PREVIOUS)
        if previous is not None and not isinstance(previous, str):
            raise InvalidRequest(f"{_PREVIOUS} must be a string, got {type(previous).__name__}", param=_PREVIOUS)
        rest = make_extra(NAME, {field: value for field, value in extra.items() if field not in _FIELDS})
        others = {name: data for name, data in request.extra.items() if name != NAME}
        query = StoredResponseQuery(
            previous_id=previous or None,
            store=extra.get("store") is not False,
            needs_own_wire="agent" if extra.get("agent") else None,
            notices=(_NO_BACKGROUND,) if extra.get("background") else (),
        )
        echo = {_PREVIOUS: previous} if previous else {}
        return query, replace(request, extra={**others, **rest, ECHO: {_START: 0, **echo}})

    def response_of(self, _: str, /) -> str | None:
        return None

    def items(self, _: StoredResponse, /) -> list[JsonObject]:
        return []

    def request_items(self, _: bytes, /) -> list[JsonObject]:
        return []

    def is_stored_alone(self, _: JsonObject, /) -> bool:
        return False

    def insert_items(
        self,
        body: bytes,
        _items: dict[str, JsonObject],
        _before: list[JsonObject],
        /,
        *,
        needs_state: bool,  # noqa: ARG002 - of the protocol
    ) -> tuple[bytes, bool]:
        return body, False

    def note_completed(self, request: Request, at: int, /) -> None:
        """Only the gateway has a clock."""
        wire_extra(request.extra, ECHO)["updated"] = write_time(at)

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """Results of calls in the stored interaction get the names of these calls."""
        names = {call.id: call.name for message in stored.messages for call in message.tool_calls}
        turns = list(stored.messages)
        for message in request.messages:
            results = tuple(_result(part, names) for part in message.parts if _is_result(part))
            rest = tuple(part for part in message.parts if not _is_result(part))
            turns += [Message(role="tool", parts=results)] if results else []
            turns += [replace(message, parts=rest)] if rest or not results else []
        echo = {**wire_extra(request.extra, ECHO), _START: len(stored.messages)}
        return replace(request, messages=tuple(turns), extra={**request.extra, ECHO: echo})

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """The system instruction, the tools and the options apply to one interaction only, so they are not stored."""
        echo = Request(extra=make_extra(ECHO, wire_extra(request.extra, ECHO)))
        return StoredResponse(messages=(*request.messages, response.message), response=response, request=echo)


def _is_result(part: Part) -> bool:
    return isinstance(part, Opaque) and part.wire == NAME and part.data.get("type") == "function_result"


def _result(part: Part, names: dict[str, str]) -> Part:
    return decode_result(part.data, "input", names) if isinstance(part, Opaque) else part


def echoed_fields(request: Request | None) -> JsonObject:
    """The fields that an interaction repeats of its request."""
    echo = wire_extra(request.extra, ECHO) if request is not None else {}
    return {field: value for field, value in echo.items() if field != _START}


def input_steps(stored: StoredResponse) -> list[JsonObject]:
    """The steps of the request of a stored interaction, without those of the interactions before it."""
    start = wire_extra(stored.request.extra, ECHO).get(_START, 0)
    return [step for message in stored.messages[start:-1] for step in encode_turn(message)]
