"""The limits of API keys and teams: requests and tokens per minute, concurrent requests, budgets.

A request reserves what it may use before it is sent: from all limits of its key and its team in one step, or from none.
When it has ended, the difference to its real usage is released, or charged. If the store is down in between, the error
is on the safe side: a reservation stays, and usage beyond a reservation is charged later (`_unpaid`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import ceil
from secrets import token_hex
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.errors import RateLimited, StoreDown
from dragoman.gateway.auth.api_keys import Key, KeyBudget, LimitHolder, Team
from dragoman.gateway.store.base import (
    NANODOLLARS,
    Charge,
    ConcurrencySlot,
    CounterLevel,
    PeriodCounter,
    ReserveOutcome,
    Store,
    WindowCounter,
)

MINUTE = 60.0
SLOT_TTL = 60.0
"""Seconds after which the concurrency slot of a killed gateway becomes free."""
MAX_UNPAID = 10_000

WhenDown: TypeAlias = Literal["open", "closed"]
Unit: TypeAlias = Literal["requests", "tokens", "dollars", "slots"]
Period: TypeAlias = Literal["minute", "day", "week", "month"]
LimitHeaders: TypeAlias = tuple[tuple[str, str], ...]
"""The `X-RateLimit-*` headers."""
T = TypeVar("T")


class ExpectedUsage(msgspec.Struct, frozen=True):
    """What a request may use: tokens, and billionths of a dollar if the price is known."""

    tokens: int = 0
    cost: int | None = None


class OverLimit(RateLimited):
    """A limit of the client's API key is reached."""

    def __init__(
        self, message: str, /, *, headers: LimitHeaders, retry_after: float | None = None, retry: bool = True
    ) -> None:
        super().__init__(message, code="rate_limit_exceeded", retry_after=retry_after, retry=retry)
        self.headers = headers
        self.full: tuple[tuple[Limit, CounterLevel], ...] = ()
        """The limits that have no room for the request."""


class Limit(msgspec.Struct, frozen=True):
    """One limit of a key or a team, and what a request takes from it."""

    holder: str
    """Whose limit it is, such as "key alice"."""
    label: str
    """Its name in the `X-RateLimit-*` headers."""
    unit: Unit
    per: Period | None
    """None for concurrent requests."""
    charge: Charge


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit is used, in its unit."""

    unit: Unit
    per: Period | None
    """None for concurrent requests."""
    limit: float
    used: float
    resets_in: float
    """Seconds until nothing is used, if nothing else is charged."""


class QuotaReservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one request has reserved."""

    limits: tuple[Limit, ...] = ()
    reserved_at: float = 0.0
    reserved: bool = True
    """False if the store was down: nothing is reserved, and all usage is charged at the end."""
    levels: tuple[CounterLevel, ...] = ()
    """The level of each limit; empty if the store was down."""

    @property
    def headers(self) -> LimitHeaders:
        """The limits as `X-RateLimit-*` headers."""
        return _limit_headers(self.limits, self.levels) if self.levels else ()


UNLIMITED = QuotaReservation()


