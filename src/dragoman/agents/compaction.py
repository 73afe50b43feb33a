"""A long conversation in, a short one that says the same out: its middle summed up by a model."""

from collections.abc import Sequence

import msgspec

from dragoman.api import model
from dragoman.models import Model
from dragoman.schema.validate import shorten_middle
from dragoman.types import Image, Message, Text, Thinking, ToolCall, ToolResult, user

SUMMARY = "Summary of the conversation so far:\n\n"
_ASKED = (
    "Sum up this conversation for somebody who has to carry on with it: what was asked, what was found out (with "
    "names, numbers and sources), what was decided, what is left to do. Leave out nothing that may be needed. Answer "
    "with the summary alone."
)
_LONGEST = 4_000
"""Characters that are shown of one part."""


def compact(by: Model | str, /, *, keep: int = 10) -> "Compaction":
    """What to give an agent as `compact=`: the last messages stay, those before them are summed up by a model.

    >>> import asyncio
    >>> from dragoman import Registry, user
    >>> shorten = compact(Registry(env={}).model("demo/any"), keep=2)
    >>> [message.text[:7] for message in asyncio.run(shorten([user(f"number {n}") for n in range(9)]))]
    ['Summary', 'number ', 'number ']
    """
    return Compaction(model(by) if isinstance(by, str) else by, keep)


class Compaction:
    """Sums up what is older than the last `keep` messages, once there are as many of these again."""

    def __init__(self, model: Model, keep: int) -> None:
        self._model = model
        self._keep = max(keep, 1)
        self._summed: tuple[tuple[Message, ...], tuple[Message, ...]] = (), ()
        """What was summed up, and the summary of it."""

    async def __call__(self, messages: Sequence[Message], /) -> tuple[Message, ...]:
        """The messages to send. System messages stay, and no call is parted from its result."""
        system = tuple(message for message in messages if message.role == "system")
        said = tuple(message for message in messages if message.role != "system")
        covered, summary = self._summed
        if said[: len(covered)] != covered:
            covered, summary = (), ()
        rest = said[len(covered) :]
        if len(rest) > 2 * self._keep:
            end = _cut(rest, self._keep)
            summary = (await self._sum_up((*summary, *rest[:end])),)
            covered, rest = (*covered, *rest[:end]), rest[end:]
            self._summed = covered, summary
        return (*system, *summary, *rest)

    async def _sum_up(self, messages: Sequence[Message]) -> Message:
        told = "\n\n".join(_told(message) for message in messages)
        response = await self._model.agenerate(user(told), system=_ASKED)
        return user(SUMMARY + response.text.strip())


def _cut(messages: Sequence[Message], keep: int) -> int:
    """Where the messages begin that stay: `keep` from the end, or before that, so that results follow their calls."""
    start = len(messages) - keep
    while start > 0 and messages[start].role == "tool":
        start -= 1
    return start


def _told(message: Message) -> str:
    parts = (_part(part) for part in message.parts)
    return f"{message.role}: " + "\n".join(part for part in parts if part)


def _part(part: object) -> str:
    match part:
        case Text():
            return shorten_middle(part.text, _LONGEST)
        case ToolCall():
            return f"[calls {part.name} with {shorten_middle(msgspec.json.encode(part.arguments).decode(), _LONGEST)}]"
        case ToolResult():
            return f"[{part.name} {'fails' if part.is_error else 'gives'}: {shorten_middle(part.text, _LONGEST)}]"
        case Image():
            return "[an image]"
        case Thinking():
            return ""
        case _:
            return f"[{type(part).__name__.lower()}]"
