"""Shortens a long conversation: a model summarizes the older messages, the last ones stay as they are."""

from collections.abc import Sequence

import msgspec

from dragoman import api
from dragoman.models import Model
from dragoman.schema.validate import shorten_middle
from dragoman.types import SYSTEM_ROLES, Image, Message, Text, Thinking, ToolCall, ToolResult, user
from dragoman.types.checks import check_whole_number, wrong_value
from dragoman.types.parameters import named_parameters

SUMMARY = "Summary of the conversation so far:\n\n"
_INSTRUCTIONS = (
    "Summarize this conversation for somebody who has to continue it: what the user wanted, what was found out (with "
    "names, numbers and sources), what was decided, what remains to do. Leave out nothing that may be needed. Answer "
    "with the summary only."
)
_MAX_PART_LENGTH = 4_000
"""Characters of one part that the summarizing model sees."""


@named_parameters
def compact(model: Model | str, *, keep: int = 10) -> "Compaction":
    """Return a hook for `Agent(compact=...)` that keeps the last messages and summarizes the older ones.

    >>> import asyncio
    >>> from dragoman import Registry, user
    >>> shorten = compact(Registry(env={}).model("demo/any"), keep=2)
    >>> [message.text[:7] for message in asyncio.run(shorten([user(f"number {n}") for n in range(9)]))]
    ['Summary', 'number ', 'number ']
    """
    check_whole_number("keep", keep)
    if not isinstance(model, str | Model):
        raise wrong_value("model", "a spec or a Model", model)
    return Compaction(api.model(model) if isinstance(model, str) else model, keep)


class Compaction:
    """Summarizes all but the last `keep` messages whenever more than twice as many have gathered."""

    def __init__(self, model: Model, keep: int) -> None:
        self._model = model
        self._keep = max(keep, 1)
        self._covered: tuple[Message, ...] = ()
        """The messages that the summary stands for."""
        self._summary: tuple[Message, ...] = ()

    async def __call__(self, messages: Sequence[Message], /) -> tuple[Message, ...]:
        """Return the messages to send. System messages stay, and no call is separated from its result."""
        system = tuple(message for message in messages if message.role in SYSTEM_ROLES)
        conversation = tuple(message for message in messages if message.role not in SYSTEM_ROLES)
        covered, summary = self._covered, self._summary
        if conversation[: len(covered)] != covered:
            covered, summary = (), ()
        rest = conversation[len(covered) :]
        if len(rest) > 2 * self._keep:
            end = _split_index(rest, self._keep)
            summary = (await self._summarize((*summary, *rest[:end])),)
            covered, rest = (*covered, *rest[:end]), rest[end:]
            self._covered, self._summary = covered, summary
        return (*system, *summary, *rest)

    async def _summarize(self, messages: Sequence[Message]) -> Message:
        transcript = "\n\n".join(map(_message_text, messages))
        response = await self._model.agenerate(user(transcript), system=_INSTRUCTIONS)
        return user(SUMMARY + response.text.strip())


def _split_index(messages: Sequence[Message], keep: int) -> int:
    """Return where the last `keep` messages start, or earlier, so that results stay with their calls."""
    start = len(messages) - keep
    while start > 0 and messages[start].role == "tool":
        start -= 1
    return start


def _message_text(message: Message) -> str:
    parts = (_part_text(part) for part in message.parts)
    return f"{message.role}: " + "\n".join(part for part in parts if part)


def _part_text(part: object) -> str:
    match part:
        case Text():
            return shorten_middle(part.text, _MAX_PART_LENGTH)
        case ToolCall():
            arguments = msgspec.json.encode(part.arguments).decode()
            return f"[calls {part.name} with {shorten_middle(arguments, _MAX_PART_LENGTH)}]"
        case ToolResult():
            return (
                f"[{part.name} {'fails' if part.is_error else 'gives'}: {shorten_middle(part.text, _MAX_PART_LENGTH)}]"
            )
        case Image():
            return "[an image]"
        case Thinking():
            return ""
        case _:
            return f"[{type(part).__name__.lower()}]"
