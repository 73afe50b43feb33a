"""Rows of words in, one aligned plain table out."""

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A title, the heads of the columns, and rows of the same length."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def show(sections: Sequence[Section]) -> str:
    """All sections under each other, their columns in line."""
    lines = [line for section in sections for line in (section.heads, *section.rows)]
    count = max(map(len, lines))
    widths = [max(len(line[i]) for line in lines if len(line) > i) for i in range(count)]
    told: list[str] = []
    for section in sections:
        told += ["", section.title, _line(section.heads, widths), "-" * (sum(widths) + 2 * (count - 1))]
        told += [_line(row, widths) for row in section.rows]
    return "\n".join(told)


def _line(words: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        word.ljust(width) if i == 0 else word.rjust(width)
        for i, (word, width) in enumerate(zip(words, widths, strict=False))
    )
    return "  ".join((first, *rest)).rstrip()


def ms(seconds: float) -> str:
    """Milliseconds."""
    return f"{seconds * 1e3:.1f} ms"


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:.1f} µs"


def mb(size: float) -> str:
    """Megabytes."""
    return f"{size / 1e6:.1f} MB"


def times(ratio: float) -> str:
    """A ratio."""
    return f"{ratio:.2f}"


ABSENT = "not installed"
