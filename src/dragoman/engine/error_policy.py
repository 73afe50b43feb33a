"""What happens after an error: a retry, the next target, or the end of the call."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from dragoman.engine.effects import Job, Plan, perform
from dragoman.errors import DragomanError, ProviderError, SetupError, redact
from dragoman.types.fields import check_struct
from dragoman.types.parameters import NamedParameters

if TYPE_CHECKING:
    from dragoman.engine.failover import ChainOptions


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
