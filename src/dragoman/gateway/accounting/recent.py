"""Requests that ended in, the last of them with all who were tried out: a ring in memory, without a word of content."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from dragoman.gateway.store.base import UsageRow
from dragoman.types import Attempt

MOST = 500
"""Requests whose attempts are remembered."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One try of one target. Of an error only its kind is told: what a provider says may quote what it was asked.

    >>> AttemptRecord(target="groq/llama", outcome="failed", why="Overloaded").seconds is None
    True
    """

    target: str
    outcome: str
    why: str | None = None
    seconds: float | None = None


class RecentRequests:
    """The last requests of this process.

    >>> recent = RecentRequests()
    >>> row = UsageRow(id="r1", moment=0.0, model="fast", target="groq/llama", outcome="served")
    >>> recent.add(row, [Attempt(target="box/m", outcome="failed", error="Overloaded: busy")])
    >>> [(trial.target, trial.why) for trial in recent.attempts("r1")]
    [('box/m', 'Overloaded'), ('groq/llama', None)]
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[UsageRow, Sequence[Attempt]]] = OrderedDict()

    def add(self, row: UsageRow, attempts: Sequence[Attempt], /) -> None:
        """A request ended."""
        self._kept[row.id] = row, attempts
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def rows(self) -> tuple[UsageRow, ...]:
        """All of them, newest first."""
        return tuple(row for row, _ in reversed(self._kept.values()))

    def attempts(self, id: str, /) -> tuple[AttemptRecord, ...]:
        """Who was tried for a request; nobody where it is not known here."""
        if id not in self._kept:
            return ()
        row, attempts = self._kept[id]
        trials = tuple(_trial(attempt) for attempt in attempts)
        # Of a stream, the target that answers is told when all of it was read, and by then the request has ended.
        if row.target is None or any(trial.target == row.target and trial.outcome != "skipped" for trial in trials):
            return trials
        return (*trials, AttemptRecord(target=row.target, outcome=row.outcome))


def error_type(error: str | None, /) -> str | None:
    """What kind of error it was, without what it says.

    >>> error_type("Overloaded: the model 'x' is busy")
    'Overloaded'
    """
    return None if error is None else error.partition(":")[0]


def _trial(attempt: Attempt) -> AttemptRecord:
    why = error_type(attempt.error)
    return AttemptRecord(target=attempt.target, outcome=attempt.outcome, why=why, seconds=attempt.duration)
