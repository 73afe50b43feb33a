"""The limits of deployments, counted in the store for all workers and gateways that share it.

A request to a deployment with limits reserves its slot before it is sent, in one round trip to the store. The slot is
given back in the background, so that the answer does not wait for it. Deployments without limits do not use the store.
"""

from secrets import token_hex

from dragoman.engine.target_load import SLOT_CHECK, LimitState, SharedSlot
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.quotas import MINUTE, SLOT_TTL, Limit, OverLimit, QuotaReservation, Quotas
from dragoman.gateway.store.base import ConcurrencySlot, CounterLevel, WindowCounter
from dragoman.targets.target import Target

DOWN_WAIT = 1.0
"""Seconds until the next try, if limits must be enforced and the store is down."""


class StoredDeploymentLimits:
    """Enforces the limits of deployments with counters in a store."""

    def __init__(self, quotas: Quotas, /) -> None:
        self._quotas = quotas

    async def claim(self, target: Target, tokens: int, /) -> SharedSlot | LimitState | None:
        """Room for a request, or the limit that has none.

        If the store is down, each process counts for itself (None), or nothing is sent: as `rates_when_down` says.
        """
        try:
            reservation = await self._quotas.reserve_limits(_limits(target, tokens))
        except OverLimit as error:
            return max((_state(*each) for each in error.full), key=lambda state: state.wait)
        except StoreDown:
            return LimitState(DOWN_WAIT, "its limits cannot be read, because the store is down")
        return _StoredSlot(self._quotas, reservation) if reservation.reserved else None


class _StoredSlot:
    """The reservations of one request."""

    def __init__(self, quotas: Quotas, reservation: QuotaReservation) -> None:
        self._quotas = quotas
        self._reservation = reservation

    def end(self, tokens: int | None, /) -> None:
        """Give back what the request did not use."""
        self._quotas.finish_soon(self._reservation, tokens=tokens)


def _limits(target: Target, tokens: int) -> tuple[Limit, ...]:
    own = target.deployment_limits
    limits: list[Limit] = []
    if own is None:
        return ()
    holder, name = f"target {target.name}", f"deployment/{target.name}"  # no key or team has a counter of this name
    if own.requests_per_minute is not None:
        requests = WindowCounter(key=f"{name}:requests", amount=1, limit=own.requests_per_minute, period=MINUTE)
        limits.append(Limit(holder, "", "requests", "minute", requests))
    if own.tokens_per_minute is not None:
        most = own.tokens_per_minute  # a longer prompt may be sent if nothing else was
        window = WindowCounter(key=f"{name}:tokens", amount=max(1, min(tokens, most)), limit=most, period=MINUTE)
        limits.append(Limit(holder, "", "tokens", "minute", window))
    if own.concurrent is not None:
        slot = ConcurrencySlot(key=f"{name}:concurrent", id=token_hex(8), limit=own.concurrent, ttl=SLOT_TTL)
        limits.append(Limit(holder, "", "slots", None, slot))
    return tuple(limits)


def _state(limit: Limit, level: CounterLevel) -> LimitState:
    most, wait = limit.charge.limit, level.wait or SLOT_CHECK
    if limit.unit == "slots":
        return LimitState(SLOT_CHECK, f"it has {most} requests in progress, which is its limit")
    return LimitState(wait, f"its limit of {most} {limit.unit} per minute is used up for {wait:.1f} s more")
