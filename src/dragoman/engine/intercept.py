"""A plan whose events are changed on their way to the caller, by plans of their own."""

from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from dragoman.engine.effects import Effect, Emit, Plan

T = TypeVar("T")


def intercept(plan: Plan[T], change: Callable[[Emit], Plan[Emit | None]], /) -> Plan[T]:
    """The plan, with each emission as `change` makes it; None drops it. An error of `change` ends the plan."""
    return (yield from cast("Plan[T]", _Intercepted(plan, change)))


class _Intercepted:
    """A generator that runs a plan and, for each emission, the plan that changes it."""

    def __init__(self, plan: Plan[Any], change: Callable[[Emit], Plan[Emit | None]]) -> None:
        self._plan = plan
        self._change = change
        self._changing: Plan[Emit | None] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Effect:
        return self.send(None)

    def send(self, answer: Any) -> Effect:
        return self._changed(lambda plan: plan.send(answer))

    def throw(self, error: BaseException) -> Effect:
        return self._changed(lambda plan: plan.throw(error))

    def close(self) -> None:
        if self._changing is not None:
            self._changing.close()
        self._plan.close()

    def _changed(self, advance: Callable[[Plan[Any]], Effect]) -> Effect:
        while True:
            if self._changing is None:
                own = advance(self._plan)
                if type(own) is not Emit:
                    return own
                self._changing, advance = self._change(own), next
            effect: Effect | None = None
            has_failed = True
            try:
                effect = advance(self._changing)
                has_failed = False
            except StopIteration as stop:
                has_failed = False
                self._changing, advance = None, next
                effect = cast("Effect | None", stop.value)
            finally:
                if has_failed:
                    self._plan.close()
            if effect is not None:
                return effect
