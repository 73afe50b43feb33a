"""Which targets are healthy: a target that fails repeatedly is put on cooldown, and chains prefer other targets.

The states of a target: `healthy` (every request may use it), `cooldown` (until a moment, requests use other targets if
they have one), `trial` (the cooldown is over and one request, the trial, finds out). A success makes a target
healthy; a failed trial starts the next, longer cooldown. Requests that run at the same time often fail for the same
reason, so their failures count once. Time is passed in; nothing runs by itself.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.engine.target_load import Loads
from dragoman.errors import RateLimited
from dragoman.targets.health_policy import HealthPolicy

State: TypeAlias = Literal["healthy", "cooldown", "trial"]


class TrialLease(msgspec.Struct, frozen=True):
    """Permission to be the one request that tries a target."""

    lease: float
    """Until when no other trial may start. It also identifies the trial."""


TargetAdmission: TypeAlias = Literal["healthy", "last_resort"] | TrialLease
"""Why a request may use a target: it is healthy, no other target is left, or the request is the trial."""
DOWN_FAILURES = 5
"""Failures without a success that a target needs to be down: a few in a row can be chance."""
TRIAL_INTERVAL = 1.0
"""Seconds after the last failure of a target that is down until a request may try it."""


class TargetHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one target. Moments are those of the clock that `now` is read from."""

    state: State = "healthy"
    failures: int = 0
    """Consecutive failures. Those of requests that ran at the same time count once."""
    failing_since: float | None = None
    """The first of them."""
    failed_at: float | None = None
    """The last of them."""
    cooldowns: int = 0
    """Consecutive cooldowns that failures started."""
    until: float | None = None
    """When the cooldown ends."""
    reason: str | None = None
    """Why it is on cooldown."""
    by_operator: bool = False
    """Whether an operator disabled it: before `until`, only `enable` makes it healthy."""
    lease: float | None = None
    """Until when a trial blocks others."""
    last_error: str | None = None
    last_latency: float | None = None
    """Seconds of the last good answer, or until its first event if it was streamed."""

    @property
    def is_healthy(self) -> bool:
        """Whether every request may use it."""
        return self.state == "healthy"

    @property
    def is_disabled(self) -> bool:
        """Whether an operator disabled it. After that time a trial is admitted; the trial ends the disabled state."""
        return self.by_operator and self.state == "cooldown"


_HEALTHY = TargetHealth()


