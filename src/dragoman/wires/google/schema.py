"""The fields of generateContent that are read, and tables for the client and the server."""

import re
from typing import Any

import msgspec

from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, FinishReason, JsonObject, Usage, is_list, is_object
from dragoman.types.fast_constructors import new_usage
from dragoman.wires.common.json import object_of, without_none

NAME = "google"
ALT = f"{NAME}.alt"
"""The key of Request.extra with the value `json` if the client wants the stream as a JSON array."""

SIGNATURE = "thoughtSignature"
"""The field of a part with its signature."""
DUMMY_SIGNATURE = "skip_thought_signature_validator"
FILES = "https://generativelanguage.googleapis.com/"
"""Where uploaded files are; only Google can fetch them."""
MAX_STOPS = 5

FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    **dict.fromkeys(
        "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
        "IMAGE_RECITATION ESCALATION PUP_LIMITED_DISABLED".split(),
        "blocked",
    ),
    **dict.fromkeys(
        "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE NO_IMAGE IMAGE_OTHER "
        "MISSING_THOUGHT_SIGNATURE LANGUAGE OTHER".split(),
        "other",
    ),
}
FINISH_VALUES: dict[FinishReason, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "blocked": "SAFETY",
    "pause": "STOP",
    "other": "OTHER",
}
UNFINISHED = (None, "", "FINISH_REASON_UNSPECIFIED")
UNBLOCKED = (None, "", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")

TEXT_FIELDS = (
    "citationMetadata",
    "groundingMetadata",
    "urlContextMetadata",
    "avgLogprobs",
    "safetyRatings",
)
"""Members of a candidate about its text; they go into the `extra` of that text."""
FINISH_FIELDS = ("finishMessage", "continuationToken")
"""Members of a candidate about its end."""
GROWING_FIELDS = frozenset(("citationMetadata", "groundingMetadata", "urlContextMetadata"))
"""Fields that a stream sends in pieces; of the others the last one wins."""

NEUTRAL_CONFIG: JsonObject = {"responseModalities": ["TEXT"]}
"""Values of generationConfig that equal the default, so that dropping them loses nothing."""
TOOL_CHOICE_FROM_WIRE = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}
TOOL_CHOICE_TO_WIRE = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
OPTION_NAMES = {"topP": "top_p", "topK": "top_k", "maxOutputTokens": "max_tokens", "stopSequences": "stop"}
"""Options of a Request by their field in generationConfig."""
LEVELS: dict[Effort, str] = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
    "max": "XHIGH",
}
RARE_FIELDS = {
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
    "n": "candidateCount",
    "service_tier": "serviceTier",
}
"""Options in generationConfig by their name in Request; the service tier is outside of it."""
SERVICE_TIERS = {name: name for name in ("standard", "flex", "priority")}
MAX_BUDGET = 24576
"""The largest thinking budget that all models with a budget accept (2026-09)."""

ENUM = "text/x.enum"
"""The type of an answer that is one value of an enum, as plain text."""
ALTERNATIVE_FIELDS: dict[str, tuple[str, ...]] = {
    "responseJsonSchema": ("responseSchema", "responseFormat"),
    "responseMimeType": ("responseFormat",),
}
"""Fields by which a caller may replace a field of generationConfig."""

TOO_LONG = "the input token count exceeds the maximum number of tokens allowed"
"""The phrase by which clients recognise a full context."""
STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

SCHEMA_DIALECT = SchemaDialect(
    name=NAME,
    keywords=frozenset(
        "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum "
        "anyOf oneOf properties additionalProperties required propertyOrdering".split()
    ),
    enum_types=frozenset(("string", "number")),
    type_lists="null",
    required_recursion=False,
    lone_refs=True,
    describe_dropped=True,
)
"""What parametersJsonSchema and responseJsonSchema support; other keywords are ignored silently (2026-09)."""


class GeminiUsage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None
    service_tier: Any = None


class GeminiContent(msgspec.Struct):
    parts: list[JsonObject] | None = None


class GeminiCandidate(msgspec.Struct, rename="camel"):
    index: int | None = None
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    continuation_token: Any = None
    citation_metadata: Any = None
    grounding_metadata: Any = None
    url_context_metadata: Any = None
    logprobs_result: Any = None
    avg_logprobs: Any = None
    safety_ratings: Any = None


