"""Calls whose thinking is lost, for targets that refuse such calls: what they did becomes text of the user.

The results say which call they are of. The text does not depend on what follows, so the beginning of the conversation
stays the same in later requests.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dragoman.events import arguments_text
from dragoman.types import Document, Image, Message, Part, Text, ToolCall, ToolResult
from dragoman.wires.common.history import error_text


def calls_as_text(messages: Iterable[Message], calls: Mapping[str, ToolCall], /) -> tuple[Message, ...]:
    """The messages with texts in place of the results of some calls, by id. The calls themselves are already away."""
    return tuple(_without_results(message, calls) for message in messages)


def _without_results(message: Message, calls: Mapping[str, ToolCall]) -> Message:
    if not any(result.id in calls for result in message.tool_results):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResult) and part.id in calls:
            parts += _as_text(part, calls[part.id])
        else:
            parts.append(part)
    role = (
        "user" if message.role == "tool" and not any(isinstance(part, ToolResult) for part in parts) else message.role
    )
    return replace(message, role=role, parts=tuple(parts))


def _as_text(result: ToolResult, call: ToolCall) -> list[Part]:
    text = f"You called {call.name} with {arguments_text(call)}. The result:\n{error_text(result)}"
    return [Text(text=text), *(part for part in result.parts if isinstance(part, Image | Document))]
