"""The fields of Ollama's API that are read, and tables for the client and the server."""

from typing import Any

import msgspec

from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, Finish, FinishReason, JsonObject, Usage
from dragoman.types.fast_constructors import new_usage
from dragoman.wires.common.json import without_none

NAME = "ollama"
TOO_LONG = "the input exceeds the context length"
"""The phrase by which clients recognise a full context."""

FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "load": "stop", "unload": "stop"}
DONE_REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "blocked": "stop",
    "pause": "stop",
}
"""A finish reason that is not here is sent without `done_reason`."""

THINK: dict[bool | str, Effort] = {
    True: "medium",
    False: "none",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "max",
}

GENERATE_FIELDS = ("template", "context")
"""Fields of `/api/generate` that `/api/chat` does not have."""

DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
"""Members of the last line: nanoseconds of all, of loading the model, of reading the prompt, and of the answer."""

TOOL_DIALECT = SchemaDialect(
    name=NAME,
    # The server drops all other keywords silently (seen 2026-08), and additionalProperties, which does no harm here.
    keywords=frozenset("type anyOf items description enum properties required additionalProperties".split()),
    root_keywords=frozenset("type items properties required additionalProperties".split()),
    recursion=False,
    describe_dropped=True,
)
FORMAT_DIALECT = SchemaDialect(
    name=NAME,
    # What llama.cpp turns into a grammar (seen 2026-08), and annotations that it ignores.
    keywords=frozenset(
        "type enum const anyOf oneOf allOf $ref $defs definitions properties required additionalProperties items "
        "prefixItems minItems maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
        "exclusiveMaximum $schema $id $anchor $comment title description default examples example deprecated "
        "readOnly writeOnly discriminator propertyOrdering".split()
    ),
    simple_patterns=True,
    anchored_patterns=True,
)


class OllamaMessage(msgspec.Struct):
    """The `message` of a line, as the server sends it."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[JsonObject] | None = None
    images: list[str] | None = None


class OllamaLine(msgspec.Struct):
    """A line of a stream, or a whole body; the last line has `done`."""

    model: str | None = None
    created_at: Any = None
    message: OllamaMessage | None = None
    response: str | None = None
    """The text of a line of `/api/generate`."""
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_duration: int | None = None
    eval_duration: int | None = None
    logprobs: list[Any] | None = None
    error: Any = None


class OllamaChatRequest(msgspec.Struct):
    """The body of `/api/chat`."""

    model: str = ""
    messages: list[JsonObject] | None = None
    tools: list[JsonObject] | None = None
    stream: bool | None = None
    format: str | JsonObject | None = None
    think: bool | str | None = None
    options: JsonObject | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class OllamaOptions(msgspec.Struct):
    """The `options` that have a field in Request."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    num_predict: int | None = None
    stop: str | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None


class OllamaGenerateRequest(msgspec.Struct):
    """The fields of `/api/generate` that a chat does not have."""

    prompt: str = ""
    suffix: str | None = None
    raw: bool | None = None
    system: str | None = None
    images: list[str] | None = None


class OllamaShowRequest(msgspec.Struct):
    """The body of `/api/show`."""

    model: str = ""
    name: str = ""


class OllamaEmbedRequest(msgspec.Struct):
    """The body of `/api/embed`."""

    model: str = ""
    input: str | list[str] = ""
    dimensions: int | None = None


class OllamaOldEmbedRequest(msgspec.Struct):
    """The body of `/api/embeddings`."""

    model: str = ""
    prompt: str = ""


class OllamaRequestMessage(msgspec.Struct):
    """One message, as a client sends it."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[JsonObject] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaFunction(msgspec.Struct):
    """The function of a tool, as a client sends it."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None


def read_usage(line: OllamaLine) -> Usage | None:
    """The token counts of a line, or None if it has none."""
    if line.prompt_eval_count is None and line.eval_count is None:
        return None
    return new_usage(input=line.prompt_eval_count, output=line.eval_count)


def write_usage(usage: Usage) -> JsonObject:
    """The inverse of `read_usage`."""
    return without_none({"prompt_eval_count": usage.input, "eval_count": usage.output})


def read_durations(line: OllamaLine) -> JsonObject:
    """How long the server took, in nanoseconds."""
    return without_none({name: getattr(line, name) for name in DURATIONS})


def add_durations(finish: Finish, total: float, start: float) -> Finish:
    """The end of an answer with the durations that the provider did not send; clients divide by them, so none is 0."""
    whole, prompt = max(3, round(total * 1e9)), max(1, round(start * 1e9))
    durations = dict(zip(DURATIONS, (whole, 1, prompt, max(1, whole - prompt)), strict=True))
    return msgspec.structs.replace(finish, extra={**finish.extra, NAME: {**durations, **finish.extra.get(NAME, {})}})


def read_time(text: object) -> int | None:
    """The Unix time of a text such as `2026-11-15T10:00:00.123456789Z`; the epoch itself means unknown."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
    return seconds if seconds > 0 else None


_MAX_TIME = 253402300799


def write_time(seconds: int | None) -> str:
    """The inverse of `read_time`; the SDKs require a time in every line."""
    from datetime import UTC, datetime

    time = datetime.fromtimestamp(min(max(seconds or 0, 0), _MAX_TIME), UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
