"""Where answers stand: what clients leave out or put elsewhere does not move them."""

import pytest

from dragoman.gateway.reasoning.answer_positions import PositionFinder, is_moved
from dragoman.gateway.reasoning.state import AnswerPosition, AnswerState, Origin, PartState
from dragoman.types import Message, ToolCall, ToolResult, assistant, user

ORIGIN = Origin("p", "m", "a")


def calls(*ids: str) -> Message:
    return Message(role="assistant", parts=tuple(ToolCall(id=id, name="tide") for id in ids))


def results(*ids: str) -> Message:
    return Message(role="tool", parts=tuple(ToolResult(id=id, content="4 m") for id in ids))


LOOP = (user("?"), calls("a", "b"), results("a", "b"))


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ((), AnswerPosition("", 0)),
        ((user("?"), assistant("!"), user("?")), AnswerPosition("", 0)),
        (LOOP, AnswerPosition("b", 1)),
        ((user("?"), calls("a", "b"), results("a"), results("b"), user("?")), AnswerPosition("b", 1)),
        ((*LOOP, assistant("!"), user("?")), AnswerPosition("b", 2)),
        ((*LOOP, assistant("!"), assistant("!"), user("?"), user("?")), AnswerPosition("b", 2)),
    ],
)
def test_the_last_call_says_where_an_answer_stands(messages: tuple[Message, ...], position: AnswerPosition) -> None:
    assert PositionFinder(messages).position == position


def test_a_client_without_ids_has_no_places() -> None:
    call = ToolCall(id="made up", name="tide", extra={"google": {}})
    assert PositionFinder((user("?"), Message(role="assistant", parts=(call,)))).position is None


@pytest.mark.parametrize(
    ("made", "found", "moved"),
    [
        (AnswerPosition("b", 1), AnswerPosition("b", 1), False),
        (AnswerPosition("b", 1), AnswerPosition("b", 2), True),
        (AnswerPosition("b", 1), AnswerPosition("", 0), True),
        (AnswerPosition("", 0), AnswerPosition("b", 1), True),
        (AnswerPosition("left out", 2), AnswerPosition("", 0), False),
        (None, AnswerPosition("b", 1), False),
        (AnswerPosition("b", 1), None, False),
    ],
)
def test_a_state_is_valid_in_its_place(
    made: AnswerPosition | None, found: AnswerPosition | None, *, moved: bool
) -> None:
    state = AnswerState(ORIGIN, (PartState(kind="thinking", extra={}),), made)
    assert is_moved(state, found, frozenset("ab")) is moved


def test_state_after_the_first_call_of_an_answer_may_follow_its_result() -> None:
    state = AnswerState(ORIGIN, (PartState(kind="thinking", extra={}, calls_before=1),), AnswerPosition("", 0))
    assert not is_moved(state, AnswerPosition("a", 1), frozenset("ab"))
