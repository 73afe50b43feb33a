"""Message histories that every provider accepts.

`repair` brings the messages of a request into a form that all wires can encode: system texts apart, every tool call
followed by exactly one result, no data of other wires. Each change adds a notice. The other functions help with rules
that only some providers have.

Providers cache a conversation by its beginning, and some sign their thinking over it. So what becomes of a message must
never depend on messages after the next answer of the model: the next request would move what this one has sent.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import is_
from typing import Literal

import msgspec

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.events import PartKind, kind_of
from dragoman.http import redact_url
from dragoman.targets.target import Target
from dragoman.types import (
    SYSTEM_ROLES,
    Audio,
    Document,
    Extra,
    HostedCall,
    HostedResult,
    Image,
    Message,
    Opaque,
    Part,
    Request,
    ResultPart,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    is_object,
    user,
)
from dragoman.types.base import unchecked
from dragoman.types.caching import CACHE
from dragoman.types.files import FILE
from dragoman.wires.common.caching import CACHE_MARKS
from dragoman.wires.common.citations import covers_citations, with_numbered_sources
from dragoman.wires.common.extra import CHANGED, TEXT_BEFORE, VERBATIM, wire_extra
from dragoman.wires.common.hosted_tools import hosted_to_wire
from dragoman.wires.common.notices import NoticeCollector

ERROR_PREFIX = "ERROR: "
"""Marks the result of a failed tool call on wires that have no field for it."""
EMPTY_TURN = "(no text)"
"""The text of a turn of which nothing can be sent, for wires where turns alternate: it keeps the others apart."""
FILLER_ANSWER = "(Noted.)"
"""The text of an answer that is only there because the provider wants one."""
UNAVAILABLE = "result unavailable; do not assume that it ran"
"""The content of the result of a call that has none in the history."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The system texts, and messages with the roles user, assistant and tool; and system, if the target takes that."""

    system: tuple[Text, ...]
    turns: tuple[Message, ...]


def repair(
    request: Request,
    notices: NoticeCollector,
    /,
    *,
    system_turns: bool = False,
    alternating: bool = False,
    citations: Literal["all", "own", "none"] = "own",
    cites_documents: bool = False,
) -> History:
    """Collect system messages, give every call exactly one result right after it, remove data of other wires.

    System messages after the first turn stay in their place: as they are with `system_turns`, else as user turns. With
    `alternating`, an answer of which nothing is left stays as an empty turn, for `fill_turns`. `citations`
    says which ones the wire can send; the sources of the others stand below their text, numbered. With
    `cites_documents`, the wire can be asked to cite a document.

    >>> call = ToolCall(id="call_1", name="tide")
    >>> notices = NoticeCollector("ollama")
    >>> history = repair(Request(messages=(user("?"), Message(role="assistant", parts=(call,)))), notices)
    >>> history.turns[-1].parts[0].content
    'result unavailable; do not assume that it ran'
    """
    texts = [*system_texts(request)]
    calls = _Calls(notices, cites_documents=cites_documents)
    turns: list[Message] = []
    for message in request.messages:
        if message.role in SYSTEM_ROLES and not turns:
            texts += _leading_system(message, notices)
            continue
        if message.role in SYSTEM_ROLES and not system_turns:
            message = mark_system(message, notices)  # noqa: PLW2901 - from here on it is a user turn
        if _is_plain(message):
            if message.role == "assistant":
                calls.last_answer = len(turns)
            turns.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            match part:
                case ToolResult() if calls.is_late(part):
                    parts += _result_as_text(part, "came late", "it came after the next answer", notices)
                case ToolResult() if not calls.add_result(part, last=len(turns) - 1):
                    parts += _result_as_text(
                        part, "has no call in this conversation", "there is no call for it", notices
                    )
                case ToolResult():
                    pass
                case ToolCall() if message.role == "assistant":
                    parts.append(calls.add_call(part, turn=len(turns)))
                case ToolCall():
                    notices.add("dropped", f"call {part.id}", f"not allowed in a message of the {message.role}")
                case _:
                    parts.append(part)
        if is_answer := message.role == "assistant":
            calls.last_answer = len(turns)
        # Only answers have citations on every wire that has some.
        cited = citations if is_answer or citations != "all" else "own"
        own_parts = _own_parts(parts, notices, citations=cited, cites_documents=cites_documents)
        _note_foreign(message.extra, f"{message.role} message", notices)
        if own_parts or wire_extra(message.extra, notices.wire) or (is_answer and turns and alternating):
            role = "user" if message.role == "tool" else message.role
            is_same = role == message.role and _are_same(own_parts, message.parts)
            turns.append(message if is_same else msgspec.structs.replace(message, role=role, parts=own_parts))
    while turns and _is_silent(turns[-1], notices.wire):
        turns.pop()
    return History(system=tuple(texts), turns=tuple(_with_results(turns, calls)))


