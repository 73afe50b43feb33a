"""A docstring in, what it says of a function and of its parameters out: in the manner of Google, NumPy or Sphinx."""

import inspect
import re
from collections.abc import Iterable

import msgspec

_SECTION = re.compile(r"(?:(?:other |keyword )?(?:args|arguments|parameters|params)):?\s*$", re.IGNORECASE)
_UNDERLINE = re.compile(r"[-=]{3,}\s*$")
_FIELD = re.compile(r":[a-z]+ ?[^:]*:")
# Where an entry begins: the names of its parameters, and the words that follow on the same line.
_GOOGLE = re.compile(r"(\*{0,2}\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(\*{0,2}\w+)\s*:\s*(.*)")


class DocstringInfo(msgspec.Struct, frozen=True):
    """What a docstring says: its first paragraph, and a description for each parameter that it names.

    >>> DocstringInfo("The tide.", {"port": "Where."}).parameters["port"]
    'Where.'
    """

    summary: str
    parameters: dict[str, str]


def describe(docstring: str | None, /) -> DocstringInfo:
    """What a docstring says.

    >>> describe("The tide.\\n\\nArgs:\\n    port: Where.")
    DocstringInfo(summary='The tide.', parameters={'port': 'Where.'})
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters = _entries(lines, _SPHINX)
    for number, line in enumerate(lines):
        if _SECTION.match(line) and (line.rstrip().endswith(":") or _is_underlined(lines, number)):
            parameters.update(_section(lines, number))
    return DocstringInfo(_summary(lines), parameters)


def _summary(lines: list[str]) -> str:
    words: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or _FIELD.match(line) or _SECTION.match(line) or _is_underlined(lines, number):
            break
        words.append(line.strip())
    return " ".join(words)


def _is_underlined(lines: list[str], number: int) -> bool:
    return _UNDERLINE.match("".join(lines[number + 1 : number + 2])) is not None


def _section(lines: list[str], heading: int) -> dict[str, str]:
    """The parameters below a heading: NumPy's end at the next one, Google's with the indentation."""
    numbers = range(heading + 1, len(lines))
    if _is_underlined(lines, heading):
        end = next((number for number in numbers[1:] if _is_underlined(lines, number)), len(lines))
        return _entries(lines[heading + 2 : end], _NUMPY)
    end = next((number for number in numbers if lines[number][:1].strip()), len(lines))
    return _entries(inspect.cleandoc("\n" + "\n".join(lines[heading + 1 : end])).splitlines(), _GOOGLE)


def _entries(lines: Iterable[str], begin: re.Pattern[str]) -> dict[str, str]:
    """Each parameter with its words: those on its own line, and those that are indented below it."""
    words: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        found = begin.match(line)
        if found is not None:
            names = [name.strip("* \t") for name in found[1].split(",")]
        elif not line[0].isspace():
            names = []
        for name in names:
            words.setdefault(name, []).append((line if found is None else found[2]).strip())
    return {name: " ".join(filter(None, said)) for name, said in words.items() if any(said)}
