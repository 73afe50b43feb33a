"""Measure every server in turn, and print the tables: `python -m benchmarks.gateway [--peers FOLDER] [--only NAME]`."""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.gateway.measure import Seen, measure
from benchmarks.gateway.process import LOAD_CORE
from benchmarks.gateway.servers import SERVERS
from benchmarks.gateway.tables import sections
from benchmarks.table import show


def main() -> None:
    """Facts of the machine, then the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.gateway")
    parser.add_argument("--peers", type=Path, default=Path.home() / ".cache" / "dragoman-bench")
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    told = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    os.sched_setaffinity(0, {LOAD_CORE})
    with _upstream() as upstream:
        seen = _rounds(told.only, told.peers, upstream, rounds=told.rounds, seconds=told.seconds)
    print(show(sections(seen)))


def _rounds(
    names: Sequence[str], peers: Path, upstream: int, *, rounds: int, seconds: float
) -> dict[str, list[Seen | None]]:
    """The servers take turns, so that a busy minute of the machine is borne by all of them."""
    seen: dict[str, list[Seen | None]] = {name: [] for name in ("direct", *names)}
    for _ in range(rounds):
        for name, told in seen.items():
            told.append(measure(SERVERS.get(name), peers, upstream, seconds))
            print(".", end="", file=sys.stderr, flush=True)
    return seen


@contextmanager
def _upstream() -> Generator[int]:
    asked = [sys.executable, "-m", "benchmarks.gateway.upstream"]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the upstream tells no port")
        yield int(server.stdout.readline())
        server.communicate()


if __name__ == "__main__":
    main()
