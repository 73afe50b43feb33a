from typing import Any

import pytest

from dragoman.engine.effects import Emit, Now, Plan, Sleep
from dragoman.engine.intercept import intercept
from dragoman.errors import InvalidRequest
from tests.support.plans import World


def numbers(closed: list[str] | None = None) -> Plan[str]:
    try:
        for number in range(4):
            yield Now()
            yield Emit([number])
    finally:
        if closed is not None:
            closed.append("closed")
    return "done"


def keep_odd(emission: Emit) -> Plan[Emit | None]:
    yield Sleep(1.0)
    number: Any = emission.events[0]
    return Emit([number * 10]) if number % 2 else None


def test_emissions_are_changed_or_dropped_by_a_plan() -> None:
    world = World()
    assert world.run(intercept(numbers(), keep_odd)) == "done"
    assert (world.shown, world.slept) == ([10, 30], [1.0] * 4)


def refuse(_emission: Emit) -> Plan[Emit | None]:
    yield Now()
    raise InvalidRequest("no")


def test_an_error_of_a_change_ends_the_plan() -> None:
    closed: list[str] = []
    with pytest.raises(InvalidRequest):
        World().run(intercept(numbers(closed), refuse))
    assert closed == ["closed"]


def failing() -> Plan[str]:
    try:
        yield Sleep(-1.0)
    except ValueError:
        yield Emit(["caught"])
    return "done"


def test_errors_of_effects_reach_the_plan() -> None:
    plan = intercept(failing(), _same)
    assert next(plan) == Sleep(-1.0)
    assert plan.throw(ValueError("no")) == Now()
    assert plan.send(0.0) == Emit(["caught"])


def _same(emission: Emit) -> Plan[Emit | None]:
    yield Now()
    return emission


@pytest.mark.parametrize("steps", [1, 3])
def test_closing_it_closes_both_plans(steps: int) -> None:
    closed: list[str] = []
    plan = intercept(numbers(closed), keep_odd)
    next(plan)
    for _ in range(steps - 1):
        plan.send(0.0)
    plan.close()
    assert closed == ["closed"]
