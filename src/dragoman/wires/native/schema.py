"""The fields of the native protocol, the type of each, and tables for the client and the server."""

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
    RequestTooLarge,
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
    HostedCall,
    HostedResult,
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
from dragoman.types.caching import MAX_TTL

NAME = "native"
PATH = "/native/v1"
TOOL_NAME = r"^[a-zA-Z0-9_]{1,64}$(?!\n)"
MAX_STOPS = 4

Content: TypeAlias = Text | Image | Document | Audio | Thinking | HostedCall | HostedResult | Opaque
"""A part in the `content` of a message."""
ExtraByWire: TypeAlias = dict[str, JsonObject]

_Text = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(min_length=1, max_length=64)]

REQUEST_FIELDS: dict[str, Any] = {
    "model": _Text,
    "tier": _Text,
    "messages": Annotated[list[Any], Meta(min_length=1)],
    "temperature": Annotated[float, Meta(ge=0, le=2)],
    "max_tokens": Annotated[int, Meta(ge=1)],
    "top_p": Annotated[float, Meta(ge=0, le=1)],
    "stop": _Text | Annotated[list[_Text], Meta(max_length=MAX_STOPS)],
    "stream": bool,
    "conversation_id": Annotated[str, Meta(min_length=1, max_length=128)],
    "tools": list[Any],
    "tool_choice": Literal["auto", "none", "required"] | JsonObject,
    "schema": JsonObject,
    "schema_name": _Name,
    "reasoning": Effort | Annotated[int, Meta(ge=0)],
    "cache": bool,
    "cache_ttl": Annotated[int, Meta(ge=1, le=MAX_TTL)],
}
"""The fields of a request with their types; null means the same as leaving a field out."""
TOOL_FIELDS: dict[str, Any] = {"type": Literal["function"], "function": JsonObject, "extra": ExtraByWire}
FUNCTION_FIELDS: dict[str, Any] = {
    "name": Annotated[str, Meta(pattern=TOOL_NAME)],
    "description": Annotated[str, Meta(pattern=r"\S")],
    "parameters": JsonObject,
    "strict": bool,
}
MESSAGE_FIELDS: dict[str, dict[str, Any]] = {
    "system": {"role": str, "content": str | list[Any], "extra": ExtraByWire},
    "developer": {"role": str, "content": str | list[Any], "extra": ExtraByWire},
    "user": {"role": str, "content": str | list[Any], "extra": ExtraByWire},
    "assistant": {"role": str, "content": str | list[Any], "tool_calls": list[Any], "extra": ExtraByWire},
    "tool": {"role": str, "tool_call_id": _Text, "content": Any, "is_error": bool, "extra": ExtraByWire},
}
CONTENT_PARTS: dict[str, tuple[type[Part], ...]] = {
    "system": (Text,),
    "developer": (Text,),
    "user": (Text, Image, Document, Audio, Opaque),
    "assistant": (Text, Image, Document, Audio, Thinking, HostedCall, HostedResult, Opaque),
}
"""The types of parts in the content of a message, by role."""
REQUIRED_FIELDS: dict[str, tuple[str, ...]] = {
    "system": ("role", "content"),
    "developer": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role",),
    "tool": ("role", "tool_call_id"),
}
CALL_FIELDS: dict[str, Any] = {
    "index": Annotated[int, Meta(ge=0)],  # a stream has it, and clients send calls back as they came
    "id": _Text,
    "type": Literal["function"],
    "function": JsonObject,
    "extra": ExtraByWire,
}
CALLED_FIELDS: dict[str, Any] = {"name": _Text, "arguments": JsonObject}


class NativeErrorCode(msgspec.Struct, frozen=True):
    """The type and code of a class of errors, and a message if the original one could contain a provider's data."""

    type: str
    code: str
    message: str | None = None


_UNREACHED = "the provider could not be reached"
_BROKEN = "the answer of the provider was not valid"

ERRORS: tuple[tuple[type[DragomanError], NativeErrorCode], ...] = (
    (Unsupported, NativeErrorCode("invalid_request", "unsupported")),
    (RequestError, NativeErrorCode("invalid_request", "invalid_request")),
    (AuthFailed, NativeErrorCode("authentication", "authentication")),
    (RateLimited, NativeErrorCode("rate_limited", "rate_limited")),
    (Overloaded, NativeErrorCode("unavailable", "overloaded")),
    (ContextTooLong, NativeErrorCode("invalid_request", "context_too_long")),
    (Blocked, NativeErrorCode("invalid_request", "blocked")),
    (ModelNotFound, NativeErrorCode("not_found", "model_not_found")),
    (RequestTooLarge, NativeErrorCode("too_large", "too_large")),
    (BadRequest, NativeErrorCode("invalid_request", "refused_by_provider")),
    (ServerFault, NativeErrorCode("provider_error", "provider_error")),
    (TimedOut, NativeErrorCode("deadline", "deadline", "the provider did not answer in time")),
    (TransportError, NativeErrorCode("provider_error", "unreachable", _UNREACHED)),
    (WireError, NativeErrorCode("provider_error", "broken_answer", _BROKEN)),
    (EmptyResponse, NativeErrorCode("provider_error", "empty_answer")),
    (OutputError, NativeErrorCode("provider_error", "wrong_output", "the answer does not have the requested form")),
    (ChainExhausted, NativeErrorCode("unavailable", "exhausted", "no target could answer")),
)
"""The code of each class of errors, subclasses first; any other error is internal."""
ERRORS_BY_STATUS = {
    403: NativeErrorCode("permission", "forbidden"),
    404: NativeErrorCode("not_found", "no_route"),
    405: NativeErrorCode("invalid_request", "wrong_method"),
    408: NativeErrorCode("deadline", "too_slow"),
    413: NativeErrorCode("too_large", "too_large"),
    503: NativeErrorCode("unavailable", "unavailable", "a service that the gateway needs is down"),
}
"""The codes of errors that the gateway itself raises, by status."""
INTERNAL = NativeErrorCode("internal", "internal")
NO_CREDIT = "no_credit"

ERROR_CLASSES: dict[str, type[ProviderError]] = {
    **{entry.code: kind for kind, entry in ERRORS if issubclass(kind, ProviderError)},
    "invalid_request": BadRequest,
    "unsupported": BadRequest,
    "forbidden": AuthFailed,
    "exhausted": Overloaded,
    NO_CREDIT: RateLimited,
}
"""The class of an error from another gateway, by its code."""
ERROR_FACTS: dict[str, dict[str, Any]] = {"unsupported": {"fail_over": True}, NO_CREDIT: {"retry": False}}


class NativeFunction(msgspec.Struct):
    name: str
    arguments: JsonObject = {}


class NativeCall(msgspec.Struct):
    id: str
    function: NativeFunction
    extra: ExtraByWire = {}


class NativeMessage(msgspec.Struct):
    """A `message`, or a `delta`, which has one part at a time."""

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
    """The usage of an answer."""
    return Usage(
        input=tokens.prompt_tokens,
        output=tokens.completion_tokens,
        cache_read=tokens.cache_read_tokens,
        cache_write=tokens.cache_write_tokens,
        reasoning=tokens.reasoning_tokens,
        source=tokens.source,
    )


def write_usage(usage: Usage) -> JsonObject:
    """The inverse of `read_usage`; unknown counts are null."""
    has_total = usage.input is not None and usage.output is not None
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": (usage.input or 0) + (usage.output or 0) if has_total else None,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "source": usage.source,
    }
