"""Runs one law over many cases inside one test, and reports every case that fails.

A test per recording costs more in bookkeeping than in work: pytest collects, schedules and reports each. A batch
collects once; its report names every case that failed, with the traceback of the first few.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])
MAX_TRACEBACKS = 3


def for_all(name: str, cases: Mapping[str, Any] | Iterable[Any]) -> Callable[[Test], Callable[..., None]]:
    """A test whose argument `name` takes each of these values in turn; other arguments stay pytest's."""
    labelled = dict(cases) if isinstance(cases, Mapping) else {str(case): case for case in cases}

    def decorate(check: Test) -> Callable[..., None]:
        signature = inspect.signature(check)

        @functools.wraps(check)
        def test(**arguments: Any) -> None:
            run(lambda case: check(**{**arguments, name: case}), labelled)

        rest = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        test.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads it
        del test.__wrapped__  # type: ignore[attr-defined]  # or pytest would ask for the argument itself
        return test

    return decorate


def grouped(groups: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Callable[[Test], Callable[..., None]]:
    """A test per group, which runs its check with the arguments of each case of the group."""

    def decorate(check: Test) -> Callable[..., None]:
        @pytest.mark.parametrize("batch", list(groups.values()), ids=list(groups))
        def test(batch: Mapping[str, Any]) -> None:
            run(lambda case: check(**case), batch)

        functools.update_wrapper(test, check)
        del test.__wrapped__  # type: ignore[attr-defined]  # or pytest would ask for the argument itself
        return test

    return decorate


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
