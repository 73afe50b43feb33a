"""Wrong input to everything public: only errors of our tree, each naming the parameter and what to write."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import DragomanError, InvalidRequest
from tests.support import wrong_input
from tests.support.wrong_input import LEFT_OUT, SECRET, Case

CASES = [*wrong_input.cases()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_value_is_an_error_that_names_its_parameter(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be taken as the path of a file to write
    problems = [
        f"{parameter}={label}: {problem}"
        for parameter, label, value in wrong_input.trials(case)
        if (problem := wrong_input.outcome(case, parameter, value)) is not None
    ]
    assert problems == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_values_are_accepted(case: Case) -> None:
    """Otherwise the error of a trial could be that of another parameter."""
    result = case.function(case.right)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    wrong_input.close(result)


STRUCTS = [
    (name, value)
    for name, value in wrong_input.public()
    if name not in LEFT_OUT and inspect.isclass(value) and issubclass(value, msgspec.Struct)
]


@pytest.mark.parametrize(("name", "struct"), STRUCTS, ids=[name for name, _ in STRUCTS])
def test_a_wrong_name_of_a_parameter_is_an_error_that_names_it(name: str, struct: Any) -> None:
    right = wrong_input.case(name, struct).right
    with pytest.raises(InvalidRequest, match="has no parameter no_such_thing; ") as caught:
        struct(**right, no_such_thing=1)
    assert caught.value.param == "no_such_thing"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    for parameter in required:
        with pytest.raises(InvalidRequest, match=f"^{parameter} must be passed to {struct.__name__}") as caught:
            struct(**{key: value for key, value in right.items() if key != parameter})
        assert caught.value.param == parameter


def test_what_is_left_out_exists() -> None:
    names = {name for name, _ in wrong_input.public()}
    methods = {name for name in LEFT_OUT if "()" in name}
    assert {*LEFT_OUT} - methods <= names


@pytest.mark.parametrize(
    "error",
    [
        TypeError("raw"),
        DragomanError("a must be an int, got 1"),
        InvalidRequest("a must be an int, got 1", param="b"),
        InvalidRequest("a must be an int,\ngot 1", param="a"),
        InvalidRequest("wrong", param="a"),
        DragomanError("a must be an int, got 1", param="a"),
    ],
    ids=["raw", "nameless", "of another parameter", "two lines", "no advice", "of another kind"],
)
def test_the_fuzz_finds_an_error_that_is_not_as_it_should_be(error: Exception) -> None:
    def fail(_: object) -> None:
        raise error

    assert wrong_input.outcome(Case("broken", fail, {}, ("a",)), "a", 1) is not None


def test_the_fuzz_finds_a_secret_and_a_value_that_cannot_be_written() -> None:
    def leak(_: object) -> None:
        error = InvalidRequest("x", param="a")
        raise error.annotate(message=f"a must be short, got {SECRET}")

    def accept(_: object) -> Any:
        from dragoman.types import Text

        return Text(text="a", extra={"x": object()})

    for function in (leak, accept):
        assert wrong_input.outcome(Case("broken", function, {}, ("a",)), "a", 1) is not None
