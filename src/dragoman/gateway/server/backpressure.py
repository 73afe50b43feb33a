"""Makes writes wait for clients that read slowly, under a server that does not.

granian (2.8) puts what is written to a stream into a queue without a limit, so one client that reads nothing could take
all memory. The kernel knows how many bytes the client has acknowledged (`TCP_INFO`, Linux only). A writer compares this
with what it has written, waits while the difference is large, and gives up if the client reads nothing for too long.
"""

import asyncio
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

MAX_UNREAD = 1024 * 1024
"""Bytes that may be written before the client has acknowledged them."""
CHECK_INTERVAL = 64 * 1024
"""Bytes between two looks at the connection: short answers never pay for one."""
POLL = 0.02
"""Seconds between two looks while a writer waits."""
FRAME = 8
"""Bytes around each piece of a chunked body."""
_IS_SUPPORTED = sys.platform == "linux"
_TCP_INFO_SIZE = 192
_BYTES_ACKED = 120
"""Where `tcpi_bytes_acked` is in the struct `tcp_info` of Linux."""


class ClientTooSlow(ConnectionError):
    """The client read nothing for too long; its connection is closed."""


class StreamPressure:
    """What one client has not read yet of its stream."""

    __slots__ = ("_acked_before", "_client", "_connection", "_next_check", "_server", "_timeout", "_written")

    def __init__(self, client: str, server: str, timeout: float) -> None:
        """`client` and `server` are the two addresses of the connection, as HOST:PORT."""
        self._client = client
        self._server = server
        self._timeout = timeout
        self._written = 0
        self._next_check = CHECK_INTERVAL if _IS_SUPPORTED else sys.maxsize
        self._connection: socket.socket | None = None
        self._acked_before = 0

    @property
    def is_due(self) -> bool:
        """Whether to call `wait` before the next write."""
        return self._written >= self._next_check

    def add(self, size: int, /) -> None:
        """Count bytes that are written now. One write may have any size, so it is counted after `wait`."""
        self._written += size + FRAME

    async def wait(self) -> None:
        """Wait until the client has read most of what was written; ClientTooSlow if it reads nothing for too long."""
        self._next_check = self._written + CHECK_INTERVAL
        if self._connection is None:
            self._connection = _find_connection(self._client, self._server)
            if self._connection is None:
                self._next_check = sys.maxsize
                return
            # What the client read before the first look is not counted: there is a little more room.
            self._acked_before = _acked(self._connection) - self._written
        last, since = -1, time.monotonic()
        while (unread := self._written - (acked := _acked(self._connection)) + self._acked_before) > MAX_UNREAD:
            if acked != last:
                last, since = acked, time.monotonic()
            elif time.monotonic() - since > self._timeout:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
                raise ClientTooSlow(f"the client read nothing for {self._timeout} s, {unread} bytes were waiting")
            await asyncio.sleep(POLL)

    def close(self) -> None:
        """Release the connection. The server closes its own."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _acked(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    acked: int = struct.unpack_from("Q", info, _BYTES_ACKED)[0]
    return acked


def _find_connection(client: str, server: str) -> socket.socket | None:
    """A second handle of the connection of a client to our port."""
    port = int(server.rpartition(":")[2] or 0)
    for handle in Path("/proc/self/fd").iterdir():
        try:
            if not str(handle.readlink()).startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(handle.name)))
        except OSError:
            continue
        with suppress(OSError, IndexError):  # a Unix socket has no port
            if _text(connection.getpeername()) == client and connection.getsockname()[1] == port:
                return connection
        connection.close()
    return None


def _text(address: tuple[str, int]) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
