"""The connections of a client: idle ones by destination, and those whose call waits for an answer."""

import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from dragoman.io.connect import Destination

IDLE_SECONDS = 90.0
MAX_IDLE = 256
"""Idle connections per destination."""


class Connection(Protocol):
    """What a pool needs of a connection."""

    idle_since: float

    @property
    def is_usable(self) -> bool:
        """Whether the server has neither closed it nor sent something without a request."""
        ...

    def close(self) -> None:
        """Close it; only its owner does this."""
        ...

    def abort(self) -> None:
        """End the call that waits on it, from any thread."""
        ...


C = TypeVar("C", bound=Connection)


class Pool(Generic[C]):
    """Safe for threads without a lock: each operation on a deque or a set is atomic.

    A connection that has been idle for long is closed when its destination, or a new destination, is used.
    """

    def __init__(self) -> None:
        self._idle: dict[Destination, deque[C]] = {}
        self.waiting: set[C] = set()
        """Connections without an answer yet, and those that are read to the end in the background."""

    def get(self, destination: Destination, now: float, /) -> C | None:
        """The connection to a destination that was used last; None if there is none that can be used."""
        idle = self._idle.get(destination)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread took it
                return None
            if now - connection.idle_since < IDLE_SECONDS and connection.is_usable:
                return connection
            connection.close()
        return None

    def put(self, destination: Destination, connection: C, now: float, /) -> None:
        """Keep a connection for the next request to its destination."""
        connection.idle_since = now
        idle = self._idle.get(destination)
        if idle is None:
            for others in list(self._idle.values()):
                _close_old(others, now)
            idle = self._idle.setdefault(destination, deque())
        idle.append(connection)
        if len(idle) > 1:
            _close_old(idle, now)

    def close(self) -> None:
        """Close all that is idle, and end the calls that wait for an answer."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            while connections:
                connections.pop().close()
        for connection in list(self.waiting):
            connection.abort()

    def forget(self) -> None:
        """Drop all without closing: after a fork they belong to the parent."""
        self._idle = {}
        self.waiting = set()


def _close_old(idle: deque[C], now: float) -> None:
    while len(idle) > MAX_IDLE or (idle and now - idle[0].idle_since >= IDLE_SECONDS):
        try:
            idle.popleft().close()
        except IndexError:  # another thread took it
            return


_HAS_POLL = hasattr(select, "poll")


def discard_unsent(sock: socket.socket, /) -> None:
    """Let the close of a socket discard what the system has not sent yet. Else the server would still get it."""
    _set_linger(sock, 1)


def send_unsent(sock: socket.socket, /) -> None:
    """Let the close of a socket send the rest, as usual."""
    _set_linger(sock, 0)


def _set_linger(sock: socket.socket, is_on: int) -> None:
    """Set SO_LINGER with no time to send the rest: if it is on, a close resets the connection."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(_LINGER, is_on, 0))
    except OSError:  # it is closed
        return


_LINGER = "hh" if sys.platform == "win32" else "ii"


def is_readable(sock: socket.socket, /) -> bool:
    """Whether something can be read: on an idle connection, that its server closed it."""
    try:
        return bool(watch(sock)())
    except (OSError, ValueError):
        return True


def watch(sock: socket.socket, /) -> Callable[[], object]:
    """A function that says whether something can be read from a socket; to keep it is cheaper than to make it."""
    if not _HAS_POLL:  # select() takes no descriptor above 1023
        return lambda: select.select([sock], [], [], 0)[0]
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return partial(poll.poll, 0)
