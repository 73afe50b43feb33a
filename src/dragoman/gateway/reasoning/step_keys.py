"""The names under which the store has the state of an answer, for clients that send back no tag.

The ids of its calls name an answer, if its provider makes ids that are unique. Some servers number the calls of each
conversation, so for those the calls themselves and the message before the answer are in the name, too. An answer
without ids is named by what it says and by all that was said before it: the same text or call may come again.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from dragoman.gateway.reasoning.places import DIALECTS_WITHOUT_TAGS
from dragoman.gateway.reasoning.tag import TagKey
from dragoman.types import Message, Request, Text, ToolCall, ToolResult
from dragoman.types.json_values import plain_numbers
from dragoman.wires.common.history import system_texts

_RANDOM = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}")
"""Letters and digits that are too long for a number or a name."""


class StepKeys:
    """The names of the answers of one conversation."""

    def __init__(self, key: TagKey, dialect: str, request: Request, /) -> None:
        self._key = key
        self._dialect = dialect
        self._messages = request.messages
        self._content = blake2b(msgspec.json.encode([text.text for text in system_texts(request)]), digest_size=16)
        self._digests = [self._content.hexdigest()]
        """Of the system prompt and the first messages, by their number; as far as they were needed."""

    def of(self, index: int, calls: Sequence[ToolCall], text: str, /) -> tuple[str, ...]:
        """The names of the answer after so many messages, the best first."""
        if not calls:
            return (self._key.digest("text", self._digest_before(index), text),)
        ids = [call.id for call in calls]
        content = _content(calls)
        if all(map(_is_random, calls)):
            name = self._key.digest("ids", ids)
        else:
            before = _texts(self._messages[index - 1]) if index else []
            name = self._key.digest("calls", before, content, ids)
        if self._dialect not in DIALECTS_WITHOUT_TAGS:
            return (name,)
        # Older clients of Ollama know no ids of calls.
        return name, self._key.digest("said", self._digest_before(index), content)

    def _digest_before(self, index: int) -> str:
        for message in self._messages[len(self._digests) - 1 : index]:
            content = [message.role, _texts(message), _content(message.tool_calls)]
            self._content.update(msgspec.json.encode(content, order="deterministic"))
            self._digests.append(self._content.hexdigest())
        return self._digests[index]


def _content(calls: Sequence[ToolCall]) -> list[tuple[str, object]]:
    return [(call.name, plain_numbers(call.arguments)) for call in calls]


def _is_random(call: ToolCall) -> bool:
    """Whether the id of a call is random; some servers make it of the name and a number."""
    id = call.id.replace(call.name, "") if call.name else call.id
    return _RANDOM.search(id.replace("-", "")) is not None


def _texts(message: Message) -> list[str]:
    """What every client sends back of a message."""
    return [part.text for part in message.parts if isinstance(part, Text | ToolResult) and part.text]
