"""A provider that uses almost no CPU time: one loop, canned bytes. Prints its port, and ends when stdin is closed.

It does not parse JSON. A body with `"stream":true` gets a stream, in turns with the others: a few chunks at once and as
fast as possible. If the model is `slow`, one comes every GAP seconds; if it is `brief`, a few do, each after a moment.
"""

import heapq
import select
import socket
import sys
import time
from collections import deque

from benchmarks.gateway.canned import AT_FIRST, BRIEF, MISSING, PATHS, QUICK, SLOW, TOGETHER, pieces, whole

GAP = 0.1
"""Seconds between two chunks of a slow stream."""
BRIEF_GAP = 0.005
"""Seconds between two chunks of a brief stream. In a quick one, this process and the load, which share a core, compete:
the load would read the first chunk of a stream only when the last is written."""
BACKLOG = 4096

_WHOLE = {path: whole(wire) for path, wire in PATHS.items()}
_QUICK = {path: pieces(wire, QUICK, together=TOGETHER) for path, wire in PATHS.items()}
_SLOW = {path: pieces(wire, SLOW, together=1) for path, wire in PATHS.items()}
_BRIEF = {path: pieces(wire, BRIEF, together=AT_FIRST) for path, wire in PATHS.items()}


class _Connection:
    """A connection. Its socket is blocking, but is read only if data is there, and the writes are small."""

    __slots__ = ("data", "gap", "index", "peer", "pieces")

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.data = b""
        self.pieces: list[bytes] = []
        self.gap = GAP
        self.index = 0

    def __lt__(self, other: "_Connection") -> bool:
        """Any order will do, for two whose next chunks are due at the same moment."""
        return id(self) < id(other)


class Upstream:
    """All connections and the running streams."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._epoll = select.epoll()
        self._epoll.register(self.listener, select.EPOLLIN)
        self._epoll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
        self._connections: dict[int, _Connection] = {}
        self._quick: deque[_Connection] = deque()
        self._slow: list[tuple[float, _Connection]] = []
        """A heap, by the moment at which the next chunk is due."""

    def run(self) -> None:
        """Serve until stdin is closed."""
        while True:
            for number, _ in self._epoll.poll(self._poll_timeout()):
                if number == sys.stdin.fileno():
                    return
                if number == self.listener.fileno():
                    self._accept()
                else:
                    self._receive(self._connections[number])
            self._write_streams()

    def _poll_timeout(self) -> float | None:
        if self._quick:
            return 0.0
        return max(0.0, self._slow[0][0] - time.monotonic()) if self._slow else None

    def _accept(self) -> None:
        peer, _ = self.listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[peer.fileno()] = _Connection(peer)
        self._epoll.register(peer, select.EPOLLIN)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.peer.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._drop(connection)
            return
        received = connection.data = connection.data + data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        _, _, length = received[:end].lower().partition(b"content-length:")
        if len(received) >= end + 4 + int(length.split(b"\r\n", 1)[0] or 0):
            connection.data = b""
            self._answer(connection, received)

    def _answer(self, connection: _Connection, received: bytes) -> None:
        path = received.split(b" ", 2)[1].partition(b"?")[0]
        if b'"stream":true' not in received and b'"stream": true' not in received:
            connection.peer.sendall(_WHOLE.get(path, MISSING))
            return
        connection.index = 0
        is_brief = b'brief"' in received
        if is_brief or b'slow"' in received:
            connection.pieces = (_BRIEF if is_brief else _SLOW)[path]
            connection.gap = BRIEF_GAP if is_brief else GAP
            heapq.heappush(self._slow, (time.monotonic(), connection))
        else:
            connection.pieces = _QUICK[path]
            self._quick.append(connection)

    def _write_streams(self) -> None:
        for _ in range(len(self._quick)):
            connection = self._quick.popleft()
            if self._write(connection):
                self._quick.append(connection)
        now = time.monotonic()
        while self._slow and self._slow[0][0] <= now:
            due, connection = heapq.heappop(self._slow)
            if self._write(connection):
                heapq.heappush(self._slow, (due + connection.gap, connection))

    def _write(self, connection: _Connection) -> bool:
        """Write the next chunk; return whether there are more."""
        if connection.peer.fileno() < 0:
            return False
        try:
            connection.peer.sendall(connection.pieces[connection.index])
        except ConnectionError:
            self._drop(connection)
            return False
        connection.index += 1
        return connection.index < len(connection.pieces)

    def _drop(self, connection: _Connection) -> None:
        self._epoll.unregister(connection.peer)
        del self._connections[connection.peer.fileno()]
        connection.peer.close()


if __name__ == "__main__":
    upstream = Upstream()
    print(upstream.listener.getsockname()[1], flush=True)
    upstream.run()
