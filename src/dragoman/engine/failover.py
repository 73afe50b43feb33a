"""Runs a request against a chain of targets until one answers.

Targets are tried in order. A target on cooldown is skipped. An error says by its policy what happens next: retry the
same target after a wait, try the next one, or end the call. Every try is recorded as an `Attempt`, on the response and
on the error that ends the chain.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from dragoman.engine.attempt import attempt
from dragoman.engine.call_context import CallContext, Timeouts
from dragoman.engine.effects import Job, Now, Observe, Plan, Random, Sleep, perform
from dragoman.engine.exchange import Completed
from dragoman.engine.exhausted import exhausted
from dragoman.engine.health import Health, TargetAdmission
from dragoman.errors import DragomanError, Interrupted, ProviderError, SetupError, TimedOut, Unsupported, redact
from dragoman.events import Restarted
from dragoman.http import MAX_WAIT
from dragoman.media import MediaCache, has_result_media
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Request, Response

Order: TypeAlias = Literal["in_order", "weighted", "fastest"]
WhenAllCoolingDown: TypeAlias = Literal["fail", "probe"]
OnInterrupt: TypeAlias = Literal["fail", "restart"]
_MIN_COST = 1e-9
"""The cost of a target that is free."""
_CHOICES = (("order", Order), ("when_all_cooling_down", WhenAllCoolingDown), ("on_interrupt", OnInterrupt))
_NUMBERS = ("retries", "max_retry_after_with_fallback", "max_retry_after", "backoff", "backoff_cap")


class ErrorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What happens after an error."""

    retry: bool
    """Whether to try the same target again."""
    fail_over: bool
    """Whether to try the next target."""
    count_failure: bool
    """Whether it counts against the target's health."""


class ChainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a chain behaves.

    >>> ChainOptions().retries
    1
    """

    retries: int = 1
    """How often a target is tried again after an error that may pass, before the next target is tried."""
    max_retry_after_with_fallback: float = 5.0
    """If a provider asks for a longer wait, put it on cooldown and try the next target."""
    max_retry_after: float = 60.0
    """The longest wait that a provider may ask for if no other target is available; a longer one ends the call."""
    backoff: float = 0.25
    backoff_cap: float = 4.0
    fail_over_on_permanent: bool = False
    """Whether to try the next target after errors that a retry cannot change (400, 401, 403, 405, 422, blocked)."""
    when_all_cooling_down: WhenAllCoolingDown = "fail"
    on_interrupt: OnInterrupt = "fail"
    """If a stream breaks after events were emitted: fail, or start again with the next target."""
    classify: Callable[[DragomanError], ErrorPolicy | None] | None = None
    """Returns the policy of an error; None for the default policy."""
    order: Order = "in_order"
    costs: Mapping[str, float] = {}
    """Relative costs by target, for `weighted`: a target of twice the cost comes first half as often."""
    timeouts: Timeouts = Timeouts()
    fetch_images: bool = False
    """Whether to fetch images by URL for a target that cannot: https and public addresses only."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES:
            if getattr(self, name) not in get_args(choices):
                allowed = " or ".join(map(repr, get_args(choices)))
                raise SetupError(f"{name} must be {allowed}, got {getattr(self, name)!r}")
        for name in _NUMBERS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value >= 0:
                raise SetupError(f"{name} must be a number >= 0, got {value!r}")


class CooldownStarted(msgspec.Struct, frozen=True, kw_only=True):
    """Sent to observers when a target is put on cooldown."""

    target: str
    seconds: float
    why: str


def error_policy(error: DragomanError, options: ChainOptions, /) -> Plan[ErrorPolicy]:
    """The policy of an error: that of `classify`, or the default of its class.

    >>> plan = error_policy(TimedOut("slow"), ChainOptions())
    >>> try:
    ...     next(plan)
    ... except StopIteration as stop:
    ...     print(stop.value.retry)
    True
    """
    if options.classify is not None:
        policy = yield from _classify(error, options.classify)
        if policy is not None:
            return policy
    fail_over = error.fail_over or (options.fail_over_on_permanent and isinstance(error, ProviderError))
    return ErrorPolicy(retry=error.retry, fail_over=fail_over, count_failure=error.count_failure)


def _classify(
    error: DragomanError, classify: Callable[[DragomanError], ErrorPolicy | None]
) -> Plan[ErrorPolicy | None]:
    result = yield from perform(Job(partial(classify, error), is_quick=True))
    if result.error is not None:
        reason = f"{type(result.error).__name__}: {result.error}"
        raise SetupError(redact(f"classify failed for {_describe(error)}: {reason}")) from result.error
    policy = result.value
    if policy is None or isinstance(policy, ErrorPolicy):
        return policy
    raise SetupError(f"classify must return an ErrorPolicy or None, got {type(policy).__name__}")


