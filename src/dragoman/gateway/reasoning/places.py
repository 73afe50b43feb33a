"""Where each dialect has a field that its clients send back unread: tags go there, and are found there.

A dialect that marks thinking (Messages, Converse, Interactions, Responses) has the tag of a thinking part in that
part; the state of a call or a text is in an empty thinking part next to it. Clients of Google drop thinking and send
back signatures, so the tag of a call, or of an empty text at the end, has the thinking before it, too. Clients of Chat
Completions keep some of their fields, so the state is in two of them. The store has it, too, for clients that keep no
such field; for those of Ollama it is only there. The native dialect carries the state of every wire as it is; there, a
tag only says whose state it is, and where it stood.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from msgspec.structs import replace

from dragoman.gateway.reasoning.state import PartState, nearby
from dragoman.gateway.reasoning.tag import is_tag
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Message, Part, Text, Thinking, ToolCall, is_list, is_object
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.google.schema import SIGNATURE

CHAT = "openai_chat"
GOOGLE = "google"
NATIVE = "native"
FORMAT = "dragoman-v1"
"""The format of our entries in `reasoning_details`."""
MakeTag = Callable[[list[PartState]], str | None]
"""Makes the tag of some parts; None if it is too long."""


class TaggedPart(NamedTuple):
    """A part of an answer in the client's dialect, with the parts that stand around it."""

    before: tuple[Part, ...]
    part: Part
    after: tuple[Part, ...]


class TagWriter:
    """Writes the tags of one answer into it, in one dialect; itself, it writes none."""

    def __init__(self, make_tag: MakeTag, /) -> None:
        self._make_tag = make_tag

    def add_tag(self, part: Part, state: PartState | None, /) -> TaggedPart:  # noqa: ARG002 - for the other writers
        """A part with its tag; `state` is its state, with its text inside."""
        return TaggedPart((), part, ())

    def end(self) -> tuple[Part, ...]:
        """What is added at the end of the answer."""
        return ()


class ThinkingTagWriter(TagWriter):
    """For dialects whose thinking parts have an opaque member.

    The state of a text waits for the next part. If the text is the last part and `ends_in_text`, it is not sent: Claude
    Code takes the last block for the answer (seen 2026-11), and no provider checks the state of a text.
    """

    def __init__(self, wire: str, member: str, make_tag: MakeTag, /, *, ends_in_text: bool = False) -> None:
        super().__init__(make_tag)
        self._wire = wire
        self._member = member
        self._ends_in_text = ends_in_text
        self._waiting: tuple[Part, ...] = ()

    def add_tag(self, part: Part, state: PartState | None, /) -> TaggedPart:
        match part:
            case Thinking():
                if state is not None:
                    part = self._thinking(self._make_tag([replace(state, text=nearby(part.text))]), part.text)
                return TaggedPart((), part, self._take_waiting())
            case ToolCall():
                return TaggedPart((*self._take_waiting(), *(() if state is None else self._carrier(state))), part, ())
            case Text() if state is not None:
                self._waiting += self._carrier(replace(state, text=nearby(part.text)))
                return TaggedPart((), part, ())
            case _:
                return TaggedPart((), part, ())

    def end(self) -> tuple[Part, ...]:
        return () if self._ends_in_text else self._take_waiting()

    def _take_waiting(self) -> tuple[Part, ...]:
        waiting, self._waiting = self._waiting, ()
        return waiting

    def _carrier(self, state: PartState) -> tuple[Part, ...]:
        tag = self._make_tag([state])
        return () if tag is None else (self._thinking(tag),)

    def _thinking(self, tag: str | None, text: str = "") -> Thinking:
        return Thinking(text=text, extra={self._wire: {} if tag is None else {self._member: tag}})


class CallTagWriter(TagWriter):
    """For the dialect of Google: thinking waits for the next call, or for the end."""

    def __init__(self, make_tag: MakeTag, /) -> None:
        super().__init__(make_tag)
        self._waiting: list[PartState] = []

    def add_tag(self, part: Part, state: PartState | None, /) -> TaggedPart:
        if state is not None:
            self._waiting.append(state)
        match part:
            case Thinking() if state is not None:
                return TaggedPart((), replace(part, extra={GOOGLE: {}}), ())
            case ToolCall():
                return TaggedPart((), self._signed(part), ())
            case _:
                return TaggedPart((), part, ())

    def end(self) -> tuple[Part, ...]:
        signature = self._signature()
        return (Text(text="", extra={GOOGLE: signature}),) if signature else ()

    def _signed(self, call: ToolCall) -> ToolCall:
        signature = self._signature()
        return replace(call, extra={GOOGLE: {"id": call.id, **signature}}) if signature else call

    def _signature(self) -> JsonObject:
        states, self._waiting = self._waiting, []
        tag = self._make_tag(states) if states else None
        return {} if tag is None else {SIGNATURE: tag}


