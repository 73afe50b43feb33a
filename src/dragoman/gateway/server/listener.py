"""Makes the sockets at which workers listen: those of the parent and those of a worker must not differ."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


def bind(family: int, kind: int, place: Any, /) -> socket.socket:
    """A socket at an address that several workers can share; it does not listen yet.

    It does not block from the start: a worker and its successor share the flag, and either may be the first to accept.
    """
    listener = socket.socket(family, kind)
    try:
        if os.name == "posix":  # on Windows, the option would allow a second listener
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setblocking(False)  # noqa: FBT003 - the API of sockets
        listener.bind(place)
    except (OSError, OverflowError):
        listener.close()
        raise
    return listener


def bind_beside(others: Iterable[socket.socket], /) -> socket.socket | None:
    """A socket at the address of the others; None if there are none, or they are closed, or it cannot be bound."""
    for other in tuple(others):
        with suppress(OSError):
            return bind(other.family, other.type, other.getsockname())
    return None
