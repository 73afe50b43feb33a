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
from typing import Literal, TypeAlias

import msgspec

from dragoman.errors import RateLimited, StoreDown
from dragoman.gateway.keys import Budget, Key
from dragoman.gateway.store.port import Charge, Level, Seat, Store, Taken, Total, Window
from dragoman.types import Part, Request, Text, Thinking, ToolCall, ToolResult, Usage

MINUTE = 60.0
SEAT_TTL = 60.0
"""Seconds after which the seat of a gateway that died falls free."""
MOST_OWED = 10_000
NANO = 1_000_000_000
"""Units of money: billionths of a dollar, so that sums are exact."""
BYTES_PER_TOKEN = 3
TOKENS_PER_IMAGE = 1500
"""Of an image, and of all else that is no text."""
TOKENS_PER_ANSWER = 1024
"""What is reserved for an answer whose length the client did not limit."""

WhenDown: TypeAlias = Literal["open", "closed"]
Unit: TypeAlias = Literal["requests", "tokens", "dollars", "seats"]


class OverLimit(RateLimited):
    """A limit of the client's own key is reached.

    >>> OverLimit("team: 60 requests a minute", retry_after=3.0).headers
    ()
    """

    headers: tuple[tuple[str, str], ...] = ()


class Limit(msgspec.Struct, frozen=True):
    """One limit that a request has to keep, and what it takes of it.

    >>> Limit("Requests", "requests", Window(key="team:requests", amount=1, limit=60, period=60.0)).label
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
    headers: tuple[tuple[str, str], ...] = ()


FREE = Admission()


class Limits:
    """The limits of all keys, counted in a store.

    >>> from dragoman.gateway.store import open_store
    >>> key = Key(id="team", hash="b2:0:0:0", requests_per_minute=1)
    >>> async def main() -> str:
    ...     limits = Limits(open_store("memory"))
    ...     await limits.settle(await limits.admit(key, tokens=10), tokens=7)
    ...     try:
    ...         await limits.admit(key, tokens=10)
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
        self._seats: dict[str, Seat] = {}
        self._renewed = clock()
        self._owed: deque[tuple[tuple[Charge, ...], float]] = deque(maxlen=MOST_OWED)
        self._tasks: set[asyncio.Task[None]] = set()

    async def admit(
        self, key: Key | None, /, *, tokens: int, cost: int | None = None, is_guess: bool = False
    ) -> Admission:
        """Reserve what a request may use: tokens, and billionths of a dollar where the price is known.

        A guess that is more than a limit as a whole reserves all of that limit; what is no guess is refused.
        """
        limits = () if key is None else self._limits(key, tokens, cost)
        if is_guess:
            limits = tuple(map(_at_most, limits))
        if key is None or not limits:
            return FREE
        charges = [limit.charge for limit in limits]
        try:
            taken = await self._take(charges)
        except StoreDown:
            if self._is_closed(limits):
                raise
            return Admission(limits=limits, reserved=False, moment=self._clock())
        headers = tuple(header for pair in zip(limits, taken.levels, strict=True) for header in _headers(*pair))
        if not taken.granted:
            raise _refusal(key, limits, taken, headers)
        self._seats |= {charge.id: charge for charge in charges if isinstance(charge, Seat)}
        return Admission(limits=limits, moment=taken.moment, headers=headers)

    async def settle(self, admission: Admission, /, *, tokens: int | None, cost: int | None = None) -> None:
        """Count what a request used; None is not known, and what was reserved stays. Safe from cancellation."""
        if not admission.limits:
            return
        settling = self._settle(admission, {"tokens": tokens, "dollars": cost})
        await (asyncio.shield(self._later(settling)) if self._store.is_shared else settling)

    async def tend(self) -> None:
        """Keep the seats of requests under way, and tell what is owed. To be called every few seconds."""
        now = self._clock()
        if self._seats and now >= self._renewed + SEAT_TTL / 3:
            await self._store.renew(tuple(self._seats.values()))
            self._renewed = now
        while self._owed:
            charges, moment = self._owed[0]
            await self._store.give(charges, moment)
            self._owed.popleft()

    async def aclose(self) -> None:
        """Wait for what is being counted."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._owed:
            await self.tend()

    # What it takes ----------------------------------------------------------------------------------------------------

    def _limits(self, key: Key, tokens: int, cost: int | None) -> tuple[Limit, ...]:
        limits: list[Limit] = []
        if key.requests_per_minute is not None:
            limits.append(_window(key, "requests", 1, key.requests_per_minute))
        if key.tokens_per_minute is not None:
            limits.append(_window(key, "tokens", max(1, tokens), key.tokens_per_minute))
        if key.concurrent is not None:
            seat = Seat(key=f"{key.id}:concurrent", id=token_hex(8), limit=key.concurrent, ttl=SEAT_TTL)
            limits.append(Limit("Concurrent", "seats", seat))
        for budget in key.budgets:
            limits += _totals(key, budget, tokens, cost, self._clock())
        return tuple(limits)

    def _is_closed(self, limits: Sequence[Limit]) -> bool:
        kinds = {isinstance(limit.charge, Total) for limit in limits}
        return (True in kinds and self._budgets == "closed") or (False in kinds and self._rates == "closed")

    # What is given back -----------------------------------------------------------------------------------------------

    async def _settle(self, admission: Admission, used: dict[Unit, int | None]) -> None:
        back = [charge for limit in admission.limits for charge in _back(limit, used, reserved=admission.reserved)]
        for charge in back:
            if isinstance(charge, Seat):
                self._seats.pop(charge.id, None)
        if not back:
            return
        try:
            await self._store.give(back, admission.moment)
        except StoreDown:
            # Told twice, what was given back would be too much; what is owed is too little at worst.
            owed = tuple(charge for charge in back if not isinstance(charge, Seat) and charge.amount < 0)
            if owed:
                self._owed.append((owed, admission.moment))

    async def _take(self, charges: Sequence[Charge]) -> Taken:
        if not self._store.is_shared:
            return await self._store.take(charges)  # at once: nobody can leave meanwhile
        taking = asyncio.ensure_future(self._store.take(charges))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._later(self._undo(taking, charges))
            raise

    async def _undo(self, taking: "asyncio.Future[Taken]", charges: Sequence[Charge]) -> None:
        """Give back all that was taken for a request whose client has gone."""
        try:
            taken = await taking
        except StoreDown:
            return
        if taken.granted:
            back = [
                charge for charge in charges if not (isinstance(charge, Window) and charge.key.endswith(":requests"))
            ]
            await self._store.give(back, taken.moment)

    def _later(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def estimate(request: Request, /) -> Usage:
    """Tokens that a request may use: some for its words and images, and as many as its answer may have.

    >>> from dragoman.types import user
    >>> estimate(Request(messages=(user("How high is the tide?"),), max_tokens=100)).input
    7
    """
    system = (Text(text=request.system),) if isinstance(request.system, str) else request.system or ()
    parts = [*system, *(part for message in request.messages for part in message.parts)]
    # A number below zero is no limit to some servers, and must not make room in a budget.
    answer = TOKENS_PER_ANSWER if request.max_tokens is None or request.max_tokens < 0 else request.max_tokens
    return Usage(input=sum(map(_weight, parts)) // BYTES_PER_TOKEN, output=answer, source="estimated")


def tokens_of(usage: Usage, /) -> int | None:
    """All tokens of a usage; None where it tells none.

    >>> tokens_of(Usage(input=5, output=2)), tokens_of(Usage())
    (7, None)
    """
    return None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)


def _weight(part: Part) -> int:
    """The bytes of a part, or what it counts for."""
    match part:
        case Text() | Thinking():
            return len(part.text.encode(errors="surrogatepass"))
        case ToolCall():
            return len(msgspec.json.encode(part.arguments))
        case ToolResult():
            return sum(map(_weight, part.parts))
        case _:
            return TOKENS_PER_IMAGE * BYTES_PER_TOKEN


def _at_most(limit: Limit) -> Limit:
    charge = limit.charge
    if isinstance(charge, Seat) or charge.amount <= max(1, charge.limit):
        return limit
    return Limit(limit.label, limit.unit, msgspec.structs.replace(charge, amount=max(1, charge.limit)))


def _window(key: Key, unit: Literal["requests", "tokens"], amount: int, limit: int) -> Limit:
    return Limit(unit.title(), unit, Window(key=f"{key.id}:{unit}", amount=amount, limit=limit, period=MINUTE))


def _totals(key: Key, budget: Budget, tokens: int, cost: int | None, now: float) -> list[Limit]:
    name, ends = _span(budget, now)
    found: list[Limit] = []
    limits: tuple[tuple[Unit, int | None, int], ...] = (
        ("tokens", budget.tokens, tokens),
        ("dollars", None if budget.dollars is None else round(budget.dollars * NANO), cost or 0),
    )
    for unit, limit, amount in limits:
        if limit is not None:
            charge = Total(key=f"{key.id}:{unit}:{name}", amount=max(1, amount), limit=limit, ends=ends)
            found.append(Limit(f"{unit.title()}-{budget.per.title()}", unit, charge))
    return found


def _span(budget: Budget, now: float) -> tuple[str, float]:
    """The name of the day or month, and when it ends."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if budget.per == "day":
        return day.date().isoformat(), (day + timedelta(days=1)).timestamp()
    first = day.replace(day=1)
    return first.date().isoformat()[:7], (first + timedelta(days=32)).replace(day=1).timestamp()


