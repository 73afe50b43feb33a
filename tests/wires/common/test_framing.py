import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import TooLarge, Truncated
from dragoman.wires.common.framing import (
    BARE,
    Frame,
    FrameDecoder,
    JsonArrayDecoder,
    JsonArrayEncoder,
    NdjsonDecoder,
    SseDecoder,
    encode_ndjson,
    encode_sse,
    one_line,
)
from tests.support.values import JSON, split
from tests.support.work import calls_of, memory_of

CUTS = st.lists(st.integers(0, 500), max_size=12)
SSE_BITS = st.sampled_from(
    [
        *(b"data:", b"data: ", b"event: ", b"id: 1", b"retry", b": ping", b"error: x", b'"error": {', b"a", b"{", b"}"),
        *(b"data: {}\n", b"data: [DONE]\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", "é".encode()),
    ]
)
ARRAY_BITS = st.sampled_from(
    [b"[", b"]", b"{", b"}", b'"', b"\\", b'\\"', b"\\\\", b",", b" ", b"1", b'{"a": "}"}', "é".encode()]
)


def read(decoder: FrameDecoder, pieces: Sequence[bytes]) -> tuple[list[Frame], type[Exception] | None]:
    """All frames of some bytes, and the error that ended them."""
    frames: list[Frame] = []
    try:
        for piece in (*pieces, b""):
            frames += decoder.feed(piece)
    except (TooLarge, Truncated) as error:
        return frames, type(error)
    return frames, None


def whole(*data: bytes) -> list[Frame]:
    return [Frame(name="", data=each) for each in data]


# Any split ------------------------------------------------------------------------------------------------------------


@given(st.lists(SSE_BITS, max_size=24).map(b"".join), CUTS, st.sampled_from([8, 64, 10**6]))
def test_any_split_gives_the_same_events(data: bytes, cuts: list[int], limit: int) -> None:
    assert read(SseDecoder(limit=limit), split(data, cuts)) == read(SseDecoder(limit=limit), [data])


@given(st.lists(SSE_BITS, max_size=24).map(b"".join), CUTS, st.sampled_from([8, 10**6]))
def test_any_split_gives_the_same_lines(data: bytes, cuts: list[int], limit: int) -> None:
    assert read(NdjsonDecoder(limit=limit), split(data, cuts)) == read(NdjsonDecoder(limit=limit), [data])


@given(st.lists(ARRAY_BITS, max_size=24).map(b"".join), CUTS, st.sampled_from([8, 10**6]))
def test_any_split_gives_the_same_objects(data: bytes, cuts: list[int], limit: int) -> None:
    assert read(JsonArrayDecoder(limit=limit), split(data, cuts)) == read(JsonArrayDecoder(limit=limit), [data])


# Mirrors --------------------------------------------------------------------------------------------------------------

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=12)
NAMED = st.lists(st.tuples(LINES.map(lambda text: text.removeprefix(" ")), LINES.map(str.encode)), max_size=5)


