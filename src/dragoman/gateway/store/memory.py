"""A store in the memory of one process."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from operator import add
from secrets import token_hex
from typing import TypeVar

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
    sum_usage,
)
from dragoman.gateway.store.row_sums import sum_rows
from dragoman.gateway.store.usage_queries import (
    COUNTS,
    HourName,
    RowsPage,
    RowsQuery,
    Sums,
    SumsQuery,
    SumsResult,
    page_of,
)

K = TypeVar("K")
V = TypeVar("V")

MAX_BYTES = 256 * 1024 * 1024
MAX_ROWS = 10_000
"""Rows, and sums; beyond that the oldest are deleted."""
SWEEP_EVERY = 1000
"""Expired values are deleted after this many writes."""


class MemoryStore:
    """A store for one process. If its values exceed `max_bytes`, the oldest are deleted."""

    is_shared = False

    def __init__(self, *, clock: Callable[[], float] = time.time, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes = 0
        self._writes = 0
        # Ordered dicts: to find the first item, a plain dict walks over all items that were deleted before it.
        self._values: OrderedDict[str, tuple[StoredValue, float | None]] = OrderedDict()
        self._counters: counters.CounterStates = {}
        self._rows: OrderedDict[str, UsageRow] = OrderedDict()
        self._hours: OrderedDict[tuple[int, HourName], list[int]] = OrderedDict()
        self._latencies: OrderedDict[tuple[int, HourName], Counter[tuple[int, int]]] = OrderedDict()
        self._sums: OrderedDict[tuple[str, str | None, str, str | None], UsageSum] = OrderedDict()

    def exposure(self) -> str | None:
        return None

    async def read(self, key: str, /) -> StoredValue | None:
        return self._live(key)

    async def version(self, key: str, /) -> str | None:
        return None if (value := self._live(key)) is None else value.version

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        old = self._live(key)
        if expects is not ANY and expects != (old.version if old else None):
            return None
        self._drop(key)
        version = token_hex(8)
        self._values[key] = StoredValue(value, version), None if ttl is None else self._clock() + ttl
        self._bytes += len(value)
        self._sweep()
        while self._bytes > self._max_bytes and len(self._values) > 1:
            self._drop(next(iter(self._values)))
        return version

    async def delete(self, key: str, /) -> bool:
        return self._live(key) is not None and self._drop(key)

    def _live(self, key: str) -> StoredValue | None:
        if key not in self._values:
            return None
        value, until = self._values[key]
        if until is None or self._clock() < until:
            return value
        self._drop(key)
        return None

    def _drop(self, key: str) -> bool:
        removed = self._values.pop(key, None)
        if removed is not None:
            self._bytes -= len(removed[0].value)
        return removed is not None

    def _sweep(self) -> None:
        self._writes += 1
        if self._writes % SWEEP_EVERY:
            return
        now = self._clock()
        for key in [key for key, (_, until) in self._values.items() if until is not None and until <= now]:
            self._drop(key)
        self._counters = {key: (state, until) for key, (state, until) in self._counters.items() if until > now}

    # Counters ---------------------------------------------------------------------------------------------------------

    async def reserve(self, charges: Sequence[Charge], /) -> ReserveOutcome:
        now = self._clock()
        self._sweep()
        reservation, changes = counters.reserve(charges, self._state, now)
        self._counters.update(changes)
        return reservation

    async def adjust(self, charges: Sequence[Charge], reserved_at: float, /) -> tuple[CounterLevel, ...]:
        levels, changes = counters.adjust(charges, self._state, reserved_at, self._clock())
        self._counters.update(changes)
        return levels

    def _state(self, key: str) -> counters.CounterState:
        return self._counters[key][0] if key in self._counters else {}

    async def renew(self, slots: Sequence[ConcurrencySlot], /) -> None:
        now = self._clock()
        for slot in slots:
            state = counters.add_charge(slot, self._state(slot.key), now)
            self._counters[slot.key] = state, counters.expires_at(slot, now)

    # The usage log ----------------------------------------------------------------------------------------------------

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        finished: list[UsageRow] = []
        for row in rows:
            old = self._rows.get(row.id)
            if old is None or not old.is_finished:
                self._rows[row.id] = row
                if row.is_finished:
                    finished.append(row)
        for added in sum_rows(finished):
            key, _, model, target, _ = added.name
            name = added.day, key, model, target
            total = self._sums.get(name) or UsageSum(day=added.day, key=key, model=model, target=target)
            self._sums[name] = total.plus(added.day_counts)
            in_hour = added.hour, added.name
            hour = self._hours.setdefault(in_hour, [0] * len(COUNTS))
            hour[:] = map(add, hour, added.counts)
            self._latencies.setdefault(in_hour, Counter()).update(added.latencies)
        _trim(self._rows)
        _trim(self._hours)
        _trim(self._latencies)
        _trim(self._sums)

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        return sum_usage(
            [each for each in self._sums.values() if first <= each.day <= last],
            [row for row in self._rows.values() if not row.is_finished and first <= row.day <= last],
        )

    async def sums(self, query: SumsQuery, /) -> SumsResult:
        sums = Sums(query)
        if query.grain == "minute":
            sums.add_rows(self._rows.values())
        else:
            for (hour, name), counts in self._hours.items():
                if query.first <= hour < query.last:
                    sums.add(hour, name, counts, self._latencies[hour, name])
        return sums.result()

    async def find_rows(self, query: RowsQuery, /) -> RowsPage:
        rows = [row for row in self._rows.values() if query.fits(row)]
        rows.sort(key=lambda row: (row.started_at, row.id), reverse=True)
        return page_of(rows[: query.limit + 1], query)

    async def row(self, id: str, /) -> UsageRow | None:
        return self._rows.get(id)

    async def aclose(self) -> None:
        """A store in memory has nothing to close."""


def _trim(items: OrderedDict[K, V]) -> None:
    while len(items) > MAX_ROWS:
        items.popitem(last=False)
