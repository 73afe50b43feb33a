"""The published differences between what one side of the gateway sends and what the other side gets.

Each has a name, a reason, and the pairs of client and provider that it applies to. fidelity.py makes a page of them.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    DragomanError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ServerFault,
)
from dragoman.targets.target import Target
from dragoman.types import FinishReason, Image, Message, Part, Request, Response, Text, Thinking, ToolCall, ToolResult
from dragoman.wires.common.history import result_media
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import to_budget, to_effort
from tests.support.gateway.matrix_cases import SIGNED
from tests.support.gateway.matrix_runs import Pair

T = TypeVar("T", Response, Request, DragomanError)

MAX_TOKENS = 4096
"""What the anthropic wire sends if the request has no limit: it is required."""


class Difference(msgspec.Struct, Generic[T], frozen=True):
    """One difference: which pairs it applies to, why, and how it changes a value."""

    name: str
    reason: str
    is_between: Callable[[Pair], bool]
    change: Callable[[T, Pair], T]
    notice: str = ""
    """The `what` of the notice that the client gets; empty if there is none."""
    on_both: bool = False
    """Whether to change the received value, too, because it is different on every run."""


def client(*names: str) -> Callable[[Pair], bool]:
    return lambda pair: pair.client in names


def provider(*names: str) -> Callable[[Pair], bool]:
    return lambda pair: pair.provider in names


def either(*names: str) -> Callable[[Pair], bool]:
    return lambda pair: pair.client in names or pair.provider in names


def anyone(_pair: Pair) -> bool:
    return True


# What a client sees of an answer --------------------------------------------------------------------------------------

_WORDS: dict[str, dict[FinishReason, str]] = {
    "anthropic": {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "blocked": "refusal"},
    "bedrock": {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "blocked": "content_filtered"},
    "google": {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "blocked": "SAFETY", "other": "OTHER"},
    "google_interactions": {
        "stop": "completed",
        "length": "incomplete",
        "tool_calls": "requires_action",
        "blocked": "content_blocked",
        "other": "cancelled",
    },
    "native": {},
    "ollama": {"stop": "stop", "length": "length", "tool_calls": "stop"},
    "openai_chat": {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "blocked": "content_filter"},
    "openai_responses": {
        "stop": "completed",
        "length": "max_output_tokens",
        "tool_calls": "completed",
        "blocked": "content_filter",
        "other": "other",
    },
}


def _word(response: Response, pair: Pair) -> Response:
    reason = response.finish.reason
    theirs, own = _WORDS[pair.provider].get(reason), _WORDS[pair.client].get(reason)
    is_passed_on = pair.client == "native" or (pair.client == "openai_responses" and reason == "other" and theirs)
    return replace(response, finish=replace(response.finish, raw=theirs if is_passed_on else own))


def _as_stop(reason: FinishReason) -> Callable[[Response, Pair], Response]:
    def change(response: Response, _pair: Pair) -> Response:
        is_so = response.finish.reason == reason
        return replace(response, finish=replace(response.finish, reason="stop")) if is_so else response

    return change


def _without(*portions: str) -> Callable[[Response, Pair], Response]:
    return lambda response, _: replace(response, usage=replace(response.usage, **dict.fromkeys(portions)))


def _zeros(response: Response, pair: Pair) -> Response:
    usage = response.usage
    written = None if pair.client in ("google", "google_interactions") else usage.cache_write or 0
    usage = replace(usage, cache_read=usage.cache_read or 0, cache_write=written, reasoning=usage.reasoning or 0)
    return replace(response, usage=usage)


def _default_tier(response: Response, pair: Pair) -> Response:
    name = "standard" if pair.client in ("anthropic", "google", "google_interactions") else "default"
    return replace(response, service_tier=response.service_tier or name)


def _change_message(message: Message, change: Callable[[Part], Part | None]) -> Message:
    return replace(
        message,
        parts=tuple(changed for part in message.parts if (changed := change(part)) is not None),
    )


def _unsigned(part: Part) -> Part:
    return replace(part, extra={}) if isinstance(part, Thinking) else part


def _filled(part: Part) -> Part | None:
    return None if isinstance(part, Text) and not part.text else part


def _plain(part: Part, pair: Pair) -> Part:
    """A part with nothing in its extra but the provider's signature, where that is there."""
    if not isinstance(part, Thinking | ToolCall):
        return part
    signed = SIGNED.get(pair.provider)
    extra = {pair.provider: signed} if signed is not None and part.extra.get(pair.provider) == signed else {}
    return replace(part, extra=extra)


