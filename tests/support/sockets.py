"""Sockets that misbehave in ways that no server can."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def full_listener() -> Iterator[str]:
    """The origin of a listener that accepts no connection any more: its queue is full, and packets are dropped."""
    waiting: list[socket.socket] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        try:
            for _ in range(8):
                sock = socket.socket()
                waiting.append(sock)
                sock.settimeout(0.1)
                with contextlib.suppress(TimeoutError):
                    sock.connect(address)
                    continue
                break
            else:
                raise RuntimeError("the queue of a listener has no end on this system")
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            for sock in waiting:
                sock.close()
