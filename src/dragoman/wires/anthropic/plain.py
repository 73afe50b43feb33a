"""Requests and responses that are only text, as most are: a fast path, with the same result as the full code.

The full code repairs a history that needs no repair, asks for options that are not set, and makes a block, a slot and
several events for a text that is there already. Anything unusual takes the full code.
`tests/wires/anthropic/test_plain.py` compares both.
"""

from operator import attrgetter
from typing import Literal

import msgspec

from dragoman.events import MAX_RESPONSE
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request, Response, Text
from dragoman.types.fast_constructors import new_finish, new_response, text_message
from dragoman.wires.anthropic.schema import (
    COUNTS,
    DEFAULT_MAX_TOKENS,
    FINISH_REASONS,
    NAME,
    WITHOUT_SAMPLING,
    read_usage,
)
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


_QUICK = ("messages", "system", "temperature", "top_p", "max_tokens", "stream")
"""What a plain request may have. Every other option must have its default."""
_OPTIONS = attrgetter(*(name for name in Request.__struct_fields__ if name not in _QUICK))
_NO_OPTIONS = _OPTIONS(Request())


def encode_plain(request: Request, target: Target) -> JsonObject | None:
    """The body of a request with few options, if texts of the user and the model take turns. Else None."""
    if _OPTIONS(request) != _NO_OPTIONS or not request.messages:
        return None
    most, limit = target.capabilities.max_output, request.max_tokens
    if limit is None:
        limit = most or DEFAULT_MAX_TOKENS
    elif most is not None and limit > most:
        return None
    body: JsonObject = {"model": target.model, "max_tokens": limit}
    system = request.system
    if system is not None:
        if type(system) is not str or not system.strip():
            return None
        body["system"] = system
    messages: list[JsonObject] = []
    role, text = "assistant", ""
    for message in request.messages:
        part = message.parts[0] if len(message.parts) == 1 else None
        before, role = role, message.role
        if role == "assistant":
            if before == "assistant":
                return None
        elif role != "user":
            return None
        if type(part) is not Text or part.extra or part.citations or message.extra or not part.text.strip():
            return None
        text = part.text
        messages.append({"role": role, "content": text})
    if role == "assistant" and text != text.rstrip():
        return None
    body["messages"] = messages
    has_sampling = request.temperature is not None or request.top_p is not None
    if has_sampling and not _add_sampling(body, request, target):
        return None
    if request.stream:
        body["stream"] = True
    return body


def _add_sampling(body: JsonObject, request: Request, target: Target) -> bool:
    """Add temperature and top_p; False if the target does not take them as they are."""
    quirks, temperature, top_p = target.quirks, request.temperature, request.top_p
    if not quirks.sampling or quirks.api_version in WITHOUT_SAMPLING:
        return False
    if temperature is not None:
        if temperature > 1 or (top_p is not None and quirks.temperature_excludes_top_p):
            return False
        body["temperature"] = temperature
    if top_p is not None:
        body["top_p"] = top_p
    return True


_BODY = msgspec.json.Decoder(_PlainBody)


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
    return new_response(
        text_message("assistant", block.text),
        new_finish(reason, message.stop_reason, {NAME: {"usage": rest}} if rest else {}),
        usage,
        id=message.id or None,
        model=message.model or None,
        created=None,
        service_tier=tier if isinstance(tier, str) else None,
    )
