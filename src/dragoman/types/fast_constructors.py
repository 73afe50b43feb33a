"""Makes the values that decoders need in large numbers.

They are checked as in the constructors, except that no parameter can have a wrong name; that takes a third of the time
(see `NamedParameters`).
"""

from typing import Any

from msgspec.structs import replace

from dragoman.types.base import Extra, JsonObject
from dragoman.types.citations import Citation
from dragoman.types.messages import Message, Role
from dragoman.types.parts import Part, Text, TokenLogprob, ToolCall, ToolResult

_TEXT = Text("")
_MESSAGE = Message("user")
_CALL = ToolCall(id="", name="")
_RESULT = ToolResult(id="")
_LOGPROB = TokenLogprob(token="", logprob=0.0)


def new_text(
    text: str,
    extra: Extra | None = None,
    logprobs: tuple[TokenLogprob, ...] = (),
    citations: tuple[Citation, ...] = (),
) -> Text:
    """A text."""
    return replace(_TEXT, text=text, extra={} if extra is None else extra, logprobs=logprobs, citations=citations)


def new_message(role: Role, parts: tuple[Part, ...], extra: Extra | None = None) -> Message:
    """A message."""
    return replace(_MESSAGE, role=role, parts=parts, extra={} if extra is None else extra)


def new_call(id: str, name: str, arguments: JsonObject, raw: str | None = None, extra: Extra | None = None) -> ToolCall:
    """A tool call."""
    return replace(_CALL, id=id, name=name, arguments=arguments, raw=raw, extra={} if extra is None else extra)


def new_result(*, id: str, name: str, content: Any, is_error: bool = False, extra: Extra | None = None) -> ToolResult:
    """The result of a tool call."""
    extra = {} if extra is None else extra
    return replace(_RESULT, id=id, name=name, content=content, is_error=is_error, extra=extra)


def new_logprob(
    token: str,
    logprob: float,
    id: int | None = None,
    bytes: "tuple[int, ...] | None" = None,
    top: tuple[TokenLogprob, ...] = (),
) -> TokenLogprob:
    """A token with its log probability."""
    return replace(_LOGPROB, token=token, logprob=logprob, id=id, bytes=bytes, top=top)
