"""Frames of WebSockets: what a client sends is read however it is split, and what breaks the protocol is refused."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.server.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    PROTOCOL_ERROR,
    TEXT,
    TOO_LARGE,
    FrameError,
    FrameMessage,
    FrameParser,
    accept_key,
    encode_close,
    encode_frame,
)


def masked(frame: bytes, mask: bytes = b"\x01\x02\x03\x04", *, fin: bool = True, kind: int | None = None) -> bytes:
    """A frame of the server as a client would send it."""
    start = {126: 4, 127: 10}.get(frame[1], 2)
    payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(frame[start:]))
    first = (0x80 if fin else 0) | (frame[0] & 0x0F if kind is None else kind)
    return bytes((first, frame[1] | 0x80)) + frame[2:start] + mask + payload


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_messages_are_read_however_they_are_split(messages: list[bytes], size: int) -> None:
    data = b"".join(masked(encode_frame(TEXT, message), os.urandom(4)) for message in messages)
    parser, seen = FrameParser(10_000), list[FrameMessage]()
    for start in range(0, len(data), size):
        seen += parser.feed(data[start : start + size])
    assert [message.data for message in seen] == messages


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 200_000])
def test_messages_of_all_sizes(size: int) -> None:
    data = os.urandom(size)
    assert list(FrameParser(1_000_000).feed(masked(encode_frame(BINARY, data)))) == [FrameMessage(BINARY, data)]


def test_fragments_are_joined_and_a_ping_may_come_between() -> None:
    first = masked(encode_frame(TEXT, b"one "), fin=False)
    last = masked(encode_frame(TEXT, b"two"), kind=0)
    seen = list(FrameParser(1000).feed(first + masked(encode_frame(PING, b"?")) + last))
    assert seen == [FrameMessage(PING, b"?"), FrameMessage(TEXT, b"one two")]


BAD = {
    "no mask": (encode_frame(TEXT, b"hi"), PROTOCOL_ERROR),
    "an extension": (bytes((0xC1, 0x80)) + bytes(4), PROTOCOL_ERROR),
    "an unknown kind": (masked(encode_frame(0xB, b"")), PROTOCOL_ERROR),
    "a reserved kind": (masked(encode_frame(0x3, b"")), PROTOCOL_ERROR),
    "a fragment of no message": (masked(encode_frame(TEXT, b"x"), kind=0), PROTOCOL_ERROR),
    "a message within another": (masked(encode_frame(TEXT, b"x"), fin=False) * 2, PROTOCOL_ERROR),
    "a long ping": (masked(encode_frame(PING, bytes(126))), PROTOCOL_ERROR),
    "a fragmented close": (masked(encode_close(1000), fin=False), PROTOCOL_ERROR),
    "too large": (masked(encode_frame(TEXT, bytes(1001))), TOO_LARGE),
    "too large, in its head": (bytes((0x81, 0xFF)) + b"\xff" * 8 + bytes(4), TOO_LARGE),
    "many empty fragments": (
        masked(encode_frame(TEXT, b""), fin=False) + masked(encode_frame(0, b""), fin=False) * 50,
        TOO_LARGE,
    ),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD)
def test_what_breaks_the_protocol_is_refused(data: bytes, code: int) -> None:
    with pytest.raises(FrameError) as refused:
        list(FrameParser(1000).feed(data))
    assert refused.value.code == code


def test_a_close_frame_fits_into_a_control_frame() -> None:
    frame = encode_close(1009, "x" * 500)
    assert next(FrameParser(10).feed(masked(frame))).kind == CLOSE


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-websocket-version": "8", "sec-websocket-key": "x" * 24},
        {"sec-websocket-version": "13", "sec-websocket-key": "x"},
    ],
)
def test_other_handshakes_are_not_accepted(headers: dict[str, str]) -> None:
    assert accept_key(headers) is None