@given(NAMED, CUTS)
def test_events_are_read_as_they_were_written(events: list[tuple[str, bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_sse(data, name=name) for name, data in events)
    frames = [Frame(name=name, data=one_line(data)) for name, data in events]
    assert read(SseDecoder(), split(data, cuts)) == (frames, None)


@given(st.lists(st.dictionaries(LINES, JSON, max_size=2), max_size=5), CUTS)
def test_lines_are_read_as_they_were_written(objects: list[dict[str, Any]], cuts: list[int]) -> None:
    data = [repr(each).encode() for each in objects]
    assert read(NdjsonDecoder(), split(b"".join(map(encode_ndjson, data)), cuts)) == (whole(*map(one_line, data)), None)


@given(st.lists(st.dictionaries(LINES, LINES | st.lists(LINES), max_size=2), max_size=5), CUTS)
def test_an_array_is_read_as_it_was_written(objects: list[dict[str, Any]], cuts: list[int]) -> None:
    data = [msgspec.json.encode(each) for each in objects]
    encoder = JsonArrayEncoder()
    array = b"".join(encoder.feed(each) for each in (*data, b""))
    assert msgspec.json.decode(array) == objects
    assert read(JsonArrayDecoder(), split(array, cuts)) == (whole(*map(one_line, data)), None)


def test_an_empty_array_is_written() -> None:
    assert JsonArrayEncoder().feed(b"") == b"[]"


def test_an_event_without_a_name_has_no_event_line() -> None:
    assert encode_sse(b"{}") == b"data: {}\n\n"


# Server-sent events ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_every_way(end: bytes) -> None:
    data = end.join((b"event: a", b"data: 1", b"", b"data: 2", b"", b""))
    assert SseDecoder().feed(data) == [Frame(name="a", data=b"1"), Frame(name="", data=b"2")]


def test_a_line_end_in_two_pieces_is_one() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\r") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\r") == whole(b"1")
    assert decoder.feed(b"\ndata: 2\n\n") == whole(b"2")


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        pytest.param(b"\xef\xbb\xbfdata: 1\n\n", whole(b"1"), id="a byte order mark is left out"),
        pytest.param(b"data: 1\ndata\ndata:2\n\n", whole(b"1\n\n2"), id="lines of data are joined"),
        pytest.param(b"data:  1\n\n", whole(b" 1"), id="one space is left out"),
        pytest.param(b": ping\n:\n\n", [], id="comments are left out"),
        pytest.param(b"id: 7\nretry: 3\nerror\n\n", [], id="fields without meaning are left out"),
        pytest.param(b"event: a\n\ndata: 1\n\n", whole(b"1"), id="a name without data is forgotten"),
        pytest.param(b"event: a\nevent: b\ndata: 1\n\n", [Frame(name="b", data=b"1")], id="the last name counts"),
        pytest.param(b"event: \xff\ndata: 1\n\n", [Frame(name="�", data=b"1")], id="a name in no encoding is kept"),
        pytest.param(b"error: {}\n\n", [Frame(name="error", data=b"{}")], id="an error line is an event"),
        pytest.param(
            b"data: a\x0bb\x0cc\x1cd\x85e\n\n", whole(b"a\x0bb\x0cc\x1cd\x85e"), id="only CR and LF end lines"
        ),
        pytest.param("data: é€😀\n\n".encode(), whole("é€😀".encode()), id="characters are kept"),
    ],
)
def test_an_event_stream_is_read_as_its_specification_says(data: bytes, frames: list[Frame]) -> None:
    assert read(SseDecoder(), [data[i : i + 1] for i in range(len(data))]) == (frames, None)


@pytest.mark.parametrize("data", [b"data: 1", b"data: 1\n"])
def test_an_event_without_its_blank_line_is_not_whole(data: bytes) -> None:
    assert read(SseDecoder(), [data]) == ([Frame(name="", data=b"1", whole=False)], None)


def test_bare_json_comes_at_the_end() -> None:
    data = b'data: 1\n\n{\n  "error": {}\n}\n'
    assert read(SseDecoder(), [data]) == (
        [Frame(name="", data=b"1"), Frame(name=BARE, data=b'{\n  "error": {}\n}', whole=False)],
        None,
    )


# Lines and arrays -----------------------------------------------------------------------------------------------------


def test_blank_lines_are_left_out() -> None:
    assert read(NdjsonDecoder(), [b"{}\r\n \n\n{}\n \t"]) == (whole(b"{}", b"{}"), None)


def test_a_line_without_its_end_is_not_whole() -> None:
    assert read(NdjsonDecoder(), [b'{"a"']) == ([Frame(name="", data=b'{"a"', whole=False)], None)


