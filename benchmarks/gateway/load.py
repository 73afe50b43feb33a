"""A request and a number of connections in, what came of asking it again and again out: one loop, no HTTP library."""

import gc
import select
import socket
from time import perf_counter
from typing import NamedTuple

_CHUNK = b"data: {"
_LAST = b"0\r\n\r\n"


class Load(NamedTuple):
    """What was seen in so many seconds."""

    seconds: float
    latencies: list[float]
    """Of every answer, in seconds, sorted."""
    chunks: int
    failed: int

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def quantile(self, part: float) -> float:
        """The seconds in which this part of the answers came."""
        return self.latencies[int(len(self.latencies) * part)] if self.latencies else float("inf")


class _Talk:
    """A connection that asks, hears the answer to its end, and asks again."""

    __slots__ = ("asked", "chunks", "is_good", "left", "peer", "tail")

    def __init__(self, port: int) -> None:
        self.peer = socket.create_connection(("127.0.0.1", port))
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = 0.0
        self.tail = b""
        self.left: int | None = None
        self.chunks = 0
        self.is_good = False

    def ask(self, request: bytes) -> None:
        self.tail, self.left = b"", None
        self.asked = perf_counter()
        self.peer.sendall(request)

    def hear(self) -> bool:
        """Whether the answer is whole."""
        data = self.peer.recv(262144)
        if not data:
            raise ConnectionError("the answer was cut")
        if self.asked and not self.tail:
            end = data.index(b"\r\n\r\n") + 4
            head = data[:end].lower()
            self.is_good = head.startswith(b"http/1.1 200")
            _, told, length = head.partition(b"content-length:")
            self.left = int(length.split(b"\r\n", 1)[0]) if told else None
            data = data[end:]
        if self.left is not None:
            self.left -= len(data)
            self.tail = b"."
            return self.left <= 0
        data = self.tail + data
        self.chunks += data.count(_CHUNK)
        self.tail = data[1 - len(_CHUNK) :] or b"."
        return data.endswith(_LAST)


def put_load(port: int, request: bytes, *, connections: int, seconds: float, once: bool = False) -> Load:
    """Ask on all connections until the time is over, or until each was answered once."""
    talks = {talk.peer.fileno(): talk for talk in (_Talk(port) for _ in range(connections))}
    epoll = select.epoll()
    for number in talks:
        epoll.register(number, select.EPOLLIN)
    latencies: list[float] = []
    failed = 0
    gc.collect()
    gc.disable()
    began = perf_counter()
    ends = began + seconds
    for talk in talks.values():
        talk.ask(request)
    while (now := perf_counter()) < ends and not (once and len(latencies) + failed >= connections):
        for number, _ in epoll.poll(ends - now):
            talk = talks[number]
            try:
                if not talk.hear():
                    continue
            except ConnectionError:
                # Its like is not asked again: what cuts one, cuts many.
                failed += 1
                epoll.unregister(number)
                continue
            if talk.is_good:
                latencies.append(perf_counter() - talk.asked)
            else:
                failed += 1
            if not once:
                talk.ask(request)
    took = perf_counter() - began
    gc.enable()
    for talk in talks.values():
        talk.peer.close()
    epoll.close()
    latencies.sort()
    return Load(took, latencies, sum(talk.chunks for talk in talks.values()), failed)


def ask_once(port: int, request: bytes) -> bytes:
    """The whole answer to one request."""
    talk = _Talk(port)
    talk.peer.settimeout(30)
    heard = b""
    try:
        talk.peer.sendall(request)
        while b"\r\n\r\n" not in heard or not _is_whole(heard):
            data = talk.peer.recv(262144)
            if not data:
                raise ConnectionError("the answer was cut")
            heard += data
    finally:
        talk.peer.close()
    return heard


def _is_whole(heard: bytes) -> bool:
    head, _, body = heard.partition(b"\r\n\r\n")
    _, told, length = head.lower().partition(b"content-length:")
    return len(body) >= int(length.split(b"\r\n", 1)[0]) if told else body.endswith(_LAST)
