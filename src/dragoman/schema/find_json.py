"""Finds the JSON in an answer that has more than JSON: thinking, a code fence, prose around it, trailing commas."""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

THINKING_END = "</think>"
_FENCE = re.compile(r"```(?:[\w-]+(?=[\s{\[\"]))?")
_FENCE_END = re.compile(r"\n[ \t]*```")
"""Only at the start of a line: JSON text never contains a line break inside a string."""
_START = re.compile(r"[{\[]")
_MARK = re.compile(r'["\\{}\[\]]|,(?=\s*[}\]])')
_CLOSING = {"{": "}", "[": "]"}
_MAX_VALUES = 100
"""Of several values, only the last ones are candidates for the answer."""
_MAX_FAILURES = 10
"""Opening brackets without an end that are passed over, so that the search takes linear time."""


def find_json(text: str, /) -> list[Any]:
    """The JSON values of an answer, the likeliest first; raises DecodeError if there is none.

    Thinking is not searched if anything else has JSON. If the answer is JSON as a whole, that is the only value. A
    single code fence comes before what else is there. Otherwise the last value comes first: models give their answer
    after its explanation.

    >>> find_json('<think>{"a": 0}</think>So it is {"a": 1,}.')
    [{'a': 1}]
    """
    plain = text.strip("\ufeff \t\r\n")
    # JSON may have the tag in a string. Other answers with it begin with thinking, whose start tag is often missing.
    has_thinking = THINKING_END in plain and plain[:1] not in ("{", "[", '"')
    answer = plain.rpartition(THINKING_END)[2].strip() if has_thinking else plain
    inner = strip_code_fence(answer)
    try:
        value = _decode(inner)
        if inner == answer:
            return [value]
        values = _values(answer)
        has_one_fence = answer.count("```") <= 2
        return [value, *(other for other in values if other != value)] if has_one_fence or not values else values
    except (msgspec.DecodeError, RecursionError):
        values = _values(answer) or (_values(plain) if has_thinking else [])
        if not values:
            raise
        return values


def strip_code_fence(text: str, /) -> str:
    """An answer without white space and code fences around it.

    >>> strip_code_fence(" ```json\\n{}\\n``` ")
    '{}'
    """
    text = text.strip("\ufeff \t\r\n")
    fence = None if text[:1] in ("{", "[", '"') else _FENCE.search(text)
    if fence is None:
        return text
    inner = text[fence.end() :]
    end = _FENCE_END.search(inner)
    return (inner[: end.start()] if end else inner.rpartition("```")[0] or inner).strip()


def _decode(text: str) -> Any:
    return msgspec.json.decode(text)


def _values(text: str) -> list[Any]:
    """All objects and lists in a text, the last one first."""
    values: deque[Any] = deque(maxlen=_MAX_VALUES)
    for candidate in _candidates(text):
        try:
            values.appendleft(_decode(candidate))
        except (msgspec.DecodeError, RecursionError):
            continue
    return list(values)


def _candidates(text: str) -> Iterator[str]:
    """The parts of a text from an opening bracket to its closing one, without trailing commas."""
    place, failures = 0, 0
    while failures < _MAX_FAILURES and (start := _START.search(text, place)):
        pieces, end = _read_brackets(text, start.start())
        if end is None:
            failures += 1
            place = start.end()
        else:
            yield "".join(pieces)
            place = end


def _read_brackets(text: str, start: int) -> tuple[list[str], int | None]:
    """The pieces between trailing commas, and the place after the closing bracket; None if there is none."""
    pieces: list[str] = []
    expected: list[str] = []
    begin, escaped, is_string = start, -1, False
    for match in _MARK.finditer(text, start):
        mark, place = match[0], match.start()
        if mark == "\\":
            escaped = place + 1 if escaped != place else -1
        elif mark == '"':
            is_string = is_string if is_string and escaped == place else not is_string
        elif is_string:
            continue
        elif mark == ",":
            pieces.append(text[begin:place])
            begin = place + 1
        elif mark in _CLOSING:
            expected.append(_CLOSING[mark])
        elif expected.pop() != mark:
            return [], None
        elif not expected:
            return [*pieces, text[begin : place + 1]], place + 1
    return [], None
