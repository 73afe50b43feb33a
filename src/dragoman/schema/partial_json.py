"""Pieces of JSON text in, the value so far out: what is whole, and of what is not what can only grow.

A number, a keyword and a text that has to be one of some are shown when they are whole; free text grows letter by
letter. Each piece is read once. Nothing is raised: what is no JSON ends the growth.
"""

import re
from typing import Any

import msgspec

from dragoman.schema.adapt import as_list
from dragoman.schema.strict import followed
from dragoman.schema.unstrict import NOTHING
from dragoman.types import JsonObject, is_list, is_object

_PLAIN = re.compile(r'[^"\\]*')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u])")
_WORD = re.compile(r"[^\s,\]}]*")
_LONGEST_ESCAPE = 12
_SPACE = re.compile(r"[\s,:]*")
_BOUND = frozenset({"enum", "const", "format", "pattern", "minLength"})
_ENTRY = frozenset({"key", "value"})


class _Open:
    """A container that has no end yet: what is whole in it, and what its schema may be."""

    def __init__(self, value: dict[str, Any] | list[Any], schemas: list[JsonObject]) -> None:
        self.value = value
        self.schemas = schemas
        self.key: str | None = None

    def add(self, item: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is None:
            self.key = item
        else:
            self.value[str(self.key)] = item
            self.key = None

    @property
    def is_at_key(self) -> bool:
        return is_object(self.value) and self.key is None

    @property
    def is_entry(self) -> bool:
        """Whether this is an entry of a map, which means nothing in part."""
        return any(schema.get("properties", {}).keys() == _ENTRY for schema in self.schemas)

    def with_open(self, item: Any) -> Any:
        """A copy that has one more item."""
        if self.is_entry:
            return NOTHING
        copied = _Open(self.value.copy(), self.schemas)
        copied.key = self.key
        if item is not NOTHING and not self.is_at_key:
            copied.add(item)
        return copied.value


class PartialJson:
    """A JSON object that is being written.

    >>> prefix = PartialJson({"type": "object", "properties": {"name": {"type": "string"}}})
    >>> prefix.feed('{"name": "Bre'); prefix.value
    {'name': 'Bre'}
    """

    def __init__(self, schema: JsonObject) -> None:
        self._root = schema
        self._stack: list[_Open] = []
        self._pieces: list[str] = []
        self._in: str = ""
        """What is being read: `text`, `word`, or neither."""
        self._rest = ""
        self._whole: Any = NOTHING
        self._is_over = False

    @property
    def value(self) -> Any:
        """What there is so far, as a value of its own; NOTHING before the beginning, and of what is no JSON."""
        item = self._text() if self._in == "text" and self._stack and self._is_free() else NOTHING
        if self._is_over:
            return self._whole
        for container in reversed(self._stack):
            item = container.with_open(item)
        return item

    def feed(self, text: str, /) -> None:
        """Read one piece more."""
        text, self._rest = self._rest + text, ""
        place = 0
        while place < len(text) and not self._is_over:
            if self._in == "text":
                place = self._read_text(text, place)
            elif self._in == "word":
                place = self._read_word(text, place)
            elif not self._stack:
                place = self._begin(text, place)
            else:
                place = self._read_mark(text, place)

    def _begin(self, text: str, place: int) -> int:
        """The object's own beginning: what stands before it is a code fence or a word too many."""
        start = text.find("{", place)
        if start < 0:
            return len(text)
        self._push({}, [self._root])
        return start + 1

    def _read_mark(self, text: str, place: int) -> int:
        space = _SPACE.match(text, place)
        place = space.end() if space else place
        mark = text[place : place + 1]
        match mark:
            case "":
                return place
            case '"':
                self._in = "text"
            case "{":
                self._push({}, self._below())
            case "[":
                self._push([], self._below())
            case "}" | "]":
                self._pop()
            case _:
                self._in = "word"
                return place
        return place + 1

    def _read_text(self, text: str, place: int) -> int:
        plain = _PLAIN.match(text, place)
        end = plain.end() if plain else place
        self._pieces.append(text[place:end])
        if text[end : end + 1] == '"':
            self._close(self._text())
            return end + 1
        if end == len(text):
            return end
        escape = _ESCAPE.match(text, end)
        if escape:
            self._pieces.append(escape[0])
            return escape.end()
        self._is_over = len(text) - end >= _LONGEST_ESCAPE
        self._rest = text[end:]
        return len(text)

    def _read_word(self, text: str, place: int) -> int:
        word = _WORD.match(text, place)
        end = word.end() if word else place
        self._pieces.append(text[place:end])
        if end < len(text):
            try:
                self._close(msgspec.json.decode("".join(self._pieces)))
            except msgspec.DecodeError:
                self._is_over = True
        return end

    def _text(self) -> str:
        """What was read of a text; one piece is kept, so that a long text is not joined anew each time."""
        self._pieces = ["".join(self._pieces)]
        try:
            return msgspec.json.decode(f'"{self._pieces[0]}"', type=str)
        except msgspec.DecodeError:
            self._is_over = True
            return ""

    def _close(self, item: Any) -> None:
        self._in, self._pieces = "", []
        if not self._is_over:
            self._stack[-1].add(item)

    def _push(self, value: dict[str, Any] | list[Any], schemas: list[JsonObject]) -> None:
        kind = "array" if is_list(value) else "object"
        arms = [arm for arm in _arms(schemas, self._root) if kind in as_list(arm.get("type", kind))]
        self._stack.append(_Open(value, arms))

    def _pop(self) -> None:
        value = self._stack.pop().value
        if self._stack:
            self._stack[-1].add(value)
        else:
            self._whole, self._is_over = value, True

    def _below(self) -> list[Any]:
        """The schemas of what comes next in the innermost container."""
        container = self._stack[-1]
        if container.key is None:
            return [schema.get("items", {}) for schema in container.schemas]
        known = [schema.get("properties", {}) for schema in container.schemas]
        return [properties[container.key] for properties in known if container.key in properties]

    def _is_free(self) -> bool:
        """Whether the text that is being read may be shown in part."""
        texts = [one for one in _arms(self._below(), self._root) if "string" in as_list(one.get("type", "string"))]
        return not self._stack[-1].is_at_key and any(not one.keys() & _BOUND for one in texts)


def _arms(schemas: list[Any], root: JsonObject) -> list[JsonObject]:
    """The schemas with their references followed, and each arm of a choice for itself."""
    found: list[JsonObject] = []
    for schema in schemas:
        own = followed(schema, root)
        arms = [arm for keyword in ("anyOf", "oneOf", "allOf") for arm in as_list(own.get(keyword, []))]
        found += _arms(arms, root) if arms else [own]
    return found
