"""A server's command in, the running server out: pinned to a core, its CPU time and memory told, stopped by its id."""

import os
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.gateway.load import ask_once
from benchmarks.gateway.servers import PORT, Place, Server

UP_WITHIN = 90.0
"""Seconds after which a server that does not answer is given up."""
DOWN_WITHIN = 10.0
REST_WITHIN = 30.0
RESTS = 0.05
"""CPU seconds in 0.2 s that are rest."""
_TICK = os.sysconf("SC_CLK_TCK")
_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = _CORES[0], _CORES[-1]


class JobGroup(NamedTuple):
    """A server that answers."""

    process: "subprocess.Popen[bytes]"
    port: int
    took: float
    """Seconds from its start to its first answer."""

    def cpu(self) -> float:
        """CPU seconds that it and its children have used."""
        return sum(_ticks(process) for process in _family(self.process.pid)) / _TICK

    def settle(self) -> None:
        """Wait until it rests: some go on answering clients that have left."""
        ends = time.perf_counter() + REST_WITHIN
        used = float("inf")
        while used > RESTS and time.perf_counter() < ends:
            before = self.cpu()
            time.sleep(0.2)
            used = self.cpu() - before

    def memory(self, field: str = "VmRSS") -> float:
        """Bytes that it and its children hold; VmHWM is the most that each has held."""
        return sum(_kilobytes(process, field) for process in _family(self.process.pid)) * 1024


@contextmanager
def running(server: Server, peers: Path, upstream: int) -> Generator[JobGroup | None]:
    """The server, once it answers; None where it is not installed."""
    with TemporaryDirectory() as folder:
        place = Place(Path(folder), peers, free_port(), upstream)
        command = server.command(place)
        if command is None:
            yield None
            return
        # As an installed package has it: there is byte code, whatever this environment says of writing it.
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **server.env}
        began = time.perf_counter()
        pinned = ["taskset", "-c", str(SERVER_CORE), *command]
        with (
            (Path(folder) / "log").open("wb") as log,
            subprocess.Popen(pinned, stdout=log, stderr=log, env=env) as process,
        ):
            try:
                port = _await_answer(server, place, process)
                took = time.perf_counter() - began
                _check_streams(server, port, upstream)
                yield JobGroup(process, port, took)
            finally:
                _stop(process)


def _await_answer(server: Server, place: Place, process: "subprocess.Popen[bytes]") -> int:
    ends = time.perf_counter() + UP_WITHIN
    chosen = place.folder / PORT
    while time.perf_counter() < ends and process.poll() is None:
        port = int(chosen.read_text() or 0) if chosen.exists() else place.port
        try:
            _check(ask_once(port, server.request(port, place.upstream, server.wires[0])), b"tide")
        except OSError:
            time.sleep(0.005)
            continue
        return port
    raise RuntimeError(f"it does not answer: {(place.folder / 'log').read_text(errors='replace')[-2000:]}")


def _check_streams(server: Server, port: int, upstream: int) -> None:
    for wire in server.wires:
        _check(ask_once(port, server.request(port, upstream, wire, stream=True)), b"word199")


def _check(answer: bytes, word: bytes) -> None:
    if word not in answer:
        raise RuntimeError(f"no such answer was expected: {answer[:2000]!r}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    family = list(_family(process.pid))
    process.terminate()
    try:
        process.wait(DOWN_WITHIN)
    except subprocess.TimeoutExpired:
        for number in family:
            if Path(f"/proc/{number}").exists():
                os.kill(number, 9)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# ── /proc ───────────────────────────────────────────────────────────────────


def _family(number: int) -> Iterator[int]:
    """A process and all that come from it."""
    yield number
    for thread in Path(f"/proc/{number}/task").glob("*/children"):
        for child in thread.read_text().split():
            yield from _family(int(child))


def _ticks(number: int) -> int:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _kilobytes(number: int, field: str) -> int:
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