def _back(limit: Limit, used: dict[Unit, int | None], *, reserved: bool) -> list[Charge]:
    """What has to be given back of a limit; below nothing where more was used than reserved."""
    charge = limit.charge
    if isinstance(charge, Seat):
        return [charge] if reserved else []
    amount = charge.amount if limit.unit == "requests" else used.get(limit.unit)
    if amount is None:
        amount = charge.amount
    difference = (charge.amount if reserved else 0) - amount
    return [msgspec.structs.replace(charge, amount=difference)] if difference else []


def _headers(limit: Limit, level: Level) -> list[tuple[str, str]]:
    scale = NANO if limit.unit == "dollars" else 1
    most, left = limit.charge.limit, max(0, limit.charge.limit - level.used)
    headers = [
        (f"X-RateLimit-Limit-{limit.label}", f"{most / scale:g}" if scale > 1 else str(most)),
        (f"X-RateLimit-Remaining-{limit.label}", f"{left / scale:.6f}" if scale > 1 else str(left)),
    ]
    if not isinstance(limit.charge, Seat):
        headers.append((f"X-RateLimit-Reset-{limit.label}", f"{ceil(level.resets)}s"))
    return headers


def _refusal(key: Key, limits: Sequence[Limit], taken: Taken, headers: tuple[tuple[str, str], ...]) -> OverLimit:
    full = [(limit, level) for limit, level in zip(limits, taken.levels, strict=True) if level.wait != 0.0]
    waits = [level.wait for _, level in full if level.wait is not None]
    never = len(waits) < len(full)
    told = "; ".join(_told(limit, level) for limit, level in full)
    error = OverLimit(
        f"{key.id}: {told}", code="rate_limit_exceeded", retry_after=None if never else max(waits), transient=not never
    )
    error.headers = headers
    return error


def _told(limit: Limit, level: Level) -> str:
    charge = limit.charge
    if isinstance(charge, Seat):
        return f"{charge.limit} requests are under way"
    most = f"{charge.limit / NANO:g}" if limit.unit == "dollars" else charge.limit
    span = "minute" if isinstance(charge, Window) else limit.label.rpartition("-")[2].lower()
    what = f"{most} {limit.unit} a {span}"
    return f"{what} are used up" if level.wait is not None else f"{what} are less than this request may use"
