"""Send the rows of a batch as batches of their providers, which cost half as much and take up to a day.

Rows are grouped by target into jobs. A job is written to the journal before it is created, so that a run that was
killed finds it again. Rows that a job did not answer (it was refused or expired, or the row failed) are sent one by
one. Rows whose target has no batches are sent one by one, too.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from secrets import token_hex

import msgspec

from dragoman import wires
from dragoman.engine import provider_batches
from dragoman.engine.provider_batches import batches_of
from dragoman.errors import DragomanError, ProviderError, SetupError
from dragoman.http import HttpResponse
from dragoman.io.batch.jobs import JobJournal, JobRecord
from dragoman.io.batch.row_sender import EncodedLine, RowOutcome, RowSender
from dragoman.io.batch.rows import Id, read_row_status
from dragoman.targets.target import Target
from dragoman.wires.common.batches import EncodedRow, ProviderJob

MAX_JOBS = 8
"""Jobs at the providers at the same time: their rows are in memory."""
MAX_ROWS = 5000
"""Rows of one job, even if the provider takes more: the results of a job are in memory."""
MAX_BYTES = 50_000_000
FIRST_POLL, POLL_GROWTH, MAX_POLL = 2.0, 1.5, 60.0
"""Seconds between two checks of a job, at first and at most."""
CREATE_TRIES = 3
_GONE = (404, 410)


class BatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run behaves, and the functions that get its progress."""

    concurrency: int = 8
    """Rows that are sent one by one at the same time."""
    poll: float | None = None
    """Seconds between two checks of a job; by default 2 at first, and more and more up to 60."""
    fallback: bool = True
    """Whether rows that a job did not answer are sent one by one; else they become error rows."""
    note: Callable[[str], None] = lambda _: None
    """Gets what a user should know."""
    status: Callable[[str], None] = lambda _: None
    """Gets how far the jobs are, each time that this is known."""


class _Job(msgspec.Struct):
    record: JobRecord
    target: Target
    lines: dict[str, bytes]
    """The rows of the job by their id in it."""
    state: ProviderJob | None = None
    reasons: dict[str, str] = {}
    """Why rows failed, by their id in the job."""


