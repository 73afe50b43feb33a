"""Calls whose thinking is lost, for targets that refuse such calls: what they did becomes text of the user.

The results say which call they are of. The text does not depend on what follows, so the beginning of the conversation
stays the same in later requests.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dragoman.gateway.reasoning.places import GOOGLE
from dragoman.types import Document, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.types.arguments import arguments_text
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.history import error_text
from dragoman.wires.google.schema import SIGNATURE

OWN_IDS = "toolu"
"""How the ids of calls begin at Anthropic (`toolu_`) and at Bedrock (`tooluse_`)."""
PLACEHOLDERS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What clients of Google write where a call never had a signature (gemini-cli, 2026-11)."""


def has_unreadable_thinking(parts: Iterable[Part], wire: str, /) -> bool:
    """Whether calls of Claude have signs of thinking that a target of some wire cannot read.

    A client may have put another text in place of a tag. Calls without any sign stay: a model does not always think.
    """
    parts = tuple(parts)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return (
        bool(calls)
        and all(call.id.startswith(OWN_IDS) for call in calls)
        and any(_is_unreadable(part, wire) for part in parts)
    )


def _is_unreadable(part: Part, wire: str) -> bool:
    match part:
        case Thinking():
            return wire not in part.extra
        case ToolCall():
            return wire_extra(part.extra, GOOGLE).get(SIGNATURE, PLACEHOLDERS[0]) not in PLACEHOLDERS
        case _:
            return False


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
