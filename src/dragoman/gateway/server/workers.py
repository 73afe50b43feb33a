"""What one worker of a gateway counted in, what all of them counted out: Prometheus asks only one of them."""

import os
import socket
import time
from collections.abc import Callable

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.observability.metrics import Lines
from dragoman.gateway.store import Store

INTERVAL = 5.0
"""Seconds between two tellings of a worker that nobody asks."""
TTL = 30.0
"""Seconds after which a worker that says nothing is gone."""
MAX_SWAPS = 50


class WorkerReport(msgspec.Struct, frozen=True):
    """What a worker counted, and when it said so.

    >>> WorkerReport(0.0, {}).moment
    0.0
    """

    moment: float
    lines: Lines


class Workers:
    """The workers of one gateway: the processes with the same parent.

    >>> from dragoman.gateway.store import open_store
    >>> Workers(open_store("memory"), name="1").is_due
    True
    """

    def __init__(
        self,
        store: Store,
        /,
        *,
        name: str | None = None,
        gateway: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name or str(os.getpid())
        self._key = f"workers:{gateway or f'{socket.gethostname()}:{os.getppid()}'}"
        self._store = store
        self._clock = clock
        self._told_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether it is time to tell again."""
        return self._clock() >= self._told_at + INTERVAL

    async def exchange(self, lines: Lines, /) -> dict[str, Lines]:
        """Tell what this one counted; what each of them did, by name."""
        now = self._clock()
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(self._key)
            told = {} if entry is None else _decode(entry.value)
            told = {name: each for name, each in told.items() if each.moment > now - TTL}
            told[self.name] = WorkerReport(now, lines)
            expects = None if entry is None else entry.version
            if await self._store.write(self._key, msgspec.json.encode(told), ttl=2 * TTL, expects=expects):
                self._told_at = now
                return {name: each.lines for name, each in sorted(told.items())}
        raise StoreDown(f"workers: {MAX_SWAPS} others wrote first")


_decode = msgspec.json.Decoder(dict[str, WorkerReport]).decode
