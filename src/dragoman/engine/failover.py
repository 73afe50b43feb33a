"""Runs a request against a chain of targets until one answers.

Targets are tried in order. An error says by its policy what happens next: retry the same target after a wait, try the
next one, or end the call. A target on cooldown is skipped while another target can be called. If there is no other, it
is called anyway. Exception: a gateway with `when_all_cooling_down="shed"`. Every try is recorded as an `Attempt`, on
the response and on the error that ends the chain.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from dragoman.engine.attempt import attempt
from dragoman.engine.call_context import AdaptRequest, CallContext, Timeouts
from dragoman.engine.effects import Now, Observe, Plan, Random, Sleep
from dragoman.engine.error_policy import ErrorPolicy, Failure, decide, describe, error_policy
from dragoman.engine.exchange import Completed
from dragoman.engine.exhausted import exhausted, total_usage
from dragoman.engine.health import CooldownStarted, Health, TargetAdmission, TrialLease
from dragoman.engine.plain_call import is_plain, plain_call
from dragoman.engine.routing import chain_routing, error_kind, order_targets
from dragoman.engine.several_answers import several_answers
from dragoman.engine.target_load import LimitState, Loads, wait_for_next_check
from dragoman.engine.uploads import attempt_with_files
from dragoman.errors import AuthFailed, DragomanError, Interrupted, RateLimited, SetupError, TimedOut, Unsupported
from dragoman.events import Restarted
from dragoman.media import MediaCache, has_result_media
from dragoman.targets.connection_options import ConnectionOptions
from dragoman.targets.estimates import prompt_tokens, total_tokens
from dragoman.targets.pools import Affinity, Fallbacks, Order, check_fallbacks
from dragoman.targets.target import Target
from dragoman.types import UNKNOWN_USAGE, Attempt, Opaque, Request, Response
from dragoman.types.base import Amount, WholeNumber, unchecked
from dragoman.types.fast_constructors import served_attempt
from dragoman.types.fields import check_struct
from dragoman.types.structs import SetupStruct

WhenAllCoolingDown: TypeAlias = Literal["try", "shed"]
OnInterrupt: TypeAlias = Literal["fail", "restart"]
MAX_TRIAL_WAIT = 1.0
"""Seconds that a request waits for the result of the trial of another request."""
TRIAL_POLL_INTERVAL = 0.05
"""Seconds between two checks of a running trial."""


class ChainOptions(SetupStruct, frozen=True, kw_only=True):
    """How a chain behaves."""

    retries: WholeNumber = 2
    """How often a target is tried again after an error that may pass. If the target goes on cooldown and another target
    is available, the other target is tried first."""
    max_retry_after_with_fallback: Amount = 5.0
    """Longest Retry-After to wait for while another target is available. If longer, the target goes on cooldown and the
    next one is tried. Also the longest wait for room in a limit."""
    max_retry_after: Amount = 60.0
    """The longest wait that a provider may ask for if no other target is available; a longer one ends the call."""
    backoff: Amount = 0.25
    """Longest wait before the first retry, in seconds; doubled for each further retry."""
    backoff_cap: Amount = 4.0
    """The longest backoff in seconds."""
    fail_over_on_permanent: bool = False
    """Whether to try the next target after errors that a retry cannot change (400, 405, 422, blocked)."""
    when_all_cooling_down: WhenAllCoolingDown = "try"
    """If all targets are on cooldown: `try` them anyway; or `shed` (for gateways): to a target that has failed for some
    time, only one test request at a time is sent; other requests fail at once."""
    on_interrupt: OnInterrupt = "fail"
    """If a stream breaks after events were emitted: fail, or start again with the next target."""
    classify: Callable[[DragomanError], ErrorPolicy | None] | None = None
    """Returns the policy of an error; None for the default policy."""
    order: Order = "in_order"
    """The order of the targets; pools have their own."""
    costs: Mapping[str, Amount] = {}
    """Costs by target, for `weighted` and `cheapest`: a target with double cost is tried first half as often."""
    weights: Mapping[str, Amount] = {}
    """By target, for all orders that share requests: a target of weight 2 comes first twice as often."""
    affinity: Affinity = "none"
    """Which part of two requests must be equal so that they go to the same target and use its prompt cache."""
    fallbacks: Fallbacks = {}
    """By kind of error: the spec to continue with, such as a model with a larger context."""
    timeouts: Timeouts = Timeouts()
    fetch_images: bool = False
    """Whether to fetch images by URL for a target that cannot: https and public addresses only."""
    connection: ConnectionOptions | None = None
    """The key, headers and base URL of the call, if it has its own."""
    call_deltas: bool = False
    """Whether a stream also emits the fragments of tool calls. After the first fragment, no other target is tried."""

    def __post_init__(self) -> None:
        fallbacks: object = self.fallbacks
        if isinstance(fallbacks, list | tuple | str):  # as in LiteLLM
            hint = "to try other targets after any error, write a spec with commas, such as 'openai/gpt-5, xai/grok-4'"
            reason = f"fallbacks must be a dict {{kind of error: spec}}, got {type(fallbacks).__name__}; {hint}"
            raise SetupError(reason, param="fallbacks")
        check_struct(self, SetupError)
        if self.fallbacks:
            check_fallbacks(self.fallbacks)

    @property
    def needs_routing(self) -> bool:
        """Whether there is more to choose than the next target."""
        return self.order != "in_order" or self.affinity != "none" or bool(self.fallbacks)


class _Candidate(msgspec.Struct, eq=False):
    """A target that may still be called in this chain."""

    target: Target
    name: str
    retries: int = 0
    """How often it was tried again."""
    not_before: float | None = None
    """Earliest time of the next attempt (from Retry-After)."""
    without_tool_media: bool = False
    """Whether to send it notes instead of the media in tool results."""
    was_skipped: bool = False
    fallback_of: str | None = None
    """The target whose error led here."""


def run(request: Request, targets: Sequence[Target], health: Health, options: ChainOptions, /) -> Plan[Response]:
    """The response of the first target that answers.

    If none does, it raises the error of the target; if there are several, a `ChainExhausted`.
    """
    if request.n is None:
        return Chain(request, health, options).start(targets)

    def call(request: Request, targets: Sequence[Target], options: ChainOptions) -> Plan[Response]:
        return Chain(request, health, options).start(targets)

    return several_answers(call, request, targets, options)


def _has_fast_path(request: Request, targets: Sequence[Target], options: ChainOptions) -> bool:
    """Whether the fast path can call the first target."""
    if request.stream or not targets or options.needs_routing:
        return False
    first = targets[0]
    return first.pool is None and first.deployment_limits is None and is_plain(request, first, options.timeouts)


class Chain:
    """One call of a chain: the targets that are left, its attempts so far and its deadline."""

    current_target: str | None = None
    """The target of the attempt that is running, for callers that abandon the plan."""
    # `run` sets these: a call that ends on the fast path needs none of them.
    _candidates: list[_Candidate]
    """The targets that are left, without the one that is being tried."""
    _attempts: list[Attempt]
    _errors: list[DragomanError]
    """Those of the failed attempts."""
    _media_cache: MediaCache
    _deadline: float | None = None
    _interrupted: tuple[str, Interrupted] | None = None
    _loads: Loads | None = None
    """How busy the targets are; None if there is nothing to choose or to limit."""
    _tokens: int = 0
    """Tokens of the request, if a limit counts them."""
    _limit_wait: float | None = None
    """Seconds until the first target that is at its limit may have room again."""

    def __init__(
        self, request: Request, health: Health, options: ChainOptions, /, *, adapt: AdaptRequest | None = None
    ) -> None:
        """`adapt` makes the request for each target."""
        self._request = request
        self._health = health
        self._options = options
        self._adapt = adapt

    def start(self, targets: Sequence[Target], /) -> Plan[Response]:
        """Like `run`, but uses the fast path if it can."""
        if self._adapt is not None or not _has_fast_path(self._request, targets, self._options):
            return self.run(targets)
        self.current_target = targets[0].name
        return plain_call(self._request, targets, self._health, self._options.timeouts, self.run)

    def run(
        self, targets: Sequence[Target], failure: DragomanError | None = None, began: float | None = None, /
    ) -> Plan[Response]:
        """The response of the first target that answers.

        A call that began at an earlier moment may have tried the first target: `failure` is the error of that attempt.
        """
        now: float = (yield Now()) if began is None else began
        self._attempts = []
        self._errors = []
        self._media_cache = MediaCache()
        total = self._options.timeouts.total
        self._deadline = None if total is None else now + total
        if len(targets) > 1 or (targets and targets[0].deployment_limits is not None):
            self._loads = self._health.loads
            if any(target.deployment_limits is not None for target in targets):
                self._tokens = prompt_tokens(self._request)
            routing = chain_routing(self._options)
            targets = yield from order_targets(targets, routing, self._request, self._loads, now)
        self._candidates = [_Candidate(target, target.name) for target in targets]
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
                index, admission = yield from self._choose_anyway(now)
            if admission is None:
                break
            response = yield from self._try(self._candidates.pop(index), admission, now)
            if response is not None:
                return response
            now = yield Now()
        now = yield Now()
        error = self._final_error(targets, now)
        raise error from error.__cause__

    # Choosing a target -----------------------------------------------------------------------------------------------

    def _first_admitted(self, now: float) -> tuple[int, TargetAdmission | None]:
        """The index of the first target that may be called, and its admission; None if there is none."""
        for index, candidate in enumerate(self._candidates):
            if self._reached_limit(candidate, now) is not None:
                continue
            admission = self._health.admit(candidate.name, now)
            if admission is not None:
                return index, admission
        return len(self._candidates), None

    def _choose_anyway(self, now: float) -> Plan[tuple[int, TargetAdmission | None]]:
        """A target on cooldown, that which ends first; None if all are disabled or, for a gateway, down.

        If targets are only at a limit, wait for the first that has room.
        """
        if self._loads is not None:
            index, admission = yield from self._wait_for_room(now)
            if admission is not None:
                return index, admission
            now = yield Now()
        ends = [(self._health.cooldown_end(each.name), index) for index, each in enumerate(self._candidates)]
        indexes = [index for _, index in sorted(ends) if self._can_be_called_anyway(self._candidates[index], now)]
        if self._options.when_all_cooling_down == "shed":
            return (yield from self._choose_while_shedding(indexes, now))
        return (indexes[0], "last_resort") if indexes else (0, None)

    def _choose_while_shedding(self, indexes: Sequence[int], now: float) -> Plan[tuple[int, TargetAdmission | None]]:
        """A target that is not down, or that this request may try. If a trial runs, wait shortly for its result."""
        ends_at = now + MAX_TRIAL_WAIT
        while True:
            for index in indexes:
                name = self._candidates[index].name
                admission = self._health.admit_trial(name, now) if self._health.is_down(name) else "last_resort"
                if admission is not None:
                    return index, admission
            is_on_trial = any(self._health.get(self._candidates[index].name).state == "trial" for index in indexes)
            if not is_on_trial or now >= ends_at or not self._is_in_time(now + TRIAL_POLL_INTERVAL):
                return 0, None
            yield Sleep(TRIAL_POLL_INTERVAL)
            now = yield Now()

    def _wait_for_room(self, now: float) -> Plan[tuple[int, TargetAdmission | None]]:
        """The first healthy target whose limit has room again, if that is soon."""
        began, ends_at = now, now + self._options.max_retry_after_with_fallback
        while True:
            healthy = [index for index, each in enumerate(self._candidates) if self._is_available(each.name, now)]
            limits = [(self._reached_limit(self._candidates[index], now), index) for index in healthy]
            for limit, index in limits:
                if limit is None and (admission := self._health.admit(self._candidates[index].name, now)) is not None:
                    return index, admission
            waits = [limit.wait for limit, _ in limits if limit is not None]
            self._limit_wait = min(waits, default=None)
            if self._limit_wait is None or now + self._limit_wait > min(ends_at, self._deadline or ends_at):
                return 0, None
            now = yield from wait_for_next_check(self._limit_wait, now, began)

    def _reached_limit(self, candidate: _Candidate, now: float) -> LimitState | None:
        """The limit that a target has reached."""
        return None if self._loads is None else self._loads.full(candidate.target, now, self._tokens)

    def _can_be_called_anyway(self, candidate: _Candidate, now: float) -> bool:
        """False if an operator disabled it, or if a configured limit is reached.

        Limits that a provider reports are ignored.
        """
        limit = self._reached_limit(candidate, now)
        return (limit is None or limit.is_reported) and not self._health.get(candidate.name).is_disabled

    def _is_another_available(self, now: float) -> bool:
        return any(
            self._is_available(candidate.name, now) and self._reached_limit(candidate, now) is None
            for candidate in self._candidates
        )

    def _is_available(self, name: str, now: float) -> bool:
        health = self._health.get(name)
        return health.is_healthy or (health.state == "cooldown" and now >= (health.until or 0.0))

    # One target ------------------------------------------------------------------------------------------------------

    def _try(
        self, candidate: _Candidate, admission: TargetAdmission, now: float, failure: DragomanError | None = None
    ) -> Plan[Response | None]:
        """Try one target, with retries. None means: try the next one. Raises the errors that end the call.

        `failure` is the error of a first attempt of the fast path.
        """
        name = candidate.name
        next_try: float | None = now
        try:
            if candidate.not_before is not None:
                wait = max(0.0, candidate.not_before - now)
                if wait > self._options.max_retry_after or not self._is_in_time(now + wait):
                    return None
                yield Sleep(wait)
                next_try = yield Now()
            if failure is not None:
                self.current_target = None
                next_try = yield from self._handle_error(candidate, failure, now, admission)
            while next_try is not None:
                began = next_try
                if self._deadline is not None and began >= self._deadline:
                    raise self._deadline_error(candidate)
                self.current_target = name
                try:
                    completed = yield from self._attempt(candidate, began)
                except DragomanError as error:
                    self.current_target = None
                    if candidate.without_tool_media and isinstance(error, Unsupported):
                        return None  # the first attempt has recorded the same error
                    next_try = yield from self._handle_error(candidate, error, began, admission)
                else:
                    if completed is None:
                        self._candidates.append(candidate)
                        return None
                    response = self._complete(name, completed, began)
                    yield Observe(self._attempts[-1])
                    return response
            return None
        finally:
            if isinstance(admission, TrialLease):
                self._health.release_trial(name, admission)

    def _attempt(self, candidate: _Candidate, began: float) -> Plan[Completed | None]:
        """One attempt, counted as a request in progress. None if another request reached the limit first."""
        loads, target = self._loads, candidate.target
        run_attempt = attempt_with_files if _may_have_files_or_cache_points(self._request) else attempt
        if loads is None:
            return (yield from run_attempt(self._request, target, self._call_context(candidate)))
        slot = yield from loads.claim(target, began, self._tokens)
        if slot is None:
            return None
        used: int | None = None
        now = began
        try:
            completed = yield from run_attempt(self._request, target, self._call_context(candidate))
        except DragomanError as error:
            used = 0 if error.usage is None else total_tokens(error.usage)
            raise
        else:
            now, used = completed.ended_at, total_tokens(completed.response.usage)
            if completed.head is not None:
                loads.learn(target.name, completed.head, now, slot)
            loads.record_latency(target.name, now, completed.latency, stream=self._request.stream)
            return completed
        finally:
            loads.end(slot, now, tokens=used)

    def _must_leave(self, candidate: _Candidate, admission: TargetAdmission, now: float) -> bool:
        """Whether another call or an operator has put the target on cooldown during the wait."""
        health = self._health.get(candidate.name)
        if self._reached_limit(candidate, now) is not None:
            return True
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
            degrade_tool_media=candidate.without_tool_media,
            call_deltas=self._options.call_deltas,
            restarted=restarted,
            adapt=self._adapt,
            blocked_is_error="content_filter" in self._fallbacks(candidate),
        )

    def _complete(self, name: str, completed: Completed, began: float) -> Response:
        response = completed.response
        self._health.record_success(name, completed.latency)
        duration = completed.ended_at - began
        self._attempts.append(served_attempt(name, duration, response.usage))
        return unchecked(response, attempts=tuple(self._attempts))

    def _handle_error(
        self, candidate: _Candidate, error: DragomanError, began: float, admission: TargetAdmission
    ) -> Plan[float | None]:
        """Record an error, and do what `decide` decides. Raises the error if it ends the call.

        Returns the moment of the retry, after the wait for it; None means: try the next target.
        """
        now: float = yield Now()
        number: float = yield Random()
        policy = yield from error_policy(error, self._options)
        name, reason, cooldown_before = candidate.name, describe(error), self._health.get(candidate.name).until
        is_other_available = self._is_another_available(now)
        is_on_cooldown = self._count_failure(candidate, error, policy, now, began, admission)
        pool = candidate.target.pool
        has_others_in_pool = pool is not None and any(each.target.pool is pool for each in self._candidates)
        fallback_kind = self._fallback_kind(candidate, error)
        failure = Failure(
            error,
            policy,
            candidate.retries,
            backoff=number * min(self._options.backoff_cap, self._options.backoff * 2 ** min(candidate.retries, 10)),
            time_left=math.inf if self._deadline is None else self._deadline - now,
            is_other_available=is_other_available,
            prefers_other=is_on_cooldown or has_others_in_pool,
            has_fallback=fallback_kind is not None,
        )
        decision = decide(failure, self._options)
        if decision.cooldown is not None:
            candidate.not_before = now + decision.cooldown
            self._health.cool_down(name, candidate.not_before, reason)
        yield from self._record_failure(name, error, now - began, cooldown_before, now)
        match decision.outcome:
            case "retry":
                return (yield from self._wait_for_retry(candidate, decision.wait, admission))
            case "next":
                # Found only now: the search may call functions of the user, which may raise.
                has_new = fallback_kind is not None and self._insert_fallback(candidate, fallback_kind)
                if not has_new and not policy.fail_over:
                    raise self._with_attempts(error)
                self._try_later(candidate, error, may_come_back=decision.may_come_back)
                return None
            case "restart":
                self._interrupted = name, cast("Interrupted", error)
                return None
            case "fail":
                raise self._with_attempts(error)

    def _wait_for_retry(self, candidate: _Candidate, wait: float, admission: TargetAdmission) -> Plan[float | None]:
        """The moment of the retry, after the wait; None if another target must be tried first."""
        yield Sleep(wait)
        candidate.retries += 1
        now: float = yield Now()
        if self._must_leave(candidate, admission, now):
            self._candidates.append(candidate)
            return None
        return now

    def _count_failure(
        self,
        candidate: _Candidate,
        error: DragomanError,
        policy: ErrorPolicy,
        now: float,
        began: float,
        admission: TargetAdmission,
    ) -> bool:
        """Count an error against the health of a target; True if the target is on cooldown because of it."""
        # A refused key belongs to one deployment only. Put it on cooldown, so that later requests do not try it first.
        is_refused_deployment = candidate.target.pool is not None and isinstance(error, AuthFailed)
        if not policy.count_failure and not is_refused_deployment:
            return False
        return self._health.record_failure(candidate.name, now, describe(error), admission, began=began)

    def _fallbacks(self, candidate: _Candidate) -> Fallbacks:
        pool = candidate.target.pool
        return self._options.fallbacks if pool is None or not pool.fallbacks else pool.fallbacks

    def _fallback_kind(self, candidate: _Candidate, error: DragomanError) -> str | None:
        """The kind of error for which a fallback is configured; None for the error of a target that is a fallback."""
        fallbacks = self._fallbacks(candidate)
        return error_kind(error, fallbacks) if fallbacks and candidate.fallback_of is None else None

    def _insert_fallback(self, candidate: _Candidate, kind: str) -> bool:
        """Insert the targets of a fallback at the front; False if all of them were tried before."""
        known = {candidate.name, *(attempt.target for attempt in self._attempts)}
        targets: Sequence[Target] = self._fallbacks(candidate)[kind]()
        new = [_Candidate(each, each.name, fallback_of=candidate.name) for each in targets if each.name not in known]
        names = {each.name for each in new}
        self._candidates[:] = [*new, *(each for each in self._candidates if each.name not in names)]
        return bool(new)

    def _try_later(self, candidate: _Candidate, error: DragomanError, *, may_come_back: bool) -> None:
        """Append the target to the chain again if another attempt can succeed."""
        if may_come_back:
            candidate.retries += 1
            self._candidates.append(candidate)
        elif isinstance(error, Unsupported) and has_result_media(self._request):
            # If no target takes the media of a tool result, the target is tried again at the end without them.
            self._candidates.append(_Candidate(candidate.target, candidate.name, without_tool_media=True))

    # The end ---------------------------------------------------------------------------------------------------------

    def _is_in_time(self, moment: float) -> bool:
        return self._deadline is None or moment < self._deadline

    def _deadline_error(self, candidate: _Candidate) -> DragomanError:
        why = f"the deadline of {self._options.timeouts.total} s has passed"
        known = {attempt.target for attempt in self._attempts}
        not_answered = [each.name for each in (candidate, *self._candidates) if each.name not in known]
        self._attempts += [Attempt(target=name, outcome="skipped", error=why) for name in not_answered]
        error = exhausted([*self._errors, TimedOut(why)], self._attempts, kind=TimedOut)
        return error if not_answered else error.annotate(prefix=f"{why}; ")

    def _final_error(self, targets: Sequence[Target], now: float) -> DragomanError:
        """The error of the target itself if there is only one; otherwise one that names all targets."""
        last = self._errors[-1] if self._errors else None
        if last is not None and len(targets) == 1:
            return self._with_attempts(last.annotate(usage=total_usage(self._errors)))
        kind = (
            RateLimited
            if last is None and targets and all(self._health.is_rate_limited(target.name) for target in targets)
            else None
        )
        if last is None and self._limit_wait is not None:
            kind = RateLimited
        wait = self._retry_after(targets, now)
        error = exhausted(self._errors, self._attempts, retry_after=wait, kind=kind)
        error.__cause__ = last
        is_shed = not self._errors and self._limit_wait is None
        if wait is not None and is_shed and all(self._health.cooldown_end(each.name) - now > wait for each in targets):
            error.annotate(message=f"{error.message}; try again in {wait:g} s: a success ends a cooldown early")
        return error

    def _retry_after(self, targets: Sequence[Target], now: float) -> float | None:
        """Seconds until the first cooldown ends if all targets have one; otherwise the shortest Retry-After."""
        if not self._errors and self._limit_wait is not None:
            return self._limit_wait
        if targets and all(not self._health.get(target.name).is_healthy for target in targets):
            return min(self._health.seconds_until_useful(target.name, now) for target in targets)
        return min((error.retry_after for error in self._errors if error.retry_after is not None), default=None)

    # Attempts --------------------------------------------------------------------------------------------------------

    def _record(self, entry: Attempt) -> Plan[None]:
        self._attempts.append(entry)
        yield Observe(entry)

    def _skip(self, candidates: Sequence[_Candidate], now: float) -> Plan[None]:
        """Record one `skipped` attempt for each target."""
        for candidate in candidates:
            if candidate.was_skipped or candidate.retries:
                continue
            candidate.was_skipped = True
            health = self._health.get(candidate.name)
            if (limit := self._reached_limit(candidate, now)) is not None and health.is_healthy:
                yield from self._record(Attempt(target=candidate.name, outcome="skipped", error=limit.reason))
                continue
            remaining = max(0.0, (health.until or now) - now)
            cooldown = f"on cooldown for {remaining:.1f} s more"
            state = "another request is testing it" if health.state == "trial" else cooldown
            reason = f"{state}: {health.reason}"
            yield from self._record(Attempt(target=candidate.name, outcome="skipped", error=reason))

    def _record_failure(
        self, name: str, error: DragomanError, duration: float, cooldown_before: float | None, now: float
    ) -> Plan[None]:
        self._errors.append(error)
        usage = error.usage or UNKNOWN_USAGE
        reason = describe(error)
        yield from self._record(Attempt(target=name, outcome="failed", error=reason, duration=duration, usage=usage))
        until = self._health.get(name).until
        if until is not None and until != cooldown_before:
            yield Observe(CooldownStarted(target=name, seconds=until - now, why=reason))

    def _with_attempts(self, error: DragomanError) -> DragomanError:
        attempts = tuple(self._attempts)
        if isinstance(error, Interrupted) and error.partial is not None:
            error.annotate(partial=replace(error.partial, attempts=attempts))
        return error.annotate(attempts=attempts)


def _may_have_files_or_cache_points(request: Request) -> bool:
    """Whether a part may be a file, or may have a cache point: both are in its `extra`."""
    if request.system is not None and not isinstance(request.system, str):
        return True
    return any(not isinstance(part, Opaque) and part.extra for message in request.messages for part in message.parts)
