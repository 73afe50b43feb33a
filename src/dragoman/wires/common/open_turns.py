"""Messages that grow while a client's request is decoded."""

from typing import Any

import msgspec

from dragoman.types import Part, Role


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
