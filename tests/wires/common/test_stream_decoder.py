from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.errors import (
    DragomanError,
    InvalidRequest,
    Malformed,
    Overloaded,
    ProviderError,
    TooLarge,
    Truncated,
    Unsupported,
)
from dragoman.events import Assembler, Finished, PartDelta, PartStarted, Started
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Finish, FinishReason, Notice, Request, Usage
from dragoman.wires.common.errors import error_headers
from dragoman.wires.common.extra import body_extra, make_extra, request_extra, wire_extra
from dragoman.wires.common.framing import Frame, NdjsonDecoder
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import decode_frame, decode_json, encode_json, preview, whole_number, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import finish_word
from dragoman.wires.common.stream_decoder import FramedStreamDecoder, merge_usage, truncated_error

ANY: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()
DEEP = b"[" * 100_000
TARGET = Target(provider="groq", model="m", wire="openai_chat", base_url="https://x/v1/", api_key="hush")


# Notes ----------------------------------------------------------------------------------------------------------------


def test_a_notice_is_noted_once_in_order() -> None:
    notes = NoticeCollector("ollama")
    for what in ("user", "seed", "user"):
        notes.add("dropped", what, "it has none")
    assert notes.notices == tuple(
        Notice(kind="dropped", what=what, why="ollama: it has none") for what in ("user", "seed")
    )


@pytest.mark.parametrize("kind", ["dropped", "changed"])
def test_under_strict_a_loss_is_refused(kind: Any) -> None:
    with pytest.raises(Unsupported, match=r"^seed: ollama: it has none \(strict\)$"):
        NoticeCollector("ollama", strict=True).add(kind, "seed", "it has none")


def test_under_strict_what_is_no_loss_is_noted() -> None:
    notes = NoticeCollector("ollama", strict=True)
    notes.extend(Notice(kind="repaired", what="call a", why="no result"))
    assert len(notes.notices) == 1


# The reader -----------------------------------------------------------------------------------------------------------


class Lines:
    """A wire of one word a line: a text, or one of the words below."""

    def __init__(self) -> None:
        self.out = Assembler()
        self.reader = FramedStreamDecoder(NdjsonDecoder(limit=100), self)

    def read_frame(self, frame: Frame) -> None:
        match frame.data:
            case b"done":
                self.out.finish(Finish(reason="stop"))
            case b"usage":
                self.out.usage = Usage(input=3)
            case b"busy":
                raise Overloaded("busy")
            case b"paid":
                raise Overloaded("busy", usage=Usage(input=9))
            case b"deep":
                ANY.decode(DEEP)
            case text:
                self.out.delta("text", "text", text.decode())

    def end(self) -> None:
        raise truncated_error("lines", "done")


def test_events_come_as_their_frames_do() -> None:
    reader = Lines().reader
    assert reader.feed(b"a") == []
    assert reader.feed(b"\n") == [Started(), PartStarted(index=0, kind="text"), PartDelta(index=0, text="a")]
    assert isinstance(reader.feed(b"done\n")[-1], Finished)


def test_what_was_heard_is_counted() -> None:
    reader = Lines().reader
    reader.feed(b"abc\nde")
    assert reader.content_length == 3


def test_what_follows_the_end_is_not_read() -> None:
    reader = Lines().reader
    events = reader.feed(b"a\ndone\nbusy\n")
    assert isinstance(events[-1], Finished)
    assert reader.feed(b"busy\n") == []
    assert reader.feed(b"") == []


def test_a_stream_that_ends_without_its_farewell_is_truncated() -> None:
    reader = Lines().reader
    reader.feed(b"a\n")
    with pytest.raises(Truncated, match=r"^lines: the connection closed before the stream was complete \(no done\)$"):
        reader.feed(b"")


def test_the_wire_sees_whether_the_body_was_complete() -> None:
    whole, cut, closed = Lines(), Lines(), Lines()
    with pytest.raises(Truncated):
        whole.reader.end()
    with pytest.raises(Truncated):
        cut.reader.end(is_complete=False)
    with pytest.raises(Truncated):
        closed.reader.feed(b"")
    assert [lines.out.is_body_complete for lines in (whole, cut, closed)] == [True, False, False]


def test_a_farewell_without_its_line_end_is_one() -> None:
    reader = Lines().reader
    assert reader.feed(b"done") == []
    assert isinstance(reader.feed(b"")[-1], Finished)


