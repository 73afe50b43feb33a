"""Tells whether a server read less of a prompt than was sent.

Local servers drop the oldest messages of a prompt that is too long, without a word. The number of tokens that they
report shows it: no text has so few tokens.
"""

from collections.abc import Iterator
from itertools import chain
from operator import ne

from dragoman.errors import Truncated
from dragoman.events import Assembler
from dragoman.types import Notice, Request, Text, ToolResult, Usage

LEAST_LENGTH = 2048
"""Characters below which a prompt fits into every context."""
_CHARACTERS_PER_TOKEN = 12
_MAX_SCAN = 2_000_000
"""Characters that are counted at most; the rest of a longer prompt counts as nothing."""
_SLICE = 4 * 1024
"""Characters between two checks of the count: most long prompts show after a few thousand that they are longer."""
_WITH_TEXT = (Text, ToolResult)


def is_longer(request: Request, tokens: int, /, *, least: int = LEAST_LENGTH) -> bool:
    """Whether the text of a prompt certainly has more than so many tokens; False if it is not longer than `least`.

    >>> is_longer(Request(system="A story of ships and tides. " * 1000), 1000)
    True
    """
    system = request.system
    length = len(system) if isinstance(system, str) else sum(len(text.text) for text in system) if system else 0
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, _WITH_TEXT):
                length += len(part.text)
    if length <= least or length // _CHARACTERS_PER_TOKEN <= tokens:
        return False
    # A token may be a long run of one character, so a run counts as one.
    needed = _CHARACTERS_PER_TOKEN * (tokens + 1)
    last, runs, scanned = "", 0, 0
    for piece in _pieces(request):
        runs += sum(map(ne, piece, chain((last,), piece)))
        scanned += len(piece)
        if runs >= needed or scanned >= _MAX_SCAN:
            break
        last = piece[-1]
    return runs >= needed


def _pieces(request: Request) -> Iterator[str]:
    """The text of a prompt, in short pieces that are not empty."""
    for text in _texts(request):
        for start in range(0, len(text), _SLICE):
            yield text[start : start + _SLICE]


def _texts(request: Request) -> Iterator[str]:
    system = request.system
    if isinstance(system, str):
        yield system
    else:
        yield from (text.text for text in system or ())
    for message in request.messages:
        yield from (part.text for part in message.parts if isinstance(part, _WITH_TEXT))


def is_cut_prompt(request: Request, usage: Usage, /) -> bool:
    """Whether the reported usage shows that the prompt was cut."""
    # Some servers do not count cached tokens as input. A server that reports 0 tokens does not count.
    tokens = (usage.input or 0) + (usage.cache_read or 0)
    return usage.input is not None and tokens > 0 and is_longer(request, tokens)


def note_cut_prompt(out: Assembler, request: Request | None, wire: str, /) -> None:
    """Add a notice if the reported usage shows that the prompt was cut; `strict` makes it an error."""
    usage = out.usage
    if request is not None and usage is not None and is_cut_prompt(request, usage):
        tokens = (usage.input or 0) + (usage.cache_read or 0)
        report_cut_prompt(out, request, f"{wire}: it read only {tokens} tokens of the prompt; shorten the prompt")


def report_cut_prompt(out: Assembler, request: Request, why: str, /) -> None:
    """Add the notice that a prompt was cut; `strict` makes it an error."""
    if request.strict:
        raise Truncated(f"the prompt was cut: {why}")
    out.notices.append(Notice(kind="dropped", what="a part of the prompt", why=why))
