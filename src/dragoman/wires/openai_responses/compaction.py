"""Compaction: a conversation becomes one item that the next request continues from.

A client asks for it with a `compaction_trigger` as the last item of its input, or with `POST /v1/responses/compact`,
which is the same here. OpenAI does it itself. Any other target is asked for a summary, and the item holds that summary
in a form that we read when it comes back; that of the path also holds what the user said, word for word. This is text
of the client's own conversation, so it is not secret, and a client that changes it changes only what it says to its
model.
"""

from typing import Any

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import (
    Document,
    Finish,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from dragoman.types.base import is_list
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json, invalid_field
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_responses.compaction_item import ITEM, CompactedConversation, is_summary, read_compaction
from dragoman.wires.openai_responses.messages import encode_user_items
from dragoman.wires.openai_responses.schema import NAME, make_item_id, write_usage
from dragoman.wires.openai_responses.server import OpenAIResponsesServer
from dragoman.wires.openai_responses.stream_encoder import encode_output

TRIGGER = "compaction_trigger"
PROMPT = (
    "Write a summary of this conversation for another assistant that continues it and sees nothing else of it. Include "
    "the user's requests and preferences, what was done and decided, facts and file names that are still needed, and "
    "the next steps. Answer with the summary only."
)


class ResponsesCompaction:
    """The `WireCompaction` of the Responses API."""

    def is_requested(self, request: Request, /) -> bool:
        return bool(request.messages) and any(_is_trigger(part) for part in request.messages[-1].parts)

    def summary_request(self, request: Request, /) -> Request:
        """The conversation with a request for a summary at its end.

        Without its tools, its calls and results become text: targets refuse calls of tools that are not defined, and
        some bind their reasoning to the tools (2026-11).
        """
        last = request.messages[-1]
        parts = tuple(part for part in last.parts if not _is_trigger(part))
        turns = (*request.messages[:-1], *((replace(last, parts=parts),) if parts else ()))
        if not request.tools:
            turns = tuple(turn for turn in map(_as_text, turns) if turn.parts)
        choice = "none" if request.tools else None
        return replace(request, messages=(*turns, user(PROMPT)), tool_choice=choice, schema=None, stream=False)

    def to_compaction(self, response: Response, /) -> Response:
        """The answer of a target that was asked for a summary, as a compaction item."""
        content = CompactedConversation(response.text.strip()).content()
        data = {"type": ITEM, "id": make_item_id("cmp", response.id, 0), "encrypted_content": content}
        message = Message(role="assistant", parts=(Opaque(wire=NAME, data=data),))
        return replace(response, message=message, finish=Finish(reason="stop"))


def _as_text(turn: Message) -> Message:
    if all(isinstance(part, Text | Image | Document) for part in turn.parts):
        return turn
    parts = tuple(plain for part in turn.parts if (plain := _plain(part)) is not None)
    return Message(role="user" if turn.role == "tool" else turn.role, parts=parts)


def _plain(part: Part) -> Part | None:
    match part:
        case ToolCall():
            return Text(text=f"Call of {part.name} ({part.id}): {encode_json(part.arguments).decode()}")
        case ToolResult():
            return Text(text=f"Result of {part.name} ({part.id}): {part.text}")
        case Thinking() | Opaque():
            return None
        case _:
            return part


def _is_trigger(part: object) -> bool:
    return isinstance(part, Opaque) and part.wire == NAME and part.data.get("type") == TRIGGER


class CompactServer(OpenAIResponsesServer):
    """The server half of `POST /v1/responses/compact`."""

    routes = (Route(method="POST", path="/v1/responses/compact"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body = decode_request_json(http)
        if body.get("stream"):
            raise InvalidRequest("stream must be false for compaction, got true; leave it out", param="stream")
        data = encode_json({**body, "input": _with_trigger(body.get("input")), "store": False})
        return super().decode_request(replace(http, body=data))

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        turns = () if request is None else request.messages
        user_items = [
            _as_message(item)
            for item in encode_user_items(_without_summaries(turn) for turn in turns if turn.role == "user")
        ]
        items = encode_output(response.message.parts, response.id)
        return HttpResponse(
            body=encode_json(
                {
                    "id": response.id or "",
                    "object": "response.compaction",
                    "created_at": response.created or 0,
                    "output": [_with_user(item, user_items) for item in items],
                    "usage": write_usage(response.usage) or _NO_USAGE,
                }
            )
        )


def _without_summaries(turn: Message) -> Message:
    """The new summary has those of earlier compactions."""
    return replace(turn, parts=tuple(part for part in turn.parts if not is_summary(part)))


def _as_message(item: JsonObject) -> JsonObject:
    """A message; a content part that has the type of an item stays in one."""
    return item if item["type"] == "message" else {"type": "message", "role": "user", "content": [item]}


def _with_user(item: JsonObject, user_items: list[JsonObject]) -> JsonObject:
    """An item of ours with the messages of the user; the item of a provider has them itself."""
    if (compaction := read_compaction(item, ITEM)) is None:
        return item
    return {**item, "encrypted_content": replace(compaction, user=user_items).content()}


_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
"""Clients' types require numbers."""


def _with_trigger(input: Any) -> list[Any]:
    items: Any = [{"role": "user", "content": input}] if isinstance(input, str) else input or []
    if not is_list(items):
        raise invalid_field("input", f"must be a string or a list of items, got {type(input).__name__}")
    return [*items, {"type": TRIGGER}]
