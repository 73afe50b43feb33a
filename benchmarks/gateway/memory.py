"""Memory of the gateway over many requests: `python -m benchmarks.gateway.memory [REQUESTS]`.

64 clients send requests without a pause. The memory is printed after each tenth of them.
"""

import os
import sys
from pathlib import Path

from benchmarks.gateway.__main__ import upstream
from benchmarks.gateway.load import put_load
from benchmarks.gateway.process import LOAD_CORE, running
from benchmarks.gateway.servers import SERVERS
from benchmarks.table import mb

CONNECTIONS = 64
SLICE = 2.0
"""Seconds of load between two counts of the answers."""


def main(requests: int) -> None:
    """Print the memory after each tenth of the requests."""
    os.sched_setaffinity(0, {LOAD_CORE})
    server = SERVERS["dragoman"]
    with upstream() as port, running(server, Path(), port) as process:
        if process is None:
            raise RuntimeError("dragoman is not installed")
        request = server.request(process.port, port, "openai")
        answered = failed = 0
        print(f"{answered:>9,} requests: {mb(process.memory())}", flush=True)
        for part in range(1, 11):
            while answered < requests * part // 10:
                load = put_load(process.port, request, connections=CONNECTIONS, seconds=SLICE)
                answered, failed = answered + len(load.latencies), failed + load.failed
            print(f"{answered:>9,} requests: {mb(process.memory())}", flush=True)
        print(f"{failed} without an answer")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
