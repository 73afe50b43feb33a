"""Runs a request against a chain of targets until one answers.

Targets are tried in order. An error says by its policy what happens next: retry the same target after a wait, try the
next one, or end the call. A target on cooldown is passed over only while another one may be called; if no other is
left, the call uses it: health chooses between targets and never makes a call fail. Only a gateway may refuse requests
to a target that is down. Every try is recorded as an `Attempt`, on the response and on the error that ends the chain.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.engine.attempt import attempt
from dragoman.engine.call_context import AdaptRequest, CallContext, Timeouts
from dragoman.engine.effects import Job, Now, Observe, Plan, Random, Sleep, perform
from dragoman.engine.exchange import Completed
from dragoman.engine.exhausted import exhausted, total_usage
from dragoman.engine.health import Health, TargetAdmission, TrialLease
from dragoman.engine.plain_call import is_plain, plain_call
from dragoman.errors import (
    DragomanError,
    Interrupted,
    ProviderError,
    RateLimited,
    SetupError,
    TimedOut,
    Unsupported,
    redact,
)
from dragoman.events import Restarted
from dragoman.http import MAX_WAIT
from dragoman.media import MediaCache, has_result_media
from dragoman.targets.connection import ConnectionOptions
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Request, Response
from dragoman.types.base import Amount, WholeNumber
from dragoman.types.fields import check_struct
from dragoman.types.parameters import NamedParameters

Order: TypeAlias = Literal["in_order", "weighted", "fastest"]
WhenAllCoolingDown: TypeAlias = Literal["try", "shed"]
OnInterrupt: TypeAlias = Literal["fail", "restart"]
_MIN_COST = 1e-9
"""The cost of a target that is free."""
MAX_TRIAL_WAIT = 1.0
"""Seconds that a request waits for the result of the trial of another request."""
TRIAL_CHECK = 0.05
"""Seconds from one look at a trial to the next."""


class ErrorPolicy(msgspec.Struct, metaclass=NamedParameters, frozen=True, kw_only=True):
    """What happens after an error."""

    retry: bool
    """Whether to try the same target again."""
    fail_over: bool
    """Whether to try the next target."""
    count_failure: bool
    """Whether it counts against the target's health."""

    def __post_init__(self) -> None:
        check_struct(self, SetupError)


class ChainOptions(msgspec.Struct, metaclass=NamedParameters, frozen=True, kw_only=True):
    """How a chain behaves.

    >>> ChainOptions().retries
    2
    """

    retries: WholeNumber = 2
    """How often a target is tried again after an error that may pass. If it goes on cooldown and another target may be
    called, that one is tried first."""
    max_retry_after_with_fallback: Amount = 5.0
    """If a provider asks for a longer wait, put it on cooldown and try the next target."""
    max_retry_after: Amount = 60.0
    """The longest wait that a provider may ask for if no other target is available; a longer one ends the call."""
    backoff: Amount = 0.25
    backoff_cap: Amount = 4.0
    fail_over_on_permanent: bool = False
    """Whether to try the next target after errors that a retry cannot change (400, 405, 422, blocked)."""
    when_all_cooling_down: WhenAllCoolingDown = "try"
    """If all targets are on cooldown: try them anyway; or, for a gateway, shed load while they are down. Then one
    request at a time tries a target that had nothing but failures for a while, and the others fail at once."""
    on_interrupt: OnInterrupt = "fail"
    """If a stream breaks after events were emitted: fail, or start again with the next target."""
    classify: Callable[[DragomanError], ErrorPolicy | None] | None = None
    """Returns the policy of an error; None for the default policy."""
    order: Order = "in_order"
    costs: Mapping[str, Amount] = {}
    """Relative costs by target, for `weighted`: a target of twice the cost comes first half as often."""
    timeouts: Timeouts = Timeouts()
    fetch_images: bool = False
    """Whether to fetch images by URL for a target that cannot: https and public addresses only."""
    connection: ConnectionOptions | None = None
    """The key, headers and base URL of the call, if it has its own."""
    call_deltas: bool = False
    """Whether a stream also emits the fragments of tool calls. After the first fragment, no other target is tried."""

    def __post_init__(self) -> None:
        check_struct(self, SetupError)


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


class _Candidate(msgspec.Struct, eq=False):
    """A target that may still be called in this chain."""

    target: Target
    name: str
    retries: int = 0
    """How often it was tried again."""
    not_before: float | None = None
    """Until when its provider asked this call to wait."""
    degrade: bool = False
    """Whether to send it notes instead of the media in tool results."""
    was_skipped: bool = False


