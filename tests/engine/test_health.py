import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.engine.health import Health, LocalHealthStore, TargetAdmission, TargetHealth, TrialLease
from dragoman.errors import SetupError
from dragoman.targets.health_policy import HealthPolicy

COOLDOWNS = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def on_cooldown(now: float = 0.0) -> Health:
    health = Health()
    health.record_failure("aa/m", now, "one")
    assert health.record_failure("aa/m", now, "two")
    return health


def test_one_failure_does_not_bench() -> None:
    health = Health()
    assert not health.record_failure("aa/m", 0.0, "busy")
    assert health.admit("aa/m", 0.0) == "healthy"


def test_two_failures_in_a_row_bench_for_five_seconds() -> None:
    health = on_cooldown()
    assert health.admit("aa/m", 4.999) is None
    assert health.admit("aa/m", 5.0) == TrialLease(65.0)


def test_a_success_between_two_failures_keeps_from_benching() -> None:
    health = Health()
    health.record_failure("aa/m", 0.0, "one")
    health.record_success("aa/m")
    assert not health.record_failure("aa/m", 0.0, "two")


def test_targets_are_well_or_ill_each_for_itself() -> None:
    assert on_cooldown().admit("aa/other", 0.0) == "healthy"


def test_cooldowns_double_up_to_five_minutes() -> None:
    health, now = on_cooldown(), 0.0
    for cooldown in COOLDOWNS:
        assert health.get("aa/m").until == now + cooldown
        now += cooldown
        assert health.record_failure("aa/m", now, "still", health.admit("aa/m", now) or "healthy")


@given(st.integers(1, 10_000))
def test_a_cooldown_is_never_longer_than_the_cap_nor_shorter_than_the_one_before(bench: int) -> None:
    policy = HealthPolicy()
    assert policy.base <= policy.cooldown(bench) <= policy.cooldown(bench + 1) <= policy.cap


def test_the_policy_is_the_callers() -> None:
    health = Health(HealthPolicy(threshold=1, base=1.0, multiplier=3.0, cap=2.0))
    assert health.record_failure("aa/m", 0.0, "busy")
    assert health.get("aa/m").until == 1.0
    assert [health.policy.cooldown(n) for n in (1, 2)] == [1.0, 2.0]


def test_when_a_bench_ends_one_request_tries_and_the_others_still_skip() -> None:
    health = on_cooldown()
    assert [health.admit("aa/m", 6.0) for _ in range(3)] == [TrialLease(66.0), None, None]


def test_a_trial_that_succeeds_clears_everything() -> None:
    health = on_cooldown()
    health.admit("aa/m", 5.0)
    health.record_success("aa/m", 0.2)
    assert health.get("aa/m") == TargetHealth(last_latency=0.2)
    assert not health.record_failure("aa/m", 6.0, "one")


def test_a_trial_that_fails_benches_at_once_for_the_next_cooldown() -> None:
    health = on_cooldown()
    assert health.admit("aa/m", 5.0) == TrialLease(65.0)
    assert health.record_failure("aa/m", 6.0, "still", TrialLease(65.0))
    assert health.get("aa/m").until == 16.0


def test_a_trial_that_is_cancelled_lets_the_next_one_try() -> None:
    health = on_cooldown()
    health.release_trial("aa/m", health.admit("aa/m", 5.0) or "healthy")
    assert health.get("aa/m").lease is None
    assert health.admit("aa/m", 6.0) == TrialLease(66.0)


def test_only_the_trial_can_let_go_of_the_trial() -> None:
    health = on_cooldown()
    health.admit("aa/m", 5.0)
    health.release_trial("aa/m", "healthy")
    assert health.admit("aa/m", 5.0) is None


def test_letting_go_of_one_that_is_well_does_nothing() -> None:
    health = Health()
    health.release_trial("aa/m", TrialLease(65.0))
    assert health.snapshot() == {}


def test_requests_that_left_before_the_bench_do_not_make_it_longer() -> None:
    health = on_cooldown()
    for _ in range(62):
        assert health.record_failure("aa/m", 1.0, "late")
    assert health.get("aa/m").until == 5.0
    assert health.get("aa/m").last_error == "late"


