"""Successes and failures of targets in, who is well out. Time is passed in; nothing runs by itself."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["well", "benched", "probing"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When a target is benched, and for how long.

    >>> [Policy().cooldown(n) for n in (1, 2, 3, 9)]
    [5.0, 10.0, 20.0, 300.0]
    """

    threshold: int = 2
    base: float = 5.0
    multiplier: float = 2.0
    cap: float = 300.0

    def cooldown(self, bench: int, /) -> float:
        """Seconds of the n-th bench in a row."""
        return min(self.cap, self.base * self.multiplier ** min(bench - 1, 64))


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """How one target is.

    >>> Condition().state
    'well'
    """

    state: State = "well"
    failures: int = 0
    benches: int = 0
    until: float | None = None
    reason: str | None = None
    last_error: str | None = None
    last_latency: float | None = None


class Health:
    """The conditions of all targets, keyed `provider/model`.

    >>> health = Health()
    >>> health.failed("aa/m", 0.0, "busy"), health.failed("aa/m", 0.0, "busy")
    (False, True)
    >>> health.admit("aa/m", 4.9), health.admit("aa/m", 5.0), health.admit("aa/m", 5.0)
    (False, True, False)
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        lock: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self._lock = lock or nullcontext()
        self._clock = clock
        self._conditions: dict[str, Condition] = {}

    def admit(self, target: str, now: float, /) -> bool:
        """Whether a request may go there now. When a bench is over, one is let through to probe."""
        with self._lock:
            condition = self._conditions.get(target)
            if condition is None or condition.state == "well":
                return True
            if condition.state == "benched" and condition.until is not None and now >= condition.until:
                self._conditions[target] = msgspec.structs.replace(condition, state="probing")
                return True
            return False

    def served(self, target: str, latency: float | None = None, /) -> None:
        """It answered: everything is forgotten but how long it took."""
        with self._lock:
            self._conditions[target] = Condition(last_latency=latency)

    def failed(self, target: str, now: float, error: str, /) -> bool:
        """It failed; True when it is benched for it."""
        with self._lock:
            old = self._conditions.get(target, Condition())
            failures = old.failures + 1
            benched = old.state != "well" or failures >= self.policy.threshold
            benches = old.benches + 1 if benched else old.benches
            self._conditions[target] = msgspec.structs.replace(
                old,
                state="benched" if benched else "well",
                failures=failures,
                benches=benches,
                until=now + self.policy.cooldown(benches) if benched else None,
                reason=error if benched else None,
                last_error=error,
            )
            return benched

    def let_go(self, target: str, /) -> None:
        """A probe ended without an answer either way: the next one may probe."""
        with self._lock:
            condition = self._conditions.get(target)
            if condition is not None and condition.state == "probing":
                self._conditions[target] = msgspec.structs.replace(condition, state="benched")

    def rest(self, target: str, until: float, reason: str, /) -> None:
        """Bench until a moment that the provider told."""
        with self._lock:
            old = self._conditions.get(target, Condition())
            self._conditions[target] = msgspec.structs.replace(
                old, state="benched", until=until, reason=reason, last_error=reason
            )

    def bench(self, target: str, seconds: float, /, *, now: float | None = None) -> None:
        """An operator takes a target out for some seconds."""
        self.rest(target, self._now(now) + seconds, "benched by an operator")

    def unbench(self, target: str, /) -> None:
        """An operator puts a target back."""
        with self._lock:
            self._conditions.pop(target, None)

    def until(self, target: str, /) -> float | None:
        """When the bench of a target ends; None where it is not benched."""
        condition = self._conditions.get(target)
        return condition.until if condition is not None and condition.state != "well" else None

    def snapshot(self) -> dict[str, Condition]:
        """All conditions."""
        with self._lock:
            return dict(self._conditions)

    def _now(self, now: float | None) -> float:
        if now is None and self._clock is None:
            raise ValueError("no clock: pass now=")
        return now if now is not None or self._clock is None else self._clock()
