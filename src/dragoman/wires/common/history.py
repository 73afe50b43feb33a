"""A canonical history in, one that every provider accepts out: repaired, with notices of what was mended."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby

import msgspec

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.events import PartKind, kind_of
from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Document,
    Extra,
    Image,
    Message,
    Opaque,
    Part,
    Request,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import ERROR_PREFIX

UNAVAILABLE = "result unavailable; do not assume that it ran"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: the system texts, and turns of user, assistant and tool.

    >>> repair(Request(messages=(user("hello"),), system="Be brief."), NoticeCollector("ollama")).system[0].text
    'Be brief.'
    """

    system: tuple[Text, ...]
    turns: tuple[Message, ...]


def repair(request: Request, notes: NoticeCollector, /) -> History:
    """System messages folded together, every call answered exactly once right after it, foreign parts left out.

    >>> call = ToolCall(id="call_1", name="tide")
    >>> notes = NoticeCollector("ollama")
    >>> history = repair(Request(messages=(user("?"), Message(role="assistant", parts=(call,)))), notes)
    >>> history.turns[-1].parts[0].content
    'result unavailable; do not assume that it ran'
    """
    texts = [*system_texts(request)]
    calls = _Calls(request, notes)
    turns: list[Message] = []
    for message in request.messages:
        if message.role == "system":
            texts += _fold_system(message, notes, started=bool(turns))
            continue
        if _is_plain(message):
            turns.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            match part:
                case ToolResult():
                    calls.answer(part, last=len(turns) - 1)
                case ToolCall() if message.role == "assistant":
                    parts.append(calls.begin(part, turn=len(turns)))
                case ToolCall():
                    notes.add("dropped", f"call {part.id}", f"a message of the {message.role} calls no tools")
                case _:
                    parts.append(part)
        kept = _own_parts(parts, notes)
        _note_foreign(message.extra, f"a message of the {message.role}", notes)
        if kept or wire_extra(message.extra, notes.wire):
            role = "user" if message.role == "tool" else message.role
            turns.append(msgspec.structs.replace(message, role=role, parts=kept))
    return History(system=tuple(texts), turns=tuple(_with_answers(turns, calls)))


def _is_plain(message: Message) -> bool:
    """Whether it is text that every wire says in the same way: nothing of it wants a repair."""
    if message.extra or message.role == "tool":
        return False
    for part in message.parts:
        if not isinstance(part, Text) or part.extra:
            return False
    return bool(message.parts)


class _Calls:
    """The calls of a history, each with an id of its own, and the results that answer them."""

    def __init__(self, request: Request, notes: NoticeCollector) -> None:
        self._notes = notes
        self._request = request
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, str]]] = {}
        self._answers: dict[str, ToolResult] = {}

    @cached_property
    def _given(self) -> set[str]:
        return {call.id for message in self._request.messages for call in message.tool_calls}

    def begin(self, call: ToolCall, *, turn: int) -> ToolCall:
        """The call, under another id where an earlier one has the same. A result is of the latest turn that waits."""
        id = call.id
        if not id or id in self._ids:
            id = self._another(id)
            self._notes.add("renamed", f"call id {call.id}", "each call needs one of its own")
        self._ids.add(id)
        waiting = self._waiting.setdefault(call.id, deque())
        if waiting and waiting[0][0] != turn:
            waiting.clear()
        waiting.append((turn, id))
        return msgspec.structs.replace(call, id=id)

    def _another(self, id: str) -> str:
        """The next id of that stem that no call has; numbers only grow, since no id is ever free again."""
        number = self._numbers.get(id, 2 if id else 1)
        while (other := f"{id or 'call'}_{number}") in self._ids or other in self._given:
            number += 1
        self._numbers[id] = number + 1
        return other

    def answer(self, result: ToolResult, *, last: int) -> None:
        """Keep a result for the call that waits for it; `last` is the turn before it."""
        waiting = self._waiting.get(result.id)
        if not waiting:
            self._notes.add("dropped", f"result {result.id}", "no call waits for it")
            return
        turn, id = waiting.popleft()
        if turn < last:
            self._notes.add("repaired", f"result {result.id}", "it came late, so it was put right behind its call")
        self._answers[id] = msgspec.structs.replace(result, id=id, content=_own_content(result, self._notes))

    def answer_of(self, call: ToolCall) -> ToolResult:
        """What answers a call: its result, or the error that there is none."""
        result = self._answers.get(call.id)
        if result is None:
            self._notes.add("repaired", f"call {call.id}", "it never got a result, so it gets an error")
            return ToolResult(id=call.id, name=call.name, content=UNAVAILABLE, is_error=True)
        return result if result.name else msgspec.structs.replace(result, name=call.name)


