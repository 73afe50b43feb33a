"""The body of one request as it arrives on a connection.

The app reads a body only after it has accepted the headers. Until then, little of it is held: the connection stops
reading at `MAX_UNREAD` bytes. A body that the app does not read is dropped after the response, so that a client that
sends everything before it reads gets the response.
"""

import asyncio
from typing import Protocol

from dragoman.errors import DragomanError
from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.errors import BodyTooLarge, BodyTooSlow, HeadTooLarge
from dragoman.gateway.server.body_limits import MAX_DRAINED, MAX_HEADERS, BodyBytes
from dragoman.gateway.server.received import ReceivedBytes

MAX_UNREAD = 64 * 1024
"""Bytes of a body that wait for the app before the connection stops reading."""


class Flow(Protocol):
    """What a body needs of its connection."""

    def pause(self) -> None:
        """Stop reading."""
        ...

    def resume(self) -> None:
        """Go on reading."""
        ...

    def invite_body(self) -> None:
        """Tell a client that waits for it (`Expect: 100-continue`) to send the body."""
        ...


class RequestBody:
    """The body of one request."""

    __slots__ = ("_flow", "_headers", "_pieces", "_settings", "_size", "_waiter", "error", "is_complete", "is_dropped")

    def __init__(self, flow: Flow, headers: dict[str, str], settings: GatewaySettings) -> None:
        self.is_complete = False
        self.error: DragomanError | None = None
        """Why the rest of the body cannot be read."""
        self._flow = flow
        self._headers = headers
        self._settings = settings
        self._pieces: list[bytes] = []
        self._size = 0
        """Bytes in `_pieces`; if the body is dropped, all bytes that were."""
        self.is_dropped = False
        """Whether nobody reads the rest."""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_expected(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body."""
        return "expect" in self._headers and not self.is_complete and not self._size

    # What the connection does ----------------------------------------------------------------------------------------

    def feed(self, data: bytes, /) -> None:
        """Some bytes have come."""
        self._size += len(data)
        if self.is_dropped:
            return
        self._pieces.append(data)
        if self._size > MAX_UNREAD:  # also if the app waits: the event loop may read many times before the app goes on
            self._flow.pause()
        if self._waiter is not None:
            self._wake()

    def end(self) -> None:
        """The body is complete."""
        self.is_complete = True
        if self._waiter is not None:
            self._wake()

    def fail(self, error: DragomanError, /) -> None:
        """What came is not the rest of the body."""
        self.error = error
        if self._waiter is not None:
            self._wake()

    def drop(self) -> None:
        """Nobody will read the rest."""
        self.is_dropped = True
        self._pieces = []
        self._size = 0
        self._flow.resume()

    @property
    def is_too_large_to_drop(self) -> bool:
        """Whether so much came since it was dropped that the connection should be closed; only for a dropped body."""
        return self._size > MAX_DRAINED

    # What the app does -----------------------------------------------------------------------------------------------

    async def read(self, body_bytes: BodyBytes, /) -> bytes:
        """The whole body."""
        headers = self._headers
        if sum(map(len, headers)) + sum(map(len, headers.values())) > MAX_HEADERS:
            raise HeadTooLarge(f"the headers are larger than {MAX_HEADERS} bytes")
        if self.is_complete and self._size <= self._settings.max_body:
            body_bytes.add(self._size)
            pieces = self._pieces
            self._flow.resume()  # so that the connection notices a client that leaves
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        timeout = self._settings.body_timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._read(body_bytes)
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive within {timeout} s") from None

    async def _read(self, body_bytes: BodyBytes) -> bytes:
        limit = self._settings.max_body
        length = int(self._headers.get("content-length", "0"))
        if length > limit and (self.is_expected or length > limit + MAX_DRAINED):
            raise BodyTooLarge(f"the body has {length} bytes; the limit is {limit}")
        if self.is_expected:
            self._flow.invite_body()
        body = ReceivedBytes()
        size = 0
        while size <= limit + MAX_DRAINED:
            piece = b"".join(self._take())
            size += len(piece)
            if size <= limit:
                body_bytes.add(len(piece))
                body.append(piece)
            if self.is_complete and not self._pieces:
                break
            if self.error is not None:
                raise self.error
            await self._wait()
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        self._flow.resume()  # so that the connection notices a client that leaves
        return body.take()

    def _take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        self._size = 0
        return pieces

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._flow.resume()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