@pytest.mark.parametrize(
    ("data", "objects"),
    [
        (b"[]", []),
        (b"", []),
        (b'[{"a": "]}\\"}"},\r\n{"b": [{}]}]', [b'{"a": "]}\\"}"}', b'{"b": [{}]}']),
        (b'{"error": {"code": 400}}', [b'{"error": {"code": 400}}']),
        (b'[{"a": "\\\\"}]', [b'{"a": "\\\\"}']),
        (b'["{", {}]', [b"{}"]),
        (b"[{}]]", [b"{}"]),
    ],
)
def test_the_objects_of_an_array_are_found(data: bytes, objects: list[bytes]) -> None:
    assert read(JsonArrayDecoder(), [data[i : i + 1] for i in range(len(data))]) == (whole(*objects), None)


@pytest.mark.parametrize("data", [b"[", b"[{}", b"[{}\n,", b'[{"a": "', b"{"])
def test_an_array_that_is_cut_is_truncated(data: bytes) -> None:
    assert read(JsonArrayDecoder(), [data])[1] is Truncated


# Limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("decoder", "endless"),
    [
        pytest.param(SseDecoder, b"data: aaaa", id="a line of data"),
        pytest.param(SseDecoder, b"data: aaaa\n", id="lines of data"),
        pytest.param(SseDecoder, b"data:\n", id="empty lines of data"),
        pytest.param(SseDecoder, b"{aaaa\n", id="bare lines"),
        pytest.param(SseDecoder, b": aaaa", id="a comment"),
        pytest.param(NdjsonDecoder, b'{"a": 1', id="a line"),
        pytest.param(JsonArrayDecoder, b'[{"a": "b"', id="an object"),
        pytest.param(JsonArrayDecoder, b'{"a": "\\"\\"', id="a string"),
    ],
)
def test_what_never_ends_is_too_large_in_bounded_memory(decoder: Callable[..., FrameDecoder], endless: bytes) -> None:
    limit = 100_000
    reader = decoder(limit=limit)

    def feed() -> None:
        for _ in range(limit):
            reader.feed(endless)

    def feed_until_it_is_too_large() -> None:
        with pytest.raises(TooLarge):
            feed()

    _, most = memory_of(feed_until_it_is_too_large)
    assert most < 3 * limit


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("decoder", "data"),
    [
        (SseDecoder, b"data: 1\n\n" * 20_000),
        (SseDecoder, b": ping\n\n" * 20_000),
        (NdjsonDecoder, b"{}\n" * 20_000),
        (JsonArrayDecoder, b"[" + b"{}," * 20_000),
        (JsonArrayDecoder, b'["a",' * 20_000),
    ],
)
def test_what_ends_leaves_nothing_behind(decoder: Callable[..., FrameDecoder], data: bytes) -> None:
    reader = decoder(limit=1000)

    def feed() -> None:
        for start in range(0, len(data), 1000):
            reader.feed(data[start : start + 1000])

    held, _ = memory_of(feed)
    assert held < 20_000


@pytest.mark.parametrize(
    ("decoder", "data"),
    [
        (SseDecoder, b"data: 123456789\n\n"),
        (SseDecoder, b": 123456789\n"),
        (SseDecoder, b"data: 12\ndata: 3\n\n"),
        (NdjsonDecoder, b"12345678901\n"),
        (JsonArrayDecoder, b'[{"a": 1234}]'),
    ],
)
def test_too_large_in_one_piece_is_too_large(decoder: Callable[..., FrameDecoder], data: bytes) -> None:
    with pytest.raises(TooLarge, match="larger than 10 bytes"):
        decoder(limit=10).feed(data)


@pytest.mark.parametrize(
    ("decoder", "data", "frame"),
    [
        (SseDecoder, b"data: 1\n\ndata: 123456789\n\n", b"1"),
        (NdjsonDecoder, b"{}\n12345678901\n", b"{}"),
        (JsonArrayDecoder, b'[{}, {"a": 1234}]', b"{}"),
    ],
)
def test_what_stands_before_the_too_large_is_given_first(
    decoder: Callable[..., FrameDecoder], data: bytes, frame: bytes
) -> None:
    reader = decoder(limit=10)
    assert reader.feed(data) == whole(frame)
    with pytest.raises(TooLarge):
        reader.feed(b"")


