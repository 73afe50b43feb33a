"""What was said in, what the other side is expected to hear out: the differences that a dialect or a wire makes.

Each difference has a name, those between whom it is there, and its reason. The page is made from these: fidelity.py.
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
from tests.support.gateway.encounters import Pair
from tests.support.gateway.scenes import SIGNED

T = TypeVar("T", Response, Request, DragomanError)

MAX_TOKENS = 4096
"""What the anthropic wire says where nobody did: it must say something."""


class Difference(msgspec.Struct, Generic[T], frozen=True):
    """One difference: between whom it is there, why, and what becomes of what was said."""

    name: str
    reason: str
    is_between: Callable[[Pair], bool]
    bend: Callable[[T, Pair], T]
    notice: str = ""
    """What the notice names by which the client is told, where it is."""
    on_both: bool = False
    """Whether what was heard is bent, too: that which no test can foretell."""


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
    "google": {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "blocked": "SAFETY", "other": "OTHER"},
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
    def bend(response: Response, _pair: Pair) -> Response:
        is_so = response.finish.reason == reason
        return replace(response, finish=replace(response.finish, reason="stop")) if is_so else response

    return bend


def _without(*portions: str) -> Callable[[Response, Pair], Response]:
    return lambda response, _: replace(response, usage=replace(response.usage, **dict.fromkeys(portions)))


def _zeros(response: Response, _pair: Pair) -> Response:
    usage = response.usage
    usage = replace(usage, cache_read=usage.cache_read or 0, reasoning=usage.reasoning or 0)
    return replace(response, usage=usage)


def _bent_message(message: Message, bend: Callable[[Part], Part | None]) -> Message:
    return replace(message, parts=tuple(bent for part in message.parts if (bent := bend(part)) is not None))


def _unsigned(part: Part) -> Part:
    return replace(part, extra={}) if isinstance(part, Thinking) else part


def _plain(part: Part, pair: Pair) -> Part:
    """A part with nothing in its extra but the provider's signature, where that is there."""
    if not isinstance(part, Thinking | ToolCall):
        return part
    signed = SIGNED.get(pair.provider)
    kept = {pair.provider: signed} if signed is not None and part.extra.get(pair.provider) == signed else {}
    return replace(part, extra=kept)


def _numbered(messages: Iterable[Message]) -> tuple[Message, ...]:
    """With the ids of calls in their order."""
    ids: dict[str, str] = {}

    def number(part: Part) -> Part:
        if not isinstance(part, ToolCall | ToolResult):
            return part
        return replace(part, id=ids.setdefault(part.id, f"call_{len(ids) + 1}"))

    return tuple(_bent_message(message, number) for message in messages)


ANSWERS: list[Difference[Response]] = [
    Difference(
        "id of the answer",
        "ollama has none: its clients see none, and other clients of its models see the id of the request",
        either("ollama"),
        lambda response, _: replace(response, id=None),
        on_both=True,
    ),
    Difference(
        "id of a kept answer",
        "clients of openai_responses may ask for it again, so that it is one of the gateway's making",
        client("openai_responses"),
        lambda response, _: replace(response, id=None),
        on_both=True,
    ),
    Difference(
        "time of the answer",
        "anthropic tells none: its clients see none, and other clients of its models see when the gateway was asked",
        either("anthropic"),
        lambda response, _: replace(response, created=None),
        on_both=True,
    ),
    Difference(
        "blocked answer",
        "ollama has no word for it, so that the answer has ended",
        either("ollama"),
        _as_stop("blocked"),
    ),
    Difference(
        "unknown end",
        "the dialect does not know the provider's word, so that the answer has ended; anthropic always tells one",
        lambda pair: (
            "anthropic" in pair[:2]
            or (pair.client == "openai_chat" and pair.provider in ("google", "openai_responses"))
        ),
        _as_stop("other"),
    ),
    Difference(
        "word for the end",
        "each dialect has its own word for the same reason; native tells the provider's, and openai_responses one that it does not know",
        lambda pair: pair[:2] != ("native", "native"),
        _word,
    ),
    Difference(
        "portions of the usage",
        "ollama tells the totals only",
        either("ollama"),
        _without("cache_read", "cache_write", "reasoning"),
    ),
    Difference(
        "tokens written to a cache",
        "google does not tell them",
        lambda pair: "google" in pair[:2] and "ollama" not in pair[:2],
        _without("cache_write"),
    ),
    Difference(
        "portions that were not told",
        "in openai_responses there are always numbers, so that they are 0; ollama has no place for them",
        lambda pair: (
            pair.client == "openai_responses" or (pair.provider == "openai_responses" and pair.client != "ollama")
        ),
        _zeros,
    ),
    Difference(
        "form of the parts",
        "what only one wire understands, such as the ids of its items, is seen by its own clients alone",
        anyone,
        lambda response, pair: replace(
            response, message=_bent_message(response.message, lambda part: _plain(part, pair))
        ),
        on_both=True,
    ),
    Difference(
        "signature of thinking",
        "only clients of the provider's own dialect, and of native, have a place for it",
        lambda pair: pair.provider in SIGNED and pair.client not in (pair.provider, "native"),
        lambda response, _: replace(response, message=_bent_message(response.message, _unsigned)),
    ),
    Difference(
        "ids of calls",
        "clients of native see ids of the gateway's making",
        client("native"),
        lambda response, _: replace(response, message=_numbered([response.message])[0]),
        on_both=True,
    ),
    Difference(
        "notices",
        "native has a place for them in the answer; other clients find them in its headers",
        client("native"),
        lambda response, _: replace(response, notices=()),
        on_both=True,
    ),
]


