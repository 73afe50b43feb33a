"""The instruction that asks for JSON in the prompt, for targets that cannot enforce it."""

from dragoman.types import JsonObject
from dragoman.wires.common.json import encode_json

_JSON_ONLY = "Answer with one JSON value and nothing else: no prose, no code fence."


def json_instruction(schema: JsonObject | None = None, /) -> str:
    """The text that asks for one JSON value, and for one that satisfies `schema` if there is one.

    >>> json_instruction({"type": "integer"})[70:]
    'It must satisfy this JSON Schema: {"type":"integer"}'
    """
    return f"{_JSON_ONLY} It must satisfy this JSON Schema: {encode_json(schema).decode()}" if schema else _JSON_ONLY
