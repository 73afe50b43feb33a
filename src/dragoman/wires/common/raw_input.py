"""Tools that take free text, as functions with one argument: `{"input": "…"}`.

The text inside is read while the JSON arrives.
"""

import re

import msgspec

from dragoman.types import JsonObject, ToolCall
from dragoman.types.arguments import arguments_text

INPUT: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of the function for such a tool."""
GRAMMAR_CHANGED = "its grammar is only in the description"
"""What such a tool loses as a function, if it has a grammar."""


def input_description(description: object, grammar: JsonObject | None, /) -> str | None:
    """The description of such a function; a grammar (`syntax`, `definition`) stands at its end.

    >>> input_description("Query.", {"syntax": "regex", "definition": "a+"})
    'Query.\\n\\nThe input must satisfy this regex grammar:\\na+'
    """
    texts = [description] if isinstance(description, str) and description else []
    if grammar is not None:
        syntax, definition = grammar.get("syntax", "lark"), grammar.get("definition", "")
        texts.append(f"The input must satisfy this {syntax} grammar:\n{definition}")
    return "\n\n".join(texts) or None


def input_text(call: ToolCall, /) -> str:
    """The free text of a call. A model may use another name for the one argument, or several.

    >>> input_text(ToolCall(id="call_1", name="sql", arguments={"query": "select 1"}))
    'select 1'
    """
    values = [*call.arguments.values()]
    value = call.arguments.get("input", values[0] if len(values) == 1 else "" if not values else None)
    return value if isinstance(value, str) else arguments_text(call)


_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_SO_FAR = re.compile(r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?')
_WHOLE = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*'
)
"""Characters and whole escapes; the two halves of a surrogate pair belong together."""
_DECODER = msgspec.json.Decoder(str)


class RawInput:
    """The decoded text so far. If the JSON has another form, nothing is read: the whole call has the text.

    >>> reader = RawInput()
    >>> [reader.read(text) for text in ('{"in', 'put": "a\\\\', 'nb', '"}')]
    ['', 'a', '\\nb', '']
    """

    def __init__(self) -> None:
        self._held: str = ""
        self._is_inside = False
        self._is_over = False

    def read(self, text: str) -> str:
        """The piece of the input that a fragment of the JSON completes."""
        if self._is_over:
            return ""
        text_so_far = self._held + text
        if not self._is_inside:
            if (head := _HEAD.match(text_so_far)) is None:
                self._held = text_so_far
                self._is_over = _HEAD_SO_FAR.fullmatch(text_so_far) is None
                return ""
            self._is_inside = True
            text_so_far = text_so_far[head.end() :]
        match = _WHOLE.match(text_so_far)
        end = match.end() if match is not None else 0
        self._held = text_so_far[end:]
        self._is_over = self._held.startswith('"')
        try:
            return _DECODER.decode(f'"{text_so_far[:end]}"')
        except msgspec.MsgspecError:
            self._is_over = True
            return ""


class CallWriter:
    """Writes the arguments of a call as they arrive, or the text inside them for a tool that takes free text."""

    def __init__(self, *, raw: bool) -> None:
        self._raw = RawInput() if raw else None
        self._pieces: list[str] = []

    def read(self, text: str) -> str:
        """The piece to write for a fragment of the JSON text."""
        piece = text if self._raw is None else self._raw.read(text)
        self._pieces.append(piece)
        return piece

    def rest(self, whole: str) -> str:
        """What is still to be written of the whole text."""
        written = "".join(self._pieces)
        return whole[len(written) :] if whole.startswith(written) else ""
