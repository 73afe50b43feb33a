"""Chunks that differ in their text alone are not read as JSON, and say the same as if they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Malformed
from dragoman.events import Event, fold
from dragoman.types import Response, Thinking
from dragoman.wires.common.framing import Frame
from dragoman.wires.openai_chat import WIRE
from dragoman.wires.openai_chat.delta_template import DeltaTemplate

HEAD: dict[str, Any] = {"id": "r1", "object": "chat.completion.chunk", "created": 5, "model": "m"}
END: dict[str, Any] = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}


def sse(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def answer(*chunks: bytes) -> Response:
    decoder = WIRE.client.stream_decoder()
    events: list[Event] = []
    for data in (*chunks, json.dumps(END).encode(), b"[DONE]"):
        events += decoder.feed(sse(data))
    return fold(events)


def text_chunk(text: str, *, ensure_ascii: bool = True) -> bytes:
    return json.dumps(chunk({"content": text}), ensure_ascii=ensure_ascii).encode()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), st.booleans())
def test_a_text_is_whole_however_it_is_written(texts: list[str], ensure_ascii: bool) -> None:  # noqa: FBT001
    assert answer(*(text_chunk(text, ensure_ascii=ensure_ascii) for text in texts)).text == "".join(texts)


@pytest.mark.parametrize("text", ["id", "m", "content", "delta", "r1", "choices", "index", "null"])
def test_a_text_that_stands_elsewhere_in_a_chunk_is_no_other(text: str) -> None:
    assert answer(text_chunk(text), text_chunk(text), text_chunk("b"), text_chunk(text)).text == f"{text}{text}b{text}"


def test_what_stands_between_is_heard() -> None:
    more = json.dumps(chunk({"content": "c", "reasoning_content": "hm"})).encode()
    response = answer(text_chunk("a"), text_chunk("b"), more, text_chunk("d"))
    assert [type(part) for part in response.message.parts].count(Thinking) == 1


@pytest.mark.parametrize("wrong", [b'"b" "c"', b'"b', b"b", b'"\xff"', b'"\\ud800"'])
def test_what_is_broken_is_told(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        answer(text_chunk("a"), text_chunk("b"), text_chunk("c").replace(b'"c"', wrong))


def test_a_chunk_whose_text_ends_before_its_end_is_read_whole() -> None:
    bare = '{"choices":[{"delta":{"content":%s}}]}'
    chunks = [bare % '"a"', bare % '"b"', bare % '"c","refusal":"no"']
    assert answer(*map(str.encode, chunks)).finish.reason == "blocked"


def test_a_stream_whose_chunks_are_numbered_is_read() -> None:
    chunks = [json.dumps({**chunk({"content": f"{i} "}), "pad": "x" * i}).encode() for i in range(9)]
    assert answer(*chunks).text == "0 1 2 3 4 5 6 7 8 "


def test_a_refrain_is_of_frames_with_one_name() -> None:
    refrain = DeltaTemplate()
    refrain.learn(Frame("", b'{"text":"a"}'), lambda data: json.loads(data)["text"])
    assert refrain.piece(Frame("", b'{"text":"b"}')) == "b"
    assert refrain.piece(Frame("error", b'{"text":"b"}')) is None


def test_chunks_that_take_a_second_reading_are_read() -> None:
    chunks = [json.dumps({**chunk({"content": text}), "usage": ""}).encode() for text in "abcdef"]
    assert answer(*chunks).text == "abcdef"
