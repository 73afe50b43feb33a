"""Runs tool calls: check the arguments, ask for approval, run the tools, return the results in order.

It is a plan. Nothing that goes wrong raises: every error becomes a result that the model can read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from dragoman.engine.effects import Emit, Job, JobGroup, JobResult, NextResult, Plan, StartJobs, perform
from dragoman.errors import OutputError, redact
from dragoman.schema.validate import validate
from dragoman.tools.decorator import Context, Handler, handler_of
from dragoman.tools.events import HookFailed, ToolFinished, ToolStarted
from dragoman.tools.results import error_result, to_tool_result
from dragoman.types import JsonObject, Tool, ToolCall, ToolResult

Approve: TypeAlias = Callable[[ToolCall], Any]
"""Returns whether a call may run, or the result that it gets instead. It may be async."""
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


class TimedResult(msgspec.Struct, frozen=True):
    """A result, and the seconds that the tool took."""

    result: ToolResult
    duration: float = 0.0


class ToolRunner(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a run, and how to run them."""

    tools: Mapping[str, Tool]
    context: Callable[[ToolCall], Context]
    approve: Approve | None = None
    parallel: bool = True
    max_timeout: float | None = None
    """Seconds. A tool's own timeout may be shorter, not longer."""
    refusals: Mapping[str, str] = {}
    """Calls that must not run: the reason by call id."""
    results: dict[int, TimedResult] = msgspec.field(default_factory=dict[int, TimedResult])
    """The results so far, by the position of the call. They stay available if the plan is closed early."""


def execute(calls: Sequence[ToolCall], runner: ToolRunner, /) -> Plan[tuple[TimedResult, ...]]:
    """Run calls, in parallel or one after the other, and return their results in order.

    >>> runner = ToolRunner(tools={}, context=lambda call: Context(call=call))
    >>> next(execute([ToolCall(id="call_1", name="tide")], runner)).events[0].result.content
    "no tool named 'tide'; there are no tools"
    """
    results = runner.results
    jobs: list[tuple[int, Job]] = []
    for index, call in enumerate(calls):
        prepared = yield from _prepare(call, runner)
        if isinstance(prepared, Job):
            jobs.append((index, prepared))
        else:
            results[index] = TimedResult(prepared)
            yield Emit([ToolFinished(call, prepared, 0.0)])
    for group in filter(None, [jobs] if runner.parallel else [[job] for job in jobs]):
        yield Emit([ToolStarted(calls[index]) for index, _ in group])
        running: JobGroup = yield StartJobs(tuple(job for _, job in group))
        for _ in group:
            finished: tuple[int, JobResult] = yield NextResult(running)
            index, outcome = group[finished[0]][0], finished[1]
            results[index] = yield from _to_result(calls[index], runner, outcome)
            yield Emit([ToolFinished(calls[index], results[index].result, outcome.duration)])
    return tuple(results[index] for index in range(len(calls)))


def argument_errors(call: ToolCall, tool: Tool, /) -> tuple[str, ...]:
    """Validate the arguments of a call against the schema of its tool.

    >>> argument_errors(ToolCall(id="call_1", name="now", arguments={"zone": 1}), Tool(name="now"))[0]
    "$: Additional properties are not allowed ('zone' was unexpected)"
    """
    return validate(call.arguments, tool.parameters or _NO_PARAMETERS, add_formats=True)


def invalid_arguments(call: ToolCall, reasons: Sequence[str], /) -> str:
    """Write the message that tells the model why a call did not run."""
    return f"{call.name} was not run: invalid arguments: {'; '.join(reasons)}"


def _prepare(call: ToolCall, runner: ToolRunner) -> Plan[Job | ToolResult]:
    """Return the job for a call, or the error result if it must not run."""
    if call.id in runner.refusals:
        return error_result(call, runner.refusals[call.id])
    tool = runner.tools.get(call.name)
    if tool is None:
        known = f"the tools are {', '.join(runner.tools)}" if runner.tools else "there are no tools"
        return error_result(call, f"no tool named {call.name!r}; {known}")
    if reasons := argument_errors(call, tool):
        return error_result(call, invalid_arguments(call, reasons))
    handler = handler_of(tool)
    # A job, because validators of the user's own types may raise anything.
    bound = yield from perform(Job(partial(handler.bind, call.arguments, runner.context(call)), is_quick=True))
    if isinstance(bound.error, OutputError):
        return error_result(call, invalid_arguments(call, bound.error.reasons))
    if bound.error is not None:
        return error_result(call, bound.error)
    refusal = yield from _approve(call, runner)
    if refusal is not None:
        return refusal
    timeouts = [timeout for timeout in (handler.timeout, runner.max_timeout) if timeout is not None]
    return Job(bound.value, timeout=min(timeouts, default=None), is_quick=handler.is_async)


def _approve(call: ToolCall, runner: ToolRunner) -> Plan[ToolResult | None]:
    """Return None if the call may run, otherwise its result. A hook that fails does not approve."""
    if runner.approve is None:
        return None
    outcome = yield from perform(Job(partial(runner.approve, call)))
    if outcome.error is not None:
        kind = type(outcome.error).__name__
        yield Emit([HookFailed("approve", redact(f"{kind}: {outcome.error}"))])
        return error_result(call, f"{call.name} was not run: the approve hook failed ({kind})")
    if isinstance(outcome.value, ToolResult):
        return (yield from _to_result(call, runner, outcome)).result
    return None if outcome.value is True else error_result(call, f"{call.name} was not run: it was not approved")


def _to_result(call: ToolCall, runner: ToolRunner, outcome: JobResult) -> Plan[TimedResult]:
    if outcome.error is not None:
        return TimedResult(error_result(call, outcome.error), outcome.duration)
    handler: Handler = handler_of(runner.tools[call.name])
    encoded = yield from perform(Job(partial(to_tool_result, call, outcome.value, handler.limit), is_quick=True))
    result = error_result(call, encoded.error) if encoded.error is not None else encoded.value
    return TimedResult(result, outcome.duration)
