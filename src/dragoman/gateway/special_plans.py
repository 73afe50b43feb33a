"""Plans of the gateway besides the chain of targets: a summary as a compaction, and an answer without a call."""

from dragoman.engine.effects import Emit, Plan
from dragoman.events import to_events
from dragoman.types import Finish, Message, Response, Usage
from dragoman.wires.base import WireCompaction


def compacted(plan: Plan[Response], compaction: WireCompaction, /) -> Plan[Response]:
    """The plan of a summary, with the summary as a compaction."""
    summary = yield from plan
    response = compaction.to_compaction(summary)
    yield Emit(to_events(response), target=summary.target, notices=summary.notices)
    return response


def without_answer(raw: str, /) -> Plan[Response]:
    """The plan of an empty answer."""
    finish, usage = Finish(reason="stop", raw=raw), Usage(input=0, output=0)
    response = Response(message=Message(role="assistant"), finish=finish, usage=usage)
    yield Emit(to_events(response))
    return response
