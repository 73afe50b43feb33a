"""Several answers to one request from a target without `n`: after the first answer, it is called again for the others.

The first call finds the target that answers. The other calls go to that target alone, all at the same time, so that all
answers come from one model. An answer that came is never lost: if another call fails, a notice says so.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from dragoman.engine.call_context import remaining_time
from dragoman.engine.effects import JobGroup, JobResult, NextResult, Now, Plan, StartPlans
from dragoman.errors import DragomanError
from dragoman.targets.estimates import MAX_CALLS
from dragoman.targets.target import Target
from dragoman.types import Attempt, Notice, NoticeKind, Request, Response, add_costs, add_usage

if TYPE_CHECKING:
    from dragoman.engine.failover import ChainOptions

CallTargets: TypeAlias = "Callable[[Request, Sequence[Target], ChainOptions], Plan[Response]]"
"""Makes the plan of one call."""


def several_answers(
    call: CallTargets, request: Request, targets: Sequence[Target], options: "ChainOptions", /
) -> Plan[Response]:
    """The response to a request: with as many answers as it asks for, unless it is streamed."""
    if request.n is None or request.n == 1 or request.stream:
        return call(request, targets, options)
    return _several(call, request, request.n, targets, options)


def _several(
    call: CallTargets, request: Request, wanted: int, targets: Sequence[Target], options: "ChainOptions"
) -> Plan[Response]:
    began: float = yield Now()
    first = yield from call(request, targets, options)
    target = next((each for each in targets if each.name == first.target), None)
    if not any(map(_is_dropped, first.notices)):
        return _note_missing(first, wanted)
    if target is None or len(first.choices) > 1:
        return first
    now: float = yield Now()
    options = replace(options, timeouts=remaining_time(options.timeouts, now - began))
    single, count = replace(request, n=None), min(wanted, MAX_CALLS)
    group: JobGroup = yield StartPlans(tuple(call(single, (target,), options) for _ in range(1, count)))
    results: dict[int, JobResult] = {}
    for _ in range(1, count):
        ended: tuple[int, JobResult] = yield NextResult(group)
        results[ended[0]] = ended[1]
    return _together(first, [results[number] for number in sorted(results)], wanted, target)


def _is_dropped(notice: Notice) -> bool:
    return notice.kind == "dropped" and notice.what == "n"


def _note_missing(response: Response, wanted: int) -> Response:
    """Add a notice if a target that was sent `n` gave fewer answers: some servers ignore it."""
    count = len(response.choices)
    if count >= wanted:
        return response
    notice = Notice(kind="changed", what="n", why=f"{response.target}: the answer has {count} of {wanted} choices")
    return replace(response, notices=(*response.notices, notice))


def _together(first: Response, results: list[JobResult], wanted: int, target: Target) -> Response:
    responses: list[Response] = [first]
    attempts: list[Attempt] = [*first.attempts]
    kind: NoticeKind = "info"
    why = f"{target.wire}: not supported; {len(results) + 1} requests were sent"
    if wanted > len(results) + 1:
        kind, why = "changed", f"{why}, which is the limit"
    for result in results:
        error = result.error
        if error is None:
            responses.append(result.value)
            attempts += result.value.attempts
        elif isinstance(error, DragomanError):
            kind, why = "changed", f"{why}; one failed: {type(error).__name__}"
            attempts += error.attempts
        else:
            raise error
    notices = (each for response in responses for each in response.notices if not _is_dropped(each))
    return replace(
        first,
        usage=add_usage(response.usage for response in responses),
        cost=add_costs(response.cost for response in responses),
        attempts=tuple(attempts),
        notices=(Notice(kind=kind, what="n", why=why), *dict.fromkeys(notices)),
        other_choices=tuple(choice for response in responses[1:] for choice in response.choices),
    )
