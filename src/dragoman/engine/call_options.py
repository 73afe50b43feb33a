"""The options of a call, with their types and what they mean."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from dragoman.engine.call_context import Timeouts
from dragoman.engine.error_policy import ErrorPolicy
from dragoman.engine.failover import ChainOptions, OnInterrupt, WhenAllCoolingDown
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.targets.config import unknown_name
from dragoman.targets.option_hints import option_hint
from dragoman.targets.pools import Affinity, ErrorKind, Order
from dragoman.tools.decorator import ToolLike
from dragoman.types import CachePoint, Effort, HostedTool, JsonObject, Opaque, Request, Text, Verbosity
from dragoman.wires.dicts import SdkValue


class CallOptions(TypedDict, total=False):
    """The options of a call: fields of the Request, how long the call may take, and how its chain behaves."""

    system: str | SdkValue | Iterable[Text | CachePoint | SdkValue] | None
    """The system prompt: text, or a list of `Text` or of text blocks."""
    tools: ToolLike | HostedTool | Opaque | SdkValue | Iterable[ToolLike | HostedTool | Opaque | SdkValue] | None
    """Tools that the model may call: functions, `Tool` values, or definitions as other SDKs have them."""
    tool_choice: str | SdkValue | None
    """`auto`, `none`, `required` (or `any`), or the name of a tool; or the dict of another SDK."""
    parallel_tool_calls: bool | None
    """Whether one answer may have several tool calls."""
    schema: JsonObject | None
    """JSON Schema of the answer; an empty one stands for any JSON."""
    schema_name: str
    """A name for the schema; some providers show it to the model."""
    schema_strict: bool | None
    """Whether the provider must enforce the schema."""
    schema_mode: Literal["native", "auto"]
    """`native` fails if a target has no structured output; `auto` then uses a forced tool call or a prompt."""
    temperature: float | None
    """Randomness of the answer."""
    top_p: float | None
    """Sample from the most likely tokens with this total probability."""
    top_k: int | None
    """Sample from this many most likely tokens."""
    max_tokens: int | None
    """Tokens that the answer may have."""
    stop: str | Iterable[str] | None
    """Texts at which the answer ends."""
    seed: int | None
    """Seed of the sampling."""
    frequency_penalty: float | None
    """How much less likely a token is for each time that it occurred, from -2 to 2."""
    presence_penalty: float | None
    """How much less likely a token is if it occurred, from -2 to 2."""
    logit_bias: Mapping[str, float] | Mapping[int, float] | None
    """By token id: how much more or less likely the token is, from -100 to 100."""
    logprobs: bool | None
    """Whether the answer has the log probabilities of its tokens, in `response.logprobs`."""
    top_logprobs: int | None
    """How many other likely tokens each of them lists, up to 20."""
    n: int | None
    """How many answers, in `response.choices`."""
    service_tier: str | None
    """How fast and at which price the provider serves the request: `auto`, `default`, `flex`, `priority`, …"""
    verbosity: Verbosity | None
    """How long the answer is: `low`, `medium` or `high`."""
    reasoning: Effort | int | None
    """How much the model thinks: an effort, or a budget of tokens."""
    cache: bool | None
    """Whether the provider caches the prompt. A `CachePoint` between parts says up to where."""
    cache_ttl: int | str | None
    """How long the prompt is cached: seconds, or a text such as "5m" or "1h"."""
    raw: bool | None
    """Whether the model continues the prompt as plain text, without the template of a chat."""
    suffix: str | None
    """The text after a gap: the model fills what is between the prompt and it."""
    user: str | None
    """An id of the end user, for the provider."""
    metadata: dict[str, str]
    """Labels that the provider stores with the request."""
    strict: bool
    """Whether a notice about lost meaning is an error."""
    extra: dict[str, Any]
    """By provider or wire name: fields that are merged into the request body as they are."""
    api_key: str | Callable[[], Any] | None
    """The provider's key, or a function, sync or async, that returns it; it is called again before the key expires."""
    headers: Mapping[str, str] | None
    """HTTP headers of the request, in addition to those of the provider and of the model."""
    base_url: str | None
    """The server to call instead of the provider's own."""
    timeout: float | Timeouts | None
    """Seconds for the whole call, or a limit for each stage."""
    retries: int
    """Further tries of one target after a temporary error."""
    max_retry_after_with_fallback: float
    """A longer Retry-After puts the target on cooldown if another target is left."""
    max_retry_after: float
    """A longer Retry-After ends the call if no other target is left."""
    backoff: float
    """Seconds before the first retry at most; doubled for each further retry."""
    backoff_cap: float
    """The longest backoff in seconds."""
    fail_over_on_permanent: bool
    """Whether to try the next target after an error that a retry cannot change, such as 400 or 422."""
    when_all_cooling_down: WhenAllCoolingDown
    """If all targets are on cooldown: `try` them all the same, or `shed` load while they are down, for a gateway."""
    on_interrupt: OnInterrupt
    """If a stream breaks after its first event: `fail`, or `restart` with the next target."""
    classify: Callable[[DragomanError], ErrorPolicy | None] | None
    """Your own policy for an error; None keeps the default."""
    order: Order
    """The order of the targets: `in_order`, `weighted`, `least_busy`, `fastest` or `cheapest` first."""
    costs: Mapping[str, float]
    """Relative cost by target, for `weighted` and `cheapest`."""
    weights: Mapping[str, float]
    """By target: how much more requests it gets than one of weight 1."""
    affinity: Affinity
    """Whether requests of the same `conversation` or with the same `prefix` go to the same target."""
    fallbacks: Mapping[ErrorKind, str]
    """By kind of error: the spec to continue with."""
    fetch_images: bool
    """Whether to fetch image URLs for targets that cannot fetch them."""
    call_deltas: bool
    """Whether a stream also gives the fragments of tool calls, as ToolCallDelta."""


_SET_BY_CALL = frozenset({"messages", "stream"})
"""Fields of a Request that a call sets itself, so that they are not options."""


def check_options(names: Iterable[str], /) -> None:
    """Raise InvalidRequest for a name that is not an option.

    >>> check_options(["temprature"])
    Traceback (most recent call last):
        ...
    dragoman.errors.InvalidRequest: unknown option 'temprature'; did you mean 'temperature'?
    """
    known = {*CallOptions.__annotations__, *ChainOptions.__struct_fields__, *Request.__struct_fields__} - _SET_BY_CALL
    for name in names:
        if name not in known:
            text = option_hint(name) or unknown_name("option", name, known)
            raise InvalidRequest(text, param=name) from None  # without the error that made the caller check
