"""Converts answers to a strict schema back to what the original schema describes.

This undoes `strict`: nulls of optional properties are dropped, entries become maps, objects become tuples, the wrapper
is removed. It works for whole answers and for answers that are still being streamed.
"""

from copy import copy
from typing import Any

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.strict import (
    WRAPPER_KEY,
    close,
    is_map,
    is_tuple,
    item_name,
    needs_wrapper,
    resolve_ref,
    takes_null,
)
from dragoman.schema.traverse import as_list, json_type
from dragoman.schema.validate import validate
from dragoman.types import JsonObject, is_list, is_object

NO_VALUE = msgspec.UNSET
"""The value so far, if nothing of it is certain yet."""
_WRONG_TYPE = 1000
_MAX_CHECKED_ITEMS = 10
_CHECK_DEPTH = 2
"""Levels of a value that are compared with an arm of a choice."""


def from_strict(value: Any, schema: JsonObject, /) -> Any:
    """An answer to the strict schema as an answer to the schema itself; values that do not match stay unchanged.

    >>> from_strict({"note": None}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {}
    """
    return StrictConverter(schema).convert(value)


class StrictConverter:
    """Converts answers to the strict form of one schema.

    If the schema is a choice, the answer belongs to the first arm whose strict schema it satisfies. While an answer is
    streamed, a value is shown only if all arms that it can still become agree on it.

    >>> choice = StrictConverter({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "object"}]})
    >>> choice.convert({"value": [{"key": "a", "value": 1}]})
    {'a': 1}
    >>> choice.convert_partial({"value": []}), choice.convert_partial({"value": [1]})
    (UNSET, [1])
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._closed_definitions = {name: close(one) for name, one in schema.get("$defs", {}).items()}
        self._strict_arms: dict[int, JsonObject] = {}
        self._partial_results: dict[tuple[int, int], Any] = {}
        """Results by value and schema, so that choices within choices are each evaluated once."""

    def convert(self, value: Any, /) -> Any:
        """Convert a whole answer; OutputError if a map has two values for one key."""
        return self._convert(self._unwrap(value), self._schema, is_open=False)

    def convert_partial(self, value: Any, /) -> Any:
        """Convert an answer whose innermost last item is incomplete; NO_VALUE if nothing of it is certain."""
        run = copy(self)  # threads may share this converter
        run._partial_results = {}  # noqa: SLF001 - its own
        try:
            return run._convert(self._unwrap(value), self._schema, is_open=True)  # noqa: SLF001 - its own
        except OutputError:
            return NO_VALUE

    def _unwrap(self, value: Any) -> Any:
        is_wrapped = needs_wrapper(self._schema) and is_object(value) and value.keys() == {WRAPPER_KEY}
        return value[WRAPPER_KEY] if is_wrapped else value

    def _convert(self, value: Any, schema: Any, *, is_open: bool) -> Any:
        schema = resolve_ref(schema, self._schema)
        arms = [resolve_ref(arm, self._schema) for arm in as_list(schema.get("anyOf", schema.get("oneOf", [])))]
        if not is_list(value) and not is_object(value):
            return value
        if arms and is_open:
            key = id(value), id(schema)
            if key not in self._partial_results:
                self._partial_results[key] = self._common_result(value, arms)
            return self._partial_results[key]
        if arms:
            return self._convert(value, self._matching_arm(value, arms), is_open=False)
        if is_map(schema):
            entries = _entries(value)
            if entries is None:
                return value
            values = schema.get("additionalProperties", {})
            return self._convert_object(entries, dict.fromkeys(entries, values), is_open=is_open)
        if is_tuple(schema) and is_object(value):
            value = [value[item_name(index)] for index in range(len(value)) if item_name(index) in value]
        if is_list(value):
            return self._convert_list(value, schema, is_open=is_open)
        properties = schema.get("properties")
        if not is_object(value) or not is_object(properties):
            return value
        required = as_list(schema.get("required", []))
        items = {
            key: item
            for key, item in value.items()
            if item is not None or key in required or key not in properties or self._takes_null(properties[key])
        }
        return self._convert_object(items, properties, is_open=is_open and [*items][-1:] == [*value][-1:])

    def _convert_object(self, items: JsonObject, schemas: JsonObject, *, is_open: bool) -> JsonObject:
        last = [*items][-1] if is_open and items else None
        converted = {
            key: self._convert(item, schemas.get(key, {}), is_open=is_open and key == last)
            for key, item in items.items()
        }
        return {key: item for key, item in converted.items() if item is not NO_VALUE}

    def _convert_list(self, items: list[Any], schema: JsonObject, *, is_open: bool) -> list[Any]:
        first, rest = as_list(schema.get("prefixItems", [])), schema.get("items", {})
        last = len(items) - 1
        converted = (
            self._convert(item, first[index] if index < len(first) else rest, is_open=is_open and index == last)
            for index, item in enumerate(items)
        )
        return [item for item in converted if item is not NO_VALUE]

    def _takes_null(self, schema: Any) -> bool:
        return takes_null(resolve_ref(schema, self._schema))

    # Choices ----------------------------------------------------------------------------------------------------------

    def _matching_arm(self, value: Any, arms: list[JsonObject]) -> JsonObject:
        """The arm of a whole value: the first whose strict or original schema it satisfies, else the nearest."""
        likely = [arm for arm in arms if self._may_become(value, arm)] or arms
        if len(likely) == 1:
            return likely[0]
        for arm in likely:
            if not validate(value, self._strict_arm(arm)):
                return arm
        for arm in arms:
            if not validate(value, {**arm, "$defs": self._schema.get("$defs", {})}):
                return arm
        return min(likely, key=lambda arm: _distance(value, arm))

    def _common_result(self, value: Any, arms: list[JsonObject]) -> Any:
        """The result that all arms give that the value can still become; NO_VALUE if they differ."""
        likely = [arm for arm in arms if self._may_become(value, arm)]
        results = [self._convert(value, arm, is_open=True) for arm in likely]
        return results[0] if results and all(one == results[0] for one in results) else NO_VALUE

    def _may_become(self, value: Any, arm: JsonObject) -> bool:
        strict = self._strict_arm(arm)
        return _may_satisfy(value, strict, strict, _CHECK_DEPTH)

    def _strict_arm(self, arm: JsonObject) -> JsonObject:
        if id(arm) not in self._strict_arms:
            self._strict_arms[id(arm)] = {**close(arm), "$defs": self._closed_definitions}
        return self._strict_arms[id(arm)]


def _entries(value: Any) -> JsonObject | None:
    """A list of entries as a map; a map unchanged; None for anything else."""
    if is_object(value):
        return value
    if not all(is_object(item) and item.keys() == {"key", "value"} for item in value):
        return None
    entries: JsonObject = {}
    for item in value:
        key = item["key"] if isinstance(item["key"], str) else str(item["key"])
        if key in entries and entries[key] != item["value"]:
            why = f"the key {key!r} has two values; give it one"
            raise OutputError(why, reasons=(why,))
        entries[key] = item["value"]
    return entries


def _may_satisfy(value: Any, schema: Any, root: JsonObject, depth: int) -> bool:
    """Whether a value, or what it grows into, may satisfy a strict schema; only the upper levels are checked."""
    schema = resolve_ref(schema, root)
    arms = as_list(schema.get("anyOf", schema.get("oneOf", [])))
    if arms:
        return any(_may_satisfy(value, arm, root, depth) for arm in arms)
    kind, kinds = json_type(value), as_list(schema.get("type", []))
    if kinds and kind not in kinds and not (kind in ("integer", "number") and "number" in kinds):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if depth == 0:
        return True
    if is_list(value):
        items = schema.get("items", {})
        return all(_may_satisfy(item, items, root, depth - 1) for item in value[:_MAX_CHECKED_ITEMS])
    properties = schema.get("properties")
    if not is_object(value) or not is_object(properties):
        return True
    return all(
        key in properties and _may_satisfy(item, properties[key], root, depth - 1) for key, item in value.items()
    )


def _distance(value: Any, arm: JsonObject) -> int:
    """How badly a value matches an arm that it does not satisfy; 0 is best."""
    types = as_list(arm.get("type", []))
    if is_map(arm) or is_tuple(arm):
        return 0
    if types and json_type(value) not in types:
        return _WRONG_TYPE
    properties = arm.get("properties")
    if not is_object(value) or not is_object(properties):
        return 0
    wrong: int = sum(
        "const" in known and value.get(key) != known["const"] for key, known in properties.items() if is_object(known)
    )
    missing = sum(key not in value for key in as_list(arm.get("required", [])))
    return 100 * wrong + len(value.keys() - properties.keys()) + missing
