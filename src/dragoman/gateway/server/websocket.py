"""One WebSocket of a client: its messages are requests, and the events of each answer are messages.

Every request goes through `App.answer`, so that keys, limits, the usage log and errors are those of POST. Requests of
one lane wait for each other; those of different lanes run at the same time. If the client hangs up, everything that
runs for it is cancelled, and so are the calls of providers. The server adapters provide the `Socket`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from msgspec.structs import replace

from dragoman.errors import DragomanError, RequestError
from dragoman.gateway.app import App
from dragoman.gateway.conversations import RecentResponses
from dragoman.gateway.errors import BodyTooLarge, Busy
from dragoman.gateway.server.body_limits import BodyBytes, decode_body
from dragoman.http import HttpRequest, HttpResponse
from dragoman.wires.base import SocketRequest, WireSocket

MAX_LANES = 16
"""Requests of one WebSocket that run at the same time."""
MAX_WAITING = 32
"""Requests of one WebSocket that wait for others of their lane."""
MAX_AGE = 3600.0
"""Seconds after which a WebSocket takes no more requests, as OpenAI's."""
MAX_IDLE = 600.0
"""Seconds without a request after which a WebSocket is closed."""
_OF_HTTP = ("access-control-", "cache-control", "connection", "content-", "vary")
"""Headers of a response that say nothing on a WebSocket."""
_HANDSHAKE = ("connection", "upgrade", "content-encoding", "content-length", "transfer-encoding", "x-request-id")


class ConnectionTooOld(RequestError):
    """The WebSocket is open for too long; the code is OpenAI's, and its clients connect again."""

    def __init__(self) -> None:
        message = f"a WebSocket may be open for {MAX_AGE / 60:.0f} minutes; connect again"
        super().__init__(message, code="websocket_connection_limit_reached")


class Socket(Protocol):
    """The connection, as the server adapters see it."""

    async def receive(self) -> bytes | None:
        """The next message; None after the last one."""
        ...

    async def send(self, message: bytes, /) -> None:
        """Send one message of text; waits while the client is slow, and raises ConnectionError if it is gone."""
        ...


class SocketSession:
    """One WebSocket, from its start to its end."""

    def __init__(
        self,
        app: App,
        http: HttpRequest,
        protocol: WireSocket,
        socket: Socket,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {
            name: value
            for name, value in http.headers.items()
            if name not in _HANDSHAKE and not name.startswith("sec-websocket-")
        }
        self._app = app
        self._head = replace(http, method="POST", headers=headers)
        self._protocol = protocol
        self._socket = socket
        self._clock = clock
        self._until = clock() + MAX_AGE
        self._settings = app.runtime.config.gateway
        self._recent = RecentResponses(self._settings.max_body)
        self._body_bytes = app.bodies.request(self._settings)
        """What waits, as a part of the worker's memory for bodies."""
        self._lanes: dict[str | None, deque[SocketRequest | DragomanError]] = {}
        """What waits in each lane that is running."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        """A lane has ended, or the gateway stops."""

    async def run(self) -> None:
        """Answer the client until it hangs up, or until the gateway ends the connection."""
        self._app.sockets.add(self._changed.set)
        receiving = asyncio.ensure_future(self._socket.receive())
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            while True:
                await asyncio.wait((receiving, changing), timeout=MAX_IDLE, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    message = receiving.result()
                    if message is None:
                        return
                    receiving = asyncio.ensure_future(self._socket.receive())
                    await self._take(message)
                elif not changing.done() and not self._lanes:
                    return
                if changing.done():
                    self._changed.clear()
                    changing = asyncio.ensure_future(self._changed.wait())
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
                if not self._lanes and (self._app.is_stopping or self._clock() > self._until):
                    return
        except (ConnectionError, TimeoutError):
            return  # the client is gone, or reads nothing
        finally:
            self._app.sockets.discard(self._changed.set)
            await _cancel(receiving, changing, *self._tasks)
            self._body_bytes.release()

    async def _take(self, message: bytes) -> None:
        """Put a request into its lane, and start the lane if it is not running."""
        try:
            if self._clock() > self._until:
                raise ConnectionTooOld
            if len(message) > self._settings.max_body:
                raise BodyTooLarge(f"the message is larger than {self._settings.max_body} bytes")
            http = HttpRequest(method="POST", path=self._head.path, body=message)
            request: SocketRequest | DragomanError = await decode_body(http, self._settings, self._protocol.decode)
        except DragomanError as error:
            request = error
        lane = request.lane if isinstance(request, SocketRequest) else None
        if isinstance(request, SocketRequest) and request.answer is not None:
            await self._socket.send(request.answer)
            return
        if lane in self._lanes:
            if sum(map(len, self._lanes.values())) >= MAX_WAITING or self._waiting_bytes() > self._settings.max_body:
                await self._answer(Busy("too many requests of this WebSocket are waiting; try again later"), lane)
            else:
                await self._wait_in_lane(lane, request)
        elif len(self._lanes) >= MAX_LANES:
            await self._answer(Busy(f"{MAX_LANES} requests of this WebSocket are in progress; try again later"), lane)
        else:
            self._lanes[lane] = deque([request])
            self._tasks.add(asyncio.create_task(self._run_lane(lane)))

    async def _wait_in_lane(self, lane: str | None, request: SocketRequest | DragomanError) -> None:
        waiting = self._lanes[lane]
        waiting.append(request)
        try:
            self._body_bytes.hold(self._waiting_bytes())
        except Busy as error:
            waiting.pop()
            await self._answer(error, lane)

    def _waiting_bytes(self) -> int:
        waiting = (request for lane in self._lanes.values() for request in lane)
        return sum(len(request.body) for request in waiting if isinstance(request, SocketRequest))

    async def _run_lane(self, lane: str | None) -> None:
        try:
            while waiting := self._lanes[lane]:
                request = waiting.popleft()
                self._body_bytes.hold(self._waiting_bytes())
                await self._answer(request, lane)
        finally:
            del self._lanes[lane]
            self._changed.set()

    async def _answer(self, request: SocketRequest | DragomanError, lane: str | None) -> None:
        async def read(body_bytes: BodyBytes) -> bytes:
            if isinstance(request, DragomanError):
                raise request
            body_bytes.add(len(request.body))
            return request.body

        response = await self._app.answer(self._head, read, recent=self._recent)
        headers = [header for header in response.headers if not header[0].startswith(_OF_HTTP)]
        if isinstance(response.body, bytes):
            http = HttpResponse(status=response.status, body=response.body)
            await self._socket.send(self._protocol.error(http, headers, lane))
            return

        async def write(data: bytes) -> None:
            for message in self._protocol.messages(data, lane):
                # Only the first message has what HTTP says in headers.
                first = bool(headers)
                await self._socket.send(self._protocol.with_headers(message, headers) if first else message)
                headers.clear()

        await response.body(write)


async def _cancel(*futures: "asyncio.Future[Any]") -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
