"""The fields of Ollama's chat that we read, and the tables that both halves share."""

from typing import Any

import msgspec

from dragoman.schema.adapt import SchemaDialect
from dragoman.types import Effort, FinishReason, JsonObject, Usage
from dragoman.wires.common.json import without_none

NAME = "ollama"
TOO_LONG = "the input exceeds the context length"
"""The words by which clients of this dialect know that the context is full."""

FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length", "load": "stop", "unload": "stop"}
FINISH_WORD: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "blocked": "stop",
    "pause": "stop",
}
"""What is not here has no word, and stands without one."""

THINK: dict[bool | str, Effort] = {
    True: "medium",
    False: "none",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "max",
}

NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
"""The schema of a tool that takes nothing: templates and llama-server want one (2026-08)."""

JSON_WANTED = "Your whole answer must be JSON, with no text around it."
SCHEMA_WANTED = "Your whole answer must be JSON that satisfies this JSON Schema, with no text around it: "
"""What stands at the end of the system prompt, since the model is not shown `format`, and the cloud ignores it."""

TOOL_DIALECT = SchemaDialect(
    name=NAME,
    # The server reads these into structs of its own and drops the others silently, seen 2026-08. It drops
    # additionalProperties too, which is kept here: nothing in a tool's schema is enforced, so it does no harm.
    keywords=frozenset("type anyOf items description enum properties required additionalProperties".split()),
    root_keywords=frozenset("type items properties required additionalProperties".split()),
    recursion=False,
    describe_dropped=True,
)
FORMAT_DIALECT = SchemaDialect(
    name=NAME,
    # What llama.cpp makes a grammar of, seen 2026-08, and words that it may skip without harm.
    keywords=frozenset(
        "type enum const anyOf oneOf allOf $ref $defs definitions properties required additionalProperties items "
        "prefixItems minItems maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
        "exclusiveMaximum $schema $id $anchor $comment title description default examples example deprecated "
        "readOnly writeOnly discriminator propertyOrdering".split()
    ),
    simple_patterns=True,
    anchored_patterns=True,
)


class Said(msgspec.Struct):
    """The `message` of a line."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[JsonObject] | None = None
    images: list[str] | None = None


class Line(msgspec.Struct):
    """A line of a stream, or a whole body: the last line says `done`."""

    model: str | None = None
    created_at: Any = None
    message: Said | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[Any] | None = None
    error: Any = None


class ChatRequest(msgspec.Struct):
    """What a client asks."""

    model: str = ""
    messages: list[JsonObject] | None = None
    tools: list[JsonObject] | None = None
    stream: bool | None = None
    format: str | JsonObject | None = None
    think: bool | str | None = None
    options: JsonObject | None = None


class OptionsShape(msgspec.Struct):
    """What we know of `options`."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    num_predict: int | None = None
    stop: str | list[str] | None = None


class GenerateRequest(msgspec.Struct):
    """What a client asks for in one turn; the rest is as in a chat."""

    prompt: str = ""
    system: str | None = None
    images: list[str] | None = None


class ShowRequest(msgspec.Struct):
    """Of which model a client wants to know more."""

    model: str = ""
    name: str = ""


class EmbedRequest(msgspec.Struct):
    """What a client wants vectors of."""

    model: str = ""
    input: str | list[str] = ""
    dimensions: int | None = None


class MessageShape(msgspec.Struct):
    """One message that a client sent."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[JsonObject] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class ToolFunction(msgspec.Struct):
    """The function of a tool that a client sent."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None


def read_usage(line: Line) -> Usage | None:
    """The counts of a line; None where it has none."""
    if line.prompt_eval_count is None and line.eval_count is None:
        return None
    return Usage(input=line.prompt_eval_count, output=line.eval_count)


def write_usage(usage: Usage) -> JsonObject:
    """The mirror of `read_usage`."""
    return without_none({"prompt_eval_count": usage.input, "eval_count": usage.output})


def read_moment(text: object) -> int | None:
    """Seconds of a time such as `2026-11-15T10:00:00.123456789Z`; the epoch itself means not told."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return seconds if seconds > 0 else None


_LAST_MOMENT = 253402300799


def write_moment(seconds: int | None) -> str:
    """The mirror of `read_moment`: SDKs want a time in every line."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(min(max(seconds or 0, 0), _LAST_MOMENT), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