def test_a_late_failure_does_not_end_a_trial() -> None:
    health = on_cooldown()
    health.admit("aa/m", 5.0)
    assert health.record_failure("aa/m", 5.0, "late")
    assert health.get("aa/m").state == "trial"


def test_a_provider_may_tell_how_long_it_rests() -> None:
    health = Health()
    health.cool_down("aa/m", 60.0, "slow down")
    assert health.admit("aa/m", 59.0) is None
    assert health.admit("aa/m", 60.0) == TrialLease(120.0)


def test_the_longer_bench_wins() -> None:
    health = on_cooldown()
    health.cool_down("aa/m", 3.0, "slow down")
    assert (health.get("aa/m").until, health.get("aa/m").reason) == (5.0, "two")
    health.cool_down("aa/m", 30.0, "slow down")
    assert (health.get("aa/m").until, health.get("aa/m").reason) == (30.0, "slow down")


def down(seconds: float = 12.0, failures: int = 5) -> Health:
    health = Health()
    for number in range(failures):
        health.record_failure("aa/m", seconds * number / (failures - 1), "busy")
    return health


def test_a_target_is_down_after_nothing_but_failures_for_a_while() -> None:
    assert down().is_down("aa/m")
    assert not down(seconds=9.0).is_down("aa/m"), "too short"
    assert not down(failures=4).is_down("aa/m"), "too few"
    assert not Health().is_down("aa/m")


def test_a_target_that_answers_is_not_down() -> None:
    health = down()
    health.record_success("aa/m")
    assert not health.is_down("aa/m")


def test_one_request_at_a_time_may_try_a_target_that_is_down() -> None:
    health = down()
    assert health.admit_trial("aa/m", 12.5) is None, "the last failure was just now"
    assert health.admit_trial("aa/m", 13.5) == TrialLease(73.5)
    assert health.admit_trial("aa/m", 14.0) is None
    health.record_success("aa/m")
    assert health.admit_trial("aa/m", 14.0) == "healthy"


def test_a_target_that_an_operator_disabled_is_not_tried() -> None:
    health = down()
    health.disable("aa/m", 60.0, now=12.0)
    assert health.admit_trial("aa/m", 20.0) is None


def test_a_failure_of_an_attempt_that_began_before_the_last_failure_is_not_counted() -> None:
    health = Health()
    health.record_failure("aa/m", 10.0, "one", began=9.0)
    assert not health.record_failure("aa/m", 10.5, "two", began=9.5)
    assert (health.get("aa/m").failures, health.get("aa/m").last_error) == (1, "two")
    assert health.record_failure("aa/m", 11.0, "three", began=10.5)


def test_the_failure_of_a_trial_is_always_counted() -> None:
    health = on_cooldown()
    trial = health.admit("aa/m", 5.0) or "healthy"
    health.record_failure("aa/m", 6.0, "last resort", "last_resort", began=5.5)
    assert health.record_failure("aa/m", 7.0, "still", trial, began=5.0)
    assert health.get("aa/m").until == 17.0


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0},
        {"threshold": 1.5},
        {"base": -1.0},
        {"multiplier": 0.5},
        {"cap": float("nan")},
        {"lease": None},
        {"down_after": float("inf")},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SetupError, match=f"{next(iter(settings))} must be a"):
        HealthPolicy(**settings)


def test_an_operator_benches_and_unbenches() -> None:
    health = Health(clock=lambda: 10.0)
    health.disable("aa/m", 30.0)
    assert health.get("aa/m").until == 40.0
    assert health.get("aa/m").reason == "disabled by an operator"
    assert health.admit("aa/m", 39.0) is None
    health.enable("aa/m")
    assert health.admit("aa/m", 11.0) == "healthy"


def test_the_bench_of_an_operator_outlives_the_success_of_a_call_under_way() -> None:
    health = Health()
    health.disable("aa/m", 300.0, now=0.0)
    health.record_success("aa/m", 0.2)
    assert health.admit("aa/m", 299.0) is None
    assert health.get("aa/m").last_latency == 0.2


