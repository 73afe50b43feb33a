"""Queries of the usage log: sums by time and by group, and pages of single requests.

Sums by hour, day or in total are made of hourly sums, which are kept for 400 days. Sums by minute are made of rows,
which are kept for 90 days. SQLite does this in SQL; the other stores use the functions of this module, with limits on
how much one query may read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log2
from operator import add
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.gateway.store.base import UsageRow

Grain: TypeAlias = Literal["minute", "hour", "day", "total"]
UsageGroup: TypeAlias = Literal["key", "team", "model", "target", "user"]
GROUPS: Final[tuple[UsageGroup, ...]] = ("key", "team", "model", "target", "user")
SECONDS: Final[dict[Grain, int]] = {"minute": 60, "hour": 3600, "day": 86_400}
HOUR = 3600
HOUR_TTL = 400 * 86_400
"""Seconds for which hourly sums are kept."""
MAX_BUCKETS = 10_000
"""Sums in one answer."""
MAX_SCAN = 100_000
"""Rows that one query reads in memory or Redis."""
COUNTS: Final = (
    "requests",
    "served",
    "failed",
    "refused",
    "disconnected",
    "unknown",
    "input",
    "output",
    "cache_read",
    "cost",
    "unpriced",
    "milliseconds",
    "streams",
    "first_milliseconds",
)
MEASURES: Final = ("", "first_")
"""What is timed: served requests, and the first events of streams; also the prefixes of the fields of `UsageBucket`."""
PERCENTILES: Final = (50, 95, 99)
SLOTS_PER_DOUBLING = 8
"""How fine times are sorted: a percentile is at most 9 % above or below the real one."""
MAX_SLOT = 25 * SLOTS_PER_DOUBLING
"""The slot of nine hours and more."""
Latencies: TypeAlias = Mapping[tuple[int, int], int]
"""How often times were seen, by the index of the measure and the slot. Such counts can be added, percentiles cannot."""
HourName: TypeAlias = tuple[str | None, str | None, str, str | None, str | None]
"""Key, team, model, target and user."""
BucketName: TypeAlias = tuple[float, tuple[str | None, ...]]
"""The start of a bucket, and the names of its groups."""


class SumsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sums: of requests that started from `first` on and before `last`."""

    first: float
    last: float
    grain: Grain = "day"
    groups: tuple[UsageGroup, ...] = ()
    filters: dict[UsageGroup, str] = {}
    """Only requests with these names."""

    def whole(self) -> "SumsQuery":
        """The query with its times widened to whole minutes or hours."""
        step = 60 if self.grain == "minute" else HOUR
        first, last = floor(self.first / step) * step, ceil(self.last / step) * step
        return msgspec.structs.replace(self, first=float(first), last=float(last))

    def bucket(self, moment: float, /) -> float:
        """The start of the bucket of a time."""
        if self.grain == "total":
            return self.first
        return float(moment // SECONDS[self.grain] * SECONDS[self.grain])


class UsageBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of the requests of one time and group. Groups that the query does not name are null."""

    start: float
    """In seconds since the epoch."""
    key: str | None = None
    team: str | None = None
    model: str | None = None
    target: str | None = None
    user: str | None = None
    requests: int = 0
    served: int = 0
    failed: int = 0
    refused: int = 0
    disconnected: int = 0
    unknown: int = 0
    """Requests without an outcome: in flight, or their gateway was killed. Only in sums by minute."""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cost: int = 0
    """Billionths of a dollar."""
    unpriced: int = 0
    """Requests that were served and whose price is not known."""
    milliseconds: int = 0
    """The duration of all requests that were served."""
    streams: int = 0
    """Requests whose first event was timed."""
    first_milliseconds: int = 0
    """The time until the first event, of all streams."""
    p50: float | None = None
    """The median duration of the requests that were served, in milliseconds; null if there is none."""
    p95: float | None = None
    """The duration that 95 of 100 of them do not exceed."""
    p99: float | None = None
    first_p50: float | None = None
    """The same for the time until the first event, of all streams."""
    first_p95: float | None = None
    first_p99: float | None = None


class SumsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Sums, oldest first."""

    buckets: tuple[UsageBucket, ...]
    truncated: bool = False
    """Whether there is more than one query may read or return: use a shorter range or fewer groups."""
    totals: tuple[UsageBucket, ...] = ()
    """The whole time, one sum for each group; those with most requests first."""


class RowsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests, newest first."""

    first: float
    last: float
    limit: int = 100
    filters: dict[str, str] = {}
    """Fields of a row and the values that they must have."""
    status: int | None = None
    before: tuple[float, str] | None = None
    """Only rows before this time and id."""

    def fits(self, row: UsageRow, /) -> bool:
        """Whether a row matches the query."""
        if not self.first <= row.started_at < self.last or (self.status is not None and row.status != self.status):
            return False
        if self.before is not None and (row.started_at, row.id) >= self.before:
            return False
        return all(getattr(row, name) == value for name, value in self.filters.items())


class RowsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows, newest first."""

    rows: tuple[UsageRow, ...]
    next: tuple[float, str] | None = None
    """Where the next page begins; None if there is none."""


def ledger_counts(row: UsageRow, /) -> list[int]:
    """What a row adds to its sum, in the order of COUNTS."""
    outcome, is_served, first = row.outcome, row.outcome == "served", row.time_to_first_token
    return [
        1,
        int(is_served),
        int(outcome == "failed"),
        int(outcome == "refused"),
        int(outcome == "client_disconnected"),
        int(not row.is_finished),
        row.input or 0,
        row.output or 0,
        row.cache_read or 0,
        row.cost or 0,
        int(is_served and row.cost is None),
        round((row.duration or 0) * 1000) if is_served else 0,
        int(first is not None),
        round((first or 0) * 1000),
    ]


def row_latencies(row: UsageRow, /) -> list[tuple[int, int]]:
    """The times of a row: which measure, and the slot."""
    times = (row.duration if row.outcome == "served" else None, row.time_to_first_token)
    return [(measure, slot_of(seconds)) for measure, seconds in enumerate(times) if seconds is not None]


def slot_of(seconds: float, /) -> int:
    """The slot of a time; each ends 9 % above the one before.

    >>> slot_of(0.0005), slot_of(0.002), slot_of(0.0021), slot_of(10.0**9)
    (0, 8, 9, 200)
    """
    milliseconds = seconds * 1000
    return 0 if milliseconds <= 1 else min(MAX_SLOT, ceil(SLOTS_PER_DOUBLING * log2(milliseconds)))


def _percentiles(latencies: Latencies) -> dict[str, float]:
    """The percentiles of times by the names of their fields, in milliseconds."""
    percentiles: dict[str, float] = {}
    for measure, prefix in enumerate(MEASURES):
        slots = sorted((slot, count) for (of, slot), count in latencies.items() if of == measure)
        total = sum(count for _, count in slots)
        for percent in PERCENTILES if total else ():
            rank, before = total * percent / 100, 0
            for slot, count in slots:
                if before + count >= rank:
                    low, high = (2 ** (each / SLOTS_PER_DOUBLING) for each in (slot - 1, slot))
                    low = 0.0 if slot == 0 else low
                    percentiles[f"{prefix}p{percent}"] = round(low + (high - low) * (rank - before) / count, 3)
                    break
                before += count
    return percentiles


def hour_of(row: UsageRow, /) -> int:
    """The hour in which a request started, in seconds since the epoch."""
    return int(row.started_at // HOUR * HOUR)


def hour_name(row: UsageRow, /) -> HourName:
    """What identifies the hourly sum of a row."""
    return row.key, row.team, row.model, row.target, row.user


class Sums:
    """Adds counts to the buckets of a query."""

    def __init__(self, query: SumsQuery, /) -> None:
        self._query = query
        self._indexes = [GROUPS.index(group) for group in query.groups]
        self._filters = [(GROUPS.index(group), value) for group, value in query.filters.items()]
        self._counts: dict[BucketName, list[int]] = {}
        self._latencies: dict[BucketName, Counter[tuple[int, int]]] = {}

    def add(self, moment: float, name: HourName, counts: Iterable[int], latencies: Latencies, /) -> None:
        """Add counts and times of a moment, unless a filter leaves them out."""
        if any(name[index] != value for index, value in self._filters):
            return
        bucket = self._query.bucket(moment), tuple(name[index] for index in self._indexes)
        total = self._counts.setdefault(bucket, [0] * len(COUNTS))
        for index, count in enumerate(counts):
            total[index] += count
        self._latencies.setdefault(bucket, Counter()).update(latencies)

    def add_rows(self, rows: Iterable[UsageRow], /) -> None:
        """Add rows that belong to the time of the query."""
        for row in rows:
            if self._query.first <= row.started_at < self._query.last:
                self.add(row.started_at, hour_name(row), ledger_counts(row), dict.fromkeys(row_latencies(row), 1))

    def result(self, *, truncated: bool = False) -> SumsResult:
        """The sums, oldest first; of the same time, those with most requests first."""
        return make_result(self._query, self._counts, self._latencies, truncated=truncated)


def make_result(
    query: SumsQuery,
    counts: Mapping[BucketName, Sequence[int]],
    latencies: Mapping[BucketName, Latencies],
    /,
    *,
    truncated: bool = False,
    totals: tuple[Mapping[BucketName, Sequence[int]], Mapping[BucketName, Latencies]] | None = None,
) -> SumsResult:
    """The buckets, oldest first, and their totals; give `totals` if the buckets are not all."""
    return SumsResult(
        buckets=_buckets(query, counts, latencies),
        truncated=truncated or len(counts) > MAX_BUCKETS,
        totals=_buckets(query, *(_totals(query, counts, latencies) if totals is None else totals)),
    )


def _totals(
    query: SumsQuery, counts: Mapping[BucketName, Sequence[int]], latencies: Mapping[BucketName, Latencies]
) -> tuple[dict[BucketName, list[int]], dict[BucketName, Counter[tuple[int, int]]]]:
    """Counts and times by group alone."""
    totals: dict[BucketName, list[int]] = {}
    times: dict[BucketName, Counter[tuple[int, int]]] = {}
    for bucket, numbers in counts.items():
        whole = query.first, bucket[1]
        total = totals.setdefault(whole, [0] * len(COUNTS))
        total[:] = map(add, total, numbers)
        times.setdefault(whole, Counter()).update(latencies.get(bucket, {}))
    return totals, times


def _buckets(
    query: SumsQuery, counts: Mapping[BucketName, Sequence[int]], latencies: Mapping[BucketName, Latencies]
) -> tuple[UsageBucket, ...]:
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[1][0]))
    buckets: list[UsageBucket] = []
    for bucket, numbers in ordered[:MAX_BUCKETS]:
        fields: dict[str, Any] = dict(zip(query.groups, bucket[1], strict=True))
        fields |= dict(zip(COUNTS, numbers, strict=True)) | _percentiles(latencies.get(bucket, {}))
        buckets.append(UsageBucket(start=bucket[0], **fields))
    return tuple(buckets)


def page_of(rows: list[UsageRow], query: RowsQuery, /) -> RowsPage:
    """The first rows of a list that is sorted, and has one row more than the page if there is a next one."""
    page = tuple(rows[: query.limit])
    return RowsPage(rows=page, next=(page[-1].started_at, page[-1].id) if len(rows) > query.limit else None)
