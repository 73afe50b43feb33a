"""A provider that costs next to nothing: one loop, canned bytes. Prints its port, and ends with its standard input.

It reads no JSON. A body that says `"stream":true` is answered by a stream, in turns with the others: a few chunks
at once and as fast as can be, or one every GAP seconds where the model is called `slow`.
"""

import select
import socket
import sys
import time
from collections import deque

from benchmarks.gateway.canned import MISSING, PATHS, QUICK, SLOW, TOGETHER, pieces, whole

GAP = 0.1
"""Seconds between two chunks of a slow stream."""
BACKLOG = 4096

_WHOLE = {path: whole(wire) for path, wire in PATHS.items()}
_QUICK = {path: pieces(wire, QUICK, together=TOGETHER) for path, wire in PATHS.items()}
_SLOW = {path: pieces(wire, SLOW, together=1) for path, wire in PATHS.items()}


class _Talk:
    """A connection. Its socket blocks, but is read only where something is there, and what is written is small."""

    __slots__ = ("heard", "index", "peer", "pieces")

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.heard = b""
        self.pieces: list[bytes] = []
        self.index = 0


class Upstream:
    """All connections, and the streams that are under way."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._epoll = select.epoll()
        self._epoll.register(self.listener, select.EPOLLIN)
        self._epoll.register(sys.stdin, select.EPOLLIN | select.EPOLLHUP)
        self._talks: dict[int, _Talk] = {}
        self._quick: deque[_Talk] = deque()
        self._slow: deque[tuple[float, _Talk]] = deque()

    def run(self) -> None:
        """Until whoever started it has gone."""
        while True:
            for number, _ in self._epoll.poll(self._patience()):
                if number == sys.stdin.fileno():
                    return
                if number == self.listener.fileno():
                    self._accept()
                else:
                    self._hear(self._talks[number])
            self._say()

    def _patience(self) -> float | None:
        if self._quick:
            return 0.0
        return max(0.0, self._slow[0][0] - time.monotonic()) if self._slow else None

    def _accept(self) -> None:
        peer, _ = self.listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._talks[peer.fileno()] = _Talk(peer)
        self._epoll.register(peer, select.EPOLLIN)

    def _hear(self, talk: _Talk) -> None:
        try:
            data = talk.peer.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._drop(talk)
            return
        heard = talk.heard = talk.heard + data
        end = heard.find(b"\r\n\r\n")
        if end < 0:
            return
        _, _, told = heard[:end].lower().partition(b"content-length:")
        if len(heard) >= end + 4 + int(told.split(b"\r\n", 1)[0] or 0):
            talk.heard = b""
            self._answer(talk, heard)

    def _answer(self, talk: _Talk, heard: bytes) -> None:
        path = heard.split(b" ", 2)[1].partition(b"?")[0]
        if b'"stream":true' not in heard and b'"stream": true' not in heard:
            talk.peer.sendall(_WHOLE.get(path, MISSING))
            return
        talk.index = 0
        if b'slow"' in heard:
            talk.pieces = _SLOW[path]
            self._slow.append((time.monotonic(), talk))
        else:
            talk.pieces = _QUICK[path]
            self._quick.append(talk)

    def _say(self) -> None:
        for _ in range(len(self._quick)):
            talk = self._quick.popleft()
            if self._write(talk):
                self._quick.append(talk)
        now = time.monotonic()
        while self._slow and self._slow[0][0] <= now:
            due, talk = self._slow.popleft()
            if self._write(talk):
                self._slow.append((due + GAP, talk))

    def _write(self, talk: _Talk) -> bool:
        """Write the next chunk; whether there are more."""
        if talk.peer.fileno() < 0:
            return False
        try:
            talk.peer.sendall(talk.pieces[talk.index])
        except ConnectionError:
            self._drop(talk)
            return False
        talk.index += 1
        return talk.index < len(talk.pieces)

    def _drop(self, talk: _Talk) -> None:
        self._epoll.unregister(talk.peer)
        del self._talks[talk.peer.fileno()]
        talk.peer.close()


if __name__ == "__main__":
    upstream = Upstream()
    print(upstream.listener.getsockname()[1], flush=True)
    upstream.run()