# Linear work ----------------------------------------------------------------------------------------------------------


def feed_all(decoder: FrameDecoder, pieces: Sequence[bytes]) -> Callable[[], object]:
    return lambda: [decoder.feed(piece) for piece in pieces]


@pytest.mark.parametrize(
    ("decoder", "piece"),
    [
        pytest.param(SseDecoder, b'data: {"a": 1}\n\n', id="events"),
        pytest.param(SseDecoder, b'{"a"\n', id="bare lines"),
        pytest.param(SseDecoder, b"{a\ndata: 1\n\n", id="bare lines among events"),
        pytest.param(NdjsonDecoder, b'{"a": 1}\n', id="lines"),
        pytest.param(JsonArrayDecoder, b'{"a": 1},', id="objects"),
        pytest.param(JsonArrayDecoder, b'{"a": [', id="one object"),
    ],
)
def test_ten_times_the_pieces_are_ten_times_the_work(decoder: Callable[..., FrameDecoder], piece: bytes) -> None:
    few, many = (calls_of(feed_all(decoder(), [piece] * count)) for count in (200, 2000))
    assert many < 11 * few


@pytest.mark.parametrize("decoder", [SseDecoder, NdjsonDecoder, JsonArrayDecoder])
def test_a_long_frame_in_many_pieces_is_copied_once(decoder: Callable[..., FrameDecoder]) -> None:
    """Not per piece: a buffer that grows in place has few addresses, one that is joined anew has one per piece."""
    reader: Any = decoder()
    pieces = [b'data: [{"a": "', *[b"x" * 100] * 10_000]
    buffers: set[tuple[int, int]] = set()
    for piece in pieces:
        reader.feed(piece)
        buffer = reader._buffer if decoder is JsonArrayDecoder else reader._lines._partial
        assert isinstance(buffer, bytearray)
        buffers.add((id(buffer), sys.getsizeof(buffer)))
    assert len(buffers) < 300


def encode_array(data: bytes) -> bytes:
    return JsonArrayEncoder().feed(data)


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("encode", [encode_sse, encode_ndjson, encode_array])
def test_no_character_may_be_taken_for_a_line_end(odd: str, encode: Callable[[bytes], bytes]) -> None:
    written = encode(msgspec.json.encode(f"a{odd}b"))
    assert odd not in written.decode()
    assert f"a\\u{ord(odd):04x}b" in written.decode()


@pytest.mark.parametrize(
    ("lines", "frames"),
    [
        (b'{"a":1}|{"b":2} |[DONE]', [b'{"a":1}', b'{"b":2} ', b"[DONE]"]),
        (b'{"a":1}|"b"', [b'{"a":1}\n"b"']),
        (b'{|"a":1|}', [b'{\n"a":1\n}']),
    ],
)
def test_events_with_nothing_between_them_are_told_apart_where_each_line_is_one(
    lines: bytes, frames: list[bytes]
) -> None:
    data = b"".join(b"data: %b\n" % line for line in lines.split(b"|"))
    assert [frame.data for frame in SseDecoder().feed(data + b"\n")] == frames


def test_an_event_with_nothing_after_it_is_given_when_the_next_one_begins() -> None:
    decoder = SseDecoder()
    fed = [decoder.feed(b"data: %b\n" % line) for line in (b'{"a":1}', b'{"b":2}', b"[DONE]")]
    assert fed == [[], whole(b'{"a":1}'), whole(b'{"b":2}')]
    assert decoder.feed(b"\n") == whole(b"[DONE]")


def test_an_event_with_nothing_after_it_is_whole_where_the_next_one_is_cut() -> None:
    frames, _ = read(SseDecoder(), [b'data: {"a":1}\ndata: {"b"'])
    assert frames == [*whole(b'{"a":1}'), Frame(name="", data=b'{"b"', whole=False)]


def test_a_line_may_end_in_a_lone_carriage_return() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\r") == []
    assert [frame.data for frame in decoder.feed(b"data: 2\r\r")] == [b"1\n2"]
