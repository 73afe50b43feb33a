"""`previous_response_id`, `item_reference` and `store`: requests that continue from what is stored."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.types import JsonObject, Message, Opaque, Part, Request, Response, Thinking, ToolCall, ToolResult
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import system_texts
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.server_endpoints import StoredResponse, StoredResponseQuery
from dragoman.wires.openai_responses.client_tools import (
    OfferedTools,
    call_id_of_output,
    decode_client_output,
    loaded_tools,
)
from dragoman.wires.openai_responses.found_tools import with_found_tools
from dragoman.wires.openai_responses.incoming_items import RESULT_TYPES, decode_result, item_kind
from dragoman.wires.openai_responses.item_lists import output_items
from dragoman.wires.openai_responses.parts import decode_tools
from dragoman.wires.openai_responses.request_echo import ECHO, conversation_id, read_echo
from dragoman.wires.openai_responses.schema import NAME, OWN_ITEM

_FIELDS = frozenset({"background", "conversation", "generate", "previous_response_id", "store"})


class PreviousResponse:
    """The `ResponseContinuation` of the Responses API."""

    PREFIX: str = "resp_"
    FIELD: str = "previous_response_id"

    def split(self, request: Request, body: bytes, /) -> tuple[StoredResponseQuery, Request]:
        """A response is stored unless the request has `store: false`."""
        extra = wire_extra(request.extra, NAME)
        previous = extra.get("previous_response_id")
        rest = make_extra(NAME, {field: value for field, value in extra.items() if field not in _FIELDS})
        others = {name: data for name, data in request.extra.items() if name != NAME}
        conversation = extra.get("conversation")
        if conversation is not None and previous is not None:
            raise InvalidRequest("conversation must be left out with previous_response_id", param="conversation")
        if extra.get("background") and extra.get("store") is False:
            raise InvalidRequest("store must be true with background, got false; leave it out", param="store")
        query = StoredResponseQuery(
            item_list=conversation_id(conversation),
            previous_id=previous if isinstance(previous, str) else None,
            references=tuple(dict.fromkeys(_references(request))),
            incomplete=tuple(dict.fromkeys(_incomplete(request))),
            store=extra.get("store") is not False,
            is_background=bool(extra.get("background")),
            is_warmup=extra.get("generate") is False,
            needs_own_wire="prompt" if extra.get("prompt") else None,
        )
        return query, replace(request, extra={**others, **rest, ECHO: read_echo(body)})

    def response_of(self, item_id: str, /) -> str | None:
        match = re.fullmatch(OWN_ITEM, item_id)
        return match["response"] if match else None

    def items(self, stored: StoredResponse, /) -> list[JsonObject]:
        return output_items(stored)

    def request_items(self, body: bytes, /) -> list[JsonObject]:
        return [item for item in _input(msgspec.json.decode(body, type=JsonObject)) if not _is_reference(item)]

    def is_stored_alone(self, item: JsonObject, /) -> bool:
        return self.response_of(str(item.get("id"))) is None or bool(item.get("encrypted_content"))

    def insert_items(
        self, body: bytes, items: dict[str, JsonObject], before: list[JsonObject], /, *, needs_state: bool
    ) -> tuple[bytes, bool]:
        data = msgspec.json.decode(body, type=JsonObject)
        own = [items.get(str(item.get("id")), item) if _is_short(item) else item for item in _input(data)]
        known = _without_unknown_reasoning(own, needs_state=needs_state)
        return encode_json({**data, "input": [*before, *known]}), len(known) < len(own)

    def note_completed(self, request: Request, at: int, /) -> None:
        """Only the gateway has a clock; the fields that the response repeats belong to this request alone."""
        wire_extra(request.extra, ECHO)["completed_at"] = at

    def join(self, stored: StoredResponse, request: Request, /) -> Request:
        """Results of calls in the stored conversation get the names of these calls."""
        names = {call.id: call.name for message in stored.messages for call in message.tool_calls}
        # The last message is the answer; that of a warmup is empty.
        turns = list(stored.messages if stored.response.message.parts else stored.messages[:-1])
        for message in request.messages:
            results = tuple(_result(part, names) for part in message.parts if _is_result(part))
            rest = tuple(part for part in message.parts if not _is_result(part))
            turns += [Message(role="tool", parts=results)] if results else []
            turns += [replace(message, parts=rest)] if rest or not results else []
        messages, tools = with_found_tools(turns, request.tools, decode_tools)
        return replace(request, messages=messages, tools=(*tools, *loaded_tools(turns, tools, decode_tools)))

    def record(self, request: Request, response: Response, /) -> StoredResponse:
        """Instructions apply to one response only, so they are not stored; system items are.

        Calls are stored in the form in which the client offered their tools.
        """
        system = (Message(role="system", parts=(text,)) for text in system_texts(request) if NAME in text.extra)
        echo = Request(extra=make_extra(ECHO, wire_extra(request.extra, ECHO)))
        tools = OfferedTools(request.tools, request.messages)
        parts = tuple(tools.restore(part) if isinstance(part, ToolCall) else part for part in response.message.parts)
        response = replace(response, message=replace(response.message, parts=parts))
        return StoredResponse(messages=(*system, *request.messages, response.message), response=response, request=echo)


def _input(data: JsonObject) -> list[JsonObject]:
    input: Any = data.get("input")
    return [{"type": "message", "role": "user", "content": input}] if isinstance(input, str) else input or []


def _references(request: Request) -> Iterator[str]:
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Opaque) and part.wire == NAME and _is_reference(part.data):
                yield str(part.data.get("id"))


def _incomplete(request: Request) -> Iterator[str]:
    """The ids of reasoning items without state: OpenAI itself sends it only if `include` wants it."""
    for message in request.messages:
        for part in message.parts:
            item = wire_extra(part.extra, NAME) if isinstance(part, Thinking) else {}
            if isinstance(item.get("id"), str) and not (item.get("encrypted_content") or item.get("content")):
                yield str(item["id"])


def _is_reference(item: JsonObject) -> bool:
    return item_kind(item) == "item_reference"


def _is_short(item: JsonObject) -> bool:
    return _is_reference(item) or (item_kind(item) == "reasoning" and not item.get("encrypted_content"))


def _without_unknown_reasoning(items: list[JsonObject], *, needs_state: bool) -> list[JsonObject]:
    """Remove reasoning items that a server knows only by their ids: the gateway lets it store nothing.

    OpenAI refuses the items after them if it knows these by their ids, so they go without ids (seen 2026-11). A server
    that does not need the state can read a summary.
    """
    fields = ("encrypted_content", "content") if needs_state else ("encrypted_content", "content", "summary")
    known: list[JsonObject] = []
    is_lost = False
    for item in items:
        kind = item_kind(item)
        if kind == "reasoning":
            is_lost = "id" in item and not any(map(item.get, fields))
            if is_lost:
                continue
        elif kind.endswith("_output") or item.get("role", "assistant") != "assistant":
            is_lost = False
        known.append({key: value for key, value in item.items() if key != "id"} if is_lost else item)
    return known


def _is_result(part: Part) -> bool:
    if not isinstance(part, Opaque) or part.wire != NAME:
        return False
    return part.data.get("type") in RESULT_TYPES or bool(call_id_of_output(part.data))


def _result(part: Part, names: dict[str, str]) -> ToolResult:
    data = part.data if isinstance(part, Opaque) else {}
    if call_id_of_output(data):
        return decode_client_output(data, names)
    return decode_result(data, "input", names)
