"""Time as tests take it: what a busy machine adds is measured, and does not count."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

TRIES = 10
STEPS = 200_000
USUAL_STEP = 0.07e-6
"""CPU seconds of a step of `slowness` on a usual processor."""


def slowness() -> float:
    """How many times as long as usual this processor needs for the same work now; 1 if it is not slower.

    A processor that is shared with other machines, or has little power, needs several times the CPU time. Limits that
    are near what the work takes are multiplied by this, so that they still show work that grew ten times.
    """
    best = float("inf")
    for _ in range(3):
        started, total = time.process_time(), 0
        for number in range(STEPS):
            total += number
        best = min(best, time.process_time() - started)
    return max(1.0, best / STEPS / USUAL_STEP)


class Moment(NamedTuple):
    """A moment, and how long some processes had waited for a processor until then."""

    at: float
    waited: float
    processes: tuple[int, ...]

    def until(self, later: float, /) -> float:
        """Seconds until a later moment, without those in which a thread was ready and got no processor."""
        return later - self.at - max(0.0, _waited(self.processes) - self.waited)  # it is less if a thread has ended


def moment(*processes: int) -> Moment:
    """This moment, for this process and others."""
    processes = (os.getpid(), *processes)
    waited = _waited(processes)
    return Moment(time.monotonic(), waited, processes)


def _waited(processes: tuple[int, ...]) -> float:
    """Seconds that the threads of processes stood in the queue for a processor; 0 where the system does not say."""
    total = 0
    for process in processes:
        for file in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):  # the thread has just ended
                total += int(file.read_text(encoding="ascii").split()[1])
    return total / 1e9


def soonest(work: Callable[[], object], error: type[BaseException], *, most: float) -> float:
    """Seconds until the error comes, the best of some tries: late every time is our fault."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.monotonic()
        with pytest.raises(error):
            work()
        best = min(best, time.monotonic() - began)
        if best <= most:
            break
    return best
