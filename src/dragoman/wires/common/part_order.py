"""One part at a time, for protocols whose streams have no interleaved blocks."""

from collections.abc import Callable
from typing import TypeAlias

from dragoman.events import CallDelta, PartDelta, PartEnded, PartStarted

PartEvent: TypeAlias = PartStarted | PartDelta | CallDelta | PartEnded


class PartOrder:
    """Writes the events of parts one part after another; those of a later part wait until the current part ends."""

    def __init__(self, write: Callable[[PartEvent], bytes]) -> None:
        self._write = write
        self._current: int | None = None
        self._waiting: dict[int, list[PartEvent]] = {}

    def feed(self, event: PartEvent) -> bytes:
        """The bytes of the event, and of those that waited for it; b"" if it has to wait."""
        if self._current is None:
            self._current = event.index
        if event.index != self._current:
            self._waiting.setdefault(event.index, []).append(event)
            return b""
        pieces, last = [self._write(event)], event
        while isinstance(last, PartEnded) and self._waiting:
            self._current = next(iter(self._waiting))
            for last in self._waiting.pop(self._current):
                pieces.append(self._write(last))
        if isinstance(last, PartEnded):
            self._current = None
        return b"".join(pieces)

    def cut(self, stop: Callable[[], bytes]) -> bytes:
        """Write what waits for a call that the length limit cut off; `stop` ends an open block, not its input."""
        pieces: list[bytes] = []
        is_open = True
        while self._current is not None:
            if is_open:
                pieces.append(stop())
            self._current = next(iter(self._waiting), None)
            for event in self._waiting.pop(self._current, ()) if self._current is not None else ():
                pieces.append(self._write(event))
                is_open = not isinstance(event, PartEnded)
        return b"".join(pieces)
