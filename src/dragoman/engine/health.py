"""Which targets are healthy: a target that fails repeatedly is put on cooldown and skipped for a while.

The states of a target: `healthy` (every request may use it), `cooldown` (no request may, until a moment), `probing`
(the cooldown is over and one request, the probe, finds out). A success makes a target healthy; a failed probe starts
the next, longer cooldown. Time is passed in; nothing runs by itself.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

State: TypeAlias = Literal["healthy", "cooldown", "probing"]


class ProbeLease(msgspec.Struct, frozen=True):
    """Permission to be the one request that probes a target."""

    lease: float
    """Until when no other probe may start. It also identifies the probe."""


TargetAdmission: TypeAlias = Literal["healthy"] | ProbeLease


class HealthPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a target is put on cooldown, and for how long.

    >>> [HealthPolicy().cooldown(n) for n in (1, 2, 3, 9)]
    [5.0, 10.0, 20.0, 300.0]
    """

    threshold: int = 2
    """Consecutive failures that start a cooldown."""
    base: float = 5.0
    multiplier: float = 2.0
    cap: float = 300.0
    lease: float = 60.0
    """Seconds after which a probe that has not ended no longer blocks the next one: its caller may be gone."""

    def cooldown(self, number: int, /) -> float:
        """Seconds of the n-th consecutive cooldown."""
        return min(self.cap, self.base * self.multiplier ** min(number - 1, 64))


class TargetHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one target. Moments are those of the clock that `now` is read from.

    >>> TargetHealth().state
    'healthy'
    """

    state: State = "healthy"
    failures: int = 0
    """Consecutive failures."""
    cooldowns: int = 0
    """Consecutive cooldowns that failures started."""
    until: float | None = None
    """When the cooldown ends."""
    reason: str | None = None
    """Why it is on cooldown."""
    by_operator: bool = False
    """Whether an operator disabled it: before `until`, only `enable` makes it healthy."""
    lease: float | None = None
    """Until when a probe blocks others."""
    last_error: str | None = None
    last_latency: float | None = None
    """Seconds of the last good answer, or until its first event if it was streamed."""

    @property
    def is_healthy(self) -> bool:
        """Whether every request may use it."""
        return self.state == "healthy"


_HEALTHY = TargetHealth()


class HealthStore(Protocol):
    """Where the health of targets is stored. Processes can share one.

    A store that several machines share has to translate moments, because their clocks differ. It must return a lease
    unchanged to the machine that took it, because the lease identifies the probe.

    >>> shared: HealthStore = LocalHealthStore()
    >>> Health(store=shared).snapshot()
    {}
    """

    def read(self, target: str, /) -> TargetHealth:
        """The health of a target; healthy if nothing is stored."""
        ...

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        """Replace `old` by `new` atomically; False if the stored value is not `old` any more."""
        ...

    def all(self) -> dict[str, TargetHealth]:
        """The health of all targets."""
        ...


class LocalHealthStore:
    """The health store of one process.

    >>> store = LocalHealthStore()
    >>> store.swap("aa/m", TargetHealth(), TargetHealth(failures=1)), store.swap("aa/m", TargetHealth(), TargetHealth())
    (True, False)
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = lock or nullcontext()
        self._targets: dict[str, TargetHealth] = {}

    def read(self, target: str, /) -> TargetHealth:
        return self._targets.get(target, _HEALTHY)

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        with self._lock:
            if self._targets.get(target, _HEALTHY) != old:
                return False
            self._targets[target] = new
            return True

    def all(self) -> dict[str, TargetHealth]:
        with self._lock:
            return dict(self._targets)