class Quotas:
    """Enforces the limits of all keys with counters in a store."""

    def __init__(
        self,
        store: Store,
        /,
        *,
        rates: WhenDown = "open",
        budgets: WhenDown = "closed",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._rates = rates
        self._budgets = budgets
        self._clock = clock
        self._slots: dict[str, ConcurrencySlot] = {}
        self._renewed = clock()
        self._unpaid: deque[tuple[tuple[Charge, ...], float]] = deque(maxlen=MAX_UNPAID)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def reserve_slot(self, key: Key | None, /) -> QuotaReservation:
        """Reserve a concurrency slot of a key and its team, or raise OverLimit. It is done before the body is read."""
        if key is None or not key.limits_concurrency:
            return UNLIMITED
        slots = tuple(limit for limit in self._limits(key, ExpectedUsage()) if limit.unit == "slots")
        reservation = await self.reserve_limits(slots)
        return reservation if reservation.reserved else UNLIMITED

    async def reserve(
        self,
        key: Key | None,
        /,
        expected: ExpectedUsage,
        *,
        minimum: ExpectedUsage | None = None,
        slot: QuotaReservation = UNLIMITED,
    ) -> QuotaReservation:
        """Reserve what a request may use, or raise OverLimit. `slot` is what `reserve_slot` has reserved for it.

        With a `minimum`, a request that expects more than a whole limit reserves only that limit, but at least the
        minimum. It is for requests without `max_tokens`, which would never fit otherwise.
        """
        if key is None or not key.is_limited:
            return UNLIMITED
        limits = self._limits(key, expected)
        if minimum is not None:
            limits = tuple(map(_capped, limits, self._limits(key, minimum)))
        if not slot.limits:
            return await self.reserve_limits(limits)
        rest = tuple(limit for limit in limits if limit.unit != "slots")
        if not rest:
            return slot
        reservation = await self.reserve_limits(rest, slot.headers)
        levels = (*slot.levels, *reservation.levels) if reservation.levels else ()
        return msgspec.structs.replace(reservation, limits=(*slot.limits, *rest), levels=levels)

    async def reserve_limits(self, limits: tuple[Limit, ...], headers: LimitHeaders = (), /) -> QuotaReservation:
        """Reserve some limits, or raise OverLimit; StoreDown if the store is down and they must be enforced.

        OverLimit has `headers`, too: those of a limit that is reserved already.
        """
        try:
            outcome = await self._reserve(limits)
        except StoreDown:
            if self._must_refuse(limits):
                raise
            return QuotaReservation(limits=limits, reserved=False, reserved_at=self._clock())
        if not outcome.granted:
            raise _over_limit(limits, outcome, headers)
        self._slots |= {each.charge.id: each.charge for each in limits if isinstance(each.charge, ConcurrencySlot)}
        return QuotaReservation(limits=limits, reserved_at=outcome.reserved_at, levels=outcome.levels)

    async def finish(
        self, reservation: QuotaReservation, /, *, tokens: int | None, cost: int | None = None
    ) -> QuotaReservation:
        """Charge the real usage of a request. If it is unknown (None), the reservation stays.

        Returns the reservation with the new levels. It completes even if the caller is cancelled.
        """
        if not reservation.limits:
            return reservation
        release = self._release(reservation, {"tokens": tokens, "dollars": cost})
        return await (asyncio.shield(self._start(release)) if self._store.is_shared else release)

    def finish_soon(self, reservation: QuotaReservation, /, *, tokens: int | None) -> None:
        """As `finish`, in the background."""
        self._start(self._release(reservation, {"tokens": tokens}))

    async def limit_headers(self, key: Key, /) -> LimitHeaders:
        """The limits as headers, for a response that uses nothing."""
        limits = self._limits(key, ExpectedUsage())
        try:
            return _limit_headers(limits, await self._read_levels(limits))
        except StoreDown:
            return ()

    async def maintain(self) -> None:
        """Renew the concurrency slots, and charge unpaid usage. Call it every few seconds."""
        now = self._clock()
        if self._slots and now >= self._renewed + SLOT_TTL / 3:
            await self._store.renew(tuple(self._slots.values()))
            self._renewed = now
        while self._unpaid:
            charges, reserved_at = self._unpaid[0]
            await self._store.adjust(charges, reserved_at)
            self._unpaid.popleft()

    async def aclose(self) -> None:
        """Wait for releases under way, and charge unpaid usage."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._unpaid:
            await self.maintain()

    async def levels(self, holders: Sequence[LimitHolder], /) -> list[tuple[Level, ...]]:
        """How much of the limits of each key or team is used, without those of the teams of keys."""
        limits = [self._own_limits(each, ExpectedUsage()) for each in holders]
        levels = iter(await self._read_levels([limit for own in limits for limit in own]))
        return [tuple(map(_level, own, islice(levels, len(own)))) for own in limits]

    async def reset(self, holder: LimitHolder, /) -> None:
        """Set what is used of the current budgets of a key or a team to 0."""
        limits = [limit for limit in self._own_limits(holder, ExpectedUsage()) if _is_budget(limit)]
        if limits:
            levels = await self._read_levels(limits)
            used = [_with_amount(limit, level.used) for limit, level in zip(limits, levels, strict=True)]
            await self._store.adjust([limit.charge for limit in used], self._clock())

    async def _read_levels(self, limits: Sequence[Limit]) -> tuple[CounterLevel, ...]:
        """The levels of some limits. To adjust a counter by 0 reads it."""
        charges = [_with_amount(limit, 0).charge for limit in limits]
        return await self._store.adjust(charges, self._clock()) if charges else ()

    def _limits(self, key: Key, expected: ExpectedUsage) -> tuple[Limit, ...]:
        own = self._own_limits(key, expected)
        return own if key.team_record is None else own + self._own_limits(key.team_record, expected)

    def _own_limits(self, holder: LimitHolder, expected: ExpectedUsage) -> tuple[Limit, ...]:
        limits: list[Limit] = []
        if holder.requests_per_minute is not None:
            limits.append(_window(holder, "requests", 1, holder.requests_per_minute))
        if holder.tokens_per_minute is not None:
            limits.append(_window(holder, "tokens", max(1, expected.tokens), holder.tokens_per_minute))
        if holder.concurrent is not None:
            name = f"{_counter_name(holder)}:concurrent"
            slot = ConcurrencySlot(key=name, id=token_hex(8), limit=holder.concurrent, ttl=SLOT_TTL)
            limits.append(_limit(holder, "Concurrent", "slots", None, slot))
        for budget in holder.budgets:
            limits += _budget_limits(holder, budget, expected, self._clock())
        return tuple(limits)

    def _must_refuse(self, limits: Sequence[Limit]) -> bool:
        has_budget = any(map(_is_budget, limits))
        has_rate = not all(map(_is_budget, limits))
        return (has_budget and self._budgets == "closed") or (has_rate and self._rates == "closed")

    async def _release(self, reservation: QuotaReservation, usage: dict[Unit, int | None]) -> QuotaReservation:
        charges = [
            _with_amount(limit, _unused(limit, usage, reserved=reservation.reserved)).charge
            for limit in reservation.limits
        ]
        for charge in charges:
            if isinstance(charge, ConcurrencySlot):
                self._slots.pop(charge.id, None)
        try:
            return msgspec.structs.replace(
                reservation, levels=await self._store.adjust(charges, reservation.reserved_at)
            )
        except StoreDown:
            # The release may have happened. Only additional charges are repeated: a second release would free too much.
            unpaid = tuple(
                charge for charge in charges if not isinstance(charge, ConcurrencySlot) and charge.amount < 0
            )
            if unpaid:
                self._unpaid.append((unpaid, reservation.reserved_at))
            return reservation

    async def _reserve(self, limits: Sequence[Limit]) -> ReserveOutcome:
        charges = [limit.charge for limit in limits]
        if not self._store.is_shared:
            return await self._store.reserve(charges)  # does not suspend, so it cannot be cancelled
        reserving = asyncio.ensure_future(self._store.reserve(charges))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            self._start(self._undo(reserving, limits))
            raise

    async def _undo(self, reserving: "asyncio.Future[ReserveOutcome]", limits: Sequence[Limit]) -> None:
        """Release all reservations except the request count, for a client that disconnected during the reservation."""
        try:
            outcome = await reserving
            if outcome.granted:
                released = [limit.charge for limit in limits if limit.unit != "requests"]
                await self._store.adjust(released, outcome.reserved_at)
        except StoreDown:
            return

    def _start(self, work: Coroutine[None, None, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _capped(limit: Limit, minimum: Limit) -> Limit:
    charge, least = limit.charge, minimum.charge
    if isinstance(charge, ConcurrencySlot) or isinstance(least, ConcurrencySlot):
        return limit
    return _with_amount(limit, min(charge.amount, max(least.amount, charge.limit)))


def _with_amount(limit: Limit, amount: int) -> Limit:
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot) or charge.amount == amount:
        return limit
    return Limit(limit.holder, limit.label, limit.unit, limit.per, msgspec.structs.replace(charge, amount=amount))


def _counter_name(holder: LimitHolder) -> str:
    # No key has a slash in its id.
    return f"team/{holder.id}" if isinstance(holder, Team) else holder.id


def _limit(holder: LimitHolder, label: str, unit: Unit, per: Period | None, charge: Charge) -> Limit:
    if isinstance(holder, Team):
        return Limit(f"team {holder.id}", f"Team-{label}", unit, per, charge)
    return Limit(f"key {holder.id}", label, unit, per, charge)


def _window(holder: LimitHolder, unit: Literal["requests", "tokens"], amount: int, limit: int) -> Limit:
    name = f"{_counter_name(holder)}:{unit}"
    charge = WindowCounter(key=name, amount=amount, limit=limit, period=MINUTE)
    return _limit(holder, unit.title(), unit, "minute", charge)


def _budget_limits(holder: LimitHolder, budget: KeyBudget, expected: ExpectedUsage, now: float) -> list[Limit]:
    period, ends = _period(budget, now)
    limits: list[Limit] = []
    amounts: tuple[tuple[Unit, int | None, int], ...] = (
        ("tokens", budget.tokens, expected.tokens),
        ("dollars", None if budget.dollars is None else round(budget.dollars * NANODOLLARS), expected.cost or 0),
    )
    for unit, limit, amount in amounts:
        if limit is not None:
            name = f"{_counter_name(holder)}:{unit}:{period}"
            charge = PeriodCounter(key=name, amount=max(1, amount), limit=limit, ends=ends)
            limits.append(_limit(holder, f"{unit.title()}-{budget.per.title()}", unit, budget.per, charge))
    return limits


def _period(budget: KeyBudget, now: float) -> tuple[str, float]:
    """The current day, week or month, and when it ends."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match budget.per:
        case "day":
            return day.date().isoformat(), (day + timedelta(days=1)).timestamp()
        case "week":
            monday = day - timedelta(days=day.weekday())
            return f"week-{monday.date().isoformat()}", (monday + timedelta(days=7)).timestamp()
        case "month":
            first = day.replace(day=1)
            return first.date().isoformat()[:7], (first + timedelta(days=32)).replace(day=1).timestamp()


def _is_budget(limit: Limit) -> bool:
    return isinstance(limit.charge, PeriodCounter)


def _level(limit: Limit, level: CounterLevel) -> Level:
    return Level(
        unit=limit.unit,
        per=limit.per,
        limit=limit.charge.limit / _scale(limit),
        used=level.used / _scale(limit),
        resets_in=round(level.resets_in, 1),
    )


def _scale(limit: Limit) -> int:
    """How many units of the counter are one unit of the limit."""
    return NANODOLLARS if limit.unit == "dollars" else 1


def _unused(limit: Limit, usage: dict[Unit, int | None], *, reserved: bool) -> int:
    """The amount to release; negative if the request used more than it reserved."""
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot):
        return 0
    used = charge.amount if limit.unit == "requests" else usage.get(limit.unit)
    return (charge.amount if reserved else 0) - (charge.amount if used is None else used)


