"""A JSON Schema in, the same in the form that every provider can enforce out.

Every property is required, every object closed. What was not required may be null, and null is then left out; a map is
a list of its entries, a tuple an object of its items; a root that is no object is put into one.
"""

from typing import Any

from msgspec.structs import replace

from dragoman.schema.adapt import as_list, fit, map_children
from dragoman.schema.validate import STRICT
from dragoman.types import JsonObject, is_object

WRAPPED = "value"
"""The only property of an object that holds a root which is none."""
_TOLD = replace(STRICT, describe=True)
_NOISE = frozenset({"title", "default", "discriminator"})
_NULL: JsonObject = {"type": "null"}


def close(schema: JsonObject, /) -> JsonObject:
    """The schema with every property required, every object closed, and an object at its root.

    >>> close({"type": "string", "minLength": 2})["properties"]
    {'value': {'type': 'string', 'minLength': 2}}
    """
    return wrap(closed(schema)) if is_wrapped(schema) else closed(schema)


def closed(schema: JsonObject, /) -> JsonObject:
    """The same of any schema, whatever is at its root.

    >>> closed({"type": "object", "properties": {}})
    {'type': 'object', 'properties': {}, 'required': [], 'additionalProperties': False}
    """
    made: JsonObject = _closed(schema, "")
    return made


def wrap(schema: JsonObject, /) -> JsonObject:
    """An object that has the schema as its only property.

    >>> wrap({"type": "string"})["properties"]
    {'value': {'type': 'string'}}
    """
    inner = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    defined = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {**_object({WRAPPED: inner}), **defined}


def tighten(schema: JsonObject, /) -> JsonObject:
    """The schema as OpenAI's strict mode takes it; what that cannot say is told in descriptions.

    >>> tight = tighten({"type": "object", "properties": {"note": {"type": "string"}}})
    >>> tight["properties"], tight["required"], tight["additionalProperties"]
    ({'note': {'type': ['string', 'null']}}, ['note'], False)
    """
    return fit(close(schema), _TOLD, where="schema")[0]


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
    if is_tuple(schema):
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


def is_tuple(schema: JsonObject, /) -> bool:
    """Whether a schema is of lists whose every item has a type of its own.

    >>> is_tuple({"type": "array", "prefixItems": [{"type": "string"}], "items": False})
    True
    """
    first = as_list(schema.get("prefixItems", []))
    return bool(first) and (schema.get("items") is False or schema.get("maxItems") == len(first))


def _items(own: JsonObject) -> JsonObject:
    """A tuple as an object: few providers tell one item of a list from another."""
    items = {item_name(index): _closed(item, "") for index, item in enumerate(own["prefixItems"])}
    described = {"description": own["description"]} if "description" in own else {}
    types = ["object" if one == "array" else one for one in as_list(own["type"])]
    return {**_object(items), "type": types[0] if len(types) == 1 else types, **described}


def item_name(index: int, /) -> str:
    """What the item of a tuple is called in the object that stands for it.

    >>> item_name(0)
    'item_1'
    """
    return f"item_{index + 1}"


def takes_null(schema: Any, /) -> bool:
    """Whether null satisfies a schema, as far as it says so itself.

    >>> takes_null({"type": ["string", "null"]}), takes_null({"type": "string"})
    (True, False)
    """
    if not is_object(schema):
        return True
    if "enum" in schema:
        return None in as_list(schema["enum"])
    arms = [*as_list(schema.get("anyOf", [])), *as_list(schema.get("oneOf", []))]
    if arms:
        return any(map(takes_null, arms))
    return "null" in as_list(schema["type"]) if "type" in schema else not schema.keys() & {"$ref", "const", "allOf"}


def _nullable(schema: Any) -> Any:
    if takes_null(schema):
        return schema
    if isinstance(schema.get("type"), str) and not schema.keys() & {"enum", "const"}:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, _NULL]}


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
