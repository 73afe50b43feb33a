"""The pieces of a call's arguments as JSON text, so that they can go out as they come.

A piece has a path and a value; a text may come in several pieces of the same path (`streamFunctionCallArguments` of
Vertex, 2026-11). Pieces come in the order of the text: what is closed is never opened again.
"""

from collections.abc import Sequence
from typing import TypeAlias

from dragoman.errors import Malformed
from dragoman.wires.common.json import encode_json
from dragoman.wires.google.schema import NAME

PathStep: TypeAlias = str | int
"""The name of a member, or an index."""


class ArgumentsWriter:
    """Writes the pieces of one call's arguments.

    >>> writer = ArgumentsWriter()
    >>> writer.write(["port"], "Saint-"), writer.write(["port"], "Malo"), writer.write(["hours", 0], 6), writer.end()
    ('{"port":"Saint-', 'Malo', '","hours":[6', ']}')
    """

    def __init__(self) -> None:
        self._path: list[PathStep] = []
        """The path of the last value; all objects and lists on it are open."""
        self._written: list[set[PathStep]] = [set()]
        """The members that each open object or list has so far."""
        self._is_text = False
        self._has_begun = False

    def write(self, path: Sequence[PathStep], value: object) -> str:
        """The text that a piece adds."""
        if self._is_text and isinstance(value, str) and [*path] == self._path:
            return _inside(value)
        common = 0
        limit = min(len(path), len(self._path)) - 1
        while common < limit and path[common] == self._path[common]:
            common += 1
        text = self.begin() + self._close(common)
        for depth in range(common, len(path)):
            text += self._member(path, depth)
        self._path = [*path]
        self._is_text = isinstance(value, str)
        return text + (f'"{_inside(value)}' if isinstance(value, str) else encode_json(value).decode())

    def end(self) -> str:
        """The text that closes everything."""
        text = self.begin() + self._close(0)
        return text + "}"

    def begin(self) -> str:
        """The first bracket, if it is not written yet."""
        text = "" if self._has_begun else "{"
        self._has_begun = True
        return text

    def _close(self, depth: int) -> str:
        """Close the open text, and all objects and lists below a depth."""
        text = '"' if self._is_text else ""
        self._is_text = False
        for step in reversed(self._path[depth + 1 :]):
            text += "]" if isinstance(step, int) else "}"
            self._written.pop()
        return text

    def _member(self, path: Sequence[PathStep], depth: int) -> str:
        """The name of a member, or the place in a list, and the bracket of what it holds."""
        step, written = path[depth], self._written[depth]
        is_index = isinstance(step, int)
        kinds = {isinstance(each, int) for each in written}
        if step in written or kinds - {is_index} or (is_index and step != len(written)):
            raise Malformed(f"{NAME}: the pieces of a call's arguments are not in order")
        text = "," if written else ""
        written.add(step)
        if not is_index:
            text += f"{encode_json(step).decode()}:"
        if depth + 1 < len(path):
            self._written.append(set())
            text += "[" if isinstance(path[depth + 1], int) else "{"
        return text


def _inside(value: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return encode_json(value).decode()[1:-1]
