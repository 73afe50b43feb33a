"""The events of a response in the background, in the store, for clients that ask another worker for its stream.

Such a worker leaves a mark in the store. The worker of the response looks for it, and from then on writes the events of
the response to the store, in pieces with numbers; the other worker reads one piece after the other. Nothing is written
if no client of another worker follows.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import msgspec

from dragoman.errors import Truncated
from dragoman.gateway.server.response import Write
from dragoman.gateway.store import Store
from dragoman.gateway.stored_values import read_value, store_key

TTL = 600.0
"""Seconds for which a mark and the pieces stay in the store; both are renewed while they are needed."""
POLL = 0.1
"""Seconds between two checks for the next piece."""
FIRST_PIECE_TIMEOUT = 10.0
"""Seconds in which the worker of a response must write its first piece."""
LAST_PIECE_TIMEOUT = 3.0
"""Seconds in which the next piece must come after the response has ended or its worker has died."""
MAX_PIECE = 1024 * 1024
"""Bytes of the events in one piece; a larger event is a piece of its own."""
PING = b": ping\n\n"


class EventPiece(msgspec.Struct, array_like=True, frozen=True):
    """Some events; `is_last` if no other piece follows."""

    frames: list[bytes]
    is_last: bool = False


_encode = msgspec.msgpack.Encoder().encode
decode_piece = msgspec.msgpack.Decoder(EventPiece).decode


def _mark_key(owner: str | None, id: str) -> str:
    return store_key("follow", owner, id)


def _piece_key(owner: str | None, id: str, number: int) -> str:
    return store_key("events", owner, f"{id}/{number}")


class EventWriter:
    """Writes the events of one response to the store, once another worker wants them."""

    def __init__(self, store: Store, owner: str | None, id: str) -> None:
        self._store, self._owner, self._id = store, owner, id
        self._ends: list[int] = []
        """By piece: the number of events up to its end."""
        self._is_wanted = False
        self._written_at = 0.0
        self._lock = asyncio.Lock()

    async def write(self, frames: Sequence[bytes], /, *, is_last: bool = False) -> None:
        """Write the events that are not in the store yet, if another worker requested them."""
        # A piece that is half written would get another end at the next try; so nobody cancels it.
        await asyncio.shield(self._write(frames, is_last=is_last))

    async def _write(self, frames: Sequence[bytes], *, is_last: bool) -> None:
        async with self._lock:
            if not self._is_wanted:
                self._is_wanted = await self._store.read(_mark_key(self._owner, self._id)) is not None
                self._written_at = time.monotonic()
            if not self._is_wanted:
                return
            if time.monotonic() - self._written_at > TTL / 2:
                await self._renew(frames)
            has_more = True
            while has_more:
                start = self._ends[-1] if self._ends else 0
                end = self._end_of_piece(frames, start)
                has_more = end < len(frames)
                if end > start or is_last or not self._ends:  # an empty first piece tells that others will follow
                    piece = EventPiece([*frames[start:end]], is_last and not has_more)
                    await self._put(len(self._ends), piece)
                    self._ends.append(end)

    async def _renew(self, frames: Sequence[bytes]) -> None:
        """Write the pieces again, before the first one expires."""
        self._written_at = time.monotonic()
        for number, (start, end) in enumerate(pairwise((0, *self._ends))):
            await self._put(number, EventPiece([*frames[start:end]]))

    async def _put(self, number: int, piece: EventPiece) -> None:
        await self._store.write(_piece_key(self._owner, self._id, number), _encode(piece), ttl=TTL)

    def _end_of_piece(self, frames: Sequence[bytes], start: int) -> int:
        size, end = 0, start
        while end < len(frames) and (end == start or size + len(frames[end]) <= MAX_PIECE):
            size += len(frames[end])
            end += 1
        return end


class EventReader:
    """Reads the events of a response that runs in another worker.

    `is_over` tells whether the response has ended, or its worker has died.
    """

    def __init__(self, store: Store, owner: str | None, id: str, is_over: Callable[[], Awaitable[bool]]) -> None:
        self._store, self._owner, self._id = store, owner, id
        self._is_over = is_over
        self._marked_at = 0.0
        self.count = 0
        """The events so far."""

    async def ask(self) -> bool:
        """Ask the other worker for the events, and wait until it writes them; False if it does not."""
        deadline = time.monotonic() + FIRST_PIECE_TIMEOUT
        await self._mark()
        while (await self._read(0)) is None:
            if time.monotonic() > deadline or await self._is_over():
                return False
            await asyncio.sleep(POLL)
        return True

    async def follow(self, write: Write, /, *, start: int, ping: float) -> None:
        """Write the events from a number on, as they come, until the end."""
        number = 0
        written_at = time.monotonic()
        deadline: float | None = None
        while True:
            if (piece := await self._read(number)) is not None:
                frames = piece.frames[max(0, start - self.count) :]
                number, self.count, deadline = number + 1, self.count + len(piece.frames), None
                if frames:
                    await write(b"".join(frames))
                    written_at = time.monotonic()
                if piece.is_last:
                    return
                continue
            now = time.monotonic()
            if deadline is None and await self._is_over():
                deadline = now + LAST_PIECE_TIMEOUT  # the last piece may be on its way
            elif deadline is not None and now > deadline:
                raise Truncated("the worker of the response has stopped; fetch the response instead")
            if now - written_at > ping:
                await write(PING)
                written_at = now
            if now - self._marked_at > TTL / 2:
                await self._mark()
            await asyncio.sleep(POLL)

    async def _mark(self) -> None:
        self._marked_at = time.monotonic()
        await self._store.write(_mark_key(self._owner, self._id), b"1", ttl=TTL)

    async def _read(self, number: int) -> EventPiece | None:
        return await read_value(self._store, _piece_key(self._owner, self._id, number), decode_piece)
