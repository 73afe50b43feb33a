"""The instruction that asks for JSON in the prompt, for targets that cannot enforce it."""

import msgspec

from dragoman.types import JsonObject, is_object
from dragoman.wires.common.json import encode_json

_JSON_ONLY = "Answer with one JSON value and nothing else: no prose, no code fence."
_WITH_SCHEMA = f"{_JSON_ONLY} It must satisfy this JSON Schema: "
_SCHEMA = msgspec.json.Decoder()


def json_instruction(schema: JsonObject | None = None, /) -> str:
    """The text that asks for one JSON value, and for one that satisfies `schema` if there is one.

    >>> json_instruction({"type": "integer"})[70:]
    'It must satisfy this JSON Schema: {"type":"integer"}'
    """
    return _WITH_SCHEMA + encode_json(schema).decode() if schema else _JSON_ONLY


def split_json_instruction(text: str, /) -> tuple[str | None, JsonObject | None]:
    """A prompt without the instruction in its last paragraph, and the schema of that instruction.

    >>> split_json_instruction("Be brief.\\n\\n" + json_instruction({"type": "integer"}))
    ('Be brief.', {'type': 'integer'})
    """
    before, gap, last = text.rpartition("\n\n")
    prompt = before if gap else None
    if last == _JSON_ONLY:
        return prompt, {}
    if not last.startswith(_WITH_SCHEMA):
        return text, None
    try:
        schema = _SCHEMA.decode(last.removeprefix(_WITH_SCHEMA))
    except msgspec.DecodeError:
        return text, None
    return (prompt, schema) if is_object(schema) else (text, None)
