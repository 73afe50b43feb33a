"""Decodes a stream of any wire: bytes to frames to events.

`FramedStreamDecoder` splits the bytes into frames (`framing.py`), feeds them to the decoder of the wire
(`wires/<name>/decoder.py`, a `ResponseDecoder`) and handles errors. A whole body goes to the same decoder.
"""

from typing import Protocol

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, Malformed, Truncated
from dragoman.events import Assembler, Event
from dragoman.types import Usage
from dragoman.wires.common.framing import Frame, FrameDecoder


class FrameReader(Protocol):
    """Decodes the frames of one stream into the events of its assembler."""

    out: Assembler

    def read_frame(self, frame: Frame, /) -> None:
        """Decode one frame of a stream."""
        ...

    def end(self) -> None:
        """Handle the end of the bytes: finish the response, or raise `Truncated`; see `out.is_body_complete`."""
        ...


class ResponseDecoder(FrameReader, Protocol):
    """Decodes one response, either frame by frame or as a whole body."""

    def read_body(self, body: bytes, /) -> None:
        """Decode a whole body."""
        ...


class FramedStreamDecoder:
    """A `StreamDecoder` that splits bytes into frames and passes them to a `FrameReader`."""

    def __init__(self, framing: FrameDecoder, reader: FrameReader, /) -> None:
        self.error: DragomanError | None = None
        self._framing = framing
        self._read_frame = reader.read_frame
        self._end = reader.end
        self._out = reader.out

    @property
    def call_deltas(self) -> bool:
        """Whether to emit the fragments of tool calls."""
        return self._out.call_deltas

    @call_deltas.setter
    def call_deltas(self, value: bool) -> None:
        self._out.call_deltas = value

    @property
    def content_length(self) -> int:
        """Characters of content so far, shown or still being gathered."""
        return self._out.content_length

    def feed(self, data: bytes, /) -> list[Event]:
        if self.error is not None:
            raise self.error
        out = self._out
        if out.is_finished():
            return []
        try:
            self._advance(data)
        except DragomanError as error:
            self.error = error
            add_reported_usage(error, out)
            events = out.take()
            if not data or not events:
                raise
            return events
        return out.take()

    def emit_call_as_text(self, name: str, /) -> None:
        self._out.shown_call = name

    def end(self, *, is_complete: bool = True) -> list[Event]:
        self._out.is_body_complete = is_complete
        return self.feed(b"")

    def _advance(self, data: bytes) -> None:
        try:
            for frame in self._framing.feed(data):
                self._read_frame(frame)
                if self._out.is_finished():
                    return
            if not data:
                self._end()
        except RecursionError as error:
            raise Malformed("an event is nested too deeply") from error
        except InvalidRequest as error:
            raise wrong_value_of_answer(error) from error


def wrong_value_of_answer(error: InvalidRequest, /) -> Malformed:
    """The error for a value of an answer that our types refuse, such as a number of tokens with 80 bits."""
    return Malformed(f"the answer has a wrong value: {error.message}")


def add_reported_usage(error: DragomanError, out: Assembler, /) -> None:
    """Give an error the usage that the response reported before it failed."""
    if error.usage is None and out.usage is not None:
        error.annotate(usage=msgspec.structs.replace(out.usage, source="partial"))


def truncated_error(wire: str, missing: str, /) -> Truncated:
    """The error of a stream that ended early; `missing` names what should have ended it.

    >>> truncated_error("google", "finishReason").message
    'google: the connection closed before the stream was complete (no finishReason)'
    """
    return Truncated(f"{wire}: the connection closed before the stream was complete (no {missing})")


def merge_usage(old: Usage | None, new: Usage, /) -> Usage:
    """Usage whose fields are those of `new`, or of `old` if `new` does not have them.

    >>> merge_usage(Usage(input=3), Usage(output=1))
    Usage(input=3, output=1, cache_read=None, cache_write=None, reasoning=None, source='reported')
    """
    if old is None:
        return new
    return Usage(
        input=old.input if new.input is None else new.input,
        output=old.output if new.output is None else new.output,
        cache_read=old.cache_read if new.cache_read is None else new.cache_read,
        cache_write=old.cache_write if new.cache_write is None else new.cache_write,
        reasoning=old.reasoning if new.reasoning is None else new.reasoning,
        source=new.source,
    )
