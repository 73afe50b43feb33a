"""`dragoman batch`: answer the rows of a JSONL file; safe to stop and run again."""

import asyncio
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.cli import terminal
from dragoman.cli.batch.progress import Progress
from dragoman.cli.batch.run import (
    Output,
    ResultWriter,
    SendRow,
    count_rows,
    first_row_without_model,
    remaining_rows,
    send_all,
)
from dragoman.cli.defaults import (
    HOW_TO_SET_A_KEY,
    call_options,
    named_spec,
    open_registry,
    read_tables,
)
from dragoman.cli.input_files import STDIN
from dragoman.cli.parser import UsageError, config_path
from dragoman.errors import SetupError
from dragoman.io.batch.jobs import JobJournal
from dragoman.io.batch.journal import Journal, StdoutOutput
from dragoman.io.batch.provider import BatchOptions, ProviderBatch
from dragoman.io.batch.row_sender import BatchSettings, RowSender
from dragoman.registry import Registry

STDOUT = "-"
DEMO_PROVIDER = "demo"


def run(arguments: Namespace, /) -> int:
    """Answer every row that the output does not have yet."""
    registry = open_registry(arguments)
    settings = _settings(arguments, registry)
    with _input(arguments) as source, _output(arguments, settings, registry, source) as output:
        summary = count_rows(source, output)
        progress = Progress(summary.rows, summary.already_done, is_visible=not arguments.quiet)
        began = time.monotonic()
        work, close = _work(arguments, settings, source, ResultWriter(output, summary, progress))
        try:
            asyncio.run(work)
        except KeyboardInterrupt:
            terminal.note("stopped; run it again to continue", style="yellow")
            raise
        finally:
            summary.seconds = time.monotonic() - began
            progress.close()
            close()
            if not arguments.quiet:
                terminal.note(str(summary))
        failed = output.errors + summary.errors
    if arguments.json:
        terminal.write_json({**msgspec.to_builtins(summary), "remaining": summary.remaining})
    if failed and not arguments.quiet:
        terminal.note(
            f"{terminal.plural(failed, 'row')} of {arguments.output} failed: see their field error, "
            "or retry with --retry-errors",
            style="yellow",
        )
    return 1 if failed else 0


@contextmanager
def _input(arguments: Namespace) -> Generator[Path, None, None]:
    """The input as a file that can be read twice; a pipe is copied to a temporary file."""
    path = Path(arguments.input)
    is_stdin = arguments.input == STDIN
    if not is_stdin and (path.is_file() or not path.exists()):
        path.stat()  # raises before the output is created
        if arguments.output != STDOUT and path.resolve() == Path(arguments.output).resolve():
            raise UsageError("OUT.jsonl must not be IN.jsonl; write to another file")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "stdin" if is_stdin else path.name)
        with copy.open("wb") as file:
            if is_stdin:
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, file)
        yield copy


def _output(arguments: Namespace, settings: BatchSettings, registry: Registry, source: Path) -> Output:
    if settings.fallback is None and (line := first_row_without_model(source)) is not None:
        raise SetupError(
            f"{arguments.input} line {line}: the row names no model, and no API key is set; {HOW_TO_SET_A_KEY}"
        )
    if arguments.output != STDOUT:
        is_demo = settings.fallback is not None and any(
            target.provider == DEMO_PROVIDER for target in registry.targets(settings.fallback)
        )
        return Journal(Path(arguments.output), drop_errors=arguments.retry_errors, drop_demo=not is_demo)
    if arguments.json:
        raise UsageError("--json writes the summary to stdout; write the rows to a file")
    return StdoutOutput()


def _settings(arguments: Namespace, registry: Registry) -> BatchSettings:
    fallback = named_spec(arguments.model, registry)
    targets = [] if fallback is None else registry.targets(fallback)
    if targets and all(target.lacks_key for target in targets):
        raise SetupError(f"{fallback}: no API key; set {' or '.join(targets[0].key_names)}")
    return BatchSettings(
        spec=arguments.model,
        fallback=fallback,
        options={**call_options(arguments)},
        tables=read_tables(config_path(arguments), registry.env),
        retries=arguments.retries,
        concurrency=arguments.concurrency,
        keep_going=arguments.keep_going,
    )


def _work(
    arguments: Namespace, settings: BatchSettings, source: Path, results: ResultWriter
) -> tuple[Coroutine[Any, Any, None], Callable[[], None]]:
    """What answers the rows, and a function that closes what it uses."""
    if arguments.provider_batch or arguments.cancel:
        return _run_provider_batch(arguments, settings, source, results), lambda: None
    if arguments.output != STDOUT and JobJournal(Path(arguments.output)).open_jobs():
        raise UsageError(
            f"rows of {arguments.output} are in batches of a provider; add --provider-batch to continue, or --cancel"
        )
    send, close = _open_workers(arguments, settings)
    rows = remaining_rows(source, results.output)
    return send_all(rows, send, results, concurrency=arguments.concurrency, rate=arguments.rate), close


async def _run_provider_batch(
    arguments: Namespace, settings: BatchSettings, source: Path, results: ResultWriter
) -> None:
    if arguments.ray is not None:
        raise UsageError("--provider-batch must be left out with --ray: the provider runs the rows")
    journal = JobJournal(None if arguments.output == STDOUT else Path(arguments.output))

    def note(text: str) -> None:
        if not arguments.quiet:
            terminal.note(text, style="yellow")

    options = BatchOptions(
        concurrency=arguments.concurrency,
        poll=arguments.poll,
        fallback=not arguments.no_fallback,
        note=note,
        status=results.progress.set_status,
    )
    batch = ProviderBatch(RowSender(settings), journal, results.write, options)
    run = batch.cancel if arguments.cancel else batch.run
    await run(lambda: remaining_rows(source, results.output))


def _open_workers(arguments: Namespace, settings: BatchSettings) -> tuple[SendRow, Callable[[], None]]:
    """A function that sends one row, and one that closes what it uses."""
    if arguments.ray is None:
        return RowSender(settings).send, lambda: None
    from dragoman.cli.batch.ray import open_cluster

    return open_cluster(arguments.ray, settings)
