"""A value and a JSON Schema in, the reasons why they do not fit out; a schema in, whether strict mode takes it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.errors import InvalidRequest, RequestError
from dragoman.schema.adapt import SchemaDialect, as_list, fit, subschemas
from dragoman.types import JsonObject, is_list, is_object

MAX_REASONS = 100
"""How many reasons `validate` gives at most."""
_MAX_WORDS = 500
_JSON_TYPES = {
    "str": "string",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "NoneType": "null",
    "list": "array",
    "dict": "object",
}
_SAYS_TYPE = frozenset({"type", "anyOf", "$ref"})
STRICT = SchemaDialect(
    name="openai",
    keywords=frozenset(
        "$schema $defs definitions $ref type title description enum const anyOf properties required "
        "additionalProperties items pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
        "minItems maxItems".split()
    ),
    formats=frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split()),
    simple_patterns=True,
    lone_refs=True,
    closed=True,
)


def is_strict(schema: JsonObject, /) -> bool:
    """Whether OpenAI's strict mode takes the schema as it is.

    >>> is_strict({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    False
    """
    try:
        _, notices = fit(schema, STRICT, where="schema")
    except RequestError:
        return False
    if notices or schema.get("type") != "object" or "anyOf" in schema:
        return False
    names: list[Any] = []
    choices: list[Any] = []
    for node, level in subschemas(schema):
        properties, required = node.get("properties", {}), node.get("required", [])
        if level > 10 or not _SAYS_TYPE & node.keys() or not is_object(properties) or not is_list(required):
            return False
        if not properties.keys() <= set(map(str, required)):
            return False
        names += properties
        choices += as_list(node.get("enum", []))
    return len(names) <= 5_000 and len(choices) <= 1_000 and sum(len(str(word)) for word in names + choices) <= 120_000


def validate(value: object, schema: JsonObject, /) -> tuple[str, ...]:
    """Why the value does not satisfy the schema, each reason with its place; nothing is fetched for a `$ref`.

    >>> validate({"ages": ["x"]}, {"properties": {"ages": {"items": {"type": "integer"}}}})
    ('$.ages[0]: "x" is not of type "integer"',)
    """
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse)
    except ValueError as error:
        raise InvalidRequest(f"schema: not a valid JSON Schema: {_first_line(error)}") from error
    try:
        errors = [error for error, _ in zip(validator.iter_errors(value), range(MAX_REASONS), strict=False)]
    except ValueError as error:
        return (f"$: {_first_line(error)}",)
    return tuple(f"{place(error.instance_path)}: {shortened(error.message, _MAX_WORDS)}" for error in errors)


def json_type(value: object, /) -> str:
    """What JSON Schema calls the type of a value; empty where it is none of JSON's.

    >>> json_type(4.2), json_type(b"")
    ('number', '')
    """
    return _JSON_TYPES.get(type(value).__name__, "")


def place(path: Iterable[str | int], /) -> str:
    """Where something stands in a JSON value.

    >>> place(["ages", 0, "in years"])
    '$.ages[0]["in years"]'
    """
    return "$" + "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{msgspec.json.encode(step).decode()}]"
        for step in path
    )


def why_invalid(schema: JsonObject, /) -> str | None:
    """Why something is not a JSON Schema of draft 2020-12; None where it is one. Nothing is fetched for a `$ref`.

    >>> why_invalid({"required": 3})
    'required: 3 is not of type "array"'
    """
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
    except ValueError as error:
        path = getattr(error, "instance_path", None)
        where = place(path).lstrip("$.") if path else ""
        return f"{where}: {_first_line(error)}" if where else _first_line(error)
    return None


def _refuse(uri: str, /) -> JsonObject:
    raise ValueError(f"{uri} is not in the schema, and nothing is fetched; put it in $defs")


def _first_line(error: ValueError) -> str:
    return shortened(str(error).partition("\n")[0], _MAX_WORDS)


def shortened(text: str, most: int, /) -> str:
    """A text, or its two ends where it is longer than it may be.

    >>> shortened("abcdefgh", 4)
    'ab … gh'
    """
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"
