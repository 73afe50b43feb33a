"""Tells whether a server read less of a prompt than was sent.

Local servers drop the oldest messages of a prompt that is too long, without a word. The number of tokens that they
report shows it: no text has so few tokens.
"""

import re
from collections.abc import Iterable

from dragoman.errors import Truncated
from dragoman.events import Assembler
from dragoman.types import Notice, Request, Text, ToolResult

LEAST_LENGTH = 2048
"""Characters below which a prompt fits into every context."""
_CHARACTERS_PER_TOKEN = 12
_REPETITION = r"(?s)(.)\1+"
_WITH_TEXT = (Text, ToolResult)


def is_longer(request: Request, tokens: int, /, *, least: int = LEAST_LENGTH) -> bool:
    """Whether the text of a prompt certainly has more than so many tokens; False if it is not longer than `least`.

    >>> is_longer(Request(system="A story of ships and tides. " * 1000), 1000)
    True
    """
    length = sum(map(len, _texts(request)))
    if length <= least or length // _CHARACTERS_PER_TOKEN <= tokens:
        return False
    # A token may be a long run of one character.
    return len(re.sub(_REPETITION, r"\1", "".join(_texts(request)))) // _CHARACTERS_PER_TOKEN > tokens


def _texts(request: Request) -> Iterable[str]:
    if request.system is not None:
        yield request.system if isinstance(request.system, str) else "".join(text.text for text in request.system)
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, _WITH_TEXT):
                yield part.text


def note_cut_prompt(out: Assembler, request: Request | None, wire: str, /) -> None:
    """Add a notice if the reported usage shows that the prompt was cut; `strict` makes it an error."""
    usage = out.usage
    if request is None or usage is None or usage.input is None:
        return
    # Some servers do not count cached tokens as input.
    tokens = usage.input + (usage.cache_read or 0)
    if is_longer(request, tokens):
        report_cut_prompt(out, request, f"{wire}: it read only {tokens} tokens of the prompt; shorten the prompt")


def report_cut_prompt(out: Assembler, request: Request, why: str, /) -> None:
    """Add the notice that a prompt was cut; `strict` makes it an error."""
    if request.strict:
        raise Truncated(f"the prompt was cut: {why}")
    out.notices.append(Notice(kind="dropped", what="a part of the prompt", why=why))
