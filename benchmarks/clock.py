"""A function in, its CPU time out: a median over several runs, so that a busy machine spoils little."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time


def seconds(work: Callable[[], object], /, *, runs: int = 5) -> float:
    """CPU seconds of one call."""
    work()
    return median(_once(work) for _ in range(runs))


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    start = process_time()
    work()
    return process_time() - start


def per_call(work: Callable[[], object], /, *, runs: int = 7, budget: float = 0.05) -> float:
    """CPU seconds of one call of something short: each run repeats it until the budget is used."""
    work()
    times = max(1, int(budget / max(_once(work), 1e-7)))

    def many() -> None:
        for _ in range(times):
            work()

    return median(_once(many) for _ in range(runs)) / times


# Linux hands the parent's ru_maxrss down to its children, so it is asked for the pages that are there now.
_PROBE = """
import os, sys, time
cpu = time.process_time()
try:
    with open("/proc/self/statm") as file:
        rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
except OSError:
    import resource
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(cpu, rss)
"""


def fresh(statements: list[str], /, *, runs: int = 9) -> list[tuple[float, float]]:
    """CPU seconds and resident bytes of fresh interpreters that run each of these statements, taken in turns."""
    seen: list[list[tuple[float, float]]] = [[] for _ in statements]
    with TemporaryDirectory() as cache:
        # As an installed package has it: there is byte code, whatever this environment says of writing it.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(runs + 1):
            for statement, told in zip(statements, seen, strict=True):
                code = [sys.executable, "-c", f"{statement}\n{_PROBE}"]
                done = subprocess.run(code, check=True, capture_output=True, text=True, env=env)
                words = done.stdout.split()
                told.append((float(words[0]), float(words[1])))
    # The first round writes byte code.
    return [(median(cpu for cpu, _ in told[1:]), median(rss for _, rss in told[1:])) for told in seen]
