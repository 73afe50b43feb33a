"""A JSON Schema in, the same in the form that every provider can enforce out; an answer to that form in, out as asked.

Every property is required, every object closed. What was not required may be null, and null is then left out; a map is
a list of its entries, a tuple an object of its items; a root that is no object is put into one.
"""

from typing import Any

from msgspec.structs import replace

from dragoman.fitting import as_list, fit, map_children
from dragoman.schema import STRICT
from dragoman.types import JsonObject, is_list, is_object

WRAPPED = "value"
"""The only property of an object that holds a root which is none."""
_TOLD = replace(STRICT, describe=True)
_NOISE = frozenset({"title", "default", "discriminator"})
_NULL: JsonObject = {"type": "null"}
_JSON_TYPES = {
    "str": "string",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "NoneType": "null",
    "list": "array",
}


def close(schema: JsonObject, /) -> JsonObject:
    """The schema with every property required, every object closed, and an object at its root.

    >>> close({"type": "string", "minLength": 2})["properties"]
    {'value': {'type': 'string', 'minLength': 2}}
    """
    closed: JsonObject = _closed(schema, "")
    if not is_wrapped(schema):
        return closed
    defined = {"$defs": closed.pop("$defs")} if "$defs" in closed else {}
    return {**_object({WRAPPED: closed}), **defined}


def tighten(schema: JsonObject, /) -> JsonObject:
    """The schema as OpenAI's strict mode takes it; what that cannot say is told in descriptions.

    >>> tight = tighten({"type": "object", "properties": {"note": {"type": "string"}}})
    >>> tight["properties"], tight["required"], tight["additionalProperties"]
    ({'note': {'type': ['string', 'null']}}, ['note'], False)
    """
    return fit(close(schema), _TOLD, where="schema")[0]


def loosen(value: Any, schema: JsonObject, /) -> Any:
    """An answer to the tightened schema as an answer to the schema itself; what does not fit stays as it is.

    >>> loosen({"note": None}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {}
    """
    if is_wrapped(schema) and is_object(value) and value.keys() == {WRAPPED}:
        value = value[WRAPPED]
    return _loose(value, schema, schema)


def is_wrapped(schema: JsonObject, /) -> bool:
    """Whether a schema has to be put into an object, as its root is none.

    >>> is_wrapped({"type": "array"}), is_wrapped({"type": "object", "properties": {}})
    (True, False)
    """
    return schema.get("type") != "object" or is_map(schema) or "anyOf" in schema


def is_map(schema: JsonObject, /) -> bool:
    """Whether a schema is of objects whose keys are not known.

    >>> is_map({"type": "object", "additionalProperties": {"type": "integer"}})
    True
    """
    is_open = schema.get("additionalProperties", True) is not False
    return "object" in as_list(schema.get("type")) and "properties" not in schema and is_open


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _closed(schema: Any, _step: str) -> Any:
    if not is_object(schema):
        return schema
    own = {keyword: value for keyword, value in schema.items() if keyword not in _NOISE}
    if is_map(schema):
        return _entries(own)
    if _is_tuple(schema):
        return _items(own)
    closed = {keyword: map_children(keyword, value, _closed) for keyword, value in own.items()}
    if is_object(closed.get("properties")):
        needed = as_list(schema.get("required", []))
        closed["properties"] = {
            name: item if name in needed else _nullable(item) for name, item in closed["properties"].items()
        }
        closed |= {"required": [*closed["properties"]], "additionalProperties": False}
    return closed


def _entries(own: JsonObject) -> JsonObject:
    """A map as a list: strict modes know objects only whose keys are told."""
    keys, values = own.pop("propertyNames", {}), own.pop("additionalProperties", {})
    entry = _object(
        {"key": {"type": "string", **_closed(keys, "")}, "value": _closed(values, "") if is_object(values) else {}}
    )
    types = ["array" if one == "object" else one for one in as_list(own["type"])]
    sizes = {"minProperties": "minItems", "maxProperties": "maxItems"}
    kept = {sizes.get(keyword, keyword): value for keyword, value in own.items() if keyword != "type"}
    return {"type": types[0] if len(types) == 1 else types, "items": entry, **kept}


