"""`Model.batch`: rows as values in, rows as values out, with the same rows as `dragoman batch`."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.io.batch.jobs import JobJournal
from dragoman.io.batch.journal import Journal, digest
from dragoman.io.batch.provider import BatchOptions, ProviderBatch
from dragoman.io.batch.row_sender import RowOutcome, RowSender
from dragoman.io.batch.rows import read_row_status
from dragoman.types import JsonObject
from dragoman.types.checks import as_items, as_text, check_flag, check_whole_number, is_mapping, wrong_value

MAX_POLL = 86400.0
BatchInput = Iterable[str | Mapping[str, Any]]


def check_batch_options(journal: object, poll: object, fallback: object, concurrency: object, /) -> None:
    """Refuse wrong options of a batch."""
    if journal is not None:
        path = as_text("journal", str(journal)) if isinstance(journal, str | Path) else ""
        if not path or "\0" in path or Path(path).is_dir():
            raise wrong_value("journal", "the path of a file", journal)
    if poll is not None and (isinstance(poll, bool) or not isinstance(poll, int | float) or not 0 < poll < MAX_POLL):
        raise wrong_value("poll", f"a number of seconds up to {MAX_POLL:.0f}", poll)
    check_flag("fallback", fallback)
    check_whole_number("concurrency", concurrency, least=1)


async def run_batch(
    sender: RowSender, rows: BatchInput, journal: str | Path | None, options: BatchOptions, /
) -> list[JsonObject]:
    """The output rows, in the order of the input rows."""
    lines = dict(_lines(rows))
    path = None if journal is None else Path(journal)
    results: dict[int, bytes] = {}
    with nullcontext(None) if path is None else Journal(path) as output:
        if output is not None:
            results = {digest(read_row_status(line)[0]): line for line in output.rows()}

        def emit(outcome: RowOutcome) -> None:
            if output is not None:
                output.add(outcome.line)
            results[digest(read_row_status(outcome.line)[0])] = outcome.line

        def remaining() -> Iterator[bytes]:
            return (line for key, line in lines.items() if key not in results)

        await ProviderBatch(sender, JobJournal(path), emit, options).run(remaining)
    return [msgspec.json.decode(results[key]) for key in lines]


def _lines(rows: BatchInput) -> Iterator[tuple[int, bytes]]:
    """The lines of the rows by the digest of their id; a text is a prompt, and its place is its id."""
    seen: set[int] = set()
    for index, row in enumerate(as_items("rows", rows, "a list of prompts", "or of rows {'id': 1, 'prompt': 'hi'}")):
        data: Any = {"id": index, "prompt": row} if isinstance(row, str) else row
        if not is_mapping(data):
            raise wrong_value("rows", "a list of prompts or of rows {'id': 1, 'prompt': 'hi'}", row)
        if "id" not in data and "custom_id" not in data:
            data = {"id": index, **data}
        try:
            line = msgspec.json.encode(data)
            key = digest(read_row_status(line)[0])
        except (TypeError, ValueError, msgspec.EncodeError) as error:
            raise InvalidRequest(f"rows[{index}] must be JSON with an id: {error}", param="rows") from error
        if key in seen:
            raise InvalidRequest(f"rows[{index}] must have an id of its own, got one twice", param="rows")
        seen.add(key)
        yield key, line


def run_blocking(make: Callable[[], Coroutine[Any, Any, list[JsonObject]]], /) -> list[JsonObject]:
    """Run the coroutine of a batch to its end; InvalidRequest inside of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    raise InvalidRequest("batch must not be called in an event loop; await abatch instead", param="batch")
