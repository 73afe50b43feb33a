"""The conversation as the contents of generateContent, for the client and the server.

Calls may come without an id, as may responses; a response then belongs to the first open call of its name. The ids
that Google assigned travel in `extra`, so that a call without one goes back without one.
"""

from collections import deque
from collections.abc import Iterable

import msgspec

from dragoman.targets.target import Target
from dragoman.types import (
    Document,
    Image,
    JsonObject,
    Message,
    Part,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.types.base import unchecked
from dragoman.types.fast_constructors import new_message, new_text
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import (
    check_urls,
    fill_turns,
    join_turns,
    merge_answers,
    repair,
    result_media,
    start_with_user,
)
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.open_turns import UnlinkedResult
from dragoman.wires.common.request_body import invalid_field, read_fields
from dragoman.wires.google.parts import decode_part, encode_call, encode_part, encode_result, part_extra, wire_id
from dragoman.wires.google.schema import DUMMY_SIGNATURE, NAME, SIGNATURE, GeminiTurn, as_objects, camel

_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "user"}

# Encoding -------------------------------------------------------------------------------------------------------------


def encode_messages(
    request: Request, target: Target, notices: NoticeCollector
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The parts of the system instruction, and the contents."""
    history = repair(request, notices, alternating=True)
    contents: list[JsonObject] = []
    ids: dict[str, str | None] = {}
    turns = fill_turns(map(_with_content, history.turns), notices)
    for turn in start_with_user(merge_answers(turns), notices):
        if turn.role == "assistant":
            ids.update([(call.id, wire_id(call)) for call in turn.tool_calls])
        if turn.role == "tool":
            contents += _encode_results(turn, ids, target, notices)
        else:
            role = "model" if turn.role == "assistant" else "user"
            parts = _encode_parts(turn.parts, target, notices)
            contents.append({"role": role, "parts": parts, **wire_extra(turn.extra, NAME)})
    system = [encode_part(text) for text in history.system if _has_content(text)]
    if system and not contents and target.quirks.empty_prompt and _is_empty_prompt(history.turns):
        contents = [{"role": "user", "parts": [{"text": ""}]}]
    return system, contents


def _is_empty_prompt(turns: Iterable[Message]) -> bool:
    """Whether there is a user turn, and all turns are empty texts."""
    parts = [part for turn in turns for part in turn.parts]
    return bool(parts) and all(isinstance(part, Text) for part in parts)


def _has_content(part: Part) -> bool:
    """Whether a part is not an empty text, which Vertex refuses (seen 2025-04) unless it has a signature."""
    return type(part) is not Text or bool(part.text or part_extra(part.extra))


def _with_content(turn: Message) -> Message:
    for part in turn.parts:  # a loop: `all` costs more, and long histories have thousands of parts
        if not _has_content(part):
            break
    else:
        return turn
    return msgspec.structs.replace(turn, parts=tuple(part for part in turn.parts if _has_content(part)))


def _encode_parts(parts: Iterable[Part], target: Target, notices: NoticeCollector) -> list[JsonObject]:
    encoded: list[JsonObject] = []
    needs_signature = target.quirks.thought_signatures
    for part in parts:
        if not isinstance(part, ToolCall):
            _check(part, target, notices)
            encoded.append(encode_part(part))
            continue
        call = encode_call(part, wire_id(part))
        if needs_signature and SIGNATURE not in call:
            notices.add("repaired", f"call {part.id}", "it has no thought signature; Google's dummy signature is sent")
            call[SIGNATURE] = DUMMY_SIGNATURE
        needs_signature = False
        encoded.append(call)
    return encoded


def _check(part: Part, target: Target, notices: NoticeCollector) -> None:
    """Reject an image URL that the target cannot fetch, unless a client of Google sent it; note dropped members."""
    match part:
        case Image():
            if NAME not in part.extra:
                check_urls([Message(role="user", parts=(part,))], target)
            if part.detail is not None:
                notices.add("dropped", "detail of an image", "not supported")
        case Document(name=str()) if "displayName" not in wire_extra(part.extra, NAME).get("inlineData", {}):
            notices.add("dropped", "name of a document", "not supported")
        case _:
            return


def _encode_results(
    turn: Message, ids: dict[str, str | None], target: Target, notices: NoticeCollector
) -> list[JsonObject]:
    """The responses of one step in one content; images follow in another if they cannot be inside."""
    parts: list[JsonObject] = []
    outside: list[ToolResult] = []
    for result in turn.tool_results:
        is_inside = target.quirks.result_media or bool(wire_extra(result.extra, NAME).get("media"))
        for part in result.parts:
            if is_inside:
                _check(part, target, notices)
        outside += [] if is_inside else [result]
        parts.append(encode_result(result, ids.get(result.id), media=is_inside))
    contents: list[JsonObject] = [{"role": "user", "parts": parts}]
    if (media := result_media(outside)) is not None:
        contents.append({"role": "user", "parts": _encode_parts(media.parts, target, notices)})
    return contents


# Decoding -------------------------------------------------------------------------------------------------------------


def decode_system(data: str | JsonObject | None) -> tuple[list[Text], JsonObject]:
    """The system texts; an instruction that has more than text is also returned as it came."""
    if isinstance(data, str):
        return [new_text(text=data)], {}
    turn, _ = read_fields(GeminiTurn, camel(data or {}), "systemInstruction")
    parts = _decode_parts(turn, "systemInstruction")
    texts = [part for part in parts if isinstance(part, Text)]
    return texts, {} if len(texts) == len(parts) else {"systemInstruction": data}


class _DecodedContent(msgspec.Struct):
    """A content before its calls and results are matched with those of other contents."""

    role: Role
    unlinked: tuple[ToolCall | UnlinkedResult, ...]
    """The calls and results, in their order."""
    message: Message | None
    """The content without its results, if there is anything else."""


def decode_content(data: JsonObject, where: str) -> _DecodedContent:
    """Decode a content. Calls may have no id yet, and results may belong to calls of other contents."""
    turn, rest = read_fields(GeminiTurn, camel(data), where)
    role = _ROLES.get(turn.role)
    if role is None:
        raise invalid_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}, got {turn.role!r}")
    unlinked: list[ToolCall | UnlinkedResult] = []
    others: list[Part] = []
    parts = _decode_parts(turn, where)
    for part in parts:
        if isinstance(part, ToolResult):
            unlinked.append(UnlinkedResult(part))
            continue
        others.append(part)
        if isinstance(part, ToolCall):
            role = "assistant"
            unlinked.append(part)
    has_message = bool(others) or not parts
    message = new_message(role, tuple(others), make_extra(NAME, rest)) if has_message else None
    return _DecodedContent(role, tuple(unlinked), message)


def link_contents(contents: list[_DecodedContent]) -> tuple[Message, ...]:
    """The turns; consecutive turns of the model are one, and so are consecutive results."""
    groups: list[list[Message]] = []
    results: list[Part] = []
    calls = _OpenCalls()
    for content in contents:
        message = content.message
        added: list[ToolCall] = []
        for part in content.unlinked:
            if isinstance(part, ToolCall):
                added.append(calls.add(part))
            else:
                results.append(calls.match(part))
        if message is not None:
            if results:
                groups.append([new_message("tool", tuple(results))])
                results = []
            turn = _with_ids(message, added) if added else message
            if groups and groups[-1][0].role == turn.role == "assistant":
                groups[-1].append(turn)
            else:
                groups.append([turn])
        calls.after_user = content.role == "user"
    if results:
        groups.append([new_message("tool", tuple(results))])
    return tuple([join_turns(group) for group in groups])


def _with_ids(message: Message, calls: list[ToolCall]) -> Message:
    """The message with calls that have an id."""
    if all(call.id for call in message.tool_calls):
        return message
    rest = iter(calls)
    return unchecked(message, parts=tuple(next(rest) if isinstance(p, ToolCall) else p for p in message.parts))


def _decode_parts(turn: GeminiTurn, where: str) -> list[Part]:
    decoded = [decode_part(part, f"{where}.parts[{i}]") for i, part in enumerate(as_objects(turn.parts))]
    return [part for part in decoded if part is not None]


class _OpenCalls:
    """The calls without a result. Calls without an id get one; a result without one takes the first of its name."""

    def __init__(self) -> None:
        self.after_user = False
        self._count = 0
        self._open: dict[str, ToolCall] = {}
        self._recent: deque[str] = deque()

    def add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        self._recent = deque() if self.after_user else self._recent
        self.after_user = False
        call = call if call.id else unchecked(call, id=f"call_{self._count}")
        self._open[call.id] = call
        self._recent.append(call.id)
        return call

    def match(self, unlinked: UnlinkedResult) -> ToolResult:
        """The result with the id and the name of its call."""
        result = unlinked.result
        call = self._open.pop(result.id, None) or self._pop_by_name(result.name)
        if call is None:
            return _with_id(result, result.id) if result.id else result
        id, name = call.id, result.name or call.name
        if result.id in ("", wire_id(call)):
            return unlinked.link(id, name)
        return msgspec.structs.replace(_with_id(result, result.id), id=id, name=name)

    def _pop_by_name(self, name: str) -> ToolCall | None:
        while self._recent and self._recent[0] not in self._open:
            self._recent.popleft()
        calls = (self._open[id] for id in self._recent if id in self._open)
        call = next((call for call in calls if name in ("", call.name)), None)
        return self._open.pop(call.id) if call is not None else None


def _with_id(result: ToolResult, id: str) -> ToolResult:
    return msgspec.structs.replace(result, extra=make_extra(NAME, {**wire_extra(result.extra, NAME), "id": id}))
