"""A key and what a request may use in, leave to go on out; afterwards, what it really used.

What a request may use is reserved before it leaves, all of its limits in one step or none, and what it did not use is
given back when it has ended. Where the store cannot be reached meanwhile, the mistake is on the safe side: a
reservation stays, and what was used on top of one is owed until it could be told.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from secrets import token_hex
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.errors import RateLimited, StoreDown
from dragoman.gateway.auth.api_keys import Key, KeyBudget
from dragoman.gateway.store.base import (
    Charge,
    ConcurrencySlot,
    CounterLevel,
    PeriodCounter,
    Reservation,
    Store,
    WindowCounter,
)

MINUTE = 60.0
SLOT_TTL = 60.0
"""Seconds after which the seat of a gateway that died falls free."""
MAX_OWED = 10_000
NANO = 1_000_000_000
"""Units of money: billionths of a dollar, so that sums are exact."""

WhenDown: TypeAlias = Literal["open", "closed"]
Unit: TypeAlias = Literal["requests", "tokens", "dollars", "seats"]
Headers: TypeAlias = tuple[tuple[str, str], ...]
"""What a client is told of its limits."""
T = TypeVar("T")


class ExpectedUsage(msgspec.Struct, frozen=True):
    """What a request may use: tokens, and billionths of a dollar where the price is known.

    >>> ExpectedUsage(10).cost is None
    True
    """

    tokens: int = 0
    cost: int | None = None


class OverLimit(RateLimited):
    """A limit of the client's own key is reached.

    >>> OverLimit("team: 60 requests a minute", retry_after=3.0).headers
    ()
    """

    headers: Headers = ()


class Limit(msgspec.Struct, frozen=True):
    """One limit that a request has to keep, and what it takes of it.

    >>> Limit("Requests", "requests", WindowCounter(key="team:requests", amount=1, limit=60, period=60.0)).label
    'Requests'
    """

    label: str
    unit: Unit
    charge: Charge


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to go on, with what was reserved for it.

    >>> Admission().headers
    ()
    """

    limits: tuple[Limit, ...] = ()
    moment: float = 0.0
    reserved: bool = True
    """False where the store could not be asked: all that was used is owed."""
    levels: tuple[CounterLevel, ...] = ()
    """How full each limit is; none where nobody knows."""

    @property
    def headers(self) -> Headers:
        """What the client is told of its limits."""
        return _told_of(self.limits, self.levels) if self.levels else ()


UNLIMITED = Admission()


