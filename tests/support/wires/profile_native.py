"""What our own protocol can carry: everything but a few options."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Audio, Document, Finish, Image, Request, Thinking, Tool, Usage
from tests.support.wires.laws import FRACTIONS, NAMES, NUMBERS, SCHEMA, WORDS, Profile


def describes_tools(request: Request) -> Request:
    """A tool must have a description."""
    tools = tuple(
        msgspec.structs.replace(tool, description=tool.description or tool.name) if isinstance(tool, Tool) else tool
        for tool in request.tools
    )
    return msgspec.structs.replace(request, tools=tools)


SIGNATURES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"anthropic": {"signature": "s"}}, {"native": {}}, {"google": {"a": 1}, "x": {}}]
)

PROFILE = Profile(
    name="native",
    target=target("dragoman/any", base_url="http://gate/native/v1", api_key="k"),
    options={
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "max_tokens": st.integers(1, 10**6),
        "stop": st.lists(WORDS, min_size=1, max_size=4).map(tuple),
        "reasoning": st.sampled_from(["none", "minimal", "low", "medium", "high", "max", 0, 500]),
        "schema": st.sampled_from([SCHEMA, {}]),
        "cache": st.booleans(),
        "cache_ttl": st.integers(1, 86400),
    },
    media=st.one_of(
        st.builds(Image, data=st.binary(min_size=1, max_size=8), mime=st.just("image/png"), detail=st.none() | NAMES),
        st.builds(Image, url=st.just("https://example.org/a.png")),
        st.builds(Document, data=st.binary(max_size=8), mime=st.just("application/pdf"), name=st.none() | NAMES),
        st.builds(Audio, data=st.binary(max_size=8), mime=st.just("audio/wav")),
    ),
    thinking=st.builds(Thinking, text=WORDS, redacted=st.booleans(), extra=SIGNATURES),
    call_extra=SIGNATURES,
    usage=st.builds(
        Usage,
        input=st.none() | NUMBERS,
        output=st.none() | NUMBERS,
        cache_read=st.none() | NUMBERS,
        cache_write=st.none() | NUMBERS,
        reasoning=st.none() | NUMBERS,
        source=st.sampled_from(["reported", "unknown", "estimated", "partial"]),
    ),
    finishes=(
        Finish(reason="stop", raw="end_turn"),
        Finish(reason="stop"),
        Finish(reason="length", raw="max_tokens"),
        Finish(reason="tool_calls", raw="tool_use"),
        Finish(reason="blocked", raw="SAFETY"),
        Finish(reason="pause"),
        Finish(reason="other", raw="odd"),
    ),
    request=describes_tools,
)
