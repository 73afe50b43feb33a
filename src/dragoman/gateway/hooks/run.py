"""Runs hooks around the plan of a call. A gateway without hooks does not run a line of this."""

import inspect
import logging
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, cast

import msgspec

from dragoman.engine.effects import Emit, Job, Plan, perform
from dragoman.engine.intercept import intercept
from dragoman.errors import DragomanError, redact
from dragoman.events import Event
from dragoman.gateway.hooks.base import Hook, HookCall, OnHookFailure, Refused
from dragoman.types import Request, Response

log = logging.getLogger("dragoman.gateway")


class HookUnavailable(DragomanError):
    """A hook did not work, and the config says that no request passes without it."""

    retry = False
    fail_over = False
    count_failure = False
    http_status = 503


class BoundHook(msgspec.Struct, frozen=True, eq=False):
    """A hook with its place in the config."""

    name: str
    hook: Hook
    timeout: float = 5.0
    on_failure: OnHookFailure = "refuse"
    keys: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)

    def applies(self, call: HookCall, /) -> bool:
        """Whether it is for the key and the model of a call."""
        has_key = any(fnmatchcase(call.key or "", glob) for glob in self.keys)
        return has_key and any(fnmatchcase(call.model, glob) for glob in self.models)

    def has(self, method: str, /) -> bool:
        """Whether the hook does something there."""
        return getattr(type(self.hook), method) is not getattr(Hook, method)

    def run(self, method: str, *arguments: Any) -> Plan[Any]:
        """Call a method; its result, or None if it failed and that does not matter."""
        if not self.has(method):
            return None
        function: Callable[..., Any] = getattr(self.hook, method)
        is_quick = method in self.hook.quick_methods or inspect.iscoroutinefunction(function)
        result = yield from perform(Job(partial(function, *arguments), self.timeout, is_quick=is_quick))
        if result.error is None:
            return result.value
        if isinstance(result.error, Refused):
            raise result.error
        reason = redact(f"{type(result.error).__name__}: {result.error}")
        log.warning("hook %s: %s failed: %s", self.name, method, reason)
        if self.on_failure == "refuse" and method != "on_error":
            raise HookUnavailable(f"the hook {self.name!r} of this gateway failed; try again later")
        return None


def hooked(
    make: Callable[[Request], Plan[Response]], hooks: Sequence[BoundHook], call: HookCall, request: Request, /
) -> Plan[Response]:
    """The plan of a call that `make` makes, with its hooks. The first one to see the request sees the answer last."""
    call.request = request
    try:
        for hook in hooks:
            yield from hook.run("before", call)
        plan = make(call.request)
        answer_hooks = hooks[::-1]
        if call.request.stream and any(hook.has("on_events") for hook in hooks):
            plan = intercept(plan, lambda emission: _change_events(emission, answer_hooks, call))
        response = yield from plan
        for hook in answer_hooks:
            changed = yield from hook.run("after", call, response)
            if isinstance(changed, Response) and not call.request.stream:
                response = changed
    except DragomanError as error:
        for hook in hooks:
            yield from hook.run("on_error", call, error)
        raise
    return response


def _change_events(emission: Emit, hooks: Sequence[BoundHook], call: HookCall) -> Plan[Emit | None]:
    events = cast("Sequence[Event]", emission.events)
    for hook in hooks:
        changed = yield from hook.run("on_events", call, events)
        events = events if changed is None else list(changed)
    if events is emission.events:
        return emission
    return Emit(events, emission.target, emission.notices) if events else None
