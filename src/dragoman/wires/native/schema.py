"""The fields of our own protocol, what each may hold, and the tables that both halves share."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ChainExhausted,
    ContextTooLong,
    DragomanError,
    EmptyResponse,
    ModelNotFound,
    OutputError,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    ServerFault,
    TimedOut,
    TransportError,
    Unsupported,
    WireError,
)
from dragoman.types import (
    Audio,
    Document,
    Effort,
    FinishReason,
    Image,
    JsonObject,
    Notice,
    Opaque,
    Part,
    Text,
    Thinking,
    Usage,
    UsageSource,
)

NAME = "native"
PATH = "/native/v1"
TOOL_NAME = "^[a-zA-Z0-9_]{1,64}$"
MAX_STOPS = 4
NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
"""The parameters of a tool that takes nothing."""

Content: TypeAlias = Text | Image | Document | Audio | Thinking | Opaque
"""What stands in the `content` of a message: our own parts, as JSON has them."""
ExtraByWire: TypeAlias = dict[str, JsonObject]

_Word = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(min_length=1, max_length=64)]

BODY: dict[str, Any] = {
    "model": _Word,
    "tier": _Word,
    "messages": Annotated[list[Any], Meta(min_length=1)],
    "temperature": Annotated[float, Meta(ge=0, le=2)],
    "max_tokens": Annotated[int, Meta(ge=1)],
    "top_p": Annotated[float, Meta(ge=0, le=1)],
    "stop": _Word | Annotated[list[_Word], Meta(max_length=MAX_STOPS)],
    "stream": bool,
    "conversation_id": Annotated[str, Meta(min_length=1, max_length=128)],
    "tools": list[Any],
    "tool_choice": Literal["auto", "none", "required"] | JsonObject,
    "schema": JsonObject,
    "schema_name": _Name,
    "reasoning": Effort | Annotated[int, Meta(ge=0)],
}
"""What a request may have, each with what it may hold; null is the same as not told."""
TOOL: dict[str, Any] = {"type": Literal["function"], "function": JsonObject, "extra": ExtraByWire}
FUNCTION: dict[str, Any] = {
    "name": Annotated[str, Meta(pattern=TOOL_NAME)],
    "description": Annotated[str, Meta(pattern=r"\S")],
    "parameters": JsonObject,
    "strict": bool,
}
MESSAGES: dict[str, dict[str, Any]] = {
    "system": {"role": str, "content": str | list[Any], "extra": ExtraByWire},
    "user": {"role": str, "content": str | list[Any], "extra": ExtraByWire},
    "assistant": {"role": str, "content": str | list[Any], "tool_calls": list[Any], "extra": ExtraByWire},
    "tool": {"role": str, "tool_call_id": _Word, "content": Any, "is_error": bool, "extra": ExtraByWire},
}
PARTS: dict[str, tuple[type[Part], ...]] = {
    "system": (Text,),
    "user": (Text, Image, Document, Audio, Opaque),
    "assistant": (Text, Image, Document, Audio, Thinking, Opaque),
}
"""What the content of a role's message is made of."""
REQUIRED: dict[str, tuple[str, ...]] = {
    "system": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role",),
    "tool": ("role", "tool_call_id"),
}
CALL: dict[str, Any] = {"id": _Word, "type": Literal["function"], "function": JsonObject, "extra": ExtraByWire}
CALLED: dict[str, Any] = {"name": _Word, "arguments": JsonObject}


class NativeError(msgspec.Struct, frozen=True):
    """How a class of errors is said: its type and code; what is said in place of words that are not ours."""

    type: str
    code: str
    instead: str | None = None


_UNREACHED = "the provider could not be reached"
_BROKEN = "the provider's answer was broken"

