"""The state of an answer that a later request must give back to its provider: what is in a tag.

A thinking part is state as a whole: its text, and the `extra` with its signature or its encrypted form. Of a call or a
text, only the `extra` is state, and only if it has a signature. The text of a thinking part is often next to its tag;
then the state has only the position and a digest of the text.
"""

from hashlib import blake2b
from typing import Any, Literal

import msgspec

from dragoman.gateway.reasoning.tag import TagKey
from dragoman.targets.target import Target
from dragoman.types import Extra, Part, Text, Thinking, ToolCall, is_object
from dragoman.types.json_values import plain_numbers
from dragoman.wires.common.extra import wire_extra

RETURNED: dict[str, tuple[str, ...]] = {
    "google": ("thoughtSignature",),
    "openai_chat": ("extra_content",),
}
"""Members of the `extra` of calls and texts that must go back to their provider, by wire."""
PHASE = ("openai_responses", "item", "phase")
"""Where the phase of a text is: models of the Responses API need it back, too (2026-11)."""


class TextNearby(msgspec.Struct, array_like=True, frozen=True):
    """A text that is in another field of the message: where it starts, its length, and its digest.

    They do not count the white space around the text and at the start of the field, because some clients trim it.
    """

    start: int
    length: int
    digest: str
    before: str = ""
    """The white space before the text."""
    after: str = ""

    def find(self, text: str, /, *, is_whole: bool) -> str | None:
        """The text; None if it was changed. `is_whole`: nothing else is in the field."""
        own_text = text.strip() if is_whole else text.lstrip()[self.start : self.start + self.length]
        return self.before + own_text + self.after if text_digest(own_text) == self.digest else None


class PartState(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The state of one part of an answer."""

    kind: Literal["thinking", "call", "text"]
    extra: dict[str, Any]
    text: str | TextNearby = ""
    """The text of thinking or of a text; the digest of a call, or "" if it was not complete yet."""
    redacted: bool = False
    id: str = ""
    """The id of a call."""
    calls_before: int = 0
    """How many calls of the answer came before the part."""
    texts_before: int = 0
    """How many texts of the answer came before the part."""
    arguments: dict[str, Any] | None = None
    """The arguments of a call, if the client's form of it does not have all of them."""


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Who can read a state: one model of a provider, in one account."""

    provider: str
    model: str
    account: str

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"


class AnswerPosition(msgspec.Struct, array_like=True, frozen=True):
    """Where an answer stands in its conversation. What came earlier may be left out later."""

    call: str
    """The id of the last call before it; "" if there was none."""
    turns: int
    """How often the user or a tool spoke since that call."""


class AnswerState(msgspec.Struct, array_like=True, frozen=True):
    """The state of some parts of an answer, and who can read it."""

    origin: Origin
    parts: tuple[PartState, ...]
    position: AnswerPosition | None = None
    """Where the answer stands; None if that is not known."""
    losses: int = 0
    """How many answers before it had lost their reasoning, if the target ties reasoning to what is before it."""


def origin_of(target: Target, key: TagKey, /) -> Origin:
    """The origin of the answers of a target. The account is a digest: nobody can find the API key with it."""
    source = "" if target.credential is None else str(target.credential.source)
    account = key.digest(target.base_url, target.api_key or "", source, size=8)
    return Origin(target.provider, target.model, account)


def part_state(part: Part, /, *, calls_before: int = 0, texts_before: int = 0) -> PartState | None:
    """The state of a part, with its text inside; None if nothing of it must go back."""
    match part:
        case Thinking():
            return PartState(
                kind="thinking",
                extra=part.extra,
                text=part.text,
                redacted=part.redacted,
                calls_before=calls_before,
                texts_before=texts_before,
            )
        case ToolCall() if extra := _returned(part.extra):
            return PartState(kind="call", extra=extra, id=part.id, calls_before=calls_before)
        case Text() if extra := _returned(part.extra):
            return PartState(kind="text", extra=extra, text=part.text)
        case _:
            return None


def _returned(extra: Extra) -> dict[str, Any]:
    """The entries of `extra` that must go back to their provider."""
    entries = {
        wire: extra[wire]
        for wire, members in RETURNED.items()
        if not wire_extra(extra, wire).keys().isdisjoint(members)
    }
    wire, item, phase = PHASE
    if phase in wire_extra(wire_extra(extra, wire), item):
        entries[wire] = {item: extra[wire][item]}
    return entries


def text_digest(text: str, /) -> str:
    """A short digest of a text."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def call_digest(call: ToolCall, /) -> str:
    """A short digest of a call. Clients write 1.0 as 1, and members in another order."""
    content = msgspec.json.encode([call.name, plain_numbers(call.arguments)], order="deterministic")
    return blake2b(content, digest_size=8).hexdigest()


def nearby(text: str, /, *, start: int = 0) -> TextNearby:
    """The position of a text that stands next to its tag; `start`: where it begins, without white space."""
    left = text.strip()
    before, _, after = text.partition(left) if left else (text, "", "")
    return TextNearby(start, len(left), text_digest(left), before, after)


def decode_state(data: bytes, /) -> AnswerState | None:
    """A state from its bytes; None if they are not valid."""
    try:
        state = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return state if all(is_object(data) for part in state.parts for data in part.extra.values()) else None


_DECODER = msgspec.json.Decoder(AnswerState)
