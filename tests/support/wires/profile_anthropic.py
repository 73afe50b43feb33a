"""What the Messages API can carry."""

from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.errors import Overloaded
from dragoman.targets.providers import target
from dragoman.types import Document, Finish, Image, Request, Thinking, Usage
from tests.support.wires.laws import FRACTIONS, NAMES, NUMBERS, SCHEMA, WORDS, Profile

TEXTS = WORDS.filter(lambda text: bool(text.strip()))

ALWAYS: st.SearchStrategy[bool] = st.sampled_from([True])


def _request(request: Request) -> Request:
    """With the token limit that is required; thinking excludes sampling and forced calls."""
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if parallel is not None:
        choice, parallel = (choice or "auto", parallel) if choice != "none" else (choice, None)
    request = replace(request, tool_choice=choice, parallel_tool_calls=parallel)
    if not isinstance(request.reasoning, int):
        return replace(request, max_tokens=request.max_tokens or 4096)
    return replace(
        request,
        max_tokens=request.reasoning + (request.max_tokens or 4096),
        temperature=None,
        top_p=None,
        top_k=None,
        tool_choice=choice if choice in (None, "none") else "auto",
        messages=request.messages[-1:],
    )


def _usage(uncached: int, read: int | None, write: int | None, output: int, reasoning: int | None) -> Usage:
    total = uncached + (read or 0) + (write or 0)
    return Usage(input=total, output=output, cache_read=read, cache_write=write, reasoning=reasoning)


PROFILE = Profile(
    name="anthropic",
    statuses={Overloaded: 529},
    target=target("anthropic/claude-x", api_key="k"),
    options={
        "service_tier": st.sampled_from(["auto", "standard_only"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "top_k": NUMBERS,
        "max_tokens": st.integers(1, 10**6),
        "stop": st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
        "reasoning": st.just("none") | st.integers(1024, 60_000),
        "user": WORDS,
        "schema": st.just(SCHEMA),
        "cache": ALWAYS,
        "parallel_tool_calls": st.booleans(),
    },
    request=_request,
    media=st.one_of(
        st.builds(Image, data=st.binary(min_size=1, max_size=8), mime=st.just("image/png")),
        st.builds(Image, url=st.just("https://example.org/a.png")),
        st.builds(
            Document,
            data=st.binary(min_size=1, max_size=8),
            mime=st.just("application/pdf"),
            name=st.none() | NAMES,
        ),
        st.builds(Document, data=WORDS.map(str.encode), mime=st.just("text/plain"), name=st.none() | NAMES),
    ),
    thinking=st.one_of(
        st.builds(
            Thinking,
            text=st.just("") | WORDS,
            extra=NAMES.map(lambda signature: {"anthropic": {"signature": signature}}),
        ),
        st.builds(Thinking, text=WORDS, extra=st.just({"anthropic": {}})),
        st.builds(
            Thinking,
            text=st.just(""),
            redacted=ALWAYS,
            extra=NAMES.map(lambda data: {"anthropic": {"data": data}}),
        ),
    ),
    call_extra=st.sampled_from([{}, {"anthropic": {"caller": {"type": "direct"}}}]),
    usage=st.builds(_usage, st.integers(1, 10**6), st.none() | NUMBERS, st.none() | NUMBERS, NUMBERS, NUMBERS),
    finishes=(
        Finish(reason="stop", raw="end_turn"),
        Finish(reason="stop", raw="stop_sequence", extra={"anthropic": {"stop_sequence": "END"}}),
        Finish(reason="length", raw="max_tokens"),
        Finish(reason="length", raw="model_context_window_exceeded"),
        Finish(reason="tool_calls", raw="tool_use"),
        Finish(reason="pause", raw="pause_turn"),
        Finish(reason="blocked", raw="refusal", extra={"anthropic": {"stop_details": {"type": "refusal"}}}),
    ),
    created=False,
    words=TEXTS,
    tiers=("standard", "priority", "batch"),
)
