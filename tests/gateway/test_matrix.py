"""Every client before every provider: each hears what the other said, but for the published differences."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from dragoman import wires
from dragoman.errors import BadRequest, DragomanError, Overloaded, Reset, Truncated
from dragoman.events import Event, PartDelta, PartEnded, PartStarted, fold, to_events
from dragoman.testing import CloseAfter, ResetAfter, ScriptLine
from dragoman.testing.script import render
from dragoman.types import Request, Response
from tests.support.batch import for_all
from tests.support.gateway.differences import (
    ANSWERS,
    BEFORE,
    ERRORS,
    INSIDE,
    REQUESTS,
    Difference,
    T,
    comparable,
    with_differences,
)
from tests.support.gateway.fidelity import page
from tests.support.gateway.matrix_cases import CASES
from tests.support.gateway.matrix_runs import (
    KEY,
    PAIRS,
    WORDS,
    Failure,
    Pair,
    expected_failure,
    fail,
    in_the_middle,
    talk,
)
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "fidelity.md"
END_MARKERS = {
    "anthropic": (b"event: message_stop", b'"stop_reason":"end_turn"'),
    "bedrock": (b"messageStop", b'"stopReason":"end_turn"'),
    "google": (b'"finishReason"',),
    "google_interactions": (b"event: interaction.completed", b'"status":"completed"'),
    "native": (b"data: [DONE]", b'"finish_reason":"stop"'),
    "ollama": (b'"done":true',),
    "openai_chat": (b"data: [DONE]", b'"finish_reason":"stop"'),
    "openai_responses": (b"event: response.completed", b'"status":"completed"'),
}
STREAMS = [pair for pair in PAIRS if pair.stream]

each_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)
each_case = for_all("case", CASES.keys())
each_error = for_all("error", {type(error).__name__: error for error in ERRORS})


def answers(pair: Pair, case: str) -> Iterable[tuple[Response, Response]]:
    """What the provider answered and what the client saw of it, turn by turn."""
    for expected, turn in zip(CASES[case].answers(pair.provider), talk(pair, case), strict=True):
        yield expected, turn.response


def requests(pair: Pair, case: str) -> Iterable[tuple[Request, Request]]:
    """What the client asked and what the provider was asked, turn by turn."""
    sent = CASES[case].requests(pair.provider, stream=pair.stream)
    for expected, turn in zip(sent, talk(pair, case), strict=True):
        yield expected, turn.received


@each_pair
@each_case
def test_a_client_sees_what_the_provider_answered(pair: Pair, case: str) -> None:
    for expected, seen in answers(pair, case):
        assert comparable(seen, ANSWERS, pair) == with_differences(expected, ANSWERS, pair)


@each_pair
@each_case
def test_a_provider_is_asked_what_the_client_asked(pair: Pair, case: str) -> None:
    for expected, received in requests(pair, case):
        assert comparable(received, REQUESTS, pair) == with_differences(expected, REQUESTS, pair)


@each_pair
@each_case
def test_events_come_in_the_order_of_the_answer(pair: Pair, case: str) -> None:
    for turn in talk(pair, case):
        assert list(map(outline, turn.events)) == list(map(outline, to_events(turn.response)))


def outline(event: Event) -> tuple[Any, ...]:
    match event:
        case PartStarted():
            return "started", event.index, event.kind
        case PartDelta():
            return "delta", event.index, event.text
        case PartEnded():
            return "ended", event.index
        case _:
            return (type(event),)


@each_pair
@each_case
def test_what_is_lost_on_the_way_to_a_provider_is_told(pair: Pair, case: str) -> None:
    received = CASES[case].requests(pair.provider, stream=pair.stream)
    for expected, turn in zip(received, talk(pair, case), strict=True):
        for difference in REQUESTS:
            lost = with_differences(expected, [difference], pair)
            if difference.notice and lost != expected:
                assert any(difference.notice in notice for notice in turn.seen.notices), difference.name
            expected = lost  # noqa: PLW2901 - the next one finds what this one left


# Failures -------------------------------------------------------------------------------------------------------------


def look(failure: Failure) -> tuple[object, ...]:
    """What a client can tell a failure by."""
    error = failure.error
    return (
        next(kind for kind in type(error).__mro__ if kind.__module__ == "dragoman.errors"),
        error.code,
        error.retry_after,
    )


@each_pair
@each_error
def test_an_error_before_the_answer_is_told_in_the_clients_words(pair: Pair, error: DragomanError) -> None:
    failure = fail(pair, error)
    expected = expected_failure(pair.client, with_differences(error, BEFORE, pair), inside=False)
    assert (failure.seen.status, *look(failure)) == (expected.seen.status, *look(expected))
    assert failure.seen.headers.get("retry-after") == expected.seen.headers.get("retry-after")
    assert failure.events == []


@each_pair
@each_error
def test_an_error_in_the_middle_is_told_in_the_clients_words(pair: Pair, error: DragomanError) -> None:
    failure = fail(pair, in_the_middle(pair, error))
    expected = expected_failure(pair.client, with_differences(error, [*BEFORE, *INSIDE], pair), inside=pair.stream)
    assert (failure.seen.status, *look(failure)) == (expected.seen.status, *look(expected))
    assert fold(failure.events).text == (WORDS if pair.stream else "")
    assert not any(word in failure.seen.body for word in END_MARKERS[pair.client])


@each_pair
def test_a_key_that_a_provider_says_back_is_not_told(pair: Pair) -> None:
    error = BadRequest(f"no such key: {KEY}")
    for line in (error, in_the_middle(pair, error)):
        failure = fail(pair, line)
        assert KEY.encode() not in failure.seen.body
        assert KEY not in str(failure.seen.headers)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.client in ("anthropic", "native")], ids=str)
def test_an_error_has_the_id_of_its_request(pair: Pair) -> None:
    for line in (Overloaded("busy"), in_the_middle(pair, Overloaded("busy"))):
        failure = fail(pair, line)
        assert b'"request_id":"%b"' % failure.seen.headers["x-request-id"].encode() in failure.seen.body


@pytest.mark.parametrize("stream", [False, True])
def test_a_native_answer_tells_its_notices(stream: bool) -> None:  # noqa: FBT001
    (turn,) = talk(Pair("native", "ollama", stream), "options")
    assert [notice.what for notice in turn.response.notices] == ["tool_choice"]


@pytest.mark.parametrize("pair", STREAMS, ids=str)
def test_a_whole_stream_says_its_farewell(pair: Pair) -> None:
    (turn,) = talk(pair, "text")
    assert all(word in turn.seen.body for word in END_MARKERS[pair.client])


@pytest.mark.parametrize("pair", STREAMS, ids=str)
def test_a_stream_is_written_as_it_comes(pair: Pair) -> None:
    (turn,) = talk(pair, "text")
    words, ending = (
        next(index for index, write in enumerate(turn.seen.writes) if word in write)
        for word in (b"At six.", END_MARKERS[pair.client][-1])
    )
    assert words < ending


def cuts(wire: str) -> dict[str, tuple[ScriptLine, DragomanError]]:
    """Ways in which a provider may break off, once it has said some words."""
    pieces = render(WORDS, wires.get(wire), Request(stream=True)).chunks
    last = next(index for index, piece in enumerate(pieces) if WORDS.encode() in piece)
    size = sum(map(len, pieces[: last + 1]))
    return {
        "between events": (CloseAfter(size, WORDS), Truncated("cut")),
        "within an event": (CloseAfter(size + 9, WORDS), Truncated("cut")),
        "reset": (ResetAfter(size, WORDS), Reset("by peer")),
    }


@pytest.mark.parametrize("how", ["between events", "within an event", "reset"])
@pytest.mark.parametrize("pair", STREAMS, ids=str)
def test_a_cut_stream_never_ends_as_if_it_were_whole(pair: Pair, how: str) -> None:
    line, error = cuts(pair.provider)[how]
    failure = fail(pair, line)
    assert fold(failure.events).text == WORDS
    assert look(failure) == look(expected_failure(pair.client, error, inside=True))
    assert not any(word in failure.seen.body for word in END_MARKERS[pair.client])


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.stream], ids=str)
def test_a_cut_answer_is_an_error(pair: Pair) -> None:
    failure = fail(pair, CloseAfter(9, WORDS))
    expected = expected_failure(pair.client, Reset("by peer"), inside=False)
    assert (failure.seen.status, *look(failure)) == (expected.seen.status, *look(expected))


# The table ------------------------------------------------------------------------------------------------------------


def test_the_published_table_is_the_one_in_use() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tests.support.gateway.fidelity > docs/fidelity.md"
    )


@pytest.mark.parametrize("difference", ANSWERS, ids=lambda each: each.name)
def test_every_difference_of_an_answer_is_there(difference: Difference[Response]) -> None:
    turns = [(pair, *turn) for pair in PAIRS for case in CASES for turn in answers(pair, case)]
    assert is_there(difference, ANSWERS, turns)


@pytest.mark.parametrize("difference", REQUESTS, ids=lambda each: each.name)
def test_every_difference_of_a_request_is_there(difference: Difference[Request]) -> None:
    turns = [(pair, *turn) for pair in PAIRS for case in CASES for turn in requests(pair, case)]
    assert is_there(difference, REQUESTS, turns)


def is_there(difference: Difference[T], all_of_them: Sequence[Difference[T]], turns: list[tuple[Pair, T, T]]) -> bool:
    """Whether something differs without it, for each client that it names or for each provider."""
    others = [other for other in all_of_them if other is not difference]
    named = {pair for pair in PAIRS if difference.is_between(pair)}
    found = {
        pair
        for pair, expected, seen in turns
        if pair in named and comparable(seen, others, pair) != with_differences(expected, others, pair)
    }
    return bool(found) and any({pair[side] for pair in found} == {pair[side] for pair in named} for side in (0, 1))
