"""The JSON of the Responses API as types, and the tables that both halves share."""

import re
from typing import Any

import msgspec

from dragoman.types import FinishReason, JsonObject, Usage
from dragoman.types.fast_constructors import new_usage
from dragoman.wires.common.extra import VERBATIM
from dragoman.wires.common.json import whole_number

NAME = "openai_responses"
COVERED = NAME + VERBATIM
"""The key of the `extra` of a tool, call or result with the fields whose meaning is also in other fields."""
ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
RARE_FIELDS = {name: name for name in ("logprobs", "top_logprobs", "service_tier", "verbosity")}
CUSTOM = "custom_tool_call"
FILTERS = "content_filters"
"""The member of a response with the results of content filters."""
ECHOED_FIELDS = (FILTERS, "moderation")
"""Members of a response that clients get back as they came."""
MIN_OUTPUT = 16
"""The minimum of `max_output_tokens` (seen 2026-07)."""

FINISH_REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "incomplete": "length",
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "blocked",
    "steered": "pause",
    "queued": "pause",
    "in_progress": "pause",
}
"""This protocol has no finish reason: the keys are reasons for an incomplete response, and statuses."""
FINISH_REASON_TO_WIRE: dict[FinishReason, str] = {
    "stop": "completed",
    "length": "max_output_tokens",
    "tool_calls": "completed",
    "blocked": "content_filter",
    "pause": "steered",
    "other": "other",
}
STATUSES = frozenset({"completed", "incomplete", "queued", "in_progress"})

FIELDS_THAT_NEED_STORE = ("previous_response_id", "conversation", "background")
"""With one of these fields the server stores the response, and refuses `store: false`."""

DEFAULTS: JsonObject = {
    "background": False,
    "include": [],
    "truncation": "disabled",
}
"""Values that are the default, so that dropping them changes nothing."""

PERMANENT_CODES = frozenset(
    "data_residency_mismatch invalid_image invalid_image_format invalid_base64_image invalid_image_url image_too_large "
    "image_too_small image_parse_error invalid_image_mode image_file_too_large unsupported_image_media_type "
    "empty_image_file image_file_not_found".split()
)
"""Codes of errors inside a response with status 200 that are caused by the request."""

_OWN_ITEM_ID = r"(?:msg|fc|ctc|rs|ig|cmp|lsh|sh|apc|tsc)_dragoman_"
OWN_ITEM = _OWN_ITEM_ID + r"(?P<response>\w+)_\d+"
"""The id of an item that `make_item_id` made for a response."""


class ResponsesUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: JsonObject | None = None
    output_tokens_details: JsonObject | None = None


class ResponseObject(msgspec.Struct):
    """A response object: a whole body, or the snapshot in an event."""

    id: str | int | None = None
    object: str | None = None
    model: str | None = None
    created_at: Any = None
    status: str | None = None
    output: list[JsonObject] | None = None
    usage: ResponsesUsage | None = None
    error: Any = None
    incomplete_details: JsonObject | None = None
    service_tier: Any = None
    content_filters: Any = None
    moderation: Any = None


class ResponsesStreamEvent(msgspec.Struct):
    """One event of a stream."""

    type: str | None = None
    response: ResponseObject | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | int | None = None
    item: JsonObject | None = None
    part: JsonObject | None = None
    delta: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    annotation: Any = None
    error: Any = None


class ResponsesRequest(msgspec.Struct):
    """The body of a client's request."""

    model: str = ""
    input: str | list[JsonObject] | None = None
    instructions: str | None = None
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    text: JsonObject | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    reasoning: JsonObject | None = None
    include: list[Any] | None = None
    top_logprobs: int | None = None
    service_tier: str | None = None
    stream: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None


class ResponsesMessage(msgspec.Struct):
    """A message item of a client's request."""

    role: str
    content: str | list[JsonObject] | None = None
    type: str | None = None


class ResponsesCall(msgspec.Struct):
    """A call in a client's request."""

    type: str
    call_id: str
    name: str
    arguments: str | JsonObject | None = None
    input: str | None = None


class ResponsesCallOutput(msgspec.Struct):
    """The result of a call in a client's request."""

    type: str
    call_id: str
    output: str | list[JsonObject]


class ResponsesFunction(msgspec.Struct):
    """A function tool of a client's request."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    type: str | None = None


def finish_reason(raw: str | None, *, calls: bool, asks_approval: bool, refused: bool) -> FinishReason:
    """The finish reason for a raw reason or status, and for a response with calls, an approval request or a refusal."""
    reason = FINISH_REASONS.get(raw or "completed", "other")
    if reason != "stop":
        return reason
    return "tool_calls" if calls else "pause" if asks_approval else "blocked" if refused else "stop"


def make_item_id(prefix: str, response_id: str | None, index: int) -> str:
    """The id of an item that has none: deterministic, and recognisable when a client sends it back."""
    return "_".join([prefix, "dragoman", *re.findall(r"\w+", response_id or ""), str(index)])


def is_own_item_id(id: object) -> bool:
    """Whether `make_item_id` made an id; such ids are never sent to a provider."""
    return isinstance(id, str) and re.match(_OWN_ITEM_ID, id) is not None


def read_usage(tokens: ResponsesUsage) -> Usage:
    """The token counts."""
    inner, outer = tokens.input_tokens_details or {}, tokens.output_tokens_details or {}
    return new_usage(
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        cache_read=whole_number(inner.get("cached_tokens")),
        cache_write=whole_number(inner.get("cache_write_tokens")),
        reasoning=whole_number(outer.get("reasoning_tokens")),
    )


def write_usage(usage: Usage) -> JsonObject | None:
    """The inverse of `read_usage`, with 0 for unknown counts, because clients' types require a number."""
    if usage.source == "unknown":
        return None
    input, output = usage.input or 0, usage.output or 0
    return {
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": input + output,
    }
