"""AWS's event stream: any split gives the same frames, every cut raises, damage gives only our errors."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Malformed, TooLarge, Truncated
from dragoman.wires.common.event_stream import (
    EventStreamDecoder,
    encode_event,
    encode_event_message,
    encode_exception,
)
from dragoman.wires.common.framing import Frame
from tests.support.wires import laws

MESSAGES = st.lists(st.tuples(st.sampled_from(["messageStart", "metadata", ""]), st.binary(max_size=40)), max_size=5)


def decode(pieces: list[bytes], limit: int = 10_000) -> list[Frame]:
    decoder = EventStreamDecoder(limit=limit)
    return [frame for piece in (*pieces, b"") for frame in decoder.feed(piece)]


@given(messages=MESSAGES, cuts=st.lists(st.integers(0, 10_000), max_size=20))
def test_any_split_gives_the_same_frames(messages: list[tuple[str, bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_event(name, payload) for name, payload in messages)
    expected = [Frame(name=name, data=payload) for name, payload in messages]
    assert decode(laws.split(data, cuts)) == expected
    assert decode([data[i : i + 1] for i in range(len(data))]) == expected


def test_every_cut_raises() -> None:
    first, second = encode_event("messageStart", b'{"role":"assistant"}'), encode_event("metadata", b"{}")
    for cut in range(1, len(first + second)):
        if cut == len(first):
            continue
        decoder = EventStreamDecoder()
        frames = decoder.feed((first + second)[:cut])
        assert len(frames) == (1 if cut > len(first) else 0)
        with pytest.raises(Truncated):
            decoder.feed(b"")


def test_the_bytes_are_those_of_the_specification() -> None:
    # The message without headers and payload, and one of botocore's own tests.
    empty = b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff"
    assert encode_event_message({}, b"") == empty
    assert decode([empty]) == [Frame(name="", data=b"")]
    payload = (
        b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json"
        b"{'foo':'bar'}\x8d\x9c\x08\xb1"
    )
    assert encode_event_message({"content-type": "application/json"}, b"{'foo':'bar'}") == payload
    assert decode([payload])[0].data == b"{'foo':'bar'}"


def test_headers_of_every_type_are_skipped() -> None:
    data = (
        b"\x00\x00\x00\xcc\x00\x00\x00\xaf\x0f\xae\x64\xca\nevent-type\x04\x00\x00\xa0\x0c\x0ccontent-type\x07\x00\x10"
        b"application/json\nbool false\x01\tbool true\x00\x04byte\x02\xcf\x08byte buf\x06\x00\x14I'm a little teapot!"
        b"\ttimestamp\x08\x00\x00\x00\x00\x00\x84_\xed\x05int16\x03\x00*\x05int64\x05\x00\x00\x00\x00\x02\x87W\xb2\x04"
        b"uuid\t\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10{'foo':'bar'}\xab\xa5\xf1\x0c"
    )
    assert decode([data]) == [Frame(name="", data=b"{'foo':'bar'}")]


def test_botocore_reads_what_we_write() -> None:
    eventstream = pytest.importorskip("botocore.eventstream")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(encode_event("messageStop", b"{}") + encode_exception("throttlingException", b'{"message":"no"}'))
    event, exception = list(buffer)
    assert event.headers == {
        ":event-type": "messageStop",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    assert (event.payload, exception.payload) == (b"{}", b'{"message":"no"}')
    assert exception.headers[":exception-type"] == "throttlingException"


def test_errors_have_a_name_of_their_own() -> None:
    error = {":message-type": "error", ":error-code": "InternalError", ":error-message": "broken"}
    data = encode_exception("throttlingException", b"{}") + encode_event_message(error, b"")
    assert decode([data]) == [
        Frame(name="!throttlingException", data=b"{}"),
        Frame(name="!InternalError", data=b"broken"),
    ]


@pytest.mark.parametrize("place", range(len(encode_event("messageStop", b"{}"))))
def test_a_changed_byte_is_found(place: int) -> None:
    first, data = encode_event("messageStart", b"{}"), bytearray(encode_event("messageStop", b"{}"))
    data[place] ^= 1
    decoder = EventStreamDecoder()
    assert decoder.feed(first + bytes(data)) == [Frame(name="messageStart", data=b"{}")]
    with pytest.raises(Malformed):
        decoder.feed(b"")


def test_a_frame_has_a_limit() -> None:
    decoder = EventStreamDecoder(limit=100)
    data = encode_event("messageStart", bytes(101))
    with pytest.raises(TooLarge):
        decoder.feed(data[:12])
    with pytest.raises(TooLarge):
        decoder.feed(data[12:])


@pytest.mark.parametrize("body", [b'{"message": "not a stream at all"}', b"<html></html>", b"data: {}\n\n" * 3])
def test_another_format_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode([body])


def damaged(headers: bytes, *, headers_size: int | None = None) -> bytes:
    """A message with right checksums and wrong headers."""
    size = len(headers) if headers_size is None else headers_size
    prelude = struct.pack(">II", 16 + len(headers), size)
    message = prelude + zlib.crc32(prelude).to_bytes(4, "big") + headers
    return message + zlib.crc32(message).to_bytes(4, "big")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(damaged(b"", headers_size=8), id="shorter than its headers"),
        pytest.param(damaged(b"\x01a\x07\x00\x09x"), id="a header that is cut off"),
        pytest.param(damaged(b"\x01a\xff"), id="an unknown type"),
        pytest.param(damaged(b"\x09a"), id="a name that is cut off"),
        pytest.param(damaged(b"\x01\xff\x00"), id="a name that is not UTF-8"),
    ],
)
def test_damaged_headers_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode([data])
