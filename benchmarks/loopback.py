"""Time of a call and a stream over a loopback connection, compared with other libraries."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.client import PEERS
from benchmarks.table import ABSENT, Section, times, us

ROUNDS = 2
"""The peers take turns, so that a busy minute of the machine affects all of them."""


class Work(NamedTuple):
    """One kind of work: its title, its path at the upstream, the calls of a run, and the number of runs."""

    title: str
    kind: str
    path: str
    each: int
    runs: int
    clock: str = "cpu"


WORKS = (
    Work("call", "call", "v1", 250, 12),
    Work("call, wall", "call", "v1", 250, 12, "wall"),
    Work("call, 64 at once", "acall", "v1", 512, 8),
    Work("stream, at once", "stream", "burst", 40, 8),
    Work("stream, 64 at once", "astream", "burst", 128, 5),
    Work("stream, apart", "stream", "apart", 20, 8),
    Work("stream, apart, 64", "astream", "apart", 128, 5),
    Work("stream, drop by drop", "stream", "drip", 4, 3),
)


def loopback() -> Section:
    """CPU time of one call and of one stream of 200 chunks, with all threads, and the ratio to ours.

    The wall time of a call is there, too: a client may use little CPU and still wait for a thread of its own.
    """
    with _upstream() as url:
        results = [_measure(work, url) for work in WORKS]
    rows = [(name, *(_cell(name, result) for result in results)) for name in PEERS]
    heads = ("", *(work.title for work in WORKS))
    return Section("(f) a call, and a stream of 200 chunks, over loopback: CPU time, and how often ours", heads, rows)


def _cell(name: str, result: dict[str, float | None]) -> str:
    took, ours = result[name], result["dragoman"]
    return ABSENT if took is None or ours is None else f"{us(took)} {times(took / ours):>6}"


def _measure(work: Work, url: str) -> dict[str, float | None]:
    rounds = [{name: _once(name, work, url) for name in PEERS} for _ in range(ROUNDS)]
    return {
        name: min((took for result in rounds if (took := result[name]) is not None), default=None) for name in PEERS
    }


def _once(name: str, work: Work, url: str) -> float | None:
    python = os.environ.get(f"PYTHON_{name.upper()}", sys.executable)
    arguments = [name, work.kind, work.clock, f"{url}/{work.path}", str(work.each), str(work.runs)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [python, "-m", "benchmarks.client", *arguments], capture_output=True, text=True, check=False, env=env
    )
    if "ModuleNotFoundError" in done.stderr:
        return None
    done.check_returncode()
    return float(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _upstream() -> Generator[str]:
    command = [sys.executable, "-m", "benchmarks.upstream"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the upstream printed no port")
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.communicate()
