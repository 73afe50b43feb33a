"""The arithmetic of counters, for stores that have none of their own (memory and SQLite).

The state of a counter is a small dict. A sliding window is cut into 60 buckets, and the state has an amount for each
bucket; the bucket in which the window starts counts in full. So the effective window is at least the period and at most
one sixtieth longer, and a limit is never exceeded. The state of a period counter is one amount, and that of concurrency
slots is the time at which each slot becomes free.
"""

from collections.abc import Callable, Sequence
from math import floor
from typing import TypeAlias

from dragoman.gateway.store.base import (
    Charge,
    ConcurrencySlot,
    CounterLevel,
    PeriodCounter,
    ReserveOutcome,
    WindowCounter,
)

BUCKETS = 60
SLOT_WAIT = 1.0
"""Seconds to wait for a slot, because it is unknown when a request ends."""

CounterState: TypeAlias = dict[str, float]
CounterStates: TypeAlias = dict[str, tuple[CounterState, float]]
"""The state of counters by key, and when each expires."""


def bucket_of(charge: WindowCounter, now: float, /) -> int:
    """The bucket of a window at a time."""
    return floor(now / (charge.period / BUCKETS))


def drop_expired(charge: Charge, state: CounterState, now: float, /) -> CounterState:
    """The part of a state that still counts."""
    match charge:
        case WindowCounter():
            first = bucket_of(charge, now) - BUCKETS
            return {bucket: amount for bucket, amount in state.items() if int(bucket) >= first}
        case PeriodCounter():
            return state if now < charge.ends else {}
        case ConcurrencySlot():
            return {id: until for id, until in state.items() if until > now}


def measure_charge(charge: Charge, state: CounterState, now: float, /) -> tuple[bool, CounterLevel]:
    """Whether a charge fits, and the level before it is taken. The state has nothing expired."""
    match charge:
        case WindowCounter():
            return _measure_window(charge, state, now)
        case PeriodCounter():
            used, remaining = int(state.get("", 0)), max(0.0, charge.ends - now)
            fits = used + charge.amount <= charge.limit
            wait = 0.0 if fits else remaining if charge.amount <= charge.limit else None
            return fits, CounterLevel(used=used, wait=wait, resets_in=remaining if used else 0.0)
        case ConcurrencySlot():
            fits = len(state) < charge.limit
            wait = 0.0 if fits else SLOT_WAIT if charge.limit > 0 else None
            return fits, CounterLevel(used=len(state), wait=wait, resets_in=max(state.values(), default=now) - now)


def _measure_window(charge: WindowCounter, state: CounterState, now: float) -> tuple[bool, CounterLevel]:
    width = charge.period / BUCKETS
    buckets = sorted((int(bucket), int(amount)) for bucket, amount in state.items() if amount)
    used = sum(amount for _, amount in buckets)
    resets = (buckets[-1][0] + BUCKETS + 1) * width - now if buckets else 0.0
    excess = used + charge.amount - charge.limit
    if excess <= 0:
        return True, CounterLevel(used=used, resets_in=resets)
    if charge.amount > charge.limit:
        return False, CounterLevel(used=used, wait=None, resets_in=resets)
    for bucket, amount in buckets:
        excess -= amount
        if excess <= 0:
            return False, CounterLevel(used=used, wait=(bucket + BUCKETS + 1) * width - now, resets_in=resets)
    raise AssertionError("a charge within the limit fits into an empty window")


def add_charge(charge: Charge, state: CounterState, now: float, /) -> CounterState:
    """The state with a charge added."""
    match charge:
        case WindowCounter():
            return _plus(state, str(bucket_of(charge, now)), charge.amount)
        case PeriodCounter():
            return _plus(state, "", charge.amount)
        case ConcurrencySlot():
            return {**state, charge.id: now + charge.ttl}


def remove_charge(charge: Charge, state: CounterState, reserved_at: float, now: float, /) -> CounterState:
    """The state without a charge of an earlier time. A negative amount is added now."""
    match charge:
        case WindowCounter(amount=0) | PeriodCounter(amount=0):
            return state
        case WindowCounter():
            bucket = str(bucket_of(charge, reserved_at if charge.amount >= 0 else now))
            return _plus(state, bucket, -charge.amount) if charge.amount < 0 or bucket in state else state
        case PeriodCounter():
            return _plus(state, "", -charge.amount)
        case ConcurrencySlot():
            return {id: until for id, until in state.items() if id != charge.id}


def expires_at(charge: Charge, now: float, /) -> float:
    """When a counter that is charged now is certainly empty."""
    match charge:
        case WindowCounter():
            return now + charge.period * (BUCKETS + 1) / BUCKETS
        case PeriodCounter():
            return charge.ends
        case ConcurrencySlot():
            return now + charge.ttl


def reserve(
    charges: Sequence[Charge], read: Callable[[str], CounterState], now: float, /
) -> tuple[ReserveOutcome, CounterStates]:
    """Take all charges if all fit; each has its own key."""
    states = [(charge, drop_expired(charge, read(charge.key), now)) for charge in charges]
    before = [measure_charge(charge, state, now) for charge, state in states]
    if not all(fits for fits, _ in before):
        return ReserveOutcome(granted=False, reserved_at=now, levels=tuple(level for _, level in before)), {}
    changes = {charge.key: (add_charge(charge, state, now), expires_at(charge, now)) for charge, state in states}
    return ReserveOutcome(granted=True, reserved_at=now, levels=_levels(charges, changes, now)), changes


def adjust(
    charges: Sequence[Charge], read: Callable[[str], CounterState], reserved_at: float, now: float, /
) -> tuple[tuple[CounterLevel, ...], CounterStates]:
    """Give back charges of an earlier time; a negative amount is charged from now on."""
    states = [(charge, drop_expired(charge, read(charge.key), now)) for charge in charges]
    after = {
        charge.key: (remove_charge(charge, state, reserved_at, now), expires_at(charge, now))
        for charge, state in states
    }
    changes = {charge.key: after[charge.key] for charge, state in states if after[charge.key][0] != state}
    return _levels(charges, after, now), changes


def _levels(charges: Sequence[Charge], states: CounterStates, now: float) -> tuple[CounterLevel, ...]:
    levels = [measure_charge(charge, drop_expired(charge, states[charge.key][0], now), now)[1] for charge in charges]
    return tuple([CounterLevel(used=level.used, resets_in=level.resets_in) for level in levels])


def _plus(state: CounterState, name: str, amount: int) -> CounterState:
    return {**state, name: max(0, state.get(name, 0) + amount)}
