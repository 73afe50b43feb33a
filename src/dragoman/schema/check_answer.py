"""Check the text of an answer against its schema."""

from typing import Any

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.find_json import find_json
from dragoman.schema.validate import validate
from dragoman.types import JsonObject


def check_answer(text: str, schema: JsonObject | None, /) -> Any:
    """The JSON value of an answer; OutputError if it does not match the schema, None without a schema.

    >>> check_answer('{"a": 1}', {"properties": {"a": {"type": "integer"}}})
    {'a': 1}
    """
    if schema is None:
        return None
    try:
        value = find_json(text)[0]
        reasons = validate(value, schema)
    except (msgspec.DecodeError, RecursionError) as error:
        value, reasons = None, (f"$: not JSON: {error}",)
    if reasons:
        raise OutputError(f"the answer does not match its schema: {'; '.join(reasons)}", text=text, reasons=reasons)
    return value
