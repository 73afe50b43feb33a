"""A server that answers 503 at random: every call is answered that has an answer within its tries.

`make bench-resilience` measures the same at full size.
"""

import pytest

from benchmarks.resilience import Load, answerable, measure

SMALL = {
    "in a loop": Load("", 30, 0.25),
    "many at once": Load("", 60, 0.3, at_once=16),
    "at a steady pace": Load("", 60, 0.3, per_second=100.0),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_call_is_answered_that_has_an_answer_within_its_tries(name: str) -> None:
    load = SMALL[name]
    assert measure(load, 3, ["dragoman"])["dragoman"].answered == answerable(load, 3)


def test_as_many_calls_are_answered_as_by_the_openai_sdk() -> None:
    results = measure(SMALL["at a steady pace"], 5)
    assert results["dragoman"].answered >= results["openai"].answered > 0


def test_some_calls_of_the_test_have_no_answer() -> None:
    assert any(answerable(load, 3) < load.calls for load in SMALL.values())
