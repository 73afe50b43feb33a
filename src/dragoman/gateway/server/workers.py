"""The metrics of all worker processes, exchanged through the store: Prometheus scrapes only one of them."""

import os
import socket
import time
from collections.abc import Callable

import msgspec

from dragoman.errors import StoreDown
from dragoman.gateway.observability.metrics import Lines
from dragoman.gateway.store import Store

INTERVAL = 5.0
"""Seconds between two reports of a worker that is not scraped."""
TTL = 30.0
"""Seconds after its last report until a worker counts as stopped."""
MAX_SWAPS = 50


class WorkerReport(msgspec.Struct, frozen=True, rename={"reported_at": "moment"}):
    """The metrics of one worker, and when it reported them."""

    reported_at: float
    lines: Lines


class Workers:
    """The workers of one gateway: the processes with the same parent."""

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
        self._reported_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next report."""
        return self._clock() >= self._reported_at + INTERVAL

    async def sync(self, lines: Lines, /) -> dict[str, Lines]:
        """Report the metrics of this worker; returns those of all workers, by name."""
        now = self._clock()
        for _ in range(MAX_SWAPS):
            entry = await self._store.read(self._key)
            reports = {} if entry is None else _decode(entry.value)
            reports = {name: report for name, report in reports.items() if report.reported_at > now - TTL}
            reports[self.name] = WorkerReport(now, lines)
            version = None if entry is None else entry.version
            if await self._store.write(self._key, msgspec.json.encode(reports), ttl=2 * TTL, expects=version):
                self._reported_at = now
                return {name: report.lines for name, report in sorted(reports.items())}
        raise StoreDown(f"workers: metrics not written, {MAX_SWAPS} other workers wrote first")


_decode = msgspec.json.Decoder(dict[str, WorkerReport]).decode
