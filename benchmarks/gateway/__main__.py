"""Measure each server and print the tables: `python -m benchmarks.gateway [--peers FOLDER] [--only NAME]`."""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.gateway.measure import ServerResult, measure
from benchmarks.gateway.process import LOAD_CORE
from benchmarks.gateway.servers import SERVERS
from benchmarks.gateway.tables import sections
from benchmarks.table import show


def main() -> None:
    """Print the machine, then the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.gateway")
    parser.add_argument("--peers", type=Path, default=Path.home() / ".cache" / "dragoman-bench")
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    os.sched_setaffinity(0, {LOAD_CORE})
    with upstream() as port:
        results = _rounds(arguments.only, arguments.peers, port, rounds=arguments.rounds, seconds=arguments.seconds)
    print(show(sections(results)))


def _rounds(
    names: Sequence[str], peers: Path, upstream: int, *, rounds: int, seconds: float
) -> dict[str, list[ServerResult | None]]:
    """The servers take turns, so that a busy minute of the machine affects all of them."""
    results: dict[str, list[ServerResult | None]] = {name: [] for name in ("direct", *names)}
    for _ in range(rounds):
        for name, results_of_one in results.items():
            results_of_one.append(measure(SERVERS.get(name), peers, upstream, seconds))
            print(".", end="", file=sys.stderr, flush=True)
    return results


@contextmanager
def upstream() -> Generator[int]:
    """The port of an upstream in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gateway.upstream"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the upstream printed no port")
        yield int(server.stdout.readline())
        server.communicate()


if __name__ == "__main__":
    main()
