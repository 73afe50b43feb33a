"""Puts tags into an answer for a client of another dialect: into its events, as they come.

The answer changes only if it has state that its client's dialect cannot express. Parts that are added get indexes of
their own, so all later indexes move.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, fold, kind_of, to_events
from dragoman.gateway.reasoning.places import DIALECTS_THAT_LOSE_TAGS, TAG_WRITERS, TagWriter
from dragoman.gateway.reasoning.state import (
    AnswerState,
    PartState,
    call_digest,
    part_state,
)
from dragoman.gateway.reasoning.tag import TagContent, TagKey
from dragoman.types import Extra, Notice, Part, Response, Text, Thinking, ToolCall

MAX_INLINE = 32 * 1024
"""Bytes of state in a tag, if there is a store for more."""
TOO_LONG = Notice(
    kind="dropped", what="reasoning state", why="it is too long for a tag; set gateway.store, so that it is stored"
)


class AnswerTagger:
    """Tags one answer of one target."""

    def __init__(
        self,
        dialect: str,
        state: AnswerState,
        key: TagKey,
        /,
        *,
        has_store: bool,
        has_tags: bool = True,
        parts_before: int = 0,
        returned: Callable[[ToolCall], ToolCall] | None = None,
    ) -> None:
        """`state`: the state of the answer, without its parts; `has_store`: whether long states go to the store.

        Without `has_tags`, the state is only for the store. `parts_before`: the texts that were not tagged;
        `returned`: a call as the client will send it back, if that may differ.
        """
        self.notices: tuple[Notice, ...] = ()
        self.calls: list[ToolCall] = []
        """The calls of the answer, as the client sends them back."""
        self.text = ""
        """Its text."""
        self.states: list[PartState] = []
        """The state of all parts, if the dialect needs it in the store."""
        self._writes: dict[str, bytes] = {}
        self.dialect = dialect
        self._answer_state = state
        self.key = key
        self._has_store = has_store
        self._has_tags = has_tags
        self._returned = returned
        self._tag_writer = (TAG_WRITERS[dialect] if has_tags else TagWriter)(self._make_tag)
        self._indexes: dict[int, int] = {}
        self._next_index = parts_before
        self._waiting: dict[int, PartStarted] = {}
        """The starts of calls: what stands before a call is known at its end, or at its first fragment."""
        self._started: dict[int, tuple[ToolCall, Extra]] = {}
        """The calls whose fragments are passed on, with their tags."""
        self._texts = parts_before

    def tag_response(self, response: Response, /) -> Response:
        message = fold(self.tag_events(to_events(response))).message
        return replace(response, message=replace(response.message, parts=message.parts))

    def tag_events(self, events: Sequence[Event], /) -> Sequence[Event]:
        return [tagged for event in events for tagged in self._tag(event)]

    @property
    def has_writes(self) -> bool:
        """Whether there are long states to store."""
        return bool(self._writes)

    def take_writes(self) -> dict[str, bytes]:
        """The long states to store, by key."""
        writes, self._writes = self._writes, {}
        return writes

    def _tag(self, event: Event) -> Iterable[Event]:
        match event:
            case PartDelta():
                return [*self._release(event.index), replace(event, index=self._indexes.get(event.index, event.index))]
            case CallDelta():
                return [*self._start_call(event.index), replace(event, index=self._indexes[event.index])]
            case PartStarted(kind="tool_call"):
                self._waiting[event.index] = event
                return ()
            case PartStarted():
                return [self._start(event)]
            case PartEnded():
                return self._end(event)
            case Finished():
                return [*self._whole(self._tag_writer.end()), event]
            case _:
                return [event]

    def _start(self, event: PartStarted) -> PartStarted:
        index = self._indexes[event.index] = self._new_index()
        return replace(event, index=index)

    def _release(self, index: int) -> Iterable[Event]:
        return [self._start(self._waiting.pop(index))] if index in self._waiting else ()

    def _start_call(self, index: int) -> Iterable[Event]:
        """Start a call at its first fragment, with what is known of it by then."""
        started = self._waiting.pop(index, None)
        if started is None:
            return ()
        call = ToolCall(id=started.id or "", name=started.name or "", extra=started.extra)
        before, tagged, _ = self._tag_writer.add_tag(call, self._state_of(call))
        extra = tagged.extra if isinstance(tagged, ToolCall) else call.extra
        self._started[index] = call, extra
        return [*self._whole(before), self._start(replace(started, extra=extra))]

    def _end(self, event: PartEnded) -> Iterable[Event]:
        if event.index in self._started and isinstance(event.part, ToolCall):
            return self._end_call(event, event.part)
        before, part, after = self._tag_writer.add_tag(event.part, self._record_part(event.part))
        events = [*self._whole(before), *self._release(event.index)]
        events.append(replace(event, index=self._indexes.pop(event.index, event.index), part=part))
        return [*events, *self._whole(after)]

    def _end_call(self, event: PartEnded, call: ToolCall) -> Iterable[Event]:
        """End a call whose fragments were sent. State that came after its start follows it."""
        started, extra = self._started.pop(event.index)
        late: tuple[Part, ...] = ()
        if part_state(call) not in (None, part_state(started)):
            late, tagged, _ = self._tag_writer.add_tag(call, self._state_of(call))
            extra = tagged.extra if isinstance(tagged, ToolCall) else extra
        self.calls.append(self._returned_call(call))
        ended = replace(event, index=self._indexes.pop(event.index), part=replace(call, extra=extra))
        return [ended, *self._whole(late)]

    def _record_part(self, part: Part) -> PartState | None:
        """Note the calls and the text of the answer; returns the state of the part."""
        state = self._state_of(part)
        if isinstance(part, ToolCall):
            returned = self._returned_call(part)
            self.calls.append(returned)
            if state is not None:
                arguments = None if returned.arguments == part.arguments else part.arguments
                state = replace(state, text=call_digest(returned), arguments=arguments)
        if isinstance(part, Text):
            self._texts += 1
            self.text += part.text
        return state

    def _returned_call(self, call: ToolCall) -> ToolCall:
        return call if self._returned is None else self._returned(call)

    def _state_of(self, part: Part) -> PartState | None:
        has_extra = isinstance(part, Text | Thinking | ToolCall) and self.dialect in part.extra
        is_expressed = has_extra and self._has_tags
        state = None if is_expressed else part_state(part, calls_before=len(self.calls), texts_before=self._texts)
        if state is not None and self.dialect in DIALECTS_THAT_LOSE_TAGS:
            self.states.append(state)
        return state

    def _whole(self, parts: Iterable[Part]) -> Iterable[Event]:
        for part in parts:
            index = self._new_index()
            yield PartStarted(index=index, kind=kind_of(part))
            yield PartEnded(index=index, part=part)

    def _new_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def encode_states(self, states: Iterable[PartState], /) -> bytes:
        """The state of some parts of the answer as bytes."""
        return msgspec.json.encode(replace(self._answer_state, parts=tuple(states)))

    def _make_tag(self, states: list[PartState]) -> str | None:
        data = self.encode_states(states)
        if self._has_store and len(data) > MAX_INLINE:
            name = self.key.digest(data.hex())
            self._writes[name] = data
            return self.key.make(TagContent(name.encode(), is_stored=True))
        tag = self.key.make(TagContent(data))
        if tag is None:
            self.notices = (TOO_LONG,)
        return tag


def has_state(event: Event, /) -> bool:
    """Whether an event may belong to a part with state of its provider."""
    if type(event) is PartStarted:
        return event.kind in ("thinking", "tool_call")
    return type(event) is PartEnded and part_has_state(event.part)


def part_has_state(part: Part, /) -> bool:
    """Whether a part may have state of its provider: thinking, a call, or a text with `extra`."""
    return bool(part.extra) if type(part) is Text else isinstance(part, Thinking | ToolCall)
