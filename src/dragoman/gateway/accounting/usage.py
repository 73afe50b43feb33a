"""The usage log: one row per request in the store; and the last requests of this process, for the dashboard.

A row is written before a provider is called, with the outcome `unknown`, and again when the request has ended. So a
killed gateway leaves rows with an unknown outcome, but no request is missing. Rows that arrive while a write is running
are written together. If the store is down, rows stay pending and are written later.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.store.base import Store, UsageRow
from dragoman.types import Attempt

log = logging.getLogger("dragoman.gateway")

MAX_PENDING = 100_000
"""Rows that are held for a store that is down. If there are more, the oldest are lost and counted."""
MAX_BATCH = 500
"""Rows of one write."""
MAX_RECENT = 500
"""Requests whose attempts are kept in memory."""
MAX_MODELS = 1000
"""Names of models, per process and day, that get sums of their own; some servers accept any name."""
MAX_USERS = 10_000
"""End users, per process and day, that get sums of their own; clients choose their names."""
OTHER_MODEL = "(other)"
"""The name for all models and users after these in the usage log; the access log has their names."""


class UsageLog:
    """Writes rows to a store."""

    def __init__(self, store: Store, /) -> None:
        self.lost = 0
        """Rows that were dropped because too many were pending."""
        self._store = store
        self._lock = asyncio.Lock()
        self._pending: OrderedDict[str, UsageRow] = OrderedDict()
        self._is_down = False
        self._models: set[str] = set()
        self._users: set[str] = set()
        self._day = 0.0

    @property
    def pending(self) -> int:
        """Rows that are not written yet."""
        return len(self._pending)

    async def record(self, row: UsageRow, /) -> None:
        """Write a row, or its new version. Returns when it is written, or at once if the store is down."""
        self.queue(row)
        if not self._is_down:
            await self._write(row.id)

    def queue(self, row: UsageRow, /) -> None:
        """Write a row at the next `flush`. Use it if the store dies with this process anyway."""
        self._pending[row.id] = self._with_bounded_name(row)
        if len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)
            self.lost += 1

    def _with_bounded_name(self, row: UsageRow) -> UsageRow:
        day = row.started_at // 86_400  # UTC has days of one length
        if day > self._day:
            self._day = day
            self._models.clear()
            self._users.clear()
        if row.user is not None and row.user not in self._users:
            if len(self._users) < MAX_USERS:
                self._users.add(row.user)
            else:
                row = msgspec.structs.replace(row, user=OTHER_MODEL)
        if row.model in self._models or len(self._models) < MAX_MODELS:
            self._models.add(row.model)
            return row
        target = None if row.target is None else f"{row.target.partition('/')[0]}/{OTHER_MODEL}"
        return msgspec.structs.replace(row, model=OTHER_MODEL, target=target)

    async def flush(self) -> None:
        """Write all pending rows."""
        if self._pending:
            await self._write(None)

    async def aclose(self) -> None:
        """Write all pending rows; raise StoreDown if that is impossible."""
        while self._pending:
            before = len(self._pending)
            await self._write(None)
            if len(self._pending) >= before:
                raise StoreDown(f"usage log: {before} rows could not be written")

    async def _write(self, id: str | None) -> None:
        """Write pending rows in batches, until the row `id` is written, or all are if it is None."""
        async with self._lock:
            while self._pending and (id is None or id in self._pending):
                rows = list(islice(self._pending.values(), MAX_BATCH))
                try:
                    await self._store.record(rows)
                except StoreDown as error:
                    if not self._is_down:
                        log.error("the store cannot be written, usage rows wait in memory: %s", error)  # noqa: TRY400 - no bug of ours
                    self._is_down = True
                    return
                if self._is_down:
                    log.warning("the store can be written again, %d usage rows were waiting", len(self._pending))
                self._is_down = False
                self._remove(rows)

    def _remove(self, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            # A newer version that was queued during the write stays pending.
            if self._pending.get(row.id) is row:
                del self._pending[row.id]


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a request. Only the type of an error is kept: its message may quote the prompt."""

    target: str
    outcome: str
    error: str | None = None
    seconds: float | None = None


class RecentRequests:
    """The last requests of this process."""

    def __init__(self) -> None:
        self._requests: deque[tuple[UsageRow, Sequence[Attempt]]] = deque(maxlen=MAX_RECENT)

    def add(self, row: UsageRow, attempts: Sequence[Attempt], /) -> None:
        """Add a request that has ended."""
        self._requests.append((row, attempts))

    def attempts(self, id: str, /) -> tuple[AttemptRecord, ...]:
        """The attempts of a request; empty if this process does not know it."""
        entry = next((each for each in reversed(self._requests) if each[0].id == id), None)
        if entry is None:
            return ()
        row, attempts = entry
        records = tuple(_record(attempt) for attempt in attempts)
        # The attempt that answers a stream is reported after its last event, when the request has already ended.
        if row.target is None or any(each.target == row.target and each.outcome != "skipped" for each in records):
            return records
        return (*records, AttemptRecord(target=row.target, outcome=row.outcome))


def error_type(error: str | None, /) -> str | None:
    """The type of an error, without its message."""
    return None if error is None else error.partition(":")[0]


def _record(attempt: Attempt) -> AttemptRecord:
    error = error_type(attempt.error)
    return AttemptRecord(target=attempt.target, outcome=attempt.outcome, error=error, seconds=attempt.duration)
