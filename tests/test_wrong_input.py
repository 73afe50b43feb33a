"""Wrong input to every public function: only errors of our tree, each naming the parameter."""

import pytest

import dragoman
from dragoman import DragomanError
from tests.support import wrong_input
from tests.support.wrong_input import Case


@pytest.mark.parametrize("case", [*wrong_input.cases()], ids=lambda case: case.name)
def test_a_wrong_value_is_an_error_that_names_its_parameter(case: Case) -> None:
    options = wrong_input.OPTIONS.get(case.name, [])
    problems = [
        f"{parameter}={label}: {problem}"
        for parameter in (*case.parameters, *options)
        for label, make in wrong_input.WRONG.items()
        if (problem := wrong_input.outcome(case, parameter, make())) is not None
    ]
    assert problems == []


def test_the_fuzz_finds_a_raw_error_and_an_error_without_a_name() -> None:
    def raw(arguments: object) -> None:
        raise TypeError(arguments)

    def nameless(arguments: object) -> None:
        raise DragomanError("wrong")

    for function in (raw, nameless):
        case = Case("broken", function, {}, ["a"])
        assert wrong_input.outcome(case, "a", 1) is not None


def test_every_function_of_the_package_is_tried() -> None:
    functions = {name for name in dragoman.__all__ if name[0].islower()}
    assert functions - {*wrong_input.FUNCTIONS} == {"default_registry", "instrument"}
