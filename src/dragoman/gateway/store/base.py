"""What a gateway remembers: bytes by key, meters that never pass their limit, rows of usage. A port and its values."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

import msgspec


class _Any(Enum):
    ANY = "any"


ANY: Final = _Any.ANY
"""Whatever stands there."""
Expected: TypeAlias = str | Literal[_Any.ANY] | None
"""The version that must stand there, None where nothing must, or ANY."""


class StoredValue(msgspec.Struct, frozen=True):
    """What stands under a key. A version is never given twice.

    >>> StoredValue(b"{}", version="5f").value
    b'{}'
    """

    value: bytes
    version: str


# Meters ---------------------------------------------------------------------------------------------------------------


class WindowCounter(msgspec.Struct, frozen=True, kw_only=True, tag="window"):
    """So much of a limit that holds in any `period` seconds.

    >>> WindowCounter(key="team:requests", amount=1, limit=60, period=60.0).amount
    1
    """

    key: str
    amount: int
    limit: int
    period: float


class PeriodCounter(msgspec.Struct, frozen=True, kw_only=True, tag="total"):
    """So much of a limit that holds until the moment `ends`, in seconds of the epoch.

    >>> PeriodCounter(key="team:tokens:2026-11-17", amount=900, limit=100_000, ends=1_794_960_000.0).limit
    100000
    """

    key: str
    amount: int
    limit: int
    ends: float


class ConcurrencySlot(msgspec.Struct, frozen=True, kw_only=True, tag="seat"):
    """One of `limit` seats, left free by itself when it was not renewed for `ttl` seconds.

    >>> ConcurrencySlot(key="team:concurrent", id="r1", limit=4, ttl=60.0).limit
    4
    """

    key: str
    id: str
    limit: int
    ttl: float


Charge: TypeAlias = WindowCounter | PeriodCounter | ConcurrencySlot


class CounterLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How full one meter is.

    >>> CounterLevel(used=3).wait
    0.0
    """

    used: int
    wait: float | None = 0.0
    """Seconds until the charge would fit, nothing else coming; None where it never will."""
    resets: float = 0.0
    """Seconds until nothing of what is used counts any more."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """All charges taken, or none of them; a level for each.

    >>> Reservation(granted=True, moment=0.0, levels=(CounterLevel(used=1),)).granted
    True
    """

    granted: bool
    moment: float
    levels: tuple[CounterLevel, ...]


# Rows -----------------------------------------------------------------------------------------------------------------

UNKNOWN: Final = "unknown"


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request: who asked whom, what it took and how it ended. Its outcome is unknown until it has ended.

    >>> UsageRow(id="r1", moment=1_794_900_000.0, model="fast").day
    '2026-11-17'
    """

    id: str
    moment: float
    """When it began, in seconds of the epoch."""
    key: str | None = None
    """The id of the client's key."""
    model: str
    """What was asked for."""
    target: str | None = None
    dialect: str | None = None
    stream: bool = False
    status: int | None = None
    outcome: str = UNKNOWN
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    estimated: bool = False
    """Whether nobody told the tokens, and they are a guess by what was sent and heard."""
    cost: int | None = None
    """Billionths of a dollar."""
    duration: float | None = None
    first: float | None = None
    """Seconds until the first piece of the answer."""
    attempts: int = 0

    @property
    def day(self) -> str:
        """The day on which it began, in UTC."""
        return utc_day(self.moment)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, as far as anybody knows."""
        return self.outcome != UNKNOWN


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one day, key, model and target, summed.

    >>> UsageSum(day="2026-11-17", key=None, model="fast", target=None).add(UsageRow(id="r1", moment=0.0, model="fast")).unknown
    1
    """

    day: str
    key: str | None
    model: str
    target: str | None
    requests: int = 0
    unknown: int = 0
    """Requests whose end nobody saw: in flight, or their gateway was killed."""
    failed: int = 0
    input: int = 0
    output: int = 0
    cost: int = 0
    unpriced: int = 0
    """Requests that were served and whose price is not known."""

    def add(self, row: UsageRow, /) -> "UsageSum":
        """The same with one row more."""
        counts = row_counts(row)
        return msgspec.structs.replace(self, **{name: getattr(self, name) + n for name, n in counts.items()})


def row_counts(row: UsageRow, /) -> dict[str, int]:
    """What a row adds to the sums of its day.

    >>> row_counts(UsageRow(id="r1", moment=0.0, model="fast", outcome="served", input=5, output=2, cost=40))["output"]
    2
    """
    served = row.outcome == "served"
    return {
        "requests": 1,
        "unknown": int(not row.is_finished),
        "failed": int(row.is_finished and not served),
        "input": row.input or 0,
        "output": row.output or 0,
        "cost": row.cost or 0,
        "unpriced": int(served and row.cost is None),
    }


def empty_sum(row: UsageRow, /) -> UsageSum:
    """The empty sums that a row goes to.

    >>> empty_sum(UsageRow(id="r1", moment=0.0, model="fast")).requests
    0
    """
    return UsageSum(day=row.day, key=row.key, model=row.model, target=row.target)


def sum_usage(uses: Sequence[UsageSum], rows: Sequence[UsageRow], /) -> tuple[UsageSum, ...]:
    """Sums, and rows on top of them, by day, key, model and target.

    >>> sum_usage([], [UsageRow(id="r1", moment=0.0, model="fast")])[0].unknown
    1
    """
    sums = {(use.day, use.key, use.model, use.target): use for use in uses}
    for row in rows:
        name = row.day, row.key, row.model, row.target
        sums[name] = sums.get(name, empty_sum(row)).add(row)
    return tuple(sorted(sums.values(), key=lambda use: (use.day, use.key or "", use.model, use.target or "")))


def utc_day(moment: float, /) -> str:
    """The day of a moment, in UTC.

    >>> utc_day(0.0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


# The port -------------------------------------------------------------------------------------------------------------


class Store(Protocol):
    """Where a gateway remembers. Every step is atomic; one that cannot be done now raises StoreDown."""

    is_shared: bool
    """Whether other processes see the same."""

    async def read(self, key: str, /) -> StoredValue | None:
        """What stands under a key."""
        ...

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Put a value there for `ttl` seconds: its version, or None where something else than expected stands there."""
        ...

    async def delete(self, key: str, /) -> bool:
        """Whether something stood there, which does no more."""
        ...

    async def reserve(self, charges: Sequence[Charge], /) -> Reservation:
        """Take all of the charges, or none where one would pass its limit."""
        ...

    async def release(self, charges: Sequence[Charge], moment: float, /) -> tuple[CounterLevel, ...]:
        """Give back what was taken at a moment, and say how full each meter is then.

        An amount below nothing is what was used on top of it; with nothing to give back it only says how full.
        """
        ...

    async def renew(self, seats: Sequence[ConcurrencySlot], /) -> None:
        """Keep seats for another `ttl` seconds."""
        ...

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        """Put rows there, or in the place of those with the same id, where these are not settled."""
        ...

    async def rows(self, limit: int, /) -> tuple[UsageRow, ...]:
        """The newest rows, newest first."""
        ...

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """The sums of the days from `first` to `last`, both included."""
        ...

    async def aclose(self) -> None:
        """Finish what was begun, and let go."""
        ...
