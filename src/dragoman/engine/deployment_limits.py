"""A plan whose requests count in the limits of a deployment: embeddings, rankings, token counts, paths passed through.

A chain counts its own requests, because it can choose another target. Here, a request waits if there will be room soon.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from dragoman.engine import endpoints
from dragoman.engine.effects import Effect, Emit, Now, Open, Plan, Read, Send
from dragoman.engine.failover import ChainOptions
from dragoman.engine.target_load import SLOT_CHECK, Loads, Slot, wait_for_next_check
from dragoman.errors import DragomanError, RateLimited
from dragoman.http import Head, HttpRequest
from dragoman.targets.estimates import total_tokens
from dragoman.targets.target import Target
from dragoman.types import Embeddings, JsonObject, Ranking, Request, TokenCount
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.endpoints import Embeddable

T = TypeVar("T")
CHARACTERS_PER_TOKEN = 4
_CONTINUES = (Read, Emit, Now)
"""Effects while an answer is being read."""


def body_tokens(http: HttpRequest, /) -> int:
    """About how many tokens a JSON body has.

    >>> body_tokens(HttpRequest(method="POST", path="/", body=b'{"input":"two words"}'))
    5
    """
    return len(http.body) // CHARACTERS_PER_TOKEN if http.body[:1] == b"{" else 0


def no_tokens(_http: HttpRequest, /) -> int:
    """For requests that no model answers, such as token counts."""
    return 0


def limit_requests(
    plan: Plan[T],
    target: Target,
    loads: Loads,
    options: ChainOptions,
    /,
    *,
    tokens: Callable[[HttpRequest], int] = body_tokens,
    used: Callable[[T], int | None] = lambda _result: None,
) -> Plan[T]:
    """The plan, with each of its requests counted; RateLimited if there is no room for one.

    `tokens` estimates the tokens of a request, `used` says how many the whole plan used, if that is known.
    """
    if target.deployment_limits is None:
        return (yield from plan)
    counted = _Counted(target, loads, options, tokens)
    answer: Any = None
    error: DragomanError | None = None
    try:
        while True:
            try:
                effect = plan.send(answer) if error is None else plan.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                counted.total = used(result)
                return result
            answer = error = None
            # Outside of the `try`: the plan must not retry, because that would wait for room again.
            if isinstance(effect, Send | Open):
                effect = yield from counted.begin(effect)
            elif not isinstance(effect, _CONTINUES):
                counted.end()
            try:
                answer = yield effect
            except DragomanError as failure:
                error = failure
                counted.end(has_failed=True)
                continue
            yield from counted.learn(effect, answer)
    finally:
        counted.end()
        plan.close()


def count_or_estimate(request: Request, target: Target, loads: Loads, options: ChainOptions, /) -> Plan[TokenCount]:
    """The number of tokens of a request, within the limits of the deployment."""
    plan = endpoints.count_or_estimate(request, target, options)
    return limit_requests(plan, target, loads, options, tokens=no_tokens)


def embed(
    texts: Sequence[Embeddable],
    embedding_options: EmbeddingOptions,
    target: Target,
    loads: Loads,
    options: ChainOptions,
    /,
) -> Plan[Embeddings]:
    """The vectors of some texts, within the limits of the deployment."""
    plan = endpoints.embed(texts, embedding_options, target, options)
    return limit_requests(plan, target, loads, options, used=lambda embeddings: total_tokens(embeddings.usage))


def rerank(
    query: str,
    documents: Sequence[str],
    top: int | None,
    target: Target,
    loads: Loads,
    options: ChainOptions,
    wire_fields: JsonObject | None = None,
    /,
) -> Plan[Ranking]:
    """The documents in the order of their relevance for a query, within the limits of the deployment."""
    plan = endpoints.rerank(query, documents, top, target, options, wire_fields)
    return limit_requests(plan, target, loads, options, used=lambda ranking: total_tokens(ranking.usage))


class _Counted:
    """The requests of one plan."""

    def __init__(
        self, target: Target, loads: Loads, options: ChainOptions, tokens: Callable[[HttpRequest], int]
    ) -> None:
        self.total: int | None = None
        """The tokens that all requests used together, if that is known."""
        self._target = target
        self._loads = loads
        self._options = options
        self._tokens = tokens
        self._slot: Slot | None = None
        self._reserved = 0
        self._now = 0.0

    def begin(self, effect: Send | Open) -> Plan[Effect]:
        """Wait for room; the request, with what is left of its time. RateLimited if there is no room soon."""
        self.end()
        target, tokens = self._target, self._tokens(effect.request)
        began: float = yield Now()
        self._now = began
        total = effect.total_timeout
        most = self._options.max_retry_after_with_fallback
        ends_at = began + (most if total is None else min(most, total))
        while (slot := (yield from self._loads.claim(target, self._now, tokens))) is None:
            limit = self._loads.full(target, self._now, tokens)
            wait = SLOT_CHECK if limit is None else limit.wait
            if self._now + wait > ends_at:
                reason = "another request took the last room" if limit is None else limit.reason
                raise RateLimited(
                    f"{target.name} was not called: {reason}",
                    provider=target.provider,
                    model=target.model,
                    retry_after=wait,
                )
            self._now = yield from wait_for_next_check(wait, self._now, began)
        self._slot = slot
        self._reserved += tokens
        waited = self._now - began
        return _shorten(effect, total - waited) if waited and total is not None else effect

    def learn(self, effect: Effect, answer: Any) -> Plan[None]:
        """Read what the headers of an answer say about the provider's limits."""
        head = answer if isinstance(effect, Send) else answer.head if isinstance(effect, Open) else None
        if isinstance(head, Head):
            self._now = yield Now()
            self._loads.learn(self._target.name, head, self._now, self._slot)
            if head.status >= 300:
                self.end(has_failed=True)

    def end(self, *, has_failed: bool = False) -> None:
        """Free the slot of the last request. A request that failed used no tokens."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        tokens = None if self.total is None else slot.tokens + self.total - self._reserved
        if has_failed:
            tokens = 0
            self._reserved -= slot.tokens
        self._loads.end(slot, self._now, tokens=tokens)


def _shorten(effect: Send | Open, total: float) -> Send | Open:
    """The request, with this many seconds for its whole answer."""
    left = max(0.0, total)
    if isinstance(effect, Send):
        return replace(effect, total_timeout=left)
    head_timeout = left if effect.head_timeout is None else min(left, effect.head_timeout)
    return replace(effect, total_timeout=left, head_timeout=head_timeout)