def _is_silent(turn: Message, wire: str) -> bool:
    """Whether nothing of an answer is left; inside the history it still keeps the turns around it apart."""
    return turn.role == "assistant" and not turn.parts and not wire_extra(turn.extra, wire)


def _is_plain(message: Message) -> bool:
    """Whether the message is only text without extra, which never needs a repair."""
    if message.extra or message.role == "tool":
        return False
    for part in message.parts:
        if not isinstance(part, Text) or part.extra or part.citations:
            return False
    return bool(message.parts)


def _are_same(parts: tuple[Part, ...], others: tuple[Part, ...]) -> bool:
    """Whether these are the same objects, as in most messages."""
    return len(parts) == len(others) and all(map(is_, parts, others))


class _Calls:
    """The calls of a history, each with a unique id, and their results."""

    def __init__(self, notices: NoticeCollector, *, cites_documents: bool) -> None:
        self.last_answer = -1
        """The index of the last turn of the assistant."""
        self._notices = notices
        self._cites_documents = cites_documents
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, str]]] = {}
        self._results: dict[str, ToolResult] = {}

    def add_call(self, call: ToolCall, *, turn: int) -> ToolCall:
        """Add a call, with a new id if an earlier call has the same. A result belongs to the latest call of its id."""
        id = call.id
        if not id or id in self._ids:
            id = self._new_id(id)
            self._notices.add("renamed", f"call id {call.id}", "ids must be unique")
        self._ids.add(id)
        waiting = self._waiting.setdefault(call.id, deque())
        if waiting and waiting[0][0] != turn:
            waiting.clear()
        waiting.append((turn, id))
        return call if id == call.id else unchecked(call, id=id)

    def _new_id(self, id: str) -> str:
        """The next unused id with that prefix. Ids are never free again, so the numbers only grow."""
        number = self._numbers.get(id, 2 if id else 1)
        while (other := f"{id or 'call'}_{number}") in self._ids:
            number += 1
        self._numbers[id] = number + 1
        return other

    def is_late(self, result: ToolResult) -> bool:
        """Whether the model has answered since the call: then it has seen that the result is unavailable."""
        waiting = self._waiting.get(result.id)
        return waiting is not None and len(waiting) > 0 and waiting[0][0] < self.last_answer

    def add_result(self, result: ToolResult, *, last: int) -> bool:
        """Store a result for its call; False if there is none. `last` is the index of the turn before the result."""
        waiting = self._waiting.get(result.id)
        if not waiting:
            return False
        turn, id = waiting.popleft()
        if turn < last:
            self._notices.add("repaired", f"result {result.id}", "moved right after its call")
        content = _own_content(result, self._notices, cites_documents=self._cites_documents)
        is_same = id == result.id and content is result.content
        self._results[id] = result if is_same else unchecked(result, id=id, content=content)
        return True

    def result_of(self, call: ToolCall) -> ToolResult:
        """The result of a call; an error result if the history has none."""
        result = self._results.get(call.id)
        if result is None:
            self._notices.add("repaired", f"call {call.id}", "added an error result: there was none")
            return ToolResult(id=call.id, name=call.name, content=UNAVAILABLE, is_error=True)
        return result if result.name else msgspec.structs.replace(result, name=call.name)


