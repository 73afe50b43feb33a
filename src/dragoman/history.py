"""A canonical history in, one that every provider accepts out: repaired, with notices of what was mended."""

import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.errors import Unsupported
from dragoman.types import Document, Image, Message, Opaque, Part, Request, Text, Thinking, ToolCall, ToolResult, user
from dragoman.wire import ERROR_PREFIX, Notes

UNAVAILABLE = "result unavailable; do not assume that it ran"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: the system texts, and turns of user, assistant and tool.

    >>> repair(Request(messages=(user("hello"),), system="Be brief."), Notes("ollama")).system[0].text
    'Be brief.'
    """

    system: tuple[Text, ...]
    turns: tuple[Message, ...]


def repair(request: Request, notes: Notes, /) -> History:
    """System messages folded together, every call answered exactly once right after it, foreign parts left out.

    >>> call = ToolCall(id="call_1", name="tide")
    >>> notes = Notes("ollama")
    >>> history = repair(Request(messages=(user("?"), Message(role="assistant", parts=(call,)))), notes)
    >>> history.turns[-1].parts[0].content
    'result unavailable; do not assume that it ran'
    """
    texts = list(system_texts(request))
    turns: list[Message] = []
    answers: dict[int, dict[str, ToolResult]] = {}
    waiting: dict[str, int] = {}
    for given in request.messages:
        message = given
        if message.role == "system":
            texts += _fold_system(message, notes, started=bool(turns))
            continue
        results = message.tool_results
        for result in results:
            turn = waiting.pop(result.id, None)
            if turn is None:
                notes.add("dropped", f"result {result.id}", "no call waits for it")
            else:
                answers[turn][result.id] = result
        if results or message.role == "tool":
            rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
            message = msgspec.structs.replace(message, role="user", parts=rest)
            if not rest:
                continue
        turns.append(msgspec.structs.replace(message, parts=_own_parts(message.parts, notes)))
        if calls := message.tool_calls:
            answers[len(turns) - 1] = {}
            waiting.update((call.id, len(turns) - 1) for call in calls)
    return History(system=tuple(texts), turns=tuple(_with_answers(turns, answers, notes)))


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


def _fold_system(message: Message, notes: Notes, *, started: bool) -> list[Text]:
    if started:
        notes.add("changed", "a system message inside the history", "it was moved to the system prompt")
    for part in message.parts:
        if not isinstance(part, Text):
            notes.add("dropped", "a part of a system message", "a system prompt is text")
    return [part for part in message.parts if isinstance(part, Text)]


def _own_parts(parts: Iterable[Part], notes: Notes) -> tuple[Part, ...]:
    """Without the thinking and the blocks of other wires."""
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Thinking) and notes.wire not in part.extra:
            notes.add("dropped", "thinking", "it was thought on another wire, or has no signature")
        elif isinstance(part, Opaque) and part.wire != notes.wire:
            notes.add("dropped", f"a block of {part.wire}", "it has no word for it")
        else:
            kept.append(part)
    return tuple(kept)


def _with_answers(turns: list[Message], answers: dict[int, dict[str, ToolResult]], notes: Notes) -> Iterable[Message]:
    for index, turn in enumerate(turns):
        if index not in answers:
            if turn.parts:
                yield turn
            continue
        yield turn
        yield Message(role="tool", parts=tuple(_answer(call, answers[index], notes) for call in turn.tool_calls))


def _answer(call: ToolCall, answers: dict[str, ToolResult], notes: Notes) -> ToolResult:
    result = answers.get(call.id)
    if result is None:
        notes.add("repaired", f"call {call.id}", "it never got a result, so it gets an error")
        return ToolResult(id=call.id, name=call.name, content=UNAVAILABLE, is_error=True)
    return result if result.name else msgspec.structs.replace(result, name=call.name)


def merge(turns: Iterable[Message], /) -> list[Message]:
    """Consecutive turns of one role made one, for providers that want roles to alternate.

    >>> len(merge([user("a"), user("b")])[0].parts)
    2
    """
    merged: list[Message] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role:
            last = merged.pop()
            merged.append(Message(role=turn.role, parts=last.parts + turn.parts, extra={**last.extra, **turn.extra}))
        else:
            merged.append(turn)
    return merged


def from_user(turns: list[Message], notes: Notes, /) -> list[Message]:
    """The same, begun by the user, for providers that want it so.

    >>> from_user([Message(role="assistant")], Notes("google"))[0].text
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


def fit_id(id: str, pattern: str, length: int, notes: Notes, /) -> str:
    """An id that matches the provider's rule: itself, or always the same other one.

    >>> fit_id("call_1", "[A-Za-z0-9]{9}", 9, Notes("openai_chat"))
    'RksXkbv4v'
    """
    if re.fullmatch(pattern, id):
        return id
    number = int.from_bytes(hashlib.sha256(id.encode()).digest(), "big")
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    fitted = "".join(digits)
    notes.add("renamed", f"call id {id}", f"ids must match {pattern}")
    return fitted


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def calls_before(request: Request | None, /) -> int:
    """How many calls the conversation has had, so that new ids never repeat.

    >>> calls_before(None)
    0
    """
    return sum(len(message.tool_calls) for message in request.messages) if request else 0


def refuse(part: Part, wire: str, /) -> Unsupported:
    """The error of a part that a wire cannot carry.

    >>> str(refuse(Document(data=b"", mime="application/pdf"), "ollama"))
    'ollama: cannot carry a document; use another target, or put its text into the prompt'
    """
    what = part.__struct_config__.tag
    return Unsupported(f"{wire}: cannot carry a {what}; use another target, or put its text into the prompt")
