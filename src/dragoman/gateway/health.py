"""A set-up in, what an operator asks about it out."""

from dragoman.gateway.setup import Setup
from dragoman.types import JsonObject
from dragoman.wire import without_none


def report(setup: Setup, /, *, under_way: int, now: float) -> JsonObject:
    """How the gateway and each target that was asked so far are.

    >>> from dragoman.gateway.config import Config
    >>> report(Setup(Config(), {}), under_way=0, now=0.0)
    {'status': 'ok', 'requests': 0, 'targets': {}}
    """
    targets = {
        name: without_none(
            {
                "state": condition.state,
                "seconds_left": None if condition.until is None else round(max(0.0, condition.until - now), 1),
                "reason": condition.reason,
                "last_latency": condition.last_latency,
            }
        )
        for name, condition in sorted(setup.registry.health.snapshot().items())
    }
    return {"status": "ok", "requests": under_way, "targets": targets}
