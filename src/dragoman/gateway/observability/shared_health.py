"""The health of targets, shared between gateways through the store.

Requests read and write the local health only. Once a second, `sync` writes cooldowns that started or ended here to one
small value in the store, and adopts those of other gateways.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from dragoman.engine.health import LocalHealthStore, TargetHealth
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.usage import error_type
from dragoman.gateway.store import Store

KEY = "health"
MAX_SWAPS = 20
TTL = 3600.0
CLOCK_TOLERANCE = 0.5
"""Seconds by which two cooldowns must differ to be different."""


class SharedCooldown(msgspec.Struct, frozen=True, kw_only=True, rename={"cooldowns": "benches"}):
    """The cooldown of a target in the store. Version 0.1 wrote `cooldowns` as `benches`."""

    until: float
    """In seconds since the epoch: the monotonic clocks of gateways differ."""
    cooldowns: int
    reason: str | None = None
    by_operator: bool = False


class SharedHealthStore:
    """A local health store that exchanges cooldowns with other gateways at each `sync`."""

    def __init__(
        self,
        store: Store,
        /,
        *,
        lock: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall_clock = wall_clock
        self._local = LocalHealthStore(lock)
        self.read = self._local.read
        self._changed: set[str] = set()
        self._adopted: dict[str, TargetHealth] = {}
        self._version: str | None = None

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        """Replace `old` by `new`. The start and the end of a cooldown are shared at the next `sync`.

        Only the type of an error is kept: its message may quote a prompt, and other gateways would read it.
        """
        if new.last_error != old.last_error or new.reason != old.reason:
            new = msgspec.structs.replace(new, reason=error_type(new.reason), last_error=error_type(new.last_error))
        swapped = self._local.swap(target, old, new)
        if swapped and (old.state, old.until) != (new.state, new.until):
            self._changed.add(target)
        return swapped

    def all(self) -> dict[str, TargetHealth]:
        return self._local.all()

    async def sync(self) -> None:
        """Publish local changes, and adopt those of other gateways."""
        for _ in range(MAX_SWAPS):
            stored = await self._store.read(KEY)
            version = None if stored is None else stored.version
            if version == self._version and not self._changed:
                return
            shared = {} if stored is None else _decode(stored.value)
            self._adopt(shared)
            self._version = version
            changed = frozenset(self._changed)
            if not changed or await self._publish(shared, changed, version):
                self._changed -= changed
                return
        raise StoreDown(f"health: {MAX_SWAPS} writes in a row were overtaken by other gateways")

    def _adopt(self, shared: dict[str, SharedCooldown]) -> None:
        now, wall_clock = self._clock(), self._wall_clock()
        for target, cooldown in shared.items():
            if target in self._changed or cooldown.until <= wall_clock:
                continue
            old, until = self._local.read(target), cooldown.until - wall_clock + now
            is_longer = old.until is not None and not old.is_healthy and old.until >= until - CLOCK_TOLERANCE
            if old.state == "trial" or is_longer:
                continue
            new = TargetHealth(
                state="cooldown",
                cooldowns=cooldown.cooldowns,
                until=until,
                reason=cooldown.reason,
                by_operator=cooldown.by_operator,
                last_error=cooldown.reason,
                last_latency=old.last_latency,
            )
            if self._local.swap(target, old, new):
                self._adopted[target] = new
        for target in self._adopted.keys() - shared.keys():
            adopted = self._adopted.pop(target)
            # If the cooldown is over anyway, the target is not known to be healthy: the next request tries it.
            if adopted.until is not None and adopted.until > now:
                self._local.swap(target, adopted, TargetHealth(last_latency=adopted.last_latency))

    async def _publish(self, shared: dict[str, SharedCooldown], changed: frozenset[str], version: str | None) -> bool:
        now, wall_clock = self._clock(), self._wall_clock()
        updated = {target: cooldown for target, cooldown in shared.items() if cooldown.until > wall_clock}
        for target in changed:
            health = self._local.read(target)
            if health.is_healthy:
                updated.pop(target, None)
            elif health.until is not None and health.until > now:
                updated[target] = SharedCooldown(
                    until=health.until - now + wall_clock,
                    cooldowns=health.cooldowns,
                    reason=health.reason,
                    by_operator=health.by_operator,
                )
        if updated == shared:
            return True
        written = await self._store.write(KEY, msgspec.json.encode(updated), ttl=TTL, expects=version)
        if written is not None:
            self._version = written
            # If another gateway removes one of these cooldowns, it ends here too.
            self._adopted |= {target: self._local.read(target) for target in changed & updated.keys()}
        return written is not None


_decode = msgspec.json.Decoder(dict[str, SharedCooldown]).decode
