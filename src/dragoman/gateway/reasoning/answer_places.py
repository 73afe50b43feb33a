"""Where each answer of a conversation stands: a tag is valid only there.

The ids of calls say it, because all clients keep them. A client may leave out the beginning of a conversation, so a
place is compared only with what is still there.
"""

from collections.abc import Iterable

from dragoman.gateway.reasoning.state import AnswerPlace, AnswerState
from dragoman.types import Message, ToolCall
from dragoman.wires.common.extra import wire_extra


class PlaceFinder:
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
    def place(self) -> AnswerPlace | None:
        """The place of an answer that comes next; None if the client sends no ids of calls."""
        return None if self._call is None else AnswerPlace(self._call, self._turns if self._call else 0)


def is_moved(state: AnswerState, place: AnswerPlace | None, calls: frozenset[str], /) -> bool:
    """Whether a state was made for another answer than the one at `place`; `calls` are those of the conversation.

    A client may put the result of a call before the next call of the same answer, so only what came before the first
    call is compared.
    """
    own_place = state.place
    if own_place is None or place is None or own_place == place or all(part.calls_before for part in state.parts):
        return False
    return not own_place.call or own_place.call in calls


def _id(call: ToolCall) -> str | None:
    """The id of a call; None if the client of Google sent none."""
    return None if "google" in call.extra and "id" not in wire_extra(call.extra, "google") else call.id
