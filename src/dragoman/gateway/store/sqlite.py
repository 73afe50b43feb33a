"""A store in one SQLite file: outlives its process, however that ends, and may be shared by those of one machine.

One thread has the connection. What was asked for while it was busy goes into one transaction, so that a hundred
requests at once cost a few commits; the event loop never waits for a disk.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.store import counters as meters
from dragoman.gateway.store.base import (
    ANY,
    Charge,
    ConcurrencySlot,
    CounterLevel,
    Expected,
    Reservation,
    StoredValue,
    UsageRow,
    UsageSum,
    empty_sum,
    sum_usage,
)

T = TypeVar("T")
Step: TypeAlias = Callable[[sqlite3.Connection], T]

PATIENCE = 5.0
"""Seconds to wait for another process that writes."""
MAX_STEPS = 256
"""Steps of one transaction."""
SWEEP = 3600.0
KEPT_DAYS = 90
"""Days for which rows are kept; their sums stay."""

TABLES = """
CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB, version TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (key TEXT PRIMARY KEY, marks BLOB, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, moment REAL, settled INTEGER, row BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS uses (day TEXT, name TEXT, use BLOB, PRIMARY KEY (day, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_until ON entries (until) WHERE until IS NOT NULL;
CREATE INDEX IF NOT EXISTS rows_moment ON rows (moment);
CREATE INDEX IF NOT EXISTS rows_open ON rows (moment) WHERE settled = 0;
"""


class SqliteStore:
    """What the processes of one machine remember, in a file.

    >>> import asyncio
    >>> async def main() -> bytes:
    ...     store = SqliteStore(":memory:")
    ...     await store.write("greeting", b"hi", ttl=60)
    ...     entry = await store.read("greeting")
    ...     await store.aclose()
    ...     return entry.value
    >>> asyncio.run(main())
    b'hi'
    """

    is_shared = True

    def __init__(self, path: str, /, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "dragoman-sqlite")
        self._steps: SimpleQueue[_Step[Any]] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._swept = 0.0

    async def read(self, key: str, /) -> StoredValue | None:
        """What stands under a key."""
        return await self._run(lambda db: self._alive(db, key))

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Put a value there."""

        def write(db: sqlite3.Connection) -> str | None:
            if expects is not ANY:
                old = self._alive(db, key)
                if expects != (old.version if old else None):
                    return None
            version = token_hex(8)
            until = None if ttl is None else self._clock() + ttl
            db.execute("REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, version, until))
            return version

        return await self._run(write)

    async def delete(self, key: str, /) -> bool:
        """Whether something stood there."""

        def delete(db: sqlite3.Connection) -> bool:
            was_there = self._alive(db, key) is not None
            db.execute("DELETE FROM entries WHERE key = ?", (key,))
            return was_there

        return await self._run(delete)

    def _alive(self, db: sqlite3.Connection, key: str) -> StoredValue | None:
        found = db.execute("SELECT value, version, until FROM entries WHERE key = ?", (key,)).fetchone()
        if found is None or (found[2] is not None and found[2] <= self._clock()):
            return None
        return StoredValue(found[0], found[1])

    # Meters -----------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> Reservation:
        """Take all of the charges, or none."""

        def take(db: sqlite3.Connection) -> Reservation:
            taken, fresh = meters.weigh(charges, lambda key: _marks(db, key), self._clock())
            for key, (marks, until) in fresh.items():
                _mark(db, key, marks, until)
            return taken

        return await self._run(take)

    async def release(self, charges: Sequence[Charge], moment: float, /) -> tuple[CounterLevel, ...]:
        """Give back what was taken at a moment."""

        def give(db: sqlite3.Connection) -> tuple[CounterLevel, ...]:
            levels, fresh = meters.settle(charges, lambda key: _marks(db, key), moment, self._clock())
            for key, (marks, until) in fresh.items():
                _mark(db, key, marks, until)
            return levels

        return await self._run(give)

    async def renew(self, seats: Sequence[ConcurrencySlot], /) -> None:
        """Keep seats."""

        def renew(db: sqlite3.Connection) -> None:
            now = self._clock()
            for seat in seats:
                marks = meters.taken(seat, _marks(db, seat.key), now)
                _mark(db, seat.key, marks, meters.lasts_until(seat, now))

        await self._run(renew)

    # Rows -------------------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        """Put rows there."""

        def record(db: sqlite3.Connection) -> None:
            for row in rows:
                _record(db, row)

        await self._run(record)

    async def rows(self, limit: int, /) -> tuple[UsageRow, ...]:
        """The newest rows."""
        query = "SELECT row FROM rows ORDER BY moment DESC LIMIT ?"
        return await self._run(lambda db: tuple(_decode_row(row) for (row,) in db.execute(query, (limit,))))

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """The sums of some days."""

        def usage(db: sqlite3.Connection) -> tuple[UsageSum, ...]:
            uses = db.execute("SELECT use FROM uses WHERE day BETWEEN ? AND ?", (first, last))
            rows = [_decode_row(row) for (row,) in db.execute("SELECT row FROM rows WHERE settled = 0")]
            return sum_usage(
                [_decode_use(use) for (use,) in uses],
                [row for row in rows if first <= row.day <= last],
            )

        return await self._run(usage)

    async def aclose(self) -> None:
        """Finish what was begun, and let go of the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    # The thread -------------------------------------------------------------------------------------------------------

    async def _run(self, step: Step[T]) -> T:
        asked = _Step(step)
        self._steps.put(asked)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._drain)
        except RuntimeError as error:  # the thread was told to end
            raise StoreDown(f"sqlite: {self._path} is closed") from error
        return asked.result(self._path)

    def _drain(self) -> None:
        """Do all that was asked for by now, in one transaction; the later of those who asked find it done."""
        asked: list[_Step[Any]] = []
        while len(asked) < MAX_STEPS:
            try:
                asked.append(self._steps.get_nowait())
            except Empty:
                break
        if not asked:
            return
        try:
            db = self._open()
            with db:
                db.execute("BEGIN IMMEDIATE")
                self._sweep(db)
                for step in asked:
                    step.do(db)
        except sqlite3.Error as error:
            for step in asked:
                step.error = error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            with ExitStack() as stack:
                db = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
                stack.callback(db.close)
                _write_ahead(db)
                db.execute("PRAGMA synchronous = NORMAL")
                db.executescript(TABLES)
                stack.pop_all()
            self._connection = db
        return self._connection

    def _sweep(self, db: sqlite3.Connection) -> None:
        now = self._clock()
        if now < self._swept + SWEEP:
            return
        self._swept = now
        db.execute("DELETE FROM entries WHERE until <= ?", (now,))
        db.execute("DELETE FROM marks WHERE until <= ?", (now,))
        db.execute("DELETE FROM rows WHERE moment < ?", (now - KEPT_DAYS * 86400,))

    def _close(self) -> None:
        self._drain()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _write_ahead(db: sqlite3.Connection) -> None:
    """Readers wait for no writer; of two processes that open a new file, one is told at once that it is locked."""
    switch = "PRAGMA journal_mode = WAL"
    try:
        db.execute(switch)
    except sqlite3.OperationalError:
        db.executescript("BEGIN IMMEDIATE; COMMIT")  # which waits, as the switch does not
        db.execute(switch)


class _Step(Generic[T]):
    """Something to be done in the thread, and what came of it."""

    def __init__(self, step: Step[T]) -> None:
        self._step = step
        self._results: list[T] = []
        self.error: sqlite3.Error | None = None

    def do(self, db: sqlite3.Connection) -> None:
        self._results.append(self._step(db))

    def result(self, path: str) -> T:
        if self.error is not None or not self._results:
            raise StoreDown(f"sqlite: {path}: {self.error or 'not done'}") from self.error
        return self._results[0]


_decode_marks = msgspec.json.Decoder(meters.Marks).decode
_decode_row = msgspec.json.Decoder(UsageRow).decode
_decode_use = msgspec.json.Decoder(UsageSum).decode
_encode = msgspec.json.encode


def _marks(db: sqlite3.Connection, key: str) -> meters.Marks:
    found = db.execute("SELECT marks FROM marks WHERE key = ?", (key,)).fetchone()
    return {} if found is None else _decode_marks(found[0])


def _mark(db: sqlite3.Connection, key: str, marks: meters.Marks, until: float) -> None:
    db.execute("REPLACE INTO marks VALUES (?, ?, ?)", (key, _encode(marks), until))


def _record(db: sqlite3.Connection, row: UsageRow) -> None:
    found = db.execute("SELECT settled FROM rows WHERE id = ?", (row.id,)).fetchone()
    if found is not None and found[0]:
        return
    db.execute("REPLACE INTO rows VALUES (?, ?, ?, ?)", (row.id, row.moment, row.is_finished, _encode(row)))
    if row.is_finished:
        name = _encode((row.key, row.model, row.target)).decode()
        found = db.execute("SELECT use FROM uses WHERE day = ? AND name = ?", (row.day, name)).fetchone()
        use = empty_sum(row) if found is None else _decode_use(found[0])
        db.execute("REPLACE INTO uses VALUES (?, ?, ?)", (row.day, name, _encode(use.add(row))))
