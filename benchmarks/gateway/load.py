"""Send one request again and again over many connections: one loop, no HTTP library."""

import gc
import select
import socket
from time import perf_counter, sleep
from typing import NamedTuple

_CHUNK = b"data: {"
_LAST = b"0\r\n\r\n"


class Load(NamedTuple):
    """The results of a run."""

    seconds: float
    latencies: list[float]
    """Seconds of each answer, sorted."""
    chunks: int
    failed: int

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, part: float) -> float:
        """The latency in seconds at this quantile."""
        return self.latencies[int(len(self.latencies) * part)] if self.latencies else float("inf")


class _Connection:
    """A connection that sends the request and reads the answer, again and again."""

    __slots__ = ("chunks", "is_good", "peer", "remaining", "sent_at", "tail")

    def __init__(self, port: int) -> None:
        self.peer = socket.create_connection(("127.0.0.1", port))
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self.tail = b""
        self.remaining: int | None = None
        self.chunks = 0
        self.is_good = False

    def send(self, request: bytes) -> None:
        self.tail, self.remaining = b"", None
        self.sent_at = perf_counter()
        self.peer.sendall(request)

    def receive(self) -> bool:
        """Read; return whether the answer is complete."""
        data = self.peer.recv(262144)
        if not data:
            raise ConnectionError("the answer was cut")
        if self.sent_at and not self.tail:
            end = data.index(b"\r\n\r\n") + 4
            head = data[:end].lower()
            self.is_good = head.startswith(b"http/1.1 200")
            _, has_length, length = head.partition(b"content-length:")
            self.remaining = int(length.split(b"\r\n", 1)[0]) if has_length else None
            data = data[end:]
        if self.remaining is not None:
            self.remaining -= len(data)
            self.tail = b"."
            return self.remaining <= 0
        data = self.tail + data
        self.chunks += data.count(_CHUNK)
        self.tail = data[1 - len(_CHUNK) :] or b"."
        return data.endswith(_LAST)


def put_load(port: int, request: bytes, *, connections: int, seconds: float, once: bool = False) -> Load:
    """Send on all connections until the time is over, or with `once` until each has one answer."""
    open_connections = {
        connection.peer.fileno(): connection for connection in (_Connection(port) for _ in range(connections))
    }
    epoll = select.epoll()
    for number in open_connections:
        epoll.register(number, select.EPOLLIN)
    latencies: list[float] = []
    failed = 0
    gc.collect()
    gc.disable()
    began = perf_counter()
    deadline = began + seconds
    for connection in open_connections.values():
        connection.send(request)
    while (now := perf_counter()) < deadline and not (once and len(latencies) + failed >= connections):
        for number, _ in epoll.poll(deadline - now):
            connection = open_connections[number]
            try:
                if not connection.receive():
                    continue
            except ConnectionError:
                # A connection that was cut is not opened again.
                failed += 1
                epoll.unregister(number)
                continue
            if connection.is_good:
                latencies.append(perf_counter() - connection.sent_at)
            else:
                failed += 1
            if not once:
                connection.send(request)
    took = perf_counter() - began
    gc.enable()
    for connection in open_connections.values():
        connection.peer.close()
    epoll.close()
    latencies.sort()
    return Load(took, latencies, sum(connection.chunks for connection in open_connections.values()), failed)


def paced_load(port: int, request: bytes, *, count: int, interval: float) -> Load:
    """Send at a low fixed rate on one connection: the latency of a server that has nothing else to do."""
    connection = _Connection(port)
    latencies: list[float] = []
    failed = 0
    began = perf_counter()
    try:
        for number in range(count):
            sleep(max(0.0, began + number * interval - perf_counter()))
            connection.send(request)
            while not connection.receive():
                continue
            if connection.is_good:
                latencies.append(perf_counter() - connection.sent_at)
            else:
                failed += 1
    except ConnectionError:
        failed += 1
    connection.peer.close()
    latencies.sort()
    return Load(perf_counter() - began, latencies, connection.chunks, failed)


def first_chunks(port: int, request: bytes, *, count: int) -> list[float]:
    """Seconds from the request of a stream to its first chunk with text, one stream after the other, sorted."""
    connection = _Connection(port)
    times: list[float] = []
    try:
        for _ in range(count):
            connection.send(request)
            before, is_over = connection.chunks, False
            while connection.chunks == before and not is_over:
                is_over = connection.receive()
            times.append(perf_counter() - connection.sent_at)
            while not is_over:
                is_over = connection.receive()
            sleep(0.01)
    except ConnectionError:
        times.append(float("inf"))
    connection.peer.close()
    return sorted(times)


def ask_once(port: int, request: bytes) -> bytes:
    """The whole answer to one request."""
    connection = _Connection(port)
    connection.peer.settimeout(30)
    received = b""
    try:
        connection.peer.sendall(request)
        while b"\r\n\r\n" not in received or not _is_whole(received):
            data = connection.peer.recv(262144)
            if not data:
                raise ConnectionError("the answer was cut")
            received += data
    finally:
        connection.peer.close()
    return received


def _is_whole(received: bytes) -> bool:
    head, _, body = received.partition(b"\r\n\r\n")
    _, has_length, length = head.lower().partition(b"content-length:")
    return len(body) >= int(length.split(b"\r\n", 1)[0]) if has_length else body.endswith(_LAST)
