"""The fields of the Messages API that are read, and tables for the client and the server."""

from typing import Any

import msgspec

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    RequestError,
    TimedOut,
)
from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, FinishReason, JsonObject, Usage, is_object
from dragoman.types.fast_constructors import new_usage
from dragoman.wires.common.json import objects, whole_number

NAME = "anthropic"
VERSION = "2023-06-01"
WITHOUT_SAMPLING = frozenset({"2026-10-21"})
"""API versions without temperature, top_p and top_k."""
DEFAULT_MAX_TOKENS = 4096
"""`max_tokens` of a request without a limit; the API requires the field."""
MIN_BUDGET = 1024
CALL_ID = r"[a-zA-Z0-9_-]+"
CALL_ID_LENGTH = 24
EPHEMERAL: JsonObject = {"type": "ephemeral"}
BETA = r"[A-Za-z0-9_.:-]+"
MODEL_IN_PATH = r".*?/models/(?!count-tokens:)([^?]+):(rawPredict|streamRawPredict)(?:\?.*)?"
"""Vertex AI puts the model, and whether to stream, into the path."""

FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "blocked",
}
STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "blocked": "refusal",
    "pause": "pause_turn",
    "other": "end_turn",
}

TOOL_CHOICE_TO_WIRE = {"auto": "auto", "none": "none", "required": "any"}
TOOL_CHOICE_FROM_WIRE = {"auto": "auto", "none": "none", "any": "required"}

EFFORT_FROM_WIRE: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
EFFORT_TO_WIRE: dict[Effort, str] = {"minimal": "low", **{effort: word for word, effort in EFFORT_FROM_WIRE.items()}}
DEFAULT_EFFORT: Effort = "high"

ERROR_TYPES: tuple[tuple[type[DragomanError], str], ...] = (
    (AuthFailed, "authentication_error"),
    (RateLimited, "rate_limit_error"),
    (ModelNotFound, "not_found_error"),
    (Overloaded, "overloaded_error"),
    (TimedOut, "timeout_error"),
    (RequestError, "invalid_request_error"),
    (BadRequest, "invalid_request_error"),
    (ContextTooLong, "invalid_request_error"),
    (Blocked, "invalid_request_error"),
    (DragomanError, "api_error"),
)
ERRORS_BY_STATUS = {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
"""Errors whose status says more than their class."""
FINER_ERRORS = frozenset({"permission_error", "billing_error", "request_too_large", "conflict_error"})
"""Error types that say more than our classes; sent as they came."""
OVERLOADED = 529
"""Anthropic's status for an overloaded server."""
TOO_LONG = "prompt is too long"
"""The phrase by which clients recognise a full context."""

SCHEMA_DIALECT = SchemaDialect(
    name=NAME,
    keywords=frozenset(
        "type enum const anyOf allOf $ref $defs default required properties items additionalProperties title "
        "description format minItems pattern".split()
    ),
    formats=frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split()),
    enum_types=frozenset({"string", "number", "boolean", "null"}),
    min_items=1,
    simple_patterns=True,
    recursion=False,
    closed_objects=True,
    describe_dropped=True,
)
"""What structured output and strict tools accept."""

MESSAGE_FIELDS = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage"})
"""Members of a message that events cover; the others go into the `extra` of the finish."""
HOSTED_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_result",
)
"""Blocks with the results of tools that the provider runs."""
EVENT_FIELDS = frozenset({"context_management"})
"""Members that stand next to the `delta` of a message_delta, not inside it."""
COUNTS = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens_details",
        "service_tier",
    }
)
"""Members of the usage that events cover; the others go into the `extra` of the finish."""
SERVICE_TIERS = {"auto": "auto", "priority": "auto", "standard_only": "standard_only"}
"""`auto` uses capacity with priority if the account has some."""


class AnthropicEvent(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: str | None = None
    index: int | None = None
    message: Any = None
    content_block: JsonObject | None = None
    delta: JsonObject | None = None
    usage: JsonObject | None = None
    context_management: Any = None
    error: Any = None


class AnthropicRequest(msgspec.Struct):
    """The body of a request."""

    model: str = ""
    messages: list[JsonObject] = []
    system: str | list[str | JsonObject] | None = None
    tools: list[JsonObject] | None = None
    tool_choice: JsonObject | None = None
    max_tokens: int | None = None
    """0 fills the cache without an answer."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    thinking: JsonObject | None = None
    output_config: JsonObject | None = None
    output_format: JsonObject | None = None
    metadata: JsonObject | None = None
    cache_control: JsonObject | None = None
    service_tier: str | None = None
    anthropic_version: str | None = None
    anthropic_beta: list[str] | None = None


class AnthropicMessage(msgspec.Struct):
    """One message of a request."""

    role: str
    content: str | list[str | JsonObject] | None = None


class TextBlock(msgspec.Struct):
    type: str
    text: str


class ThinkingBlock(msgspec.Struct):
    type: str
    thinking: str = ""


class ToolUseBlock(msgspec.Struct):
    type: str
    id: str
    name: str
    input: JsonObject = {}


class ToolResultBlock(msgspec.Struct):
    type: str
    tool_use_id: str
    content: str | list[str | JsonObject] | None = None
    is_error: bool | None = None


class MediaBlock(msgspec.Struct):
    """An image or a document."""

    type: str
    source: JsonObject
    title: str | None = None


class AnthropicTool(msgspec.Struct):
    """One tool of a request."""

    name: str
    description: str | None = None
    input_schema: JsonObject | None = None
    strict: bool | None = None


def read_usage(tokens: JsonObject) -> Usage:
    """The usage; Anthropic's `input_tokens` do not include cached tokens and compaction, ours do."""
    details = tokens.get("output_tokens_details")
    totals = {name: whole_number(tokens.get(name)) for name in _TOTALS}
    for name, more in _compaction_usage(tokens).items():
        if more:
            totals[name] = (totals[name] or 0) + more
    uncached, cache_write, cache_read, output = totals.values()
    parts = (uncached, cache_read, cache_write)
    return new_usage(
        # Servers write 0 if they do not know (seen 2026-10).
        input=sum(part for part in parts if part is not None) or None,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=whole_number(details.get("thinking_tokens")) if is_object(details) else None,
    )


_TOTALS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _compaction_usage(tokens: JsonObject) -> dict[str, int]:
    """The tokens of compactions, which the totals leave out (documented 2026-04); empty if there are none."""
    counts = [each for each in objects(tokens.get("iterations")) if each.get("type") == "compaction"]
    return {name: sum(whole_number(each.get(name)) or 0 for each in counts) for name in _TOTALS} if counts else {}


def write_usage(usage: Usage, own: JsonObject) -> JsonObject:
    """The inverse of `read_usage`; both totals are always there, because the SDKs require them."""
    compaction = _compaction_usage(own)
    counts = {
        "input_tokens": (usage.input or 0) - (usage.cache_read or 0) - (usage.cache_write or 0),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output or 0,
    }
    totals = {name: max(0, count - compaction.get(name, 0)) for name, count in counts.items() if count is not None}
    details = {} if usage.reasoning is None else {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
    return {**totals, **details}
