"""Runs one law over many cases inside one test, and reports every case that fails.

A test per recording costs more in bookkeeping than in work: pytest collects, schedules and reports each. A batch
collects once; its report names every case that failed, with the traceback of the first few.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import pytest

Test: TypeAlias = Callable[..., None]
MAX_TRACEBACKS = 3


def for_all(name: str, cases: Iterable[Any] | dict[str, Any]) -> Callable[[Test], Test]:
    """A test whose argument `name` takes each of these values in turn; other arguments stay pytest's."""
    labelled = cast("dict[str, Any]", cases) if isinstance(cases, dict) else {str(case): case for case in cases}

    def decorate(check: Test) -> Test:
        signature = inspect.signature(check)

        def test(**arguments: Any) -> None:
            run(lambda case: check(**{**arguments, name: case}), labelled)

        rest = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        return _named(test, check, signature.replace(parameters=rest))

    return decorate


def grouped(groups: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Callable[[Test], Test]:
    """A test per group, which runs its check with the arguments of each case of the group."""

    def decorate(check: Test) -> Test:
        @pytest.mark.parametrize("batch", list(groups.values()), ids=list(groups))
        def test(batch: Mapping[str, Any]) -> None:
            run(lambda case: check(**case), batch)

        return _named(test, check, inspect.signature(test))

    return decorate


def _named(test: Any, check: Test, signature: inspect.Signature) -> Test:
    """The test with the name and the place of its check. Without `__wrapped__`, pytest asks for the new arguments."""
    marks = list(getattr(test, "pytestmark", [])) + list(getattr(check, "pytestmark", []))
    functools.update_wrapper(test, check)
    del test.__wrapped__
    test.__signature__ = signature
    test.pytestmark = marks
    named: Test = test
    return named


def run(check: Callable[[Any], None], cases: Mapping[str, Any], /) -> None:
    """Check every case; fail with all that failed."""
    failures: dict[str, BaseException] = {}
    for label, case in cases.items():
        try:
            check(case)
        except (pytest.skip.Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - pytest.fail and hypothesis raise outside of Exception
            failures[label] = error
    if failures:
        shown = [
            f"── {label}\n{''.join(traceback.format_exception(error))}"
            for label, error in list(failures.items())[:MAX_TRACEBACKS]
        ]
        listed = "\n".join(f"  {label}: {type(error).__name__}" for label, error in failures.items())
        head = f"{len(failures)} of {len(cases)} cases failed:"
        pytest.fail("\n".join([head, listed, "", *shown]), pytrace=False)