# What a provider is asked ---------------------------------------------------------------------------------------------


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
    told = request.max_tokens
    return replace(request, max_tokens=MAX_TOKENS + thinking if told is None else told)


def _bent_request(request: Request, bend: Callable[[Part], Part | None]) -> Request:
    return replace(request, messages=tuple(_bent_message(message, bend) for message in request.messages))


_LACKING = {
    "tool_choice": ("ollama",),
    "parallel_tool_calls": ("google", "native", "ollama"),
    "stop": ("openai_responses",),
    "seed": ("anthropic", "native", "openai_responses"),
    "top_k": ("native", "openai_chat", "openai_responses"),
    "user": ("google", "native", "ollama"),
}
"""Options, and who has no place for them."""
_UNTOLD = Request()


def _dropped(option: str) -> Callable[[Request, Pair], Request]:
    return lambda request, _: replace(request, **{option: getattr(_UNTOLD, option)})


def _images_last(request: Request, _pair: Pair) -> Request:
    """The texts of a message as one, and then its images."""
    return replace(request, messages=tuple(map(_with_images_last, request.messages)))


def _with_images_last(message: Message) -> Message:
    images = [part for part in message.parts if isinstance(part, Image)]
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return replace(message, parts=(Text(text="\n".join(texts)), *images)) if images else message


def _images_after(request: Request, _pair: Pair) -> Request:
    """The images of results in a turn of the user that follows."""
    messages: list[Message] = []
    for message in request.messages:
        images = result_media(message.tool_results)
        messages.append(_bent_message(message, _worded) if images else message)
        messages += [images] if images else []
    return replace(request, messages=tuple(messages))


def _worded(part: Part) -> Part:
    return replace(part, content=part.text) if isinstance(part, ToolResult) else part


def _differ(pair: Pair) -> bool:
    """Whether neither speaks the dialect of the other; native takes along what is anyone's."""
    return pair.client != pair.provider and "native" not in pair[:2]


def _forgotten(request: Request, _pair: Pair) -> Request:
    return _bent_request(request, lambda part: None if isinstance(part, Thinking) else part)


def _in_a_loop(request: Request, _pair: Pair) -> Request:
    *_, last = request.messages
    return replace(request, reasoning=None) if last.role == "tool" else request