class Health:
    """The health of all targets, by `provider/model`. Chains read and record it; operators change it.

    >>> health = Health()
    >>> health.record_failure("aa/m", 0.0, "busy"), health.record_failure("aa/m", 0.0, "busy")
    (False, True)
    >>> health.admit("aa/m", 4.9), health.admit("aa/m", 5.0), health.admit("aa/m", 5.0)
    (None, ProbeLease(lease=65.0), None)
    """

    def __init__(
        self,
        policy: HealthPolicy | None = None,
        *,
        lock: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] | None = None,
        store: HealthStore | None = None,
    ) -> None:
        self.policy = policy or HealthPolicy()
        self._clock = clock
        self._store = store or LocalHealthStore(lock)

    # For chains -------------------------------------------------------------------------------------------------------

    def admit(self, target: str, now: float, /) -> TargetAdmission | None:
        """Whether a request may use a target now: `healthy`, as the one probe after a cooldown, or None if not."""
        while True:
            old = self._store.read(target)
            if old.is_healthy:
                return "healthy"
            ends_at = old.lease if old.state == "probing" else old.until
            if ends_at is not None and now < ends_at:
                return None
            lease = now + self.policy.lease
            if self._store.swap(target, old, _start_probe(old, lease)):
                return ProbeLease(lease)

    def probe(self, target: str, now: float, /) -> TargetAdmission:
        """Admit a request whatever the state, for a caller that would rather try than fail.

        A target that an operator disabled stays disabled, whatever the result.
        """
        lease = now + self.policy.lease

        def change(old: TargetHealth) -> TargetHealth:
            return old if old.is_healthy or _is_disabled(old) else _start_probe(old, lease)

        return "healthy" if self._change(target, change).is_healthy else ProbeLease(lease)

    def record_success(self, target: str, latency: float | None = None, /) -> None:
        """Make a target healthy, unless an operator disabled it, and store its latency."""

        def change(old: TargetHealth) -> TargetHealth:
            healthy = TargetHealth(last_latency=old.last_latency if latency is None else latency)
            return replace(old, last_latency=healthy.last_latency) if _is_disabled(old) else healthy

        self._change(target, change)

    def record_failure(self, target: str, now: float, error: str, admission: TargetAdmission = "healthy", /) -> bool:
        """Count a failure; True if the target is on cooldown now.

        During a cooldown only the failure of the current probe makes it longer: other requests began before it.
        """

        def change(old: TargetHealth) -> TargetHealth:
            failures = old.failures + 1
            new = replace(old, failures=failures, last_error=error)
            if _is_disabled(old):
                return new
            if (failures >= self.policy.threshold) if old.is_healthy else _is_probed_by(old, admission):
                cooldowns = old.cooldowns + 1
                until = now + self.policy.cooldown(cooldowns)
                return replace(_end_probe(new), cooldowns=cooldowns, until=until, reason=error, by_operator=False)
            return new

        return not self._change(target, change).is_healthy

    def release_probe(self, target: str, admission: TargetAdmission, /) -> None:
        """Let the next request probe, if the one with this admission was the probe and ended without a result."""
        self._change(target, lambda old: _end_probe(old) if _is_probed_by(old, admission) else old)

    def cool_down(self, target: str, until: float, reason: str, /) -> None:
        """Put a target on cooldown until a moment that its provider asked for, or longer if it already is."""

        def change(old: TargetHealth) -> TargetHealth:
            if not old.is_healthy and old.until is not None and old.until >= until:
                return replace(_end_probe(old), last_error=reason)
            by_operator = _is_disabled(old)
            return replace(_end_probe(old), until=until, reason=reason, last_error=reason, by_operator=by_operator)

        self._change(target, change)

    def get(self, target: str, /) -> TargetHealth:
        """The health of a target."""
        return self._store.read(target)

    # For operators ----------------------------------------------------------------------------------------------------

    def disable(self, target: str, seconds: float, /, *, now: float | None = None) -> None:
        """Skip a target for some seconds."""
        until, reason = self._now(now) + seconds, "disabled by an operator"
        self._change(target, lambda old: replace(_end_probe(old), until=until, reason=reason, by_operator=True))

    def enable(self, target: str, /) -> None:
        """Make a target healthy, as if it had never failed."""
        self._change(target, lambda old: TargetHealth(last_latency=old.last_latency))

    def snapshot(self) -> dict[str, TargetHealth]:
        """The health of all targets that were used."""
        return self._store.all()

    def _change(self, target: str, change: Callable[[TargetHealth], TargetHealth]) -> TargetHealth:
        while True:
            old = self._store.read(target)
            new = change(old)
            if new == old or self._store.swap(target, old, new):
                return new

    def _now(self, now: float | None) -> float:
        if now is not None:
            return now
        if self._clock is None:
            raise ValueError("Health has no clock; pass now=, or create it with clock=")
        return self._clock()


def _is_disabled(health: TargetHealth) -> bool:
    """Whether an operator disabled it. After that time a probe is admitted; the probe ends the disabled state."""
    return health.by_operator and health.state == "cooldown"


def _is_probed_by(health: TargetHealth, admission: TargetAdmission) -> bool:
    return admission != "healthy" and health.state == "probing" and health.lease == admission.lease


def _start_probe(old: TargetHealth, lease: float) -> TargetHealth:
    return replace(old, state="probing", lease=lease)


def _end_probe(old: TargetHealth) -> TargetHealth:
    return replace(old, state="cooldown", lease=None)
