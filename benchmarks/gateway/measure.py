"""A server in, what it costs out: rates, latencies, CPU time, memory, start-up."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.gateway.load import Load, put_load
from benchmarks.gateway.process import JobGroup, running
from benchmarks.gateway.servers import Place, Server


def _nothing(_place: Place) -> None:
    """Nothing is between the client and the upstream."""


CONNECTIONS = (1, 16, 64, 256)
STREAMS = 64
MANY = 1000
"""Streams at once, each slow, whose memory is measured."""
WARM_UP = 0.5
LONGEST = 60.0
"""Seconds that many slow streams may take."""
DIRECT = Server(_nothing, wires=("openai",))


class Cost(NamedTuple):
    """A load, and the CPU seconds of the server under it."""

    load: Load
    cpu: float

    @property
    def per_answer(self) -> float:
        """CPU seconds of one answer."""
        return self.cpu / max(1, len(self.load.latencies))

    @property
    def per_chunk(self) -> float:
        """CPU seconds of one chunk."""
        return self.cpu / max(1, self.load.chunks)

    @property
    def chunk_rate(self) -> float:
        """Chunks a second."""
        return self.load.chunks / self.load.seconds


class Seen(NamedTuple):
    """All of one server, by wire."""

    up: float | None
    """Seconds to the first answer."""
    idle: float
    """Bytes that it holds before the load."""
    calls: dict[str, dict[int, Cost]]
    streams: dict[str, Cost]
    many: Cost
    most: float
    """Bytes that it has held at most, with many streams at once."""


def measure(server: Server | None, peers: Path, upstream: int, seconds: float) -> Seen | None:
    """Start it, measure it, stop it; the upstream alone where there is none, and None where it is not installed."""
    if server is None:
        return _measured(DIRECT, None, upstream, upstream, seconds)
    with running(server, peers, upstream) as process:
        if process is None:
            return None
        return _measured(server, process, process.port, upstream, seconds)


def _measured(server: Server, process: JobGroup | None, port: int, upstream: int, seconds: float) -> Seen:
    idle = 0.0 if process is None else process.memory()
    calls: dict[str, dict[int, Cost]] = {}
    streams: dict[str, Cost] = {}
    for wire in server.wires:
        request = server.request(port, upstream, wire)
        put_load(port, request, connections=STREAMS, seconds=WARM_UP)
        calls[wire] = {count: _cost(process, port, request, count, seconds) for count in CONNECTIONS}
        request = server.request(port, upstream, wire, stream=True)
        put_load(port, request, connections=STREAMS, seconds=WARM_UP)
        streams[wire] = _cost(process, port, request, STREAMS, seconds)
    request = server.request(port, upstream, server.wires[0], pace="slow", stream=True)
    many = _cost(process, port, request, MANY, LONGEST, once=True)
    most = 0.0 if process is None else process.memory("VmHWM")
    return Seen(None if process is None else process.took, idle, calls, streams, many, most)


def _cost(
    process: JobGroup | None, port: int, request: bytes, connections: int, seconds: float, *, once: bool = False
) -> Cost:
    if process is not None:
        process.settle()
    before = 0.0 if process is None else process.cpu()
    load = put_load(port, request, connections=connections, seconds=seconds, once=once)
    return Cost(load, 0.0 if process is None else process.cpu() - before)