def _is_tuple(schema: JsonObject) -> bool:
    """Whether a schema is of lists whose every item has a type of its own."""
    first = as_list(schema.get("prefixItems", []))
    return bool(first) and (schema.get("items") is False or schema.get("maxItems") == len(first))


def _items(own: JsonObject) -> JsonObject:
    """A tuple as an object: few providers tell one item of a list from another."""
    items = {_item(index): _closed(item, "") for index, item in enumerate(own["prefixItems"])}
    described = {"description": own["description"]} if "description" in own else {}
    types = ["object" if one == "array" else one for one in as_list(own["type"])]
    return {**_object(items), "type": types[0] if len(types) == 1 else types, **described}


def _item(index: int) -> str:
    return f"item_{index + 1}"


def _takes_null(schema: Any) -> bool:
    if not is_object(schema):
        return True
    if "enum" in schema:
        return None in as_list(schema["enum"])
    arms = [*as_list(schema.get("anyOf", [])), *as_list(schema.get("oneOf", []))]
    if arms:
        return any(map(_takes_null, arms))
    return "null" in as_list(schema["type"]) if "type" in schema else not schema.keys() & {"$ref", "const", "allOf"}


def _nullable(schema: Any) -> Any:
    if _takes_null(schema):
        return schema
    if isinstance(schema.get("type"), str) and not schema.keys() & {"enum", "const"}:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, _NULL]}


def _loose(value: Any, schema: Any, root: JsonObject) -> Any:
    schema = followed(schema, root)
    arms = as_list(schema.get("anyOf", schema.get("oneOf", [])))
    if arms:
        return _loose(value, min((followed(arm, root) for arm in arms), key=lambda arm: _distance(value, arm)), root)
    if is_map(schema):
        pairs, values = _pairs(value), schema.get("additionalProperties", {})
        return value if pairs is None else {key: _loose(item, values, root) for key, item in pairs.items()}
    if _is_tuple(schema) and is_object(value):
        value = [value[_item(index)] for index in range(len(value)) if _item(index) in value]
    if is_list(value):
        first, rest = as_list(schema.get("prefixItems", [])), schema.get("items", {})
        return [_loose(item, first[index] if index < len(first) else rest, root) for index, item in enumerate(value)]
    properties = schema.get("properties")
    if not is_object(value) or not is_object(properties):
        return value
    needed = as_list(schema.get("required", []))
    return {
        key: _loose(item, properties.get(key, {}), root)
        for key, item in value.items()
        if item is not None or key in needed or key not in properties or _takes_null(followed(properties[key], root))
    }


def followed(schema: Any, root: JsonObject, /) -> JsonObject:
    """What a reference points to; a schema that is none as it is.

    >>> followed({"$ref": "#/$defs/A"}, {"$defs": {"A": {"type": "null"}}})
    {'type': 'null'}
    """
    seen: set[str] = set()
    while is_object(schema) and isinstance(ref := schema.get("$ref"), str) and ref not in seen:
        seen.add(ref)
        schema = root.get("$defs", {}).get(ref.rpartition("/")[2], {}) if ref != "#" else root
    return schema if is_object(schema) else {}


def _pairs(value: Any) -> JsonObject | None:
    """The entries of a map, as a map; as they are where they came as one, None where they are none."""
    if is_object(value):
        return value
    if not is_list(value) or not all(is_object(item) and item.keys() == {"key", "value"} for item in value):
        return None
    return {item["key"] if isinstance(item["key"], str) else str(item["key"]): item["value"] for item in value}


def _distance(value: Any, arm: JsonObject) -> int:
    """How far a value is from an arm, at first sight: 0 is near, more is less so."""
    types = as_list(arm.get("type", []))
    kind = _JSON_TYPES.get(type(value).__name__, "object")
    if is_map(arm) or _is_tuple(arm):
        return 0 if kind in ("object", "array") else 1000
    if types and kind not in types and not (kind == "integer" and "number" in types):
        return 1000
    properties = arm.get("properties")
    if not is_object(value) or not is_object(properties):
        return 0
    wrong: int = sum(
        "const" in known and value.get(key) != known["const"] for key, known in properties.items() if is_object(known)
    )
    missing = sum(key not in value for key in as_list(arm.get("required", [])))
    return 100 * wrong + len(value.keys() - properties.keys()) + missing
