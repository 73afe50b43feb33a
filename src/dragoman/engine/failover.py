"""A request and some targets in, the first good response out: skip, retry, go on. A plan."""

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
from dragoman.engine.health import Admission, Health
from dragoman.errors import DragomanError, Interrupted, ProviderError, SetupError, TimedOut, Unsupported, redact
from dragoman.events import Restarted
from dragoman.http import MAX_WAIT
from dragoman.media import MediaCache, has_result_media
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Request, Response

Order: TypeAlias = Literal["given", "weighted", "fastest"]
WhenAllCoolingDown: TypeAlias = Literal["fail", "probe"]
OnInterrupt: TypeAlias = Literal["fail", "restart"]
_MIN_COST = 1e-9
"""The cost of a target that is free."""
_NUMBER = (int, float)
_NUMBERS = ("retries", "max_retry_after_with_fallback", "max_retry_after", "backoff", "backoff_cap")


class ErrorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault means for what happens next.

    >>> ErrorPolicy(retry=True, fail_over=True, count_failure=True).fail_over
    True
    """

    retry: bool
    """The same target may do it when asked again."""
    fail_over: bool
    """Another target may do it."""
    count_failure: bool
    """It counts against the target's health."""


class ChainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a chain behaves.

    >>> ChainOptions().retries
    1
    """

    retries: int = 1
    """How often a target is asked again after a transient fault, before the next one is."""
    max_retry_after_with_fallback: float = 5.0
    """A wait that a provider asks for and that is longer than this benches it, where another target is left."""
    max_retry_after: float = 60.0
    """The longest wait that a provider may ask for where no other target is left; more ends the call."""
    backoff: float = 0.25
    backoff_cap: float = 4.0
    fail_over_on_permanent: bool = False
    """Whether a refusal that asking again cannot change (400, 401, 403, 405, 422, blocked) is left to the next one."""
    when_all_cooling_down: WhenAllCoolingDown = "fail"
    on_interrupt: OnInterrupt = "fail"
    """What follows when a stream breaks after events were shown: the error, or another target that starts over."""
    classify: Callable[[DragomanError], ErrorPolicy | None] | None = None
    """The caller's own verdict on a fault; None is the table's."""
    order: Order = "given"
    costs: Mapping[str, float] = {}
    """Relative costs by target, for `weighted`: a target of twice the cost comes first half as often."""
    timeouts: Timeouts = Timeouts()
    fetch_images: bool = False
    """Whether an image by its URL is fetched for a target that cannot do it by itself: https, public addresses only."""

    def __post_init__(self) -> None:
        """Refuse words that mean nothing."""
        for name, words in (
            ("order", Order),
            ("when_all_cooling_down", WhenAllCoolingDown),
            ("on_interrupt", OnInterrupt),
        ):
            if getattr(self, name) not in get_args(words):
                raise SetupError(f"{name}: {getattr(self, name)!r} is none of {', '.join(get_args(words))}")
        for name in _NUMBERS:
            given = getattr(self, name)
            if not isinstance(given, _NUMBER) or not given >= 0:
                raise SetupError(f"{name}: {given!r} is no number from 0 on")


class CooldownStarted(msgspec.Struct, frozen=True, kw_only=True):
    """What observers are told when a target is benched.

    >>> CooldownStarted(target="aa/m", seconds=5.0, why="Overloaded: busy").seconds
    5.0
    """

    target: str
    seconds: float
    why: str


def error_policy(error: DragomanError, options: ChainOptions, /) -> Plan[ErrorPolicy]:
    """The verdict on a fault: the caller's, or what the error itself says.

    >>> plan = error_policy(TimedOut("slow"), ChainOptions())
    >>> try:
    ...     next(plan)
    ... except StopIteration as stop:
    ...     print(stop.value.retry)
    True
    """
    if options.classify is not None and (verdict := (yield from _classified(error, options.classify))) is not None:
        return verdict
    fail_over = error.fail_over or (options.fail_over_on_permanent and isinstance(error, ProviderError))
    return ErrorPolicy(retry=error.retry, fail_over=fail_over, count_failure=error.count_failure)


def _classified(
    error: DragomanError, classify: Callable[[DragomanError], ErrorPolicy | None]
) -> Plan[ErrorPolicy | None]:
    """The caller's own verdict. What their function raises is theirs to mend, and ends the call."""
    outcome = yield from perform(Job(partial(classify, error), is_quick=True))
    if outcome.error is not None:
        why = f"{type(outcome.error).__name__}: {outcome.error}"
        raise SetupError(redact(f"classify= failed at {_told(error)}: {why}")) from outcome.error
    verdict = outcome.value
    if verdict is None or isinstance(verdict, ErrorPolicy):
        return verdict
    raise SetupError(f"classify= gave a {type(verdict).__name__}; give a Verdict, or None for the table's")


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
    """Head to tail: the first target that answers.

    >>> from dragoman.targets.providers import target
    >>> plan = run(Request(), [target("ollama/x")], Health(), ChainOptions())
    >>> next(plan)
    Now()
    """
    return Chain(request, health, options).run(targets)


