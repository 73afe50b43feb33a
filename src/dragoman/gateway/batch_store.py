"""Batches of clients in the store: a batch, its rows, the result of each row, and the lease of who runs it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from secrets import token_hex
from typing import cast

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.errors import Busy, NotStored
from dragoman.gateway.files import FileStore
from dragoman.gateway.id_lists import IdList
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import DAY, change_value, read_value, store_key
from dragoman.types import JsonObject
from dragoman.wires.common.batch_values import (
    BatchInputRow,
    BatchPage,
    BatchQuery,
    BatchRowResult,
    NewBatch,
    StoredBatch,
)

MAX_ROWS = 10_000
"""Rows of one batch."""
MAX_RUNNING = 10
"""Batches of one key that have not ended."""
MAX_BATCHES = 1000
"""Batches of one key that are listed; a new one pushes the oldest out."""
MAX_ALL_RUNNING = 10_000
"""Batches of all keys that have not ended."""
BATCH_TTL = 30 * DAY
LEASE = 30.0
"""Seconds for which a worker holds a batch after it renewed its lease."""
_decode_batch = msgspec.json.Decoder(StoredBatch).decode
_decode_rows = msgspec.json.Decoder(tuple[BatchInputRow, ...]).decode
_decode_result = msgspec.json.Decoder(BatchRowResult).decode
_RunningBatch = tuple[str | None, str]
"""The owner of a batch, and its id."""


class BatchStore:
    """The batches in a store. Each expires after thirty days."""

    def __init__(self, store: Store, files: FileStore, /) -> None:
        self.changed = asyncio.Event()
        """Set if this worker created or cancelled a batch."""
        self.files = files
        self._store = store
        self._ids = IdList(store, "batches", limit=MAX_BATCHES, ttl=BATCH_TTL)
        self._running = IdList(store, "running-batches", limit=MAX_ALL_RUNNING, ttl=BATCH_TTL)

    async def run(self, owner: str | None, query: BatchQuery, /) -> StoredBatch | BatchPage:
        """Do what a client asks for.

        For the action `results` it returns the batch; the method `results` reads its rows.
        """
        match query.action:
            case "create":
                return await self._create(owner, cast("NewBatch", query.new))
            case "list":
                return await self._list(owner, query)
            case "fetch":
                return await self.load(owner, query.id, query.wire)
            case "cancel":
                return await self._cancel(owner, query)
            case "results":
                batch = await self.load(owner, query.id, query.wire)
                if batch.state != "ended":
                    raise InvalidRequest(f"batch {batch.id} must have ended; it is {batch.state}, try again later")
                return batch
            case "drop":
                return await self._drop(owner, query)

    async def running(self) -> list[_RunningBatch]:
        """The batches that have not ended, the oldest first."""
        return [_split(name) for name in reversed(await self._running.read(None))]

    async def _create(self, owner: str | None, new: NewBatch) -> StoredBatch:
        if sum(each == owner for each, _ in await self.running()) >= MAX_RUNNING:
            raise Busy(f"{MAX_RUNNING} batches of this key run; wait until one ends, or cancel one", retry_after=60.0)
        rows = new.rows
        problems: list[JsonObject] = []
        if new.input_file is not None and new.read_rows is not None:
            content = await self.files.read(owner, new.input_file)
            rows, problems = await asyncio.to_thread(new.read_rows, content.data)
        if len(rows) > MAX_ROWS:
            raise InvalidRequest(
                f"a batch must have at most {MAX_ROWS} requests, got {len(rows)}; send several batches"
            )
        now = int(time.time())
        batch = StoredBatch(
            id=f"{_PREFIXES.get(new.wire, 'batch_')}{token_hex(16)}",
            wire=new.wire,
            endpoint=new.endpoint,
            created=now,
            expires=now + int(DAY),
            state="ended" if problems else "running",
            total=0 if problems else len(rows),
            ended_at=now if problems else None,
            metadata=new.metadata,
            input_file=new.input_file,
            problems=problems,
        )
        if not problems:
            await self._store.write(store_key("batch-rows", owner, batch.id), msgspec.json.encode(rows), ttl=BATCH_TTL)
        await self._write(owner, batch)
        await self._ids.add(owner, batch.id)
        if not problems:
            await self._running.add(None, _join(owner, batch.id))
            self.changed.set()
        return batch

    async def _list(self, owner: str | None, query: BatchQuery) -> BatchPage:
        ids = await self._ids.read(owner)
        if query.after:
            if query.after not in ids:
                raise InvalidRequest(f"after must be the id of a batch, got {query.after[:200]!r}", param="after")
            ids = ids[ids.index(query.after) + 1 :]
        batches: list[StoredBatch] = []
        for id in ids:
            batch = await self._find(owner, id)
            if batch is None or batch.wire != query.wire:
                continue
            if len(batches) == query.limit:
                return BatchPage(tuple(batches), has_more=True)
            batches.append(batch)
        return BatchPage(tuple(batches))

    async def _cancel(self, owner: str | None, query: BatchQuery) -> StoredBatch:
        await self.load(owner, query.id, query.wire)

        def cancel(batch: StoredBatch) -> StoredBatch:
            return (
                batch if batch.state != "running" else replace(batch, state="canceling", canceled_at=int(time.time()))
            )

        batch = await self.change(owner, query.id, cancel)
        self.changed.set()
        return batch

    async def _drop(self, owner: str | None, query: BatchQuery) -> StoredBatch:
        batch = await self.load(owner, query.id, query.wire)
        if batch.state != "ended":
            raise InvalidRequest(f"batch {batch.id} must have ended before it is deleted; cancel it first")
        await self._store.delete(store_key("batch", owner, batch.id))
        await self.forget_rows(owner, batch)
        await self._ids.remove(owner, batch.id)
        return batch

    async def load(self, owner: str | None, id: str, wire: str | None = None, /) -> StoredBatch:
        """A batch; NotStored if the owner has none with this id."""
        batch = await self._find(owner, id)
        if batch is None or (wire is not None and batch.wire != wire):
            raise _no_batch(id)
        return batch

    async def _find(self, owner: str | None, id: str) -> StoredBatch | None:
        return await read_value(self._store, store_key("batch", owner, id), _decode_batch)

    async def _write(self, owner: str | None, batch: StoredBatch) -> None:
        await self._store.write(store_key("batch", owner, batch.id), msgspec.json.encode(batch), ttl=BATCH_TTL)

    async def change(self, owner: str | None, id: str, change: Callable[[StoredBatch], StoredBatch], /) -> StoredBatch:
        """Change what is stored of a batch. Clients and the runner may do so at the same time."""

        def change_stored(batch: StoredBatch | None) -> StoredBatch:
            if batch is None:
                raise _no_batch(id)
            return change(batch)

        key = store_key("batch", owner, id)
        return await change_value(self._store, key, _decode_batch, change_stored, name="batch", ttl=BATCH_TTL)

    # Rows and results ------------------------------------------------------------------------------------------------

    async def rows(self, owner: str | None, id: str, /) -> tuple[BatchInputRow, ...]:
        return await read_value(self._store, store_key("batch-rows", owner, id), _decode_rows) or ()

    async def result(self, owner: str | None, id: str, index: int, /) -> BatchRowResult | None:
        """The result of a row; None if it has none yet."""
        return await read_value(self._store, store_key("batch-row", owner, f"{id}/{index}"), _decode_result)

    async def save_result(self, owner: str | None, id: str, index: int, result: BatchRowResult, /) -> None:
        await self._store.write(
            store_key("batch-row", owner, f"{id}/{index}"), msgspec.json.encode(result), ttl=BATCH_TTL
        )

    async def results(self, owner: str | None, batch: StoredBatch, /) -> AsyncGenerator[BatchRowResult, None]:
        """The results of all rows that have one, in the order of the rows. One of them is in memory at a time."""
        for index in range(batch.total):
            if (result := await self.result(owner, batch.id, index)) is not None:
                yield result

    async def forget_rows(self, owner: str | None, batch: StoredBatch, /) -> None:
        """Delete the rows and their results."""
        for index in range(batch.total):
            await self._store.delete(store_key("batch-row", owner, f"{batch.id}/{index}"))
        await self._store.delete(store_key("batch-rows", owner, batch.id))

    async def end(self, owner: str | None, id: str, /) -> None:
        """Note that a batch has ended."""
        await self._running.remove(None, _join(owner, id))

    async def lease(self, id: str, holder: str, /, *, is_new: bool) -> bool:
        """Take the lease of a batch, or renew it; False if another worker has it."""
        key, version = store_key("batch-lease", None, id), None
        if not is_new:
            entry = await self._store.read(key)
            if entry is not None and entry.value != holder.encode():
                return False
            version = None if entry is None else entry.version
        return await self._store.write(key, holder.encode(), ttl=LEASE, expects=version) is not None

    async def release(self, id: str, holder: str, /) -> None:
        """Give the lease of a batch back, if this worker has it."""
        key = store_key("batch-lease", None, id)
        entry = await self._store.read(key)
        if entry is not None and entry.value == holder.encode():
            await self._store.delete(key)


_PREFIXES = {"anthropic": "msgbatch_"}


def _no_batch(id: str) -> NotStored:
    return NotStored(f"no batch {id[:200]!r}")


def _join(owner: str | None, id: str) -> str:
    return msgspec.json.encode((owner, id)).decode()


def _split(name: str) -> _RunningBatch:
    owner_and_id: _RunningBatch = msgspec.json.decode(name, type=_RunningBatch)
    return owner_and_id
