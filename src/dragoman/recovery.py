"""The texts of a run in, the one that is its answer out: a last word that only points back gives way to that."""

import re
from collections.abc import Sequence

_BACK = re.compile(
    r"\b(?:see|as|answer(?:ed)?|given|provided|shown|described|mentioned|stated|listed|noted)\s+(?:\w+\s+){0,3}?above\b"
    r"|\babove\s+(?:answer|response|message|summary|report)\b"
    r"|\balready\s+(?:\w+\s+)?(?:answered|given|provided|said|told|explained|shown|covered|addressed|responded)\b"
    r"|\b(?:previous|earlier|last)\s+(?:answer|response|message|reply|turn)\b"
    r"|\bas\s+(?:i\s+)?(?:said|mentioned|noted|explained|stated)\s+(?:before|earlier|previously)\b",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"\W*(?:let me|let's|first|next|checking|looking|searching|one moment|i'll|i will|i am going|i'm going|i need)\b",
    re.IGNORECASE,
)
WEAK = 120
"""Characters that a text which only points back has at most."""
LONG = 200
"""Characters of a text that is an answer, whatever it begins with."""
SOLID = 80
"""Characters of one that is, where the last is much shorter and it is no preamble."""


def answer(texts: Sequence[str], /) -> str:
    """The answer of a run: its last text, or the last substantial one before it where the last is weak.

    >>> answer(["Brest has " + "a tide of 4.2 m, " * 20, "See above."])[:9]
    'Brest has'
    >>> answer(["Brest has " + "a tide of 4.2 m, " * 20, "42"])
    '42'
    """
    last = texts[-1] if texts else ""
    if not is_weak(last):
        return last
    earlier = (text for text in reversed(texts[:-1]) if _is_substantial(text.strip(), last.strip()))
    return next(earlier, last)


def is_weak(text: str, /) -> bool:
    """Whether a text is no answer by itself: blank, or short and pointing back.

    >>> is_weak("I have already answered that."), is_weak("Yes.")
    (True, False)
    """
    text = text.strip()
    return not text or (len(text) <= WEAK and _BACK.search(text) is not None)


def _is_substantial(text: str, last: str) -> bool:
    if len(text) >= LONG:
        return True
    return len(text) >= SOLID and len(text) >= 3 * len(last) and _PREAMBLE.match(text) is None
