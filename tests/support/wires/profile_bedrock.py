"""What Converse can carry."""

from collections.abc import Iterator
from itertools import count

from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.targets.providers import target
from dragoman.types import (
    Document,
    Finish,
    Image,
    Message,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolResult,
    Usage,
)
from tests.support.wires.laws import FRACTIONS, NAMES, NUMBERS, SCHEMA, WORDS, Profile

VISIBLE = WORDS.filter(lambda text: bool(text.strip()))
ALWAYS: st.SearchStrategy[bool] = st.sampled_from([True])
PLAIN = target(
    "bedrock/us.anthropic.claude-x-v1:0", api_key="k", base_url="https://bedrock-runtime.us-east-1.amazonaws.com"
)
TARGET = replace(
    PLAIN,
    capabilities=replace(PLAIN.capabilities, structured=True),
    quirks=replace(PLAIN.quirks, reasoning="budget"),
)


def _with_names(message: Message, numbers: Iterator[int]) -> Message:
    """The message, whose documents have names of their own and a text beside them."""
    parts = tuple(_named(part, numbers) for part in message.parts)
    has_text = any(isinstance(part, Text) for part in parts)
    alone = any(isinstance(part, Document) for part in parts) and not has_text
    return replace(message, parts=(*parts, Text(text="see")) if alone else parts)


def _named(part: Part, numbers: Iterator[int]) -> Part:
    if isinstance(part, Document):
        return replace(part, name=f"{part.name or 'a'}-{next(numbers)}")
    if isinstance(part, ToolResult) and isinstance(part.content, tuple):
        inner = [replace(p, name=f"r-{next(numbers)}") if isinstance(p, Document) else p for p in part.content]
        return replace(part, content=tuple(inner))
    return part


def _request(request: Request) -> Request:
    """Thinking excludes sampling and forced calls, and is part of the token limit. Documents have different names."""
    numbers = count()
    request = replace(request, messages=tuple(_with_names(message, numbers) for message in request.messages))
    if not isinstance(request.reasoning, int):
        return request
    return replace(
        request,
        max_tokens=request.reasoning + (request.max_tokens or 4096),
        temperature=None,
        top_p=None,
        tool_choice=None if request.tool_choice is None else "auto",
    )


def _response(response: Response) -> Response:
    return replace(response, model=None)


def _usage(uncached: int, read: int | None, write: int | None, output: int) -> Usage:
    return Usage(input=uncached + (read or 0) + (write or 0), output=output, cache_read=read, cache_write=write)


PROFILE = Profile(
    name="bedrock",
    target=TARGET,
    options={
        "service_tier": st.sampled_from(["default", "flex", "priority", "reserved"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "max_tokens": st.integers(1, 10**6),
        "stop": st.lists(VISIBLE, min_size=1, max_size=3).map(tuple),
        "reasoning": st.integers(1024, 60_000),
        "schema": st.just(SCHEMA),
        "cache": ALWAYS,
        "metadata": st.dictionaries(NAMES, NAMES, min_size=1, max_size=2),
    },
    request=_request,
    response=_response,
    media=st.one_of(
        st.builds(Image, data=st.binary(min_size=1, max_size=8), mime=st.just("image/png")),
        st.builds(
            Document,
            data=st.binary(min_size=1, max_size=8),
            mime=st.sampled_from(["application/pdf", "text/plain", "text/csv", "text/markdown"]),
            name=st.none() | NAMES.map(lambda name: name.replace("_", "-")),
        ),
    ),
    thinking=st.one_of(
        st.builds(Thinking, text=WORDS, extra=NAMES.map(lambda signature: {"bedrock": {"signature": signature}})),
        st.builds(Thinking, text=WORDS, extra=st.just({"bedrock": {}})),
        st.builds(
            Thinking,
            text=st.just(""),
            redacted=ALWAYS,
            extra=NAMES.map(lambda data: {"bedrock": {"redactedContent": data}}),
        ),
    ),
    tool_choices=("auto", "required", "tide"),
    usage=st.builds(_usage, st.integers(1, 10**6), st.none() | NUMBERS, st.none() | NUMBERS, NUMBERS),
    finishes=(
        Finish(reason="stop", raw="end_turn"),
        Finish(reason="stop", raw="stop_sequence", extra={"bedrock": {"additionalModelResponseFields": {"x": 1}}}),
        Finish(reason="length", raw="max_tokens"),
        Finish(reason="length", raw="model_context_window_exceeded"),
        Finish(reason="tool_calls", raw="tool_use"),
        Finish(
            reason="blocked",
            raw="guardrail_intervened",
            extra={"bedrock": {"trace": {"guardrail": {}}, "metrics": {"latencyMs": 9}}},
        ),
        Finish(reason="blocked", raw="content_filtered"),
    ),
    created=False,
    ids=False,
    words=VISIBLE,
    tiers=("default", "flex", "priority", "reserved"),
)
