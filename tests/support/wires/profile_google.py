"""What generateContent can carry."""

import msgspec
from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Audio, Document, Finish, Image, Message, Part, Response, Thinking, ToolCall, Usage
from tests.support.wires.laws import (
    CHOICES,
    COUNTS,
    FLAGS,
    FRACTIONS,
    NUMBERS,
    PENALTIES,
    SCHEMA,
    TOP,
    WORDS,
    Profile,
    token_logprobs,
)

BYTES = st.binary(min_size=1, max_size=8)


@st.composite
def _usage(draw: st.DrawFn) -> Usage:
    reasoning = draw(st.none() | NUMBERS)
    return Usage(
        input=draw(NUMBERS),
        output=draw(NUMBERS) + (reasoning or 0),
        cache_read=draw(st.none() | NUMBERS),
        reasoning=reasoning,
    )


def _own(response: Response) -> Response:
    """A call that this wire gave has its name in its extra."""
    others = tuple(
        msgspec.structs.replace(choice, message=_own_message(choice.message)) for choice in response.other_choices
    )
    return msgspec.structs.replace(response, message=_own_message(response.message), other_choices=others)


def _own_message(message: Message) -> Message:
    return msgspec.structs.replace(message, parts=tuple(_own_part(part) for part in message.parts))


def _own_part(part: Part) -> Part:
    return msgspec.structs.replace(part, extra={"google": {}}) if isinstance(part, ToolCall) else part


PROFILE = Profile(
    name="google",
    target=target("google/gemini-x", api_key="k"),
    options={
        "frequency_penalty": PENALTIES,
        "presence_penalty": PENALTIES,
        "logprobs": FLAGS,
        "top_logprobs": TOP,
        "n": CHOICES,
        "service_tier": st.sampled_from(["standard", "flex", "priority"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "top_k": NUMBERS,
        "max_tokens": COUNTS,
        "stop": st.lists(WORDS, min_size=1, max_size=5).map(tuple),
        "seed": NUMBERS,
        "reasoning": st.just("none") | st.integers(1, 32768),
        "schema": st.sampled_from([SCHEMA, {}]),
    },
    media=st.one_of(
        st.builds(Image, data=BYTES, mime=st.sampled_from(["image/png", "image/webp"])),
        st.builds(
            Image,
            url=st.just("https://example.org/a.png"),
            mime=st.just("image/png"),
            extra=st.just({"google": {}}),
        ),
        st.builds(Document, data=BYTES, mime=st.sampled_from(["application/pdf", "text/plain"])),
        st.builds(Audio, data=BYTES, mime=st.sampled_from(["audio/wav", "audio/mpeg"])),
    ),
    thinking=st.builds(Thinking, text=WORDS, extra=st.just({"google": {}})),
    call_extra=st.sampled_from([{"google": {}}, {"google": {"thoughtSignature": "c2ln"}}]),
    keeps_ids=False,
    usage=_usage(),
    finishes=(
        Finish(reason="stop", raw="STOP"),
        Finish(reason="length", raw="MAX_TOKENS"),
        Finish(reason="tool_calls", raw="STOP"),
        Finish(reason="blocked", raw="SAFETY"),
        Finish(reason="blocked", raw="PROHIBITED_CONTENT"),
        Finish(reason="other", raw="MALFORMED_FUNCTION_CALL"),
        Finish(reason="pause", raw="CONTINUATION"),
    ),
    response=_own,
    tiers=("standard", "flex", "priority"),
    choices=True,
    logprobs=token_logprobs(st.none() | NUMBERS, st.none()),
)
