"""Reasoning state without a tag, in forms of Chat Completions that name its wire.

A history may have begun elsewhere: Google's endpoint for Chat Completions puts its signature on a call, OpenRouter has
a format in each of its `reasoning_details`, and the thinking of open models is plain text. A target of that wire gets
its state back.
"""

from typing import Any

from msgspec.structs import replace

from dragoman.gateway.reasoning.places import CHAT, GOOGLE, thought_signature
from dragoman.types import JsonObject, Message, Part, Thinking, ToolCall, is_list, is_object
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.google.schema import SIGNATURE

FORMATS: dict[str, str] = {
    "anthropic": "anthropic-claude-v1",
    GOOGLE: "google-gemini-v1",
    "openai_responses": "openai-responses-v1",
}
"""The format of a wire's state in `reasoning_details` (OpenRouter, 2026-11)."""
PLAIN = "ollama"
"""A wire whose thinking is plain text."""


def has_native_state(message: Message, /) -> bool:
    """Whether a message of Chat Completions may have state in these forms."""
    return any(isinstance(part, Thinking | ToolCall) and CHAT in part.extra for part in message.parts)


def with_native_state(message: Message, wire: str, /) -> Message:
    """A message of Chat Completions with the state that a target of some wire can read."""
    if wire == PLAIN:
        parts = [_plain(part) if isinstance(part, Thinking) else part for part in message.parts]
        return replace(message, parts=tuple(parts))
    if wire not in FORMATS:
        return message
    restored: list[Part] = []
    signatures: dict[str, str] = {}
    for part in message.parts:
        details = _details(part, FORMATS[wire]) if isinstance(part, Thinking) else []
        if not details:
            restored.append(part)
            continue
        restored += _thinking(wire, details)
        if wire == GOOGLE:
            signatures.update((str(each.get("id") or ""), str(each["data"])) for each in details if "data" in each)
    if wire == GOOGLE:
        restored = _with_signatures(restored, signatures)
    return replace(message, parts=tuple(restored))


def _plain(part: Thinking) -> Thinking:
    return replace(part, extra={PLAIN: {}}) if part.text and not part.redacted else part


def _details(part: Thinking, format: str) -> list[JsonObject]:
    details = wire_extra(part.extra, CHAT).get("details")
    return [each for each in (details if is_list(details) else ()) if is_object(each) and each.get("format") == format]


def _thinking(wire: str, details: list[JsonObject]) -> list[Part]:
    parts: list[Part] = []
    summary = ""
    for detail in details:
        match wire, detail:
            case "anthropic", {"type": "reasoning.text", "text": str(text), "signature": str(signature)}:
                parts.append(Thinking(text=text, extra={wire: {"signature": signature}}))
            case "anthropic", {"type": "reasoning.encrypted", "data": str(data)}:
                parts.append(Thinking(text="", redacted=True, extra={wire: {"data": data}}))
            case "google", {"type": "reasoning.text", "text": str(text)}:
                parts.append(Thinking(text=text, extra={wire: {}}))
            case "openai_responses", {"type": "reasoning.summary", "summary": str(text)}:
                summary = text
            case "openai_responses", {"type": "reasoning.encrypted", "data": str(data)}:
                id = {"id": detail["id"]} if isinstance(detail.get("id"), str) else {}
                extra: dict[str, Any] = {wire: {**id, "encrypted_content": data}}
                parts.append(Thinking(text=summary, redacted=not summary, extra=extra))
                summary = ""
            case _:
                continue
    return parts


def _with_signatures(parts: list[Part], signatures: dict[str, str]) -> list[Part]:
    """The parts with the signatures of their calls; one without the id of a call belongs to the first call."""
    signed: list[Part] = []
    is_first = True
    for part in parts:
        if isinstance(part, ToolCall):
            signature = signatures.get(part.id) or thought_signature(part)
            if is_first and not signature:
                signature = signatures.get("", "")
            is_first = False
            rest = {key: value for key, value in wire_extra(part.extra, CHAT).items() if key != "extra_content"}
            extra = {**({CHAT: rest} if rest else {}), GOOGLE: {SIGNATURE: signature}} if signature else part.extra
            signed.append(replace(part, extra=extra))
        else:
            signed.append(part)
    return signed
