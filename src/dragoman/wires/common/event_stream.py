"""AWS's binary event stream, in both directions.

A message is a prelude of twelve bytes (its length, the length of its headers, a checksum of both), the headers, the
payload, and a checksum of everything before. The decoder verifies both checksums before it looks inside.
"""

import struct
import zlib
from collections.abc import Mapping

from dragoman.errors import Malformed, TooLarge, Truncated
from dragoman.wires.common.framing import MAX_FRAME, Frame

CONTENT_TYPE = "application/vnd.amazon.eventstream"
PRELUDE = 12
OVERHEAD = 16
"""Bytes of a message without headers and payload."""
EXCEPTION = "!"
"""The first character of the name of a frame that is an error."""
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type; the types 6 (bytes) and 7 (text) have a length of two bytes."""
_BYTES, _TEXT = 6, 7


class EventStreamDecoder:
    """Decodes an event stream. The name of a frame is its event type, or EXCEPTION and the type of an error.

    >>> EventStreamDecoder().feed(encode_event("messageStart", b"{}"))
    [Frame(name='messageStart', data=b'{}', whole=True)]
    """

    def __init__(self, *, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._error: Malformed | TooLarge | None = None

    def feed(self, data: bytes, /) -> list[Frame]:
        """The frames that these bytes complete; b"" means that the stream ended."""
        if self._error is not None:
            raise self._error
        if not data:
            if self._buffer:
                raise Truncated("the connection closed in the middle of an event")
            return []
        self._buffer += data
        frames: list[Frame] = []
        try:
            start = self._read(frames)
        except (Malformed, TooLarge) as error:
            self._error = error
            if not frames:
                raise
            return frames
        del self._buffer[:start]
        return frames

    def _read(self, frames: list[Frame]) -> int:
        """Add the complete frames; return where the first incomplete one starts."""
        start, buffer = 0, self._buffer
        while len(buffer) - start >= PRELUDE:
            size, headers_size, checksum = struct.unpack_from(">III", buffer, start)
            if zlib.crc32(buffer[start : start + 8]) != checksum:
                raise Malformed("the stream is not an event stream of AWS, or its prelude is damaged")
            if size > self._limit:
                raise TooLarge(f"a frame of the stream is larger than {self._limit} bytes")
            if size < OVERHEAD + headers_size:
                raise Malformed("an event is shorter than its headers")
            if len(buffer) - start < size:
                break
            message = bytes(buffer[start : start + size])
            if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:], "big"):
                raise Malformed("the checksum of an event is wrong")
            payload = PRELUDE + headers_size
            frames.append(_frame(_headers(message[PRELUDE:payload]), message[payload:-4]))
            start += size
        return start


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are texts; the others have no meaning here."""
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name, kind = data[at + 1 : end].decode(), data[end]
            at = end + 1
            if kind in (_BYTES, _TEXT):
                size = int.from_bytes(data[at : at + 2], "big")
                at += 2
            else:
                size = _FIXED[kind]
            if at + size > len(data):
                raise Malformed("a header of an event is cut off")
            if kind == _TEXT:
                headers[name] = data[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise Malformed("the headers of an event are malformed") from error
    return headers


def _frame(headers: dict[str, str], payload: bytes) -> Frame:
    match headers.get(":message-type"):
        case "exception":
            return Frame(name=EXCEPTION + headers.get(":exception-type", ""), data=payload)
        case "error":
            message = headers.get(":error-message", "").encode()
            return Frame(name=EXCEPTION + headers.get(":error-code", ""), data=payload or message)
        case _:
            return Frame(name=headers.get(":event-type", ""), data=payload)


def encode_event(name: str, payload: bytes, /) -> bytes:
    """The message of an event."""
    return encode_event_message(
        {":event-type": name, ":content-type": "application/json", ":message-type": "event"}, payload
    )


def encode_exception(name: str, payload: bytes, /) -> bytes:
    """The message of an error."""
    return encode_event_message(
        {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}, payload
    )


def encode_event_message(headers: Mapping[str, str], payload: bytes, /) -> bytes:
    """A message with headers that are texts."""
    encoded = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack(">II", OVERHEAD + len(encoded) + len(payload), len(encoded))
    message = prelude + zlib.crc32(prelude).to_bytes(4, "big") + encoded + payload
    return message + zlib.crc32(message).to_bytes(4, "big")


def _header(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + bytes([_TEXT]) + len(value).to_bytes(2, "big") + value
