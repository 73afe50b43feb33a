"""Successes and failures of targets in, who is well out. Time is passed in; nothing runs by itself."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

State: TypeAlias = Literal["healthy", "cooldown", "probing"]


class Probe(msgspec.Struct, frozen=True):
    """Leave to be the one request that finds out how a target is.

    >>> Probe(65.0).lease
    65.0
    """

    lease: float
    """Until when it keeps others out; also what tells it from the probe that follows it."""


Admission: TypeAlias = Literal["healthy"] | Probe


class HealthPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a target is benched, and for how long.

    >>> [HealthPolicy().cooldown(n) for n in (1, 2, 3, 9)]
    [5.0, 10.0, 20.0, 300.0]
    """

    threshold: int = 2
    """Failures in a row that bench."""
    base: float = 5.0
    multiplier: float = 2.0
    cap: float = 300.0
    lease: float = 60.0
    """Seconds after which a probe that has not ended keeps the next one waiting no longer: nobody may be reading it."""

    def cooldown(self, bench: int, /) -> float:
        """Seconds of the n-th bench in a row."""
        return min(self.cap, self.base * self.multiplier ** min(bench - 1, 64))


class TargetHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How one target is. Moments are those of the clock that `now` is read from.

    >>> TargetHealth().state
    'healthy'
    """

    state: State = "healthy"
    failures: int = 0
    """Failures in a row."""
    cooldowns: int = 0
    """Benches in a row that failures brought."""
    until: float | None = None
    reason: str | None = None
    """Why it is benched."""
    by_operator: bool = False
    """Whether an operator benched it: until then, only `enable` puts it back."""
    leased: float | None = None
    """Until when a probe keeps others out."""
    last_error: str | None = None
    last_latency: float | None = None
    """Seconds that the last good answer took, or its first event where it was streamed."""

    @property
    def is_healthy(self) -> bool:
        """Whether every request may go there."""
        return self.state == "healthy"


class HealthStore(Protocol):
    """Where conditions are kept: the port behind which processes may share them.

    A store that several machines share has to translate moments: each machine's clock counts from its own beginning.
    A lease must come back to the machine that took it as it was: a probe is known by it.

    >>> shared: HealthStore = LocalHealthStore()
    >>> Health(conditions=shared).snapshot()
    {}
    """

    def read(self, target: str, /) -> TargetHealth:
        """The condition of a target; well where nothing is known of it."""
        ...

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        """Put `new` in the place of `old`, at once; False where another one stands there by now."""
        ...

    def all(self) -> dict[str, TargetHealth]:
        """All of them."""
        ...


class LocalHealthStore:
    """Conditions of one process.

    >>> memory = LocalHealthStore()
    >>> memory.swap("aa/m", TargetHealth(), TargetHealth(failures=1)), memory.swap("aa/m", TargetHealth(), TargetHealth())
    (True, False)
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = lock or nullcontext()
        self._conditions: dict[str, TargetHealth] = {}

    def read(self, target: str, /) -> TargetHealth:
        """The condition of a target; well where nothing is known of it."""
        return self._conditions.get(target, _WELL)

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        """Put `new` in the place of `old`; False where another one stands there by now."""
        with self._lock:
            if self._conditions.get(target, _WELL) != old:
                return False
            self._conditions[target] = new
            return True

    def all(self) -> dict[str, TargetHealth]:
        """All of them."""
        with self._lock:
            return dict(self._conditions)


_WELL = TargetHealth()


