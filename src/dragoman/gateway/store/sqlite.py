"""A store in one SQLite file. It survives `kill -9`, and the processes of one machine can share it.

One thread owns the connection, so the event loop never waits for the disk. All calls that arrive while the thread is
busy run in one transaction: a hundred requests at once cost a few commits.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from dragoman.errors import InvalidRequest, StoreDown
from dragoman.gateway.store import counters
from dragoman.gateway.store.base import (
    ANY,
    Charge,
    ConcurrencySlot,
    CounterLevel,
    Expected,
    ReserveOutcome,
    StoredValue,
    UsageRow,
    UsageSum,
    decode_row,
    empty_sum,
    sum_usage,
)
from dragoman.gateway.store.sqlite_queries import (
    HOURS_TABLE,
    LATENCIES_TABLE,
    add_to_hour,
    fill_hours,
    select_row,
    select_rows,
    select_sums,
)
from dragoman.gateway.store.usage_queries import HOUR_TTL, RowsPage, RowsQuery, SumsQuery, SumsResult

T = TypeVar("T")
SqliteStep: TypeAlias = Callable[[sqlite3.Connection], T]

BUSY_TIMEOUT = 5.0
"""Seconds to wait for the write lock of another process."""
MAX_CALLS = 256
"""Calls in one transaction."""
QUERY_TIMEOUT = 20.0
"""Seconds for a query of the usage log."""
SWEEP_INTERVAL = 3600.0
ROW_DAYS = 90
"""Days until rows are deleted. Sums are kept."""

TABLES = """
CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB, version TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (key TEXT PRIMARY KEY, marks BLOB, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, moment REAL, settled INTEGER, row BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS uses (day TEXT, name TEXT, use BLOB, PRIMARY KEY (day, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_until ON entries (until) WHERE until IS NOT NULL;
CREATE INDEX IF NOT EXISTS rows_moment ON rows (moment);
CREATE INDEX IF NOT EXISTS rows_open ON rows (moment) WHERE settled = 0;
"""
"""Table and column names must not change: existing files have them. `marks` holds counters, `uses` holds sums."""


class SqliteStore:
    """A store for the processes of one machine."""

    is_shared = True

    def __init__(self, path: str, /, *, clock: Callable[[], float] = time.time, max_bytes: int | None = None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._bytes: int | None = None
        """Bytes of all values at most, if they are limited; None before they were counted."""
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "dragoman-sqlite")
        self._calls: SimpleQueue[_Call[Any]] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._readers = ThreadPoolExecutor(1, "dragoman-sqlite-queries")
        self._reader: sqlite3.Connection | None = None
        self._swept = 0.0

    def exposure(self) -> str | None:
        try:
            mode = os.stat(self._path).st_mode & 0o777  # noqa: PTH116 - no path but a text
        except OSError:
            return None  # it is made with the mode 0600
        if os.name != "posix" or not mode & 0o077:
            return None
        return f"store must be readable by its owner only, got the mode {mode:o}; run chmod 600 {self._path}"

    async def read(self, key: str, /) -> StoredValue | None:
        return await self._run(lambda db: self._live(db, key))

    async def version(self, key: str, /) -> str | None:
        query = "SELECT version FROM entries WHERE key = ? AND (until IS NULL OR until > ?)"
        row = await self._run(lambda db: db.execute(query, (key, self._clock())).fetchone())
        return None if row is None else row[0]

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:

        def write(db: sqlite3.Connection) -> str | None:
            if expects is not ANY:
                old = self._live(db, key)
                if expects != (old.version if old else None):
                    return None
            version = token_hex(8)
            until = None if ttl is None else self._clock() + ttl
            db.execute("REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, version, until))
            if self._max_bytes is not None:
                self._trim(db, self._max_bytes, len(value))
            return version

        return await self._run(write)

    def _trim(self, db: sqlite3.Connection, most: int, added: int) -> None:
        """Delete the values that end first, until all have at most seven eighths of the limit."""
        self._bytes = None if self._bytes is None else self._bytes + added
        if self._bytes is not None and self._bytes <= most:
            return
        total = int(db.execute("SELECT COALESCE(SUM(LENGTH(value)), 0) FROM entries").fetchone()[0])
        sizes = db.execute("SELECT key, LENGTH(value) FROM entries ORDER BY until IS NULL, until")
        removed: list[tuple[str]] = []
        for key, size in sizes if total > most else ():
            if total <= most - most // 8:
                break
            total -= size
            removed.append((key,))
        self._bytes = total
        db.executemany("DELETE FROM entries WHERE key = ?", removed)

    async def delete(self, key: str, /) -> bool:

        def delete(db: sqlite3.Connection) -> bool:
            was_there = self._live(db, key) is not None
            db.execute("DELETE FROM entries WHERE key = ?", (key,))
            return was_there

        return await self._run(delete)

    def _live(self, db: sqlite3.Connection, key: str) -> StoredValue | None:
        row = db.execute("SELECT value, version, until FROM entries WHERE key = ?", (key,)).fetchone()
        if row is None or (row[2] is not None and row[2] <= self._clock()):
            return None
        return StoredValue(row[0], row[1])

    # Counters ---------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> ReserveOutcome:

        def reserve(db: sqlite3.Connection) -> ReserveOutcome:
            reservation, changes = counters.reserve(charges, lambda key: _read_counter(db, key), self._clock())
            _write_counters(db, changes)
            return reservation

        return await self._run(reserve)

    async def adjust(self, charges: Sequence[Charge], reserved_at: float, /) -> tuple[CounterLevel, ...]:

        def adjust(db: sqlite3.Connection) -> tuple[CounterLevel, ...]:
            levels, changes = counters.adjust(charges, lambda key: _read_counter(db, key), reserved_at, self._clock())
            _write_counters(db, changes)
            return levels

        return await self._run(adjust)

    async def renew(self, slots: Sequence[ConcurrencySlot], /) -> None:

        def renew(db: sqlite3.Connection) -> None:
            now = self._clock()
            for slot in slots:
                state = counters.add_charge(slot, _read_counter(db, slot.key), now)
                _write_counters(db, {slot.key: (state, counters.expires_at(slot, now))})

        await self._run(renew)

    # The usage log ----------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:

        def record(db: sqlite3.Connection) -> None:
            for row in rows:
                _record(db, row)

        await self._run(record)

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:

        def usage(db: sqlite3.Connection) -> tuple[UsageSum, ...]:
            sums = db.execute("SELECT use FROM uses WHERE day BETWEEN ? AND ?", (first, last))
            rows = [decode_row(row) for (row,) in db.execute("SELECT row FROM rows WHERE settled = 0")]
            return sum_usage(
                [_decode_sum(each) for (each,) in sums],
                [row for row in rows if first <= row.day <= last],
            )

        return await self._run(usage)

    async def sums(self, query: SumsQuery, /) -> SumsResult:
        return await self._query(lambda db: select_sums(db, query))

    async def find_rows(self, query: RowsQuery, /) -> RowsPage:
        return await self._query(lambda db: select_rows(db, query))

    async def row(self, id: str, /) -> UsageRow | None:
        return await self._query(lambda db: select_row(db, id))

    async def aclose(self) -> None:
        """Finish the calls under way, and close the file."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._readers, self._close_reader)
        await loop.run_in_executor(self._thread, self._close)
        for thread in (self._thread, self._readers):
            thread.shutdown(wait=False)

    # Queries that may take long: a thread and a connection of their own -----------------------------------------------

    async def _query(self, step: SqliteStep[T]) -> T:
        await self._run(lambda _db: None)  # the file and its tables are there
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, step)
        except RuntimeError as error:
            raise StoreDown(f"sqlite: {self._path} is closed") from error

    def _read(self, step: SqliteStep[T]) -> T:
        try:
            if self._reader is None:
                self._reader = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None)
                self._reader.execute("PRAGMA query_only = 1")
            deadline = time.monotonic() + QUERY_TIMEOUT
            self._reader.set_progress_handler(lambda: int(time.monotonic() > deadline), 100_000)
            return step(self._reader)
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise InvalidRequest(
                    f"the query took more than {QUERY_TIMEOUT:g} s; ask for a shorter range"
                ) from error
            raise StoreDown(f"sqlite: {self._path}: {error}") from error
        except sqlite3.Error as error:
            raise StoreDown(f"sqlite: {self._path}: {error}") from error

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # The thread -------------------------------------------------------------------------------------------------------

    async def _run(self, step: SqliteStep[T]) -> T:
        call = _Call(step)
        self._calls.put(call)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._drain)
        except RuntimeError as error:  # the thread has ended
            raise StoreDown(f"sqlite: {self._path} is closed") from error
        return call.result(self._path)

    def _drain(self) -> None:
        """Run all waiting calls in one transaction. Each call starts a drain; later drains find the queue empty."""
        calls: list[_Call[Any]] = []
        while len(calls) < MAX_CALLS:
            try:
                calls.append(self._calls.get_nowait())
            except Empty:
                break
        if not calls:
            return
        try:
            db = self._open()
            with db:
                db.execute("BEGIN IMMEDIATE")
                self._sweep(db)
                for call in calls:
                    call.run(db)
        except sqlite3.Error as error:
            for call in calls:
                call.error = error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            with ExitStack() as stack:
                _make_private(self._path)
                db = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None)
                stack.callback(db.close)
                _use_write_ahead_log(db)
                db.execute("PRAGMA synchronous = NORMAL")
                db.executescript(TABLES + HOURS_TABLE + LATENCIES_TABLE)
                db.execute("BEGIN IMMEDIATE")
                fill_hours(db)
                db.execute("COMMIT")
                stack.pop_all()
            self._connection = db
        return self._connection

    def _sweep(self, db: sqlite3.Connection) -> None:
        now = self._clock()
        if now < self._swept + SWEEP_INTERVAL:
            return
        self._swept = now
        db.execute("DELETE FROM entries WHERE until <= ?", (now,))
        db.execute("DELETE FROM marks WHERE until <= ?", (now,))
        db.execute("DELETE FROM rows WHERE moment < ?", (now - ROW_DAYS * 86400,))
        db.execute("DELETE FROM hours WHERE hour < ?", (now - HOUR_TTL,))
        db.execute("DELETE FROM latencies WHERE hour < ?", (now - HOUR_TTL,))

    def _close(self) -> None:
        self._drain()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _make_private(path: str) -> None:
    """Make a new file that only its owner can read; SQLite gives the files next to it the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return  # it exists, or SQLite says why it cannot be made


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, so that readers do not wait for writers."""
    switch = "PRAGMA journal_mode = WAL"
    try:
        db.execute(switch)
    except sqlite3.OperationalError:
        # Two processes opened a new file at once. The switch fails at once if the file is locked; a transaction waits.
        db.executescript("BEGIN IMMEDIATE; COMMIT")
        db.execute(switch)


