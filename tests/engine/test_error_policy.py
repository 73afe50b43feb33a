"""`decide` alone: what happens after an error."""

import pytest

from dragoman.engine.error_policy import Decision, ErrorPolicy, Failure, decide
from dragoman.engine.failover import ChainOptions
from dragoman.errors import BadRequest, DragomanError, Interrupted, Overloaded, RateLimited, Truncated

PASSING = ErrorPolicy(retry=True, fail_over=True, count_failure=True)
ENDING = ErrorPolicy(retry=False, fail_over=False, count_failure=True)


def failure(
    error: DragomanError,
    policy: ErrorPolicy = PASSING,
    *,
    retries: int = 0,
    time_left: float = 60.0,
    is_other_available: bool = True,
    prefers_other: bool = False,
    has_fallback: bool = False,
) -> Failure:
    return Failure(error, policy, retries, 0.25, time_left, is_other_available, prefers_other, has_fallback)


@pytest.mark.parametrize(
    ("failed", "decision"),
    [
        (failure(Overloaded("busy")), Decision("retry", 0.25)),
        (failure(Overloaded("busy"), prefers_other=True), Decision("next", may_come_back=True)),
        (failure(Overloaded("busy"), prefers_other=True, is_other_available=False), Decision("retry", 0.25)),
        (failure(Overloaded("busy"), retries=2), Decision("next")),
        (failure(Overloaded("busy"), time_left=0.1), Decision("next", may_come_back=True)),
        (failure(RateLimited("slow", retry_after=3)), Decision("retry", 3)),
        (failure(RateLimited("slow", retry_after=9)), Decision("next", cooldown=9, may_come_back=True)),
        (failure(RateLimited("slow", retry_after=9), is_other_available=False), Decision("retry", 9)),
        (failure(BadRequest("no"), ENDING), Decision("fail")),
        (failure(BadRequest("no", retry_after=9), ENDING), Decision("fail")),
        (failure(BadRequest("no"), ENDING, has_fallback=True), Decision("next")),
    ],
)
def test_the_outcome_follows_from_the_policy_and_the_rest_of_the_chain(failed: Failure, decision: Decision) -> None:
    assert decide(failed, ChainOptions()) == decision


def broken(cause: Exception | None) -> Interrupted:
    error = Interrupted("the stream broke")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "on_interrupt", "outcome"),
    [
        (Truncated("cut"), "restart", "restart"),
        (None, "restart", "restart"),
        (BadRequest("no", fail_over=False), "restart", "fail"),
        (Truncated("cut"), "fail", "fail"),
    ],
)
def test_a_broken_stream_starts_again_only_if_that_is_allowed_and_may_help(
    cause: Exception | None, on_interrupt: str, outcome: str
) -> None:
    options = ChainOptions(on_interrupt=on_interrupt)  # type: ignore[arg-type]
    assert decide(failure(broken(cause), ENDING, has_fallback=True), options).outcome == outcome