def system_texts(request: Request, /) -> tuple[Text, ...]:
    """The system prompt as texts."""
    if isinstance(request.system, str):
        return (Text(text=request.system),)
    return request.system or ()


def as_system(texts: Sequence[Text], /) -> str | tuple[Text, ...] | None:
    """System texts in the simplest form that `Request.system` takes."""
    if len(texts) == 1 and not texts[0].extra:
        return texts[0].text
    return tuple(texts) or None


def _leading_system(message: Message, notices: NoticeCollector) -> list[Text]:
    texts: list[Text] = []
    for part in message.parts:
        if isinstance(part, Opaque) and not is_own(part, notices):
            continue
        if isinstance(part, Thinking):
            notices.add("dropped", "part of a system message", "thinking is not supported there")
            continue
        if not isinstance(part, Text):
            why = "only text is supported; move it to a message of the user"
            raise Unsupported(f"{notices.wire}: cannot send {_PART_NAMES[kind_of(part)]} in a system message: {why}")
        texts.append(part)
    return texts


def mark_system(message: Message, notices: NoticeCollector, /) -> Message:
    """A system message inside the history as a user turn, marked, for targets that take system messages only on top.

    >>> mark_system(Message(role="system", parts=(Text(text="Be brief."),)), NoticeCollector("ollama")).text
    '<system>\\nBe brief.\\n</system>'
    """
    texts = [part.text for part in message.parts if isinstance(part, Text) and part.text]
    if texts:
        notices.add("changed", "system message after the first turn", "sent as a user message in its place")
    marked = (Text(text="\n".join(("<system>", *texts, "</system>"))),) if texts else ()
    return Message(role="user", parts=(*marked, *(part for part in message.parts if not isinstance(part, Text))))


def _result_as_text(result: ToolResult, fact: str, why: str, notices: NoticeCollector) -> list[Part]:
    notices.add("changed", f"result {result.id}", f"{why}; sent as a text of the user")
    source = f"{result.name or 'the tool'} ({result.id})" if result.id else result.name or "a tool"
    text = Text(text=f"The result of {source} {fact}:\n{error_text(result)}")
    return [text, *(part for part in result.parts if isinstance(part, Image | Document | Opaque))]


def fill_turns(turns: Iterable[Message], notices: NoticeCollector, /) -> list[Message]:
    """Give turns of which nothing is left a text, for wires where turns alternate: the turns around them stay apart.

    >>> len(fill_turns([user("a"), Message(role="assistant"), user("b")], NoticeCollector("google")))
    3
    """
    filled: list[Message] = []
    missing: Role | None = None
    for turn in (*turns, None):
        if missing is not None and filled and _is_needed(missing, filled[-1], turn):
            notices.add("repaired", f"an empty message of the {missing}", "a short text is sent in its place")
            filled.append(Message(role=missing, parts=(Text(text=EMPTY_TURN),)))
        missing = None if turn is None or turn.parts else turn.role
        filled += [turn] if turn is not None and turn.parts else []
    return filled


def _is_needed(role: Role, before: Message, after: Message | None) -> bool:
    """Whether an empty turn keeps turns of the other role apart.

    An answer is not needed at the end. A user's turn after an answer always is: what follows it may come later.
    """
    if role == "assistant":
        return before.role != "assistant" and after is not None and after.role != "assistant"
    return before.role == "assistant"


