"""The CPU time of a function: the median of several runs, because the machine may be busy."""

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
    """CPU seconds of one short call: each run repeats it until the budget is used."""
    work()
    times = max(1, int(budget / max(_once(work), 1e-7)))

    def many() -> None:
        for _ in range(times):
            work()

    return median(_once(many) for _ in range(runs)) / times


# On Linux a child inherits the ru_maxrss of its parent, so this reads the current number of pages.
_REPORT = """
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
    """CPU seconds and resident bytes of new interpreters that run each statement; the statements take turns."""
    results: list[list[tuple[float, float]]] = [[] for _ in statements]
    with TemporaryDirectory() as cache:
        # Byte code is written, as for an installed package, even if this environment forbids it.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(runs + 1):
            for statement, runs_of_one in zip(statements, results, strict=True):
                code = [sys.executable, "-c", f"{statement}\n{_REPORT}"]
                done = subprocess.run(code, check=True, capture_output=True, text=True, env=env)
                cpu, rss = done.stdout.split()
                runs_of_one.append((float(cpu), float(rss)))
    # The first round writes byte code.
    return [(median(cpu for cpu, _ in one[1:]), median(rss for _, rss in one[1:])) for one in results]