class ChatTagWriter(TagWriter):
    """For Chat Completions: in `reasoning_details`, and on the first call after some thinking."""

    def __init__(self, make_tag: MakeTag, /) -> None:
        super().__init__(make_tag)
        self._waiting: list[PartState] = []
        self._length = 0
        """The length of all thinking, without white space at its start."""
        self._count = 0

    def add_tag(self, part: Part, state: PartState | None, /) -> TaggedPart:
        match part:
            case Thinking() if state is not None:
                return TaggedPart((), self._thinking(part, state), ())
            case ToolCall():
                carrier = () if state is None else self._carrier(state)
                return TaggedPart(carrier, self._call(part, state), ())
            case Text() if state is not None:
                return TaggedPart((), part, self._carrier(replace(state, text=nearby(part.text))))
            case _:
                return TaggedPart((), part, ())

    def _thinking(self, part: Thinking, state: PartState) -> Thinking:
        left = part.text.lstrip()
        start = self._length + (len(part.text) - len(left) if self._length else 0)
        self._waiting.append(replace(state, text=nearby(part.text, start=start)))
        self._length = start + len(left)
        return self._with_detail(part, replace(state, text=nearby(part.text)))

    def _carrier(self, state: PartState) -> tuple[Part, ...]:
        carrier = self._with_detail(Thinking(text=""), state)
        return (carrier,) if carrier.extra else ()

    def _with_detail(self, part: Thinking, state: PartState) -> Thinking:
        tag = self._make_tag([state])
        if tag is None:
            return replace(part, extra={})
        detail: JsonObject = {"type": "reasoning.encrypted", "data": tag}
        if part.text:
            detail = {"type": "reasoning.text", "text": part.text, "signature": tag}
        self._count += 1
        return replace(part, extra={CHAT: {"details": [{**detail, "format": FORMAT, "index": self._count - 1}]}})

    def _call(self, call: ToolCall, state: PartState | None) -> ToolCall:
        states = [*self._waiting, *(() if state is None else (state,))]
        self._waiting = []
        tag = self._make_tag(states) if states else None
        if tag is None:
            return call
        return replace(call, extra={CHAT: {"extra_content": {GOOGLE: {"thought_signature": tag}}}})


class NativeTagWriter(TagWriter):
    """For the native dialect, which carries state: the tag says whose it is."""

    def add_tag(self, part: Part, state: PartState | None, /) -> TaggedPart:
        if state is None or not isinstance(part, Text | Thinking | ToolCall):
            return TaggedPart((), part, ())
        text = nearby(part.text) if isinstance(part, Thinking) else state.text if isinstance(part, ToolCall) else ""
        tag = self._make_tag([replace(state, extra={}, text=text)])
        return TaggedPart((), part if tag is None else replace(part, extra={**part.extra, NATIVE: {"tag": tag}}), ())


TAG_WRITERS: dict[str, Callable[[MakeTag], TagWriter]] = {
    "anthropic": lambda make_tag: ThinkingTagWriter("anthropic", "signature", make_tag, ends_in_text=True),
    "bedrock": lambda make_tag: ThinkingTagWriter("bedrock", "signature", make_tag, ends_in_text=True),
    "google_interactions": lambda make_tag: ThinkingTagWriter("google_interactions", "signature", make_tag),
    "openai_responses": lambda make_tag: ThinkingTagWriter("openai_responses", "encrypted_content", make_tag),
    GOOGLE: CallTagWriter,
    CHAT: ChatTagWriter,
    NATIVE: NativeTagWriter,
    "ollama": TagWriter,
}
"""By dialect."""
DIALECTS_THAT_LOSE_TAGS = frozenset({"anthropic", "openai_responses", GOOGLE, CHAT, "ollama"})
"""Dialects whose clients may send back no tag: the store has the state of an answer, too."""
NEEDS_THINKING = frozenset({"anthropic", "bedrock"})
"""Wires whose models refuse to go on with a tool loop if thinking of it is missing."""
DIALECTS_WITHOUT_TAGS = frozenset({"ollama"})
"""Dialects without tags: only the store says whose thinking a client sends back, also to targets of the same wire."""


def place_of_state(dialect: str, target: Target, /) -> Literal["tags", "store"] | None:
    """Where the state of a target's answers is for clients of a dialect; None if the clients have it themselves.

    Targets of Chat Completions that need the reasoning of their calls back get it from the store if the client drops
    it: many clients keep only `role`, `content` and `tool_calls`.
    """
    if dialect not in TAG_WRITERS:
        return None
    if dialect in DIALECTS_WITHOUT_TAGS or (dialect == target.wire == CHAT and target.quirks.calls_need_reasoning):
        return "store"
    return None if target.wire == dialect else "tags"


# Finding --------------------------------------------------------------------------------------------------------------


class FoundTag(NamedTuple):
    """A tag in a message of a client, and the text that stands next to it."""

    tag: str
    nearby: str
    is_whole: bool = True
    """Whether that is the text of one thinking part; False if it is the text of all of them."""


