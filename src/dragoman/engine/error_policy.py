"""What happens after an error: a retry, the next target, or the end of the call."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from dragoman.engine.effects import Job, Plan, perform
from dragoman.errors import DragomanError, ProviderError, SetupError, redact
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


class Decision(NamedTuple):
    """What to do after an error: retry the target, try the next one, or fail unless the target has fallbacks."""

    outcome: Literal["retry", "next", "fail"]
    seconds: float = 0.0
    """Until the retry."""
    cooldown: float | None = None
    """The Retry-After in seconds, if it is too long to wait for."""


def decide(
    error: DragomanError,
    policy: ErrorPolicy,
    options: "ChainOptions",
    backoff: float,
    time_left: float,
    /,
    *,
    may_stay: bool,
    has_other: bool,
) -> Decision:
    """What to do after an error.

    `may_stay`: the target may be tried again. `has_other`: another target is available.

    >>> from dragoman.engine.failover import ChainOptions
    >>> from dragoman.errors import RateLimited
    >>> policy = ErrorPolicy(retry=True, fail_over=True, count_failure=True)
    >>> decide(RateLimited("slow", retry_after=9), policy, ChainOptions(), 0.2, 60.0, may_stay=True, has_other=True)
    Decision(outcome='next', seconds=0.0, cooldown=9)
    """
    leave: Literal["next", "fail"] = "next" if policy.fail_over else "fail"
    wait = backoff
    if error.retry_after is not None:
        wait = min(MAX_WAIT, error.retry_after)
        is_last = may_stay and not has_other
        longest = options.max_retry_after if is_last else options.max_retry_after_with_fallback
        is_too_long = wait > longest or (is_last and wait >= time_left)
        if is_too_long and (policy.retry or policy.fail_over):
            return Decision(leave, cooldown=wait)
    return Decision("retry", wait) if may_stay and wait < time_left else Decision(leave)


def error_policy(error: DragomanError, options: "ChainOptions", /) -> Plan[ErrorPolicy]:
    """The policy of an error: that of `classify`, or the default of its class.

    >>> from dragoman.engine.failover import ChainOptions
    >>> from dragoman.errors import TimedOut
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
        raise SetupError(redact(f"classify failed for {describe(error)}: {reason}")) from result.error
    policy = result.value
    if policy is None or isinstance(policy, ErrorPolicy):
        return policy
    raise SetupError(f"classify must return an ErrorPolicy or None, got {type(policy).__name__}")


def describe(error: DragomanError, /) -> str:
    """The class and the message of an error."""
    return f"{type(error).__name__}: {error.message}"
