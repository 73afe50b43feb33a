"""What the Interactions API can carry."""

from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Audio, Document, Finish, Image, Thinking, Usage
from tests.support.wires.laws import COUNTS, FRACTIONS, NAMES, NUMBERS, SCHEMA, WORDS, Profile

WIRE = "google_interactions"
BYTES = st.binary(min_size=1, max_size=8)
ALWAYS: st.SearchStrategy[bool] = st.sampled_from([True])


@st.composite
def _usage(draw: st.DrawFn) -> Usage:
    reasoning = draw(st.none() | NUMBERS)
    return Usage(
        input=draw(NUMBERS),
        output=draw(NUMBERS) + (reasoning or 0),
        cache_read=draw(st.none() | NUMBERS),
        reasoning=reasoning,
    )


PROFILE = Profile(
    name=WIRE,
    target=target("google-interactions/gemini-x", api_key="k"),
    options={
        "service_tier": st.sampled_from(["standard", "flex", "priority", "deferred"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "max_tokens": COUNTS,
        "stop": st.lists(WORDS, min_size=1, max_size=5).map(tuple),
        "seed": NUMBERS,
        "reasoning": st.sampled_from(["minimal", "low", "medium", "high", "xhigh"]),
        "schema": st.sampled_from([SCHEMA, {}]),
    },
    media=st.one_of(
        st.builds(Image, data=BYTES, mime=st.sampled_from(["image/png", "image/webp"])),
        st.builds(Image, data=BYTES, mime=st.just("image/png"), detail=st.sampled_from(["low", "high"])),
        st.builds(Image, url=st.just("https://example.org/a.png"), extra=st.just({WIRE: {}})),
        st.builds(Document, data=BYTES, mime=st.sampled_from(["application/pdf", "text/csv"])),
        st.builds(Document, data=BYTES, mime=st.just("video/mp4"), name=st.none() | NAMES),
        st.builds(Audio, data=BYTES, mime=st.sampled_from(["audio/wav", "audio/mpeg"])),
    ),
    thinking=st.one_of(
        st.builds(Thinking, text=WORDS, extra=NAMES.map(lambda signature: {WIRE: {"signature": signature}})),
        st.builds(Thinking, text=WORDS, extra=st.just({WIRE: {}})),
        st.builds(
            Thinking,
            text=st.just(""),
            redacted=ALWAYS,
            extra=NAMES.map(lambda signature: {WIRE: {"signature": signature}}),
        ),
    ),
    usage=_usage(),
    finishes=(
        Finish(reason="stop", raw="completed"),
        Finish(reason="length", raw="incomplete"),
        Finish(reason="length", raw="budget_exceeded"),
        Finish(reason="tool_calls", raw="requires_action"),
        Finish(reason="pause", raw="requires_continuation", extra={WIRE: {"continuation_token": "next"}}),
        Finish(reason="blocked", raw="safety", extra={WIRE: {"errors": [{"code": "safety", "message": "no"}]}}),
        Finish(reason="other", raw="cancelled"),
    ),
    tiers=("standard", "flex", "priority", "deferred"),
)