class HealthStore(Protocol):
    """Where the health of targets is stored. Processes can share one.

    A store that several machines share has to translate moments, because their clocks differ. It must return a lease
    unchanged to the machine that took it, because the lease identifies the trial.
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
    """The health store of one process."""

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = lock or nullcontext()
        self._targets: dict[str, TargetHealth] = {}

    def read(self, target: str, /) -> TargetHealth:
        return self._targets.get(target, _HEALTHY)

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        with self._lock:
            stored = self._targets.get(target, _HEALTHY)
            if stored is not old and stored != old:
                return False
            self._targets[target] = new
            return True

    def all(self) -> dict[str, TargetHealth]:
        with self._lock:
            return dict(self._targets)


class CooldownStarted(msgspec.Struct, frozen=True, kw_only=True):
    """Sent to observers when a target is put on cooldown."""

    target: str
    seconds: float
    why: str


class Health:
    """The health of all targets, by `provider/model`. Chains read and record it; operators change it.

    >>> health = Health()
    >>> health.record_failure("aa/m", 0.0, "busy"), health.record_failure("aa/m", 0.0, "busy")
    (False, True)
    >>> health.admit("aa/m", 4.9), health.admit("aa/m", 5.0), health.admit("aa/m", 5.0)
    (None, TrialLease(lease=65.0), None)
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
        self.get = self._store.read
        """The health of a target."""
        self.loads = Loads(lock)
        """How busy the targets are."""

    # For chains -------------------------------------------------------------------------------------------------------

    def admit(self, target: str, now: float, /) -> TargetAdmission | None:
        """Whether a request may use a target now: `healthy`, as the one trial after a cooldown, or None if not."""
        while True:
            old = self._store.read(target)
            if old.state == "healthy":
                return "healthy"
            ends_at = old.lease if old.state == "trial" else old.until
            if ends_at is not None and now < ends_at:
                return None
            lease = now + self.policy.lease
            if self._store.swap(target, old, _start_trial(old, lease)):
                return TrialLease(lease)

    def is_down(self, target: str, /) -> bool:
        """Whether a target had nothing but failures for a while, and not only a few."""
        health = self._store.read(target)
        if health.is_healthy or health.failing_since is None or health.failed_at is None:
            return False
        return health.failures >= DOWN_FAILURES and health.failed_at - health.failing_since >= self.policy.down_after

    def admit_trial(self, target: str, now: float, /) -> TargetAdmission | None:
        """Admit a request to a target that is down: one at a time, and none just after a failure."""
        while True:
            old = self._store.read(target)
            if old.is_healthy:
                return "healthy"
            is_on_trial = old.state == "trial" and old.lease is not None and now < old.lease
            if is_on_trial or old.is_disabled or (old.failed_at is not None and now < old.failed_at + TRIAL_INTERVAL):
                return None
            lease = now + self.policy.lease
            if self._store.swap(target, old, _start_trial(old, lease)):
                return TrialLease(lease)

    def record_success(self, target: str, latency: float | None = None, /) -> None:
        """Make a target healthy, unless an operator disabled it, and store its latency."""
        while True:
            old = self._store.read(target)
            seconds = old.last_latency if latency is None else latency
            new = replace(old, last_latency=seconds) if old.is_disabled else TargetHealth(last_latency=seconds)
            if new == old or self._store.swap(target, old, new):
                return

    def record_failure(
        self,
        target: str,
        now: float,
        error: str,
        admission: TargetAdmission = "healthy",
        /,
        *,
        began: float | None = None,
    ) -> bool:
        """Count the failure of an attempt that began at a moment; True if the target is on cooldown now.

        It is not counted if the attempt began before the last failure: both have the same reason then. During a
        cooldown only the failure of the current trial makes it longer: other requests began before it.
        """

        def change(old: TargetHealth) -> TargetHealth:
            is_trial = _is_trial_of(old, admission)
            if not is_trial and began is not None and old.failed_at is not None and began < old.failed_at:
                return replace(old, last_error=error)
            failures = old.failures + 1
            since = now if old.failing_since is None else old.failing_since
            new = replace(old, failures=failures, last_error=error, failing_since=since, failed_at=now)
            if old.is_disabled:
                return new
            if (failures >= self.policy.threshold) if old.is_healthy else is_trial:
                cooldowns = old.cooldowns + 1
                until = now + self.policy.cooldown(cooldowns)
                return replace(_end_trial(new), cooldowns=cooldowns, until=until, reason=error, by_operator=False)
            return new

        return not self._change(target, change).is_healthy

    def release_trial(self, target: str, admission: TargetAdmission, /) -> None:
        """Let the next request try, if the one with this admission was the trial and ended without a result."""
        self._change(target, lambda old: _end_trial(old) if _is_trial_of(old, admission) else old)

    def cool_down(self, target: str, until: float, reason: str, /) -> None:
        """Put a target on cooldown until a moment that its provider asked for, or longer if it already is."""

        def change(old: TargetHealth) -> TargetHealth:
            if not old.is_healthy and old.until is not None and old.until >= until:
                return replace(_end_trial(old), last_error=reason)
            by_operator = old.is_disabled
            return replace(_end_trial(old), until=until, reason=reason, last_error=reason, by_operator=by_operator)

        self._change(target, change)

    def cooldown_end(self, target: str, /) -> float:
        """When the cooldown of a target ends; 0 if it has none."""
        return self._store.read(target).until or 0.0

    def is_rate_limited(self, target: str, /) -> bool:
        """Whether the last error of a target was a rate limit, and no operator disabled it."""
        health = self._store.read(target)
        return not health.is_disabled and (health.last_error or "").startswith(RateLimited.__name__)

    def seconds_until_useful(self, target: str, now: float, /) -> float:
        """Seconds until it makes sense to try a target again. Long cooldowns are only a guess, and end at a success."""
        seconds = max(0.0, self.cooldown_end(target) - now)
        is_known = self._store.read(target).is_disabled or self.is_rate_limited(target)
        return seconds if is_known else min(seconds, self.policy.base)

    # For operators ----------------------------------------------------------------------------------------------------

    def disable(self, target: str, seconds: float, /, *, now: float | None = None) -> None:
        """Skip a target for some seconds."""
        until, reason = self._now(now) + seconds, "disabled by an operator"
        self._change(target, lambda old: replace(_end_trial(old), until=until, reason=reason, by_operator=True))

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


def _is_trial_of(health: TargetHealth, admission: TargetAdmission) -> bool:
    return isinstance(admission, TrialLease) and health.state == "trial" and health.lease == admission.lease


def _start_trial(old: TargetHealth, lease: float) -> TargetHealth:
    return replace(old, state="trial", lease=lease)


def _end_trial(old: TargetHealth) -> TargetHealth:
    return replace(old, state="cooldown", lease=None)
