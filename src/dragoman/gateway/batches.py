"""Batches of clients: the gateway runs their rows one after the other, in the name of the key that sent them.

`BatchRunner` runs in each worker. A batch is run by the worker that holds its lease; if that worker dies, another one,
or the next start of the gateway, goes on with the rows that have no result. A row is an ordinary request: it counts for
the limits and budgets of its key, and has a row in the usage log. If the key is over a limit, the row waits.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from secrets import token_hex
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import InvalidRequest, StoreDown
from dragoman.gateway.batch_store import BatchStore
from dragoman.gateway.errors import NotStored
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.response import GatewayResponse, Write, with_headers
from dragoman.http import HttpRequest
from dragoman.wires.common.batch_values import (
    BatchInputRow,
    BatchQuery,
    BatchRowOutcome,
    BatchRowResult,
    StoredBatch,
)
from dragoman.wires.common.server_endpoints import ServerEndpoint, UploadedFile

log = logging.getLogger("dragoman.gateway")

CONCURRENCY = 4
"""Rows of one batch at the same time."""
MAX_BATCHES_AT_ONCE = 8
"""Batches that one worker runs at the same time."""
RENEWAL = 10.0
"""Seconds after which a worker renews the lease of a batch."""
CHECK = 1.0
"""Seconds between two checks for new batches, and for a cancel by another worker."""
MAX_RESULTS = 64 * 1024 * 1024
"""Bytes of the results of one batch. Then its other rows are not sent."""
PIECE = 64 * 1024
"""Bytes of results that are written at a time."""
MAX_WAIT = 60.0
"""Seconds that a row waits before it is tried again while its key is over a limit."""
AnswerRow: TypeAlias = Callable[["RequestContext"], Awaitable[GatewayResponse]]


class BatchRunner:
    """Runs the batches that this worker holds."""

    def __init__(self, runtime: Callable[[], "Runtime"], answer: AnswerRow, /) -> None:
        """`runtime` gives the current one; `answer` answers a request."""
        self._runtime = runtime
        self._answer = answer
        self._name = token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look for batches, and run them, until cancelled."""
        try:
            while True:
                batches = self._runtime().batches
                batches.changed.clear()
                with suppress(StoreDown):
                    await self._start_new(batches)
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK):
                        await batches.changed.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _start_new(self, batches: BatchStore) -> None:
        for owner, id in await batches.running():
            if len(self._tasks) >= MAX_BATCHES_AT_ONCE:
                return
            if id not in self._tasks and await batches.lease(id, self._name, is_new=True):
                task = self._tasks[id] = asyncio.create_task(self._run(batches, owner, id))
                task.add_done_callback(partial(self._ended, id))

    def _ended(self, id: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("batch %s: %s; it is tried again", id, error)

    async def _run(self, batches: BatchStore, owner: str | None, id: str) -> None:
        run = _BatchRun(self._runtime, self._answer, batches, owner, id)
        work = asyncio.create_task(run.run())
        renewing = asyncio.create_task(self._renew(batches, run))
        try:
            await asyncio.wait((work, renewing), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                log.warning("batch %s: another worker runs it, because this one was too slow", id)
                return
            await work
        except NotStored:
            await batches.end(owner, id)
        finally:
            for task in (work, renewing):
                task.cancel()
            await asyncio.wait((work, renewing))
            with suppress(StoreDown):
                await batches.release(id, self._name)

    async def _renew(self, batches: BatchStore, run: "_BatchRun") -> None:
        """Store how far the batch is, and renew its lease; ends if another worker has the lease."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(CHECK)
            with suppress(StoreDown):
                await run.save()
                if time.monotonic() - renewed > RENEWAL:
                    if not await batches.lease(run.id, self._name, is_new=False):
                        return
                    renewed = time.monotonic()


class _BatchRun:
    """One batch while it runs in this worker."""

    def __init__(
        self,
        runtime: Callable[[], "Runtime"],
        answer: AnswerRow,
        batches: BatchStore,
        owner: str | None,
        id: str,
    ) -> None:
        self.id = id
        self._runtime = runtime
        self._answer = answer
        self._batches = batches
        self._owner = owner
        self._outcomes: dict[str, int] = {}
        self._bytes = 0
        """Of the results so far."""
        self._canceled = asyncio.Event()
        self._expires = 0

    async def run(self) -> None:
        """Run the rows that have no result, and write the files of the results."""
        batches, owner = self._batches, self._owner
        batch = await batches.load(owner, self.id)
        self._expires = batch.expires
        if batch.state != "running":
            self._canceled.set()
        rows = await batches.rows(owner, self.id)
        remaining: list[tuple[int, BatchInputRow]] = []
        for index, row in enumerate(rows):
            result = await batches.result(owner, self.id, index)
            if result is None:
                remaining.append((index, row))
            else:
                self._count(result)
        queue = iter(remaining)
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(self._work(batch, queue))
        await self._finish(batch)

    async def _work(self, batch: StoredBatch, queue: Iterator[tuple[int, BatchInputRow]]) -> None:
        for index, row in queue:
            result = await self._result(batch, row)
            await self._batches.save_result(self._owner, self.id, index, result)
            self._count(result)

    def _count(self, result: BatchRowResult) -> None:
        self._outcomes[result.outcome] = self._outcomes.get(result.outcome, 0) + 1
        self._bytes += len(bytes(result.body))

    async def save(self) -> None:
        """Store how far the batch is, and see whether it was cancelled."""
        outcomes = dict(self._outcomes)
        batch = await self._batches.change(self._owner, self.id, lambda batch: replace(batch, outcomes=outcomes))
        if batch.state == "canceling":
            self._canceled.set()

    async def _result(self, batch: StoredBatch, row: BatchInputRow) -> BatchRowResult:
        while True:
            if self._canceled.is_set():
                return BatchRowResult(custom_id=row.custom_id, outcome="canceled")
            if time.time() > self._expires:
                return BatchRowResult(custom_id=row.custom_id, outcome="expired")
            if self._bytes > MAX_RESULTS:
                return _refused(
                    row, 413, f"the results of a batch must have at most {MAX_RESULTS} bytes; send it in another batch"
                )
            context = self._context(batch, row)
            if (refusal := self._refusal(context)) is not None:
                return _refused(row, 401, refusal)
            response = await self._answer(context)
            if response.status != 429:
                return _to_result(row, context, response)
            wait = next((value for name, value in response.headers if name.lower() == "retry-after"), "1")
            await self._pause(min(MAX_WAIT, float(wait) if wait.replace(".", "", 1).isdecimal() else 1.0))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._canceled.wait()

    def _refusal(self, context: RequestContext) -> str | None:
        """Why the key may send nothing any more; None if it may."""
        if context.key is None:
            return None if self._owner is None else "the key of the batch was removed"
        return context.key.refusal(time.time())

    def _context(self, batch: StoredBatch, row: BatchInputRow) -> RequestContext:
        """The request of a row, in the name of the key, if there still is such a key."""
        runtime = self._runtime()
        key = next((key for key in runtime.keys.all if key.id == self._owner), None)
        headers = {"content-type": "application/json"}
        http = HttpRequest(method="POST", path=batch.endpoint, headers=headers, body=bytes(row.body))
        context = RequestContext(runtime, http)
        context.key = key
        return context

    async def _finish(self, batch: StoredBatch) -> None:
        """Write the files of the results, if the dialect has some. It waits until there is room for them."""
        output: str | None = None
        errors: str | None = None
        to_files = wires.get(batch.wire).batch_files
        if to_files is not None:
            answers, failures = bytearray(), bytearray()
            async for result in self._batches.results(self._owner, batch):
                for file, line in zip((answers, failures), to_files((result,)), strict=True):
                    file.extend(line)
            output = await self._upload(batch, "output", answers)
            errors = await self._upload(batch, "errors", failures)
        outcomes = dict(self._outcomes)

        def end(batch: StoredBatch) -> StoredBatch:
            ended_at = int(time.time())
            return replace(
                batch, state="ended", ended_at=ended_at, outcomes=outcomes, output_file=output, error_file=errors
            )

        await self._batches.change(self._owner, self.id, end)
        await self._batches.end(self._owner, self.id)
        if to_files is not None:
            await self._batches.forget_rows(self._owner, batch)

    async def _upload(self, batch: StoredBatch, name: str, data: bytearray) -> str | None:
        if not data:
            return None
        file = UploadedFile(
            data=bytes(data), name=f"{batch.id}_{name}.jsonl", mime="application/jsonl", purpose="batch_output"
        )
        while True:
            try:
                return (await self._batches.files.create(self._owner, file)).id
            except InvalidRequest as error:
                log.warning("batch %s: no room for its results: %s", batch.id, error)
                await asyncio.sleep(MAX_WAIT)


def results_response(
    context: RequestContext, endpoint: ServerEndpoint, query: BatchQuery, batch: StoredBatch, /
) -> GatewayResponse:
    """The results of a batch, read and written line by line: there may be many, and clients may be slow."""

    async def write_lines(write: Write) -> None:
        piece = bytearray()
        async with aclosing(context.runtime.batches.results(context.owner, batch)) as results:
            async for result in results:
                piece += endpoint.encode(query, (result,)).body
                if len(piece) > PIECE:
                    await write(bytes(piece))
                    piece.clear()
        if piece:
            await write(bytes(piece))

    head = with_headers(endpoint.encode(query, ()), context.response_headers())
    return replace(head, body=write_lines)


def _refused(row: BatchInputRow, status: int, message: str) -> BatchRowResult:
    body = msgspec.Raw(msgspec.json.encode({"error": {"message": message}}))
    return BatchRowResult(custom_id=row.custom_id, outcome="errored", status=status, body=body)


def _to_result(row: BatchInputRow, context: RequestContext, response: GatewayResponse) -> BatchRowResult:
    outcome: BatchRowOutcome = "succeeded" if response.status < 400 else "errored"
    body = response.body
    if not isinstance(body, bytes):
        outcome, body = "errored", b'{"error":{"message":"stream must be left out in a batch"}}'
    return BatchRowResult(
        custom_id=row.custom_id,
        outcome=outcome,
        status=400 if not isinstance(response.body, bytes) else response.status,
        request_id=context.id,
        body=msgspec.Raw(body or b"null"),
    )
