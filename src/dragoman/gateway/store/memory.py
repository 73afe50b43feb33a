"""A store that lasts as long as its process, and no longer."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import TypeVar

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

K = TypeVar("K")
V = TypeVar("V")

MAX_BYTES = 256 * 1024 * 1024
MAX_ROWS = 10_000
"""Rows that are kept, and sums of them; the oldest go."""
SWEEP = 1000
"""Writes after which what is over is thrown away."""


class MemoryStore:
    """What one process remembers. The oldest entries go when there are too many bytes of them.

    >>> import asyncio
    >>> async def main() -> bytes:
    ...     store = MemoryStore()
    ...     await store.write("greeting", b"hi", ttl=60)
    ...     return (await store.read("greeting")).value
    >>> asyncio.run(main())
    b'hi'
    """

    is_shared = False

    def __init__(self, *, clock: Callable[[], float] = time.time, most_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._bytes = 0
        self._writes = 0
        # What is oldest is found at once only in these: a dict walks over all that was deleted before it.
        self._entries: OrderedDict[str, tuple[StoredValue, float | None]] = OrderedDict()
        self._marks: dict[str, tuple[meters.Marks, float]] = {}
        self._rows: OrderedDict[str, UsageRow] = OrderedDict()
        self._uses: OrderedDict[tuple[str, str | None, str, str | None], UsageSum] = OrderedDict()

    async def read(self, key: str, /) -> StoredValue | None:
        """What stands under a key."""
        return self._alive(key)

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Put a value there."""
        old = self._alive(key)
        if expects is not ANY and expects != (old.version if old else None):
            return None
        self._drop(key)
        version = token_hex(8)
        self._entries[key] = StoredValue(value, version), None if ttl is None else self._clock() + ttl
        self._bytes += len(value)
        self._sweep()
        while self._bytes > self._most_bytes and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))
        return version

    async def delete(self, key: str, /) -> bool:
        """Whether something stood there."""
        return self._alive(key) is not None and self._drop(key)

    def _alive(self, key: str) -> StoredValue | None:
        found = self._entries.get(key)
        if found is None:
            return None
        entry, until = found
        if until is None or self._clock() < until:
            return entry
        self._drop(key)
        return None

    def _drop(self, key: str) -> bool:
        found = self._entries.pop(key, None)
        if found is not None:
            self._bytes -= len(found[0].value)
        return found is not None

    def _sweep(self) -> None:
        self._writes += 1
        if self._writes % SWEEP:
            return
        now = self._clock()
        for key in [key for key, (_, until) in self._entries.items() if until is not None and until <= now]:
            self._drop(key)
        self._marks = {key: (marks, until) for key, (marks, until) in self._marks.items() if until > now}

    # Meters -----------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> Reservation:
        """Take all of the charges, or none."""
        now = self._clock()
        self._sweep()
        taken, fresh = meters.weigh(charges, self._marks_of, now)
        self._marks.update(fresh)
        return taken

    async def release(self, charges: Sequence[Charge], moment: float, /) -> tuple[CounterLevel, ...]:
        """Give back what was taken at a moment."""
        levels, fresh = meters.settle(charges, self._marks_of, moment, self._clock())
        self._marks.update(fresh)
        return levels

    def _marks_of(self, key: str) -> meters.Marks:
        return self._marks[key][0] if key in self._marks else {}

    async def renew(self, seats: Sequence[ConcurrencySlot], /) -> None:
        """Keep seats."""
        now = self._clock()
        for seat in seats:
            marks, _ = self._marks.get(seat.key, ({}, now))
            self._marks[seat.key] = meters.taken(seat, marks, now), meters.lasts_until(seat, now)

    # Rows -------------------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        """Put rows there."""
        for row in rows:
            old = self._rows.get(row.id)
            if old is not None and old.is_finished:
                continue
            self._rows[row.id] = row
            if row.is_finished:
                name = row.day, row.key, row.model, row.target
                use = self._uses.get(name)
                self._uses[name] = (empty_sum(row) if use is None else use).add(row)
        _trim(self._rows)
        _trim(self._uses)

    async def rows(self, limit: int, /) -> tuple[UsageRow, ...]:
        """The newest rows."""
        return tuple(reversed(deque(self._rows.values(), limit)))

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """The sums of some days."""
        return sum_usage(
            [use for use in self._uses.values() if first <= use.day <= last],
            [row for row in self._rows.values() if not row.is_finished and first <= row.day <= last],
        )

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _trim(kept: OrderedDict[K, V]) -> None:
    while len(kept) > MAX_ROWS:
        kept.popitem(last=False)
