"""Any answer, through any dialect with tags: its target gets it back as it was, and no other target gets its state."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.gateway.reasoning.incoming import RequestTags
from dragoman.gateway.reasoning.outgoing import AnswerTagger
from dragoman.gateway.reasoning.places import DIALECTS_WITHOUT_TAGS, TAG_WRITERS
from dragoman.gateway.reasoning.state import AnswerState, origin_of
from dragoman.gateway.reasoning.tag import TagKey
from dragoman.targets.target import Target
from dragoman.types import Finish, Message, Part, Request, Response, Text, Thinking, ToolCall, user

KEY = TagKey(b"k" * 32, None)
TARGET = Target(provider="p", model="m", wire="mine", base_url="https://p.invalid", api_key="sk-one")
OTHERS = (
    Target(provider="q", model="m", wire="mine", base_url="https://p.invalid", api_key="sk-one"),
    Target(provider="p", model="n", wire="mine", base_url="https://p.invalid", api_key="sk-one"),
    Target(provider="p", model="m", wire="mine", base_url="https://p.invalid", api_key="sk-two"),
)
dialects = st.sampled_from([dialect for dialect in TAG_WRITERS if dialect not in DIALECTS_WITHOUT_TAGS])
signatures = st.text("abc+/=", min_size=1, max_size=8)


@st.composite
def answers(draw: st.DrawFn) -> tuple[Part, ...]:
    """Thinking and signed calls between texts; no two parts are alike."""
    parts: list[Part] = []
    for number in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["thinking", "redacted", "text", "call", "signed call"])):
            case "thinking":
                parts.append(Thinking(text=f"T{number}", extra={"mine": {"signature": draw(signatures)}}))
            case "redacted":
                extra: dict[str, Any] = {"mine": {"data": f"{number}{draw(signatures)}"}}
                parts.append(Thinking(text="", redacted=True, extra=extra))
            case "text":
                parts.append(Text(text=f"text {number}"))
            case "call":
                parts.append(ToolCall(id=f"call_{number}", name="tide"))
            case _:
                # The one wire whose calls are signed.
                extra = {"google": {"thoughtSignature": draw(signatures)}}
                parts.append(ToolCall(id=f"call_{number}", name="tide", extra=extra))
    return tuple(parts)


def tagged(dialect: str, parts: tuple[Part, ...]) -> Request:
    """The next request of a client that sends back what it got."""
    tagger = AnswerTagger(dialect, AnswerState(origin_of(TARGET, KEY), ()), KEY, has_store=False)
    response = Response(message=Message(role="assistant", parts=parts), finish=Finish(reason="stop"))
    sent = [seen(dialect, part) for part in tagger.tag_response(response).message.parts]
    return Request(messages=(user("?"), Message(role="assistant", parts=tuple(sent)), user("!")))


def seen(dialect: str, part: Part) -> Part:
    """A part as a client sees it: with the data of its own dialect only; native has that of all."""
    if dialect == "native" or not isinstance(part, Text | Thinking | ToolCall):
        return part
    return replace(part, extra={wire: data for wire, data in part.extra.items() if wire == dialect})


def assistant_parts(request: Request) -> list[Part]:
    """The parts of the answer, without the ids that a client of Google has on its calls."""
    parts = [part for message in request.messages for part in message.parts if message.role == "assistant"]
    return [_without_id(part) if isinstance(part, ToolCall) else part for part in parts]


def _without_id(call: ToolCall) -> ToolCall:
    data = {key: value for key, value in call.extra.get("google", {}).items() if key != "id"}
    return replace(call, extra={"google": data} if data else {})


def expressed(dialect: str, parts: tuple[Part, ...]) -> bool:
    """Whether a dialect has a field of its own for the state."""
    return any(dialect in part.extra for part in parts if isinstance(part, Thinking | ToolCall))


@given(dialects, answers())
def test_an_answer_comes_back_as_it_was(dialect: str, parts: tuple[Part, ...]) -> None:
    if expressed(dialect, parts):
        return
    request = tagged(dialect, parts)
    restored, notices = RequestTags(dialect, request, KEY).for_target(request, TARGET)
    assert assistant_parts(restored) == [*parts]
    assert notices == ()


@given(dialects, answers(), st.sampled_from(OTHERS))
def test_no_other_target_gets_any_state(dialect: str, parts: tuple[Part, ...], other: Target) -> None:
    if expressed(dialect, parts):
        return
    request = tagged(dialect, parts)
    restored, _ = RequestTags(dialect, request, KEY).for_target(request, other)
    assert assistant_parts(restored) == [
        Text(text=part.text) if isinstance(part, Text) else ToolCall(id=part.id, name=part.name)
        for part in parts
        if isinstance(part, Text | ToolCall)
    ]


@given(dialects, answers())
def test_the_same_answer_gets_the_same_tags(dialect: str, parts: tuple[Part, ...]) -> None:
    assert tagged(dialect, parts) == tagged(dialect, parts)
