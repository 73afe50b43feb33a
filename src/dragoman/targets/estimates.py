"""Estimates of tokens: what a request may use, to be reserved until the provider reports the real usage."""

import re
from collections.abc import Sequence

import msgspec

from dragoman.targets.target import Target
from dragoman.types import (
    AnyTool,
    Audio,
    Document,
    HostedCall,
    HostedResult,
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
TOKENS_PER_REQUEST = 3
TOKENS_PER_MESSAGE = 4
"""Of the tokens around a prompt and each message, which providers count, too: without them, short prompts are free."""
TOKENS_PER_IMAGE = 1500
"""Also the minimum of an opaque part, whose content is not known."""
TOKENS_PER_HOSTED_TOOL = 1000
"""Of the instructions for a tool that the provider runs; what it returns is not known before."""
TOKENS_PER_PAGE = 2000
"""Of a PDF. Anthropic documents 1500 to 3000, Google 258 (2026-11)."""
BYTES_PER_PAGE = 200_000
"""Of a PDF whose pages cannot be counted, because newer PDFs compress their page objects."""
AUDIO_BYTES_PER_TOKEN = 128
"""Google counts 32 tokens per second (2026-11), and a second can have as little as 4 kB."""
TOKENS_PER_ANSWER = 4096
"""Of an answer, if neither the request, the config nor the model limits it."""
CHOICE_FIELDS = ("n", "candidateCount")
"""Request fields for several answers, each of which is paid for."""
MAX_CHOICES = 128
MAX_CALLS = 8
"""Calls for the answers of one request to a target without `n`."""
WIRES_WITH_CHOICES = frozenset(("openai_chat", "google"))
"""Protocols with a field for the number of answers."""


def estimate_usage(request: Request, targets: Sequence[Target] = (), /, *, answer: int | None = None) -> Usage:
    """The maximum usage of a request: its prompt, and the longest answers that it may get.

    `answer` is the length for a request without `max_tokens`; without it, the maximum of the targets is used.
    """
    output = max_answer_tokens(request, targets, answer) * _choices(request)
    calls = 1 if request.n is None or request.stream or all(map(has_choices, targets)) else min(request.n, MAX_CALLS)
    return Usage(input=prompt_tokens(request) * calls, output=output, source="estimated")


def has_choices(target: Target, /) -> bool:
    """Whether a target gives several answers to one call.

    >>> from dragoman.targets.providers import target
    >>> has_choices(target("openai/x")), has_choices(target("anthropic/x"))
    (True, False)
    """
    return target.wire in WIRES_WITH_CHOICES and "n" not in target.quirks.unsupported


def prompt_tokens(request: Request, /) -> int:
    """The tokens of the prompt: messages with their frames, tools and schema."""
    system = (Text(text=request.system),) if isinstance(request.system, str) else request.system or ()
    size = sum(map(_size, system)) + sum(_size(part) for message in request.messages for part in message.parts)
    schemas = [] if request.schema is None else [request.schema]
    size += sum(map(_tool_size, request.tools)) + sum(map(_json_size, schemas))
    frame = TOKENS_PER_REQUEST + TOKENS_PER_MESSAGE * len(request.messages) if request.messages else 0
    return frame + -(-size // BYTES_PER_TOKEN)


def max_answer_tokens(request: Request, targets: Sequence[Target], answer: int | None, /) -> int:
    """The maximum tokens of one answer."""
    maxima = [target.capabilities.max_output for target in targets]
    length = answer if has_no_max_tokens(request) else request.max_tokens
    if length is None:
        return max((maximum or TOKENS_PER_ANSWER for maximum in maxima), default=TOKENS_PER_ANSWER)
    known = [maximum for maximum in maxima if maximum is not None]
    return min(length, max(known)) if known and len(known) == len(maxima) else length


def has_no_max_tokens(request: Request, /) -> bool:
    """Whether the request does not limit its answer. Some servers take 0 and less as "no limit"."""
    return request.max_tokens is None or request.max_tokens <= 0


def total_tokens(usage: Usage, /) -> int | None:
    """Input and output tokens together; None if both are unknown."""
    return None if usage.input is None and usage.output is None else (usage.input or 0) + (usage.output or 0)


def byte_length(text: str, /) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _choices(request: Request) -> int:
    if not request.extra:
        return request.n or 1
    # An `extra` may have the field in the body, or in an object inside it (Google's generationConfig).
    bodies = [body for body in request.extra.values() if is_object(body)]
    objects = [*bodies, *(inner for body in bodies for inner in body.values() if is_object(inner))]
    counts: list[int] = [each[name] for each in objects for name in CHOICE_FIELDS if type(each.get(name)) is int]
    return min(MAX_CHOICES, max([request.n or 1, *counts]))


def _size(part: Part) -> int:
    """The bytes of a part, or the bytes that its tokens correspond to."""
    match part:
        case Text() | Thinking():
            return byte_length(part.text)
        case ToolCall():
            return byte_length(part.name) + _json_size(part.arguments)
        case ToolResult():
            return sum(map(_size, part.parts))
        case Image():
            return TOKENS_PER_IMAGE * BYTES_PER_TOKEN
        case Document():
            return (
                len(part.data)
                if part.mime.startswith("text/")
                else _pages(part.data) * TOKENS_PER_PAGE * BYTES_PER_TOKEN
            )
        case Audio():
            return len(part.data) * BYTES_PER_TOKEN // AUDIO_BYTES_PER_TOKEN
        case HostedCall() | HostedResult():
            return len(part.text.encode()) + sum(map(_json_size, part.extra.values()))
        case Opaque():
            return max(TOKENS_PER_IMAGE * BYTES_PER_TOKEN, _json_size(part.data))


def _tool_size(tool: AnyTool) -> int:
    if isinstance(tool, Opaque):
        return _json_size(tool.data)
    if not isinstance(tool, Tool):
        return TOKENS_PER_HOSTED_TOOL * BYTES_PER_TOKEN
    return byte_length(tool.name) + byte_length(tool.description or "") + _json_size(tool.parameters or {})


def _pages(data: bytes) -> int:
    return max(1, len(_PAGE.findall(data)), len(data) // BYTES_PER_PAGE)


_PAGE = re.compile(rb"/Type\s*/Page\b")


def _json_size(data: JsonObject) -> int:
    return len(msgspec.json.encode(data))
