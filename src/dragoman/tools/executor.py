"""Tool calls in, their results out, in order: checked, approved, run. A plan; whatever goes wrong is a result, too."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from dragoman.agents.events import HookFailed, ToolFinished, ToolStarted
from dragoman.engine.effects import Emit, Job, JobGroup, JobResult, NextResult, Plan, StartJobs, perform
from dragoman.errors import OutputError, redact
from dragoman.schema.validate import validate
from dragoman.tools.decorator import Context, Handler, handler_of
from dragoman.tools.results import failure, result_of
from dragoman.types import JsonObject, Tool, ToolCall, ToolResult

Approve: TypeAlias = Callable[[ToolCall], Any]
"""Whether a call may be run: a bool, or the result that it gets instead. It may be async."""
_NOTHING: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


class TimedResult(msgspec.Struct, frozen=True):
    """A result, and the seconds that it took.

    >>> TimedResult(ToolResult(id="call_1")).duration
    0.0
    """

    result: ToolResult
    duration: float = 0.0


class ToolRunner(msgspec.Struct, frozen=True, kw_only=True):
    """Where calls are run: which tools there are, and on which terms.

    >>> ToolRunner(tools={}, context=lambda call: Context(call=call)).parallel
    True
    """

    tools: Mapping[str, Tool]
    context: Callable[[ToolCall], Context]
    approve: Approve | None = None
    parallel: bool = True
    longest: float | None = None
    """Seconds that no tool may exceed, whatever its own limit is."""
    refusals: Mapping[str, str] = {}
    """Why a call is not run at all, by its id."""
    ran: dict[int, TimedResult] = msgspec.field(default_factory=dict[int, TimedResult])
    """What has come of each call by now, by its number: there for whoever leaves the plan before its end."""


def dispatch(calls: Sequence[ToolCall], bench: ToolRunner, /) -> Plan[tuple[TimedResult, ...]]:
    """The results of some calls, in their order. Tools run all at once, or one after the other.

    >>> plan = dispatch([ToolCall(id="call_1", name="tide")], ToolRunner(tools={}, context=lambda call: Context(call=call)))
    >>> next(plan).events[0].result.content
    "no tool 'tide'; there is none"
    """
    ran = bench.ran
    jobs: list[tuple[int, Job]] = []
    for number, call in enumerate(calls):
        prepared = yield from _prepare(call, bench)
        if isinstance(prepared, Job):
            jobs.append((number, prepared))
        else:
            ran[number] = TimedResult(prepared)
            yield Emit([ToolFinished(call, prepared, 0.0)])
    for group in filter(None, [jobs] if bench.parallel else [[job] for job in jobs]):
        yield Emit([ToolStarted(calls[number]) for number, _ in group])
        running: JobGroup = yield StartJobs(tuple(job for _, job in group))
        for _ in group:
            ended: tuple[int, JobResult] = yield NextResult(running)
            number, outcome = group[ended[0]][0], ended[1]
            ran[number] = yield from _conclude(calls[number], bench, outcome)
            yield Emit([ToolFinished(calls[number], ran[number].result, outcome.duration)])
    return tuple(ran[number] for number in range(len(calls)))


def _prepare(call: ToolCall, bench: ToolRunner) -> Plan[Job | ToolResult]:
    """What is to be run for a call, or why nothing is."""
    if call.id in bench.refusals:
        return failure(call, bench.refusals[call.id])
    tool = bench.tools.get(call.name)
    if tool is None:
        known = f"there are {', '.join(bench.tools)}" if bench.tools else "there is none"
        return failure(call, f"no tool {call.name!r}; {known}")
    if reasons := misfits(call, tool):
        return failure(call, refusal(call, reasons))
    handler = handler_of(tool)
    # Made by the user's own types, whose validators may raise anything.
    bound = yield from perform(Job(partial(handler.bind, call.arguments, bench.context(call)), is_quick=True))
    if isinstance(bound.error, OutputError):
        return failure(call, refusal(call, bound.error.reasons))
    if bound.error is not None:
        return failure(call, bound.error)
    refused = yield from _approve(call, bench)
    if refused is not None:
        return refused
    capabilities = [limit for limit in (handler.timeout, bench.longest) if limit is not None]
    return Job(bound.value, timeout=min(capabilities, default=None), is_quick=handler.is_async)


def misfits(call: ToolCall, tool: Tool, /) -> tuple[str, ...]:
    """Why the arguments of a call are not what its tool takes.

    >>> misfits(ToolCall(id="call_1", name="now", arguments={"zone": 1}), Tool(name="now"))[0]
    "$: Additional properties are not allowed ('zone' was unexpected)"
    """
    return validate(call.arguments, tool.parameters or _NOTHING)


def refusal(call: ToolCall, reasons: Sequence[str], /) -> str:
    """What a model is told of a call whose arguments are wrong.

    >>> refusal(ToolCall(id="call_1", name="now"), ["$: 'zone' is required"])
    "now was not run, as its arguments are wrong: $: 'zone' is required"
    """
    return f"{call.name} was not run, as its arguments are wrong: {'; '.join(reasons)}"


def _approve(call: ToolCall, bench: ToolRunner) -> Plan[ToolResult | None]:
    """None where the call may be run; otherwise the result that it gets instead. Who cannot answer says no."""
    if bench.approve is None:
        return None
    asked = yield from perform(Job(partial(bench.approve, call)))
    if asked.error is not None:
        yield Emit([HookFailed("approve", redact(f"{type(asked.error).__name__}: {asked.error}"))])
        return failure(call, f"{call.name} was not run: nobody could approve it ({type(asked.error).__name__})")
    if isinstance(asked.value, ToolResult):
        return (yield from _conclude(call, bench, asked)).result
    return None if asked.value is True else failure(call, f"{call.name} was not run: it was not approved")


def _conclude(call: ToolCall, bench: ToolRunner, outcome: JobResult) -> Plan[TimedResult]:
    if outcome.error is not None:
        return TimedResult(failure(call, outcome.error), outcome.duration)
    handler: Handler = handler_of(bench.tools[call.name])
    told = yield from perform(Job(partial(result_of, call, outcome.value, handler.limit), is_quick=True))
    return TimedResult(failure(call, told.error) if told.error is not None else told.value, outcome.duration)
