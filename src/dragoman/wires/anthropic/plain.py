"""Responses that are only text, as most are: a short way, with the same result as the long one.

The long way makes a block, a slot and several events for a text that is there already. A body with anything unusual
goes the long way. `tests/wires/anthropic/test_plain.py` compares both ways.
"""

from typing import Literal

import msgspec

from dragoman.events import MAX_RESPONSE
from dragoman.targets.target import Target
from dragoman.types import Finish, JsonObject, Message, Request, Response
from dragoman.types.base import unchecked
from dragoman.types.quick import new_message, new_text
from dragoman.wires.anthropic.schema import COUNTS, FINISH_REASONS, NAME, read_usage
from dragoman.wires.common.json import DECODE_ERRORS


class _PlainBlock(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: str
    citations: None = None


class _PlainBody(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: tuple[_PlainBlock]
    stop_reason: str
    usage: JsonObject
    stop_sequence: None = None


_BODY = msgspec.json.Decoder(_PlainBody)
_FINISH = Finish(reason="stop")
_RESPONSE = Response(message=Message(role="assistant"), finish=_FINISH)


def decode_plain(body: bytes, _request: Request | None, _target: Target | None, /) -> Response | None:
    """The response of a body with one text and a known end; None for any other body."""
    try:
        message = _BODY.decode(body)
    except DECODE_ERRORS:
        return None
    (block,), reason = message.content, FINISH_REASONS.get(message.stop_reason)
    tokens = {name: value for name, value in message.usage.items() if value is not None}
    usage = read_usage(tokens)
    if reason is None or not block.text or len(block.text) > MAX_RESPONSE or not (usage.input or usage.output):
        return None
    rest = {name: value for name, value in tokens.items() if name not in COUNTS}
    tier = tokens.get("service_tier")
    return unchecked(
        _RESPONSE,
        id=message.id or None,
        model=message.model or None,
        message=new_message(role="assistant", parts=(new_text(text=block.text),)),
        finish=unchecked(
            _FINISH, reason=reason, raw=message.stop_reason, extra={NAME: {"usage": rest}} if rest else {}
        ),
        usage=usage,
        service_tier=tier if isinstance(tier, str) else None,
        rate_limits={},
    )
