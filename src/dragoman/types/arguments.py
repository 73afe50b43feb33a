"""The arguments of tool calls as JSON text, and back."""

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types.base import JsonObject
from dragoman.types.json_size import find_excess
from dragoman.types.parts import ToolCall

MAX_KEYS = 20_000
"""Keys, objects and lists in one text of arguments: the decoder lets no other thread run."""
MAX_VALUES = 200_000
_MAX_DEPTH = 1000
"""The decoder refuses more by itself."""


def parse_arguments(text: str, /) -> JsonObject | None:
    """The arguments of a call: {} for an empty text and `null`, None if the text is not a JSON object or too large.

    >>> parse_arguments('{"port": "Brest"}'), parse_arguments(""), parse_arguments("[1]")
    ({'port': 'Brest'}, {}, None)
    """
    # Llama models at some servers write null if a tool takes no arguments (seen 2026-08).
    if text.strip() in ("", "null"):
        return {}
    inner = _unquoted(text)
    if _find_excess(inner) is not None:
        return None
    try:
        return _OBJECT.decode(inner)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _unquoted(text: str) -> str:
    """The text itself, or the text in a JSON string: some servers encode arguments twice (reported, 2026-05)."""
    if not _is_quoted(text):
        return text
    try:
        return _STRING.decode(text)
    except msgspec.MsgspecError:
        return text


def _is_quoted(text: str) -> bool:
    return text.lstrip()[:1] == '"'


def _find_excess(text: str) -> str | None:
    """What the text has too much of; a short text is never too large."""
    if len(text) <= MAX_KEYS:
        return None
    data = text.encode("utf-8", "replace")
    return find_excess(data, depth=_MAX_DEPTH, objects=MAX_KEYS, keys=MAX_KEYS, values=MAX_VALUES)


def raw_arguments(text: str, arguments: JsonObject, /) -> str | None:
    """The provider's text of some arguments; None if it is the same as ours.

    >>> raw_arguments('{"a": 1}', {"a": 1}), raw_arguments('{"a":1}', {"a": 1})
    ('{"a": 1}', None)
    """
    return None if not text.strip() or text.encode() == msgspec.json.encode(arguments) else text


MALFORMED = "malformed_arguments"
"""The argument that holds the text of malformed arguments."""


def parse_history_arguments(text: str, /) -> tuple[JsonObject, str | None]:
    """The arguments of a call in a history, and their text if it differs from ours.

    Malformed arguments stay text, so that the model sees its own mistake. Arguments that exceed a limit are refused.

    >>> parse_history_arguments('{"a": 1}'), parse_history_arguments("{a")
    (({'a': 1}, '{"a": 1}'), ({'malformed_arguments': '{a'}, '{a'))
    """
    arguments = parse_arguments(text)
    if arguments is None and (excess := _find_excess(_unquoted(text))) is not None:
        raise InvalidRequest(f"the text of a tool call's arguments {excess}; send fewer", param="arguments")
    return ({MALFORMED: text}, text) if arguments is None else (arguments, raw_arguments(text, arguments))


def arguments_text(call: ToolCall, /, *, to_provider: bool = False) -> str:
    """The JSON text of a call's arguments: the provider's own if it has the same value.

    A text that the provider encoded twice goes only back to the provider: others decode arguments once.

    >>> arguments_text(ToolCall(id="call_1", name="tide", arguments={"a": 1}, raw='{"a": 1}'))
    '{"a": 1}'
    """
    raw = call.raw
    if raw is not None and (to_provider or not _is_quoted(raw)) and parse_history_arguments(raw)[0] == call.arguments:
        return raw
    try:
        return msgspec.json.encode(call.arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"arguments of tool call {call.id} ({call.name}) must be JSON: {error}") from error


_OBJECT = msgspec.json.Decoder(JsonObject)
_STRING = msgspec.json.Decoder(str)