class Chain:
    """One call: what was tried so far, and until when it may go on.

    >>> Chain(Request(), Health(), ChainOptions()).asked is None
    True
    """

    def __init__(self, request: Request, health: Health, options: ChainOptions, /) -> None:
        self.asked: str | None = None
        """The target that is being asked: whoever leaves the plan alone in the middle may want to know."""
        self._request = request
        self._health = health
        self._options = options
        self._attempts: list[Attempt] = []
        self._errors: list[DragomanError] = []
        self._deadline: float | None = None
        self._interrupted: tuple[Target, Interrupted] | None = None
        self._album = MediaCache()

    def run(self, targets: Sequence[Target], /) -> Plan[Response]:
        """Head to tail: the first target that answers."""
        now: float = yield Now()
        total = self._options.timeouts.total
        self._deadline = None if total is None else now + total
        ordered = [*(targets if self._options.order == "given" else (yield from self._ordered(targets)))]
        for index, target in enumerate(ordered):
            if index:
                now = yield Now()
            admission = self._health.admit(target.name, now)
            if admission is None:
                yield from self._skip(target, now)
                continue
            spare = index >= len(targets)
            response = yield from self._try(target, admission, now, ordered[index + 1 :], spare=spare)
            if response is not None:
                return response
            if not spare and isinstance(self._errors[-1], Unsupported) and has_result_media(self._request):
                # What a tool gave breaks no run: where nobody else takes it, it is asked again without.
                ordered.append(target)
        if ordered and not self._errors and self._options.when_all_cooling_down == "probe":
            target = min(ordered, key=self._until)
            response = yield from self._try(target, self._health.probe(target.name, now), now, ())
            if response is not None:
                return response
        now = yield Now()
        last = self._errors[-1] if self._errors else None
        raise exhausted(self._errors, self._attempts, retry_after=self._retry_after(ordered, now)) from last

    # Order -----------------------------------------------------------------------------------------------------------

    def _ordered(self, targets: Sequence[Target]) -> Plan[Sequence[Target]]:
        if self._options.order == "fastest":
            # One that was never asked comes first, so that it is measured once.
            return sorted(targets, key=lambda target: self._health.condition(target.name).last_latency or 0.0)
        numbers: list[float] = []
        for _ in targets:
            numbers.append((yield Random()))  # noqa: PERF401 - a comprehension cannot yield
        return weighted_order(targets, self._options.costs, numbers)

    # One target ------------------------------------------------------------------------------------------------------

    def _try(
        self, target: Target, admission: Admission, now: float, rest: Sequence[Target], *, spare: bool = False
    ) -> Plan[Response | None]:
        """One target, with retries; None means go on, and what must stop is raised."""
        timeouts = self._options.timeouts
        began, retry = now, 0
        try:
            while True:
                if self._deadline is not None and began >= self._deadline:
                    raise self._too_late((target, *rest))
                self.asked = target.name
                try:
                    context = CallContext(
                        timeouts=timeouts,
                        deadline=self._deadline,
                        media_cache=self._album,
                        fetch_images=self._options.fetch_images,
                        degrade_tool_media=spare,
                        restarted=None if self._interrupted is None else _restarted(target, *self._interrupted),
                    )
                    answer = yield from attempt(self._request, target, context)
                except DragomanError as error:
                    self.asked = None
                    if spare and isinstance(error, Unsupported):
                        return None  # as it said before
                    wait = yield from self._failed(target, error, began, admission, rest, retry)
                else:
                    return (yield from self._served(target, answer, began))
                if wait is None:
                    return None
                yield Sleep(wait)
                if admission == "healthy" and not self._health.condition(target.name).is_healthy:
                    return None  # others have found it ill meanwhile
                retry += 1
                began = yield Now()
        finally:
            self._health.let_go(target.name, admission)

    def _served(self, target: Target, answer: Completed, began: float) -> Plan[Response]:
        response, name = answer.response, target.name
        self._health.served(name, answer.latency)
        entry = Attempt(target=name, outcome="served", duration=answer.ended_at - began, usage=response.usage)
        self._attempts.append(entry)
        yield Observe(entry)
        return replace(response, attempts=tuple(self._attempts))

    def _failed(
        self,
        target: Target,
        error: DragomanError,
        began: float,
        admission: Admission,
        rest: Sequence[Target],
        retry: int,
    ) -> Plan[float | None]:
        """Note a failure: seconds until the same target is tried again, None to go on; what must stop is raised."""
        now: float = yield Now()
        verdict = yield from error_policy(error, self._options)
        before = self._health.condition(target.name).until
        is_benched = verdict.count_failure and self._health.failed(target.name, now, _told(error), admission)
        may_retry = verdict.retry and retry < self._options.retries and not is_benched
        wait = None if error.retry_after is None else min(MAX_WAIT, error.retry_after)
        if wait is not None and (verdict.retry or verdict.fail_over) and not self._bears(wait, now, rest, may_retry):
            self._health.rest(target.name, now + wait, _told(error))
            may_retry = False
        yield from self._note_failure(target, error, now - began, before, now)
        if isinstance(error, Interrupted):
            self._interrupt(target, error)
            return None
        if may_retry and wait is None:
            dice: float = yield Random()
            wait = dice * min(self._options.backoff_cap, self._options.backoff * 2 ** min(retry, 10))
        if may_retry and wait is not None and (self._deadline is None or now + wait < self._deadline):
            return wait
        if not verdict.fail_over:
            raise self._with_receipt(error)
        return None

    def _bears(self, wait: float, now: float, rest: Sequence[Target], may_retry: bool) -> bool:  # noqa: FBT001
        """Whether a wait that a provider asks for is no reason to leave it alone until then."""
        if wait <= self._options.max_retry_after_with_fallback:
            return True
        if not may_retry or any(self._is_open(target, now) for target in rest):
            return False
        return wait <= self._options.max_retry_after and (self._deadline is None or now + wait < self._deadline)

    def _interrupt(self, target: Target, error: Interrupted) -> None:
        cause = error.__cause__
        goes_on = not isinstance(cause, DragomanError) or cause.fail_over
        if self._options.on_interrupt == "fail" or not goes_on:
            raise self._with_receipt(error)
        self._interrupted = target, error

    # What is known ---------------------------------------------------------------------------------------------------

    def _is_open(self, target: Target, now: float) -> bool:
        condition = self._health.condition(target.name)
        return condition.is_healthy or (condition.state == "cooldown" and now >= (condition.until or 0.0))

    def _until(self, target: Target) -> float:
        return self._health.condition(target.name).until or 0.0

    def _retry_after(self, targets: Sequence[Target], now: float) -> float | None:
        """Seconds until the first bench ends, where all are benched; otherwise the least that a provider asked for."""
        if all(not self._health.condition(target.name).is_healthy for target in targets):
            return max(0.0, min(map(self._until, targets), default=now) - now)
        return min((error.retry_after for error in self._errors if error.retry_after is not None), default=None)

    def _too_late(self, rest: Iterable[Target]) -> DragomanError:
        why = f"the deadline of {self._options.timeouts.total} s has passed"
        self._attempts += [Attempt(target=target.name, outcome="skipped", error=why) for target in rest]
        return exhausted([*self._errors, TimedOut(why)], self._attempts, kind=TimedOut)

    # The receipt -----------------------------------------------------------------------------------------------------

    def _skip(self, target: Target, now: float) -> Plan[None]:
        condition = self._health.condition(target.name)
        left = max(0.0, (condition.until or now) - now)
        how = "being probed" if condition.state == "probing" else f"benched for {left:.1f} s more"
        entry = Attempt(target=target.name, outcome="skipped", error=f"{how}: {condition.reason}")
        self._attempts.append(entry)
        yield Observe(entry)

    def _note_failure(
        self, target: Target, error: DragomanError, duration: float, before: float | None, now: float
    ) -> Plan[None]:
        self._errors.append(error)
        usage = error.usage or UNKNOWN_USAGE
        entry = Attempt(target=target.name, outcome="failed", error=_told(error), duration=duration, usage=usage)
        self._attempts.append(entry)
        yield Observe(entry)
        until = self._health.condition(target.name).until
        if until is not None and until != before:
            yield Observe(CooldownStarted(target=target.name, seconds=until - now, why=_told(error)))

    def _with_receipt(self, error: DragomanError) -> DragomanError:
        error.attempts = tuple(self._attempts)
        if isinstance(error, Interrupted) and error.partial is not None:
            error.partial = replace(error.partial, attempts=error.attempts)
        return error


def _restarted(target: Target, left: Target, error: Interrupted) -> Restarted:
    return Restarted(previous=left.name, target=target.name, why=error.message)


def _told(error: DragomanError) -> str:
    return f"{type(error).__name__}: {error.message}"
