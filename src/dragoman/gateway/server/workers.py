"""The metrics of all worker processes, exchanged through the store: Prometheus scrapes only one of them."""

import os
import socket
import time
from collections.abc import Callable

import msgspec

from dragoman.gateway.observability.metrics import Lines
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import change_value

INTERVAL = 5.0
"""Seconds between two reports of a worker that is not scraped."""
TTL = 30.0
"""Seconds after its last report until a worker counts as stopped."""


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

        def add_report(reports: dict[str, WorkerReport] | None) -> dict[str, WorkerReport]:
            running = {name: each for name, each in (reports or {}).items() if each.reported_at > now - TTL}
            return {**running, self.name: WorkerReport(now, lines)}

        reports = await change_value(self._store, self._key, _decode, add_report, name="metrics", ttl=2 * TTL)
        self._reported_at = now
        return {name: report.lines for name, report in sorted(reports.items())}


_decode = msgspec.json.Decoder(dict[str, WorkerReport]).decode
