"""Makes a JSON Schema strict: the form that every provider can enforce.

Every property is required and every object is closed. An optional property becomes nullable (`from_strict` in
`unstrict` drops the null again), a map becomes a list of entries, a tuple an object with one property per item. A root
that is not an object is wrapped in one.
"""

from typing import Any

from msgspec.structs import replace

from dragoman.errors import RequestError
from dragoman.schema.adapt import SchemaDialect, adapt
from dragoman.schema.traverse import as_list, map_children, subschemas
from dragoman.types import JsonObject, is_list, is_object

WRAPPER_KEY = "value"
"""The only property of the object around a root that is not an object."""
STRICT_DIALECT = SchemaDialect(
    name="openai",
    keywords=frozenset(
        "$schema $defs definitions $ref type title description enum const anyOf properties required "
        "additionalProperties items pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
        "minItems maxItems".split()
    ),
    formats=frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split()),
    simple_patterns=True,
    lone_refs=True,
    closed_objects=True,
)
_DESCRIBING_DIALECT = replace(STRICT_DIALECT, describe_dropped=True)
_TYPE_KEYWORDS = frozenset({"type", "anyOf", "$ref"})
_UNUSED = frozenset({"title", "default", "discriminator"})
_NULL: JsonObject = {"type": "null"}


def to_strict(schema: JsonObject, /) -> JsonObject:
    """The schema as OpenAI's strict mode takes it; constraints that strict mode lacks go into descriptions.

    >>> strict = to_strict({"type": "object", "properties": {"note": {"type": "string"}}})
    >>> strict["properties"], strict["required"], strict["additionalProperties"]
    ({'note': {'type': ['string', 'null']}}, ['note'], False)
    """
    return adapt(close_with_root(schema), _DESCRIBING_DIALECT, where="schema")[0]


def is_strict(schema: JsonObject, /) -> bool:
    """Whether OpenAI's strict mode takes the schema unchanged.

    >>> is_strict({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    False
    """
    try:
        _, notices = adapt(schema, STRICT_DIALECT, where="schema")
    except RequestError:
        return False
    if notices or schema.get("type") != "object" or "anyOf" in schema:
        return False
    names: list[Any] = []
    choices: list[Any] = []
    for node, level in subschemas(schema):
        properties, required = node.get("properties", {}), node.get("required", [])
        if level > 10 or not _TYPE_KEYWORDS & node.keys() or not is_object(properties) or not is_list(required):
            return False
        if not properties.keys() <= set(map(str, required)):
            return False
        names += properties
        choices += as_list(node.get("enum", []))
    return len(names) <= 5_000 and len(choices) <= 1_000 and sum(len(str(word)) for word in names + choices) <= 120_000


def close_with_root(schema: JsonObject, /) -> JsonObject:
    """The schema with every property required, every object closed, and an object at its root.

    >>> close_with_root({"type": "string", "minLength": 2})["properties"]
    {'value': {'type': 'string', 'minLength': 2}}
    """
    return wrap_root(close(schema)) if needs_wrapper(schema) else close(schema)


def close(schema: JsonObject, /) -> JsonObject:
    """The schema with every property required and every object closed; the root keeps its type.

    >>> close({"type": "object", "properties": {}})
    {'type': 'object', 'properties': {}, 'required': [], 'additionalProperties': False}
    """
    closed: JsonObject = _close(schema, "")
    return closed


def wrap_root(schema: JsonObject, /) -> JsonObject:
    """An object with the schema as its only property.

    >>> wrap_root({"type": "string"})["properties"]
    {'value': {'type': 'string'}}
    """
    inner = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    defined = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {**_object({WRAPPER_KEY: inner}), **defined}


def needs_wrapper(schema: JsonObject, /) -> bool:
    """Whether the root is not an object with known properties, so that it must be wrapped in one.

    >>> needs_wrapper({"type": "array"}), needs_wrapper({"type": "object", "properties": {}})
    (True, False)
    """
    return schema.get("type") != "object" or is_map(schema) or "anyOf" in schema


def is_map(schema: JsonObject, /) -> bool:
    """Whether a schema describes objects with arbitrary keys."""
    is_open = schema.get("additionalProperties", True) is not False
    return "object" in as_list(schema.get("type")) and "properties" not in schema and is_open


def is_tuple(schema: JsonObject, /) -> bool:
    """Whether a schema describes lists of fixed length, with a schema for each item."""
    items = as_list(schema.get("prefixItems", []))
    return bool(items) and (schema.get("items") is False or schema.get("maxItems") == len(items))


def item_name(index: int, /) -> str:
    """The property that holds an item of a tuple."""
    return f"item_{index + 1}"


def takes_null(schema: Any, /) -> bool:
    """Whether null satisfies a schema; a `$ref` is not followed.

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


def resolve_ref(schema: Any, root: JsonObject, /) -> JsonObject:
    """The schema that a `$ref` points to; a schema without one unchanged.

    >>> resolve_ref({"$ref": "#/$defs/A"}, {"$defs": {"A": {"type": "null"}}})
    {'type': 'null'}
    """
    seen: set[str] = set()
    while is_object(schema) and isinstance(ref := schema.get("$ref"), str) and ref not in seen:
        seen.add(ref)
        schema = root.get("$defs", {}).get(ref.rpartition("/")[2], {}) if ref != "#" else root
    return schema if is_object(schema) else {}


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _close(schema: Any, _step: str) -> Any:
    if not is_object(schema):
        return schema
    own = {keyword: value for keyword, value in schema.items() if keyword not in _UNUSED}
    if is_map(schema):
        return _map_to_entries(own)
    if is_tuple(schema):
        return _tuple_to_object(own)
    closed = {keyword: map_children(keyword, value, _close) for keyword, value in own.items()}
    if is_object(closed.get("properties")):
        required = {name for name in as_list(schema.get("required", [])) if isinstance(name, str)}
        closed["properties"] = {
            name: item if name in required else _nullable(item) for name, item in closed["properties"].items()
        }
        closed |= {"required": [*closed["properties"]], "additionalProperties": False}
    return closed


def _map_to_entries(own: JsonObject) -> JsonObject:
    """Strict modes need the name of every property, so a map becomes a list of keys and values."""
    keys, values = own.pop("propertyNames", {}), own.pop("additionalProperties", {})
    entry = _object(
        {"key": {"type": "string", **_close(keys, "")}, "value": _close(values, "") if is_object(values) else {}}
    )
    types = ["array" if one == "object" else one for one in as_list(own["type"])]
    sizes = {"minProperties": "minItems", "maxProperties": "maxItems"}
    rest = {sizes.get(keyword, keyword): value for keyword, value in own.items() if keyword != "type"}
    return {"type": types[0] if len(types) == 1 else types, "items": entry, **rest}


def _tuple_to_object(own: JsonObject) -> JsonObject:
    """Few providers support a schema for each item of a list, so a tuple becomes an object."""
    items = {item_name(index): _close(item, "") for index, item in enumerate(own["prefixItems"])}
    description = {"description": own["description"]} if "description" in own else {}
    types = ["object" if one == "array" else one for one in as_list(own["type"])]
    return {**_object(items), "type": types[0] if len(types) == 1 else types, **description}


def _nullable(schema: Any) -> Any:
    if takes_null(schema):
        return schema
    if isinstance(schema.get("type"), str) and not schema.keys() & {"enum", "const"}:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, _NULL]}
