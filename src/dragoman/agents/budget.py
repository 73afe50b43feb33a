"""What a run used in, whether it may go on out: tokens, money, seconds."""

from collections.abc import Callable

import msgspec

from dragoman.errors import BudgetExceeded, DragomanError, TimedOut
from dragoman.types import Response, Usage, add_usage


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may use. It is looked at before each step, so the last one may pass it by a little.

    >>> Budget(tokens=10_000, seconds=30).money is None
    True
    """

    tokens: int | None = None
    money: float | None = None
    """In dollars."""
    seconds: float | None = None
    price: Callable[[Response], float] | None = None
    """What a response cost, in dollars; without it the package genai-prices is asked."""


class BudgetTracker:
    """What one run has used so far, beside what it may use.

    >>> purse = BudgetTracker(Budget(seconds=30))
    >>> purse.begin(100.0)
    >>> purse.left(110.0), purse.left(110.0, 5.0)
    (20.0, 5.0)
    """

    def __init__(
        self, budget: Budget, timeout: float | None = None, spend: Callable[[Response], None] | None = None
    ) -> None:
        self._budget = budget
        self._timeout = timeout
        self._above = spend
        self._usages: list[Usage] = []
        self._costs: list[float] = []
        self._began = 0.0

    @property
    def usage(self) -> Usage:
        """All that was used."""
        return add_usage(self._usages)

    @property
    def cost(self) -> float | None:
        """What it cost, where prices are asked for."""
        return None if self._budget.price is None else sum(self._costs)

    def begin(self, now: float) -> None:
        """From now on time counts."""
        self._began = now

    def take(self, response: Response) -> None:
        """Count a response, of the run or of what it called."""
        self._usages.append(response.usage)
        if self._above is not None:
            self._above(response)
        if self._budget.price is not None:
            self._costs.append(float(self._budget.price(response)))

    def spend(self, usage: Usage | None) -> None:
        """Count what a failure used, where that was told."""
        if usage is not None:
            self._usages.append(usage)

    def left(self, now: float, *limits: float | None) -> float | None:
        """The seconds that something may take: the least of what is left and of some limits."""
        given = [limit for limit in limits if limit is not None]
        given += [self._began + most - now for most in (self._budget.seconds, self._timeout) if most is not None]
        return max(min(given), 0.001) if given else None

    def check(self, now: float, cause: DragomanError | None = None) -> None:
        """Go on where nothing is used up."""
        used = self.usage
        tokens, cost, seconds = (used.input or 0) + (used.output or 0), sum(self._costs), now - self._began
        budget = self._budget
        if budget.tokens is not None and tokens >= budget.tokens:
            raise BudgetExceeded(f"{tokens} of {budget.tokens} tokens are used") from cause
        if budget.money is not None and cost >= budget.money:
            raise BudgetExceeded(f"{cost:.4f} of {budget.money:.4f} dollars are used") from cause
        if budget.seconds is not None and seconds >= budget.seconds:
            raise BudgetExceeded(f"{seconds:.1f} of {budget.seconds:.1f} seconds are used") from cause
        if self._timeout is not None and seconds >= self._timeout:
            raise TimedOut(f"the run took more than {self._timeout:g} s", retry=False, fail_over=False) from cause
