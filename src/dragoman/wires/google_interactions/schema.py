"""The fields of the Interactions API that are read, and tables for the client and the server."""

from typing import Any

import msgspec

from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, FinishReason, JsonObject, Usage
from dragoman.wires.common.json import whole_number, without_none

NAME = "google_interactions"
REVISION = "2026-05-20"
"""The version of the API that has steps; older ones had `outputs`."""
FILES = "https://generativelanguage.googleapis.com/"
"""Where uploaded files are; only Google can fetch them."""
MAX_STOPS = 5

CONTENTS = frozenset({"text", "image", "audio", "document", "video"})
"""The types of contents, which are inside of steps. Every other type is a step."""
FINISH_REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "requires_action": "tool_calls",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "pause",
    "in_progress": "pause",
    "queued": "pause",
    "cancelled": "other",
}
"""By status; an interaction that failed has an error, or a code of BLOCKED."""
STATUSES: dict[FinishReason, str] = {
    "stop": "completed",
    "length": "incomplete",
    "tool_calls": "requires_action",
    "blocked": "failed",
    "pause": "requires_continuation",
    "other": "cancelled",
}
BLOCKED = frozenset(
    "safety recitation language prohibited_content spii blocklist image_safety image_prohibited_content "
    "image_recitation image_other content_blocked".split()
)
"""The codes of an answer that a policy has blocked."""
BLOCK_CODE = "content_blocked"
NO_MESSAGE = "the answer was blocked"

LEVELS: dict[Effort, str] = {
    "none": "minimal",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
}
TOOL_CHOICE_TO_WIRE = {"auto": "auto", "required": "any", "none": "none"}
TOOL_CHOICE_FROM_WIRE = {"auto": "auto", "any": "required", "none": "none", "validated": "auto"}
SERVICE_TIERS = {name: name for name in ("standard", "flex", "priority", "deferred")}
RESOLUTIONS = ("low", "high")
"""The resolutions of an image that are a `detail`, too."""
FIELDS_THAT_NEED_STORE = ("previous_interaction_id", "background", "agent")
"""With one of these fields the server stores the interaction, and refuses `store: false`."""

ANSWER_FIELDS = frozenset("id status usage created updated model object service_tier steps outputs role".split())
"""Members of an interaction that events cover; the others go into the `extra` of the finish."""
COUNTS = frozenset(
    "total_input_tokens total_cached_tokens total_output_tokens total_thought_tokens total_tokens".split()
)

TOO_LONG = "the input token count exceeds the maximum number of tokens allowed"
"""The phrase by which clients recognise a full context."""
ERROR_CODES = {
    400: "invalid_request",
    401: "authentication",
    402: "payment_required",
    403: "permission_denied",
    404: "not_found",
    409: "aborted",
    429: "rate_limit_exceeded",
    501: "unimplemented",
    503: "service_unavailable",
    504: "deadline_exceeded",
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
"""What Gemini models support of JSON Schema; they ignore other keywords silently (2026-09)."""


class InteractionRequest(msgspec.Struct):
    """The body of a request."""

    model: str = ""
    input: Any = None
    system_instruction: str | None = None
    tools: list[JsonObject] | None = None
    generation_config: JsonObject | None = None
    service_tier: str | None = None
    stream: bool | None = None


class InteractionConfig(msgspec.Struct):
    """The options of a request."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] | None = None
    seed: int | None = None


class FunctionTool(msgspec.Struct):
    """A function of the client."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class CallStep(msgspec.Struct):
    """A call of a function."""

    name: str
    arguments: JsonObject
    id: str = ""


class ResultStep(msgspec.Struct):
    """The result of a call."""

    call_id: str
    name: str | None = None
    result: Any = None
    is_error: bool | None = None


def read_usage(tokens: JsonObject) -> Usage | None:
    """The usage, or None if nothing is counted. Our input has the tokens of tools, our output the thoughts."""
    prompt, tools = (whole_number(tokens.get(f"total_{name}_tokens")) for name in ("input", "tool_use"))
    answer, thoughts = (whole_number(tokens.get(f"total_{name}_tokens")) for name in ("output", "thought"))
    if prompt is None and answer is None and thoughts is None:
        return None
    return Usage(
        input=None if prompt is None else prompt + (tools or 0),
        output=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        cache_read=whole_number(tokens.get("total_cached_tokens")),
        reasoning=thoughts,
    )


def write_usage(usage: Usage, more: JsonObject) -> JsonObject:
    """The inverse of `read_usage`; `more` has the counts that Usage has no field for."""
    input, output = usage.input, usage.output
    tools = whole_number(more.get("total_tool_use_tokens")) or 0
    return without_none(
        {
            "total_input_tokens": None if input is None else max(0, input - tools),
            "total_cached_tokens": usage.cache_read,
            "total_output_tokens": None if output is None else max(0, output - (usage.reasoning or 0)),
            "total_thought_tokens": usage.reasoning,
            "total_tokens": None if input is None or output is None else input + output,
            **more,
        }
    )
