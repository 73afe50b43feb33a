"""The health report: the gateway, its store, and each target that it has called."""

from collections.abc import Mapping
from time import monotonic
from typing import Literal, TypeAlias

from dragoman.engine.health import State, TargetHealth
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.accounting import name_for_logs
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.runtime import Runtime
from dragoman.types import JsonObject
from dragoman.wires.common.json import without_none

READY_TTL = 60.0

ReportedState: TypeAlias = State | Literal["disabled"]


async def health_report(runtime: Runtime, key: Key | None = None, /, *, in_flight: int) -> JsonObject:
    """The health of the gateway, its store and its targets. A client's key sees only the targets that it may use."""
    try:
        await check_store_writable(runtime)
        store = "ok"
    except StoreDown as error:
        store = error.message
    status = "ok" if store == "ok" else "degraded"
    targets = runtime.registry.health.snapshot()
    if key is None or key.may_view:
        return {"status": status, "in_flight": in_flight, "store": store, "targets": _as_json(targets)}
    usable = usable_by(runtime, key)
    return {"status": status, "targets": _as_json({name: targets[name] for name in targets if name in usable})}


async def check_store_writable(runtime: Runtime, /) -> None:
    """Raise StoreDown if the store cannot be written: a full disk can still be read."""
    await runtime.store.write("ready", b"", ttl=READY_TTL)


def usable_by(runtime: Runtime, key: Key, /) -> frozenset[str]:
    """The targets that a key may use, by their own name or through an alias or tier."""
    names = (model.id for model in runtime.catalog.models() if key.may_use(model.id))
    resolved = {target.name for name in names for target in runtime.catalog.find(name).targets}
    return frozenset({*resolved, *filter(key.may_use, runtime.registry.health.snapshot())})


def shown_state(health: TargetHealth, /) -> ReportedState:
    """The state that operators see: a cooldown that an operator started is `disabled`."""
    return "disabled" if health.is_disabled else health.state


def seconds_left(health: TargetHealth, /) -> float | None:
    """Seconds until a target may be called again."""
    if health.is_healthy or health.until is None:
        return None
    return round(max(0.0, health.until - monotonic()), 1)


def _as_json(targets: Mapping[str, TargetHealth]) -> JsonObject:
    return {
        name_for_logs(name): without_none(
            {
                "state": shown_state(health),
                "seconds_left": seconds_left(health),
                "reason": health.reason,
                "last_latency": health.last_latency,
            }
        )
        for name, health in sorted(targets.items())
    }
