"""WebSocket frames (RFC 6455) without I/O: the handshake, a parser for the frames of clients, and frames to send.

There are no extensions: nothing is compressed. Every frame of a client is masked; one operation removes the mask, done
on a large number, because a loop over bytes would be a hundred times slower.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from hashlib import sha1
from typing import NamedTuple

from dragoman.gateway.server.received import ReceivedBytes

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_CONTINUATION = 0x0
_FIRST_CONTROL = 0x8
_MAX_CONTROL = 125
"""Bytes in the payload of a control frame."""
NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_LARGE, TRY_AGAIN_LATER = 1000, 1001, 1002, 1009, 1013
"""Codes of a close frame."""
_MEDIUM, _LARGE = 126, 127
"""In the place of a length: it follows in two or in eight bytes."""
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
    if size < _MEDIUM:
        return bytes((0x80 | kind, size)) + data
    if size < 65536:
        return struct.pack("!BBH", 0x80 | kind, _MEDIUM, size) + data
    return struct.pack("!BBQ", 0x80 | kind, _LARGE, size) + data


def encode_close(code: int, reason: str = "", /) -> bytes:
    """A close frame."""
    return encode_frame(CLOSE, struct.pack("!H", code) + reason.encode()[: _MAX_CONTROL - 2])


class _Frame:
    """A frame whose payload is arriving."""

    __slots__ = ("is_last", "kind", "mask", "missing")

    def __init__(self, kind: int, mask: bytes, size: int, *, is_last: bool) -> None:
        self.kind = kind
        self.mask = mask
        """For the next byte of the payload, and the three after it."""
        self.missing = size
        """Bytes of the payload that have not come."""
        self.is_last = is_last
        """Whether it ends its message."""

    def unmask(self, data: bytes, /) -> bytes:
        """The next bytes of the payload."""
        size = len(data)
        pattern = (self.mask * (size // 4 + 1))[:size]
        self.missing -= size
        turn = size % 4
        self.mask = self.mask[turn:] + self.mask[:turn]
        return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


class FrameParser:
    """Parses the frames of one client; `max_size` limits the bytes of a message.

    The mask is removed from each piece as it arrives: to do it for a whole message would take six times its memory,
    and all other clients would wait.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._head = b""
        """The bytes of a head that is not complete."""
        self._frame: _Frame | None = None
        self._kind = _CONTINUATION
        """The kind of the message whose fragments are being collected."""
        self._message = ReceivedBytes()
        self._control = b""
        """The payload of a control frame: one may come between two fragments of a message."""
        self._fragments = 0

    @property
    def held(self) -> int:
        """Bytes of what is not complete."""
        return len(self._message) + self._fragments * _FRAGMENT

    def clear(self) -> None:
        """Forget what is not complete."""
        self._head, self._frame, self._fragments = b"", None, 0
        self._message.clear()

    def feed(self, data: bytes, /) -> Iterator[FrameMessage]:
        """The messages and control frames that are complete now; raises FrameError."""
        data, self._head = self._head + data, b""
        at = 0
        while True:
            frame = self._frame
            if frame is None:
                start = _head_size(data, at)
                if start is None:
                    self._head = data[at:]
                    return
                self._frame = frame = self._begin(data[at : at + start])
                at += start
            if frame.missing:
                piece = data[at : at + frame.missing]
                at += len(piece)
                if frame.kind < _FIRST_CONTROL:
                    self._message.append(frame.unmask(piece))
                else:
                    self._control += frame.unmask(piece)
                if frame.missing:
                    return
            self._frame = None
            message = self._end(frame)
            if message is not None:
                yield message

    def _begin(self, head: bytes) -> _Frame:
        """The frame that begins with this head."""
        is_last, kind, size = bool(head[0] & 0x80), head[0] & 0x0F, head[1] & 0x7F
        if head[0] & 0x70 or not head[1] & 0x80:
            raise FrameError(PROTOCOL_ERROR, "a frame has no mask, or uses an extension")
        if kind >= _FIRST_CONTROL:
            if size > _MAX_CONTROL or not is_last:
                raise FrameError(PROTOCOL_ERROR, "a control frame is too long or fragmented")
            if kind not in (CLOSE, PING, PONG):
                raise FrameError(PROTOCOL_ERROR, "a frame has an unknown kind")
            return _Frame(kind, head[-4:], size, is_last=True)
        if (kind == _CONTINUATION) != bool(self._kind) or kind not in (_CONTINUATION, TEXT, BINARY):
            raise FrameError(PROTOCOL_ERROR, "a fragment belongs to no message")
        if size >= _MEDIUM:
            size = int.from_bytes(head[2:-4], "big")
        if self.held + size > self._max_size:
            raise FrameError(TOO_LARGE, f"the message is larger than {self._max_size} bytes")
        self._kind = self._kind or kind
        return _Frame(kind, head[-4:], size, is_last=is_last)

    def _end(self, frame: _Frame) -> FrameMessage | None:
        """The message that is complete with this frame."""
        if frame.kind >= _FIRST_CONTROL:
            payload, self._control = self._control, b""
            return FrameMessage(frame.kind, payload)
        self._fragments += 1
        if not frame.is_last:
            return None
        message = FrameMessage(self._kind, self._message.take())
        self._kind, self._fragments = _CONTINUATION, 0
        return message


def _head_size(data: bytes, at: int) -> int | None:
    """Bytes of the head that begins there; None if it is not complete. Without a mask it is refused after two."""
    if len(data) < at + 2:
        return None
    second = data[at + 1]
    size = 6 + {_MEDIUM: 2, _LARGE: 8}.get(second & 0x7F, 0) if second & 0x80 else 2
    return size if len(data) >= at + size else None
