"""The limits of a run in tokens, money and seconds, and the counting of what the run has used.

Prices come from the list of this package, then from genai-prices if it is installed, unless you pass your own function.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

from dragoman.errors import BudgetExceeded, DragomanError, TimedOut, Unsupported
from dragoman.targets.prices import cost_of, target_cost
from dragoman.targets.target import Target
from dragoman.types import Response, Usage, add_usage
from dragoman.types.base import Amount, WholeNumber
from dragoman.types.structs import CheckedStruct


class Budget(CheckedStruct, frozen=True, kw_only=True):
    """The limits of a run. They are checked between steps, so one step can exceed them."""

    tokens: WholeNumber | None = None
    """Tokens of all prompts and answers together, also those of sub-agents."""
    money: Amount | None = None
    """Dollars of all steps together. Without `price`, a model with a known price is required."""
    seconds: Amount | None = None
    """Seconds since the run began, with the time of its tools."""
    price: Callable[[Response], float] | None = None
    """Returns the cost of a response in dollars. Without it, the price lists are used."""


class BudgetTracker:
    """Counts what a run has used, and compares it with the budget.

    >>> tracker = BudgetTracker(Budget(seconds=30))
    >>> tracker.start(100.0)
    >>> tracker.remaining_seconds(110.0), tracker.remaining_seconds(110.0, 5.0)
    (20.0, 5.0)
    """

    def __init__(
        self, budget: Budget, timeout: float | None = None, spend: Callable[[Response], None] | None = None
    ) -> None:
        self._budget = budget
        self._timeout = timeout
        self._parent_spend = spend
        self._usages: list[Usage] = []
        self._costs: list[float | None] = []
        self._started_at = 0.0

    @property
    def usage(self) -> Usage:
        """The usage of all responses so far."""
        return add_usage(self._usages)

    @property
    def cost(self) -> float | None:
        """The cost in dollars so far; None if the price of a response is not known."""
        known = [cost for cost in self._costs if cost is not None]
        return sum(known) if len(known) == len(self._costs) and (known or self._budget.price is not None) else None

    def start(self, now: float) -> None:
        """Start the clock of the run."""
        self._started_at = now

    def add_response(self, response: Response) -> None:
        """Count a response of the run or of one of its sub-agents."""
        self._usages.append(response.usage)
        if self._parent_spend is not None:
            self._parent_spend(response)
        if self._budget.price is not None:
            self._costs.append(float(self._budget.price(response)))
        else:
            self._costs.append(None if response.cost is None else response.cost.usd)

    def add_usage(self, usage: Usage | None) -> None:
        """Count the usage of a failed call, if the provider reported it."""
        if usage is not None:
            self._usages.append(usage)

    def remaining_seconds(self, now: float, *limits: float | None) -> float | None:
        """Return the smallest of the remaining time and the other limits; None if there is no limit."""
        seconds = [limit for limit in limits if limit is not None]
        totals = (self._budget.seconds, self._timeout)
        seconds += [self._started_at + total - now for total in totals if total is not None]
        return max(min(seconds), 0.001) if seconds else None

    def check(self, now: float, cause: DragomanError | None = None) -> None:
        """Raise if the budget or the time is used up."""
        usage = self.usage
        tokens, cost, seconds = (usage.input or 0) + (usage.output or 0), self.cost or 0.0, now - self._started_at
        budget = self._budget
        if budget.tokens is not None and tokens >= budget.tokens:
            raise BudgetExceeded(f"budget exceeded: {tokens} of {budget.tokens} tokens used") from cause
        if budget.money is not None and cost >= budget.money:
            raise BudgetExceeded(f"budget exceeded: {cost:.4f} of {budget.money:.4f} dollars used") from cause
        if budget.seconds is not None and seconds >= budget.seconds:
            raise BudgetExceeded(f"budget exceeded: {seconds:.1f} of {budget.seconds:.1f} seconds used") from cause
        if self._timeout is not None and seconds >= self._timeout:
            raise TimedOut(f"the run took more than {self._timeout:g} s", retry=False, fail_over=False) from cause


def price(response: Response, /) -> float:
    """Return the cost of a response in dollars: its own, or by the price lists.

    >>> from dragoman.types import Finish, Usage, assistant
    >>> usage = Usage(input=1_000_000, output=0)
    >>> answer = Response(message=assistant("hi"), finish=Finish(reason="stop"), target="openai/gpt-4o", usage=usage)
    >>> price(answer)
    2.5
    """
    provider, _, model = (response.target or "").partition("/")
    cost = response.cost or cost_of(provider, model, response.usage)
    if cost is not None:
        return cost.usd
    dollars = _newer_price(provider, model, response.usage)
    if dollars is None:
        raise _no_price(response.target)
    return dollars


def check_prices(targets: Sequence[Target], /) -> None:
    """Raise Unsupported if no target has a known price. If only some have one, the answer of another raises it."""
    if targets and not any(map(_has_price, targets)):
        raise _no_price(", ".join(target.name for target in targets))


def _has_price(target: Target) -> bool:
    nothing = Usage(input=0, output=0)
    cost = target_cost(target, nothing) or cost_of(target.provider, target.model, nothing)
    return cost is not None or _newer_price(target.provider, target.model, nothing) is not None


def _no_price(target: str | None) -> Unsupported:
    return Unsupported(
        f"{target}: no known price; pass Budget(price=...) with a function of the response, "
        "or install dragoman[prices], whose list is longer"
    )


def _newer_price(provider: str, model: str, used: Usage) -> float | None:
    """The dollars by genai-prices; None if it is not installed, or does not have the model."""
    try:
        prices = import_module("genai_prices")
    except ImportError:
        return None
    usage = prices.Usage(
        input_tokens=used.input,
        output_tokens=used.output,
        cache_read_tokens=used.cache_read,
        cache_write_tokens=used.cache_write,
    )
    for provider_id in (provider, None):
        try:
            return float(prices.calc_price(usage, model, provider_id=provider_id).total_price)
        except (LookupError, ValueError):
            continue
    return None
