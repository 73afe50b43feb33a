"""What a worker of a gateway does before it answers others, while a client keeps it busy.

It is counted in CPU time of the worker, as on a usual processor: other programs on the machine can delay an answer, but
not make the worker work, and a slow processor needs more time for the same work.
A worker that waits (for a lock, for a file) does not work, so an answer has a generous limit of time, too.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.clock import slowness
from tests.support.gateway.live import Gateway

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MAX_WAIT = 5.0
"""Seconds until an answer comes, also on a busy machine."""


def cpu_seconds(gateway: Gateway) -> float:
    """CPU time of the first worker, of all its threads."""
    fields = Path(f"/proc/{gateway.processes()[1]}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(gateway: Gateway) -> int:
    """Bytes of the first worker's resident memory."""
    return int(Path(f"/proc/{gateway.processes()[1]}/statm").read_text(encoding="ascii").split()[1]) * PAGE


def stalls(gateway: Gateway, attack: Callable[[], object], /) -> list[float]:
    """Seconds that the worker works between a request of another client and its answer, until the attack has ended.

    Its processor may become slower or faster meanwhile, so the slowest moment counts.
    """
    slowest = slowness()
    waits: list[float] = []
    begun = threading.Event()

    def run() -> None:
        begun.set()
        attack()

    with ThreadPoolExecutor(1) as pool:
        attacking = pool.submit(run)
        begun.wait()
        while not (attacking.done() and waits):
            before, started = cpu_seconds(gateway), time.monotonic()
            assert gateway.get("/health/live")[0] == 200
            waits.append(cpu_seconds(gateway) - before)
            waited = time.monotonic() - started
            assert waited < MAX_WAIT, f"the worker answered after {waited:.1f} s"
        attacking.result()
    slowest = max(slowest, slowness())
    return [wait / slowest for wait in waits]
