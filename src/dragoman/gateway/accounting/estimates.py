"""A request and who may answer it in, the tokens that it may use out: what is reserved until somebody has counted."""

import re
from collections.abc import Sequence

import msgspec

from dragoman.targets.target import Target
from dragoman.types import (
    Audio,
    Document,
    Image,
    JsonObject,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    is_object,
)

BYTES_PER_TOKEN = 3
TOKENS_PER_IMAGE = 1500
"""Of an image, and the least of a part that only one provider can read."""
TOKENS_PER_PAGE = 2000
"""Of a PDF: Anthropic says 1500 to 3000, Google 258 (2026-11)."""
BYTES_PER_PAGE = 200_000
"""Of a PDF whose pages cannot be counted: newer ones compress what names them."""
BYTES_PER_SOUND = 128
"""Bytes of a sound for each token: Google counts 32 a second (2026-11), and a second may have as little as 4 kB."""
TOKENS_PER_ANSWER = 4096
"""Of an answer whose length is left open by a client, by the config, and by what is known of the model."""
CHOICES = ("n", "candidateCount")
"""Fields by which clients ask for several answers, each of which is paid for."""
MAX_CHOICES = 128


def estimate_usage(request: Request, targets: Sequence[Target] = (), /, *, answer: int | None = None) -> Usage:
    """Tokens that a request may use: for all that it says, and as many as its answers may have.

    `answer` is for one whose length the client leaves open; without it, it is the longest that a target can give.

    >>> from dragoman.types import user
    >>> told = estimate_usage(Request(messages=(user("How high is the tide?"),), max_tokens=100))
    >>> told.input, told.output
    (7, 100)
    """
    output = max_answer_tokens(request, targets, answer) * _choices(request.extra)
    return Usage(input=prompt_tokens(request), output=output, source="estimated")


def prompt_tokens(request: Request, /) -> int:
    """Tokens of what a request says: its messages, its tools, and the schema of its answer.

    >>> prompt_tokens(Request(system="Be brief.", tools=(Tool(name="now", description="The time"),)))
    8
    """
    system = (Text(text=request.system),) if isinstance(request.system, str) else request.system or ()
    size = sum(map(_weight, system)) + sum(_weight(part) for message in request.messages for part in message.parts)
    schemas = [] if request.schema is None else [request.schema]
    size += sum(map(_tool_weight, request.tools)) + sum(map(_json_size, schemas))
    return -(-size // BYTES_PER_TOKEN)


def max_answer_tokens(request: Request, targets: Sequence[Target], answer: int | None, /) -> int:
    """Tokens that one answer may have.

    >>> from dragoman.registry import Registry
    >>> targets = Registry(env={}).targets("anthropic/claude-3-5-haiku")
    >>> [max_answer_tokens(Request(max_tokens=most), targets, None) for most in (None, 0, 50, 10**9)]
    [8192, 8192, 50, 8192]
    """
    known = [target.capabilities.max_output for target in targets]
    told = answer if has_open_length(request) else request.max_tokens
    if told is None:
        return max((most or TOKENS_PER_ANSWER for most in known), default=TOKENS_PER_ANSWER)
    bounds = [most for most in known if most is not None]
    return min(told, max(bounds)) if bounds and len(bounds) == len(known) else told


def has_open_length(request: Request, /) -> bool:
    """Whether the client leaves the length of the answer open: nothing and less are no limit to some servers.

    >>> has_open_length(Request()), has_open_length(Request(max_tokens=-1)), has_open_length(Request(max_tokens=5))
    (True, True, False)
    """
    return request.max_tokens is None or request.max_tokens <= 0


def total_tokens(usage: Usage, /) -> int | None:
    """All tokens of a usage; None where it tells none.

    >>> total_tokens(Usage(input=5, output=2)), total_tokens(Usage())
    (7, None)
    """
    return None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)


def byte_length(text: str, /) -> int:
    """The bytes of a text.

    >>> byte_length("tide"), byte_length("字")
    (4, 3)
    """
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _choices(extra: JsonObject) -> int:
    """How many answers are asked for: the fields stand in a body, or in an object of it."""
    bodies = [body for body in extra.values() if is_object(body)]
    places = [*bodies, *(inner for body in bodies for inner in body.values() if is_object(inner))]
    counts: list[int] = [place[name] for place in places for name in CHOICES if type(place.get(name)) is int]
    return min(MAX_CHOICES, max([1, *counts]))


def _weight(part: Part) -> int:
    """The bytes of a part, or what it counts for."""
    match part:
        case Text() | Thinking():
            return byte_length(part.text)
        case ToolCall():
            return byte_length(part.name) + _json_size(part.arguments)
        case ToolResult():
            return sum(map(_weight, part.parts))
        case Image():
            return TOKENS_PER_IMAGE * BYTES_PER_TOKEN
        case Document():
            return (
                len(part.data)
                if part.mime.startswith("text/")
                else _pages(part.data) * TOKENS_PER_PAGE * BYTES_PER_TOKEN
            )
        case Audio():
            return len(part.data) * BYTES_PER_TOKEN // BYTES_PER_SOUND
        case Opaque():
            return max(TOKENS_PER_IMAGE * BYTES_PER_TOKEN, _json_size(part.data))


def _tool_weight(tool: Tool | Opaque) -> int:
    if isinstance(tool, Opaque):
        return _json_size(tool.data)
    return byte_length(tool.name) + byte_length(tool.description or "") + _json_size(tool.parameters or {})


def _pages(data: bytes) -> int:
    return max(1, len(_PAGE.findall(data)), len(data) // BYTES_PER_PAGE)


_PAGE = re.compile(rb"/Type\s*/Page\b")


def _json_size(data: JsonObject) -> int:
    return len(msgspec.json.encode(data))