class Quotas:
    """The limits of all keys, counted in a store.

    >>> from dragoman.gateway.store import open_store
    >>> key = Key(id="team", hash="b2:0:0:0", requests_per_minute=1)
    >>> async def main() -> str:
    ...     limits = Quotas(open_store("memory"))
    ...     await limits.finish(await limits.admit(key, ExpectedUsage(10)), tokens=7)
    ...     try:
    ...         await limits.admit(key, ExpectedUsage(10))
    ...     except OverLimit as error:
    ...         return error.message
    >>> asyncio.run(main())
    'team: 1 requests a minute are used up'
    """

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
        self._seats: dict[str, ConcurrencySlot] = {}
        self._renewed = clock()
        self._owed: deque[tuple[tuple[Charge, ...], float]] = deque(maxlen=MAX_OWED)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def admit(
        self, key: Key | None, /, need: ExpectedUsage, *, minimum: ExpectedUsage | None = None
    ) -> Admission:
        """Reserve what a request may use.

        Where only the `minimum` of it is certain, and all is more than a limit as a whole, what that limit has will do.
        """
        if key is None or not key.is_limited:
            return UNLIMITED
        limits = self._limits(key, need)
        if minimum is not None:
            limits = tuple(map(_at_most, limits, self._limits(key, minimum)))
        charges = [limit.charge for limit in limits]
        try:
            taken = await self._take(charges)
        except StoreDown:
            if self._is_closed(limits):
                raise
            return Admission(limits=limits, reserved=False, moment=self._clock())
        if not taken.granted:
            raise _refusal(key, limits, taken)
        self._seats |= {charge.id: charge for charge in charges if isinstance(charge, ConcurrencySlot)}
        return Admission(limits=limits, moment=taken.moment, levels=taken.levels)

    async def finish(self, admission: Admission, /, *, tokens: int | None, cost: int | None = None) -> Admission:
        """Count what a request used; None is not known, and what was reserved stays. Safe from cancellation.

        Gives the same admission, with the levels as they are then.
        """
        if not admission.limits:
            return admission
        settling = self._settle(admission, {"tokens": tokens, "dollars": cost})
        return await (asyncio.shield(self._later(settling)) if self._store.is_shared else settling)

    async def limit_headers(self, key: Key, /) -> Headers:
        """What the client is told of its limits by an answer that takes nothing of them."""
        limits = [_given(limit, 0) for limit in self._limits(key, ExpectedUsage())]
        try:
            return _told_of(limits, await self._store.release([limit.charge for limit in limits], self._clock()))
        except StoreDown:
            return ()

    async def maintain(self) -> None:
        """Keep the seats of requests under way, and tell what is owed. To be called every few seconds."""
        now = self._clock()
        if self._seats and now >= self._renewed + SLOT_TTL / 3:
            await self._store.renew(tuple(self._seats.values()))
            self._renewed = now
        while self._owed:
            charges, moment = self._owed[0]
            await self._store.release(charges, moment)
            self._owed.popleft()

    async def aclose(self) -> None:
        """Wait for what is being counted."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._owed:
            await self.maintain()

    # What it takes ----------------------------------------------------------------------------------------------------

    def _limits(self, key: Key, need: ExpectedUsage) -> tuple[Limit, ...]:
        limits: list[Limit] = []
        if key.requests_per_minute is not None:
            limits.append(_window(key, "requests", 1, key.requests_per_minute))
        if key.tokens_per_minute is not None:
            limits.append(_window(key, "tokens", max(1, need.tokens), key.tokens_per_minute))
        if key.concurrent is not None:
            seat = ConcurrencySlot(key=f"{key.id}:concurrent", id=token_hex(8), limit=key.concurrent, ttl=SLOT_TTL)
            limits.append(Limit("Concurrent", "seats", seat))
        for budget in key.budgets:
            limits += _totals(key, budget, need, self._clock())
        return tuple(limits)

    def _is_closed(self, limits: Sequence[Limit]) -> bool:
        kinds = {isinstance(limit.charge, PeriodCounter) for limit in limits}
        return (True in kinds and self._budgets == "closed") or (False in kinds and self._rates == "closed")

    # What is given back -----------------------------------------------------------------------------------------------

    async def _settle(self, admission: Admission, used: dict[Unit, int | None]) -> Admission:
        back = [_given(limit, _back(limit, used, reserved=admission.reserved)).charge for limit in admission.limits]
        for charge in back:
            if isinstance(charge, ConcurrencySlot):
                self._seats.pop(charge.id, None)
        try:
            return msgspec.structs.replace(admission, levels=await self._store.release(back, admission.moment))
        except StoreDown:
            # Told twice, what was given back would be too much; what is owed is too little at worst.
            owed = tuple(charge for charge in back if not isinstance(charge, ConcurrencySlot) and charge.amount < 0)
            if owed:
                self._owed.append((owed, admission.moment))
            return admission

    async def _take(self, charges: Sequence[Charge]) -> Reservation:
        if not self._store.is_shared:
            return await self._store.reserve(charges)  # at once: nobody can leave meanwhile
        taking = asyncio.ensure_future(self._store.reserve(charges))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._later(self._undo(taking, charges))
            raise

    async def _undo(self, taking: "asyncio.Future[Reservation]", charges: Sequence[Charge]) -> None:
        """Give back all that was taken for a request whose client has gone."""
        back = [
            charge for charge in charges if not (isinstance(charge, WindowCounter) and charge.key.endswith(":requests"))
        ]
        try:
            taken = await taking
            if taken.granted:
                await self._store.release(back, taken.moment)
        except StoreDown:
            return

    def _later(self, work: Coroutine[None, None, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _at_most(limit: Limit, minimum: Limit) -> Limit:
    """The same, or as much of it as the limit has: at least what is certain."""
    charge, certain = limit.charge, minimum.charge
    if isinstance(charge, ConcurrencySlot) or isinstance(certain, ConcurrencySlot):
        return limit
    return _given(limit, min(charge.amount, max(certain.amount, charge.limit)))


def _given(limit: Limit, amount: int) -> Limit:
    """The same limit with another amount."""
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot) or charge.amount == amount:
        return limit
    return Limit(limit.label, limit.unit, msgspec.structs.replace(charge, amount=amount))


def _window(key: Key, unit: Literal["requests", "tokens"], amount: int, limit: int) -> Limit:
    return Limit(unit.title(), unit, WindowCounter(key=f"{key.id}:{unit}", amount=amount, limit=limit, period=MINUTE))


def _totals(key: Key, budget: KeyBudget, need: ExpectedUsage, now: float) -> list[Limit]:
    name, ends = _span(budget, now)
    found: list[Limit] = []
    limits: tuple[tuple[Unit, int | None, int], ...] = (
        ("tokens", budget.tokens, need.tokens),
        ("dollars", None if budget.dollars is None else round(budget.dollars * NANO), need.cost or 0),
    )
    for unit, limit, amount in limits:
        if limit is not None:
            charge = PeriodCounter(key=f"{key.id}:{unit}:{name}", amount=max(1, amount), limit=limit, ends=ends)
            found.append(Limit(f"{unit.title()}-{budget.per.title()}", unit, charge))
    return found


def _span(budget: KeyBudget, now: float) -> tuple[str, float]:
    """The name of the day or month, and when it ends."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if budget.per == "day":
        return day.date().isoformat(), (day + timedelta(days=1)).timestamp()
    first = day.replace(day=1)
    return first.date().isoformat()[:7], (first + timedelta(days=32)).replace(day=1).timestamp()