def system_texts(request: Request, /) -> tuple[Text, ...]:
    """The request's system prompt as texts.

    >>> system_texts(Request(system="Be brief."))
    (Text(text='Be brief.', extra={}),)
    """
    if isinstance(request.system, str):
        return (Text(text=request.system),)
    return request.system or ()


def as_system(texts: Sequence[Text], /) -> str | tuple[Text, ...] | None:
    """The plainest form of some system texts.

    >>> as_system([Text(text="Be brief.")])
    'Be brief.'
    """
    if len(texts) == 1 and not texts[0].extra:
        return texts[0].text
    return tuple(texts) or None


def _fold_system(message: Message, notes: NoticeCollector, *, started: bool) -> list[Text]:
    if started:
        notes.add("changed", "a system message inside the history", "it was moved to the system prompt")
    for part in message.parts:
        if not isinstance(part, Text):
            notes.add("dropped", "a part of a system message", "a system prompt is text")
    return [part for part in message.parts if isinstance(part, Text)]


def _own_parts(parts: Iterable[Part], notes: NoticeCollector) -> tuple[Part, ...]:
    """Without the thinking and the blocks of other wires."""
    if notes.carries_all:
        return tuple(parts)
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Thinking) and notes.wire not in part.extra:
            notes.add("dropped", "thinking", "it was thought on another wire, or has no signature")
        elif isinstance(part, Opaque) and part.wire != notes.wire:
            notes.add("dropped", f"a block of {part.wire}", "it has no word for it")
        else:
            if not isinstance(part, Opaque):
                _note_foreign(part.extra, f"a part ({part.__struct_config__.tag})", notes)
            kept.append(part)
    return tuple(kept)


def _note_foreign(extra: Extra, what: str, notes: NoticeCollector) -> None:
    """Tell what only another wire understands, such as a signature or an item's id."""
    for name, data in extra.items():
        if name != notes.wire and data and not notes.carries_all:
            notes.add("dropped", f"{name} data of {what}", "only that wire understands it")


def _own_content(result: ToolResult, notes: NoticeCollector) -> str | tuple[ResultPart, ...]:
    """A result's content without the blocks of other wires."""
    if isinstance(result.content, str) or notes.carries_all:
        return result.content
    kept: list[ResultPart] = []
    for part in result.content:
        if isinstance(part, Opaque) and part.wire != notes.wire:
            notes.add("dropped", f"a block of {part.wire} in a result", "it has no word for it")
        else:
            kept.append(part)
    return tuple(kept)


def _with_answers(turns: Iterable[Message], calls: _Calls) -> Iterable[Message]:
    for turn in turns:
        yield turn
        if turn.role == "assistant" and (made := turn.tool_calls):
            yield Message(role="tool", parts=tuple(map(calls.answer_of, made)))


def merge_turns(turns: Iterable[Message], /) -> list[Message]:
    """Consecutive turns of one role made one, for providers that want roles to alternate.

    >>> len(merge_turns([user("a"), user("b")])[0].parts)
    2
    """
    return [_joined(list(group)) for _, group in groupby(turns, key=lambda turn: turn.role)]


def _joined(turns: list[Message]) -> Message:
    if len(turns) == 1:
        return turns[0]
    parts = tuple(part for turn in turns for part in turn.parts)
    extra = {name: data for turn in turns for name, data in turn.extra.items()}
    return Message(role=turns[0].role, parts=parts, extra=extra)


def start_with_user(turns: list[Message], notes: NoticeCollector, /) -> list[Message]:
    """The same, begun by the user, for providers that want it so.

    >>> start_with_user([Message(role="assistant")], NoticeCollector("google"))[0].text
    '(The conversation begins.)'
    """
    if turns and turns[0].role == "assistant":
        notes.add("repaired", "the first message", "it must be from the user, so one was put before it")
        return [user("(The conversation begins.)"), *turns]
    return turns


