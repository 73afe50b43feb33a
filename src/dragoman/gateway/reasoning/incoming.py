"""Restores the state of earlier answers in a request, for the target that made it.

Tags are found and checked once. Each attempt then gets the request for its target: with the state of that target's own
answers, and without any other state or tag. A tag that cannot be used is dropped with a notice, and never an error.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from dragoman.gateway.reasoning.answer_positions import PositionFinder, is_moved
from dragoman.gateway.reasoning.lost_steps import calls_as_text, has_unreadable_thinking
from dragoman.gateway.reasoning.native_forms import has_native_state, with_native_state
from dragoman.gateway.reasoning.places import CHAT, GOOGLE, NEEDS_THINKING, FoundPart, FoundTag, find_tags
from dragoman.gateway.reasoning.state import (
    AnswerPosition,
    AnswerState,
    PartState,
    TextNearby,
    call_digest,
    decode_state,
    nearby,
    origin_of,
)
from dragoman.gateway.reasoning.step_keys import StepKeys
from dragoman.gateway.reasoning.tag import TagContent, TagKey
from dragoman.targets.target import Target
from dragoman.types import Message, Notice, Part, Request, Text, Thinking, ToolCall
from dragoman.wires.common.extra import wire_extra

WHAT = "reasoning of an earlier answer"
CHANGED = "its tag or text was changed, or the tag is of another gateway or API key"
CHANGED_CALL = "its call was changed"
MOVED = "its tag is of another answer of the conversation"
AFTER_LOSS = "it depends on reasoning before it that is lost"
NOT_STORED = "the store does not have it anymore"
CALLS_AS_TEXT = Notice(
    kind="changed",
    what="calls of an earlier answer",
    why="sent as text: the target refuses calls without their thinking",
)
MAX_LOOKUPS = 1000
"""Reads of the store for one request."""


class _Step(msgspec.Struct):
    """An assistant message with state: what is left of its parts, and the contents of their tags."""

    parts: list[FoundPart]
    contents: list[list[tuple[FoundTag, TagContent | None]]]
    stored: AnswerState | None = None
    """The state that the store has of the message, if its tags were lost."""


class RequestTags:
    """The state of earlier answers in one request."""

    def __init__(self, dialect: str, request: Request, key: TagKey, /) -> None:
        self._key = key
        self._request = request
        self._dialect = dialect
        self._steps: dict[int, _Step] = {}
        self._stored: dict[str, AnswerState | None] = {}
        self.losses: dict[str, int] = {}
        """How many answers lost their reasoning, if that matters for later ones, by the name of the target."""
        self._untagged: set[int] = set()
        """Messages of Chat Completions that may have state without a tag."""
        self._may_lack_thinking = False
        """Whether thinking of Claude before its calls may be missing."""
        for index, message in enumerate(request.messages):
            if (step := self._find(message)) is not None:
                self._steps[index] = step
                continue
            if dialect not in NEEDS_THINKING and has_unreadable_thinking(message.parts, ""):
                self._may_lack_thinking = True
            if dialect == CHAT and message.role == "assistant" and has_native_state(message):
                self._untagged.add(index)

    def _find(self, message: Message) -> _Step | None:
        parts = find_tags(self._dialect, message) if message.role == "assistant" else None
        if parts is None:
            return None
        contents = [[(tag, self._key.read(tag.tag)) for tag in part.tags] for part in parts]
        return _Step(parts=parts, contents=contents)

    def __bool__(self) -> bool:
        """Whether there is any state."""
        return bool(self._steps or self._untagged or self._may_lack_thinking)

    def stored_keys(self) -> list[str]:
        """The keys of states that are in the store."""
        contents = (content for step in self._steps.values() for each in step.contents for _, content in each)
        return [content.data.decode() for content in contents if content is not None and content.is_stored]

    def lost_steps(self, *, without_thinking: bool) -> dict[int, tuple[str, ...]]:
        """Answers whose state may be lost, and the names under which the store may have it.

        `without_thinking`: only those without thinking, because the targets read what the client sends back.
        """
        names = StepKeys(self._key, self._dialect, self._request)
        return {
            index: names.of(index, message.tool_calls, message.text)
            for index, message in enumerate(self._request.messages)
            if message.role == "assistant"
            and index not in self._steps
            and not (without_thinking and any(isinstance(part, Thinking) for part in message.parts))
        }

    def add_stored(self, key: str, data: bytes | None, /) -> None:
        """Add a state that was read from the store."""
        self._stored[key] = None if data is None else decode_state(data)

    def add_lost_step(self, index: int, data: bytes, /) -> None:
        """Add the state of a message whose tags are lost."""
        parts = self._request.messages[index].parts
        left = [FoundPart(part, ()) for part in parts if not isinstance(part, Thinking)]
        self._steps[index] = _Step(parts=left, contents=[[] for _ in left], stored=decode_state(data))

    def for_target(self, request: Request, target: Target, /) -> tuple[Request, tuple[Notice, ...]]:
        """The request for one target, and what it cannot get."""
        calls = frozenset(call.id for message in request.messages for call in message.tool_calls)
        restorer = _Restorer(self._key, target, self._stored, calls)
        finder = PositionFinder()
        messages: list[Message | None] = []
        for index, message in enumerate(request.messages):
            is_same = message is self._request.messages[index] if index < len(self._request.messages) else False
            # A request for a summary differs at its end.
            if (step := self._steps.get(index) if is_same else self._find(message)) is not None:
                messages.append(restorer.restore(message, step, finder.position))
            else:
                native = with_native_state(message, target.wire) if index in self._untagged else message
                messages.append(restorer.check(native) if self._may_lack_thinking else native)
            finder.read(message)
        self.losses[target.name] = restorer.losses
        left = tuple(message for message in messages if message is not None)
        if restorer.lost:
            left = calls_as_text(left, restorer.lost)
        return replace(request, messages=left), tuple(restorer.notices)


class _Restorer:
    """Restores messages for one target."""

    def __init__(
        self, key: TagKey, target: Target, stored: dict[str, AnswerState | None], calls: frozenset[str]
    ) -> None:
        self.notices: dict[Notice, None] = {}
        self.lost: dict[str, ToolCall] = {}
        """Calls that the target refuses because their thinking is lost, by id."""
        self.losses = 0
        """Messages that lost their thinking, if the target wants it back."""
        self._is_lost = False
        """Whether thinking of the target's wire is lost that a message had."""
        self._target = target
        self._origin = origin_of(target, key)
        self._stored = stored
        self._calls = calls
        """The ids of all calls of the conversation."""
        self._position: AnswerPosition | None = None
        """Where the message stands."""

    def restore(self, message: Message, step: _Step, position: AnswerPosition | None) -> Message | None:
        """The message with its state; None if nothing is left of it. `position` is where it stands."""
        self._position = position
        build = _MessageBuilder()
        self._is_lost = False
        stored = [] if step.stored is None else self._readable(step.stored, None)
        if stored:
            build.add_states(stored, in_place=False)
        for tagged, contents in zip(step.parts, step.contents, strict=True):
            states = [state for tag, content in contents for state in self._read(tag, content)]
            if tagged.has_state:
                build.add_with_state(tagged.part, states)
                continue
            build.add_states(states, in_place=tagged.is_in_place)
            if tagged.part is not None:
                build.add_part(tagged.part)
        parts = build.parts(self._target.wire)
        if build.has_changed_call:
            self._note(CHANGED_CALL)
        message = replace(message, parts=parts)
        if self._is_lost and self._target.wire in NEEDS_THINKING:
            self.losses += 1
            return self._without_calls(message) if message.tool_calls else message if parts or message.extra else None
        message = message if stored else self.check(message)
        return message if message.parts or message.extra else None

    def check(self, message: Message) -> Message:
        """The message without its calls if the target misses thinking that it may have had."""
        wire = self._target.wire
        if wire not in NEEDS_THINKING or not has_unreadable_thinking(message.parts, wire):
            return message
        self.losses += 1
        self._note(CHANGED)
        return self._without_calls(message)

    def _without_calls(self, message: Message) -> Message:
        self.lost.update((call.id, call) for call in message.tool_calls)
        self.notices[CALLS_AS_TEXT] = None
        parts = (part for part in message.parts if not isinstance(part, Thinking | ToolCall))
        return replace(message, parts=tuple(parts))

    def _read(self, tag: FoundTag, content: TagContent | None) -> list[PartState]:
        if content is None:
            return self._lose(CHANGED)
        if not content.is_stored:
            state = decode_state(content.data)
        elif (state := self._stored.get(content.data.decode())) is None:
            return self._lose(NOT_STORED)
        if state is None:
            return self._lose(CHANGED)
        return self._readable(state, tag)

    def _lose(self, why: str) -> list[PartState]:
        self._is_lost = True
        self._note(why)
        return []

    def _readable(self, state: AnswerState, tag: FoundTag | None) -> list[PartState]:
        """The states that the target can read, with their texts inside; `tag` is where the state was, if in a tag."""
        if state.origin != self._origin:
            account = " in another account" if state.origin.name == self._target.name else ""
            self._note(f"{state.origin.name}{account} made it, and only that can read it")
            # Calls of another wire have no thinking that the target could miss.
            self._is_lost = self._is_lost or any(self._target.wire in part.extra for part in state.parts)
            return []
        if tag is not None and _has_foreign_text(tag, state):
            return self._lose(CHANGED)
        if tag is not None and is_moved(state, self._position, self._calls):
            return self._lose(MOVED)
        if state.losses != self.losses:
            return self._lose(AFTER_LOSS)
        states: list[PartState] = []
        for part in state.parts:
            text = part.text
            if isinstance(text, TextNearby) and part.kind == "thinking" and tag is not None:
                if (own_text := text.find(tag.nearby, is_whole=tag.is_whole)) is None:
                    self._lose(CHANGED)
                    continue
                text = own_text
            states.append(replace(part, text=text))
        return states

    def _note(self, why: str) -> None:
        self.notices[Notice(kind="dropped", what=WHAT, why=why)] = None