def run(request: Request, targets: Sequence[Target], health: Health, options: ChainOptions, /) -> Plan[Response]:
    """The response of the first target that answers.

    If none does, it raises the error of the target; if there are several, a `ChainExhausted`.
    """
    if request.stream or not targets or options.order != "in_order":
        return Chain(request, health, options).run(targets)
    if not is_plain(request, targets[0], options.timeouts):
        return Chain(request, health, options).run(targets)
    return plain_call(
        request,
        targets[0],
        health,
        options.timeouts,
        lambda error, began: Chain(request, health, options).run(targets, error, began),
    )


class Chain:
    """One call of a chain: the targets that are left, its attempts so far and its deadline."""

    def __init__(
        self, request: Request, health: Health, options: ChainOptions, /, *, adapt: AdaptRequest | None = None
    ) -> None:
        """`adapt` makes the request for each target."""
        self.current_target: str | None = None
        """The target of the attempt that is running, for callers that abandon the plan."""
        self._request = request
        self._health = health
        self._options = options
        self._adapt = adapt
        self._candidates: list[_Candidate] = []
        """The targets that are left, without the one that is being tried."""
        self._attempts: list[Attempt] = []
        self._errors: list[DragomanError] = []
        self._deadline: float | None = None
        self._interrupted: tuple[str, Interrupted] | None = None
        self._media_cache = MediaCache()

    def run(
        self, targets: Sequence[Target], failure: DragomanError | None = None, began: float | None = None, /
    ) -> Plan[Response]:
        """The response of the first target that answers.

        A call that began at an earlier moment may have tried the first target: `failure` is the error of that attempt.
        """
        now: float = (yield Now()) if began is None else began
        total = self._options.timeouts.total
        self._deadline = None if total is None else now + total
        ordered = targets if self._options.order == "in_order" else (yield from self._order(targets))
        self._candidates = [_Candidate(target, target.name) for target in ordered]
        if failure is not None:
            response = yield from self._try(self._candidates.pop(0), "healthy", now, failure)
            if response is not None:
                return response
            now = yield Now()
        while self._candidates:
            index, admission = self._first_admitted(now)
            if index:
                yield from self._skip(self._candidates[:index], now)
            if admission is None:
                index, admission = yield from self._last_resort(now)
            if admission is None:
                break
            response = yield from self._try(self._candidates.pop(index), admission, now)
            if response is not None:
                return response
            now = yield Now()
        now = yield Now()
        error = self._final_error(targets, now)
        raise error from error.__cause__

    def _order(self, targets: Sequence[Target]) -> Plan[Sequence[Target]]:
        if self._options.order == "fastest":
            # A target without a latency comes first, so that it gets one.
            return sorted(targets, key=lambda target: self._health.get(target.name).last_latency or 0.0)
        numbers: list[float] = []
        for _ in targets:
            numbers.append((yield Random()))  # noqa: PERF401 - a comprehension cannot yield
        return weighted_order(targets, self._options.costs, numbers)

    # Choosing a target -----------------------------------------------------------------------------------------------

    def _first_admitted(self, now: float) -> tuple[int, TargetAdmission | None]:
        """The index of the first target that may be called, and its admission; None if there is none."""
        for index, candidate in enumerate(self._candidates):
            admission = self._health.admit(candidate.name, now)
            if admission is not None:
                return index, admission
        return len(self._candidates), None

    def _last_resort(self, now: float) -> Plan[tuple[int, TargetAdmission | None]]:
        """A target on cooldown, that which ends first; None if all are disabled or, for a gateway, down."""
        ends = [(self._cooldown_end(candidate.name), index) for index, candidate in enumerate(self._candidates)]
        indexes = [index for _, index in sorted(ends) if not self._is_disabled(self._candidates[index])]
        if self._options.when_all_cooling_down == "shed":
            return (yield from self._shed(indexes, now))
        return (indexes[0], "last_resort") if indexes else (0, None)

    def _shed(self, indexes: Sequence[int], now: float) -> Plan[tuple[int, TargetAdmission | None]]:
        """A target that is not down, or that this request may try. If a trial runs, wait shortly for its result."""
        ends_at = now + MAX_TRIAL_WAIT
        while True:
            for index in indexes:
                name = self._candidates[index].name
                admission = self._health.admit_trial(name, now) if self._health.is_down(name) else "last_resort"
                if admission is not None:
                    return index, admission
            is_on_trial = any(self._health.get(self._candidates[index].name).state == "trial" for index in indexes)
            if not is_on_trial or now >= ends_at or not self._is_in_time(now + TRIAL_CHECK):
                return 0, None
            yield Sleep(TRIAL_CHECK)
            now = yield Now()

    def _is_disabled(self, candidate: _Candidate) -> bool:
        return self._health.get(candidate.name).is_disabled

    def _is_another_available(self, now: float) -> bool:
        return any(self._is_available(candidate.name, now) for candidate in self._candidates)

    def _is_available(self, name: str, now: float) -> bool:
        health = self._health.get(name)
        return health.is_healthy or (health.state == "cooldown" and now >= (health.until or 0.0))

    def _cooldown_end(self, name: str) -> float:
        return self._health.get(name).until or 0.0

    # One target ------------------------------------------------------------------------------------------------------

    def _try(
        self, candidate: _Candidate, admission: TargetAdmission, now: float, failure: DragomanError | None = None
    ) -> Plan[Response | None]:
        """Try one target, with retries. None means: try the next one. Raises the errors that end the call.

        `failure` is the error of a first attempt that was made already.
        """
        name, began = candidate.name, now
        try:
            if candidate.not_before is not None:
                wait = max(0.0, candidate.not_before - now)
                if wait > self._options.max_retry_after or not self._is_in_time(now + wait):
                    return None
                yield Sleep(wait)
                began = yield Now()
            while True:
                if self._deadline is not None and began >= self._deadline:
                    raise self._deadline_error(candidate)
                self.current_target = name
                failed, failure = failure, None
                try:
                    if failed is not None:
                        raise failed
                    completed = yield from attempt(self._request, candidate.target, self._call_context(candidate))
                except DragomanError as error:
                    self.current_target = None
                    if candidate.degrade and isinstance(error, Unsupported):
                        return None  # the first attempt has recorded the same error
                    backoff = yield from self._handle_error(candidate, error, began, admission)
                else:
                    response = self._complete(name, completed, began)
                    yield Observe(self._attempts[-1])
                    return response
                if backoff is None:
                    return None
                yield Sleep(backoff)
                candidate.retries += 1
                began = yield Now()
                if self._must_leave(candidate, admission, began):
                    self._candidates.append(candidate)
                    return None
        finally:
            if isinstance(admission, TrialLease):
                self._health.release_trial(name, admission)

    def _must_leave(self, candidate: _Candidate, admission: TargetAdmission, now: float) -> bool:
        """Whether another call or an operator has put the target on cooldown during the wait."""
        health = self._health.get(candidate.name)
        if health.is_healthy:
            return False
        return health.is_disabled or (admission == "healthy" and self._is_another_available(now))

    def _call_context(self, candidate: _Candidate) -> CallContext:
        restarted = None
        if self._interrupted is not None:
            previous, error = self._interrupted
            restarted = Restarted(previous=previous, target=candidate.name, why=error.message)
        return CallContext(
            timeouts=self._options.timeouts,
            deadline=self._deadline,
            media_cache=self._media_cache,
            fetch_images=self._options.fetch_images,
            degrade_tool_media=candidate.degrade,
            call_deltas=self._options.call_deltas,
            restarted=restarted,
            adapt=self._adapt,
        )

    def _complete(self, name: str, completed: Completed, began: float) -> Response:
        response = completed.response
        self._health.record_success(name, completed.latency)
        duration = completed.ended_at - began
        self._attempts.append(Attempt(target=name, outcome="served", duration=duration, usage=response.usage))
        return replace(response, attempts=tuple(self._attempts))

    def _handle_error(
        self, candidate: _Candidate, error: DragomanError, began: float, admission: TargetAdmission
    ) -> Plan[float | None]:
        """Record an error. Seconds until the retry, or None to try the next target; raises if the call must end."""
        now: float = yield Now()
        policy = yield from error_policy(error, self._options)
        name, reason, cooldown_before = candidate.name, _describe(error), self._health.get(candidate.name).until
        may_retry = policy.retry and candidate.retries < self._options.retries
        is_another_available = policy.fail_over and self._is_another_available(now)
        is_cooling_down = policy.count_failure and self._health.record_failure(
            name, now, reason, admission, began=began
        )
        may_stay = may_retry and not (is_cooling_down and is_another_available)
        wait = None if error.retry_after is None else min(MAX_WAIT, error.retry_after)
        if (
            wait is not None
            and (policy.retry or policy.fail_over)
            and not self._may_wait(wait, now, is_last=may_stay and not is_another_available)
        ):
            self._health.cool_down(name, now + wait, reason)
            candidate.not_before = now + wait
            may_stay = False
        yield from self._record_failure(name, error, now - began, cooldown_before, now)
        if isinstance(error, Interrupted):
            self._interrupt(name, error)
            return None
        if may_stay and wait is None:
            number: float = yield Random()
            wait = number * min(self._options.backoff_cap, self._options.backoff * 2 ** min(candidate.retries, 10))
        if may_stay and wait is not None and self._is_in_time(now + wait):
            return wait
        if not policy.fail_over:
            raise self._with_attempts(error)
        self._try_later(candidate, error, may_retry=may_retry and is_another_available)
        return None

    def _try_later(self, candidate: _Candidate, error: DragomanError, *, may_retry: bool) -> None:
        """Put a target at the end of the chain again, if it may then answer."""
        if may_retry:
            candidate.retries += 1
            self._candidates.append(candidate)
        elif isinstance(error, Unsupported) and has_result_media(self._request):
            # If no target takes the media of a tool result, the target is tried again at the end without them.
            self._candidates.append(_Candidate(candidate.target, candidate.name, degrade=True))

    def _may_wait(self, wait: float, now: float, *, is_last: bool) -> bool:
        """Whether to wait out Retry-After here instead of putting the target on cooldown."""
        if is_last:
            return wait <= self._options.max_retry_after and self._is_in_time(now + wait)
        return wait <= self._options.max_retry_after_with_fallback

    def _interrupt(self, name: str, error: Interrupted) -> None:
        cause = error.__cause__
        may_restart = not isinstance(cause, DragomanError) or cause.fail_over
        if self._options.on_interrupt == "fail" or not may_restart:
            raise self._with_attempts(error)
        self._interrupted = name, error

    # The end ---------------------------------------------------------------------------------------------------------

    def _is_in_time(self, moment: float) -> bool:
        return self._deadline is None or moment < self._deadline

    def _deadline_error(self, candidate: _Candidate) -> DragomanError:
        why = f"the deadline of {self._options.timeouts.total} s has passed"
        untried = (candidate, *(other for other in self._candidates if not other.retries and not other.was_skipped))
        self._attempts += [Attempt(target=each.name, outcome="skipped", error=why) for each in untried]
        return exhausted([*self._errors, TimedOut(why)], self._attempts, kind=TimedOut)

    def _final_error(self, targets: Sequence[Target], now: float) -> DragomanError:
        """The error of the target itself if there is only one; otherwise one that names all targets."""
        last = self._errors[-1] if self._errors else None
        if last is not None and len(targets) == 1:
            return self._with_attempts(last.annotate(usage=total_usage(self._errors)))
        kind = RateLimited if last is None and targets and all(map(self._is_rate_limited, targets)) else None
        error = exhausted(self._errors, self._attempts, retry_after=self._retry_after(targets, now), kind=kind)
        error.__cause__ = last
        return error

    def _retry_after(self, targets: Sequence[Target], now: float) -> float | None:
        """Seconds until the first cooldown ends if all targets have one; otherwise the shortest Retry-After."""
        if targets and all(not self._health.get(target.name).is_healthy for target in targets):
            return min(self._seconds_left(target, now) for target in targets)
        return min((error.retry_after for error in self._errors if error.retry_after is not None), default=None)

    def _seconds_left(self, target: Target, now: float) -> float:
        """Seconds until it makes sense to try a target again. Long cooldowns are only a guess, and end at a success."""
        seconds = max(0.0, self._cooldown_end(target.name) - now)
        is_known = self._health.get(target.name).is_disabled or self._is_rate_limited(target)
        return seconds if is_known else min(seconds, self._health.policy.base)

    def _is_rate_limited(self, target: Target) -> bool:
        health = self._health.get(target.name)
        return not health.is_disabled and (health.last_error or "").startswith(RateLimited.__name__)

    # Attempts --------------------------------------------------------------------------------------------------------

    def _record(self, entry: Attempt) -> Plan[None]:
        self._attempts.append(entry)
        yield Observe(entry)

    def _skip(self, candidates: Sequence[_Candidate], now: float) -> Plan[None]:
        """Record that targets are passed over, once for each."""
        for candidate in candidates:
            if candidate.was_skipped or candidate.retries:
                continue
            candidate.was_skipped = True
            health = self._health.get(candidate.name)
            remaining = max(0.0, (health.until or now) - now)
            state = "being tried" if health.state == "trial" else f"on cooldown for {remaining:.1f} s more"
            reason = f"{state}: {health.reason}"
            yield from self._record(Attempt(target=candidate.name, outcome="skipped", error=reason))

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
        attempts = tuple(self._attempts)
        if isinstance(error, Interrupted) and error.partial is not None:
            error.annotate(partial=replace(error.partial, attempts=attempts))
        return error.annotate(attempts=attempts)


def _describe(error: DragomanError) -> str:
    return f"{type(error).__name__}: {error.message}"
