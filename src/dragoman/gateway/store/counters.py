"""Marks of a meter and a charge in, whether it fits out: the arithmetic of limits, for stores that have none.

A window is cut into 60 slots and one that is half over, so what counts is at least the period and at most a sixtieth
more: never too much, and the state stays small. Marks are amounts by slot, of a total one amount, of seats the moments
when they fall free.
"""

from collections.abc import Callable, Sequence
from math import floor
from typing import TypeAlias

from dragoman.gateway.store.base import Charge, ConcurrencySlot, CounterLevel, PeriodCounter, Reservation, WindowCounter

SLOTS = 60
SEAT_WAIT = 1.0
"""Seconds after which one may ask again for a seat: when one falls free nobody can know."""

Marks: TypeAlias = dict[str, float]


def slot_of(charge: WindowCounter, now: float, /) -> int:
    """The slot of a window that a moment falls into.

    >>> slot_of(WindowCounter(key="k", amount=1, limit=1, period=60.0), 61.5)
    61
    """
    return floor(now / (charge.period / SLOTS))


def alive(charge: Charge, marks: Marks, now: float, /) -> Marks:
    """The marks that still count.

    >>> alive(ConcurrencySlot(key="k", id="b", limit=1, ttl=60.0), {"a": 9.0}, 10.0)
    {}
    """
    match charge:
        case WindowCounter():
            first = slot_of(charge, now) - SLOTS
            return {slot: amount for slot, amount in marks.items() if int(slot) >= first}
        case PeriodCounter():
            return marks if now < charge.ends else {}
        case ConcurrencySlot():
            return {id: until for id, until in marks.items() if until > now}


def level(charge: Charge, marks: Marks, now: float, /) -> tuple[bool, CounterLevel]:
    """Whether a charge fits, and how full the meter is before it is taken. The marks are alive.

    >>> level(WindowCounter(key="k", amount=1, limit=2, period=60.0), {"5": 2}, 8.0)
    (False, Level(used=2, wait=58.0, resets=58.0))
    """
    match charge:
        case WindowCounter():
            return _window_level(charge, marks, now)
        case PeriodCounter():
            used, left = int(marks.get("", 0)), max(0.0, charge.ends - now)
            fits = used + charge.amount <= charge.limit
            wait = 0.0 if fits else left if charge.amount <= charge.limit else None
            return fits, CounterLevel(used=used, wait=wait, resets=left if used else 0.0)
        case ConcurrencySlot():
            fits = len(marks) < charge.limit
            wait = 0.0 if fits else SEAT_WAIT if charge.limit > 0 else None
            return fits, CounterLevel(used=len(marks), wait=wait, resets=max(marks.values(), default=now) - now)


def _window_level(charge: WindowCounter, marks: Marks, now: float) -> tuple[bool, CounterLevel]:
    width = charge.period / SLOTS
    slots = sorted((int(slot), int(amount)) for slot, amount in marks.items() if amount)
    used = sum(amount for _, amount in slots)
    resets = (slots[-1][0] + SLOTS + 1) * width - now if slots else 0.0
    over = used + charge.amount - charge.limit
    if over <= 0:
        return True, CounterLevel(used=used, resets=resets)
    if charge.amount > charge.limit:
        return False, CounterLevel(used=used, wait=None, resets=resets)
    for slot, amount in slots:
        over -= amount
        if over <= 0:
            return False, CounterLevel(used=used, wait=(slot + SLOTS + 1) * width - now, resets=resets)
    raise AssertionError("what is used fits when nothing of it counts")


def taken(charge: Charge, marks: Marks, now: float, /) -> Marks:
    """The marks with a charge on them.

    >>> taken(WindowCounter(key="k", amount=3, limit=9, period=60.0), {"5": 2}, 5.5)
    {'5': 5}
    """
    match charge:
        case WindowCounter():
            return _plus(marks, str(slot_of(charge, now)), charge.amount)
        case PeriodCounter():
            return _plus(marks, "", charge.amount)
        case ConcurrencySlot():
            return {**marks, charge.id: now + charge.ttl}


