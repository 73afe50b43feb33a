"""Splits the text of an answer into text and thinking, for servers that leave the thinking in the text.

Models such as DeepSeek R1 and Qwen write `<think>…</think>` before their answer. Some servers move it to a field of its
own, others leave it where it is. Text arrives in pieces that may end anywhere, so the end of a piece that could be the
start of a tag is held back. How the text is cut into pieces never changes the result.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

Piece: TypeAlias = tuple[Literal["text", "thinking"], str]
OPEN = "<think>"
CLOSE = "</think>"


class ThinkTagSplitter:
    """Splits one text. White space around the thinking is left out; an empty line stands between two blocks.

    A block at the start of the text, or after another block, is thinking at once, even if it never ends. A block inside
    the text is thinking if it ends and does not stand in code: an answer may explain the tags.

    >>> splitter = ThinkTagSplitter()
    >>> splitter.feed("<thi") + splitter.feed("nk>Hm.</think>\\n\\nYes") + splitter.end()
    [('thinking', 'Hm.'), ('text', 'Yes')]
    """

    def __init__(self) -> None:
        self._step: Callable[[str], str] = self._read_start
        self._pieces: list[Piece] = []
        self._held = ""
        """The start of a tag, perhaps."""
        self._blanks: list[str] = []
        """White space that is left out if nothing, or a tag, follows it."""
        self._block: list[str] = []
        """The content of a block inside the text, until it ends."""
        self._follows_block = False
        self._is_in_code = False
        self._has_thought = False
        self._last: str | None = None
        """The kind of the last piece."""

    def feed(self, text: str, /) -> list[Piece]:
        """The pieces that are certain after this text."""
        rest, self._held = self._held + text, ""
        while rest:
            rest = self._step(rest)
        return self._take()

    def end(self) -> list[Piece]:
        """The pieces that were held back."""
        held, self._held = self._held, ""
        if self._step == self._read_start:
            self._add("text", held if self._follows_block else "".join(self._blanks) + held)
        elif self._step == self._read_block:
            self._add("text", OPEN + "".join(self._block) + held)
        elif self._step == self._read_thinking:
            self._think(held)
        else:
            self._add("text", held)
        return self._take()

    def _take(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _add(self, kind: Literal["text", "thinking"], text: str) -> None:
        if text:
            self._pieces.append((kind, text))
            self._last = kind

    def _read_start(self, rest: str) -> str:
        """Read white space, and what follows it: a block or text."""
        content = rest.lstrip()
        self._blanks.append(rest[: len(rest) - len(content)])
        if len(content) < len(OPEN) and OPEN.startswith(content):
            self._held = content
            return ""
        blanks = "" if self._follows_block else "".join(self._blanks)
        self._blanks, self._follows_block = [], False
        if content.startswith(OPEN):
            self._step, self._has_thought = self._read_thinking, False
            return content[len(OPEN) :]
        self._step = self._read_text
        return blanks + content

    def _read_text(self, rest: str) -> str:
        before, tag, after = rest.partition(OPEN)
        if not tag:
            before, self._held = _split_at_tag(rest, OPEN)
        self._is_in_code ^= before.count("`") % 2 == 1
        if tag and not self._is_in_code:
            self._step = self._read_block
            tag = ""
        self._add("text", before + tag)
        return after

    def _read_block(self, rest: str) -> str:
        before, tag, after = rest.partition(CLOSE)
        if not tag:
            before, self._held = _split_at_tag(rest, CLOSE)
        self._block.append(before)
        if tag:
            self._add("thinking", "".join(self._block).strip())
            self._block, self._follows_block = [], True
            self._step = self._read_start
        return after

    def _read_thinking(self, rest: str) -> str:
        before, tag, after = rest.partition(CLOSE)
        if not tag:
            before, self._held = _split_at_tag(rest, CLOSE)
        self._think(before)
        if tag:
            self._blanks, self._follows_block = [], True
            self._step = self._read_start
        return after

    def _think(self, text: str) -> None:
        """Add thinking; white space waits for what follows it."""
        text = text if self._has_thought else text.lstrip()
        content = text.rstrip()
        if content:
            gap = "\n\n" if self._last == "thinking" and not self._has_thought else ""
            self._add("thinking", gap + "".join(self._blanks) + content)
            self._blanks, self._has_thought = [], True
        self._blanks.append(text[len(content) :])


def _split_at_tag(text: str, tag: str) -> tuple[str, str]:
    """A text without its end, and its end if that can be the start of the tag."""
    place = text.rfind("<", -len(tag) + 1)
    if place < 0 or not tag.startswith(text[place:]):
        return text, ""
    return text[:place], text[place:]
