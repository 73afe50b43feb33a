"""Send the rows of a batch: many at a time, at a limited rate, and only those that the output does not have yet.

The input is read twice. The first pass counts the rows and checks that every row has its own id; the second pass
streams the remaining rows to the workers, so that memory does not grow with the input.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.cli.batch.progress import Progress
from dragoman.cli.terminal import plural
from dragoman.errors import SetupError
from dragoman.io.batch.journal import Journal, StdoutOutput, digest
from dragoman.io.batch.row_sender import RowOutcome
from dragoman.io.batch.rows import read_row, read_row_status

SendRow: TypeAlias = Callable[[bytes], Awaitable[RowOutcome]]
Output: TypeAlias = Journal | StdoutOutput


class BatchSummary(msgspec.Struct, kw_only=True):
    """The counts of one run."""

    rows: int
    already_done: int
    """Rows that the output had before this run."""
    answered: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def remaining(self) -> int:
        """Rows that have no result yet."""
        return self.rows - self.already_done - self.answered - self.errors

    def __str__(self) -> str:
        parts = [
            plural(self.rows, "row"),
            f"{self.already_done} already done" if self.already_done else "",
            f"{self.answered} answered",
            plural(self.errors, "error") if self.errors else "",
            f"{self.remaining} remaining" if self.remaining else "",
            f"{plural(self.input_tokens, 'token')} in, {self.output_tokens} out",
            f"{self.seconds:.1f} s",
        ]
        return " · ".join(part for part in parts if part)


def count_rows(path: Path, output: Output, /) -> BatchSummary:
    """Count all rows and the finished ones; SetupError if a row has no id or the id of another row."""
    seen: set[int] = set()
    summary = BatchSummary(rows=0, already_done=0)
    for number, line in _rows(path):
        try:
            id, _ = read_row_status(line)
        except ValueError as error:
            raise SetupError(f"{path} line {number}: {error}") from error
        seen.add(digest(id))
        summary.rows += 1
        summary.already_done += output.has(id)
        if len(seen) < summary.rows:
            raise SetupError(f"{path} line {number}: id must be unique, got {id!r} twice")
    return summary


def first_row_without_model(path: Path, /) -> int | None:
    """The line of the first valid row that names no model; None if all name one."""
    for number, line in _rows(path):
        try:
            row = read_row(line)
        except ValueError as error:
            raise SetupError(f"{path} line {number}: {error}") from error
        if row.model is None and row.problem is None:
            return number
    return None


def remaining_rows(path: Path, output: Output, /) -> Iterator[bytes]:
    """The rows that the output does not have."""
    for _, line in _rows(path):
        if not output.has(read_row_status(line)[0]):
            yield line


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


class ResultWriter:
    """Writes the results of the rows, counts them and draws the progress bar."""

    def __init__(self, output: Output, summary: BatchSummary, progress: Progress, /) -> None:
        self.output = output
        self.summary = summary
        self.progress = progress

    def write(self, outcome: RowOutcome, /) -> None:
        """Write the result of one row."""
        self.output.add(outcome.line)
        self.summary.answered += not outcome.is_error
        self.summary.errors += outcome.is_error
        self.summary.input_tokens += outcome.input
        self.summary.output_tokens += outcome.output
        self.progress.tick(is_error=outcome.is_error)


async def send_all(
    rows: Iterator[bytes], send: SendRow, results: ResultWriter, /, *, concurrency: int, rate: float | None
) -> None:
    """Send every row and write its result; SetupError if a sender decides to stop the batch."""
    pacer = _Pacer(rate)

    async def work() -> None:
        for line in rows:
            await pacer.wait()
            outcome = await send(line)
            if outcome.stop is not None:
                raise SetupError(f"stopped: {outcome.stop}; run it again to continue, or use --keep-going")
            results.write(outcome)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


class _Pacer:
    """Spaces requests evenly at `rate` per second."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    async def wait(self) -> None:
        if self._gap:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._gap
            await asyncio.sleep(start - now)
