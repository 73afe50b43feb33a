"""The JSON of Chat Completions as types, and the tables that both halves share."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dragoman.types import FinishReason, JsonObject, Usage, is_object
from dragoman.types.fast_constructors import new_usage
from dragoman.types.requests import RARE_OPTIONS
from dragoman.wires.common.extra import VERBATIM
from dragoman.wires.common.json import whole_number, without_none

NAME = "openai_chat"
COMPLETIONS = "openai_completions"
"""The key of the `extra` of a request with fields that only `/completions` has."""
COVERED = NAME + VERBATIM
"""The key of the `extra` of a tool or call with the fields whose meaning is also in other fields."""
CUSTOM = "custom"
"""The type of a tool that takes free text, and the member of its definition and calls."""
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
REASONING_STATE = ("reasoning_opaque", "thinking_blocks")
"""Members of a message with signatures of its thinking, which go back as they came (Copilot, LiteLLM; 2026-08)."""
CITATIONS = ("citations", "search_results")
MESSAGE_CITATIONS = ("annotations", "context")
"""Fields of a message that have citations."""
PROMPT_FILTERS, FILTERS = "prompt_filter_results", "content_filter_results"
"""Results of content filters: of the prompt, in the body; of the answer, in a choice."""
MODERATION = "moderation"
"""The member of a body with the scores of a moderation that the request asked for (2026-06)."""
TEXT_PLACEHOLDER = "\N{SYMBOL FOR UNIT SEPARATOR}piece\N{SYMBOL FOR UNIT SEPARATOR}"
"""A placeholder for a piece of text, which occurs nowhere else in a chunk."""
FUNCTION_CALL = "function_call"
"""The field of a call in the legacy form of the API, and the mark of such a call in its extra."""

CLIENT_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "blocked",
    "abort": "other",
    "repetition": "other",
}
"""The finish reasons that are sent to clients: OpenAI's, and those of other servers without an equivalent."""
FINISH_REASONS: dict[str, FinishReason] = {
    **CLIENT_FINISH_REASONS,
    **dict.fromkeys(("eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("model_length", "max_tokens", "incomplete"), "length"),
    **dict.fromkeys(("tool_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("safety", "sensitive"), "blocked"),
}
"""The finish reasons that servers send, compared in lowercase."""
ABORTED_REASONS = frozenset({"error", "network_error", "insufficient_system_resource"})
"""Finish reasons of responses that the server aborted."""
FINISH_REASON_TO_WIRE: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "blocked": "content_filter",
    "pause": "stop",
    "other": "stop",
}

AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}

SAME_CONCEPT: dict[str, tuple[str, ...]] = {
    "max_completion_tokens": ("max_tokens",),
    "max_tokens": ("max_completion_tokens",),
    "seed": ("random_seed",),
    "tools": ("functions",),
    "tool_choice": (FUNCTION_CALL,),
}
"""The encoder's field is omitted if `extra` has one of these fields."""
REASONING_OPTIONS = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""The fields for reasoning; the encoder's field is omitted if `extra` has one of them."""

RARE_FIELDS = {name: name for name in RARE_OPTIONS}
OWN_TIERS = frozenset({"default", "on_demand"})
"""The words for the usual service tier that servers of this protocol have."""
DEFAULTS: JsonObject = {"modalities": ["text"], "store": False}
"""Values that are the default, so that dropping them changes nothing."""

BASE_CODES = {
    1001: "timeout_error",
    1002: "rate_limit_exceeded",
    1004: "invalid_api_key",
    1008: "insufficient_balance",
    1026: "content_filter",
    1027: "content_filter",
    1039: "context_length_exceeded",
    2013: "invalid_request_error",
    2049: "invalid_api_key",
}
"""The meaning of the codes of a `base_resp` (documented 2026-06); other codes are faults of the server."""


class ChatFunctionCall(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class ChatCustomCall(msgspec.Struct):
    name: str | None = None
    input: str | None = None


class ChatToolCall(msgspec.Struct):
    index: int | None = None
    id: str | int | None = None
    function: ChatFunctionCall | None = None
    custom: ChatCustomCall | None = None


class ChatMessage(msgspec.Struct, gc=False):
    """A `message` or a `delta`."""

    content: Any = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    reasoning_details: list[JsonObject] | None = None
    reasoning_opaque: Any = None
    thinking_blocks: Any = None
    tool_calls: list[JsonObject] | None = None
    function_call: JsonObject | None = None
    annotations: list[Any] | None = None
    citations: list[Any] | None = None
    executed_tools: list[Any] | None = None
    images: list[JsonObject] | None = None
    audio: JsonObject | None = None
    context: Any = None
    """What Azure found in the data of its user, with citations."""


class ChatChoice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: ChatMessage | None = None
    message: ChatMessage | None = None
    text: str | None = None
    """The text of an answer that continues a text."""
    finish_reason: str | None = None
    native_finish_reason: Any = None
    """The word of the provider behind OpenRouter."""
    logprobs: Any = None
    usage: "ChatUsage | None" = None
    error: Any = None
    content_filter_results: Any = None


class ChatUsage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    num_cached_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChatBaseResponse(msgspec.Struct):
    status_code: int = 0
    status_msg: str | None = None


class ChatChunk(msgspec.Struct, gc=False):
    """A chunk of a stream, or a whole body: they differ only in `delta` and `message`."""

    id: str | int | None = None
    object: str | None = None
    model: str | None = None
    created: Any = None
    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    error: Any = None
    errors: Any = None
    message: Any = None
    detail: Any = None
    base_resp: ChatBaseResponse | None = None
    citations: Any = None
    search_results: Any = None
    service_tier: Any = None
    prompt_filter_results: Any = None
    moderation: Any = None


class ChatRequest(msgspec.Struct):
    """The body of a client's request."""

    model: str = ""
    messages: list[JsonObject] = []
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    response_format: JsonObject | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    n: int | None = None
    service_tier: str | None = None
    verbosity: str | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None


class CompletionRequest(msgspec.Struct):
    """The body of a client's request to `/completions`."""

    model: str = ""
    prompt: str | list[str | int | list[int]] | None = None
    suffix: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    stream: bool | None = None
    logprobs: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None


class ChatPlainMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message with text only."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Meta(min_length=1)]


class ChatPlainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request with text messages only, as most are."""

    model: str
    messages: list[ChatPlainMessage]
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stream: bool = False


class OpenAIEmbeddingsRequest(msgspec.Struct, kw_only=True):
    """The body of a request for embeddings."""

    model: str = ""
    input: str | list[str | int | list[int]]
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None


class TextsRequest(msgspec.Struct, kw_only=True):
    """The body of a request for embeddings of `texts`."""

    model: str = ""
    texts: list[str] | None = None
    inputs: list[JsonObject] | None = None
    images: list[str] | None = None
    embedding_types: list[str] | None = None
    output_dimension: Annotated[int, Meta(ge=1)] | None = None


class RerankRequest(msgspec.Struct, kw_only=True):
    """The body of a request that ranks documents."""

    model: str = ""
    query: str
    documents: list[str | JsonObject]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    """Another name of `top_n`."""
    return_documents: bool | None = None


class ChatInputMessage(msgspec.Struct):
    """A message of a client's request."""

    role: str
    content: str | list[str | JsonObject] | JsonObject | None = None
    tool_call_id: str | None = None


class ChatAssistantMessage(ChatInputMessage):
    """An assistant message of a client's request."""

    tool_calls: list[JsonObject] | None = None
    function_call: JsonObject | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[JsonObject] | None = None
    reasoning_opaque: str | None = None
    thinking_blocks: list[JsonObject] | None = None
    refusal: str | None = None
    images: list[JsonObject] | None = None


class ChatInputFunctionCall(msgspec.Struct):
    """The `function` of a call in a client's request."""

    name: str
    arguments: Any = None


class ChatFunctionDefinition(msgspec.Struct):
    """The `function` of a tool in a client's request."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


def read_usage(tokens: ChatUsage) -> Usage:
    """The token counts, wherever a server puts them."""
    input, output, total = tokens.prompt_tokens, tokens.completion_tokens, tokens.total_tokens
    if tokens == ChatUsage(prompt_tokens=input, completion_tokens=output, total_tokens=total):
        return new_usage(input, output)
    prompt = tokens.prompt_tokens_details if is_object(tokens.prompt_tokens_details) else {}
    completion = tokens.completion_tokens_details if is_object(tokens.completion_tokens_details) else {}
    reasoning = _first(whole_number(completion.get("reasoning_tokens")), tokens.reasoning_tokens)
    input, output = _first(input, tokens.input_tokens), _first(output, tokens.output_tokens)
    if output is not None and reasoning and total == (input or 0) + output + reasoning:
        # Some servers do not count reasoning in completion_tokens; the total shows it (seen 2026-08).
        output += reasoning
    return new_usage(
        input=input,
        output=output,
        cache_read=_first(
            whole_number(prompt.get("cached_tokens")),
            tokens.prompt_cache_hit_tokens,
            tokens.cached_tokens,
            tokens.num_cached_tokens,
            tokens.cached_input_tokens,
            tokens.cache_read_input_tokens,
        ),
        cache_write=_first(whole_number(prompt.get("cache_write_tokens")), tokens.cache_creation_input_tokens),
        reasoning=reasoning,
    )


def write_usage(usage: Usage) -> JsonObject | None:
    """The inverse of `read_usage`, with 0 where clients' types require a number."""
    if usage.source == "unknown":
        return None
    input, output = usage.input or 0, usage.output or 0
    tokens: JsonObject = {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}
    if usage.cache_read is not None or usage.cache_write is not None:
        prompt = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
        tokens["prompt_tokens_details"] = without_none(prompt)
    if usage.reasoning is not None:
        tokens["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return tokens


def _first(*numbers: int | None) -> int | None:
    for number in numbers:
        if number is not None:
            return number
    return None
