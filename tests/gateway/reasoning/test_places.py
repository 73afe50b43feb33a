"""Where the tags of a message are found."""

import pytest

from dragoman.gateway.reasoning.places import find_tags
from dragoman.types import Message, Thinking, ToolCall


def test_the_thinking_of_a_message_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Message] = []

    def count(message: Message) -> str:
        reads.append(message)
        return "The tide is high."

    monkeypatch.setattr(Message, "thinking", property(count))
    calls = [ToolCall(id=f"call_{n}", name="f", arguments="{}") for n in range(1000)]
    message = Message(role="assistant", parts=(Thinking("The tide is high."), *calls))
    assert find_tags("openai_chat", message) is None
    assert not reads  # nothing has an extra, so there is no tag
    call = ToolCall(id="call_x", name="f", arguments="{}", extra={"openai_chat": {"index": 0}})
    assert find_tags("openai_chat", Message(role="assistant", parts=(*message.parts, call))) is None
    assert len(reads) == 1