def test_an_error_is_raised_after_the_events_before_it() -> None:
    reader = Lines().reader
    assert len(reader.feed(b"a\nbusy\n")) == 3
    assert isinstance(reader.error, Overloaded)
    for _ in range(2):
        with pytest.raises(Overloaded):
            reader.feed(b"b\n")


def test_an_error_without_events_before_it_is_raised_at_once() -> None:
    with pytest.raises(Overloaded):
        Lines().reader.feed(b"busy\na\n")


def test_an_error_at_the_end_is_raised_there() -> None:
    reader = Lines().reader
    reader.feed(b"busy")
    with pytest.raises(Overloaded):
        reader.feed(b"")


@pytest.mark.parametrize(
    ("data", "usage"),
    [
        (b"busy\n", None),
        (b"usage\nbusy\n", Usage(input=3, source="partial")),
        (b"usage\npaid\n", Usage(input=9)),
        (b"usage\n" + b"x" * 200, Usage(input=3, source="partial")),
    ],
)
def test_an_error_has_the_usage_that_was_told_before_it(data: bytes, usage: Usage | None) -> None:
    reader = Lines().reader
    with pytest.raises(DragomanError) as caught:
        [reader.feed(piece) for piece in (data, b"")]
    assert caught.value.usage == usage


def test_what_is_too_large_comes_after_the_events_before_it() -> None:
    reader = Lines().reader
    assert len(reader.feed(b"a\n" + b"x" * 200)) == 3
    with pytest.raises(TooLarge):
        reader.feed(b"")


def test_an_event_that_is_too_deep_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"^an event is nested too deeply$"):
        Lines().reader.feed(b"deep\n")


# JSON -----------------------------------------------------------------------------------------------------------------

NUMBERS: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(dict[str, int])


@pytest.mark.parametrize(
    ("data", "whole", "error"),
    [
        (b'{"a": ', True, Malformed),
        (b'{"a": ', False, Truncated),
        (b"", False, Truncated),
        (b'{"a": "b"}', True, Malformed),
        (b'{"a": "b"}', False, Malformed),
        (b'{"a": "b"', False, Truncated),
        (b"<html>It works!</html>", False, Malformed),
        (b'{"\xff": 1}', True, Malformed),
        (b'{"a":' + DEEP, True, Malformed),
    ],
)
def test_a_frame_that_cannot_be_read_is_an_error_of_ours(
    data: bytes, error: type[DragomanError], *, whole: bool
) -> None:
    with pytest.raises(error) as caught:
        decode_frame(NUMBERS if len(data) < 100 else ANY, Frame(name="", data=data, whole=whole))
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Truncated),
        (b" \n", Truncated),
        (b'{"a": ', Truncated),
        (b"<html>", Malformed),
        (b'{"a": "b"}', Malformed),
        (b'{"\xff": 1}', Malformed),
        (b'{"a":' + DEEP, Malformed),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error_of_ours(data: bytes, error: type[DragomanError]) -> None:
    with pytest.raises(error):
        decode_json(NUMBERS if len(data) < 100 else ANY, data)


def test_json_is_read() -> None:
    assert decode_json(NUMBERS, b' {"a": 1} ') == {"a": 1}
    assert decode_frame(NUMBERS, Frame(name="", data=b' {"a": 1} ')) == {"a": 1}


def test_a_blank_frame_says_nothing() -> None:
    assert decode_frame(NUMBERS, Frame(name="ping", data=b" ")) == {}


def test_a_preview_is_short_and_readable() -> None:
    assert preview(b"\xff" + b"x" * 1000) == "\ufffd" + "x" * 199


