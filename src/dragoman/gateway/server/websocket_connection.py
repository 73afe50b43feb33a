"""A WebSocket on a connection of our own server: what `SocketSession` reads from and writes to."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Protocol

from dragoman.gateway.errors import Busy
from dragoman.gateway.server.body_limits import BodyBytes
from dragoman.gateway.server.websocket_frames import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    TEXT,
    TRY_AGAIN_LATER,
    FrameError,
    FrameParser,
    encode_close,
    encode_frame,
)

MAX_WAITING = 16
"""Messages that wait to be received before the connection stops reading."""
PIECE = 16 * 1024
"""Bytes that are parsed in one turn of the event loop: 40 000 empty frames fit into one read."""


class SocketFlow(Protocol):
    """What a WebSocket needs of its connection."""

    @property
    def is_writable(self) -> bool:
        """Whether the client reads what is written."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def send(self, data: bytes, /) -> None:
        """Write without waiting."""
        ...

    def write(self, data: bytes, /) -> Awaitable[None]:
        """Write, and wait while the client is slow; raises ConnectionError if it is gone."""
        ...


class WebSocketConnection:
    """The frames of one client as messages."""

    def __init__(self, flow: SocketFlow, max_size: int, body_bytes: BodyBytes) -> None:
        self._flow = flow
        self._body_bytes = body_bytes
        self._unparsed = b""
        self._parsed = 0
        """Bytes of `_unparsed` that were parsed."""
        self._must_wait = True
        """Whether new bytes must wait: `open`, or the next turn of the event loop, parses the next piece."""
        self._parser = FrameParser(max_size)
        self._messages: deque[bytes] = deque()
        self._message_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        """Whether the client has sent its last frame, or the connection is gone."""
        self._has_sent_close = False

    # What the connection does ----------------------------------------------------------------------------------------

    def feed(self, data: bytes, /) -> None:
        """Some bytes have come."""
        if self._is_closed:
            return
        self._unparsed, self._parsed = self._unparsed[self._parsed :] + data, 0
        if self._must_wait:
            self._flow.pause()
        else:
            self._parse()

    def open(self) -> None:
        """The handshake is answered: from now on, frames may be sent. What has come before is parsed now."""
        self._parse()

    def _parse(self) -> None:
        """Parse a piece, and go on in the next turn of the event loop if there are more."""
        self._must_wait = False
        piece = self._unparsed[self._parsed : self._parsed + PIECE]
        self._parsed += len(piece)
        self._parse_piece(piece)
        if self._messages:
            self._wake()
        if self._is_closed:
            return
        if len(self._messages) > MAX_WAITING:
            self._flow.pause()
        elif self._parsed < len(self._unparsed):
            self._flow.pause()
            self._must_wait = True
            asyncio.get_running_loop().call_soon(self._parse)
        else:
            self._unparsed, self._parsed = b"", 0
            self._flow.resume()

    def _parse_piece(self, piece: bytes) -> None:
        try:
            for kind, payload in self._parser.feed(piece):
                if kind == CLOSE:
                    self.close(int.from_bytes(payload[:2], "big") or NORMAL)
                    self.end()
                    return
                if kind == PING:
                    if self._flow.is_writable:  # a client that only sends pings must not fill the memory with answers
                        self._flow.send(encode_frame(PONG, payload))
                elif kind in (TEXT, BINARY):
                    self._messages.append(payload)
                    self._message_bytes += len(payload)
            self._count()
        except FrameError as error:
            self.close(error.code, str(error))
            self.end()
        except Busy as error:
            self.close(TRY_AGAIN_LATER, str(error))
            self.end()

    def end(self) -> None:
        """Nothing more will come."""
        self._is_closed = True
        self._parser.clear()
        self._unparsed, self._parsed = b"", 0
        self._wake()

    # What a session does ---------------------------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        """The next message; None after the last one."""
        while not self._messages:
            if self._is_closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._message_bytes -= len(message)
        self._count()
        if len(self._messages) == MAX_WAITING and not self._must_wait:
            self._parse()
        return message

    async def send(self, message: bytes, /) -> None:
        """Send a message of text; waits while the client is slow."""
        if self._has_sent_close:
            raise ConnectionResetError("the client closed the WebSocket")
        await self._flow.write(encode_frame(TEXT, message))

    def close(self, code: int, reason: str = "") -> None:
        """Send the last frame, if it is not sent yet."""
        if not self._has_sent_close:
            self._has_sent_close = True
            self._flow.send(encode_close(code, reason))

    def release(self) -> None:
        """Give back what it counted of the worker's memory for bodies."""
        self._body_bytes.release()

    def _count(self) -> None:
        self._body_bytes.hold(self._parser.held + self._message_bytes + len(self._unparsed) - self._parsed)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