class Health:
    """The conditions of all targets, keyed `provider/model`; what chains tell and ask, and what operators do.

    >>> health = Health()
    >>> health.failed("aa/m", 0.0, "busy"), health.failed("aa/m", 0.0, "busy")
    (False, True)
    >>> health.admit("aa/m", 4.9), health.admit("aa/m", 5.0), health.admit("aa/m", 5.0)
    (None, Probe(lease=65.0), None)
    """

    def __init__(
        self,
        policy: HealthPolicy | None = None,
        *,
        lock: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] | None = None,
        conditions: HealthStore | None = None,
    ) -> None:
        self.policy = policy or HealthPolicy()
        self._clock = clock
        self._conditions = conditions or LocalHealthStore(lock)

    # What chains tell and ask -----------------------------------------------------------------------------------------

    def admit(self, target: str, now: float, /) -> Admission | None:
        """How a request may go there now: as any other, as the one probe when a bench is over, or not."""
        while True:
            old = self._conditions.read(target)
            if old.is_healthy:
                return "healthy"
            ends = old.leased if old.state == "probing" else old.until
            if ends is not None and now < ends:
                return None
            lease = now + self.policy.lease
            if self._conditions.swap(target, old, _probed(old, lease)):
                return Probe(lease)

    def probe(self, target: str, now: float, /) -> Admission:
        """Let a request through whatever the condition: a caller would rather try than fail.

        The bench of an operator stays one, whatever becomes of that request.
        """
        lease = now + self.policy.lease
        return "healthy" if self._change(target, lambda old: _tried(old, lease)).is_healthy else Probe(lease)

    def served(self, target: str, latency: float | None = None, /) -> None:
        """It answered: everything is forgotten but how long it took, and the bench of an operator."""

        def change(old: TargetHealth) -> TargetHealth:
            took = old.last_latency if latency is None else latency
            return replace(old, last_latency=took) if _is_kept_out(old) else TargetHealth(last_latency=took)

        self._change(target, change)

    def failed(self, target: str, now: float, error: str, admission: Admission = "healthy", /) -> bool:
        """It failed; True when it is benched.

        A request that left before the bench and fails in it is no news: only the probe's failure makes it longer, and
        only while no other has taken its place.
        """

        def change(old: TargetHealth) -> TargetHealth:
            failures = old.failures + 1
            known = replace(old, failures=failures, last_error=error)
            if _is_kept_out(old):
                return known
            if (failures >= self.policy.threshold) if old.is_healthy else _is_probed_by(old, admission):
                cooldowns = old.cooldowns + 1
                until = now + self.policy.cooldown(cooldowns)
                return replace(_benched(known), cooldowns=cooldowns, until=until, reason=error, by_operator=False)
            return known

        return not self._change(target, change).is_healthy

    def let_go(self, target: str, admission: Admission, /) -> None:
        """A request ended without an answer either way: if it is the probe, the next one may probe."""
        self._change(target, lambda old: _benched(old) if _is_probed_by(old, admission) else old)

    def rest(self, target: str, until: float, reason: str, /) -> None:
        """Bench until a moment that the provider told, or longer where it is benched for longer."""

        def change(old: TargetHealth) -> TargetHealth:
            if not old.is_healthy and old.until is not None and old.until >= until:
                return replace(_benched(old), last_error=reason)
            kept_out = _is_kept_out(old)
            return replace(_benched(old), until=until, reason=reason, last_error=reason, by_operator=kept_out)

        self._change(target, change)

    def condition(self, target: str, /) -> TargetHealth:
        """How a target is."""
        return self._conditions.read(target)

    # What operators do ------------------------------------------------------------------------------------------------

    def disable(self, target: str, seconds: float, /, *, now: float | None = None) -> None:
        """Take a target out for some seconds."""
        until, why = self._now(now) + seconds, "benched by an operator"
        self._change(target, lambda old: replace(_benched(old), until=until, reason=why, by_operator=True))

    def enable(self, target: str, /) -> None:
        """Put a target back, as if it had never failed."""
        self._change(target, lambda old: TargetHealth(last_latency=old.last_latency))

    def snapshot(self) -> dict[str, TargetHealth]:
        """All conditions: of each target its state, failures, until when and why, last error, last latency."""
        return self._conditions.all()

    def _change(self, target: str, change: Callable[[TargetHealth], TargetHealth]) -> TargetHealth:
        while True:
            old = self._conditions.read(target)
            new = change(old)
            if new == old or self._conditions.swap(target, old, new):
                return new

    def _now(self, now: float | None) -> float:
        if now is not None:
            return now
        if self._clock is None:
            raise ValueError("this health has no clock: pass now=, or make it with clock=")
        return self._clock()


def _is_kept_out(condition: TargetHealth) -> bool:
    """Whether an operator wants it out: when that time is over, a probe is let through, and ends it."""
    return condition.by_operator and condition.state == "cooldown"


def _is_probed_by(condition: TargetHealth, admission: Admission) -> bool:
    return admission != "healthy" and condition.state == "probing" and condition.leased == admission.lease


def _benched(old: TargetHealth) -> TargetHealth:
    return replace(old, state="cooldown", leased=None)


def _probed(old: TargetHealth, lease: float) -> TargetHealth:
    return replace(old, state="probing", leased=lease)


def _tried(old: TargetHealth, lease: float) -> TargetHealth:
    return old if old.is_healthy or _is_kept_out(old) else _probed(old, lease)
