"""A set-up in, what an operator asks about it out."""

from time import monotonic

from dragoman.errors import StoreDown
from dragoman.gateway.books import named
from dragoman.gateway.setup import Setup
from dragoman.types import JsonObject
from dragoman.wire import without_none


async def report(setup: Setup, /, *, under_way: int) -> JsonObject:
    """How the gateway, its store and each target that was asked so far are.

    >>> import asyncio
    >>> from dragoman.gateway.config import Config
    >>> asyncio.run(report(Setup(Config(), {}), under_way=0))
    {'status': 'ok', 'requests': 0, 'store': 'ok', 'targets': {}}
    """
    now = monotonic()
    targets = {
        named(name): without_none(
            {
                "state": condition.state,
                "seconds_left": None if condition.until is None else round(max(0.0, condition.until - now), 1),
                "reason": condition.reason,
                "last_latency": condition.last_latency,
            }
        )
        for name, condition in sorted(setup.registry.health.snapshot().items())
    }
    try:
        await setup.store.read("ready")
        store = "ok"
    except StoreDown as error:
        store = error.message
    status = "ok" if store == "ok" else "degraded"
    return {"status": status, "requests": under_way, "store": store, "targets": targets}
