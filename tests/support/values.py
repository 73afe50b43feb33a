"""Any value of the vocabulary, as hypothesis draws it: what test_types, test_events and test_history try their laws on."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman.types import (
    Attempt,
    Audio,
    Document,
    Finish,
    Image,
    Message,
    Notice,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)

T = TypeVar("T")

WORDS: SearchStrategy[str] = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
URLS = WORDS.map("https://example.org/{}".format)
IDS: SearchStrategy[str] = st.sampled_from(["", "a", "b", "call_1", "call_2"])
COUNTS: SearchStrategy[int] = st.integers(0, 2**40)
JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS: SearchStrategy[dict[str, Any]] = st.dictionaries(WORDS, JSON, max_size=2)
EXTRA: SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(["anthropic", "ollama"]), OBJECTS, max_size=1)


def maybe(values: SearchStrategy[T]) -> SearchStrategy[T | None]:
    return st.none() | values


def tuples(values: SearchStrategy[T], *, most: int = 3) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(values, max_size=most).map(tuple)


TEXTS = st.builds(Text, text=WORDS, extra=EXTRA)
IMAGES = st.builds(
    Image, data=st.binary(max_size=8), mime=maybe(WORDS), url=maybe(URLS), detail=maybe(WORDS), extra=EXTRA
) | st.builds(Image, mime=maybe(WORDS), url=URLS, detail=maybe(WORDS), extra=EXTRA)
DOCUMENTS = st.builds(Document, data=st.binary(max_size=8), mime=WORDS, name=maybe(WORDS), url=maybe(URLS), extra=EXTRA)
AUDIO = st.builds(Audio, data=st.binary(max_size=8), mime=WORDS, extra=EXTRA)
THINKING = st.builds(Thinking, text=WORDS, redacted=st.booleans(), extra=EXTRA)
CALLS = st.builds(ToolCall, id=IDS, name=WORDS, arguments=OBJECTS, raw=maybe(WORDS), extra=EXTRA)
OPAQUE = st.builds(Opaque, wire=st.sampled_from(["anthropic", "ollama"]), data=OBJECTS)
RESULTS = st.builds(
    ToolResult,
    id=IDS,
    name=WORDS,
    content=WORDS | tuples(TEXTS | IMAGES | DOCUMENTS | OPAQUE),
    is_error=st.booleans(),
    extra=EXTRA,
)
PARTS: SearchStrategy[Part] = TEXTS | IMAGES | DOCUMENTS | AUDIO | THINKING | CALLS | RESULTS | OPAQUE
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    parts=tuples(PARTS, most=4),
    extra=EXTRA,
)
TOOLS = st.builds(
    Tool, name=WORDS, description=maybe(WORDS), parameters=maybe(OBJECTS), strict=maybe(st.booleans()), extra=EXTRA
)


def _has_unique_names(tools: list[Tool | Opaque]) -> bool:
    names = [tool.name for tool in tools if isinstance(tool, Tool)]
    return len(set(names)) == len(names)


REQUESTS = st.builds(
    Request,
    messages=tuples(MESSAGES),
    system=maybe(WORDS | tuples(TEXTS)),
    tools=st.lists(TOOLS | OPAQUE, max_size=3).filter(_has_unique_names).map(tuple),
    tool_choice=maybe(WORDS),
    parallel_tool_calls=maybe(st.booleans()),
    schema=maybe(OBJECTS),
    schema_name=WORDS,
    temperature=maybe(st.floats(0, 2)),
    top_k=maybe(COUNTS),
    max_tokens=maybe(COUNTS),
    stop=tuples(WORDS),
    reasoning=maybe(st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"]) | COUNTS),
    cache=maybe(st.booleans()),
    metadata=st.dictionaries(WORDS, WORDS, max_size=2),
    stream=st.booleans(),
    extra=EXTRA,
)
USAGE = st.builds(
    Usage,
    input=maybe(COUNTS),
    output=maybe(COUNTS),
    cache_read=maybe(COUNTS),
    cache_write=maybe(COUNTS),
    reasoning=maybe(COUNTS),
    source=st.sampled_from(["reported", "partial", "estimated", "unknown"]),
)
FINISHES = st.builds(
    Finish,
    reason=st.sampled_from(["stop", "length", "tool_calls", "blocked", "pause", "other"]),
    raw=maybe(WORDS),
    extra=EXTRA,
)
NOTICES = st.builds(
    Notice, kind=st.sampled_from(["dropped", "changed", "repaired", "renamed", "info"]), what=WORDS, why=WORDS
)
ATTEMPTS = st.builds(
    Attempt, target=WORDS, outcome=WORDS, error=maybe(WORDS), duration=maybe(st.floats(0, 1e6)), usage=USAGE
)
RESPONSES = st.builds(
    Response,
    message=MESSAGES,
    finish=FINISHES,
    usage=USAGE,
    id=maybe(WORDS),
    model=maybe(WORDS),
    created=maybe(COUNTS),
    target=maybe(WORDS),
    notices=tuples(NOTICES),
    attempts=tuples(ATTEMPTS),
    raw=maybe(st.binary(max_size=8)),
)


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data cut at these places (taken modulo its length), without empty pieces."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]