ERRORS: tuple[tuple[type[DragomanError], NativeError], ...] = (
    (Unsupported, NativeError("invalid_request", "unsupported")),
    (RequestError, NativeError("invalid_request", "invalid_request")),
    (AuthFailed, NativeError("authentication", "authentication")),
    (RateLimited, NativeError("rate_limited", "rate_limited")),
    (Overloaded, NativeError("unavailable", "overloaded")),
    (ContextTooLong, NativeError("invalid_request", "context_too_long")),
    (Blocked, NativeError("invalid_request", "blocked")),
    (ModelNotFound, NativeError("not_found", "model_not_found")),
    (BadRequest, NativeError("invalid_request", "refused_by_provider")),
    (ServerFault, NativeError("provider_error", "provider_error")),
    (TimedOut, NativeError("deadline", "deadline", "the provider did not answer in time")),
    (TransportError, NativeError("provider_error", "unreachable", _UNREACHED)),
    (WireError, NativeError("provider_error", "broken_answer", _BROKEN)),
    (EmptyResponse, NativeError("provider_error", "empty_answer")),
    (OutputError, NativeError("provider_error", "wrong_output", "the answer was not of the form that was asked for")),
    (ChainExhausted, NativeError("unavailable", "exhausted", "no target could answer")),
)
"""Each class of errors as it is said, the finer ones first; any other is the gateway's own fault."""
BY_STATUS = {
    403: NativeError("permission", "forbidden"),
    404: NativeError("not_found", "no_route"),
    405: NativeError("invalid_request", "wrong_method"),
    408: NativeError("deadline", "too_slow"),
    413: NativeError("too_large", "too_large"),
    503: NativeError("unavailable", "unavailable", "something that the gateway needs is down"),
}
"""What the gateway itself refuses, by its status."""
INTERNAL = NativeError("internal", "internal")
NO_CREDIT = "no_credit"

KINDS: dict[str, type[ProviderError]] = {
    **{refusal.code: kind for kind, refusal in ERRORS if issubclass(kind, ProviderError)},
    "invalid_request": BadRequest,
    "unsupported": BadRequest,
    "forbidden": AuthFailed,
    "exhausted": Overloaded,
    NO_CREDIT: RateLimited,
}
"""The class of an error that another gateway tells, by its code."""
FACTS: dict[str, dict[str, Any]] = {"unsupported": {"fail_over": True}, NO_CREDIT: {"retry": False}}


class NativeFunction(msgspec.Struct):
    name: str
    arguments: JsonObject = {}


class NativeCall(msgspec.Struct):
    id: str
    function: NativeFunction
    extra: ExtraByWire = {}


class NativeMessage(msgspec.Struct):
    """A `message`, or a `delta`, which tells of one part at a time."""

    content: str | list[Content] | None = None
    thinking: str | None = None
    part: JsonObject | None = None
    index: int = 0
    tool_calls: list[NativeCall] | None = None


class NativeChoice(msgspec.Struct):
    message: NativeMessage | None = None
    delta: NativeMessage | None = None
    finish_reason: FinishReason | None = None
    finish_raw: str | None = None


class NativeUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    source: UsageSource = "unknown"


class NativeChunk(msgspec.Struct):
    """A chunk of a stream, or a whole body."""

    id: str | None = None
    model: str | None = None
    created: int | None = None
    choices: list[NativeChoice] = []
    usage: NativeUsage | None = None
    notices: tuple[Notice, ...] = ()
    error: Any = None


def read_usage(tokens: NativeUsage) -> Usage:
    """What was counted, and by whom."""
    return Usage(
        input=tokens.prompt_tokens,
        output=tokens.completion_tokens,
        cache_read=tokens.cache_read_tokens,
        cache_write=tokens.cache_write_tokens,
        reasoning=tokens.reasoning_tokens,
        source=tokens.source,
    )


def write_usage(usage: Usage) -> JsonObject:
    """The mirror of `read_usage`: always there, and null for what is not known."""
    known = usage.input is not None and usage.output is not None
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": (usage.input or 0) + (usage.output or 0) if known else None,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "source": usage.source,
    }
