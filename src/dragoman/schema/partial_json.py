"""Reads JSON text that is still being streamed, and gives the value so far.

A value is shown if it is complete, or if it can only grow: free text grows letter by letter, while a number, a keyword
and a text from an enum appear when they are complete. Each piece is read once. Text that is not JSON raises nothing; it
ends the value.
"""

import re
from typing import Any

import msgspec

from dragoman.schema.strict import resolve_ref
from dragoman.schema.traverse import as_list
from dragoman.schema.unstrict import NO_VALUE
from dragoman.types import JsonObject, is_list, is_object

_PLAIN = re.compile(r'[^"\\]*')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u])")
_WORD = re.compile(r"[^\s,\]}]*")
_MAX_ESCAPE = 12
_SPACE = re.compile(r"[\s,:]*")
_BOUND = frozenset({"enum", "const", "format", "pattern", "minLength"})
"""Keywords that an incomplete text may not satisfy."""
_ENTRY = frozenset({"key", "value"})


class _OpenContainer:
    """An object or list without its end: its complete items, and the schemas that it may have."""

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
    def is_map_entry(self) -> bool:
        """Whether this is an entry of a map, which means nothing until it is complete."""
        return any(schema.get("properties", {}).keys() == _ENTRY for schema in self.schemas)

    def with_item(self, item: Any) -> Any:
        """A copy of the value with one more item."""
        if self.is_map_entry:
            return NO_VALUE
        copied = _OpenContainer(self.value.copy(), self.schemas)
        copied.key = self.key
        if item is not NO_VALUE and not self.is_at_key:
            copied.add(item)
        return copied.value


class PartialJson:
    """A JSON object that is being written.

    >>> partial = PartialJson({"type": "object", "properties": {"name": {"type": "string"}}})
    >>> partial.feed('{"name": "Bre'); partial.value
    {'name': 'Bre'}
    """

    def __init__(self, schema: JsonObject) -> None:
        self._root = schema
        self._stack: list[_OpenContainer] = []
        self._pieces: list[str] = []
        self._reading: str = ""
        """The kind of token that is being read: `text`, `word`, or "" between tokens."""
        self._unread = ""
        self._whole: Any = NO_VALUE
        self._is_over = False

    @property
    def value(self) -> Any:
        """The value so far, as a copy; NO_VALUE before the object begins, and if the text is not JSON."""
        item = self._text() if self._reading == "text" and self._stack and self._is_free_text() else NO_VALUE
        if self._is_over:
            return self._whole
        for container in reversed(self._stack):
            item = container.with_item(item)
        return item

    def feed(self, text: str, /) -> None:
        """Read the next piece."""
        text, self._unread = self._unread + text, ""
        place = 0
        while place < len(text) and not self._is_over:
            if self._reading == "text":
                place = self._read_text(text, place)
            elif self._reading == "word":
                place = self._read_word(text, place)
            elif not self._stack:
                place = self._begin(text, place)
            else:
                place = self._read_mark(text, place)

    def _begin(self, text: str, place: int) -> int:
        """Skip what stands before the object, such as a code fence."""
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
                self._reading = "text"
            case "{":
                self._push({}, self._next_schemas())
            case "[":
                self._push([], self._next_schemas())
            case "}" | "]":
                self._pop()
            case _:
                self._reading = "word"
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
        self._is_over = len(text) - end >= _MAX_ESCAPE
        self._unread = text[end:]
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
        """The text so far; its pieces become one, so that a long text is not joined again each time."""
        self._pieces = ["".join(self._pieces)]
        try:
            return msgspec.json.decode(f'"{self._pieces[0]}"', type=str)
        except msgspec.DecodeError:
            self._is_over = True
            return ""

    def _close(self, item: Any) -> None:
        self._reading, self._pieces = "", []
        if not self._is_over:
            self._stack[-1].add(item)

    def _push(self, value: dict[str, Any] | list[Any], schemas: list[JsonObject]) -> None:
        kind = "array" if is_list(value) else "object"
        arms = [arm for arm in _arms(schemas, self._root) if kind in as_list(arm.get("type", kind))]
        self._stack.append(_OpenContainer(value, arms))

    def _pop(self) -> None:
        value = self._stack.pop().value
        if self._stack:
            self._stack[-1].add(value)
        else:
            self._whole, self._is_over = value, True

    def _next_schemas(self) -> list[Any]:
        """The schemas of the next item in the innermost container."""
        container = self._stack[-1]
        if container.key is None:
            return [schema.get("items", {}) for schema in container.schemas]
        known = [schema.get("properties", {}) for schema in container.schemas]
        return [properties[container.key] for properties in known if container.key in properties]

    def _is_free_text(self) -> bool:
        """Whether the text that is being read may be shown before it is complete."""
        schemas = _arms(self._next_schemas(), self._root)
        texts = [one for one in schemas if "string" in as_list(one.get("type", "string"))]
        return not self._stack[-1].is_at_key and any(not one.keys() & _BOUND for one in texts)


def _arms(schemas: list[Any], root: JsonObject) -> list[JsonObject]:
    """The schemas with references resolved and choices split into their arms."""
    arms_of_all: list[JsonObject] = []
    for schema in schemas:
        own = resolve_ref(schema, root)
        arms = [arm for keyword in ("anyOf", "oneOf", "allOf") for arm in as_list(own.get(keyword, []))]
        arms_of_all += _arms(arms, root) if arms else [own]
    return arms_of_all
