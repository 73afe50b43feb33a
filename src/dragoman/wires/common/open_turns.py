"""Messages that are not complete while a client's request is decoded: others add parts, or the names of calls."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.types import Message, Part, Role, ToolCall, ToolResult
from dragoman.types.base import unchecked
from dragoman.types.fast_constructors import new_message


class OpenTurn(msgspec.Struct):
    """A message that may still grow."""

    role: Role
    parts: list[Part]
    extra: dict[str, Any] = {}


def add_user_turn(turns: list[OpenTurn], results: list[Part], parts: list[Part], extra: dict[str, Any]) -> None:
    """Add what one message of a user has: results join those before them, other parts are a turn of their own."""
    if results:
        if not turns or turns[-1].role != "tool":
            turns.append(OpenTurn(role="tool", parts=[]))
        turns[-1].parts += results
        turns[-1].extra = {} if parts else extra
    if parts or not results:
        turns.append(OpenTurn(role="user", parts=parts, extra=extra))


class UnlinkedResult(msgspec.Struct, frozen=True):
    """A result as its own message has it; the message of the call may have more fields."""

    result: ToolResult

    def link(self, id: str, name: str) -> ToolResult:
        """The result with the id and the name of its call."""
        result = self.result
        return result if result.id == id and result.name == name else unchecked(result, id=id, name=name)


class DecodedMessage(msgspec.Struct):
    """A message before its results have names, of a dialect whose results are blocks of user messages."""

    message: Message
    """The message without its results; its role is "tool" if it has nothing else."""
    results: tuple[UnlinkedResult, ...] = ()


def link_results(items: Iterable[DecodedMessage]) -> tuple[Message, ...]:
    """The turns: results have the names of their calls, and turns of their own, before the user's text."""
    turns: list[Message] = []
    results: list[Part] = []
    extra: dict[str, Any] = {}
    names: dict[str, str] = {}
    for item in items:
        message = item.message
        if item.results:
            results += [each.link(each.result.id, names.get(each.result.id, "")) for each in item.results]
            extra = message.extra if message.role == "tool" else {}
            if message.role == "tool":
                continue
        if results:
            turns.append(new_message("tool", tuple(results), extra))
            results = []
        if message.role == "assistant":
            for part in message.parts:
                if isinstance(part, ToolCall):
                    names[part.id] = part.name
        turns.append(message)
    if results:
        turns.append(new_message("tool", tuple(results), extra))
    return tuple(turns)
