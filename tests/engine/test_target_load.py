from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.engine.effects import Claim
from dragoman.engine.target_load import LATENCY_TTL, MAX_TARGETS, LimitState, Loads, Slot, Window
from dragoman.http import Head
from dragoman.targets.pools import DeploymentLimits
from dragoman.targets.target import Target
from tests.support.plans import target


def limited(**limits: int) -> Target:
    return target("aa/m", deployment_limits=DeploymentLimits(**limits))


def start(loads: Loads, to: Target, now: float = 0.0, tokens: int = 0) -> Slot:
    slot = loads.start(to, now, tokens)
    assert slot is not None
    return slot


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 5)), max_size=60), st.integers(5, 20))
def test_no_period_of_a_minute_has_more_than_the_limit(steps: list[tuple[float, int]], limit: int) -> None:
    window, now = Window(), 0.0
    used: deque[tuple[float, int]] = deque()
    for pause, amount in steps:
        now += pause
        wait = window.wait(now, amount, limit)
        now += wait
        assert window.wait(now, amount, limit) == 0.0
        window.add(now, amount)
        used.append((now, amount))
        assert sum(size for moment, size in used if moment > now - 60.0) <= limit


def test_a_request_that_is_larger_than_the_limit_may_start_alone() -> None:
    assert Window().wait(0.0, 100, 5) == 0.0


def test_requests_in_progress_are_counted_and_limited() -> None:
    loads, to = Loads(), limited(concurrent=2)
    first, _ = start(loads, to), start(loads, to)
    assert loads.in_progress("aa/m") == 2
    assert loads.start(to, 0.0, 0) is None
    full = loads.full(to, 0.0, 0)
    assert full is not None
    assert full.reason == "it has 2 requests in progress, which is its limit"
    loads.end(first, 1.0)
    assert loads.full(to, 1.0, 0) is None


def test_processes_share_a_limit() -> None:
    loads, to = Loads(), limited(concurrent=5)
    loads.processes = 4
    start(loads, to)
    assert loads.full(to, 0.0, 0) is not None


def test_a_limit_per_minute_says_how_long_it_is_used_up() -> None:
    loads, to = Loads(), limited(requests_per_minute=1)
    start(loads, to, 10.0)
    full = loads.full(to, 20.0, 0)
    assert full is not None
    assert (full.wait, full.is_reported) == (51.0, False)
    assert full.reason == "its limit of 1 requests per minute is used up for 51.0 s more"
    assert loads.full(to, 71.0, 0) is None


def test_tokens_are_corrected_when_the_usage_is_known() -> None:
    loads, to = Loads(), limited(tokens_per_minute=100)
    slot = start(loads, to, 0.0, 60)
    assert loads.full(to, 0.0, 50) is not None
    loads.end(slot, 1.0, tokens=20)
    assert loads.full(to, 1.0, 50) is None
    assert loads.full(to, 1.0, 90) is not None


HEADERS = {
    "x-ratelimit-remaining-requests": "1",
    "x-ratelimit-reset-requests": "6s",
    "x-ratelimit-limit-requests": "100",
}


def test_limits_are_learnt_from_headers() -> None:
    loads, to = Loads(), target("aa/m")
    loads.learn("aa/m", Head(status=200, headers=HEADERS), 10.0, start(loads, to))
    assert loads.full(to, 10.0, 0) is None
    start(loads, to, 11.0)
    full = loads.full(to, 12.0, 0)
    assert full is not None
    assert (full.wait, full.is_reported) == (4.0, True)
    assert loads.full(to, 16.0, 0) is None