def _own_parts(
    parts: Iterable[Part], notices: NoticeCollector, *, citations: str, cites_documents: bool
) -> tuple[Part, ...]:
    """The parts in the form of this wire, without the thinking of other wires."""
    if notices.carries_all:
        return tuple(parts)
    own_parts: list[Part] = []
    for part in parts:
        match part:
            case Thinking() if notices.wire not in part.extra:
                notices.add("dropped", "thinking", "from another wire, or without a signature")
            case HostedCall() | HostedResult():
                own_parts += hosted_to_wire(part, notices)
            case Opaque():
                own_parts += [part] if is_own(part, notices) else []
            case Text(citations=(_, *_)):
                own_parts.append(_with_sources(part, notices, citations=citations))
            case _:
                if part.extra:
                    _note_foreign(part.extra, f"{part.__struct_config__.tag} part", notices)
                    own_parts += _text_before(part.extra, notices)
                    if isinstance(part, Document):
                        part = _cited(part, notices, cites_documents=cites_documents)  # noqa: PLW2901 - with own data
                own_parts.append(part)
    return tuple(own_parts)


def _cited(document: Document, notices: NoticeCollector, *, cites_documents: bool) -> Document:
    """A document that a client of another wire wants to be cited, in the form of the wires that can do it."""
    settings = [data["citations"] for data in document.extra.values() if is_object(data) and "citations" in data]
    own = wire_extra(document.extra, notices.wire)
    if "citations" in own or not any(is_object(setting) and setting.get("enabled") for setting in settings):
        return document
    if not cites_documents:
        notices.add("dropped", "citations of a document", "not supported")
        return document
    return msgspec.structs.replace(
        document, extra={**document.extra, notices.wire: {**own, "citations": {"enabled": True}}}
    )


def is_own(block: Opaque, notices: NoticeCollector, /) -> bool:
    """Whether a block is one of this wire. One of another wire is refused, or left out if it is optional."""
    if block.wire == notices.wire:
        return True
    kind = block.data.get("type") or next(iter(block.data), "unknown")
    if not block.is_optional:
        why = f"only targets of the wire {block.wire} take it; use one of them, or leave it out"
        raise Unsupported(f"{notices.wire}: cannot send a block of type {kind!r}: {why}")
    notices.add("dropped", f"{block.wire} block ({kind})", "not supported, and not needed")
    return False


def _with_sources(text: Text, notices: NoticeCollector, *, citations: str) -> Text:
    """A text with the citations that the wire has a form for; the others are numbered sources."""
    for name, data in text.extra.items():
        if not covers_citations(data):
            _note_foreign({name: data}, "text part", notices)
    own = text.extra.get(notices.wire)
    if citations == "all" and own is None and any(citation.cited_text for citation in text.citations):
        notices.add("dropped", "cited text of citations", "not supported")
    if citations == "all" or (own is not None and (citations == "own" or not own)):
        return text
    changed = with_numbered_sources(text)
    if changed.text != text.text:
        notices.add("changed", "citations", "sent as numbered sources below the text")
    return changed


def _text_before(extra: Extra, notices: NoticeCollector) -> list[Text]:
    """The text that other wires send before a part, because only its own wire has a field for it."""
    texts = [data.get(TEXT_BEFORE) for name, data in extra.items() if name.endswith(VERBATIM) and is_object(data)]
    if notices.wire + VERBATIM in extra or not any(texts):
        return []
    notices.add("changed", "context of a document", "sent as text before it")
    return [Text(text=text) for text in texts if isinstance(text, str)]


def _note_converted(extra: Extra, notices: NoticeCollector) -> None:
    """Add notices for what was a block of another wire, and is sent in another form."""
    for name, data in extra.items():
        if name.endswith(VERBATIM) and name != notices.wire + VERBATIM and isinstance(why := data.get(CHANGED), str):
            notices.add("changed", f"block of {name.removesuffix(VERBATIM)}", why)


_OUR_MARKS = frozenset({CACHE, FILE})
"""Marks of our own, which a target gets in another form."""


