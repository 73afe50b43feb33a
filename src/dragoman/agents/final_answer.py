"""The texts of a run in, the one that is its answer out: a last word that only points back gives way to that."""

import re
from collections.abc import Sequence

_THING = r"(?:answers?|response|message|reply|turn|summary|report|explanation|details|information|text|results?)"
_THERE = rf"(?:above|earlier|before|previously|in (?:my|the) (?:previous|earlier|last|above) {_THING})"
_ASKED = r"(?:this|that|it|you|your|the|my|question|request|answer|full|everything|all)"
_DONE = (
    r"(?:answered|given|provided|said|told|explained|shown|covered|addressed|responded(?: to)?|stated|mentioned|noted"
    r"|described|listed|discussed)"
)
_BACK = re.compile(
    r"(?:so|well|sorry|again|and|please|kindly)?[, ]*(?:"
    rf"(?:you (?:can|may) )?(?:see|refer to|check|read|look at|find) (?:(?:the|my|this|it) )?"
    rf"(?:{_THING} )?(?:{_DONE} )?(?:{_THERE}|(?:previous|earlier|last|above) {_THING})(?: for [a-z' ]+)?"
    rf"|(?:as )?(?:i |we )?(?:have |'ve )?(?:already )?(?:been )?{_DONE}(?: {_ASKED})* {_THERE}"
    rf"|(?:i|we|i've|we've|this|that|it|the question|your question)(?: have| has| was| is)?(?: been)? already"
    rf"(?: \w+ly)?(?: been)? {_DONE}(?: {_ASKED})*(?: {_THERE})?"
    rf"|as (?:i |we )(?:have |'ve )?(?:already )?{_DONE}"
    rf"|(?:i|we|i've|we've|it|this|that|the {_THING}|everything|all)(?: is| was| are| has been| have)?(?: all)?"
    rf"(?: {_DONE})?(?: {_ASKED})* {_THERE}"
    rf"|(?:the above|my (?:previous|earlier|last)) {_THING} (?:stands|still stands|(?:is|are|remains?) [a-z' ]+"
    r"|covers [a-z' ]+|answers [a-z' ]+)"
    r")",
    re.IGNORECASE,
)
"""A sentence that says nothing but that all has been said: it is matched whole, so that no fact is in it."""
_ENDS = re.compile(r"[.!;:\n]+")
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
    sentences = [one.strip(" \t*_\"'()") for one in _ENDS.split(text)] if len(text) <= WEAK else ["long"]
    return all(_BACK.fullmatch(sentence) for sentence in sentences if sentence)


def _is_substantial(text: str, last: str) -> bool:
    if len(text) >= LONG:
        return True
    return len(text) >= SOLID and len(text) >= 3 * len(last) and _PREAMBLE.match(text) is None
