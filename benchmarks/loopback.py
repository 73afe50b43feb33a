"""What a call and a stream cost over a loopback connection, beside what others need for the same."""

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
"""The peers take turns, so that a busy minute of the machine is borne by all of them."""


class Work(NamedTuple):
    """What is done: how it is called, at which path of the upstream, how often in a run, and in how many runs."""

    title: str
    kind: str
    path: str
    each: int
    runs: int


WORKS = (
    Work("call", "call", "v1", 250, 12),
    Work("call, 64 at once", "acall", "v1", 512, 8),
    Work("stream, at once", "stream", "burst", 40, 8),
    Work("stream, 64 at once", "astream", "burst", 128, 5),
    Work("stream, drop by drop", "stream", "drip", 4, 3),
)


def loopback() -> Section:
    """CPU time of one call and of one stream of 200 chunks, all threads counted, and its ratio to ours."""
    with _upstream() as url:
        told = [_measured(work, url) for work in WORKS]
    rows = [(name, *(_cell(name, times_of) for times_of in told)) for name in PEERS]
    heads = ("", *(work.title for work in WORKS))
    return Section("(f) a call, and a stream of 200 chunks, over loopback: CPU time, and how often ours", heads, rows)


def _cell(name: str, told: dict[str, float | None]) -> str:
    took, ours = told[name], told["dragoman"]
    return ABSENT if took is None or ours is None else f"{us(took)} {times(took / ours):>6}"


def _measured(work: Work, url: str) -> dict[str, float | None]:
    rounds = [{name: _once(name, work, url) for name in PEERS} for _ in range(ROUNDS)]
    return {name: min((took for told in rounds if (took := told[name]) is not None), default=None) for name in PEERS}


def _once(name: str, work: Work, url: str) -> float | None:
    python = os.environ.get(f"PYTHON_{name.upper()}", sys.executable)
    asked = [python, "-m", "benchmarks.client", name, work.kind, f"{url}/{work.path}", str(work.each), str(work.runs)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=env)
    if "ModuleNotFoundError" in done.stderr:
        return None
    done.check_returncode()
    return float(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _upstream() -> Generator[str]:
    asked = [sys.executable, "-m", "benchmarks.upstream"]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the upstream tells no port")
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.communicate()
