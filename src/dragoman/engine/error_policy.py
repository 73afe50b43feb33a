"""What happens after an error: a retry, the next target, or the end of the call. `decide` decides it, for chains."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from dragoman.engine.effects import Job, Plan, perform
from dragoman.errors import DragomanError, Interrupted, ProviderError, SetupError, redact
from dragoman.http import MAX_WAIT
from dragoman.types.structs import SetupStruct

if TYPE_CHECKING:
    from dragoman.engine.failover import ChainOptions


class ErrorPolicy(SetupStruct, frozen=True, kw_only=True):
    """What happens after an error."""

    retry: bool
    """Whether to try the same target again."""
    fail_over: bool
    """Whether to try the next target."""
    count_failure: bool
    """Whether it counts against the target's health."""


class Failure(NamedTuple):
    """What a chain knows of an attempt that failed."""

    error: DragomanError
    policy: ErrorPolicy
    retries: int
    """How often the target was tried again before."""
    backoff: float
    """Seconds to wait before a retry, unless the error has a Retry-After."""
    time_left: float
    """Seconds until the deadline of the call."""
    is_other_available: bool
    """Whether another target of the chain can be called now."""
    prefers_other: bool
    """Whether another available target is tried before a retry: this one is on cooldown, or its pool has more."""
    has_fallback: bool
    """Whether targets are configured to continue with after this error."""


class Decision(NamedTuple):
    """What to do after an error."""

    outcome: Literal["retry", "next", "restart", "fail"]
    """Retry the target, try the next one, start the broken stream again with the next one, or raise the error."""
    wait: float = 0.0
    """Seconds until the retry."""
    cooldown: float | None = None
    """The Retry-After in seconds, if it is too long to wait for."""
    may_come_back: bool = False
    """With "next": whether the target is tried again after the others."""


def decide(failure: Failure, options: "ChainOptions", /) -> Decision:
    """What to do after an error.

    >>> from dragoman.engine.failover import ChainOptions
    >>> from dragoman.errors import RateLimited
    >>> error, policy = RateLimited("slow", retry_after=9), ErrorPolicy(retry=True, fail_over=True, count_failure=True)
    >>> others = {"is_other_available": True, "prefers_other": False, "has_fallback": False}
    >>> decide(Failure(error, policy, retries=0, backoff=0.2, time_left=60.0, **others), ChainOptions())
    Decision(outcome='next', wait=0.0, cooldown=9, may_come_back=True)
    """
    error, policy = failure.error, failure.policy
    may_retry = policy.retry and failure.retries < options.retries
    has_other = policy.fail_over and failure.is_other_available
    may_stay = may_retry and not (failure.prefers_other and has_other)
    wait, cooldown = failure.backoff, None
    if error.retry_after is not None:
        wait = min(MAX_WAIT, error.retry_after)
        is_last = may_stay and not has_other
        longest = options.max_retry_after if is_last else options.max_retry_after_with_fallback
        is_too_long = wait > longest or (is_last and wait >= failure.time_left)
        cooldown = wait if is_too_long and (policy.retry or policy.fail_over) else None
    if isinstance(error, Interrupted):
        return Decision("restart" if _may_restart(error, options) else "fail", cooldown=cooldown)
    if may_stay and cooldown is None and wait < failure.time_left:
        return Decision("retry", wait)
    if policy.fail_over or failure.has_fallback:
        return Decision("next", cooldown=cooldown, may_come_back=may_retry and has_other)
    return Decision("fail", cooldown=cooldown)


def _may_restart(error: Interrupted, options: "ChainOptions") -> bool:
    """Whether a broken stream may start again with another target, which would not fail in the same way."""
    cause = error.__cause__
    return options.on_interrupt == "restart" and (not isinstance(cause, DragomanError) or cause.fail_over)


def error_policy(error: DragomanError, options: "ChainOptions", /) -> Plan[ErrorPolicy]:
    """The policy of an error: that of `classify`, or the default of its class."""
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
        raise SetupError(redact(f"classify failed for {describe(error)}: {reason}")) from result.error
    policy = result.value
    if policy is None or isinstance(policy, ErrorPolicy):
        return policy
    raise SetupError(f"classify must return an ErrorPolicy or None, got {type(policy).__name__}")


def describe(error: DragomanError, /) -> str:
    """The class and the message of an error."""
    return f"{type(error).__name__}: {error.message}"