class GeminiChunk(msgspec.Struct, rename="camel"):
    """A chunk of a stream, or a whole body."""

    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: JsonObject | None = None
    usage_metadata: GeminiUsage | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    error: Any = None


class GeminiRequest(msgspec.Struct, rename="camel"):
    """The body of a request."""

    contents: list[JsonObject] | JsonObject = []
    system_instruction: str | JsonObject | None = None
    tools: list[JsonObject] | JsonObject | None = None
    tool_config: JsonObject | None = None
    generation_config: JsonObject | None = None
    service_tier: str | None = None
    model: str = ""


class GenerationConfig(msgspec.Struct, rename="camel"):
    """The members of generationConfig that have a field in Request."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] = []
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    candidate_count: int | None = None
    response_mime_type: str | None = None
    response_json_schema: JsonObject | None = None


class GeminiTurn(msgspec.Struct):
    """One turn of a request."""

    role: str = "user"
    parts: list[JsonObject] | JsonObject = []


class GeminiTool(msgspec.Struct, rename="camel"):
    """One entry of the tools of a request."""

    function_declarations: list[JsonObject] | JsonObject | None = None


class FunctionDeclaration(msgspec.Struct, rename="camel"):
    """A function of a request."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    parameters_json_schema: JsonObject | None = None


class FunctionCall(msgspec.Struct, rename="camel"):
    """A function call in a request or an answer."""

    name: str = ""
    id: str | None = None
    args: JsonObject = {}
    partial_args: list[JsonObject] = []
    will_continue: Any = None


class FunctionResponse(msgspec.Struct):
    """A function response of a request."""

    name: str = ""
    id: str | None = None
    response: JsonObject = {}
    parts: list[JsonObject] = []


def camel(data: JsonObject) -> JsonObject:
    """An object with camelCase names and without nulls; Google's servers also accept snake_case and null."""
    return {camel_name(key): value for key, value in data.items() if value is not None}


def camel_name(name: str) -> str:
    """The JSON name of a field."""
    return re.sub("(?<=[a-z0-9])_([a-z0-9])", lambda match: match[1].upper(), name) if "_" in name else name


def as_objects(value: list[JsonObject] | JsonObject | None) -> list[JsonObject]:
    """A repeated field as a list; Google's servers also accept a single object."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def join_fields(fields: JsonObject, new: JsonObject) -> None:
    """Add later fields to earlier ones, in place."""
    for name, value in new.items():
        fields[name] = _merge_field(fields.get(name), value) if name in GROWING_FIELDS else value


def _merge_field(old: Any, new: Any) -> Any:
    """A field with a later one: lists are extended in place, unless the later list repeats the earlier."""
    if is_object(new):
        merged: JsonObject = object_of(old)
        for key, value in new.items():
            merged[key] = _merge_field(merged.get(key), value)
        return merged
    if not is_list(new):
        return new
    if not is_list(old) or new[: len(old)] == old:
        return [*new]
    old += new
    return old


def read_usage(tokens: GeminiUsage) -> Usage | None:
    """The usage, or None if nothing is counted yet. Google leaves out zeros; the total reveals them."""
    prompt, tools = tokens.prompt_token_count, tokens.tool_use_prompt_token_count
    answer, thoughts = tokens.candidates_token_count, tokens.thoughts_token_count
    total = tokens.total_token_count
    input = None if prompt is None else prompt + (tools or 0)
    output = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    if output is None and input is not None and total is not None:
        output = max(0, total - input)
    if input is None and output is None:
        return None
    return new_usage(input=input, output=output, cache_read=tokens.cached_content_token_count, reasoning=thoughts)


def write_usage(usage: Usage) -> JsonObject | None:
    """The inverse of `read_usage`; unknown counts are left out."""
    has_total = usage.input is not None and usage.output is not None
    tokens = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": None if usage.output is None else max(0, usage.output - (usage.reasoning or 0)),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": (usage.input or 0) + (usage.output or 0) if has_total else None,
    }
    return without_none(tokens) or None