def error_text(result: ToolResult, /) -> str:
    """A result's text, with the prefix that says error where it is one.

    >>> error_text(ToolResult(id="call_1", content="no", is_error=True))
    'ERROR: no'
    """
    return ERROR_PREFIX + result.text if result.is_error else result.text


def split_error(text: str, /) -> tuple[str, bool]:
    """The mirror of `error_text`.

    >>> split_error("ERROR: no")
    ('no', True)
    """
    return (text[len(ERROR_PREFIX) :], True) if text.startswith(ERROR_PREFIX) else (text, False)


def result_media(results: Iterable[ToolResult], /) -> Message | None:
    """A labelled user turn with the pictures and documents of results, for wires whose results are text only.

    >>> result_media([ToolResult(id="call_1", content="no picture")]) is None
    True
    """
    parts: list[Part] = []
    for result in results:
        media = [part for part in result.parts if isinstance(part, Image | Document)]
        if media:
            parts += [Text(text=f"From the result of {result.name or 'the tool'} ({result.id}):"), *media]
    return Message(role="user", parts=tuple(parts)) if parts else None


def fit_id(id: str, pattern: str, length: int, notes: NoticeCollector, /) -> str:
    """An id that matches the provider's rule: itself, or always the same other one.

    >>> fit_id("call_1", "[A-Za-z0-9]{9}", 9, NoticeCollector("openai_chat"))
    'RksXkbv4v'
    """
    if re.fullmatch(pattern, id):
        return id
    import hashlib

    number = int.from_bytes(hashlib.sha256(id.encode()).digest(), "big")
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    fitted = "".join(digits)
    notes.add("renamed", f"call id {id}", f"ids must match {pattern}")
    return fitted


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def check_urls(turns: Iterable[Message], target: Target, /) -> None:
    """Refuse pictures by URL for a target that cannot fetch them.

    >>> check_urls([user("hello")], Target(provider="p", model="m", wire="w", base_url="https://x"))
    """
    if target.capabilities.image_urls:
        return
    for turn in turns:
        for part in turn.parts:
            for each in part.parts if isinstance(part, ToolResult) else (part,):
                if isinstance(each, Image) and each.data is None:
                    raise Unsupported(f"{target.name}: cannot fetch {each.url}; send the bytes of the image instead")


def check_prompt(request: Request, encoded: Sequence[object], target: Target, /) -> None:
    """Refuse messages of which nothing is left: empty texts, a system prompt alone, what only another wire can say.

    >>> check_prompt(Request(), [], Target(provider="p", model="m", wire="w", base_url="https://x"))
    """
    if encoded or not request.messages:
        return
    if any(not isinstance(part, Text) for message in request.messages for part in message.parts):
        raise Unsupported(f"{target.name}: cannot take anything of the messages")
    why = "a prompt without any message: it takes no empty text, nor a system prompt alone"
    raise InvalidRequest(f"{target.name}: {why}", fail_over=True)


def calls_before(request: Request | None, /) -> int:
    """How many calls the conversation has had, also where its beginning was cut, so that new ids never repeat.

    >>> calls_before(None)
    0
    """
    if request is None:
        return 0
    ids = [part.id for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    if not ids:
        return 0
    numbers = [int(found[1]) for id in ids if (found := re.fullmatch(r"call_([0-9]{1,9})", id))]
    return max(len(ids), *numbers, 0)


def cannot_send(part: Part, wire: str, /, *, takes: str = "") -> Unsupported:
    """The error of a part that a wire cannot carry; `takes` is what it can, where that is known.

    >>> str(cannot_send(Document(data=b"", mime="application/pdf"), "ollama", takes="text and images"))
    'ollama: cannot carry a document (application/pdf), only text and images; use another target, or say it in words'
    """
    mime = part.mime if isinstance(part, Image | Document | Audio) else None
    what = f"{_SPOKEN[kind_of(part)]} ({mime})" if mime else _SPOKEN[kind_of(part)]
    only = f", only {takes}" if takes else ""
    return Unsupported(f"{wire}: cannot carry {what}{only}; use another target, or say it in words")


_SPOKEN: dict[PartKind, str] = {
    "text": "text",
    "image": "an image",
    "document": "a document",
    "audio": "an audio file",
    "thinking": "thinking",
    "tool_call": "a tool call",
    "tool_result": "a tool's result",
    "opaque": "a block of another provider",
}
