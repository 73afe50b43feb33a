"""Where each answer of a conversation stands: a tag is valid only there.

The ids of calls say it, because all clients keep them. A client may leave out the beginning of a conversation, so a
position is compared only with what is still there.
"""

from collections.abc import Iterable

from dragoman.gateway.reasoning.state import AnswerPosition, AnswerState
from dragoman.types import Message, ToolCall
from dragoman.wires.common.extra import wire_extra


class PositionFinder:
    """Reads the messages of a conversation in their order, and says where the next one stands."""

    def __init__(self, messages: Iterable[Message] = (), /) -> None:
        self._call: str | None = ""
        self._turns = 0
        self._is_answer = True
        for message in messages:
            self.read(message)

    def read(self, message: Message, /) -> None:
        """Go on after a message."""
        is_answer = message.role == "assistant"
        self._turns += self._is_answer and not is_answer
        self._is_answer = is_answer
        if is_answer and (calls := message.tool_calls):
            self._call, self._turns = _id(calls[-1]), 0

    @property
    def position(self) -> AnswerPosition | None:
        """The position of an answer that comes next; None if the client sends no ids of calls."""
        return None if self._call is None else AnswerPosition(self._call, self._turns if self._call else 0)


def is_moved(state: AnswerState, position: AnswerPosition | None, calls: frozenset[str], /) -> bool:
    """Whether a state was made for another answer than the one at `position`; `calls` are those of the conversation.

    A client may put the result of a call before the next call of the same answer, so only what came before the first
    call is compared.
    """
    own = state.position
    if own is None or position is None or own == position or all(part.calls_before for part in state.parts):
        return False
    return not own.call or own.call in calls


def _id(call: ToolCall) -> str | None:
    """The id of a call; None if the client of Google sent none."""
    return None if "google" in call.extra and "id" not in wire_extra(call.extra, "google") else call.id
