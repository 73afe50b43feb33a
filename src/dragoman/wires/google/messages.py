"""A Request's history in, the system instruction and the contents of a generateContent call out."""

from collections.abc import Iterable

from dragoman.targets.target import Target
from dragoman.types import (
    Document,
    Image,
    JsonObject,
    Message,
    Part,
    Request,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.history import check_urls, merge_turns, repair, result_media, start_with_user
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google.parts import encode_call, encode_part, encode_result, part_extra, wire_id
from dragoman.wires.google.schema import DUMMY_SIGNATURE, NAME


def encode_turns(request: Request, target: Target, notes: NoticeCollector) -> tuple[list[JsonObject], list[JsonObject]]:
    """The parts of the system instruction, and the contents."""
    history = repair(request, notes)
    contents: list[JsonObject] = []
    ids: dict[str, str | None] = {}
    for turn in start_with_user(merge_turns(history.turns), notes):
        ids.update((call.id, wire_id(call)) for call in turn.tool_calls)
        if turn.role == "tool":
            contents += _encode_results(turn, ids, target, notes)
        elif parts := _encode_parts(turn.parts, target, notes):
            role = "model" if turn.role == "assistant" else "user"
            contents.append({"role": role, "parts": parts, **wire_extra(turn.extra, NAME)})
    return [encode_part(text) for text in history.system if _says(text)], contents


def _says(part: Part) -> bool:
    """A text that is empty says nothing, and Vertex refuses it (seen 2025-04), unless it holds a signature."""
    return not isinstance(part, Text) or bool(part.text or part_extra(part.extra))


def _encode_parts(parts: Iterable[Part], target: Target, notes: NoticeCollector) -> list[JsonObject]:
    encoded: list[JsonObject] = []
    signed = not target.quirks.thought_signatures
    for part in parts:
        if not isinstance(part, ToolCall):
            _check(part, target, notes)
            encoded += [encode_part(part)] if _says(part) else []
            continue
        call = encode_call(part, wire_id(part))
        if not signed and "thoughtSignature" not in call:
            notes.add("repaired", f"call {part.id}", "it has no thought signature, so it gets one that fits any")
            call["thoughtSignature"] = DUMMY_SIGNATURE
        signed = True
        encoded.append(call)
    return encoded


def _check(part: Part, target: Target, notes: NoticeCollector) -> None:
    """Refuse a picture that the target cannot fetch, unless a client of this wire gave it; note what is not sent."""
    match part:
        case Image():
            if NAME not in part.extra:
                check_urls([Message(role="user", parts=(part,))], target)
            if part.detail is not None:
                notes.add("dropped", "the detail of an image", "it has no such field")
        case Document(name=str()) if "displayName" not in wire_extra(part.extra, NAME).get("inlineData", {}):
            notes.add("dropped", "the name of a document", "it has no such field")
        case _:
            return


def _encode_results(
    turn: Message, ids: dict[str, str | None], target: Target, notes: NoticeCollector
) -> list[JsonObject]:
    """The responses of one step stand together, with nothing else; pictures follow where they cannot be inside."""
    parts: list[JsonObject] = []
    outside: list[ToolResult] = []
    for result in turn.tool_results:
        inside = target.quirks.result_media or bool(wire_extra(result.extra, NAME).get("media"))
        for part in result.parts:
            if inside:
                _check(part, target, notes)
        outside += [] if inside else [result]
        parts.append(encode_result(result, ids.get(result.id), media=inside))
    contents: list[JsonObject] = [{"role": "user", "parts": parts}]
    if (media := result_media(outside)) is not None:
        contents.append({"role": "user", "parts": _encode_parts(media.parts, target, notes)})
    return contents
