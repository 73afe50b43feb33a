"""Servers that stop at a stage of a request, and note when their client leaves."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, Self

PATIENCE = 10.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
SENT = {
    "TLS handshake": b"",
    "before the head": b"",
    "inside the head": HEAD[:40],
    "head without body": HEAD,
    "in the stream": HEAD + CHUNK,
}
"""What a server has sent when it stops."""
STAGES = ("connecting", *SENT)


class StoppedServer(Protocol):
    """A server that has stopped at a stage."""

    origin: str
    is_reached: bool
    """Whether a client has come to the stage."""
    look_seconds: float
    """How exact the moment is at which the client left."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def wait_until_reached(self) -> None:
        """Wait until a client has come to the stage."""
        ...

    def wait_until_left(self) -> float:
        """Wait until the client has closed its connection; the moment of that."""
        ...


def stopped_server(stage: str) -> StoppedServer:
    return FullListener() if stage == "connecting" else SilentServer(stage)


class _ListeningServer:
    """A server with a listener and a thread."""

    is_reached = False
    look_seconds = 0.0

    def __init__(self, listener: socket.socket, scheme: str = "http") -> None:
        self._reached = threading.Semaphore(0)
        self._left: SimpleQueue[float] = SimpleQueue()
        self._listener = listener
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.origin = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def wait_until_reached(self) -> None:
        assert self._reached.acquire(timeout=PATIENCE), "the client has not come"

    def wait_until_left(self) -> float:
        try:
            return self._left.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError("the connection was not closed") from None

    def _serve(self) -> None:
        raise NotImplementedError


class SilentServer(_ListeningServer):
    """Accepts connections one after the other, answers up to a stage, and says nothing more."""

    def __init__(self, stage: str) -> None:
        super().__init__(socket.create_server(("127.0.0.1", 0)), "https" if stage == "TLS handshake" else "http")
        self._bytes = SENT[stage]

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(self._bytes)
                    self.is_reached = True
                    self._reached.release()
                    while connection.recv(65536):
                        continue
                self._left.put(time.monotonic())


class DeafServer(_ListeningServer):
    """Accepts a connection and reads nothing, so that a long request cannot be sent. It sees only a reset."""

    def __init__(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        super().__init__(listener)

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            assert connection.recv(1, socket.MSG_PEEK), "the request has not begun"
            self.is_reached = True
            self._reached.release()
            poll = select.poll()
            poll.register(connection, select.POLLHUP)
            if poll.poll(1000 * PATIENCE):
                self._left.put(time.monotonic())


class FullListener:
    """Accepts no connection: its queue is full, so that the system drops what clients send."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self._port: int = self._listener.getsockname()[1]
        self._queue: list[socket.socket] = []
        self.origin = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        for _ in range(8):
            sock = socket.socket()
            sock.settimeout(0.1)
            try:
                sock.connect(("127.0.0.1", self._port))
            except TimeoutError:
                sock.close()
                return self
            self._queue.append(sock)
        raise RuntimeError("the queue of a listener has no end on this system")

    def __exit__(self, *_: object) -> None:
        for sock in (*self._queue, self._listener):
            sock.close()

    is_reached = True
    look_seconds = 0.0
    """How long the last look at the table of connections took."""

    def wait_until_reached(self) -> None:
        assert _until(lambda: self._is_connecting), "the client has not come"

    def wait_until_left(self) -> float:
        looked_at = time.monotonic()

        def has_left() -> bool:
            nonlocal looked_at
            looked_at = time.monotonic()  # reading the table may take longer than closing a socket
            return not self._is_connecting

        assert _until(has_left), "the client still tries to connect"
        self.look_seconds = time.monotonic() - looked_at
        return looked_at

    @property
    def _is_connecting(self) -> bool:
        """Whether a socket of this machine is in the state SYN_SENT to the port."""
        lines = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
        return any(remote.endswith(f":{self._port:04X}") and state == "02" for _, _, remote, state, *_ in lines)


def _until(is_so: Callable[[], bool]) -> bool:
    ends = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > ends:
            return False
        time.sleep(0.001)
    return True