def _numbered(messages: Iterable[Message]) -> tuple[Message, ...]:
    """With the ids of calls in their order."""
    ids: dict[str, str] = {}

    def number(part: Part) -> Part:
        if not isinstance(part, ToolCall | ToolResult):
            return part
        return replace(part, id=ids.setdefault(part.id, f"call_{len(ids) + 1}"))

    return tuple(_change_message(message, number) for message in messages)


ANSWERS: list[Difference[Response]] = [
    Difference(
        "durations",
        "clients of ollama get them from the gateway",
        client("ollama"),
        lambda response, _: replace(response, finish=replace(response.finish, extra={})),
        on_both=True,
    ),
    Difference(
        "response id",
        "ollama and bedrock have none; clients of other dialects get the request id instead",
        either("bedrock", "ollama"),
        lambda response, _: replace(response, id=None),
        on_both=True,
    ),
    Difference(
        "id of a stored response",
        "clients of openai_responses and google_interactions can fetch it later, so the gateway makes its own",
        client("google_interactions", "openai_responses"),
        lambda response, _: replace(response, id=None),
        on_both=True,
    ),
    Difference(
        "creation time",
        "anthropic and bedrock have none; clients of other dialects get the time of the request instead",
        either("anthropic", "bedrock"),
        lambda response, _: replace(response, created=None),
        on_both=True,
    ),
    Difference(
        "name of the model",
        "clients get the name that they asked for; the header `X-Dragoman-Target` names the target",
        anyone,
        lambda response, _: replace(response, model=None),
        on_both=True,
    ),
    Difference(
        "blocked response",
        "ollama has no finish reason for it, so it is `stop`",
        either("ollama"),
        _as_stop("blocked"),
    ),
    Difference(
        "unknown finish reason",
        "the dialect does not know the provider's finish reason, so it is `stop`",
        lambda pair: (
            "anthropic" in pair[:2]
            or "bedrock" in pair[:2]
            or (pair.client == "openai_chat" and pair.provider in ("google", "google_interactions", "openai_responses"))
        ),
        _as_stop("other"),
    ),
    Difference(
        "raw finish reason",
        "each dialect has its own name for it; native passes on the provider's, and openai_responses passes on one that it does not know",
        lambda pair: pair[:2] != ("native", "native"),
        _word,
    ),
    Difference(
        "details of the usage",
        "ollama has only totals",
        either("ollama"),
        _without("cache_read", "cache_write", "reasoning"),
    ),
    Difference(
        "tokens written to a cache",
        "google and google_interactions do not report them",
        lambda pair: either("google", "google_interactions")(pair) and "ollama" not in pair[:2],
        _without("cache_write"),
    ),
    Difference(
        "tokens of thinking",
        "bedrock does not report them",
        lambda pair: pair.provider == "bedrock" and pair.client != "ollama",
        _without("reasoning"),
    ),
    Difference(
        "details of the usage that are unknown",
        "openai_responses requires numbers, so they are 0; ollama has no field for them",
        lambda pair: (
            pair.client == "openai_responses" or (pair.provider == "openai_responses" and pair.client != "ollama")
        ),
        _zeros,
    ),
    Difference(
        "service tier that is unknown",
        "openai_responses requires one, so it is the default tier; native and ollama have no field for it",
        lambda pair: (
            pair.client == "openai_responses"
            or (pair.provider == "openai_responses" and pair.client not in ("native", "ollama"))
        ),
        _default_tier,
    ),
    Difference(
        "tokens of thinking, for clients",
        "bedrock has no field for them",
        lambda pair: pair.client == "bedrock" and pair.provider != "ollama",
        _without("reasoning"),
    ),
    Difference(
        "extra data of parts",
        "what only one wire understands, such as the ids of its items, goes only to clients of the same dialect",
        anyone,
        lambda response, pair: replace(
            response, message=_change_message(response.message, lambda part: _plain(part, pair))
        ),
        on_both=True,
    ),
    Difference(
        "end of an answer with thinking, for clients",
        "an empty text has the tag with the state of the thinking",
        lambda pair: pair.client == "google" != pair.provider,
        lambda response, _: replace(response, message=_change_message(response.message, _filled)),
        on_both=True,
    ),
    Difference(
        "signature of thinking",
        "clients of another dialect get a tag, which the gateway replaces with the signature in the next request",
        lambda pair: pair.provider in SIGNED and pair.client not in (pair.provider, "native"),
        lambda response, _: replace(response, message=_change_message(response.message, _unsigned)),
    ),
    Difference(
        "tool call ids",
        "clients of native get ids that the gateway makes",
        client("native"),
        lambda response, _: replace(response, message=_numbered([response.message])[0]),
        on_both=True,
    ),
    Difference(
        "notices",
        "native has them in the response; clients of other dialects get them in headers, and late ones in the last event of a stream",
        client("native"),
        lambda response, _: replace(response, notices=()),
        on_both=True,
    ),
]


