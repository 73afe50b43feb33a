"""The fields of generateContent that we read, and the tables that both halves share."""

import re
from typing import Any

import msgspec

from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, FinishReason, JsonObject, Usage, is_list, is_object
from dragoman.wires.common.json import without_none

NAME = "google"
ALT = f"{NAME}.alt"
"""The key of Request.extra that says `json` where a stream was asked for as a JSON array."""

DUMMY_SIGNATURE = "skip_thought_signature_validator"
FILES = "https://generativelanguage.googleapis.com/"
"""Where uploaded files are: nobody else can fetch them."""
MAX_STOPS = 5
MAX_SEED = 2**31

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

TEXT_NOTES = (
    "citationMetadata",
    "groundingMetadata",
    "urlContextMetadata",
    "logprobsResult",
    "avgLogprobs",
    "safetyRatings",
)
"""What a candidate tells of its text; it travels in the extra of that text."""
FINISH_NOTES = ("finishMessage", "continuationToken")
"""What a candidate tells of its end."""
GROWING_NOTES = frozenset(("citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult"))
"""Notes that come piece by piece in a stream; of the others the last one stands."""

IDLE: JsonObject = {
    "candidateCount": 1,
    "frequencyPenalty": 0,
    "presencePenalty": 0,
    "responseLogprobs": False,
    "responseModalities": ["TEXT"],
}
"""Fields of generationConfig that ask for nothing when they are these: what is lost of them is no loss."""
CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}
MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
OPTIONS = {"topP": "top_p", "topK": "top_k", "maxOutputTokens": "max_tokens", "stopSequences": "stop"}
"""Our words for the fields of generationConfig that have another name here."""
LEVELS: dict[Effort, str] = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "max": "HIGH",
}
MAX_BUDGET = 24576
"""The largest thinking budget that every model which takes a budget takes (2026-09)."""

SAME_CONCEPT: dict[str, tuple[str, ...]] = {
    "responseJsonSchema": ("responseSchema", "responseFormat"),
    "responseMimeType": ("responseFormat",),
}
"""A field of ours in generationConfig gives way to what the caller put into `extra` under one of these names."""

TOO_LONG = "the input token count exceeds the maximum number of tokens allowed"
"""The words by which clients of this dialect know that the context is full."""
STATUS_WORDS = {
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
"""What parametersJsonSchema and responseJsonSchema can say; the rest is ignored without a word (2026-09)."""


class GeminiUsage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


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
    """A chunk of a stream, or a whole body: they are the same."""

    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: JsonObject | None = None
    usage_metadata: GeminiUsage | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    error: Any = None


class GeminiRequest(msgspec.Struct, rename="camel"):
    """What a client asks."""

    contents: list[JsonObject] | JsonObject = []
    system_instruction: str | JsonObject | None = None
    tools: list[JsonObject] | JsonObject | None = None
    tool_config: JsonObject | None = None
    generation_config: JsonObject | None = None
    model: str = ""


class GenerationConfig(msgspec.Struct, rename="camel"):
    """How a client wants it made."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] = []
    seed: int | None = None
    response_mime_type: str | None = None
    response_json_schema: JsonObject | None = None


class GeminiTurn(msgspec.Struct):
    """One turn that a client sent."""

    role: str = "user"
    parts: list[JsonObject] | JsonObject = []


class GeminiTool(msgspec.Struct, rename="camel"):
    """An entry of the tools that a client sent."""

    function_declarations: list[JsonObject] | JsonObject | None = None


class FunctionDeclaration(msgspec.Struct, rename="camel"):
    """A function that a client declared."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    parameters_json_schema: JsonObject | None = None


class FunctionCall(msgspec.Struct, rename="camel"):
    """A function call, whoever made it."""

    name: str = ""
    id: str | None = None
    args: JsonObject = {}
    partial_args: list[JsonObject] = []
    will_continue: Any = None


class FunctionResponse(msgspec.Struct):
    """A function response that a client sent."""

    name: str = ""
    id: str | None = None
    response: JsonObject = {}
    parts: list[JsonObject] = []


def camel(data: JsonObject) -> JsonObject:
    """The members of one message under their JSON names: servers take snake_case too, and null for what is not set."""
    return {camel_name(key): value for key, value in data.items() if value is not None}


def camel_name(name: str) -> str:
    """The JSON name of a field."""
    return re.sub("(?<=[a-z0-9])_([a-z0-9])", lambda found: found[1].upper(), name) if "_" in name else name


def listed(value: list[JsonObject] | JsonObject | None) -> list[JsonObject]:
    """A repeated field; servers take one message in place of a list of one."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def join_notes(notes: JsonObject, new: JsonObject) -> None:
    """Add to some notes, which are this function's own, what is told later."""
    for name, value in new.items():
        notes[name] = _grown(notes.get(name), value) if name in GROWING_NOTES else value


def _grown(old: Any, new: Any) -> Any:
    """A note with what is told later: lists go on in place, unless the later one repeats the earlier."""
    if is_object(new):
        grown: JsonObject = old if is_object(old) else {}
        for key, value in new.items():
            grown[key] = _grown(grown.get(key), value)
        return grown
    if not is_list(new):
        return new
    if not is_list(old) or new[: len(old)] == old:
        return [*new]
    old += new
    return old


def read_usage(tokens: GeminiUsage) -> Usage | None:
    """Totals and their portions; None where nothing is counted yet. Zeros are left out, so the total tells them."""
    prompt, tools = tokens.prompt_token_count, tokens.tool_use_prompt_token_count
    said, thought = tokens.candidates_token_count, tokens.thoughts_token_count
    total = tokens.total_token_count
    input = None if prompt is None else prompt + (tools or 0)
    output = None if said is None and thought is None else (said or 0) + (thought or 0)
    if output is None and input is not None and total is not None:
        output = max(0, total - input)
    if input is None and output is None:
        return None
    return Usage(input=input, output=output, cache_read=tokens.cached_content_token_count, reasoning=thought)


def write_usage(usage: Usage) -> JsonObject | None:
    """The mirror of `read_usage`: only what is known."""
    known = usage.input is not None and usage.output is not None
    tokens = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": None if usage.output is None else max(0, usage.output - (usage.reasoning or 0)),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": (usage.input or 0) + (usage.output or 0) if known else None,
    }
    return without_none(tokens) or None