class _Call(Generic[T]):
    """A call for the thread, and its result."""

    def __init__(self, step: SqliteStep[T]) -> None:
        self._step = step
        self._results: list[T] = []
        self.error: sqlite3.Error | None = None

    def run(self, db: sqlite3.Connection) -> None:
        self._results.append(self._step(db))

    def result(self, path: str) -> T:
        if self.error is not None or not self._results:
            raise StoreDown(f"sqlite: {path}: {self.error or 'the call did not run'}") from self.error
        return self._results[0]


_decode_state = msgspec.json.Decoder(counters.CounterState).decode
_decode_sum = msgspec.json.Decoder(UsageSum).decode
_encode = msgspec.json.encode


def _read_counter(db: sqlite3.Connection, key: str) -> counters.CounterState:
    row = db.execute("SELECT marks FROM marks WHERE key = ?", (key,)).fetchone()
    return {} if row is None else _decode_state(row[0])


def _write_counters(db: sqlite3.Connection, states: counters.CounterStates) -> None:
    for key, (state, until) in states.items():
        db.execute("REPLACE INTO marks VALUES (?, ?, ?)", (key, _encode(state), until))


def _record(db: sqlite3.Connection, row: UsageRow) -> None:
    old = db.execute("SELECT settled FROM rows WHERE id = ?", (row.id,)).fetchone()
    if old is not None and old[0]:
        return
    db.execute("REPLACE INTO rows VALUES (?, ?, ?, ?)", (row.id, row.started_at, row.is_finished, _encode(row)))
    if row.is_finished:
        name = _encode((row.key, row.model, row.target)).decode()
        old_sum = db.execute("SELECT use FROM uses WHERE day = ? AND name = ?", (row.day, name)).fetchone()
        total = empty_sum(row) if old_sum is None else _decode_sum(old_sum[0])
        db.execute("REPLACE INTO uses VALUES (?, ?, ?)", (row.day, name, _encode(total.add(row))))
        add_to_hour(db, row)
