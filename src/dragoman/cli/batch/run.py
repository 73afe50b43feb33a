"""A file of rows in, a file of answers out: many at a time, at a rate, and safe to stop and run again."""

import asyncio
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.cli import terminal as screen
from dragoman.cli.batch.asker import Asker, BatchSettings, RowOutcome
from dragoman.cli.batch.journal import Journal, Printer, digest
from dragoman.cli.batch.progress import Progress
from dragoman.cli.batch.rows import read_mark
from dragoman.cli.defaults import asked_of, config_path, open_registry, read_tables, spec_of
from dragoman.cli.input_files import STDIN
from dragoman.cli.parser import UsageError
from dragoman.errors import SetupError

Ask: TypeAlias = Callable[[bytes], Awaitable[RowOutcome]]
Output: TypeAlias = Journal | Printer
STDOUT = "-"


class Summary(msgspec.Struct, kw_only=True):
    """What a run came to."""

    rows: int
    before: int
    answered: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def left(self) -> int:
        """Rows that nobody has an answer to."""
        return self.rows - self.before - self.answered - self.errors

    def told(self) -> str:
        """In words."""
        parts = [
            f"{self.rows} rows",
            f"{self.before} were there" if self.before else "",
            f"{self.answered} answered",
            f"{self.errors} errors" if self.errors else "",
            f"{self.left} left" if self.left else "",
            f"{self.input_tokens} tokens in, {self.output_tokens} out",
            f"{self.seconds:.1f} s",
        ]
        return " · ".join(part for part in parts if part)


def run(arguments: Namespace, /) -> int:
    """Ask every row that the output does not have yet."""
    settings = _settings(arguments)
    with _source(arguments) as source, _output(arguments) as journal:
        summary = count(source, journal)
        progress = Progress(summary.rows, summary.before, shown=not arguments.quiet)
        began = time.monotonic()
        ask, leave = _asker(arguments, settings)
        try:
            asyncio.run(_ask_all(_left(source, journal), ask, journal, arguments, summary, progress))
        except KeyboardInterrupt:
            screen.note("stopped; run it again to go on", style="yellow")
            raise
        finally:
            summary.seconds = time.monotonic() - began
            progress.close()
            leave()
            if not arguments.quiet:
                screen.note(summary.told())
        failed = journal.errors + summary.errors
    if arguments.json:
        screen.write_json({**msgspec.to_builtins(summary), "left": summary.left})
    if failed and not arguments.quiet:
        screen.note(f"{failed} rows of {arguments.output} are errors; --retry-errors asks them again", style="yellow")
    return 1 if failed else 0


@contextmanager
def _source(arguments: Namespace) -> Generator[Path, None, None]:
    """The input as a file that can be read twice: what is piped in is put down in one."""
    path = Path(arguments.input)
    is_piped = arguments.input == STDIN
    if not is_piped and (path.is_file() or not path.exists()):
        path.stat()  # before there is an output without an input
        if arguments.output != STDOUT and path.resolve() == Path(arguments.output).resolve():
            raise UsageError("the output is the input; write to another file")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "stdin" if is_piped else path.name)
        with copy.open("wb") as file:
            if is_piped:
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, file)
        yield copy


def _output(arguments: Namespace) -> Output:
    if arguments.output != STDOUT:
        return Journal(Path(arguments.output), drop_errors=arguments.retry_errors)
    if arguments.json:
        raise UsageError("with --json the summary goes to stdout; write the rows to a file")
    return Printer()


def _settings(arguments: Namespace) -> BatchSettings:
    registry = open_registry(arguments)
    fallback = spec_of(arguments.model, registry)
    targets = registry.targets(fallback)
    if all(target.needs_key and not target.api_key for target in targets):
        raise SetupError(f"{fallback}: no key; set {' or '.join(targets[0].key_names)}")
    return BatchSettings(
        spec=arguments.model,
        fallback=fallback,
        asked={**asked_of(arguments)},
        tables=read_tables(config_path(arguments), registry.env),
        retries=arguments.retries,
        concurrency=arguments.concurrency,
        keep_going=arguments.keep_going,
    )


def _asker(arguments: Namespace, settings: BatchSettings) -> tuple[Ask, Callable[[], None]]:
    if arguments.ray is None:
        return Asker(settings).ask, lambda: None
    from dragoman.cli.batch.ray import open_cluster

    return open_cluster(arguments.ray, settings)


# The input ------------------------------------------------------------------------------------------------------------


def count(path: Path, journal: Output, /) -> Summary:
    """How many rows there are, and are done; refused where one has no id, or that of another."""
    seen: set[int] = set()
    summary = Summary(rows=0, before=0)
    for number, line in _rows(path):
        try:
            id, _ = read_mark(line)
        except ValueError as error:
            raise SetupError(f"{path} line {number}: {error}") from error
        seen.add(digest(id))
        summary.rows += 1
        summary.before += journal.has(id)
        if len(seen) < summary.rows:
            raise SetupError(f"{path} line {number}: the id {id!r} was there before; each row needs its own")
    return summary


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _left(path: Path, journal: Output) -> Iterator[bytes]:
    for _, line in _rows(path):
        if not journal.has(read_mark(line)[0]):
            yield line


# The work -------------------------------------------------------------------------------------------------------------


async def _ask_all(
    rows: Iterator[bytes], ask: Ask, journal: Output, arguments: Namespace, summary: Summary, progress: Progress
) -> None:
    pace = _Pace(arguments.rate)

    async def work() -> None:
        for line in rows:
            await pace.wait()
            outcome = await ask(line)
            if outcome.stop is not None:
                raise SetupError(f"stopped: {outcome.stop}; run it again to go on, or with --keep-going")
            journal.add(outcome.line)
            summary.answered += not outcome.is_error
            summary.errors += outcome.is_error
            summary.input_tokens += outcome.input
            summary.output_tokens += outcome.output
            progress.tick(is_error=outcome.is_error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(arguments.concurrency):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


class _Pace:
    """At most so many a second, evenly."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    async def wait(self) -> None:
        if self._gap:
            now = time.monotonic()
            moment = max(now, self._next)
            self._next = moment + self._gap
            await asyncio.sleep(moment - now)
