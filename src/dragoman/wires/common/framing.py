"""Framing of streams: server-sent events, NDJSON and JSON arrays, in both directions.

A decoder is fed bytes in chunks of any size and returns the frames that they complete. Every buffer has a limit. The
SSE decoder takes the common form of an event (one line of data) with one regular expression, and reads all other bytes
line by line.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from dragoman.errors import TooLarge, Truncated

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame above which it is `TooLarge`."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message of a stream.

    `name` is the event type of SSE. `whole` is False if the stream ended before the frame did. A frame named BARE holds
    lines that are not part of the framing, such as a plain JSON error in the middle of an event stream.
    """

    name: str
    data: bytes
    whole: bool = True


BARE = "\x00bare"


class FrameDecoder(Protocol):
    """Turns bytes into frames."""

    def feed(self, data: bytes, /) -> list[Frame]:
        """The frames that these bytes complete; b"" means that the stream ended."""
        ...


class _Bounded(ABC):
    """A frame decoder with a limit; `feed` first returns the frames before the one that is too large."""

    def __init__(self, *, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._error: TooLarge | None = None

    def feed(self, data: bytes, /) -> list[Frame]:
        if self._error is not None:
            raise self._error
        frames: list[Frame] = []
        try:
            self._read(data, frames)
        except TooLarge as error:
            self._error = error
            if not frames:
                raise
        return frames

    @abstractmethod
    def _read(self, data: bytes, frames: list[Frame]) -> None:
        """Add the frames that these bytes complete."""

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise _too_large("a frame", self._limit)


def _too_large(what: str, limit: int) -> TooLarge:
    return TooLarge(f"{what} of the stream is larger than {limit} bytes")


class _Lines:
    """Splits bytes into lines that end in \\n, \\r\\n or \\r."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\n" not in data and b"\r" not in data:
            self._hold(data)
            return
        if b"\r" in data:
            # bytes.splitlines breaks at \n, \r and \r\n only, as SSE does; str.splitlines would break at more.
            lines = data.splitlines(keepends=True)
            self._after_cr = data.endswith(b"\r")
            last = b"" if lines[-1][-1:] in (b"\n", b"\r") else lines.pop()
            lines = [line.rstrip(b"\r\n") for line in lines]
        else:
            lines = data.split(b"\n")
            last = lines.pop()
        if self._partial:
            lines[0] = self.rest() + lines[0]
        for line in lines:
            if len(line) > self._limit:
                raise _too_large("a line", self._limit)
            yield line
        self._hold(last)

    @property
    def is_partial(self) -> bool:
        return bool(self._partial) or self._after_cr

    def rest(self) -> bytes:
        rest = bytes(self._partial)
        self._partial.clear()
        return rest

    def _hold(self, data: bytes) -> None:
        if len(self._partial) + len(data) > self._limit:
            raise _too_large("a line", self._limit)
        self._partial += data


_FIELDS = (b"data", b"event", b"id", b"retry", b"error")
_LINE_COST = 48
"""Bytes that each further line of an event counts besides its length, so that empty lines are limited, too."""
_BOM = b"\xef\xbb\xbf"
_EVENTS = re.compile(rb"(?:event: ?(.*)\n)?data: ?(.*)\n\n|((?s:.+?)(?:\n\n|\Z))")
"""An event with one line of data, as nearly all are; or anything else up to an empty line or the end."""


class SseDecoder(_Bounded):
    """Decodes server-sent events, with any line end, comments, several lines of data and a byte order mark.

    >>> SseDecoder().feed(b"event: ping\\r\\ndata: {}\\r\\n\\r\\n")
    [Frame(name='ping', data=b'{}', whole=True)]
    """

    def __init__(self, *, limit: int = MAX_FRAME) -> None:
        super().__init__(limit=limit)
        self._lines = _Lines(limit)
        self._first = True
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._bare: list[bytes] = []
        self._bare_size = 0

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        if not data:
            self._end(frames)
            return
        if b"\r" in data or len(data) > self._limit:
            self._read_lines(data, frames)
            return
        if self._first or self._name or self._data or self._lines.is_partial:
            rest, gap, data = data.partition(b"\n\n")
            self._read_lines(rest + gap, frames)
        for name, value, other in _EVENTS.findall(data):
            if other:
                self._read_lines(other, frames)
            else:
                frames.append(Frame(name.decode("utf-8", "replace") if name else "", value))

    def _read_lines(self, data: bytes, frames: list[Frame]) -> None:
        for line in self._lines.feed(data):
            self._line(line, frames)

    def _end(self, frames: list[Frame]) -> None:
        if rest := self._lines.rest():
            self._line(rest, frames)
        if self._data:
            self._dispatch(frames, whole=False)
        if self._bare:
            frames.append(Frame(name=BARE, data=b"\n".join(self._bare), whole=False))
            self._bare.clear()

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                self._dispatch(frames, whole=True)
            self._name = ""
            return
        field, colon, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            if self._data and _is_complete_event(self._data[-1]) and _starts_event(value):
                self._dispatch(frames, whole=True)
            self._size += len(value) + (_LINE_COST if self._data else 0)
            self._check(self._size)
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"error" and colon:
            frames.append(Frame(name="error", data=value))
        elif field and field not in _FIELDS:
            self._bare_size += len(line) + (_LINE_COST if self._bare else 0)
            self._check(self._bare_size)
            self._bare.append(line)

    def _dispatch(self, frames: list[Frame], *, whole: bool) -> None:
        frames.append(Frame(name=self._name, data=b"\n".join(self._data), whole=whole))
        self._data.clear()
        self._size = 0


def _is_complete_event(line: bytes) -> bool:
    """Whether a line is a whole event: some servers omit the empty line between events (seen 2025-07)."""
    return _starts_event(line) and (line[:1] != b"{" or line.rstrip()[-1:] == b"}")


def _starts_event(line: bytes) -> bool:
    """Whether a line starts an event, if the line before it is a whole event."""
    return line[:1] == b"{" or line.strip() == b"[DONE]"


class NdjsonDecoder(_Bounded):
    """Decodes JSON objects, one per line.

    >>> NdjsonDecoder().feed(b'{"a":1}\\n{"b"')
    [Frame(name='', data=b'{"a":1}', whole=True)]
    """

    def __init__(self, *, limit: int = MAX_FRAME) -> None:
        super().__init__(limit=limit)
        self._lines = _Lines(limit)

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        frames.extend(Frame(name="", data=line) for line in self._lines.feed(data) if line.strip())
        if not data and (rest := self._lines.rest()).strip():
            frames.append(Frame(name="", data=rest, whole=False))


_STRUCTURE = rb'["{}\[\]]'
_STRING_END = rb'["\\]'


class JsonArrayDecoder(_Bounded):
    """Decodes the objects of a JSON array (or a single object), each as soon as it is complete.

    >>> [frame.data for frame in JsonArrayDecoder().feed(b'[{"a": "}"},\\n{"b": [1]}')]
    [b'{"a": "}"}', b'{"b": [1]}']
    """

    def __init__(self, *, limit: int = MAX_FRAME) -> None:
        super().__init__(limit=limit)
        self._structure = re.compile(_STRUCTURE)
        self._string_end = re.compile(_STRING_END)
        self._buffer = bytearray()
        self._seen = 0
        self._start = -1
        self._depth = 0
        self._in_string = False
        self._in_array = False
        self._closed = False

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        if not data and (self._depth or (self._in_array and not self._closed)):
            raise Truncated("the connection closed before the JSON array was complete (no ])")
        self._buffer += data
        self._scan(frames)
        self._check(len(self._buffer))

    def _scan(self, frames: list[Frame]) -> None:
        buffer, at = self._buffer, self._seen
        while True:
            match = (self._string_end if self._in_string else self._structure).search(buffer, at)
            if match is None:
                at = len(buffer)
                break
            byte, at = match.group(), match.end()
            if self._in_string:
                if byte == b"\\":
                    if at == len(buffer):
                        at -= 1
                        break
                    at += 1
                else:
                    self._in_string = False
            elif byte == b'"':
                self._in_string = True
            elif byte in b"{[":
                self._open(byte, at)
            else:
                self._close(byte, at, frames)
        start = self._start if self._depth else at
        del buffer[:start]
        self._start = 0
        self._seen = at - start

    def _open(self, byte: bytes, at: int) -> None:
        if not self._depth and byte == b"[":
            self._in_array = True
            return
        if not self._depth:
            self._start = at - 1
        self._depth += 1

    def _close(self, byte: bytes, at: int, frames: list[Frame]) -> None:
        if not self._depth:
            self._closed = self._closed or byte == b"]"
            return
        self._depth -= 1
        if not self._depth:
            self._check(at - self._start)
            frames.append(Frame(name="", data=bytes(self._buffer[self._start : at])))


# Clients that split with str.splitlines (google-genai 3.1, ollama 0.6) break at these characters (2026-11).
_ODD_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def one_line(data: bytes, /) -> bytes:
    """JSON without characters that some clients take for the end of a line.

    >>> one_line('"a\\u2028b"'.encode())
    b'"a\\\\u2028b"'
    """
    for odd, escaped in _ODD_LINE_ENDS:
        if odd in data:
            data = data.replace(odd, escaped)
    return data


class DetectedFraming:
    """Server-sent events, or another framing that the first byte tells; white space before it is left out."""

    def __init__(self, others: Mapping[bytes, Callable[[], FrameDecoder]], /) -> None:
        self._others = others
        self._decoder: FrameDecoder | None = None

    def feed(self, data: bytes, /) -> list[Frame]:
        if self._decoder is None:
            data = data.lstrip()
            if not data:
                return []
            self._decoder = self._others.get(data[:1], SseDecoder)()
        return self._decoder.feed(data)


def encode_sse(data: bytes, /, *, name: str = "") -> bytes:
    """One server-sent event; `data` is JSON without line breaks.

    >>> encode_sse(b"{}", name="ping")
    b'event: ping\\ndata: {}\\n\\n'
    """
    data = one_line(data)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data) if name else b"data: %b\n\n" % data


def encode_ndjson(data: bytes, /) -> bytes:
    """One line of NDJSON."""
    return one_line(data) + b"\n"


class JsonArrayEncoder:
    """Writes a JSON array, one object at a time; b"" closes it.

    >>> array = JsonArrayEncoder()
    >>> array.feed(b"{}") + array.feed(b"{}") + array.feed(b"")
    b'[{}\\n,{}\\n]'
    """

    def __init__(self) -> None:
        self._lead = b"["

    def feed(self, data: bytes, /) -> bytes:
        """The bytes of the next object, or of the closing bracket."""
        lead, self._lead = self._lead, b"\n,"
        if data:
            return lead + one_line(data)
        return b"[]" if lead == b"[" else b"\n]"