def weighted_order(
    targets: Sequence[Target], costs: Mapping[str, float], random_numbers: Iterable[float], /
) -> list[Target]:
    """All targets in a random order. A target of twice the cost comes first half as often; the default cost is 1.

    Takes one random number from 0 up to 1 for each target.

    >>> from dragoman.targets.providers import target
    >>> targets = [target("groq/x"), target("ollama/y")]
    >>> [target.name for target in weighted_order(targets, {"groq/x": 9.0}, [0.5, 0.5])]
    ['ollama/y', 'groq/x']
    """
    remaining = list(targets)
    ordered: list[Target] = []
    for number in random_numbers:
        weights = [1 / max(costs.get(target.name, 1.0), _MIN_COST) for target in remaining]
        point = number * sum(weights)
        index = 0
        while index < len(remaining) - 1 and point >= weights[index]:
            point -= weights[index]
            index += 1
        ordered.append(remaining.pop(index))
    return ordered


def run(request: Request, targets: Sequence[Target], health: Health, options: ChainOptions, /) -> Plan[Response]:
    """The response of the first target that answers; raises `ChainExhausted` if none does."""
    return Chain(request, health, options).run(targets)


class Chain:
    """One call of a chain: its attempts so far and its deadline."""

    def __init__(self, request: Request, health: Health, options: ChainOptions, /) -> None:
        self.current_target: str | None = None
        """The target of the attempt that is running, for callers that abandon the plan."""
        self._request = request
        self._health = health
        self._options = options
        self._attempts: list[Attempt] = []
        self._errors: list[DragomanError] = []
        self._deadline: float | None = None
        self._interrupted: tuple[str, Interrupted] | None = None
        self._media_cache = MediaCache()

    def run(self, targets: Sequence[Target], /) -> Plan[Response]:
        """The response of the first target that answers."""
        now: float = yield Now()
        total = self._options.timeouts.total
        self._deadline = None if total is None else now + total
        ordered = [*(targets if self._options.order == "in_order" else (yield from self._order(targets)))]
        for index, target in enumerate(ordered):
            if index:
                now = yield Now()
            name = target.name
            admission = self._health.admit(name, now)
            if admission is None:
                yield from self._skip(name, now)
                continue
            degrade = index >= len(targets)
            response = yield from self._try(target, name, admission, now, ordered[index + 1 :], degrade=degrade)
            if response is not None:
                return response
            if not degrade and isinstance(self._errors[-1], Unsupported) and has_result_media(self._request):
                # If no target takes the media of a tool result, the target is tried again at the end without them.
                ordered.append(target)
        if ordered and not self._errors and self._options.when_all_cooling_down == "probe":
            target = min(ordered, key=self._cooldown_end)
            admission = self._health.probe(target.name, now)
            response = yield from self._try(target, target.name, admission, now, (), degrade=False)
            if response is not None:
                return response
        now = yield Now()
        last = self._errors[-1] if self._errors else None
        raise exhausted(self._errors, self._attempts, retry_after=self._retry_after(ordered, now)) from last

    def _order(self, targets: Sequence[Target]) -> Plan[Sequence[Target]]:
        if self._options.order == "fastest":
            # A target without a latency comes first, so that it gets one.
            return sorted(targets, key=lambda target: self._health.get(target.name).last_latency or 0.0)
        numbers: list[float] = []
        for _ in targets:
            numbers.append((yield Random()))  # noqa: PERF401 - a comprehension cannot yield
        return weighted_order(targets, self._options.costs, numbers)

    # One target ------------------------------------------------------------------------------------------------------

    def _try(
        self,
        target: Target,
        name: str,
        admission: TargetAdmission,
        now: float,
        others: Sequence[Target],
        *,
        degrade: bool,
    ) -> Plan[Response | None]:
        """Try one target, with retries. None means: try the next one. Raises the errors that end the call."""
        began, retries = now, 0
        try:
            while True:
                if self._deadline is not None and began >= self._deadline:
                    raise self._deadline_error((target, *others))
                self.current_target = name
                try:
                    completed = yield from attempt(self._request, target, self._call_context(name, degrade=degrade))
                except DragomanError as error:
                    self.current_target = None
                    if degrade and isinstance(error, Unsupported):
                        return None  # the first attempt has recorded the same error
                    wait = yield from self._handle_error(name, error, began, admission, others, retries)
                else:
                    return (yield from self._complete(name, completed, began))
                if wait is None:
                    return None
                yield Sleep(wait)
                if admission == "healthy" and not self._health.get(name).is_healthy:
                    return None  # another call has put it on cooldown during the wait
                retries += 1
                began = yield Now()
        finally:
            if admission != "healthy":
                self._health.release_probe(name, admission)

    def _call_context(self, name: str, *, degrade: bool) -> CallContext:
        restarted = None
        if self._interrupted is not None:
            previous, error = self._interrupted
            restarted = Restarted(previous=previous, target=name, why=error.message)
        return CallContext(
            timeouts=self._options.timeouts,
            deadline=self._deadline,
            media_cache=self._media_cache,
            fetch_images=self._options.fetch_images,
            degrade_tool_media=degrade,
            restarted=restarted,
        )

    def _complete(self, name: str, completed: Completed, began: float) -> Plan[Response]:
        response = completed.response
        self._health.record_success(name, completed.latency)
        duration = completed.ended_at - began
        yield from self._record(Attempt(target=name, outcome="served", duration=duration, usage=response.usage))
        return replace(response, attempts=tuple(self._attempts))

    def _handle_error(
        self,
        name: str,
        error: DragomanError,
        began: float,
        admission: TargetAdmission,
        others: Sequence[Target],
        retries: int,
    ) -> Plan[float | None]:
        """Record an error. Seconds until the retry, or None to try the next target; raises if the call must end."""
        now: float = yield Now()
        policy = yield from error_policy(error, self._options)
        cooldown_before = self._health.get(name).until
        is_cooling_down = policy.count_failure and self._health.record_failure(name, now, _describe(error), admission)
        may_retry = policy.retry and retries < self._options.retries and not is_cooling_down
        wait = None if error.retry_after is None else min(MAX_WAIT, error.retry_after)
        goes_on = policy.retry or policy.fail_over
        if wait is not None and goes_on and not self._is_acceptable(wait, now, others, may_retry=may_retry):
            self._health.cool_down(name, now + wait, _describe(error))
            may_retry = False
        yield from self._record_failure(name, error, now - began, cooldown_before, now)
        if isinstance(error, Interrupted):
            self._interrupt(name, error)
            return None
        if may_retry and wait is None:
            number: float = yield Random()
            wait = number * min(self._options.backoff_cap, self._options.backoff * 2 ** min(retries, 10))
        if may_retry and wait is not None and (self._deadline is None or now + wait < self._deadline):
            return wait
        if not policy.fail_over:
            raise self._with_attempts(error)
        return None

    def _is_acceptable(self, wait: float, now: float, others: Sequence[Target], *, may_retry: bool) -> bool:
        """Whether to wait out Retry-After here instead of putting the target on cooldown."""
        if wait <= self._options.max_retry_after_with_fallback:
            return True
        if not may_retry or any(self._is_available(target, now) for target in others):
            return False
        return wait <= self._options.max_retry_after and (self._deadline is None or now + wait < self._deadline)

    def _interrupt(self, name: str, error: Interrupted) -> None:
        cause = error.__cause__
        may_restart = not isinstance(cause, DragomanError) or cause.fail_over
        if self._options.on_interrupt == "fail" or not may_restart:
            raise self._with_attempts(error)
        self._interrupted = name, error

    # Health ----------------------------------------------------------------------------------------------------------

    def _is_available(self, target: Target, now: float) -> bool:
        health = self._health.get(target.name)
        return health.is_healthy or (health.state == "cooldown" and now >= (health.until or 0.0))

    def _cooldown_end(self, target: Target) -> float:
        return self._health.get(target.name).until or 0.0

    def _retry_after(self, targets: Sequence[Target], now: float) -> float | None:
        """Seconds until the first cooldown ends if all targets have one; otherwise the shortest Retry-After."""
        if all(not self._health.get(target.name).is_healthy for target in targets):
            return max(0.0, min(map(self._cooldown_end, targets), default=now) - now)
        return min((error.retry_after for error in self._errors if error.retry_after is not None), default=None)

    def _deadline_error(self, remaining: Iterable[Target]) -> DragomanError:
        why = f"the deadline of {self._options.timeouts.total} s has passed"
        self._attempts += [Attempt(target=target.name, outcome="skipped", error=why) for target in remaining]
        return exhausted([*self._errors, TimedOut(why)], self._attempts, kind=TimedOut)

    # Attempts --------------------------------------------------------------------------------------------------------

    def _record(self, entry: Attempt) -> Plan[None]:
        self._attempts.append(entry)
        yield Observe(entry)

    def _skip(self, name: str, now: float) -> Plan[None]:
        health = self._health.get(name)
        remaining = max(0.0, (health.until or now) - now)
        state = "being probed" if health.state == "probing" else f"on cooldown for {remaining:.1f} s more"
        yield from self._record(Attempt(target=name, outcome="skipped", error=f"{state}: {health.reason}"))

    def _record_failure(
        self, name: str, error: DragomanError, duration: float, cooldown_before: float | None, now: float
    ) -> Plan[None]:
        self._errors.append(error)
        usage = error.usage or UNKNOWN_USAGE
        reason = _describe(error)
        yield from self._record(Attempt(target=name, outcome="failed", error=reason, duration=duration, usage=usage))
        until = self._health.get(name).until
        if until is not None and until != cooldown_before:
            yield Observe(CooldownStarted(target=name, seconds=until - now, why=reason))

    def _with_attempts(self, error: DragomanError) -> DragomanError:
        error.attempts = tuple(self._attempts)
        if isinstance(error, Interrupted) and error.partial is not None:
            error.partial = replace(error.partial, attempts=error.attempts)
        return error


def _describe(error: DragomanError) -> str:
    return f"{type(error).__name__}: {error.message}"
