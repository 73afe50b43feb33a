"""No stream makes a call twice: frames that are repeated, swapped or cut off never add a call or change one."""

import pytest

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import fold
from dragoman.types import Finish, Request, Response, Text, ToolCall, Usage, assistant
from tests.support.wires.laws import read
from tests.wires.test_call_deltas import with_fragments

CALLS = (
    ToolCall(id="call_a", name="write", arguments={"text": "one two"}),
    ToolCall(id="call_b", name="tide", arguments={"port": "Brest"}),
)
RESPONSE = Response(
    id="r1",
    model="m",
    created=1,
    message=assistant(Text(text="So:"), *CALLS),
    finish=Finish(reason="tool_calls"),
    usage=Usage(input=3, output=4),
)
WITH_IDS = (
    "anthropic",
    "bedrock",
    "google",
    "google_interactions",
    "native",
    "ollama",
    "openai_chat",
    "openai_responses",
)


def frames(dialect: str, size: int) -> list[bytes]:
    """The frames of a stream with two calls, in fragments where the dialect has them."""
    encoder = wires.get(dialect).server.stream_encoder(Request(stream=True))
    data = b"".join(encoder.feed(event) for event in with_fragments(RESPONSE, size))
    if dialect == "bedrock":
        split: list[bytes] = []
        while data:
            length = int.from_bytes(data[:4], "big")
            split.append(data[:length])
            data = data[length:]
        return split
    end = b"\n" if dialect == "ollama" else b"\n\n"
    return [frame + end for frame in data.split(end) if frame]


def calls_of(dialect: str, stream: list[bytes], *, call_deltas: bool) -> tuple[list[tuple[str, str]], bool]:
    """The calls that a client could run, and whether the stream ended without an error."""
    decoder = wires.get(dialect).client.stream_decoder()
    decoder.call_deltas = call_deltas
    events, error = read(decoder, stream)
    assert error is None or isinstance(error, DragomanError)
    return [(call.name, str(call.arguments)) for call in fold(events).tool_calls], error is None


ALLOWED = [(call.name, str(call.arguments)) for call in CALLS]
each_dialect = pytest.mark.parametrize("dialect", WITH_IDS)
each_form = pytest.mark.parametrize("call_deltas", [False, True], ids=["whole", "fragments"])
each_size = pytest.mark.parametrize("size", [6, 1000])


@each_dialect
@each_form
@each_size
def test_a_frame_that_is_repeated_makes_no_second_call(dialect: str, size: int, *, call_deltas: bool) -> None:
    stream = frames(dialect, size)
    assert calls_of(dialect, stream, call_deltas=call_deltas) == (ALLOWED, True)
    for place in range(len(stream)):
        repeated = [*stream[: place + 1], *stream[place:]]
        calls, _ = calls_of(dialect, repeated, call_deltas=call_deltas)
        assert len(calls) <= len(CALLS), stream[place]
        assert set(calls) <= set(ALLOWED), stream[place]


@each_dialect
@each_form
@each_size
def test_frames_that_come_in_another_order_make_no_second_call(dialect: str, size: int, *, call_deltas: bool) -> None:
    stream = frames(dialect, size)
    for place in range(len(stream) - 1):
        swapped = [*stream[:place], stream[place + 1], stream[place], *stream[place + 2 :]]
        calls, _ = calls_of(dialect, swapped, call_deltas=call_deltas)
        assert len(calls) <= len(CALLS), stream[place : place + 2]
        assert [name for name, _ in calls].count("write") <= 1


@each_dialect
@each_form
def test_a_stream_that_is_cut_off_or_has_a_gap_makes_no_other_call(dialect: str, *, call_deltas: bool) -> None:
    stream = frames(dialect, 6)
    for place in range(len(stream)):
        for shorter in (stream[:place], [*stream[:place], *stream[place + 1 :]]):
            calls, _ = calls_of(dialect, shorter, call_deltas=call_deltas)
            assert len(calls) <= len(CALLS)
            if len(shorter) == place:
                assert set(calls) <= set(ALLOWED)


@each_dialect
@each_form
def test_a_stream_that_is_sent_twice_makes_no_second_call(dialect: str, *, call_deltas: bool) -> None:
    stream = frames(dialect, 6)
    assert calls_of(dialect, [*stream, *stream], call_deltas=call_deltas)[0] == ALLOWED
