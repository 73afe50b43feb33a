"""An answer to a tightened schema in, the same as the schema itself asks for it out: whole, or as far as it came."""

from copy import copy
from typing import Any

import msgspec

from dragoman.errors import OutputError
from dragoman.schema.adapt import as_list
from dragoman.schema.strict import WRAPPED, closed, followed, is_map, is_tuple, is_wrapped, item_name, takes_null
from dragoman.schema.validate import json_type, validate
from dragoman.types import JsonObject, is_list, is_object

NOTHING = msgspec.UNSET
"""What there is of a value of which nothing is certain yet."""
_FAR = 1000
_FEW = 10
_DEPTH = 2
"""How deep is looked whether a value may still become what an arm says."""


def loosen(value: Any, schema: JsonObject, /) -> Any:
    """An answer to the tightened schema as an answer to the schema itself; what does not fit stays as it is.

    >>> loosen({"note": None}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {}
    """
    return Loosening(schema).whole(value)


class Loosening:
    """How answers to one tightened schema are made answers to the schema itself.

    Of a choice, an answer is the first arm whose tightened schema it satisfies; of an answer that is still growing,
    nothing is shown of which the arms that it may yet be would make different things.

    >>> choice = Loosening({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "object"}]})
    >>> choice.whole({"value": [{"key": "a", "value": 1}]}), choice.part({"value": []}), choice.part({"value": [1]})
    ({'a': 1}, UNSET, [1])
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._defined = {name: closed(one) for name, one in schema.get("$defs", {}).items()}
        self._sent: dict[int, JsonObject] = {}
        self._shown: dict[tuple[int, int], Any] = {}
        """What is shown of a value by a schema, so that many arms within many arms are each looked at once."""

    def whole(self, value: Any, /) -> Any:
        """A whole answer. OutputError where a map has two values for a key."""
        return self._loose(self._unwrapped(value), self._schema, is_open=False)

    def part(self, value: Any, /) -> Any:
        """An answer whose innermost last item may still grow; NOTHING where nothing of it is certain."""
        looking = copy(self)  # many threads may share the form of a type
        looking._shown = {}  # noqa: SLF001 - its own
        try:
            return looking._loose(self._unwrapped(value), self._schema, is_open=True)  # noqa: SLF001 - its own
        except OutputError:
            return NOTHING

    def _unwrapped(self, value: Any) -> Any:
        is_inside = is_wrapped(self._schema) and is_object(value) and value.keys() == {WRAPPED}
        return value[WRAPPED] if is_inside else value

    def _loose(self, value: Any, schema: Any, *, is_open: bool) -> Any:
        schema = followed(schema, self._schema)
        arms = [followed(arm, self._schema) for arm in as_list(schema.get("anyOf", schema.get("oneOf", [])))]
        if not is_list(value) and not is_object(value):
            return value
        if arms and is_open:
            place = id(value), id(schema)
            if place not in self._shown:
                self._shown[place] = self._agreed(value, arms)
            return self._shown[place]
        if arms:
            return self._loose(value, self._arm(value, arms), is_open=False)
        if is_map(schema):
            pairs = _pairs(value)
            if pairs is None:
                return value
            values = schema.get("additionalProperties", {})
            return self._named(pairs, dict.fromkeys(pairs, values), is_open=is_open)
        if is_tuple(schema) and is_object(value):
            value = [value[item_name(index)] for index in range(len(value)) if item_name(index) in value]
        if is_list(value):
            return self._listed(value, schema, is_open=is_open)
        properties = schema.get("properties")
        if not is_object(value) or not is_object(properties):
            return value
        needed = as_list(schema.get("required", []))
        kept = {
            key: item
            for key, item in value.items()
            if item is not None or key in needed or key not in properties or self._takes_null(properties[key])
        }
        return self._named(kept, properties, is_open=is_open and [*kept][-1:] == [*value][-1:])

    def _named(self, items: JsonObject, schemas: JsonObject, *, is_open: bool) -> JsonObject:
        last = [*items][-1] if is_open and items else None
        made = {
            key: self._loose(item, schemas.get(key, {}), is_open=is_open and key == last) for key, item in items.items()
        }
        return {key: item for key, item in made.items() if item is not NOTHING}

    def _listed(self, items: list[Any], schema: JsonObject, *, is_open: bool) -> list[Any]:
        first, rest = as_list(schema.get("prefixItems", [])), schema.get("items", {})
        last = len(items) - 1
        made = (
            self._loose(item, first[index] if index < len(first) else rest, is_open=is_open and index == last)
            for index, item in enumerate(items)
        )
        return [item for item in made if item is not NOTHING]

    def _takes_null(self, schema: Any) -> bool:
        return takes_null(followed(schema, self._schema))

    # Choices ----------------------------------------------------------------------------------------------------------

    def _arm(self, value: Any, arms: list[JsonObject]) -> JsonObject:
        """The arm that a whole value is of: as it was sent, else as the type itself says it, else the nearest."""
        likely = [arm for arm in arms if _may_be(value, self._as_sent(arm), self._as_sent(arm), _DEPTH)] or arms
        if len(likely) == 1:
            return likely[0]
        for arm in likely:
            if not validate(value, self._as_sent(arm)):
                return arm
        for arm in arms:
            if not validate(value, {**arm, "$defs": self._schema.get("$defs", {})}):
                return arm
        return min(likely, key=lambda arm: _distance(value, arm))

    def _agreed(self, value: Any, arms: list[JsonObject]) -> Any:
        """What all arms that the value may yet become would make of it; NOTHING where they disagree."""
        likely = [arm for arm in arms if _may_be(value, self._as_sent(arm), self._as_sent(arm), _DEPTH)]
        made = [self._loose(value, arm, is_open=True) for arm in likely]
        return made[0] if made and all(one == made[0] for one in made) else NOTHING

    def _as_sent(self, arm: JsonObject) -> JsonObject:
        """What a model was told of an arm, with all definitions."""
        if id(arm) not in self._sent:
            self._sent[id(arm)] = {**closed(arm), "$defs": self._defined}
        return self._sent[id(arm)]


def _pairs(value: Any) -> JsonObject | None:
    """The entries of a map, as a map; as they are where they came as one, None where they are none."""
    if is_object(value):
        return value
    if not all(is_object(item) and item.keys() == {"key", "value"} for item in value):
        return None
    made: JsonObject = {}
    for item in value:
        key = item["key"] if isinstance(item["key"], str) else str(item["key"])
        if key in made and made[key] != item["value"]:
            why = f"the key {key!r} has two values; give it one"
            raise OutputError(why, reasons=(why,))
        made[key] = item["value"]
    return made


def _may_be(value: Any, schema: Any, root: JsonObject, depth: int) -> bool:
    """Whether a value, or what it grows into, may satisfy a tightened schema, as far as can be seen at a glance."""
    schema = followed(schema, root)
    arms = as_list(schema.get("anyOf", schema.get("oneOf", [])))
    if arms:
        return any(_may_be(value, arm, root, depth) for arm in arms)
    kind, kinds = json_type(value), as_list(schema.get("type", []))
    if kinds and kind not in kinds and not (kind in ("integer", "number") and "number" in kinds):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if depth == 0:
        return True
    if is_list(value):
        return all(_may_be(item, schema.get("items", {}), root, depth - 1) for item in value[:_FEW])
    properties = schema.get("properties")
    if not is_object(value) or not is_object(properties):
        return True
    return all(key in properties and _may_be(item, properties[key], root, depth - 1) for key, item in value.items())


def _distance(value: Any, arm: JsonObject) -> int:
    """How far a value is from an arm that it does not satisfy: 0 is near, more is less so."""
    types = as_list(arm.get("type", []))
    if is_map(arm) or is_tuple(arm):
        return 0
    if types and json_type(value) not in types:
        return _FAR
    properties = arm.get("properties")
    if not is_object(value) or not is_object(properties):
        return 0
    wrong: int = sum(
        "const" in known and value.get(key) != known["const"] for key, known in properties.items() if is_object(known)
    )
    missing = sum(key not in value for key in as_list(arm.get("required", [])))
    return 100 * wrong + len(value.keys() - properties.keys()) + missing
