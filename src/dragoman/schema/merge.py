"""Merges the members of an `allOf` into one schema, for providers whose schema language has no `allOf`."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec

from dragoman.schema.traverse import CONSTRAINTS, as_list
from dragoman.types import JsonObject


class MergedSchema(msgspec.Struct, frozen=True):
    """The keywords of several schemas as one, and what the merge could not preserve."""

    keywords: JsonObject
    widened: list[tuple[str, str]]
    """`additionalProperties` or `items` that now apply to fewer values, each with the keyword that limits it."""
    lost: dict[str, list[Any]]
    """The values of a keyword that could not be merged into the first."""


def merge_schemas(schemas: list[JsonObject], /) -> MergedSchema:
    """A schema that a value satisfies if it satisfies all of these. The last annotation wins.

    >>> merge_schemas([{"minimum": 1, "title": "a"}, {"minimum": 2, "title": "b"}]).keywords
    {'minimum': 2, 'title': 'b'}
    """
    values: dict[str, list[Any]] = {}
    for schema in schemas:
        for keyword, value in schema.items():
            values.setdefault(keyword, []).append(value)
    lost: dict[str, list[Any]] = {}
    keywords = {keyword: _merge_values(keyword, items, lost) for keyword, items in values.items()}
    return MergedSchema(keywords, _widened(schemas), lost)


def _widened(schemas: list[JsonObject]) -> list[tuple[str, str]]:
    conflicts: list[tuple[str, str]] = []
    for keyword, named in (("additionalProperties", "properties"), ("items", "prefixItems")):
        limited = [schema for schema in schemas if schema.get(keyword, True) is not True]
        if any(named in schema for schema in schemas if limited and schema is not limited[0]):
            conflicts.append((keyword, named))
    return conflicts


def _merge_values(keyword: str, values: list[Any], lost: dict[str, list[Any]]) -> Any:
    if keyword not in CONSTRAINTS or all(value == values[0] for value in values):
        return values[-1]
    try:
        return _MERGES[keyword](values)
    except (KeyError, TypeError, ValueError):
        lost[keyword] = values[1:]
        return values[0]


def _merge_named(values: list[JsonObject]) -> JsonObject:
    items: dict[str, list[Any]] = {}
    for value in values:
        for name, item in {**value}.items():
            items.setdefault(name, []).append(item)
    return {name: _all_of(schemas) for name, schemas in items.items()}


def _all_of(schemas: list[Any]) -> Any:
    if any(schema is False for schema in schemas):
        return False
    if all(schema == schemas[0] for schema in schemas):
        return schemas[0]
    return {"allOf": [schema for schema in schemas if schema is not True]}


def _common_types(values: list[Any]) -> Any:
    sets = [{*as_list(value), *(["integer"] if "number" in as_list(value) else [])} for value in values]
    names = dict.fromkeys(chain(*map(as_list, values)))
    return one_or_list([name for name in names if all(name in types for types in sets)])


def _common_values(values: list[list[Any]]) -> list[Any]:
    sets = [{msgspec.json.encode(item) for item in value} for value in values]
    return as_list(one_or_list([item for item in values[0] if all(msgspec.json.encode(item) in one for one in sets)]))


def one_or_list(values: list[Any], /) -> Any:
    """The only value, or the list of them; ValueError if the list is empty."""
    if not values:
        raise ValueError("nothing in common")
    return values[0] if len(values) == 1 else values


_MERGES: dict[str, Callable[[list[Any]], Any]] = {
    "allOf": lambda values: [*chain(*values)],
    "required": lambda values: [*dict.fromkeys(chain(*values))],
    "type": _common_types,
    "enum": _common_values,
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _merge_named),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _all_of),
    **dict.fromkeys("minimum exclusiveMinimum minLength minItems minProperties minContains".split(), max),
    **dict.fromkeys("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains".split(), min),
}