def test_the_bench_of_an_operator_is_made_no_shorter_by_a_failure() -> None:
    health = Health()
    health.disable("aa/m", 300.0, now=0.0)
    assert health.record_failure("aa/m", 1.0, "busy", "last_resort")
    health.cool_down("aa/m", 10.0, "slow down")
    assert health.get("aa/m").until == 300.0


def test_a_provider_may_make_the_bench_of_an_operator_longer() -> None:
    health = Health()
    health.disable("aa/m", 300.0, now=0.0)
    health.cool_down("aa/m", 400.0, "slow down")
    health.record_success("aa/m")
    assert health.get("aa/m").until == 400.0


def test_when_the_bench_of_an_operator_ends_a_trial_decides() -> None:
    health = Health()
    health.disable("aa/m", 300.0, now=0.0)
    assert (health.admit("aa/m", 300.0), health.admit("aa/m", 300.0)) == (TrialLease(360.0), None)
    health.record_failure("aa/m", 300.0, "busy", TrialLease(360.0))
    assert (health.get("aa/m").until, health.get("aa/m").by_operator) == (305.0, False)
    assert health.admit("aa/m", 305.0) == TrialLease(365.0)
    health.record_success("aa/m")
    assert health.get("aa/m").is_healthy


def test_a_trial_that_never_ends_keeps_others_out_for_its_lease_only() -> None:
    health = on_cooldown()
    assert health.admit("aa/m", 5.0) == TrialLease(65.0)
    assert health.admit("aa/m", 64.9) is None
    assert health.admit("aa/m", 65.0) == TrialLease(125.0)
    assert health.admit("aa/m", 65.0) is None


def test_a_trial_whose_lease_is_over_lets_go_of_no_later_one() -> None:
    health = on_cooldown()
    early = health.admit("aa/m", 5.0) or "healthy"
    health.admit("aa/m", 65.0)
    health.release_trial("aa/m", early)
    assert health.admit("aa/m", 66.0) is None


def test_a_trial_whose_lease_is_over_fails_for_itself_alone() -> None:
    health = on_cooldown()
    early = health.admit("aa/m", 5.0) or "healthy"
    later = health.admit("aa/m", 65.0) or "healthy"
    assert health.record_failure("aa/m", 66.0, "late", early)
    assert (health.get("aa/m").state, health.get("aa/m").until) == ("trial", 5.0)
    assert health.record_failure("aa/m", 67.0, "still", later)
    assert (health.get("aa/m").lease, health.get("aa/m").until) == (None, 77.0)


def test_a_trial_whose_lease_is_over_still_counts_where_nobody_else_tries() -> None:
    health = on_cooldown()
    trial = health.admit("aa/m", 5.0) or "healthy"
    assert health.record_failure("aa/m", 100.0, "still", trial)
    assert health.get("aa/m").until == 110.0


def test_an_operator_may_shorten_a_bench() -> None:
    health = on_cooldown()
    health.disable("aa/m", 1.0, now=0.0)
    assert health.admit("aa/m", 1.0) == TrialLease(61.0)


def test_an_operator_without_a_clock_must_say_the_time() -> None:
    with pytest.raises(ValueError, match="pass now="):
        Health().disable("aa/m", 1.0)


def test_unbenching_remembers_the_latency() -> None:
    health = Health()
    health.record_success("aa/m", 0.3)
    health.disable("aa/m", 1.0, now=0.0)
    health.enable("aa/m")
    assert health.get("aa/m") == TargetHealth(last_latency=0.3)


def test_a_snapshot_says_state_failures_until_when_why_last_error_and_last_latency() -> None:
    health = Health()
    health.record_success("aa/m", 0.25)
    health.record_failure("aa/m", 1.0, "one")
    health.record_failure("aa/m", 2.0, "two")
    health.record_failure("bb/m", 2.0, "three")
    assert health.snapshot() == {
        "aa/m": TargetHealth(
            state="cooldown",
            failures=2,
            failing_since=1.0,
            failed_at=2.0,
            cooldowns=1,
            until=7.0,
            reason="two",
            last_error="two",
            last_latency=0.25,
        ),
        "bb/m": TargetHealth(failures=1, failing_since=2.0, failed_at=2.0, last_error="three"),
    }


