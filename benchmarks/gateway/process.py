"""Run a server on its own core, read its CPU time and memory, and stop it."""

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

STARTUP_TIMEOUT = 90.0
"""Seconds until a server must answer."""
STOP_TIMEOUT = 10.0
IDLE_TIMEOUT = 30.0
IDLE_CPU = 0.05
"""CPU seconds within 0.2 s that count as idle."""
_TICK = os.sysconf("SC_CLK_TCK")
_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = _CORES[0], _CORES[-1]


class RunningServer(NamedTuple):
    """A server that is ready."""

    process: "subprocess.Popen[bytes]"
    port: int
    took: float
    """Seconds from its start to its first answer."""

    def cpu(self) -> float:
        """CPU seconds of the server and its children."""
        return cpu_of(self.process.pid)

    def wait_until_idle(self) -> None:
        """Wait until it is idle: some servers continue to answer clients that have disconnected."""
        deadline = time.perf_counter() + IDLE_TIMEOUT
        used = float("inf")
        while used > IDLE_CPU and time.perf_counter() < deadline:
            before = self.cpu()
            time.sleep(0.2)
            used = self.cpu() - before

    def memory(self, field: str = "VmRSS") -> float:
        """Bytes of memory of the server and its children; VmHWM is the peak of each."""
        return sum(_kilobytes(process, field) for process in _family(self.process.pid)) * 1024


@contextmanager
def running(server: Server, peers: Path, upstream: int) -> Generator[RunningServer | None]:
    """The server, as soon as it answers; None if it is not installed."""
    with TemporaryDirectory() as folder:
        place = Place(Path(folder), peers, free_port(), upstream)
        command = server.command(place)
        if command is None:
            yield None
            return
        # Byte code is written, as for an installed package, even if this environment forbids it.
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **server.env}
        began = time.perf_counter()
        command = ["taskset", "-c", str(SERVER_CORE), *command]
        with (
            (Path(folder) / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log, env=env) as process,
        ):
            try:
                port = _await_answer(server, place, process)
                took = time.perf_counter() - began
                _check_streams(server, port, upstream)
                yield RunningServer(process, port, took)
            finally:
                _stop(process)


def _await_answer(server: Server, place: Place, process: "subprocess.Popen[bytes]") -> int:
    deadline = time.perf_counter() + STARTUP_TIMEOUT
    port_file = place.folder / PORT
    while time.perf_counter() < deadline and process.poll() is None:
        port = int(port_file.read_text() or 0) if port_file.exists() else place.port
        try:
            _check(ask_once(port, server.request(port, place.upstream, server.wires[0])), b"tide")
        except OSError:
            time.sleep(0.005)
            continue
        return port
    raise RuntimeError(f"the server does not answer: {(place.folder / 'log').read_text(errors='replace')[-2000:]}")


def _check_streams(server: Server, port: int, upstream: int) -> None:
    for wire in server.wires:
        _check(ask_once(port, server.request(port, upstream, wire, stream=True)), b"word199")


def _check(answer: bytes, word: bytes) -> None:
    if word not in answer:
        raise RuntimeError(f"unexpected answer: {answer[:2000]!r}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    family = list(_family(process.pid))
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        for number in family:
            if Path(f"/proc/{number}").exists():
                os.kill(number, 9)


def free_port() -> int:
    """A port that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# ── /proc ───────────────────────────────────────────────────────────────────


def _family(number: int) -> Iterator[int]:
    """A process and its descendants."""
    yield number
    for thread in Path(f"/proc/{number}/task").glob("*/children"):
        for child in thread.read_text().split():
            yield from _family(int(child))


def cpu_of(number: int) -> float:
    """CPU seconds of a process and its descendants."""
    return sum(_ticks(process) for process in _family(number)) / _TICK


def _ticks(number: int) -> int:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _kilobytes(number: int, field: str) -> int:
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