# What a provider gets -------------------------------------------------------------------------------------------------


def _budget(request: Request, _pair: Pair) -> Request:
    return request if request.reasoning is None else replace(request, reasoning=to_budget(request.reasoning))


def _effort(request: Request, pair: Pair) -> Request:
    if request.reasoning is None:
        return request
    target = Target(provider="up", model="m", wire=pair.provider, base_url="http://up.invalid")
    return replace(request, reasoning=to_effort(request.reasoning, target, NoticeCollector(pair.provider)))


def _switch(request: Request, _pair: Pair) -> Request:
    return request if request.reasoning is None else replace(request, reasoning="medium")


def _limit(request: Request, _pair: Pair) -> Request:
    thinking = 0 if request.reasoning is None else to_budget(request.reasoning)
    max_tokens = request.max_tokens
    return replace(request, max_tokens=MAX_TOKENS + thinking if max_tokens is None else max_tokens)


def _change_request(request: Request, change: Callable[[Part], Part | None]) -> Request:
    return replace(request, messages=tuple(_change_message(message, change) for message in request.messages))


_LACKING = {
    "tool_choice": ("ollama",),
    "parallel_tool_calls": ("bedrock", "google", "google_interactions", "native", "ollama"),
    "stop": ("openai_responses",),
    "reasoning": ("bedrock",),
    "seed": ("anthropic", "bedrock", "native", "openai_responses"),
    "top_k": ("bedrock", "google_interactions", "native", "openai_chat", "openai_responses"),
    "user": ("bedrock", "google", "google_interactions", "native", "ollama"),
}
"""Options, and the wires that have no field for them."""
_NO_OPTIONS = Request()


def _dropped(option: str) -> Callable[[Request, Pair], Request]:
    return lambda request, _: replace(request, **{option: getattr(_NO_OPTIONS, option)})


def _images_last(request: Request, _pair: Pair) -> Request:
    """The texts of a message joined, then its images."""
    return replace(request, messages=tuple(map(_with_images_last, request.messages)))


def _with_images_last(message: Message) -> Message:
    images = [part for part in message.parts if isinstance(part, Image)]
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return replace(message, parts=(Text(text="\n".join(texts)), *images)) if images else message


def _images_after(request: Request, _pair: Pair) -> Request:
    """The images of tool results in a user message that follows."""
    messages: list[Message] = []
    for message in request.messages:
        images = result_media(message.tool_results)
        messages.append(_change_message(message, _worded) if images else message)
        messages += [images] if images else []
    return replace(request, messages=tuple(messages))


def _worded(part: Part) -> Part:
    return replace(part, content=part.text) if isinstance(part, ToolResult) else part


