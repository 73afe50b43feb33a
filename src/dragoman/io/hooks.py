"""Hooks: functions of yours that are called before and after a call, on its error, and on each event of its stream.

A call with hooks runs in a plan around its own plan; a call without hooks runs as it is, at no cost.
"""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar, cast

from dragoman.engine.effects import Effect, Emit, Plan
from dragoman.errors import DragomanError, InvalidRequest, Reset
from dragoman.events import PartDelta, PartEnded, StreamEvent
from dragoman.io.driver import notify
from dragoman.types import Request, Response
from dragoman.types.checks import as_items, shown, wrong_value
from dragoman.types.structs import CheckedStruct

R = TypeVar("R", bound=Response)


class Call:
    """One call of a model, as hooks see it: from the request to the response, with all its attempts."""

    __slots__ = ("base_urls", "data", "first_content_at", "request", "spec", "started_at", "stopped_at", "target")

    def __init__(
        self, spec: str, request: Request, /, *, target: str = "", base_urls: Mapping[str, str] | None = None
    ) -> None:
        self.spec = spec
        self.request = request
        self.target = target
        """The first target of the spec. The response names the one that answered."""
        self.base_urls = base_urls or {}
        """By target of the spec: the URL of its server."""
        self.data: dict[Any, Any] = {}
        """A place for your own values, such as a span that `before` starts and `after` ends."""
        self.started_at = time.monotonic()
        self.first_content_at: float | None = None
        self.stopped_at: float | None = None

    @property
    def duration(self) -> float:
        """Seconds of the whole call; seconds so far while it runs."""
        return (time.monotonic() if self.stopped_at is None else self.stopped_at) - self.started_at

    @property
    def time_to_first_content(self) -> float | None:
        """Seconds until the first text or part of a stream; None before it, and without a stream."""
        return None if self.first_content_at is None else self.first_content_at - self.started_at

    def __repr__(self) -> str:
        return f"Call({self.spec!r})"


class Hooks(CheckedStruct, frozen=True, kw_only=True):
    """Functions that are called in the course of each call. They must be quick, and are not awaited.

    If one of them raises, the call continues, and the logger `dragoman` has a warning.

    >>> from dragoman import Registry
    >>> hooks = Hooks(after=lambda call, response: print(call.spec, response.usage.output))
    >>> answer = Registry(env={}, hooks=hooks).model("demo/any").generate("Is it so?")
    demo/any 14
    """

    before: Callable[[Call], object] | None = None
    """The call starts."""
    after: Callable[[Call, Response], object] | None = None
    """The call has its response."""
    on_error: Callable[[Call, DragomanError], object] | None = None
    """The call failed. A stream that you leave before its end is a `Reset`."""
    on_event: Callable[[Call, StreamEvent], object] | None = None
    """An event of a stream arrived."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            function = getattr(self, name)
            if function is not None and (not callable(function) or inspect.iscoroutinefunction(function)):
                kind = "a coroutine function" if callable(function) else shown(function)
                raise InvalidRequest(f"{name} must be a plain function or None, got {kind}", param=name)


def as_hooks(value: object, /) -> tuple[Hooks, ...]:
    """The hooks of a registry or a model: one, several, or none."""
    items = () if value is None else as_items("hooks", (value,) if isinstance(value, Hooks) else value, _EXPECTED)
    for item in items:
        if not isinstance(item, Hooks):
            raise wrong_value("hooks", _EXPECTED, item)
    return items


_EXPECTED = "Hooks, or a list of these"


def observed(plan: Plan[R], call: Call, hooks: Sequence[Hooks], /) -> Plan[R]:
    """The plan of a call, with its hooks."""
    call.started_at = time.monotonic()
    notify([each.before for each in hooks if each.before is not None], call)
    outcome: Response | DragomanError = Reset("the call was closed before its end")
    try:
        on_event = [each.on_event for each in hooks if each.on_event is not None]
        response = yield from cast("Plan[R]", _Watched(plan, call, on_event))
        outcome = response
    except DragomanError as error:
        outcome = error
        raise
    finally:
        call.stopped_at = time.monotonic()
        is_served = isinstance(outcome, Response)
        functions: list[Callable[[Call, Any], object] | None]
        functions = [each.after if is_served else each.on_error for each in hooks]
        notify([partial(function, call) for function in functions if function is not None], outcome)
    return response


class _Watched:
    """A plan that passes its events to hooks."""

    def __init__(self, plan: Plan[Any], call: Call, hooks: Sequence[Callable[[Call, StreamEvent], object]]) -> None:
        self._plan = plan
        self._call = call
        self._hooks = [partial(hook, call) for hook in hooks]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Effect:
        return self.send(None)

    def send(self, answer: Any) -> Effect:
        return self._see(self._plan.send(answer))

    def throw(self, error: BaseException) -> Effect:
        return self._see(self._plan.throw(error))

    def close(self) -> None:
        self._plan.close()

    def _see(self, effect: Effect) -> Effect:
        if isinstance(effect, Emit):
            for event in effect.events:
                if self._call.first_content_at is None and isinstance(event, PartDelta | PartEnded):
                    self._call.first_content_at = time.monotonic()
                notify(self._hooks, event)
        return effect