class FoundPart(NamedTuple):
    """A part of a message, and its tags. `part` is what is left without them; None if nothing is."""

    part: Part | None
    tags: tuple[FoundTag, ...]
    is_in_place: bool = False
    """Whether its state stands where it stood in the answer."""
    has_state: bool = False
    """Whether the part itself has the state, and the tag only says whose it is."""


def find_tags(dialect: str, message: Message, /) -> list[FoundPart] | None:
    """The parts of a message with their tags; None if there is no tag."""
    if not _has_extra(message):
        return None
    members = _THINKING_MEMBERS.get(dialect)
    if members is not None:
        parts = [_in_thinking(dialect, members, part) for part in message.parts]
    elif dialect == GOOGLE:
        parts = [_in_signature(part) for part in message.parts]
    elif dialect == NATIVE:
        parts = [_next_to_state(part) for part in message.parts]
    elif dialect == CHAT:
        reasoning = message.thinking
        parts = [_in_chat(part, reasoning) for part in message.parts]
    else:
        return None
    if not any(each.tags for each in parts):
        return None
    # The tags have the thinking, and say whose it is; without them, it would go to any target of the client's wire.
    if members is None and dialect != NATIVE:
        parts = [each for each in parts if each.tags or not isinstance(each.part, Thinking)]
    return parts


def _has_extra(message: Message) -> bool:
    """Whether there may be a tag: on every wire it is in the extra of a part. Most messages have none."""
    for part in message.parts:  # noqa: SIM110 - a generator takes twice as long, and long requests have many messages
        if isinstance(part, Text | Thinking | ToolCall) and part.extra:
            return True
    return False


_THINKING_MEMBERS: dict[str, tuple[str, ...]] = {
    "anthropic": ("signature", "data"),
    "bedrock": ("signature",),
    "google_interactions": ("signature",),
    "openai_responses": ("encrypted_content",),
}


def _in_thinking(wire: str, members: Iterable[str], part: Part) -> FoundPart:
    if isinstance(part, Thinking):
        extra = wire_extra(part.extra, wire)
        tags = tuple(FoundTag(extra[member], part.text) for member in members if is_tag(extra.get(member)))
        if tags:
            return FoundPart(None, tags, is_in_place=True)
    return FoundPart(part, ())


def _in_signature(part: Part) -> FoundPart:
    if not isinstance(part, Text | Thinking | ToolCall):
        return FoundPart(part, ())
    extra = wire_extra(part.extra, GOOGLE)
    tag = extra.get(SIGNATURE)
    if not isinstance(tag, str) or not is_tag(tag):
        return FoundPart(part, ())
    rest = {key: value for key, value in extra.items() if key != SIGNATURE}
    is_empty = isinstance(part, Thinking) or (isinstance(part, Text) and not part.text)
    left = None if is_empty else replace(part, extra={**part.extra, GOOGLE: rest})
    return FoundPart(left, (FoundTag(tag, ""),))


def _next_to_state(part: Part) -> FoundPart:
    if not isinstance(part, Text | Thinking | ToolCall) or NATIVE not in part.extra:
        return FoundPart(part, ())
    tag = wire_extra(part.extra, NATIVE).get("tag")
    rest = {wire: data for wire, data in part.extra.items() if wire != NATIVE}
    tags = (FoundTag(tag, part.text if isinstance(part, Thinking) else ""),) if isinstance(tag, str) else ()
    return FoundPart(replace(part, extra=rest), tags, has_state=bool(tags))


def _in_chat(part: Part, reasoning: str) -> FoundPart:
    match part:
        case Thinking():
            details = wire_extra(part.extra, CHAT).get("details")
            maybe_tags = [_in_detail(detail) for detail in (details if is_list(details) else ())]
            tags = tuple(tag for tag in maybe_tags if tag is not None)
            return FoundPart(None, tags) if tags else FoundPart(part, ())
        case ToolCall():
            tag = thought_signature(part)
            if not is_tag(tag):
                return FoundPart(part, ())
            rest = {key: value for key, value in wire_extra(part.extra, CHAT).items() if key != "extra_content"}
            extra = {**part.extra, CHAT: rest} if rest else {}
            return FoundPart(replace(part, extra=extra), (FoundTag(tag, reasoning, is_whole=False),))
        case _:
            return FoundPart(part, ())


def _in_detail(detail: object) -> FoundTag | None:
    if not is_object(detail):
        return None
    tag = next((detail[member] for member in ("signature", "data") if is_tag(detail.get(member))), None)
    return None if tag is None else FoundTag(tag, str(detail.get("text") or ""))


def thought_signature(call: ToolCall, /) -> str:
    """The signature of a call in the form of Google's endpoint for Chat Completions; "" if it has none."""
    content = wire_extra(wire_extra(call.extra, CHAT), "extra_content")
    signature = wire_extra(content, GOOGLE).get("thought_signature")
    return signature if isinstance(signature, str) else ""
