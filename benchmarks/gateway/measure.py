"""Measure a server: request rates, latencies, CPU time, memory, start-up."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.gateway.load import Load, put_load
from benchmarks.gateway.process import RunningServer, running
from benchmarks.gateway.servers import Place, Server


def _nothing(_place: Place) -> None:
    """Start nothing: the client calls the upstream directly."""


CONNECTIONS = (1, 16, 64, 256)
STREAMS = 64
MANY = 1000
"""Slow streams at once, for the measurement of memory."""
WARM_UP = 0.5
MANY_TIMEOUT = 60.0
"""Seconds that the MANY slow streams may take."""
DIRECT = Server(_nothing, wires=("openai",))


class Cost(NamedTuple):
    """A load, and the CPU seconds that the server used for it."""

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
        """Chunks per second."""
        return self.load.chunks / self.load.seconds


class ServerResult(NamedTuple):
    """All measurements of one server, by wire."""

    startup: float | None
    """Seconds to the first answer."""
    idle: float
    """Bytes of memory before the load."""
    calls: dict[str, dict[int, Cost]]
    streams: dict[str, Cost]
    many: Cost
    peak: float
    """The largest number of bytes of memory, with MANY streams at once."""


def measure(server: Server | None, peers: Path, upstream: int, seconds: float) -> ServerResult | None:
    """Start, measure and stop a server. Without a server, measure the upstream alone. None if it is not installed."""
    if server is None:
        return _measure(DIRECT, None, upstream, upstream, seconds)
    with running(server, peers, upstream) as process:
        if process is None:
            return None
        return _measure(server, process, process.port, upstream, seconds)


def _measure(server: Server, process: RunningServer | None, port: int, upstream: int, seconds: float) -> ServerResult:
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
    many = _cost(process, port, request, MANY, MANY_TIMEOUT, once=True)
    peak = 0.0 if process is None else process.memory("VmHWM")
    return ServerResult(None if process is None else process.took, idle, calls, streams, many, peak)


def _cost(
    process: RunningServer | None, port: int, request: bytes, connections: int, seconds: float, *, once: bool = False
) -> Cost:
    if process is not None:
        process.wait_until_idle()
    before = 0.0 if process is None else process.cpu()
    load = put_load(port, request, connections=connections, seconds=seconds, once=once)
    return Cost(load, 0.0 if process is None else process.cpu() - before)
