"""TODO describe."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from dragoman.errors import DragomanError, Malformed, ProviderError, Truncated
from dragoman.events import Assembler, Event
from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import (
    JsonObject,
    Opaque,
    Request,
    Tool,
    ToolResult,
    Usage,
)
from dragoman.wires.base import StreamDecoder
from dragoman.wires.common.errors import decode_failure
from dragoman.wires.common.framing import Frame, FrameDecoder, SseDecoder


class Reader:
    """A stream decoder made of a framing, a function that reads one frame, and one that says farewell.

    >>> from dragoman.wires.common.framing import NdjsonDecoder
    >>> out = Assembler()
    >>> reader = Reader(NdjsonDecoder(), out, lambda frame: out.delta(0, "text", frame.data.decode()), lambda: None)
    >>> len(reader.feed(b"1\\n"))
    3
    """

    def __init__(
        self, framing: FrameDecoder, out: Assembler, read: Callable[[Frame], None], end: Callable[[], None]
    ) -> None:
        self.error: DragomanError | None = None
        self._framing = framing
        self._out = out
        self._read = read
        self._end = end

    @property
    def content_length(self) -> int:
        """Characters of content so far, shown or still being gathered."""
        return self._out.content_length

    def feed(self, data: bytes, /) -> list[Event]:
        """The events that these bytes complete; b"" is the end of the file."""
        if self.error is not None:
            raise self.error
        out = self._out
        if out.is_finished():
            return []
        try:
            self._advance(data)
        except DragomanError as error:
            self.error = error
            _tell_usage(error, out)
            events = out.take()
            if not data or not events:
                raise
            return events
        return out.take()

    def _advance(self, data: bytes) -> None:
        try:
            for frame in self._framing.feed(data):
                self._read(frame)
                if self._out.is_finished():
                    return
            if not data:
                self._end()
        except RecursionError as error:
            raise Malformed("an event is nested too deeply") from error


class AnswerReader(Protocol):
    """Reads one answer, whole or in frames, into an assembler."""

    out: Assembler

    def read_body(self, body: bytes, /) -> None:
        """A whole answer."""
        ...

    def read_frame(self, frame: Frame, /) -> None:
        """One frame of a stream."""
        ...

    def end(self) -> None:
        """The connection closed."""
        ...


class Client:
    """A client half, made of the functions in which wires differ.

    >>> from dragoman import wires
    >>> wires.get("anthropic").client.encode_tools((Tool(name="now"),))[0]["name"]
    'now'
    """

    def __init__(
        self,
        *,
        encode_request: Callable[[Request, Target], HttpRequest],
        encode_tools: Callable[[tuple[Tool | Opaque, ...]], list[JsonObject]],
        encode_result: Callable[[ToolResult], JsonObject],
        reader: Callable[[Request | None], AnswerReader],
        framing: Callable[[], FrameDecoder] = SseDecoder,
        decode_error: Callable[[Head, bytes], ProviderError] = decode_failure,
    ) -> None:
        self.encode_request = encode_request
        self.encode_tools = encode_tools
        self.encode_result = encode_result
        self.decode_error = decode_error
        self._reader = reader
        self._framing = framing

    def decode_body(self, body: bytes, request: Request | None = None, /) -> list[Event]:
        """The events of a whole body; an error has the usage that was told before it, as a stream's has."""
        reader = self._reader(request)
        try:
            reader.read_body(body)
        except DragomanError as error:
            _tell_usage(error, reader.out)
            raise
        return reader.out.take()

    def stream_decoder(self, request: Request | None = None, /) -> StreamDecoder:
        """A reader of one streamed answer; the request tells it what came before."""
        reader = self._reader(request)
        return Reader(self._framing(), reader.out, reader.read_frame, reader.end)


def _tell_usage(error: DragomanError, out: Assembler) -> None:
    if error.usage is None and out.usage is not None:
        error.usage = msgspec.structs.replace(out.usage, source="partial")


def truncated(wire: str, /) -> Truncated:
    """The error of a stream that ended without its farewell.

    >>> truncated("ollama").message
    'ollama: the stream ended before its end'
    """
    return Truncated(f"{wire}: the stream ended before its end")


def latest_usage(old: Usage | None, new: Usage, /) -> Usage:
    """Usage with what was told last, field by field.

    >>> latest_usage(Usage(input=3), Usage(output=1))
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
