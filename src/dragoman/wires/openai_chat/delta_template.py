"""Reads the text of a chunk without parsing its JSON.

Most chunks of a stream differ only in their piece of text. `DeltaTemplate` learns the bytes before and after the text
from one chunk; if the next chunk starts and ends with the same bytes, only the JSON string between them is decoded.
"""

from collections.abc import Callable

import msgspec

from dragoman.wires.common.framing import Frame
from dragoman.wires.openai_chat.schema import TEXT_PLACEHOLDER

_TEXT = msgspec.json.Decoder(str)
_ENCODED_PLACEHOLDER = msgspec.json.encode(TEXT_PLACEHOLDER)
_TRIES = 4
"""How many chunks are tried: if each has a number of its own, no template fits."""


class DeltaTemplate:
    """The bytes around the piece of text in the chunks of one stream."""

    _name = ""
    _before: bytes | None = None
    _after = b""
    _tries = _TRIES

    @property
    def can_learn(self) -> bool:
        """Whether there are tries left."""
        return self._tries > 0

    def piece(self, frame: Frame) -> str | None:
        """The text of a frame that fits the template, else None."""
        before, after, data = self._before, self._after, frame.data
        if before is None or not data.startswith(before) or not data.endswith(after) or frame.name != self._name:
            return None
        try:
            return _TEXT.decode(data[len(before) : len(data) - len(after)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def learn(self, frame: Frame, read: Callable[[bytes], str | None]) -> None:
        """Make the template from a frame; `read` returns the text of a chunk that contains nothing else, or None."""
        self._tries -= 1
        text = read(frame.data)
        if not text:
            return
        before, match, after = frame.data.partition(msgspec.json.encode(text))
        # The same text may also be elsewhere in the chunk, or be escaped differently.
        if match and read(before + _ENCODED_PLACEHOLDER + after) == TEXT_PLACEHOLDER:
            self._name, self._before, self._after = frame.name, before, after
