"""The contract of a store, and the values that go through it.

A store keeps three things: bytes by key, with versions for compare-and-swap; counters that never exceed their limit;
and the rows of the usage log with their sums.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from dragoman.gateway.store.usage_queries import RowsPage, RowsQuery, SumsQuery, SumsResult


class _Any(Enum):
    ANY = "any"


ANY: Final = _Any.ANY
"""Write whatever the current version is."""
Expected: TypeAlias = str | Literal[_Any.ANY] | None
"""The version that must be stored, None if nothing may be stored, or ANY."""


class StoredValue(msgspec.Struct, frozen=True):
    """A value and its version. A version is never used twice."""

    value: bytes
    version: str


# Counters -------------------------------------------------------------------------------------------------------------


class WindowCounter(msgspec.Struct, frozen=True, kw_only=True, tag="window"):
    """Take `amount` from a limit that holds in any `period` seconds (a sliding window)."""

    key: str
    amount: int
    limit: int
    period: float


class PeriodCounter(msgspec.Struct, frozen=True, kw_only=True, tag="period"):
    """Take `amount` from a limit that holds until the time `ends`, in seconds since the epoch."""

    key: str
    amount: int
    limit: int
    ends: float


class ConcurrencySlot(msgspec.Struct, frozen=True, kw_only=True, tag="slot"):
    """Take one of `limit` slots. It becomes free by itself if it is not renewed for `ttl` seconds."""

    key: str
    id: str
    limit: int
    ttl: float


Charge: TypeAlias = WindowCounter | PeriodCounter | ConcurrencySlot


class CounterLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one counter is used."""

    used: int
    wait: float | None = 0.0
    """Seconds until the charge would fit if nothing else is charged; None if it never fits."""
    resets_in: float = 0.0
    """Seconds until the counter is empty if nothing else is charged."""

    @property
    def has_room(self) -> bool:
        """Whether the charge fits."""
        return self.wait == 0.0


class ReserveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `Store.reserve`: all charges were taken, or none; one level for each charge."""

    granted: bool
    reserved_at: float
    levels: tuple[CounterLevel, ...]


# The usage log --------------------------------------------------------------------------------------------------------

UNKNOWN: Final = "unknown"
NANODOLLARS: Final = 1_000_000_000
"""Costs are whole billionths of a dollar, so that sums are exact."""


class UsageRow(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"started_at": "moment", "time_to_first_token": "first"},
):
    """One request in the usage log. Its outcome is `unknown` until it has ended.

    Stores keep it as JSON, so a field that gets a new name keeps the old one there (`rename`).
    """

    id: str
    started_at: float
    """In seconds since the epoch."""
    key: str | None = None
    """The id of the client's key."""
    team: str | None = None
    user: str | None = None
    """The end user that the client named in the field `user`."""
    model: str
    """The model name that the client sent."""
    target: str | None = None
    dialect: str | None = None
    stream: bool = False
    status: int | None = None
    outcome: str = UNKNOWN
    """`served`, `failed`, `refused`, `client_disconnected` or `unknown`."""
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    estimated: bool = False
    """Whether the tokens are an estimate, because no provider reported them."""
    cost: int | None = None
    """Billionths of a dollar."""
    duration: float | None = None
    time_to_first_token: float | None = None
    """Seconds until the first event of the answer."""
    attempts: int = 0
    cache: str | None = None
    """What the response cache did: `hit`, `miss`, `refresh` or `skipped`; None if the request did not use it."""
    losses: dict[str, int] = {}
    """What the target did not get as the client sent it: how often, by the kind of the notice."""

    @property
    def day(self) -> str:
        """The day on which it started, in UTC."""
        return utc_day(self.started_at)

    @property
    def is_finished(self) -> bool:
        """Whether its outcome is known."""
        return self.outcome != UNKNOWN


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of all rows of one day, key, model and target."""

    day: str
    key: str | None
    model: str
    target: str | None
    requests: int = 0
    unknown: int = 0
    """Requests without an outcome: in flight, or their gateway was killed."""
    failed: int = 0
    input: int = 0
    output: int = 0
    cost: int = 0
    unpriced: int = 0
    """Requests that were served and whose price is not known."""

    def add(self, row: UsageRow, /) -> "UsageSum":
        """The sum with one more row."""
        return self.plus(row_counts(row))

    def plus(self, counts: Mapping[str, int], /) -> "UsageSum":
        """The sum with the counts of more rows."""
        return msgspec.structs.replace(self, **{name: getattr(self, name) + n for name, n in counts.items()})


def row_counts(row: UsageRow, /) -> dict[str, int]:
    """What a row adds to its sum."""
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
    """The sum that a row belongs to, with nothing counted yet."""
    return UsageSum(day=row.day, key=row.key, model=row.model, target=row.target)


def sum_usage(sums: Sequence[UsageSum], rows: Sequence[UsageRow], /) -> tuple[UsageSum, ...]:
    """Add rows to sums, and sort by day, key, model and target."""
    totals = {(each.day, each.key, each.model, each.target): each for each in sums}
    for row in rows:
        name = row.day, row.key, row.model, row.target
        totals[name] = totals.get(name, empty_sum(row)).add(row)
    return tuple(sorted(totals.values(), key=lambda each: (each.day, each.key or "", each.model, each.target or "")))


def decode_row(data: bytes, /) -> UsageRow:
    """Decode a stored row."""
    row = _row_decoder.decode(data)
    # Version 0.1 called this outcome hung_up.
    return msgspec.structs.replace(row, outcome="client_disconnected") if row.outcome == "hung_up" else row


_row_decoder = msgspec.json.Decoder(UsageRow)


def utc_day(moment: float, /) -> str:
    """The day of a time in seconds since the epoch, in UTC."""
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


# The contract ---------------------------------------------------------------------------------------------------------


class Store(Protocol):
    """Where a gateway keeps its state. Every call is atomic; it raises StoreDown if the store cannot be reached."""

    is_shared: bool
    """Whether other processes see the same data."""

    def exposure(self) -> str | None:
        """Why other users of the machine could read the store; None if nothing is known."""
        ...

    async def read(self, key: str, /) -> StoredValue | None:
        """The value of a key."""
        ...

    async def version(self, key: str, /) -> str | None:
        """The version of a key, without its value; None if nothing is stored."""
        ...

    async def write(self, key: str, value: bytes, /, *, ttl: float | None, expects: Expected = ANY) -> str | None:
        """Write a value for `ttl` seconds. Returns its version, or None if the stored version is not `expects`."""
        ...

    async def delete(self, key: str, /) -> bool:
        """Delete a key. Returns whether it was there."""
        ...

    async def reserve(self, charges: Sequence[Charge], /) -> ReserveOutcome:
        """Take all charges, or none if one of them would exceed its limit."""
        ...

    async def adjust(self, charges: Sequence[Charge], reserved_at: float, /) -> tuple[CounterLevel, ...]:
        """Change what was reserved at a time, and return the levels afterwards.

        A positive amount is given back, a negative one is charged from now on, and 0 only reads the level.
        """
        ...

    async def renew(self, slots: Sequence[ConcurrencySlot], /) -> None:
        """Keep slots for another `ttl` seconds."""
        ...

    async def record(self, rows: Sequence[UsageRow], /) -> None:
        """Write rows. A row replaces the one with the same id, unless that one is finished."""
        ...

    async def usage(self, first: str, last: str, /) -> tuple[UsageSum, ...]:
        """The sums of the days from `first` to `last`, both included."""
        ...

    async def sums(self, query: "SumsQuery", /) -> "SumsResult":
        """Sums of the usage log by time and group. The times of the query are whole hours, or minutes."""
        ...

    async def find_rows(self, query: "RowsQuery", /) -> "RowsPage":
        """A page of rows of the usage log."""
        ...

    async def row(self, id: str, /) -> UsageRow | None:
        """One row of the usage log."""
        ...

    async def aclose(self) -> None:
        """Finish the calls under way, and close the connection."""
        ...
