"""WebSocket frames (RFC 6455) without I/O: the handshake, a parser for the frames of clients, and frames to send.

There are no extensions: nothing is compressed. Every frame of a client is masked; one operation removes the mask, done
on a large number, because a loop over bytes would be a hundred times slower.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from hashlib import sha1
from typing import NamedTuple

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_CONTINUATION = 0x0
_FIRST_CONTROL = 0x8
_MAX_CONTROL = 125
"""Bytes in the payload of a control frame."""
NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_LARGE, TRY_AGAIN_LATER = 1000, 1001, 1002, 1009, 1013
"""Codes of a close frame."""
_FRAGMENT = 64
"""Bytes that a fragment counts for besides its payload: a client may send any number of empty ones."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class FrameError(Exception):
    """The client broke the protocol; `code` is for the close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class FrameMessage(NamedTuple):
    """A whole message, or a control frame."""

    kind: int
    data: bytes


def accept_key(headers: Mapping[str, str], /) -> str | None:
    """The value of `Sec-WebSocket-Accept`; None if the request is not a handshake of version 13.

    >>> accept_key({"sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
    's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    """
    key = headers.get("sec-websocket-key", "").strip()
    if headers.get("sec-websocket-version", "").strip() != "13" or len(key) != 24:
        return None
    return base64.b64encode(sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()).decode()


def encode_frame(kind: int, data: bytes, /) -> bytes:
    """A frame of the server, which has no mask.

    >>> encode_frame(TEXT, b"Hello").hex(" ")
    '81 05 48 65 6c 6c 6f'
    """
    size = len(data)
    if size < 126:
        return bytes((0x80 | kind, size)) + data
    if size < 65536:
        return struct.pack("!BBH", 0x80 | kind, 126, size) + data
    return struct.pack("!BBQ", 0x80 | kind, 127, size) + data


def encode_close(code: int, reason: str = "", /) -> bytes:
    """A close frame."""
    return encode_frame(CLOSE, struct.pack("!H", code) + reason.encode()[: _MAX_CONTROL - 2])


class FrameParser:
    """Parses the frames of one client; `max_size` limits the bytes of a message."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._data = bytearray()
        self._kind = _CONTINUATION
        """The kind of the message whose fragments are being collected."""
        self._fragments: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of what is not complete."""
        return len(self._data) + self._size

    def clear(self) -> None:
        """Forget what is not complete."""
        self._data, self._fragments, self._size = bytearray(), [], 0

    def feed(self, data: bytes, /) -> Iterator[FrameMessage]:
        """The messages and control frames that are complete now; raises FrameError."""
        self._data += data
        while (frame := self._frame()) is not None:
            message = self._message(*frame)
            if message is not None:
                yield message

    def _frame(self) -> tuple[bool, int, bytes] | None:
        """The next frame: whether it is the last of its message, its kind, its payload."""
        data = self._data
        if len(data) < 2:
            return None
        is_last, kind, size, start = bool(data[0] & 0x80), data[0] & 0x0F, data[1] & 0x7F, 2
        if data[0] & 0x70 or not data[1] & 0x80:
            raise FrameError(PROTOCOL_ERROR, "a frame has no mask, or uses an extension")
        if kind >= _FIRST_CONTROL and (size > _MAX_CONTROL or not is_last):
            raise FrameError(PROTOCOL_ERROR, "a control frame is too long or fragmented")
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(data) < start:
                return None
            size = int.from_bytes(data[2:start], "big")
        if kind < _FIRST_CONTROL and self._size + size > self._max_size:
            raise FrameError(TOO_LARGE, f"the message is larger than {self._max_size} bytes")
        end = start + 4 + size
        if len(data) < end:
            return None
        payload = _unmask(data[start + 4 : end], bytes(data[start : start + 4]))
        del data[:end]
        return is_last, kind, payload

    def _message(self, is_last: bool, kind: int, payload: bytes) -> FrameMessage | None:  # noqa: FBT001 - a field of a frame
        if kind >= _FIRST_CONTROL:
            if kind not in (CLOSE, PING, PONG):
                raise FrameError(PROTOCOL_ERROR, "a frame has an unknown kind")
            return FrameMessage(kind, payload)
        if (kind == _CONTINUATION) != bool(self._kind) or kind not in (_CONTINUATION, TEXT, BINARY):
            raise FrameError(PROTOCOL_ERROR, "a fragment belongs to no message")
        self._kind = self._kind or kind
        self._fragments.append(payload)
        self._size += len(payload) + _FRAGMENT
        if not is_last:
            return None
        message = FrameMessage(self._kind, b"".join(self._fragments))
        self._kind, self._fragments, self._size = _CONTINUATION, [], 0
        return message


def _unmask(data: bytearray, mask: bytes) -> bytes:
    size = len(data)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")