def _limit_headers(limits: Sequence[Limit], levels: Sequence[CounterLevel]) -> LimitHeaders:
    return tuple(header for pair in zip(limits, levels, strict=True) for header in _headers(*pair))


def _headers(limit: Limit, level: CounterLevel) -> list[tuple[str, str]]:
    scale = _scale(limit)
    total, remaining = limit.charge.limit, max(0, limit.charge.limit - level.used)
    headers = [
        (f"X-RateLimit-Limit-{limit.label}", f"{total / scale:g}" if scale > 1 else str(total)),
        (f"X-RateLimit-Remaining-{limit.label}", f"{remaining / scale:.6f}" if scale > 1 else str(remaining)),
    ]
    if not isinstance(limit.charge, ConcurrencySlot):
        headers.append((f"X-RateLimit-Reset-{limit.label}", f"{ceil(level.resets_in)}s"))
    return headers


def _over_limit(limits: Sequence[Limit], outcome: ReserveOutcome, headers: LimitHeaders) -> OverLimit:
    full = [(limit, level) for limit, level in zip(limits, outcome.levels, strict=True) if not level.has_room]
    waits = [level.wait for _, level in full if level.wait is not None]
    never_fits = len(waits) < len(full)
    reasons: dict[str, list[str]] = {}
    for limit, level in full:
        reasons.setdefault(limit.holder, []).append(_reason(limit, level))
    error = OverLimit(
        "; ".join(f"{holder}: {'; '.join(own)}" for holder, own in reasons.items()),
        headers=(*headers, *_limit_headers(limits, outcome.levels)),
        retry_after=None if never_fits else max(waits),
        retry=not never_fits,
    )
    error.full = tuple(full)
    return error


def _reason(limit: Limit, level: CounterLevel) -> str:
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot):
        return f"the limit of {charge.limit} concurrent requests is reached"
    name = f"the limit of {_amount(limit, charge.limit)} per {limit.per}"
    if level.wait is None:
        return f"{name} is less than this request may use; {_USE_LESS}"
    left = charge.limit - level.used
    if limit.unit == "requests" or left <= 0:
        return f"{name} is reached"
    reserved = _amount(limit, charge.amount)
    return f"{name} has no room: {_amount(limit, left)} are left, this request reserves {reserved}; {_USE_LESS}"


_USE_LESS = "set or lower max_tokens, or shorten the prompt"


def _amount(limit: Limit, amount: int) -> str:
    return f"{amount / NANODOLLARS:g} dollars" if limit.unit == "dollars" else f"{amount} {limit.unit}"