def given(charge: Charge, marks: Marks, moment: float, now: float, /) -> Marks:
    """The marks without what was taken at a moment; what was used on top of it counts from now on.

    Of nothing to give back nothing comes, but for a seat: that has no amount.

    >>> given(WindowCounter(key="k", amount=3, limit=9, period=60.0), {"5": 5}, 5.5, 9.0)
    {'5': 2}
    """
    match charge:
        case WindowCounter(amount=0) | PeriodCounter(amount=0):
            return marks
        case WindowCounter():
            slot = str(slot_of(charge, moment if charge.amount >= 0 else now))
            return _plus(marks, slot, -charge.amount) if charge.amount < 0 or slot in marks else marks
        case PeriodCounter():
            return _plus(marks, "", -charge.amount)
        case ConcurrencySlot():
            return {id: until for id, until in marks.items() if id != charge.id}


def lasts_until(charge: Charge, now: float, /) -> float:
    """When a meter that was charged now is certainly empty.

    >>> lasts_until(ConcurrencySlot(key="k", id="a", limit=1, ttl=60.0), 1.0)
    61.0
    """
    match charge:
        case WindowCounter():
            return now + charge.period * (SLOTS + 1) / SLOTS
        case PeriodCounter():
            return charge.ends
        case ConcurrencySlot():
            return now + charge.ttl


def weigh(
    charges: Sequence[Charge], marks_of: Callable[[str], Marks], now: float, /
) -> tuple[Reservation, dict[str, tuple[Marks, float]]]:
    """Whether all charges fit, each with a key of its own; where they do, the marks with them and how long these last.

    >>> weigh([WindowCounter(key="k", amount=1, limit=1, period=60.0)], lambda key: {}, 5.0)[1]
    {'k': ({'5': 1}, 66.0)}
    """
    found = [(charge, alive(charge, marks_of(charge.key), now)) for charge in charges]
    before = [level(charge, marks, now) for charge, marks in found]
    if not all(fits for fits, _ in before):
        return Reservation(granted=False, moment=now, levels=tuple(level for _, level in before)), {}
    fresh = {charge.key: (taken(charge, marks, now), lasts_until(charge, now)) for charge, marks in found}
    return Reservation(granted=True, moment=now, levels=_levels(charges, fresh, now)), fresh


def settle(
    charges: Sequence[Charge], marks_of: Callable[[str], Marks], moment: float, now: float, /
) -> tuple[tuple[CounterLevel, ...], dict[str, tuple[Marks, float]]]:
    """How full meters are when charges of a moment were given back; the marks that changed, and how long these last.

    >>> settle([WindowCounter(key="k", amount=1, limit=3, period=60.0)], lambda key: {"5": 3}, 5.0, 6.0)
    ((Level(used=2, wait=0.0, resets=60.0),), {'k': ({'5': 2}, 67.0)})
    """
    found = [(charge, alive(charge, marks_of(charge.key), now)) for charge in charges]
    after = {charge.key: (given(charge, marks, moment, now), lasts_until(charge, now)) for charge, marks in found}
    fresh = {charge.key: after[charge.key] for charge, marks in found if after[charge.key][0] != marks}
    return _levels(charges, after, now), fresh


def _levels(charges: Sequence[Charge], fresh: dict[str, tuple[Marks, float]], now: float) -> tuple[CounterLevel, ...]:
    """How full the meters are, whatever was charged last."""
    found = [level(charge, alive(charge, fresh[charge.key][0], now), now)[1] for charge in charges]
    return tuple([CounterLevel(used=level.used, resets=level.resets) for level in found])


def _plus(marks: Marks, name: str, amount: int) -> Marks:
    return {**marks, name: max(0, marks.get(name, 0) + amount)}
