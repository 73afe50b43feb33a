"""Format rows as one aligned plain-text table."""

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A title, the column heads, and rows of the same length."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def show(sections: Sequence[Section]) -> str:
    """All sections below each other, with aligned columns."""
    lines = [line for section in sections for line in (section.heads, *section.rows)]
    count = max(map(len, lines))
    widths = [max(len(line[i]) for line in lines if len(line) > i) for i in range(count)]
    output: list[str] = []
    for section in sections:
        output += ["", section.title, _line(section.heads, widths), "-" * (sum(widths) + 2 * (count - 1))]
        output += [_line(row, widths) for row in section.rows]
    return "\n".join(output)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if i == 0 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
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
