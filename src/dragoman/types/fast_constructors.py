"""Makes the values that decoders need in large numbers.

They are checked as in the constructors, except that no parameter can have a wrong name; that takes a third of the time
(see `NamedParameters`). A response and its parts are not even checked: a decoder has read them, and to check them field
by field takes as long as the rest of a plain call. Each field is set by a line of its own, because a loop over the
fields, as in `unchecked`, takes twice as long.
"""

from typing import Any

from msgspec.structs import force_setattr, replace

from dragoman.types.base import Extra, JsonObject
from dragoman.types.citations import Citation
from dragoman.types.messages import Message, Role
from dragoman.types.parts import Part, Text, TokenLogprob, ToolCall, ToolResult
from dragoman.types.requests import Request
from dragoman.types.responses import Attempt, Cost, Finish, FinishReason, Notice, Response, Usage

_TEXT = Text("")
_MESSAGE = Message("user")
_CALL = ToolCall(id="", name="")
_RESULT = ToolResult(id="")
_LOGPROB = TokenLogprob(token="", logprob=0.0)
_PLAIN_TEXT: Any = _TEXT
_PLAIN_MESSAGE: Any = _MESSAGE
_REQUEST: Any = Request()
_USAGE: Any = Usage()
_MOST_TOKENS = 2**64 - 1
_FINISH: Any = Finish(reason="stop")
_RESPONSE: Any = Response(message=Message(role="assistant"), finish=Finish(reason="stop"))
_COST: Any = Cost(usd=0.0, source="", date="")
_SERVED: Any = Attempt(target="", outcome="served")


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


def text_message(role: Role, text: str) -> Message:
    """A message of one text that a JSON decoder has read: it is a str that UTF-8 can write, so nothing is checked."""
    part: Any = _PLAIN_TEXT.__copy__()
    force_setattr(part, "text", text)
    force_setattr(part, "extra", {})
    message: Message = _PLAIN_MESSAGE.__copy__()
    force_setattr(message, "role", role)
    force_setattr(message, "parts", (part,))
    force_setattr(message, "extra", {})
    return message


def text_request(
    messages: tuple[Message, ...],
    system: str | tuple[Text, ...] | None,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    *,
    stream: bool,
) -> Request:
    """A request with few options, all of which were checked."""
    request: Request = _REQUEST.__copy__()
    force_setattr(request, "messages", messages)
    force_setattr(request, "system", system)
    force_setattr(request, "temperature", temperature)
    force_setattr(request, "top_p", top_p)
    force_setattr(request, "max_tokens", max_tokens)
    force_setattr(request, "stream", stream)
    force_setattr(request, "metadata", {})
    force_setattr(request, "extra", {})
    return request


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


def new_usage(
    input: int | None,
    output: int | None,
    cache_read: int | None = None,
    cache_write: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    """The usage that a provider reported; `Usage` refuses numbers of more than 64 bits."""
    # The number of all bits is negative if a count is; else it has more than 64 bits if a count has more.
    bits = (input or 0) | (output or 0) | (cache_read or 0) | (cache_write or 0) | (reasoning or 0)
    if not 0 <= bits <= _MOST_TOKENS:
        return Usage(input=input, output=output, cache_read=cache_read, cache_write=cache_write, reasoning=reasoning)
    usage: Usage = _USAGE.__copy__()
    force_setattr(usage, "input", input)
    force_setattr(usage, "output", output)
    force_setattr(usage, "cache_read", cache_read)
    force_setattr(usage, "cache_write", cache_write)
    force_setattr(usage, "reasoning", reasoning)
    return usage


def new_finish(reason: FinishReason, raw: str, extra: Extra) -> Finish:
    """How an answer ended."""
    finish: Finish = _FINISH.__copy__()
    force_setattr(finish, "reason", reason)
    force_setattr(finish, "raw", raw)
    force_setattr(finish, "extra", extra)
    return finish


def new_response(
    message: Message,
    finish: Finish,
    usage: Usage,
    *,
    id: str | None,
    model: str | None,
    created: int | None,
    service_tier: str | None,
) -> Response:
    """What a provider answered; `complete_response` adds the rest."""
    response: Response = _RESPONSE.__copy__()
    force_setattr(response, "message", message)
    force_setattr(response, "finish", finish)
    force_setattr(response, "usage", usage)
    force_setattr(response, "id", id)
    force_setattr(response, "model", model)
    force_setattr(response, "created", created)
    force_setattr(response, "service_tier", service_tier)
    force_setattr(response, "rate_limits", {})
    return response


def complete_response(
    response: Response,
    target: str,
    notices: tuple[Notice, ...],
    request_id: str | None,
    rate_limits: dict[str, str],
    cost: Cost | None,
    attempts: tuple[Attempt, ...] = (),
) -> Response:
    """A copy of a decoded response with what is known besides its body."""
    source: Any = response
    completed: Response = source.__copy__()
    force_setattr(completed, "target", target)
    force_setattr(completed, "notices", notices)
    force_setattr(completed, "request_id", request_id)
    force_setattr(completed, "rate_limits", rate_limits)
    force_setattr(completed, "cost", cost)
    force_setattr(completed, "attempts", attempts)
    return completed


def new_cost(dollars: float, source: str, date: str) -> Cost:
    """What an answer cost."""
    cost: Cost = _COST.__copy__()
    force_setattr(cost, "usd", dollars)
    force_setattr(cost, "source", source)
    force_setattr(cost, "date", date)
    return cost


def served_attempt(target: str, duration: float, usage: Usage) -> Attempt:
    """An attempt that was answered."""
    attempt: Attempt = _SERVED.__copy__()
    force_setattr(attempt, "target", target)
    force_setattr(attempt, "duration", duration)
    force_setattr(attempt, "usage", usage)
    return attempt
