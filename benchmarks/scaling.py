"""Several workers, and the stores that they share: `python -m benchmarks.scaling [--seconds 2] [--workers 1 2 4]`.

A gateway with a key that has limits gets requests on 64 connections. Shown are the requests per second, the CPU time of
all workers per request, and that of Redis. The load and the upstream use cores, too, so on a machine with few cores the
CPU time says more than the rate: its inverse is what one core can do.
"""

import argparse
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gateway.__main__ import upstream
from benchmarks.gateway.load import put_load
from benchmarks.gateway.process import cpu_of, free_port
from benchmarks.gateway.servers import SERVERS, Place
from benchmarks.table import Section, show, us
from dragoman.gateway.auth.api_keys import hash_key
from tests.support.gateway.live import Gateway
from tests.support.gateway.redis_server import RedisServer

CONNECTIONS = 64
KEY = "sk-dm-benchmark-key-with-many-characters"


@contextmanager
def _store(kind: str) -> Generator[tuple[str, int | None]]:
    """The setting of a store, and the id of its process."""
    if kind != "redis":
        yield kind, None
        return
    redis = RedisServer()
    redis.start()
    try:
        yield redis.url, redis.pid
    finally:
        redis.stop()


def _wait_for_workers(pid: int, workers: int) -> None:
    """Wait until all have started: the first one answers before the others do."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    used = 1.0
    while len(children.read_text(encoding="ascii").split()) < workers or used > 0.01:
        before = cpu_of(pid)
        time.sleep(0.3)
        used = cpu_of(pid) - before


def _row(kind: str, workers: int, port: int, seconds: float) -> tuple[str, ...]:
    with TemporaryDirectory() as folder, _store(kind) as (url, redis):
        place = Place(Path(folder), Path(folder), free_port(), port)
        command = SERVERS["dragoman"].command(place)
        config = "" if command is None else Path(command[-1]).read_text(encoding="utf-8").replace("[gateway]", "")
        settings = f'[gateway]\nstore = "{url}"\nlog = false\n'
        limits = "" if kind == "memory" and workers > 1 else "requests_per_minute = 100000000\n"
        keys = f'[keys.bench]\nhash = "{hash_key(KEY)}"\n{limits}'
        config = "\n".join(line for line in config.splitlines() if not line.startswith("port"))
        with Gateway(Path(folder), f"{settings}{keys}{config}", workers=workers) as gateway:
            pid = gateway.process.pid
            _wait_for_workers(pid, workers)
            request = SERVERS["dragoman"].request(gateway.port, port, "openai").replace(b"sk-1234", KEY.encode())
            put_load(gateway.port, request, connections=CONNECTIONS, seconds=0.5)
            before, redis_before = cpu_of(pid), 0.0 if redis is None else cpu_of(redis)
            load = put_load(gateway.port, request, connections=CONNECTIONS, seconds=seconds)
            answers = max(1, len(load.latencies))
            ours = (cpu_of(pid) - before) / answers
            its = 0.0 if redis is None else (cpu_of(redis) - redis_before) / answers
    return kind, str(workers), f"{load.rate:,.0f}", us(ours), us(its) if redis is not None else "", str(load.failed)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="benchmarks.scaling")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    with upstream() as port:
        rows = [
            _row(kind, count, port, arguments.seconds) for kind in ("memory", "redis") for count in arguments.workers
        ]
    heads = ("store", "workers", "requests/s", "CPU a request", "CPU of Redis", "failed")
    print(show([Section(f"{CONNECTIONS} connections, a key with a limit", heads, rows)]))


if __name__ == "__main__":
    main()