def test_a_snapshot_is_a_copy() -> None:
    health = on_cooldown()
    health.snapshot().clear()
    assert health.snapshot()


def test_one_of_64_threads_tries() -> None:
    health = Health(lock=threading.Lock())
    health.cool_down("aa/m", 0.0, "slow down")
    with ThreadPoolExecutor(64) as pool:
        admitted = [wait.result() for wait in [pool.submit(health.admit, "aa/m", 1.0) for _ in range(64)]]
    assert sorted(admitted, key=str) == [None] * 63 + [TrialLease(61.0)]


class Contended(LocalHealthStore):
    """One that another process writes to, just before we do, once."""

    def __init__(self, theirs: TargetHealth, **known: TargetHealth) -> None:
        super().__init__()
        for target, condition in known.items():
            super().swap(target, TargetHealth(), condition)
        self._theirs: TargetHealth | None = theirs

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        theirs, self._theirs = self._theirs, None
        if theirs is not None:
            super().swap(target, old, theirs)
        return super().swap(target, old, new)


def test_conditions_may_be_shared_behind_the_port() -> None:
    health = Health(store=Contended(TargetHealth(failures=1, last_error="theirs")))
    assert health.record_failure("aa/m", 0.0, "ours"), "theirs and ours are two"


def test_who_is_late_for_the_trial_skips() -> None:
    shared = Contended(TargetHealth(state="trial", until=0.0, lease=61.0), aa=TargetHealth(state="cooldown", until=0.0))
    assert Health(store=shared).admit("aa", 1.0) is None


class Model:
    """The rules of the table again, written differently: for one target, in plain numbers."""

    def __init__(self) -> None:
        self.strikes = self.cooldowns = 0
        self.until: float | None = None
        self.lease = 0.0
        self.on_trial = False

    def admit(self, now: float) -> TargetAdmission | None:
        if self.until is None:
            return "healthy"
        if now < (self.lease if self.on_trial else self.until):
            return None
        self.on_trial, self.lease = True, now + 60.0
        return TrialLease(self.lease)

    def failed(self, now: float, admission: TargetAdmission) -> None:
        self.strikes += 1
        if (self.until is None and self.strikes >= 2) or (self.until is not None and self.is_held_by(admission)):
            self.until, self.on_trial = now + COOLDOWNS[min(self.cooldowns, 7)], False
            self.cooldowns += 1

    def served(self) -> None:
        self.strikes = self.cooldowns = 0
        self.until, self.on_trial = None, False

    def let_go(self, admission: TargetAdmission) -> None:
        if self.is_held_by(admission):
            self.on_trial = False

    def is_held_by(self, admission: TargetAdmission) -> bool:
        return self.on_trial and admission == TrialLease(self.lease)


@given(
    st.lists(st.tuples(st.sampled_from(["served", "failed", "let_go", "late", "hang"]), st.floats(0, 400)), max_size=40)
)
def test_health_follows_the_table_whatever_happens(story: list[tuple[str, float]]) -> None:
    health, model, now = Health(), Model(), 0.0
    hanging: list[TargetAdmission] = []
    for what, passes in story:
        now += passes
        admission = health.admit("aa/m", now)
        assert admission == model.admit(now)
        if what == "late":
            late = hanging.pop() if hanging else "healthy"
            health.record_failure("aa/m", now, "late", late)
            model.failed(now, late)
        if admission is None:
            continue
        if what == "hang":
            hanging.append(admission)
        elif what == "served":
            health.record_success("aa/m")
            model.served()
        elif what == "failed":
            health.record_failure("aa/m", now, "busy", admission)
            model.failed(now, admission)
        else:
            health.release_trial("aa/m", admission)
            model.let_go(admission)
        condition = health.get("aa/m")
        assert (condition.failures, condition.cooldowns, condition.until) == (
            model.strikes,
            model.cooldowns,
            model.until,
        )
        assert condition.is_healthy == (model.until is None)