def _note_foreign(extra: Extra, what: str, notices: NoticeCollector) -> None:
    """Add notices for data of other wires, such as a signature. Ids of items and cache points do not count."""
    if not extra:
        return
    _note_converted(extra, notices)
    for name, data in extra.items():
        is_foreign = name != notices.wire and not notices.carries_all and not name.endswith(VERBATIM)
        if not is_foreign or not data or name in _OUR_MARKS or covers_citations(data):
            continue
        if not is_object(data) or not data.keys() - CACHE_MARKS <= {"id"}:
            notices.add("dropped", f"{name} data of the {what}", "belongs to another wire")


def _own_content(
    result: ToolResult, notices: NoticeCollector, *, cites_documents: bool
) -> str | tuple[ResultPart, ...]:
    """A result's content without the blocks of other wires."""
    if isinstance(result.content, str) or notices.carries_all:
        return result.content
    own_parts: list[ResultPart] = []
    for part in result.content:
        if isinstance(part, Opaque):
            own_parts += [part] if is_own(part, notices) else []
            continue
        _note_foreign(part.extra, f"{part.__struct_config__.tag} part of a result", notices)
        if isinstance(part, Document) and part.extra:
            part = _cited(part, notices, cites_documents=cites_documents)  # noqa: PLW2901 - with own data
        own_parts.append(part)
    return tuple(own_parts)


_RESULTS = Message(role="tool")


def _with_results(turns: Iterable[Message], calls: _Calls) -> Iterable[Message]:
    for turn in turns:
        yield turn
        if turn.role == "assistant" and (tool_calls := turn.tool_calls):
            yield unchecked(_RESULTS, parts=tuple(map(calls.result_of, tool_calls)), extra={})


def merge_turns(turns: Iterable[Message], /) -> list[Message]:
    """Merge consecutive turns of one role, for providers that refuse them.

    >>> len(merge_turns([user("a"), user("b")])[0].parts)
    2
    """
    return [join_turns(list(group)) for _, group in groupby(turns, key=lambda turn: turn.role)]


def merge_answers(turns: Iterable[Message], /) -> list[Message]:
    """Merge consecutive turns of the assistant. Those of the user stay apart, so that a later one moves none.

    >>> len(merge_answers([user("a"), user("b")]))
    2
    """
    merged: list[Message] = []
    for turn in turns:
        if turn.role == "assistant" and merged and merged[-1].role == "assistant":
            merged[-1] = join_turns([merged[-1], turn])
        else:
            merged.append(turn)
    return merged


def join_turns(turns: Sequence[Message], /) -> Message:
    """One turn with the parts of several of the same role."""
    if len(turns) == 1:
        return turns[0]
    parts = tuple(part for turn in turns for part in turn.parts)
    extra = {name: data for turn in turns for name, data in turn.extra.items()}
    return Message(role=turns[0].role, parts=parts, extra=extra)


def start_with_user(turns: list[Message], notices: NoticeCollector, /) -> list[Message]:
    """Insert a user turn at the start if there is none, for providers that require it.

    >>> start_with_user([Message(role="assistant")], NoticeCollector("google"))[0].text
    '(The conversation begins.)'
    """
    if turns and turns[0].role == "assistant":
        notices.add("repaired", "first message", "added a user message before it: it must be from the user")
        return [user("(The conversation begins.)"), *turns]
    return turns


def error_text(result: ToolResult, /) -> str:
    """The text of a result, with a prefix if it is an error.

    >>> error_text(ToolResult(id="call_1", content="no", is_error=True))
    'ERROR: no'
    """
    return ERROR_PREFIX + result.text if result.is_error else result.text


def split_error(text: str, /) -> tuple[str, bool]:
    """The inverse of `error_text`: the text without the prefix, and whether it had one.

    >>> split_error("ERROR: no")
    ('no', True)
    """
    return (text[len(ERROR_PREFIX) :], True) if text.startswith(ERROR_PREFIX) else (text, False)


