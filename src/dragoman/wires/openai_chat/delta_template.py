"""Frames of a stream in, the pieces of text out of those that differ in nothing else, without reading their JSON."""

from collections.abc import Callable

import msgspec

from dragoman.wires.common.framing import Frame
from dragoman.wires.openai_chat.schema import PIECE

_TEXT = msgspec.json.Decoder(str)
_SAID = msgspec.json.encode(PIECE)
_TRIES = 4
"""How often it is looked for: where each frame has a number of its own, there is none."""


class DeltaTemplate:
    """What stands around the piece of text in frame after frame."""

    _name = ""
    _before: bytes | None = None
    _after = b""
    _tries = _TRIES

    @property
    def is_sought(self) -> bool:
        """Whether it pays to learn."""
        return self._tries > 0

    def piece(self, frame: Frame) -> str | None:
        """The text of a frame that says only more of it; None of any other."""
        before, after, data = self._before, self._after, frame.data
        if before is None or not data.startswith(before) or not data.endswith(after) or frame.name != self._name:
            return None
        try:
            return _TEXT.decode(data[len(before) : len(data) - len(after)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def learn(self, frame: Frame, read: Callable[[bytes], str | None]) -> None:
        """Take a frame for the like of those that follow; `read` gives what it says, where that is nothing but text."""
        self._tries -= 1
        text = read(frame.data)
        if not text:
            return
        before, found, after = frame.data.partition(msgspec.json.encode(text))
        # The same words may stand elsewhere in it, and the text be written in another way.
        if found and read(before + _SAID + after) == PIECE:
            self._name, self._before, self._after = frame.name, before, after
