"""The HTTP server of a worker: its connections, their time limits, and how it stops."""

import asyncio
import socket
import ssl
from email.utils import formatdate
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.connection import HttpConnection

MAX_IDLE_CONNECTIONS = 16_384
"""Connections besides those with a request: clients keep theirs open."""
BACKLOG = 4096
LAST_REQUEST_TIME = 0.5
"""Seconds after `stop` in which a connection may still send a request: its client does not know yet of the stop."""
ACCEPT_TIME = 0.05
"""Seconds after `stop` until the event loop has reported all connections that it had accepted."""
SWEEP_INTERVAL = 1.0
"""Seconds between two checks of the time limits: one check of all connections is cheaper than a timer per request."""


class HttpServer:
    """Accepts connections and gives their requests to the app."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, /) -> None:
        self.app = app
        self.loop = loop
        self.now = loop.time()
        """The time of the last sweep: good enough for limits of many seconds."""
        self.date = f"date: {formatdate(usegmt=True)}\r\n"
        self.is_stopping = False
        self.is_over = False
        """Whether it has stopped so long ago that no connection may send another request."""
        self._connections: set[HttpConnection] = set()
        self._server: asyncio.Server | None = None
        self._listener: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._accepting: set[asyncio.Task[object]] = set()
        """Connections of the listener's queue that are not set up yet."""
        self._has_accepted_all = False
        """Whether it has stopped, and the event loop has reported all connections that it had accepted."""
        self._ended = asyncio.Event()

    @property
    def settings(self) -> GatewaySettings:
        """The table [gateway] of the config as it is now."""
        return self.app.runtime.config.gateway

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None, /) -> None:
        """Accept connections from now on."""
        self._listener, self._tls = listener, tls
        self._server = await self.loop.create_server(
            lambda: HttpConnection(self), sock=listener, ssl=tls, backlog=BACKLOG
        )
        self._sweep()

    def stop(self) -> None:
        """Accept no more connections than those that wait, and close each with its next response, or if it is idle.

        A connection that is closed while a request is on its way would lose it. So each response says that it is the
        last one, and idle connections have a moment to send one more request.
        """
        if self.is_stopping:
            return
        self.is_stopping = True
        self.loop.call_soon(self._close_listener)  # asyncio drops a connection that it has accepted in this round
        self.loop.call_later(ACCEPT_TIME, self._end_accepting)
        self.loop.call_later(LAST_REQUEST_TIME, self._close_idle)

    def _close_listener(self) -> None:
        if self._listener is not None and self._server is not None:
            self._accept_queued(self._listener)
            self._server.close()

    def _accept_queued(self, listener: socket.socket) -> None:
        """Take what waits in the queue of the listener.

        The system resets these connections when the last process closes the listener.
        """
        for _ in range(BACKLOG):
            try:
                client, _ = listener.accept()
            except OSError:  # nothing waits, or there is no room for more
                return
            client.setblocking(False)  # noqa: FBT003 - the API of sockets
            accept = self.loop.connect_accepted_socket(lambda: HttpConnection(self), client, ssl=self._tls)
            task = self.loop.create_task(accept)
            self._accepting.add(task)
            task.add_done_callback(self._accepted)

    def _accepted(self, task: asyncio.Task[object]) -> None:
        self._accepting.discard(task)
        if not task.cancelled():
            task.exception()  # the client is gone, or spoke no TLS
        self._check_end()

    def _end_accepting(self) -> None:
        self._has_accepted_all = True
        self._check_end()

    def _close_idle(self) -> None:
        self.is_over = True
        for connection in tuple(self._connections):
            connection.close()

    async def wait_until_ended(self) -> None:
        """Returns after `stop`, when all connections are closed."""
        await self._ended.wait()

    def abort(self) -> None:
        """Close the connections that are still open: their clients do not read, or send no TLS handshake."""
        for connection in tuple(self._connections):
            connection.abort()
        for task in tuple(self._accepting):
            task.cancel()

    # What connections do ---------------------------------------------------------------------------------------------

    def add(self, connection: HttpConnection, /) -> bool:
        """Count a connection; False if there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self.settings.max_requests + MAX_IDLE_CONNECTIONS

    def remove(self, connection: HttpConnection, /) -> None:
        """A connection is closed."""
        self._connections.discard(connection)
        self._check_end()

    def _check_end(self) -> None:
        if self._has_accepted_all and not self._connections and not self._accepting:
            self._ended.set()

    def _sweep(self) -> None:
        self.now = now = self.loop.time()
        self.date = f"date: {formatdate(usegmt=True)}\r\n"
        for connection in [each for each in self._connections if each.deadline < now]:
            connection.expire()
        self.loop.call_later(SWEEP_INTERVAL, self._sweep)


def tls_context(certificate: str, key: str | None, /) -> ssl.SSLContext:
    """TLS with a certificate and a key in PEM files; raises SetupError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(Path(certificate), None if key is None else Path(key))
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror or error
        raise SetupError(
            f"gateway.tls_certificate and tls_key must be PEM files, got {certificate!r} and {key!r}: {reason}"
        ) from error
    return context
