"""A connection on a plain socket, for blocking calls.

A read waits in `recv`, in the caller's own thread. So Ctrl-C ends it at once, nothing is handed from thread to thread,
and closing the socket is all that it takes to stop a request at any stage. Only the thread that owns a connection
closes it. Other threads `abort` it: they shut the socket down, which wakes the owner.
"""

import errno
import os
import selectors
import socket
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from dragoman.io.connect import STAGGER, Address, Addresses, Destination, is_address, ordered, resolve
from dragoman.io.connection_pool import discard_unsent, is_readable
from dragoman.io.http1 import ResponseParser
from dragoman.io.stopper import Stopper

if TYPE_CHECKING:
    from ssl import SSLContext

CHUNK = 64 * 1024
_STARTED = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class BlockingConnection:
    """One connection. `connect` it first; `is_new` says that no request has been answered on it yet."""

    __slots__ = (
        "_addresses",
        "_lock",
        "_sockets",
        "destination",
        "idle_since",
        "is_aborted",
        "is_connected",
        "is_new",
        "parser",
        "stopper",
    )

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.parser = ResponseParser()
        self.idle_since = 0.0
        self.is_new = True
        self.is_connected = False
        self.is_aborted = False
        self.stopper: Stopper | None = None
        """Stops the call that uses it, from another thread."""
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        """Several only while it is not known which address answers."""
        self._addresses: SimpleQueue[Addresses] | None = None

    def __enter__(self) -> None:
        """Whatever is raised in this block closes the connection."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.close()

    def __del__(self) -> None:
        """Close the connections of a client that was not closed, without a ResourceWarning."""
        for sock in self._sockets:
            sock.close()

    @property
    def is_usable(self) -> bool:
        """Whether nothing can be read: an idle connection on which something can be read was closed by its server."""
        return not is_readable(self._sockets[0])

    def send(self, data: bytes, ends: float | None, /) -> None:
        """Send a request. A server that refuses a large body may answer and close before it has read all of it."""
        sock = self._sockets[0]
        sock.settimeout(_remaining(ends))
        is_sent = False
        try:
            sock.sendall(data)
            is_sent = True
        except (BrokenPipeError, ConnectionResetError):
            if not is_readable(sock):
                raise
        finally:
            if not is_sent:
                discard_unsent(sock)

    def receive(self, ends: float | None, /) -> None:
        """Wait for more of the response, until a moment; TimeoutError if nothing comes."""
        sock = self._sockets[0]
        sock.settimeout(_remaining(ends))
        data = sock.recv(CHUNK)
        if self.is_aborted:
            raise ConnectionAbortedError
        self.parser.feed(data)
        if not data and not self.parser.complete:
            raise ConnectionResetError("the server closed the connection")

    def close(self) -> None:
        """Close it; only the owner does this."""
        self.parser.end()
        with self._lock:
            for sock in self._sockets:
                sock.close()

    def abort(self) -> None:
        """End what the owner waits for, from any thread."""
        with self._lock:
            self.is_aborted = True
            if self._addresses is not None:
                self._addresses.put(ConnectionAbortedError())
            for sock in self._sockets:
                try:
                    # Not SSLSocket's own, which would take the TLS state away from the thread that reads.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:  # it is closed, or not connected
                    continue

    # Connecting ------------------------------------------------------------------------------------------------------

    def connect(self, ends: float | None, /, *, tls: "SSLContext | None", address: str | None = None) -> None:
        """Connect, until a moment; `address` is where the host is known to be."""
        host, port = self.destination.next_hop
        self._connect(ordered(self._resolve(address or host, port, ends)), ends)
        sock = self._sockets[0]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.destination.is_tunnel:
            self._open_tunnel(ends)
        if tls is not None:
            sock.settimeout(_remaining(ends))
            with self._lock:
                wrapped = tls.wrap_socket(sock, server_hostname=self.destination.host, do_handshake_on_connect=False)
                self._sockets = [wrapped]
            self._check()
            wrapped.do_handshake()
        self._check()
        self.is_connected = True

    def _resolve(self, host: str, port: int, ends: float | None) -> list[Address]:
        if is_address(host):
            return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        results = self._addresses = SimpleQueue[Addresses]()
        self._check()
        resolve(host, port, results.put)
        try:
            result = results.get(timeout=_remaining(ends))
        except Empty:
            raise TimeoutError from None
        if isinstance(result, OSError):
            raise result
        return result

    def _connect(self, addresses: list[Address], ends: float | None) -> None:
        """Connect to the first address that answers; the next one is tried if one fails, or after a moment."""
        failure: OSError = OSError("the host has no address")
        waiting = addresses[::-1]
        with selectors.DefaultSelector() as selector:
            while waiting or self._sockets:
                if waiting:
                    sock, code = self._start(waiting.pop())
                    if code not in _STARTED:
                        failure = self._drop(sock, code)
                        continue
                    selector.register(sock, selectors.EVENT_WRITE)
                remaining = _remaining(ends)
                pause = remaining if not waiting else STAGGER if remaining is None else min(remaining, STAGGER)
                for key, _ in selector.select(pause):
                    self._check()
                    sock = next(sock for sock in self._sockets if sock is key.fileobj)
                    selector.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code == 0:
                        self._keep(sock)
                        return
                    failure = self._drop(sock, code)
        raise failure

    def _start(self, address: Address) -> tuple[socket.socket, int]:
        family, kind, protocol, _, where = address
        sock = socket.socket(family, kind, protocol)
        with self._lock:
            self._sockets.append(sock)
        self._check()
        sock.setblocking(False)  # noqa: FBT003 - the API of sockets
        return sock, sock.connect_ex(where)

    def _drop(self, sock: socket.socket, code: int) -> OSError:
        with self._lock:
            self._sockets.remove(sock)
            sock.close()
        return OSError(code, os.strerror(code))

    def _keep(self, sock: socket.socket) -> None:
        with self._lock:
            others = [other for other in self._sockets if other is not sock]
            self._sockets = [sock]
            for other in others:
                other.close()

    def _check(self) -> None:
        if self.is_aborted:
            raise ConnectionAbortedError

    def _open_tunnel(self, ends: float | None) -> None:
        self.send(self.destination.connect_request(), ends)
        while not self.parser.has_head:
            self.receive(ends)
        if self.parser.status != 200:
            raise ConnectionRefusedError(f"the proxy answered {self.parser.status}")
        self.parser = ResponseParser()


def _remaining(ends: float | None) -> float | None:
    if ends is None:
        return None
    remaining = ends - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining
