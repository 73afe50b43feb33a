"""An answer of a model, with its usage, notices and attempts."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, TypeAlias, cast

import msgspec

from dragoman.types.base import Extra
from dragoman.types.checks import check_flag, check_whole_number
from dragoman.types.fields import check_struct
from dragoman.types.messages import Message
from dragoman.types.parts import Text, Thinking, TokenLogprob, ToolCall
from dragoman.types.structs import Value

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "blocked", "pause", "other"]
NoticeKind: TypeAlias = Literal["dropped", "changed", "repaired", "renamed", "info"]
UsageSource: TypeAlias = Literal["reported", "partial", "estimated", "unknown"]


class Notice(Value, frozen=True, kw_only=True):
    """Something in a request or response that was dropped, changed, repaired or renamed, or an information.

    >>> Notice(kind="dropped", what="seed", why="anthropic has no seed").loss
    True
    """

    kind: NoticeKind
    what: str
    why: str

    @property
    def loss(self) -> bool:
        """Whether meaning was lost; with `strict`, such a notice is an error."""
        return self.kind in ("dropped", "changed")


class Finish(Value, frozen=True, kw_only=True):
    """Why the model stopped: the reason in this vocabulary, and the provider's own word."""

    reason: FinishReason
    raw: str | None = None
    extra: Extra = {}
    """More about the end, by wire: the stop sequence, the reason of a refusal, …"""


class Usage(Value, frozen=True, kw_only=True):
    """Tokens: `input` and `output` are totals, the others are portions of them. None means not reported.

    `source` says what the numbers are: `reported` by the provider; `partial`, a part of the truth, because a stream
    broke or some answers of a sum have no numbers; `estimated` by dragoman; `unknown`.

    >>> Usage(input=10, output=3, cache_read=8).total
    13
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    source: UsageSource = "reported"

    @property
    def total(self) -> int | None:
        """Input and output together; None if neither is reported."""
        return None if self.input is None and self.output is None else (self.input or 0) + (self.output or 0)


UNKNOWN_USAGE = Usage(source="unknown")
_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "source")


def add_usage(usages: Iterable[Usage], /) -> Usage:
    """The sum of several usages. It is `partial` if one of them is not complete.

    >>> add_usage([Usage(input=3, output=1), Usage(input=4)]).input
    7
    """
    known = [usage for usage in usages if usage.source != "unknown"]
    if len(known) < 2:
        return known[0] if known else UNKNOWN_USAGE
    numbers = {name: [n for usage in known if (n := getattr(usage, name)) is not None] for name in _COUNTS}
    is_complete = all(usage.source == "reported" for usage in known)
    sums = {name: sum(counts) for name, counts in numbers.items() if counts}
    return Usage(**sums, source="reported" if is_complete else "partial")


class TokenCount(int):
    """A number of tokens: an int that says whether the provider counted it.

    >>> TokenCount(7), TokenCount(7, is_estimate=True).is_estimate
    (7, True)
    """

    is_estimate: bool
    """Whether it is an estimate, because the provider does not count tokens."""

    def __new__(cls, count: int, /, *, is_estimate: bool = False) -> Self:
        check_whole_number("count", count)
        check_flag("is_estimate", is_estimate)
        self = super().__new__(cls, count)
        self.is_estimate = is_estimate
        return self


class Cost(Value, frozen=True, kw_only=True):
    """What an answer costs by a list of prices, and where the list is from."""

    usd: float
    source: str
    date: str
    """The day of the newest price in the list, as YYYY-MM-DD; prices may have changed since."""


def add_costs(costs: Iterable[Cost | None], /) -> Cost | None:
    """The sum of several costs; None if one of them is unknown.

    >>> half = Cost(usd=0.5, source="a", date="2026-11-09")
    >>> add_costs([half, half]).usd, add_costs([half, None])
    (1.0, None)
    """
    known = list(costs)
    total = sum(cost.usd for cost in known if cost is not None)
    last = None if None in known or not known else known[-1]
    return None if last is None else msgspec.structs.replace(last, usd=total)


class Attempt(Value, frozen=True, kw_only=True):
    """One try of one target: how it ended, and what it used."""

    target: str
    outcome: str
    """`served`: the target answered. `failed`: its call ended with `error`. `skipped`: it was not called, because it is
    on cooldown or disabled, another request is trying it, its limits are used up, or the deadline has passed."""
    error: str | None = None
    """Why it failed or was skipped."""
    duration: float | None = None
    """Seconds; None if it was skipped."""
    usage: Usage = UNKNOWN_USAGE


class Choice(Value, frozen=True, kw_only=True):
    """One of several answers to a request with `n`."""

    message: Message
    finish: Finish

    @property
    def text(self) -> str:
        return self.message.text


class Response(Value, frozen=True, kw_only=True):
    """An answer with its usage, its notices (what was dropped or changed) and its attempts (which targets were tried).

    >>> from dragoman import assistant
    >>> Response(message=assistant("hello"), finish=Finish(reason="stop")).text
    'hello'
    """

    message: Message
    finish: Finish
    usage: Usage = UNKNOWN_USAGE
    id: str | None = None
    model: str | None = None
    created: int | None = None
    target: str | None = None
    notices: tuple[Notice, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    raw: bytes | None = None
    request_id: str | None = None
    """The provider's id of the HTTP request, which its support asks for."""
    rate_limits: Mapping[str, str] = {}
    """The provider's headers about rate limits, by their lower-case names."""
    cost: Cost | None = None
    """What this answer costs, without failed attempts; None if the price or the usage is unknown."""
    service_tier: str | None = None
    """The tier that the provider used, in its own word."""
    other_choices: tuple[Choice, ...] = ()
    """The answers after the first, to a request with `n`."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All answers: the first is this response's own message."""
        return (Choice(message=self.message, finish=self.finish), *self.other_choices)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """The tokens of the text with their log probabilities, for a request with `logprobs=True`."""
        return tuple(token for part in self.message.parts if isinstance(part, Text) for token in part.logprobs)

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def thinking(self) -> str:
        return self.message.thinking

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls

    @property
    def is_empty(self) -> bool:
        """Whether there is only white space or thinking."""
        for part in self.message.parts:
            if part.text.strip() if isinstance(part, Text) else not isinstance(part, Thinking):
                return False
        return True


class ModelInfo(Value, frozen=True, kw_only=True):
    """A model that a provider lists."""

    id: str
    name: str | None = None
    created: int | None = None
    context_window: int | None = None
    max_output: int | None = None


class Embeddings(Value, frozen=True, kw_only=True):
    """The vectors of some texts, in the order of the texts."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = UNKNOWN_USAGE
    target: str | None = None
    notices: tuple[Notice, ...] = ()
    """What of the request the target has no field for."""

    def __post_init__(self) -> None:
        # There may be a million numbers, so the usual case is tested by functions of Python itself.
        is_usual = type(self.vectors) is tuple and all(map(_is_vector, self.vectors))
        check_struct(self, without="vectors" if is_usual else None)


class RankedDocument(Value, frozen=True, kw_only=True):
    """One document of a ranking: its place in the list of documents, and how relevant it is for the query."""

    index: int
    score: float


class Ranking(Value, frozen=True, kw_only=True):
    """Documents in the order of their relevance for a query, the best first."""

    documents: tuple[RankedDocument, ...]
    usage: Usage = UNKNOWN_USAGE
    target: str | None = None


def _is_vector(value: Any) -> bool:
    if type(value) is not tuple:
        return False
    vector = cast("tuple[float, ...]", value)
    return _NUMBERS.issuperset(map(type, vector))


_NUMBERS = frozenset({int, float})
