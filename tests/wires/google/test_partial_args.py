"""Arguments that come in pieces: the same call as a whole, and its text as it comes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Malformed
from dragoman.events import CallDelta, Event, Finished, PartEnded, PartStarted, fold
from dragoman.types import ToolCall, is_list, is_object
from dragoman.wires.google import WIRE
from dragoman.wires.google.partial_args import ArgumentsWriter, PathStep

NAMES = st.sampled_from(["a", "b", "é", 'q"', "x y"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)


def leaves(value: Any, path: tuple[PathStep, ...] = ()) -> list[tuple[tuple[PathStep, ...], Any]]:
    if is_object(value):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, (*path, name))]
    if is_list(value):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [(path, value)]


@given(ARGUMENTS, st.data())
def test_any_arguments_in_any_pieces_give_their_json(arguments: dict[str, Any], data: st.DataObject) -> None:
    writer, text = ArgumentsWriter(), ""
    for path, value in leaves(arguments):
        pieces: list[Any] = [value]
        if isinstance(value, str) and (cut := data.draw(st.integers(0, len(value)))):
            pieces = [value[:cut], value[cut:]]
        for piece in pieces:
            text += writer.write(path, piece)
    assert json.loads(text + writer.end()) == arguments


@pytest.mark.parametrize(
    "paths",
    [
        [["a"], ["b"], ["a"]],
        [["a", 0], ["b"], ["a", 1]],
        [["a", 1]],
        [["a", 0], ["a", 2]],
        [["a", 0], ["a", "b"]],
        [["a", "b"], ["a", 0]],
        [["a"], ["a"]],
    ],
)
def test_pieces_out_of_order_are_malformed(paths: list[list[PathStep]]) -> None:
    writer = ArgumentsWriter()
    with pytest.raises(Malformed, match="not in order"):
        [writer.write(path, 1) for path in paths]


def chunk(part: dict[str, Any] | None, **more: Any) -> bytes:
    content = {"content": {"role": "model", "parts": [part]}} if part else {}
    return b"data: " + json.dumps({"candidates": [{**content, "index": 0, **more}]}).encode() + b"\n\n"


def call(*pieces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": [*pieces], "willContinue": True, **more}}


PIECES = [
    call(name="plan", id="f1"),
    call({"jsonPath": "$.port", "stringValue": "Saint-", "willContinue": True}),
    call({"jsonPath": "$.port", "stringValue": "Malo"}),
    call({"jsonPath": "$.legs[0].hours", "numberValue": 6}, {"jsonPath": "$.legs[0].night", "boolValue": False}),
    call({"jsonPath": "$.note", "nullValue": "NULL_VALUE"}),
    {**call(willContinue=False), "thoughtSignature": "c2ln"},
]
WHOLE = {"port": "Saint-Malo", "legs": [{"hours": 6, "night": False}], "note": None}


def decoded(*chunks: bytes, call_deltas: bool = True) -> list[list[Event]]:
    """The events that each chunk completes."""
    decoder = WIRE.client.stream_decoder(None)
    decoder.call_deltas = call_deltas
    events = [decoder.feed(chunk) for chunk in chunks]
    return [*events, decoder.end()]


@pytest.mark.parametrize("call_deltas", [False, True])
def test_the_call_is_the_same_with_and_without_its_fragments(*, call_deltas: bool) -> None:
    events = decoded(*map(chunk, PIECES), chunk(None, finishReason="STOP"), call_deltas=call_deltas)
    (found,) = fold([event for each in events for event in each]).tool_calls
    assert (found.name, found.arguments) == ("plan", WHOLE)
    assert found.extra["google"]["thoughtSignature"] == "c2ln"


def test_fragments_go_out_as_they_come() -> None:
    events = decoded(*map(chunk, PIECES), chunk(None, finishReason="STOP"))
    texts = [[event.text for event in each if isinstance(event, CallDelta)] for each in events]
    assert texts[1:5] == [
        ['{"port":"Saint-'],
        ["Malo"],
        ['","legs":[{"hours":6', ',"night":false'],
        ['}],"note":null'],
    ]
    (started,) = [event for event in events[1] if isinstance(event, PartStarted)]
    assert started.name == "plan"
    assert json.loads("".join(text for each in texts for text in each)) == WHOLE


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_call_that_the_length_limit_cuts_off_never_ends(count: int) -> None:
    events = decoded(*map(chunk, PIECES[:count]), chunk(None, finishReason="MAX_TOKENS"))
    flat = [event for each in events for event in each]
    assert not [event for event in flat if isinstance(event, PartEnded) and isinstance(event.part, ToolCall)]
    assert isinstance(last := flat[-1], Finished)
    assert last.finish.reason == "length"
    assert [notice.what for notice in last.notices] == ["tool call plan"]


def test_two_calls_in_pieces_are_two_calls() -> None:
    second = [call(name="tide", id="f2"), call({"jsonPath": "$.port", "stringValue": "Brest"}, willContinue=False)]
    events = decoded(*map(chunk, [*PIECES, *second]), chunk(None, finishReason="STOP"))
    calls = fold([event for each in events for event in each]).tool_calls
    assert [(each.name, each.arguments) for each in calls] == [("plan", WHOLE), ("tide", {"port": "Brest"})]


def test_a_call_with_whole_arguments_and_pieces_comes_at_once() -> None:
    first = call({"jsonPath": "$.port", "stringValue": "rest"}, name="tide", args={"port": "B"})
    events = decoded(chunk(first), chunk(call(willContinue=False)), chunk(None, finishReason="STOP"))
    flat = [event for each in events for event in each]
    assert not [event for event in flat if isinstance(event, CallDelta)]
    assert fold(flat).tool_calls[0].arguments == {"port": "Brest"}