REQUESTS: list[Difference[Request]] = [
    Difference(
        "effort as a budget, of clients",
        "the dialect takes tokens, not words",
        client("anthropic", "google"),
        _budget,
    ),
    Difference("effort as a switch, of clients", "the dialect says whether to think", client("ollama"), _switch),
    Difference(
        "limit of tokens, of clients",
        f"the dialect demands one: our own client says {MAX_TOKENS}, and the budget of thinking, where none was told",
        client("anthropic"),
        _limit,
    ),
    *(
        Difference(f"`{option}`, of clients", "the dialect has no place for it", client(*names), _dropped(option))
        for option, names in _LACKING.items()
    ),
    Difference(
        "earlier thinking, of clients",
        "a server takes back only what it signed itself, so that our own client sends nothing else",
        lambda pair: pair.client == "openai_responses" != pair.provider,
        _forgotten,
    ),
    Difference(
        "earlier thinking",
        "it goes back only to the wire that it came from: without its signature others refuse it, or take it for text",
        lambda pair: pair.client != "openai_responses" and _differ(pair),
        _forgotten,
        "thinking",
    ),
    Difference(
        "thinking in a loop of tools",
        "it cannot begin there, and what was thought before the call was forgotten",
        lambda pair: pair.provider == "anthropic" and _differ(pair),
        _in_a_loop,
        "reasoning",
    ),
    Difference(
        "budget as an effort",
        "the wire takes the nearest word",
        provider("openai_chat", "openai_responses"),
        _effort,
        "reasoning",
    ),
    Difference("effort as a budget", "the wire takes tokens, not words", provider("anthropic", "google"), _budget),
    Difference("effort as a switch", "the wire says whether to think", provider("ollama"), _switch, "reasoning"),
    Difference(
        "limit of tokens",
        f"the wire demands one: where none was told, {MAX_TOKENS}, and the budget of thinking",
        provider("anthropic"),
        _limit,
    ),
    *(
        Difference(f"`{option}`", "the wire has no place for it", provider(*names), _dropped(option), option)
        for option, names in _LACKING.items()
    ),
    Difference(
        "images in results",
        "a result is text: they follow in a turn of the user",
        either("google", "ollama", "openai_chat"),
        _images_after,
    ),
    Difference("place of images", "they stand beside the text of a message, not in it", either("ollama"), _images_last),
    Difference(
        "form of the parts",
        "a wire may note its own form of a part; a signature is compared",
        anyone,
        lambda request, pair: _bent_request(request, lambda part: _plain(part, pair)),
        on_both=True,
    ),
    Difference(
        "ids of calls",
        "a header tells a native client the provider's ids, and the head of a stream is sent before its calls are known",
        lambda pair: pair.client == "native" and pair.stream,
        lambda request, _: replace(request, messages=_numbered(request.messages)),
        on_both=True,
    ),
    Difference(
        "fields of one wire",
        "each wire adds what its own servers want, such as `store: false` or `stream_options`",
        anyone,
        lambda request, _: replace(request, extra={}),
        on_both=True,
    ),
]


# How a failure looks --------------------------------------------------------------------------------------------------

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
"""What a provider may say in place of an answer."""


BEFORE: list[Difference[DragomanError]] = [
    Difference(
        "Blocked",
        "the wire has no word for it, so that it is a bad request",
        provider("anthropic", "google", "ollama"),
        lambda error, _: BadRequest(error.message) if isinstance(error, Blocked) else error,
    ),
    Difference(
        "BadRequest",
        "clients of OpenAI's see the code of the provider, and native has one",
        lambda pair: pair.provider == "native" and pair.client.startswith("openai"),
        lambda error, _: (
            BadRequest(error.message, code="refused_by_provider") if isinstance(error, BadRequest) else error
        ),
    ),
]
"""Differences of an error in place of an answer."""

INSIDE: list[Difference[DragomanError]] = [
    Difference(
        "when to come again",
        "it is told by a header, and an error inside an answer has none; google has a field for it",
        lambda pair: pair.provider != "google",
        lambda error, _: type(error)(error.message, code=error.code),
    ),
    Difference(
        "kind of an error",
        "in place of a status there are only words, and only those of a full context are known",
        provider("ollama"),
        lambda error, _: error if isinstance(error, ContextTooLong) else ServerFault(error.message),
    ),
]
"""Differences of an error inside an answer, beside those."""


def bent(said: T, differences: Iterable[Difference[T]], pair: Pair) -> T:
    """What was said, as the other side is expected to hear it."""
    for difference in differences:
        if difference.is_between(pair):
            said = difference.bend(said, pair)
    return said


def levelled(heard: T, differences: Iterable[Difference[T]], pair: Pair) -> T:
    """What was heard, without what no test can foretell."""
    return bent(heard, [difference for difference in differences if difference.on_both], pair)
