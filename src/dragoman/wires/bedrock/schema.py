"""The fields of the Converse API that are read, and tables for the client and the server."""

from typing import Any

import msgspec

from dragoman.types import Effort, FinishReason, JsonObject, Usage
from dragoman.types.fast_constructors import new_usage
from dragoman.wires.common.json import whole_number, without_none

NAME = "bedrock"
MODEL_FIELDS = "additionalModelRequestFields"
"""The member of Converse for fields of a model's own body."""
CALL_ID = r"[a-zA-Z0-9_.:-]{1,64}"
CALL_ID_LENGTH = 24
CACHE_POINT: JsonObject = {"cachePoint": {"type": "default"}}
NO_METRICS: JsonObject = {"latencyMs": 0}
"""The metrics of an answer that has none; the API requires the member."""
MIN_BUDGET = 1024
DEFAULT_MAX_TOKENS = 4096
"""Room for the answer besides a thinking budget, if the request has no limit."""

FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "blocked",
    "content_filtered": "blocked",
    "malformed_model_output": "other",
    "malformed_tool_use": "other",
}
STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "blocked": "content_filtered",
    "pause": "end_turn",
    "other": "end_turn",
}

IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
DOCUMENT_FORMATS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
IMAGE_TYPES = {format: mime for mime, format in IMAGE_FORMATS.items()}
DOCUMENT_TYPES = {format: mime for mime, format in DOCUMENT_FORMATS.items()}

EFFORT_TO_WIRE: dict[Effort, str] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "high"}
"""Efforts of models other than Anthropic's."""

SERVICE_TIERS = {name: name for name in ("default", "flex", "priority", "reserved")}
ANSWER_FIELDS = frozenset({"output", "stopReason", "usage", "p", "role", "serviceTier"})
"""Members of an answer that events cover; the others go into the `extra` of the finish."""
OLD_COUNTS = {
    "cacheReadInputTokens": "cacheReadInputTokenCount",
    "cacheWriteInputTokens": "cacheWriteInputTokenCount",
}
"""Counts with an older name, which InvokeModel still has; Converse has both."""
COUNTS = frozenset({"inputTokens", "outputTokens", "totalTokens", *OLD_COUNTS, *OLD_COUNTS.values()})


class ConverseRequest(msgspec.Struct, rename="camel"):
    """The body of a request."""

    messages: list[JsonObject] = []
    system: list[JsonObject] | None = None
    inference_config: JsonObject | None = None
    tool_config: JsonObject | None = None
    output_config: JsonObject | None = None
    additional_model_request_fields: JsonObject | None = None
    request_metadata: dict[str, str] | None = None
    service_tier: JsonObject | None = None


class InferenceConfig(msgspec.Struct, rename="camel"):
    """The options of a request."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None


class NovaConfig(msgspec.Struct, rename="camel"):
    """The option that only a body of Nova has."""

    top_k: int | None = None


class ToolConfig(msgspec.Struct, rename="camel"):
    """The tools of a request."""

    tools: list[JsonObject] = []
    tool_choice: JsonObject | None = None


class ConverseMessage(msgspec.Struct):
    """One message of a request."""

    role: str
    content: list[JsonObject] = []


class ToolSpec(msgspec.Struct, rename="camel"):
    """One tool of a request."""

    name: str
    input_schema: JsonObject
    description: str | None = None
    strict: bool | None = None


class ToolUse(msgspec.Struct, rename="camel"):
    """One call."""

    tool_use_id: str
    name: str
    input: Any = None


class ConverseResult(msgspec.Struct, rename="camel"):
    """The result of one call."""

    tool_use_id: str
    content: list[JsonObject] = []
    status: str | None = None


class ConverseMedia(msgspec.Struct):
    """An image or a document."""

    format: str = ""
    source: JsonObject = {}
    name: str | None = None


class TitanText(msgspec.Struct, rename="camel"):
    """A text to embed, for a model of Amazon."""

    input_text: str
    dimensions: int | None = None


class CohereTexts(msgspec.Struct):
    """Texts to embed, for a model of Cohere."""

    texts: list[str]
    output_dimension: int | None = None


class NovaTask(msgspec.Struct, rename="camel"):
    """A task of Nova's model for embeddings."""

    task_type: str
    single_embedding_params: JsonObject


class NovaEmbedding(msgspec.Struct, rename="camel"):
    """The parameters of such a task."""

    text: JsonObject = {}
    embedding_dimension: int | None = None


class RankingRequest(msgspec.Struct):
    """Documents to rank."""

    query: str
    documents: list[str]
    top_n: int | None = None


def read_usage(tokens: JsonObject) -> Usage:
    """The usage; Bedrock's `inputTokens` do not include cached tokens, ours do."""
    cache_read, cache_write = (
        whole_number(tokens.get(name, tokens.get(old_name))) for name, old_name in OLD_COUNTS.items()
    )
    parts = (whole_number(tokens.get("inputTokens")), cache_read, cache_write)
    known = [part for part in parts if part is not None]
    return new_usage(
        input=sum(known) if known else None,
        output=whole_number(tokens.get("outputTokens")),
        cache_read=cache_read,
        cache_write=cache_write,
    )


def write_usage(usage: Usage) -> JsonObject:
    """The inverse of `read_usage`; the totals are always there, because the SDKs require them."""
    uncached = max(0, (usage.input or 0) - (usage.cache_read or 0) - (usage.cache_write or 0))
    return without_none(
        {
            "inputTokens": uncached,
            "outputTokens": usage.output or 0,
            "totalTokens": (usage.input or 0) + (usage.output or 0),
            "cacheReadInputTokens": usage.cache_read,
            "cacheWriteInputTokens": usage.cache_write,
        }
    )