class _MessageBuilder:
    """Puts the parts of a message and their states together again."""

    def __init__(self) -> None:
        self.has_changed_call = False
        """Whether a call is not the one that its state was made for."""
        self._parts: list[Part] = []
        self._moved: list[PartState] = []
        """Thinking that was away from its place."""
        self._calls: dict[str, PartState] = {}
        self._texts: list[PartState] = []

    def add_part(self, part: Part) -> None:
        self._parts.append(part)

    def add_states(self, states: Iterable[PartState], *, in_place: bool) -> None:
        """Add the states of a tag, which stands where they stood in the answer, or on another part."""
        for state in states:
            if state.kind != "thinking":
                self._add_other(state)
            elif in_place:
                self._parts.append(_thinking(state))
            else:
                self._moved.append(state)

    def add_with_state(self, part: Part | None, states: Sequence[PartState]) -> None:
        """Add a part that has its state, if the target can read it; otherwise only what is left without it."""
        match part:
            case Thinking():
                extra = part.extra
                self._moved += [replace(state, text=part.text, redacted=part.redacted, extra=extra) for state in states]
            case ToolCall():
                is_same = any(self._is_same(part, state) for state in states)
                self._parts.append(part if is_same else replace(part, extra={}))
            case Text():
                self._parts.append(part if states else replace(part, extra={}))
            case _:
                return

    def _add_other(self, state: PartState) -> None:
        if state.kind == "call":
            self._calls[state.id] = state
        else:
            self._texts.append(state)

    def _sign_texts(self) -> None:
        """Put the states of texts on the texts; one whose text is not there gets an empty text at the end.

        A text with state gets back the white space that a client has trimmed, because its state is of the whole text.
        """
        if not self._texts:
            return
        texts = {nearby(part.text).digest: index for index, part in enumerate(self._parts) if isinstance(part, Text)}
        for state in _unique(self._texts):
            own = nearby(state.text) if isinstance(state.text, str) else state.text
            index = texts.get(own.digest, -1)
            part = self._parts[index] if index >= 0 else None
            if isinstance(part, Text):
                text = f"{own.before}{part.text.strip()}{own.after}"
                self._parts[index] = replace(part, text=text, extra={**part.extra, **state.extra})
            else:
                self._parts.append(Text(text="", extra=state.extra))

    def parts(self, wire: str) -> tuple[Part, ...]:
        """All parts, in the order of the answer."""
        self._sign_texts()
        placed: list[Part] = []
        waiting = deque(sorted(_unique(self._moved), key=lambda state: (state.calls_before, state.texts_before)))
        needs_ids = wire == GOOGLE and any(
            wire_extra(each.extra, GOOGLE).get("id") == each.id for each in self._calls.values()
        )
        # Some clients drop the ids of calls, or make new ones.
        ids = {part.id for part in self._parts if isinstance(part, ToolCall)}
        places = {state.calls_before: state for state in self._calls.values() if state.id not in ids}
        calls = texts = 0
        for part in self._parts:
            while waiting and _is_before(waiting[0], part, calls=calls, texts=texts):
                placed.append(_thinking(waiting.popleft()))
            if isinstance(part, ToolCall):
                state = self._calls.get(part.id) or places.get(calls)
                placed.append(self._with_state(part, state, needs_ids=needs_ids))
            else:
                placed.append(part)
            calls += isinstance(part, ToolCall)
            texts += isinstance(part, Text)
        placed += [_thinking(state) for state in waiting]
        return tuple(placed)

    def _is_same(self, call: ToolCall, state: PartState) -> bool:
        is_same = not state.text or state.text == call_digest(call)
        self.has_changed_call = self.has_changed_call or not is_same
        return is_same

    def _with_state(self, call: ToolCall, state: PartState | None, *, needs_ids: bool) -> ToolCall:
        if state is not None and self._is_same(call, state):
            if state.arguments is not None:
                call = replace(call, arguments=state.arguments, raw=None)
            extra = {**call.extra, **state.extra}
            if needs_ids:
                extra[GOOGLE] = {**wire_extra(extra, GOOGLE), "id": call.id}
            return replace(call, extra=extra)
        # Google matches results to calls by id, so calls next to one with an id need theirs, too.
        return replace(call, extra={**call.extra, GOOGLE: {"id": call.id}}) if needs_ids else call


def _has_foreign_text(tag: FoundTag, state: AnswerState) -> bool:
    """Whether somebody wrote a text next to a state that has none of its own."""
    return tag.is_whole and bool(tag.nearby) and all(part.kind != "thinking" for part in state.parts)


def _thinking(state: PartState) -> Thinking:
    text = state.text if isinstance(state.text, str) else ""
    return Thinking(text=text, redacted=state.redacted, extra=state.extra)


def _is_before(state: PartState, part: Part, *, calls: int, texts: int) -> bool:
    """Whether thinking stood before a part that so many calls and texts come before."""
    if state.calls_before != calls:
        return state.calls_before < calls
    return isinstance(part, ToolCall) or state.texts_before <= texts


def _unique(states: Iterable[PartState]) -> list[PartState]:
    """The states without those that came twice, in two fields of a message."""
    return [*{msgspec.json.encode(state): state for state in states}.values()]
