"""Benches of this gateway in, those of the others out: health that is shared, and asked for by no request.

What requests read is local. Once a second, what was benched or put back here is written to one small entry of the
store, and what others wrote there is taken over.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from dragoman.engine.health import LocalHealthStore, TargetHealth
from dragoman.errors import StoreDown
from dragoman.gateway.store import Store

ENTRY = "health"
MAX_SWAPS = 20
TTL = 3600.0


class SharedCooldown(msgspec.Struct, frozen=True, kw_only=True):
    """A target that somebody benched. Its end is a moment of the epoch: other clocks are each gateway's own.

    >>> SharedCooldown(until=1_794_900_000.0, cooldowns=1, reason="Overloaded: busy").cooldowns
    1
    """

    until: float
    cooldowns: int
    reason: str | None = None
    by_operator: bool = False


class SharedHealthStore:
    """Conditions of this process that hear of the benches of others, at each `exchange`.

    >>> from dragoman.gateway.store import open_store
    >>> from dragoman.engine.health import Health
    >>> Health(conditions=SharedHealthStore(open_store("memory"))).condition("aa/m").state
    'healthy'
    """

    def __init__(
        self,
        store: Store,
        /,
        *,
        lock: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall = wall
        self._memory = LocalHealthStore(lock)
        self._changed: set[str] = set()
        self._adopted: dict[str, TargetHealth] = {}
        self._version: str | None = None

    def read(self, target: str, /) -> TargetHealth:
        """The condition of a target."""
        return self._memory.read(target)

    def swap(self, target: str, old: TargetHealth, new: TargetHealth, /) -> bool:
        """Put `new` in the place of `old`; others hear of it where it is a bench, or the end of one.

        Of an error only its kind is kept: what a provider says may quote what it was asked, and others would read it.
        """
        if new.last_error != old.last_error or new.reason != old.reason:
            new = msgspec.structs.replace(new, reason=_kind(new.reason), last_error=_kind(new.last_error))
        done = self._memory.swap(target, old, new)
        if done and (old.state, old.until) != (new.state, new.until):
            self._changed.add(target)
        return done

    def all(self) -> dict[str, TargetHealth]:
        """All of them."""
        return self._memory.all()

    async def sync(self) -> None:
        """Tell what is new here, and take over what is new elsewhere."""
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(ENTRY)
            version = None if entry is None else entry.version
            if version == self._version and not self._changed:
                return
            board = {} if entry is None else _decode(entry.value)
            self._adopt(board)
            self._version = version
            changed = frozenset(self._changed)
            if not changed or await self._publish(board, changed, version):
                self._changed -= changed
                return
        raise StoreDown(f"health: {MAX_SWAPS} others wrote first")

    def _adopt(self, board: dict[str, SharedCooldown]) -> None:
        now, wall = self._clock(), self._wall()
        for target, notice in board.items():
            if target in self._changed or notice.until <= wall:
                continue
            old, until = self._memory.read(target), notice.until - wall + now
            if old.state == "probing" or (old.until is not None and not old.is_healthy and old.until >= until - 0.5):
                continue
            reason = notice.reason
            new = TargetHealth(
                state="cooldown",
                cooldowns=notice.cooldowns,
                until=until,
                reason=reason,
                by_operator=notice.by_operator,
                last_error=reason,
                last_latency=old.last_latency,
            )
            if self._memory.swap(target, old, new):
                self._adopted[target] = new
        for target in self._adopted.keys() - board.keys():
            adopted = self._adopted.pop(target)
            # A bench that has ended is no proof that the target is well: the next request will probe it.
            if adopted.until is not None and adopted.until > now:
                self._memory.swap(target, adopted, TargetHealth(last_latency=adopted.last_latency))

    async def _publish(self, board: dict[str, SharedCooldown], changed: frozenset[str], version: str | None) -> bool:
        now, wall = self._clock(), self._wall()
        fresh = {target: notice for target, notice in board.items() if notice.until > wall}
        for target in changed:
            condition = self._memory.read(target)
            if condition.is_healthy:
                fresh.pop(target, None)
            elif condition.until is not None and condition.until > now:
                until = condition.until - now + wall
                fresh[target] = SharedCooldown(
                    until=until,
                    cooldowns=condition.cooldowns,
                    reason=condition.reason,
                    by_operator=condition.by_operator,
                )
        if fresh == board:
            return True
        written = await self._store.write(ENTRY, msgspec.json.encode(fresh), ttl=TTL, expects=version)
        if written is not None:
            self._version = written
            # Whoever takes a notice off the board puts the target back, also here.
            self._adopted |= {target: self._memory.read(target) for target in changed & fresh.keys()}
        return written is not None


def _kind(error: str | None) -> str | None:
    return None if error is None else error.partition(":")[0]


_decode = msgspec.json.Decoder(dict[str, SharedCooldown]).decode