def _back(limit: Limit, used: dict[Unit, int | None], *, reserved: bool) -> int:
    """How much of a limit has to be given back; below nothing where more was used than reserved."""
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot):
        return 0
    amount = charge.amount if limit.unit == "requests" else used.get(limit.unit)
    return (charge.amount if reserved else 0) - (charge.amount if amount is None else amount)


def _told_of(limits: Sequence[Limit], levels: Sequence[CounterLevel]) -> Headers:
    return tuple(header for pair in zip(limits, levels, strict=True) for header in _headers(*pair))


def _headers(limit: Limit, level: CounterLevel) -> list[tuple[str, str]]:
    scale = NANO if limit.unit == "dollars" else 1
    most, left = limit.charge.limit, max(0, limit.charge.limit - level.used)
    headers = [
        (f"X-RateLimit-Limit-{limit.label}", f"{most / scale:g}" if scale > 1 else str(most)),
        (f"X-RateLimit-Remaining-{limit.label}", f"{left / scale:.6f}" if scale > 1 else str(left)),
    ]
    if not isinstance(limit.charge, ConcurrencySlot):
        headers.append((f"X-RateLimit-Reset-{limit.label}", f"{ceil(level.resets)}s"))
    return headers


def _refusal(key: Key, limits: Sequence[Limit], taken: Reservation) -> OverLimit:
    full = [(limit, level) for limit, level in zip(limits, taken.levels, strict=True) if level.wait != 0.0]
    waits = [level.wait for _, level in full if level.wait is not None]
    never = len(waits) < len(full)
    told = "; ".join(_told(limit, level) for limit, level in full)
    error = OverLimit(
        f"{key.id}: {told}", code="rate_limit_exceeded", retry_after=None if never else max(waits), retry=not never
    )
    error.headers = _told_of(limits, taken.levels)
    return error


def _told(limit: Limit, level: CounterLevel) -> str:
    charge = limit.charge
    if isinstance(charge, ConcurrencySlot):
        return f"{charge.limit} requests are under way"
    most = f"{charge.limit / NANO:g}" if limit.unit == "dollars" else charge.limit
    span = "minute" if isinstance(charge, WindowCounter) else limit.label.rpartition("-")[2].lower()
    what = f"{most} {limit.unit} a {span}"
    return f"{what} are used up" if level.wait is not None else f"{what} are less than this request may use"
