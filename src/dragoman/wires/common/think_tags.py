"""Splits the text of an answer into text and thinking, for servers that leave the thinking in the text.

Models such as DeepSeek R1 and Qwen write `<think>…</think>` before their answer. Some servers move it to a field of its
own, others leave it where it is. Text arrives in pieces that may end anywhere, so the end of a piece that could be the
start of a tag is held back. How the text is cut into pieces never changes the result.

The templates of some models end the prompt with `<think>`, so that the answer has only `</think>`. All text before it
is thinking, and must be held back until then: if the tag never comes, it is text.

Bedrock writes `<reasoning>…</reasoning>`, and puts each piece of a stream between tags of its own (seen 2025-11). So
the pieces of this tag are joined as they are.
"""

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

Piece: TypeAlias = tuple[Literal["text", "thinking"], str]
ThinkTag: TypeAlias = Literal["think", "reasoning"]


class ThinkTagSplitter:
    """Splits one text. White space around the thinking is left out; an empty line stands between two blocks.

    A block at the start of the text, or after another block, is thinking at once, even if it never ends. A block inside
    the text is thinking if it ends and does not stand in code: an answer may explain the tags.

    If the thinking `may_be_open`, a `</think>` without `<think>` before it ends the thinking, too. With the tag
    `reasoning`, all blocks are one thinking part, with its white space.

    >>> splitter = ThinkTagSplitter()
    >>> splitter.feed("<thi") + splitter.feed("nk>Hm.</think>\\n\\nYes") + splitter.end()
    [('thinking', 'Hm.'), ('text', 'Yes')]
    """

    def __init__(self, tag: ThinkTag = "think", *, may_be_open: bool = False) -> None:
        self._open, self._close = f"<{tag}>", f"</{tag}>"
        self._any_tag = re.compile(f"</?{tag}>")
        self._is_joined = tag == "reasoning"
        self._step: Callable[[str], str] = self._read_open if may_be_open else self._read_start
        self._pieces: list[Piece] = []
        self._held = ""
        """The start of a tag, perhaps."""
        self._blanks: list[str] = []
        """White space that is left out if nothing, or a tag, follows it."""
        self._block: list[str] = []
        """The content of a block inside the text, or of one that may be open from the start, until it ends."""
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
        if self._step == self._read_open:
            rest = self._start_over(self._held)
            while rest:
                rest = self._step(rest)
        held, self._held = self._held, ""
        if self._step == self._read_start:
            self._add("text", held if self._follows_block else "".join(self._blanks) + held)
        elif self._step == self._read_block:
            self._add("text", self._open + "".join(self._block) + held)
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

    def _read_open(self, rest: str) -> str:
        """Read text that is thinking if `</think>` comes before `<think>`. JSON is not: the tag may be in a string."""
        if not self._has_thought:
            first = rest.lstrip()[:1]
            if first and first in '{["':
                return self._start_over(rest)
            self._has_thought = bool(first)
        match = self._any_tag.search(rest)
        before, tag = (rest[: match.start()], match[0]) if match else _split_at_tag(rest, self._close, self._open)
        self._block.append(before)
        self._is_in_code ^= before.count("`") % 2 == 1
        if match is None:
            self._held = tag
            return ""
        after = rest[match.end() :]
        if self._is_in_code:
            self._block.append(tag)
        elif tag == self._open:
            return self._start_over(tag + after)
        else:
            self._end_block()
        return after

    def _start_over(self, rest: str) -> str:
        """All text so far, to read it as text that has its tags itself."""
        text, self._held = "".join(self._block) + rest, ""
        self._block, self._is_in_code, self._step = [], False, self._read_start
        return text

    def _end_block(self) -> None:
        block = "".join(self._block)
        self._add("thinking", block if self._is_joined else block.strip())
        self._block, self._follows_block = [], True
        self._step = self._read_start

    def _read_start(self, rest: str) -> str:
        """Read white space, and what follows it: a block or text."""
        content = rest.lstrip()
        self._blanks.append(rest[: len(rest) - len(content)])
        if len(content) < len(self._open) and self._open.startswith(content):
            self._held = content
            return ""
        blanks = "" if self._follows_block else "".join(self._blanks)
        self._blanks, self._follows_block = [], False
        if content.startswith(self._open):
            self._step, self._has_thought = self._read_thinking, False
            return content[len(self._open) :]
        self._step = self._read_text
        return blanks + content

    def _read_text(self, rest: str) -> str:
        before, tag, after = rest.partition(self._open)
        if not tag:
            before, self._held = _split_at_tag(rest, self._open)
        self._is_in_code ^= before.count("`") % 2 == 1
        if tag and not self._is_in_code:
            self._step = self._read_block
            tag = ""
        self._add("text", before + tag)
        return after

    def _read_block(self, rest: str) -> str:
        before, tag, after = rest.partition(self._close)
        if not tag:
            before, self._held = _split_at_tag(rest, self._close)
        self._block.append(before)
        if tag:
            self._end_block()
        return after

    def _read_thinking(self, rest: str) -> str:
        before, tag, after = rest.partition(self._close)
        if not tag:
            before, self._held = _split_at_tag(rest, self._close)
        self._think(before)
        if tag:
            self._blanks, self._follows_block = [], True
            self._step = self._read_start
        return after

    def _think(self, text: str) -> None:
        """Add thinking; white space waits for what follows it."""
        if self._is_joined:
            self._add("thinking", text)
            return
        text = text if self._has_thought else text.lstrip()
        content = text.rstrip()
        if content:
            gap = "\n\n" if self._last == "thinking" and not self._has_thought else ""
            self._add("thinking", gap + "".join(self._blanks) + content)
            self._blanks, self._has_thought = [], True
        self._blanks.append(text[len(content) :])


def _split_at_tag(text: str, *tags: str) -> tuple[str, str]:
    """A text without its end, and its end if that can be the start of one of the tags."""
    place = text.rfind("<", -len(tags[0]) + 1)
    if place < 0 or not any(tag.startswith(text[place:]) for tag in tags):
        return text, ""
    return text[:place], text[place:]