REQUESTS: list[Difference[Request]] = [
    Difference(
        "effort as a budget, from clients",
        "the dialect has a number of tokens",
        client("anthropic", "google"),
        _budget,
    ),
    Difference("effort as a switch, from clients", "the dialect has only on and off", client("ollama"), _switch),
    Difference(
        "max_tokens, from clients",
        f"the dialect requires it: by default our client sends {MAX_TOKENS} plus the thinking budget",
        client("anthropic"),
        _limit,
    ),
    *(
        Difference(f"`{option}`, from clients", "the dialect has no field for it", client(*names), _dropped(option))
        for option, names in _LACKING.items()
    ),
    Difference(
        "budget as an effort",
        "the wire has names, so it is the nearest one",
        provider("google_interactions", "openai_chat", "openai_responses"),
        _effort,
        "reasoning",
    ),
    Difference("effort as a budget", "the wire has a number of tokens", provider("anthropic", "google"), _budget),
    Difference("effort as a switch", "the wire has only on and off", provider("ollama"), _switch, "reasoning"),
    Difference(
        "max_tokens",
        f"the wire requires it: by default {MAX_TOKENS} plus the thinking budget",
        provider("anthropic"),
        _limit,
    ),
    *(
        Difference(f"`{option}`", "the wire has no field for it", provider(*names), _dropped(option), option)
        for option, names in _LACKING.items()
    ),
    Difference(
        "images in tool results",
        "a tool result is text, so they follow in a user message",
        either("google", "ollama", "openai_chat"),
        _images_after,
    ),
    Difference("order of text and images", "images are a separate field of a message", either("ollama"), _images_last),
    Difference(
        "extra data of parts",
        "a wire may add its own; signatures are compared",
        anyone,
        lambda request, pair: _change_request(request, lambda part: _plain(part, pair)),
        on_both=True,
    ),
    Difference(
        "fields of one wire",
        "each wire adds what its servers need, such as `store: false` or `stream_options`",
        anyone,
        lambda request, _: replace(request, extra={}),
        on_both=True,
    ),
]


# Errors ---------------------------------------------------------------------------------------------------------------

ERRORS: tuple[DragomanError, ...] = (
    RateLimited("slow down", retry_after=7.0),
    Overloaded("busy"),
    ServerFault("it broke"),
    AuthFailed("no such key"),
    ModelNotFound("it is not here"),
    ContextTooLong("9000 tokens"),
    Blocked("not that"),
    BadRequest("what is that"),
)
"""Errors that a provider may send instead of a response."""


_CODES = {"google_interactions": "invalid_request", "native": "refused_by_provider"}
"""By wire, the code of a request that a provider refuses."""
BEFORE: list[Difference[DragomanError]] = [
    Difference(
        "AuthFailed",
        "the refused key is that of the gateway, not of its client, so it is a ServerFault",
        anyone,
        lambda error, _: ServerFault(error.message) if isinstance(error, AuthFailed) else error,
    ),
    Difference(
        "Blocked",
        "the wire has no code for it, so it is a BadRequest",
        provider("anthropic", "bedrock", "google", "ollama"),
        lambda error, _: BadRequest(error.message) if isinstance(error, Blocked) else error,
    ),
    Difference(
        "BadRequest",
        "OpenAI's dialects pass on the code of the provider; native and google_interactions have one",
        lambda pair: pair.provider in _CODES and pair.client.startswith("openai"),
        lambda error, pair: (
            BadRequest(error.message, code=_CODES[pair.provider]) if isinstance(error, BadRequest) else error
        ),
    ),
]
"""Differences of an error instead of a response."""

INSIDE: list[Difference[DragomanError]] = [
    Difference(
        "Retry-After",
        "it is a header, and an error inside a stream has none; google has a field for it",
        lambda pair: pair.provider != "google",
        lambda error, _: type(error)(error.message, code=error.code),
    ),
    Difference(
        "type of an error",
        "inside a stream there is only a message, and only that of a full context is recognized",
        provider("ollama"),
        lambda error, _: error if isinstance(error, ContextTooLong) else ServerFault(error.message),
    ),
]
"""Further differences of an error inside a stream."""


def with_differences(value: T, differences: Iterable[Difference[T]], pair: Pair) -> T:
    """What the other side is expected to get."""
    for difference in differences:
        if difference.is_between(pair):
            value = difference.change(value, pair)
    return value


def comparable(value: T, differences: Iterable[Difference[T]], pair: Pair) -> T:
    """The received value without what is different on every run."""
    return with_differences(value, [difference for difference in differences if difference.on_both], pair)