class ProviderBatch:
    """One run over the rows of a batch."""

    def __init__(
        self, sender: RowSender, journal: JobJournal, emit: Callable[[RowOutcome], None], options: BatchOptions, /
    ) -> None:
        """`emit` gets the outcome of each row."""
        self._sender = sender
        self._journal = journal
        self._emit = emit
        self._options = options
        self._jobs: dict[str, _Job] = {}
        self._job_slots = asyncio.Semaphore(MAX_JOBS)
        self._row_slots = asyncio.Semaphore(options.concurrency)

    async def run(self, read_rows: Callable[[], Iterable[bytes]], /) -> None:
        """Answer all rows that `read_rows` gives; it is called again if rows are in a job of the journal."""
        await self._find_created_jobs()
        rows, in_flight = self._split(read_rows)
        try:
            async with asyncio.TaskGroup() as group:
                for record in self._journal.open_jobs():
                    await self._job_slots.acquire()
                    group.create_task(self._finish(group, self._open(record, in_flight)))
                await self._submit_all(group, rows)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        self._journal.close()

    async def cancel(self, read_rows: Callable[[], Iterable[bytes]], /) -> None:
        """Cancel all jobs of the journal, and write the results of the rows that were answered before."""
        await self._find_created_jobs()
        _, in_flight = self._split(read_rows)
        jobs = [self._open(record, in_flight) for record in self._journal.open_jobs()]
        for job in jobs:
            await self._cancel(job)
        for job in jobs:
            await self._collect(job)
            self._journal.add(JobRecord(token=job.record.token, is_done=True))
        self._options.note(f"{len(jobs)} jobs cancelled")
        self._journal.close()

    async def _cancel(self, job: _Job) -> None:
        """Cancel a job. Providers refuse that for a job that has ended, or that they have forgotten."""
        try:
            await self._sender.run(provider_batches.cancel(job.record.id or "", job.target, self._sender.options))
        except ProviderError as error:
            try:
                state = await self._fetch(job)
            except ProviderError as gone:
                if gone.status not in _GONE:
                    raise _still_there(job, gone) from gone
            else:
                if state.state != "ended":
                    raise _still_there(job, error) from error

    async def _find_created_jobs(self) -> None:
        """Find the ids of jobs that were created just before a run was killed, so that their ids were not written."""
        for record in [record for record in self._journal.open_jobs() if record.id is None]:
            id = await self._find(self._open(record, {}))
            self._jobs.pop(record.token)
            self._journal.add(JobRecord(token=record.token, id=id, is_done=id is None))

    def _split(self, read_rows: Callable[[], Iterable[bytes]]) -> tuple[Iterable[bytes], dict[Id, bytes]]:
        """The rows that are in no job, one after the other, and those of the journal's jobs by their id."""
        listed = {id for record in self._journal.open_jobs() for id in record.rows}
        if not listed:
            return read_rows(), {}
        in_flight = {id: line for line in read_rows() if (id := read_row_status(line)[0]) in listed}
        return (line for line in read_rows() if read_row_status(line)[0] not in listed), in_flight

    # Submitting ------------------------------------------------------------------------------------------------------

    async def _submit_all(self, group: asyncio.TaskGroup, rows: Iterable[bytes]) -> None:
        waiting: dict[str, list[EncodedLine]] = {}
        sizes: dict[str, int] = {}
        is_noted = False
        for line in rows:
            row = self._sender.encode(line)
            if row is None:
                if not is_noted:
                    is_noted = True
                    self._options.note("rows that cannot be in a batch of their provider are sent one by one")
                await self._send_later(group, line)
                continue
            name, size = row.target.name, len(row.http.body)
            most_rows, most_bytes = _limits(row.target)
            listed = waiting.setdefault(name, [])
            if listed and (len(listed) >= most_rows or sizes[name] + size > most_bytes):
                await self._submit(group, waiting.pop(name))
                listed, sizes[name] = waiting.setdefault(name, []), 0
            listed.append(row)
            sizes[name] = sizes.get(name, 0) + size
        for listed in waiting.values():
            await self._submit(group, listed)

    async def _submit(self, group: asyncio.TaskGroup, rows: list[EncodedLine]) -> None:
        await self._job_slots.acquire()
        target, token = rows[0].target, token_hex(8)
        ids = tuple(row.id for row in rows)
        record = JobRecord(token=token, target=target.name, rows=ids, started=time.time())
        self._journal.add(record)
        lines = {_custom_id(token, index): row.line for index, row in enumerate(rows)}
        encoded = [EncodedRow(_custom_id(token, index), row.http) for index, row in enumerate(rows)]
        job = _Job(record, target, lines)
        self._jobs[token] = job
        group.create_task(self._finish(group, job, encoded))

    async def _create(self, job: _Job, rows: list[EncodedRow]) -> str:
        """Create a job. If it is not known whether it was created, look for it before another try."""
        for number in range(CREATE_TRIES):
            try:
                plan = provider_batches.submit(rows, job.record.token, job.target, self._sender.options)
                return (await self._sender.run(plan)).id
            except DragomanError as error:
                if not error.retry or number == CREATE_TRIES - 1:
                    raise
                await asyncio.sleep(error.retry_after or (self._options.poll or FIRST_POLL) * 2**number)
                if (job_id := await self._find(job)) is not None:
                    return job_id
        raise AssertionError  # pragma: no cover - the last try returns or raises

    async def _find(self, job: _Job) -> str | None:
        record, options = job.record, self._sender.options
        plan = provider_batches.find(
            record.token, len(record.rows), record.started, self._journal.known_ids(), job.target, options
        )
        state = await self._sender.run(plan)
        return None if state is None else state.id

    # Waiting ---------------------------------------------------------------------------------------------------------

    def _open(self, record: JobRecord, in_flight: Mapping[Id, bytes]) -> _Job:
        """A job of the journal, with those of its rows that have no result yet."""
        ids = {_custom_id(record.token, index): id for index, id in enumerate(record.rows)}
        lines = {custom_id: in_flight[id] for custom_id, id in ids.items() if id in in_flight}
        job = self._jobs[record.token] = _Job(record, self._sender.target(record.target), lines)
        return job

    async def _finish(self, group: asyncio.TaskGroup, job: _Job, rows: list[EncodedRow] | None = None) -> None:
        """Create or find the job, wait for its end, and write its results; send the other rows one by one."""
        try:
            why = await self._run_job(job, rows)
        finally:
            self._jobs.pop(job.record.token, None)
            self._job_slots.release()
        if job.lines:
            count = f"{len(job.lines)} row{'s' * (len(job.lines) != 1)}"
            then = "sent one by one" if self._options.fallback else "not answered"
            self._options.note(f"{job.target.name}: {why}; {count} of the batch {then}")
        if not self._options.fallback:
            for custom_id, line in job.lines.items():
                reason = job.reasons.get(custom_id, why)
                self._emit(self._sender.unanswered(line, f"{job.target.name}: not answered by the batch: {reason}"))
            job.lines.clear()
        tasks = [await self._send_later(group, line) for line in job.lines.values()]
        if tasks:
            await asyncio.wait(tasks)
        self._journal.add(JobRecord(token=job.record.token, is_done=True))

    async def _run_job(self, job: _Job, rows: list[EncodedRow] | None) -> str:
        """Create the job if it is new, and collect its results. Returns why rows may be left."""
        try:
            if rows is not None:
                id = await self._create(job, rows)
                job.record = msgspec.structs.replace(job.record, id=id)
                self._journal.add(JobRecord(token=job.record.token, id=id))
        except DragomanError as error:
            return f"the batch was refused: {error}"
        return await self._collect(job)

    async def _collect(self, job: _Job) -> str:
        """Wait for the end of a job and write its results. Returns why rows may be left."""
        try:
            ended = await self._wait(job)
            await self._read(job, ended)
        except ProviderError as error:
            if error.status not in _GONE:
                raise _still_there(job, error) from error
            return "the provider has no such batch any more"
        except DragomanError as error:
            raise _still_there(job, error) from error
        return ended.problem or "rows failed or expired"

    async def _fetch(self, job: _Job) -> ProviderJob:
        return await self._sender.run(provider_batches.fetch(job.record.id or "", job.target, self._sender.options))

    async def _wait(self, job: _Job) -> ProviderJob:
        pause = self._options.poll or FIRST_POLL
        while True:
            job.state = await self._fetch(job)
            states = [each.state for each in self._jobs.values() if each.state is not None]
            done, total = sum(each.done for each in states), sum(len(each.record.rows) for each in self._jobs.values())
            self._options.status(f"{len(self._jobs)} jobs at providers, {done} of {total} rows done")
            if job.state.state == "ended":
                return job.state
            await asyncio.sleep(pause)
            pause = self._options.poll or min(MAX_POLL, pause * POLL_GROWTH)

    async def _read(self, job: _Job, ended: ProviderJob) -> None:
        """Write the results of the rows that were answered, and take these rows from the job."""
        for result in await self._sender.run(provider_batches.results(ended, job.target, self._sender.options)):
            line = job.lines.get(result.custom_id)
            if line is None or not result.body:
                continue
            answer = HttpResponse(status=result.status, body=result.body)
            if result.status >= 400:
                job.reasons[result.custom_id] = (
                    wires.get(job.target.wire).client.decode_error(answer, answer.body).message
                )
                continue
            outcome = await self._sender.answer(line, job.target, answer)
            if outcome is not None:
                self._emit(outcome)
                del job.lines[result.custom_id]

    # One by one ------------------------------------------------------------------------------------------------------

    async def _send_later(self, group: asyncio.TaskGroup, line: bytes) -> asyncio.Task[None]:
        await self._row_slots.acquire()
        return group.create_task(self._send(line))

    async def _send(self, line: bytes) -> None:
        try:
            outcome = await self._sender.send(line)
        finally:
            self._row_slots.release()
        if outcome.stop is not None:
            raise SetupError(f"stopped: {outcome.stop}; run it again to continue, or use --keep-going")
        self._emit(outcome)


def _custom_id(token: str, index: int) -> str:
    return f"{token}-{index}"


def _limits(target: Target) -> tuple[int, int]:
    batches = batches_of(target)
    return (
        (MAX_ROWS, MAX_BYTES)
        if batches is None
        else (min(MAX_ROWS, batches.max_rows), min(MAX_BYTES, batches.max_bytes))
    )


def _still_there(job: _Job, error: DragomanError) -> SetupError:
    return SetupError(f"{error}; the batch {job.record.id} goes on at the provider: run it again to continue")
