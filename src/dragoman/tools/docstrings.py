"""Reads the summary and the parameter descriptions from a docstring in Google, NumPy or Sphinx style."""

import inspect
import re
from collections.abc import Iterable

import msgspec

_SECTION = re.compile(r"(?:(?:other |keyword )?(?:args|arguments|parameters|params)):?\s*$", re.IGNORECASE)
_UNDERLINE = re.compile(r"[-=]{3,}\s*$")
_FIELD = re.compile(r":[a-z]+ ?[^:]*:")
# The first line of an entry: the names of its parameters, and the description that follows on the same line.
_GOOGLE = re.compile(r"(\*{0,2}\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(\*{0,2}\w+)\s*:\s*(.*)")


class DocstringInfo(msgspec.Struct, frozen=True):
    """The first paragraph of a docstring, and the description of each parameter."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(docstring: str | None, /) -> DocstringInfo:
    """Parse a docstring.

    >>> parse_docstring("The tide.\\n\\nArgs:\\n    port: Where.")
    DocstringInfo(summary='The tide.', parameters={'port': 'Where.'})
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters = _entries(lines, _SPHINX)
    for number, line in enumerate(lines):
        if _SECTION.match(line) and (line.rstrip().endswith(":") or _is_underlined(lines, number)):
            parameters.update(_section(lines, number))
    return DocstringInfo(_summary(lines), parameters)


def _summary(lines: list[str]) -> str:
    summary: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or _FIELD.match(line) or _SECTION.match(line) or _is_underlined(lines, number):
            break
        summary.append(line.strip())
    return " ".join(summary)


def _is_underlined(lines: list[str], number: int) -> bool:
    return _UNDERLINE.match("".join(lines[number + 1 : number + 2])) is not None


def _section(lines: list[str], heading: int) -> dict[str, str]:
    """Read the parameters below a heading. A NumPy section ends at the next heading, a Google one with its indent."""
    numbers = range(heading + 1, len(lines))
    if _is_underlined(lines, heading):
        end = next((number for number in numbers[1:] if _is_underlined(lines, number)), len(lines))
        return _entries(lines[heading + 2 : end], _NUMPY)
    end = next((number for number in numbers if lines[number][:1].strip()), len(lines))
    return _entries(inspect.cleandoc("\n" + "\n".join(lines[heading + 1 : end])).splitlines(), _GOOGLE)


def _entries(lines: Iterable[str], begin: re.Pattern[str]) -> dict[str, str]:
    """Return the description of each parameter: the rest of its first line, and the indented lines below."""
    descriptions: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        match = begin.match(line)
        if match is not None:
            names = [name.strip("* \t") for name in match[1].split(",")]
        elif not line[0].isspace():
            names = []
        for name in names:
            descriptions.setdefault(name, []).append((line if match is None else match[2]).strip())
    return {name: " ".join(filter(None, texts)) for name, texts in descriptions.items() if any(texts)}
