"""Counts of tokens in the headers of an answer, which Bedrock sends with bodies that have none (2026-11).

The input in a header does not include what the cache read and wrote; that of a `Usage` does.
"""

from collections.abc import Mapping

from dragoman.http import Head
from dragoman.types import Usage
from dragoman.types.responses import UNKNOWN_USAGE

_HEADERS = {
    "input": "x-amzn-bedrock-input-token-count",
    "output": "x-amzn-bedrock-output-token-count",
    "cache_read": "x-amzn-bedrock-cache-read-input-token-count",
    "cache_write": "x-amzn-bedrock-cache-write-input-token-count",
}
_DIGITS = 15
"""More digits are not a count."""


def counts_in_headers(head: Head, /) -> Usage:
    """The usage in the headers of an answer; unknown without such headers.

    >>> counts_in_headers(Head(status=200, headers={"X-Amzn-Bedrock-Input-Token-Count": "7"})).input
    7
    """
    headers = {name.lower(): value for name, value in head.headers.items()}
    usage = join_counts({name: _number(headers.get(header, "")) for name, header in _HEADERS.items()})
    return UNKNOWN_USAGE if usage.total is None else usage


def count_headers(usage: Usage, /) -> dict[str, str]:
    """The headers for a usage.

    >>> count_headers(Usage(input=3))
    {'x-amzn-bedrock-input-token-count': '3'}
    """
    return {_HEADERS[name]: str(count) for name, count in split_counts(usage).items()}


def join_counts(counts: Mapping[str, int | None], /) -> Usage:
    """A usage from counts by the names of its fields, whose input is without the cache.

    >>> join_counts({"input": 3, "output": 1, "cache_read": 7, "cache_write": None}).input
    10
    """
    plain, read, write = counts["input"], counts["cache_read"], counts["cache_write"]
    total = None if plain is None else plain + (read or 0) + (write or 0)
    return Usage(input=total, output=counts["output"], cache_read=read, cache_write=write)


def split_counts(usage: Usage, /) -> dict[str, int]:
    """The inverse of `join_counts`, without counts that are unknown.

    >>> split_counts(Usage(input=10, cache_read=7))
    {'input': 3, 'cache_read': 7}
    """
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    counts = {
        "input": None if usage.input is None else max(0, usage.input - cached),
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
