import pytest

from dragoman.engine import effects
from dragoman.engine.effects import Now


def test_a_plan_asks_for_the_time_and_ends_in_it() -> None:
    plan = effects.now()
    assert next(plan) == Now()
    with pytest.raises(StopIteration) as stop:
        plan.send(7.5)
    assert stop.value.value == 7.5


def test_an_effect_that_fails_is_raised_inside_the_plan() -> None:
    plan = effects.now()
    next(plan)
    with pytest.raises(OSError, match="no clock"):
        plan.throw(OSError("no clock"))