def result_media(results: Iterable[ToolResult], /) -> Message | None:
    """A user turn with the images and documents of results, for wires whose results are text only."""
    parts: list[Part] = []
    for result in results:
        parts_of_result = () if isinstance(result.content, str) else result.content
        media = [part for part in parts_of_result if isinstance(part, Image | Document)]
        if media:
            parts += [Text(text=f"From the result of {result.name or 'the tool'} ({result.id}):"), *media]
    return Message(role="user", parts=tuple(parts)) if parts else None


def fit_id(id: str, pattern: str, length: int, notices: NoticeCollector, /) -> str:
    """The id if it matches the provider's rule, else a hash of it that does.

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
    notices.add("renamed", f"call id {id}", f"must match {pattern}")
    return fitted


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def has_content(part: Part, notices: NoticeCollector, /) -> bool:
    """Whether a part can be sent to an API that refuses texts of white space, and does not know other wires' blocks."""
    if isinstance(part, Opaque) and part.wire != notices.wire:
        notices.add("dropped", f"{part.wire} block", "not supported")
        return False
    if not isinstance(part, Text) or part.text.strip():
        return True
    if part.text:
        notices.add("repaired", "a text of white space", "the API refuses it; left out")
    return False


def check_urls(turns: Iterable[Message], target: Target, /) -> None:
    """Raise `Unsupported` for image URLs if the target cannot fetch them."""
    if target.capabilities.image_urls:
        return
    for turn in turns:
        for part in turn.parts:
            for each in part.parts if isinstance(part, ToolResult) else (part,):
                if isinstance(each, Image) and each.data is None:
                    url = redact_url(each.url or "")
                    raise Unsupported(f"{target.name}: cannot fetch {url}; send the bytes of the image instead")


def check_prompt(request: Request, encoded: Sequence[object], target: Target, /) -> None:
    """Raise an error if nothing of the messages can be sent: empty texts, or only parts of other wires."""
    if encoded or not request.messages:
        return
    if any(not isinstance(part, Text) for message in request.messages for part in message.parts):
        raise Unsupported(f"{target.name}: messages must contain a supported part; all of them are unsupported")
    why = "messages must contain a non-empty text; a system prompt alone is not enough"
    raise InvalidRequest(f"{target.name}: {why}", fail_over=True)


def calls_before(request: Request | None, /) -> int:
    """The number from which new call ids count, so that they differ from all ids of the conversation."""
    if request is None:
        return 0
    ids = [part.id for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    if not ids:
        return 0
    numbers = [int(match[1]) for id in ids if (match := re.fullmatch(r"call_([0-9]{1,9})", id))]
    return max(len(ids), *numbers, 0)


def cannot_send(part: Part, wire: str, /, *, takes: str = "") -> Unsupported:
    """The error for a part that a wire cannot send; `takes` is what it can send, if known.

    >>> str(cannot_send(Document(data=b"", mime="application/pdf"), "ollama", takes="text and images"))
    'ollama: cannot send a document (application/pdf), only text and images; use another target or send it as text'
    """
    mime = part.mime if isinstance(part, Image | Document | Audio) else None
    what = f"{_PART_NAMES[kind_of(part)]} ({mime})" if mime else _PART_NAMES[kind_of(part)]
    only = f", only {takes}" if takes else ""
    return Unsupported(f"{wire}: cannot send {what}{only}; use another target or send it as text")


_PART_NAMES: dict[PartKind, str] = {
    "text": "text",
    "image": "an image",
    "document": "a document",
    "audio": "an audio file",
    "thinking": "thinking",
    "tool_call": "a tool call",
    "tool_result": "a tool result",
    "hosted_call": "a call of a hosted tool",
    "hosted_result": "a result of a hosted tool",
    "opaque": "a block of another provider",
}
