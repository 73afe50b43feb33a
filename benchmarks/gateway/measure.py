"""Measure a server: request rates, latencies, CPU time, memory, start-up."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.gateway.load import Load, first_chunks, paced_load, put_load
from benchmarks.gateway.process import RunningServer, running
from benchmarks.gateway.servers import Place, Server, long_fields


def _nothing(_place: Place) -> None:
    """Start nothing: the client calls the upstream directly."""


CONNECTIONS = (1, 16, 64, 256)
STREAMS = 16
LOW_RATE = 10
"""Requests per second at which the added latency is measured, and for how many of them."""
LOW_COUNT = 50
FIRST_COUNT = 20
"""Streams whose first delta is measured."""
LONG_CONNECTIONS = 4
"""Clients that send requests of 400 kB."""
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
    low_rate: dict[str, Load]
    first_delta: dict[str, float]
    """The median of the seconds to the first delta of a stream."""
    long: dict[str, Cost]
    """Requests of 400 kB."""
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
    low_rate: dict[str, Load] = {}
    first_delta: dict[str, float] = {}
    long: dict[str, Cost] = {}
    for wire in server.wires:
        request = server.request(port, upstream, wire)
        put_load(port, request, connections=STREAMS, seconds=WARM_UP)
        calls[wire] = {count: _cost(process, port, request, count, seconds) for count in CONNECTIONS}
        request = server.request(port, upstream, wire, stream=True)
        put_load(port, request, connections=STREAMS, seconds=WARM_UP)
        streams[wire] = _cost(process, port, request, STREAMS, seconds)
        request = server.request(port, upstream, wire, pace="brief", stream=True)
        first_delta[wire] = first_chunks(port, request, count=FIRST_COUNT)[FIRST_COUNT // 2]
        request = server.request(port, upstream, wire)
        low_rate[wire] = paced_load(port, request, count=LOW_COUNT, interval=1 / LOW_RATE)
        request = server.request(port, upstream, wire, fields=long_fields())
        long[wire] = _cost(process, port, request, LONG_CONNECTIONS, seconds)
    request = server.request(port, upstream, server.wires[0], pace="slow", stream=True)
    many = _cost(process, port, request, MANY, MANY_TIMEOUT, once=True)
    peak = 0.0 if process is None else process.memory("VmHWM")
    startup = None if process is None else process.took
    return ServerResult(startup, idle, calls, streams, low_rate, first_delta, long, many, peak)


def _cost(
    process: RunningServer | None, port: int, request: bytes, connections: int, seconds: float, *, once: bool = False
) -> Cost:
    if process is not None:
        process.wait_until_idle()
    before = 0.0 if process is None else process.cpu()
    load = put_load(port, request, connections=connections, seconds=seconds, once=once)
    return Cost(load, 0.0 if process is None else process.cpu() - before)
