"""A set-up and who asks in, how the gateway and its targets are out."""

from collections.abc import Mapping
from time import monotonic

from dragoman.engine.health import TargetHealth
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.accounting import redact_name
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.runtime import Runtime
from dragoman.types import JsonObject
from dragoman.wires.common.json import without_none


async def report(runtime: Runtime, key: Key | None = None, /, *, in_flight: int) -> JsonObject:
    """How the gateway, its store and each target that was asked so far are; a client's key sees only what it may use.

    >>> import asyncio
    >>> from dragoman.gateway.config import Config
    >>> asyncio.run(report(Runtime(Config(), {}), in_flight=0))
    {'status': 'ok', 'requests': 0, 'store': 'ok', 'targets': {}}
    """
    try:
        await runtime.store.read("ready")
        store = "ok"
    except StoreDown as error:
        store = error.message
    status = "ok" if store == "ok" else "degraded"
    targets = runtime.registry.health.snapshot()
    if key is None or key.admin:
        return {"status": status, "requests": in_flight, "store": store, "targets": _told(targets)}
    usable = usable_by(runtime, key)
    return {"status": status, "targets": _told({name: targets[name] for name in targets if name in usable})}


def usable_by(runtime: Runtime, key: Key, /) -> frozenset[str]:
    """The targets that a key may use: by their own names, or by names that stand for them.

    >>> from dragoman.gateway.config import decode_config
    >>> runtime = Runtime(decode_config('[aliases]\\nfast = "demo/any"'), {})
    >>> usable_by(runtime, Key(id="team", hash="b2:0:0:0", models=("fast",)))
    frozenset({'demo/any'})
    """
    names = (model.id for model in runtime.catalog.models() if key.may_use(model.id))
    behind = {target.name for name in names for target in runtime.catalog.find(name).targets}
    return frozenset({*behind, *filter(key.may_use, runtime.registry.health.snapshot())})


def _told(targets: Mapping[str, TargetHealth]) -> JsonObject:
    now = monotonic()
    return {
        redact_name(name): without_none(
            {
                "state": condition.state,
                "seconds_left": None if condition.until is None else round(max(0.0, condition.until - now), 1),
                "reason": condition.reason,
                "last_latency": condition.last_latency,
            }
        )
        for name, condition in sorted(targets.items())
    }