def test_requests_that_started_later_are_not_counted_by_the_provider() -> None:
    loads, to = Loads(), target("aa/m")
    slot = start(loads, to)
    start(loads, to)
    loads.learn("aa/m", Head(status=200, headers=HEADERS), 1.0, slot)
    assert loads.full(to, 1.0, 0) is not None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        (
            {
                "Date": "Wed, 18 Nov 2026 10:00:00 GMT",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-18T10:00:30Z",
            },
            30.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0"}, 60.0),
        ({"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "12.5"}, 12.5),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, 7.0),
    ],
)
def test_the_forms_of_several_providers_are_read(headers: dict[str, str], wait: float) -> None:
    loads, to = Loads(), target("aa/m")
    loads.learn("aa/m", Head(status=200, headers=headers), 0.0, start(loads, to))
    full = loads.full(to, 0.0, 10)
    assert full is not None
    assert full.wait == wait


@pytest.mark.parametrize("headers", [{}, {"x-ratelimit-remaining-requests": "many"}, {"remaining": "0"}])
def test_other_headers_are_ignored(headers: dict[str, str]) -> None:
    loads, to = Loads(), target("aa/m")
    loads.learn("aa/m", Head(status=200, headers=headers), 0.0, start(loads, to))
    assert loads.full(to, 0.0, 10) is None


def test_the_latency_is_the_median_of_the_recent_answers() -> None:
    loads = Loads()
    for moment, seconds in ((0.0, 9.0), (50.0, 1.0), (60.0, 3.0), (61.0, 2.0)):
        loads.record_latency("aa/m", moment, seconds, stream=True)
    assert loads.latency("aa/m", 61.0, stream=True) == 2.0
    assert loads.latency("aa/m", 61.0, stream=False) is None
    assert loads.latency("aa/m", 61.0 + LATENCY_TTL, stream=True) is None
    assert loads.latency("bb/m", 0.0, stream=True) is None


def test_the_number_of_targets_is_bounded() -> None:
    loads = Loads()
    busy = start(loads, target("busy/m"))
    for number in range(MAX_TARGETS + 5):
        loads.end(start(loads, target(f"aa/{number}")), 0.0)
    assert loads.in_progress("busy/m") == 1
    loads.end(busy, 0.0)
    assert len(loads.snapshot()) <= MAX_TARGETS


# Limits that processes share ------------------------------------------------------------------------------------------


class Room:
    """The room that another place gave a request."""

    def __init__(self) -> None:
        self.ended: list[int | None] = []

    def end(self, tokens: int | None, /) -> None:
        self.ended.append(tokens)


def claim(loads: Loads, to: Target, answer: Room | LimitState | None, tokens: int = 7) -> Slot | None:
    plan = loads.claim(to, 0.0, tokens)
    assert next(plan) == Claim(to, tokens)
    with pytest.raises(StopIteration) as stop:
        plan.send(answer)
    slot: Slot | None = stop.value.value
    return slot


def test_the_tokens_of_a_request_are_charged_to_the_shared_limit() -> None:
    loads, room = Loads(), Room()
    slot = claim(loads, limited(requests_per_minute=1), room)
    assert slot is not None
    loads.end(slot, 1.0, tokens=3)
    assert room.ended == [3]


def test_without_shared_limits_a_process_counts_for_itself() -> None:
    loads, to = Loads(), limited(requests_per_minute=1)
    assert claim(loads, to, None) is not None
    assert loads.start(to, 0.0, 0) is None


def test_a_request_without_room_is_not_counted_and_the_target_is_passed_over_until_there_is_some() -> None:
    loads, to = Loads(), limited(requests_per_minute=1, tokens_per_minute=10)
    loads.learn(to.name, Head(status=200, headers={"x-ratelimit-remaining-requests": "1"}), 0.0)
    assert claim(loads, to, LimitState(20.0, "its limit is used up")) is None
    assert loads.in_progress(to.name) == 0
    assert loads.full(to, 5.0, 1) == LimitState(15.0, "its limit is used up")
    assert loads.full(to, 20.0, 10) is None


def test_a_call_that_ends_while_it_asks_for_room_leaves_nothing() -> None:
    loads, to = Loads(), limited(concurrent=1)
    plan = loads.claim(to, 0.0, 0)
    next(plan)
    plan.close()
    assert loads.full(to, 0.0, 0) is None


def test_a_target_without_limits_claims_no_room() -> None:
    with pytest.raises(StopIteration):
        next(Loads().claim(target("aa/m"), 0.0, 0))