class Deep:
    """Not JSON."""


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [Deep(), "\ud800", {1.5j: 1}, nested(1_000_000)], ids=["object", "surrogate", "key", "deep"]
)
def test_a_request_that_cannot_be_json_is_invalid(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^the request cannot be encoded as JSON: "):
        encode_json(value)


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_request_goes_to_the_target_with_its_key_and_headers() -> None:
    notes = NoticeCollector("openai_chat")
    notes.add("dropped", "seed", "it has none")
    target = msgspec.structs.replace(TARGET, headers={"x-title": "t"})
    assert post_request(target, "/chat", {"a": 1}, notes, accept="text/event-stream") == HttpRequest(
        method="POST",
        origin="https://x",
        path="/v1/chat",
        headers={
            "content-type": "application/json",
            "accept": "text/event-stream",
            "authorization": "Bearer hush",
            "x-title": "t",
        },
        body=b'{"a":1}',
        notices=notes.notices,
        secret="hush",
    )


@pytest.mark.parametrize(
    ("extra", "own"), [({}, {}), ({"w": {"a": 1}}, {"a": 1}), ({"w": 1}, {}), ({"v": {"a": 1}}, {})]
)
def test_extra_is_given_to_its_own_wire(extra: dict[str, Any], own: dict[str, Any]) -> None:
    assert wire_extra(extra, "w") == own


def test_the_body_has_the_extra_of_its_wire_and_then_of_its_provider() -> None:
    notes = NoticeCollector("openai_chat")
    request = Request(extra={"groq": {"a": 1}, "openai_chat": {"a": 2, "b": 2}, "ollama": {"c": 3}})
    assert body_extra(request, TARGET, notes) == {"a": 1, "b": 2}
    assert [(notice.kind, notice.what) for notice in notes.notices] == [("dropped", "ollama: c")]


def test_what_our_own_words_say_whole_is_not_reported_lost() -> None:
    notes = NoticeCollector("openai_chat")
    request = Request(top_k=5, extra=request_extra("google", {"labels": {}}, {"topK": 5}))
    body_extra(request, TARGET, notes)
    assert [notice.what for notice in notes.notices] == ["google: labels"]


def test_the_body_has_what_a_client_of_its_wire_said() -> None:
    request = Request(extra=request_extra("openai_chat", {"n": 2}, {"top_k": 5}))
    assert body_extra(request, TARGET, NoticeCollector("openai_chat")) == {"n": 2, "top_k": 5}


def test_a_server_may_know_no_other_fields() -> None:
    request = Request(extra={**request_extra("openai_chat", {"n": 2}, {"k": 1}), "openai": {"a": 1}})
    notes = NoticeCollector("openai_chat")
    strict = replace(TARGET, provider="openai", quirks=replace(TARGET.quirks, accepts_unknown_fields=False))
    assert body_extra(request, strict, notes) == {"k": 1, "a": 1}
    assert [(notice.what, notice.why) for notice in notes.notices] == [("openai_chat: n", "openai_chat: not supported")]


def test_what_is_not_told_is_not_sent() -> None:
    assert without_none({"a": None, "b": 0, "c": "", "d": False}) == {"b": 0, "c": "", "d": False}


@pytest.mark.parametrize(("data", "extra"), [({}, {}), ({"a": 1}, {"w": {"a": 1}})])
def test_no_extra_is_made_of_nothing(data: dict[str, Any], extra: dict[str, Any]) -> None:
    assert make_extra("w", data) == extra


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (0, 0), (True, None), ("3", None), (3.0, 3), (3.5, None), (None, None)]
)
def test_only_a_whole_number_is_one(value: object, number: int | None) -> None:
    assert whole_number(value) == number


# Answers --------------------------------------------------------------------------------------------------------------

MEANINGS: dict[str, FinishReason] = {"stop": "stop", "eos": "stop", "length": "length"}
WORDS: dict[FinishReason, str] = {"stop": "stop", "length": "length"}


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [("stop", "eos", "eos"), ("stop", None, "stop"), ("stop", "end_turn", "stop"), ("length", "eos", "length")],
)
def test_a_finish_is_said_in_the_providers_own_word_where_it_means_the_same(
    reason: FinishReason, raw: str | None, word: str
) -> None:
    assert finish_word(Finish(reason=reason, raw=raw), MEANINGS, WORDS) == word


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.2, "1"), (1.5, "2"), (2.1, "3"), (30.0, "30")])
def test_a_refusal_says_when_to_ask_again_and_never_too_early(seconds: float, header: str) -> None:
    assert error_headers(ProviderError("no", retry_after=seconds))["retry-after"] == header


def test_a_refusal_that_does_not_know_when_says_nothing() -> None:
    assert error_headers(ProviderError("no")) == {"content-type": "application/json"}


def test_the_usage_told_last_counts_field_by_field() -> None:
    old = Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5)
    assert merge_usage(old, Usage(output=9)) == Usage(input=1, output=9, cache_read=3, cache_write=4, reasoning=5)
    assert merge_usage(Usage(output=9), old) == old


def test_the_first_usage_is_taken_as_it_is() -> None:
    assert merge_usage(None, Usage(input=1, source="partial")) == Usage(input=1, source="partial")


def test_the_source_of_usage_is_that_of_the_last() -> None:
    assert merge_usage(Usage(input=1), Usage(output=2, source="estimated")).source == "estimated"
