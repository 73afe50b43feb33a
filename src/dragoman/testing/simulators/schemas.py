"""The subsets of JSON Schema that providers accept, as tables of keywords."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.schema.traverse import subschemas
from dragoman.types import JsonObject, is_list, is_object

_NOT_SIMPLE = re.compile(r"\(\?[=!<]|\\[1-9bB]")


class SchemaSubset(NamedTuple):
    """What one provider accepts."""

    keywords: frozenset[str]
    unknown: str
    """The message for another keyword; it may name `type` and `keyword`."""
    closed: str = ""
    """The message for an object without `additionalProperties: false`; "" if that is not required."""
    all_required: str = ""
    """The message for an optional property; "" if they are allowed."""


ANTHROPIC = SchemaSubset(
    frozenset(
        "type enum const anyOf allOf $ref $defs definitions default required properties items additionalProperties "
        "format minItems pattern title description $schema examples".split()
    ),
    unknown="For '{type}' type, property '{keyword}' is not supported",
    closed="For 'object' type, 'additionalProperties' must be explicitly set to false",
)
OPENAI_STRICT = SchemaSubset(
    frozenset(
        "type enum const anyOf $defs definitions $ref pattern format minimum maximum exclusiveMinimum exclusiveMaximum "
        "multipleOf minItems maxItems properties required additionalProperties items title description $schema".split()
    ),
    unknown="In context=(), '{keyword}' is not permitted.",
    closed="In context=(), 'additionalProperties' is required to be supplied and to be false.",
    all_required=(
        "In context=(), 'required' is required to be supplied and to be an array including every key in properties. "
        "Missing '{keyword}'."
    ),
)
GOOGLE_OPENAPI = SchemaSubset(
    frozenset(
        "type format title description nullable enum items minItems maxItems properties required propertyOrdering "
        "minProperties maxProperties minimum maximum minLength maxLength pattern anyOf default example".split()
    ),
    unknown="Unknown name \"{keyword}\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
)


def schema_problems(schema: JsonObject, subset: SchemaSubset, /) -> Iterator[str]:
    """What a provider refuses in a schema, in its own words.

    >>> next(schema_problems({"type": "integer", "minimum": 1}, ANTHROPIC))
    "For 'integer' type, property 'minimum' is not supported"
    """
    for node, _ in subschemas(schema):
        kind = node.get("type")
        name = kind[0] if is_list(kind) and kind else kind or "object"
        for keyword in sorted(node.keys() - subset.keywords):
            yield subset.unknown.format(type=name, keyword=keyword)
        if name == "object" and "properties" in node:
            if subset.closed and node.get("additionalProperties") is not False:
                yield subset.closed
            properties = node["properties"] if is_object(node["properties"]) else {}
            for property in properties.keys() - set(node.get("required") or ()) if subset.all_required else ():
                yield subset.all_required.format(keyword=property)
        pattern = node.get("pattern")
        if subset is ANTHROPIC and isinstance(pattern, str) and _NOT_SIMPLE.search(pattern):
            yield "For 'string' type, property 'pattern' is not supported: lookarounds and backreferences"
