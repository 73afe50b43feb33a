"""What each JSON Schema keyword holds, and functions that walk over subschemas and follow references."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from dragoman.types import JsonObject, is_list, is_object

_SCHEMA_KEYWORDS = frozenset("items additionalItems contains propertyNames not if then else unevaluatedItems".split())
SCHEMA_OR_BOOLEAN_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})
_ONE_SCHEMA = _SCHEMA_KEYWORDS | SCHEMA_OR_BOOLEAN_KEYWORDS
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
DEFINITION_KEYWORDS = frozenset({"$defs", "definitions"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"}) | DEFINITION_KEYWORDS
KEYWORDS_OF_TYPE = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "array": frozenset("items prefixItems minItems maxItems uniqueItems contains minContains maxContains".split()),
    "object": frozenset("properties required additionalProperties patternProperties propertyNames".split())
    | {"minProperties", "maxProperties"},
}
CONSTRAINTS: frozenset[str] = frozenset(
    "$ref $dynamicRef type enum const nullable minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
    "dependentRequired dependencies".split()
).union(_ONE_SCHEMA, _SCHEMA_LISTS, _SCHEMA_MAPS - DEFINITION_KEYWORDS, *KEYWORDS_OF_TYPE.values())
"""Keywords that decide whether a value is valid. All others are annotations, including unknown ones."""
_JSON_TYPES = {
    "str": "string",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "NoneType": "null",
    "list": "array",
    "dict": "object",
}


def as_list(value: object, /) -> list[Any]:
    """A list unchanged, any other value as a list of one item."""
    return value if is_list(value) else [value]


def json_type(value: object, /) -> str:
    """The JSON Schema type of a value, or "" if JSON has no such value.

    >>> json_type(4.2), json_type(b"")
    ('number', '')
    """
    return _JSON_TYPES.get(type(value).__name__, "")


def map_children(keyword: str, value: Any, visit: Callable[[object, str], object], /) -> Any:
    """The value of a keyword with each subschema replaced by `visit(subschema, step)`; data is not visited."""
    if keyword in _ONE_SCHEMA:
        return visit(value, "")
    if keyword in _SCHEMA_LISTS and is_list(value):
        return [visit(item, f"[{index}]") for index, item in enumerate(value)]
    if keyword in _SCHEMA_MAPS and is_object(value):
        return {name: visit(item, f".{name}") for name, item in value.items()}
    return value


def subschemas(schema: object, level: int = 1) -> Iterator[tuple[JsonObject, int]]:
    """Each subschema, and how many objects it is nested in.

    >>> [level for _, level in subschemas({"properties": {"a": {}}})]
    [1, 2]
    """
    if not is_object(schema):
        return
    yield schema, level
    for keyword, value in schema.items():
        children: list[object] = []
        map_children(keyword, value, partial(_collect, children))
        for child in children:
            yield from subschemas(child, level + (keyword == "properties"))


def _collect(children: list[object], child: object, _: str) -> None:
    children.append(child)


def is_recursive(schema: JsonObject, /) -> bool:
    """Whether a schema refers to itself.

    >>> is_recursive({"properties": {"next": {"$ref": "#"}}})
    True
    """
    return any(recursive_groups(definitions(schema)).values())


def definitions(root: JsonObject, /) -> dict[str, JsonObject]:
    """The root and its definitions by JSON pointer; the root comes without its definitions.

    >>> definitions({"$defs": {"A": {}}})
    {'#/$defs/A': {}, '#': {}}
    """
    groups = {keyword: root[keyword] for keyword in DEFINITION_KEYWORDS if is_object(root.get(keyword))}
    schemas = {f"#/{keyword}/{name}": item for keyword, items in groups.items() for name, item in items.items()}
    return {**schemas, "#": {keyword: value for keyword, value in root.items() if keyword not in DEFINITION_KEYWORDS}}


def refs(schema: object, /) -> set[str]:
    """The values of all `$ref` inside a schema."""
    return {node["$ref"] for node, _ in subschemas(schema) if isinstance(node.get("$ref"), str)}


def recursive_groups(defined: Mapping[str, Any], /) -> dict[str, int]:
    """For each definition, the number of its group: definitions that refer to each other. 0 if it is not recursive.

    >>> recursive_groups({"#/$defs/A": {"$ref": "#/$defs/A"}, "#": {"$ref": "#/$defs/A"}})
    {'#/$defs/A': 1, '#': 0}
    """
    edges = {pointer: [ref for ref in refs(item) if ref in defined] for pointer, item in defined.items()}
    finished = [*_after_their_refs(edges, edges)]
    back: dict[str, list[str]] = {pointer: [] for pointer in edges}
    for pointer, targets in edges.items():
        for target in targets:
            back[target].append(pointer)
    groups = dict.fromkeys(edges, 0)
    seen: set[str] = set()
    number = 0
    for pointer in reversed(finished):
        members = [*_after_their_refs(back, [pointer], seen)]
        if len(members) > 1 or (members and members[0] in edges[members[0]]):
            number += 1
            groups |= dict.fromkeys(members, number)
    return groups


def _after_their_refs(
    edges: Mapping[str, list[str]], starts: Iterable[str], seen: set[str] | None = None
) -> Iterator[str]:
    """Each pointer that the starts lead to, after those that it refers to."""
    seen = set() if seen is None else seen
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(edges[start]))]
        while path:
            pointer, targets = path[-1]
            target = next((one for one in targets if one not in seen), None)
            if target is None:
                path.pop()
                yield pointer
            else:
                seen.add(target)
                path.append((target, iter(edges[target])))


def reachable(schema: object, defined: Mapping[str, Any], /) -> set[str]:
    """The pointers of all definitions that a schema refers to, directly or through other definitions.

    >>> reachable({"$ref": "#/$defs/A"}, {"#/$defs/A": {"$ref": "#/$defs/B"}}) == {"#/$defs/A", "#/$defs/B"}
    True
    """
    names: set[str] = set()
    fresh = refs(schema)
    while fresh:
        names |= fresh
        fresh = {ref for pointer in fresh for ref in refs(defined.get(pointer))} - names
    return names


def resolve_pointer(root: object, pointer: str, /) -> object:
    """The schema at a JSON pointer such as `#/$defs/A`, or None.

    >>> resolve_pointer({"$defs": {"A": {"type": "null"}}}, "#/$defs/A")
    {'type': 'null'}
    """
    if pointer != "#" and not pointer.startswith("#/"):
        return None
    value = root
    for step in pointer.split("/")[1:]:
        token = step.replace("~1", "/").replace("~0", "~")
        if is_list(value) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        elif is_object(value) and token in value:
            value = value[token]
        else:
            return None
    return value if is_object(value) or isinstance(value, bool) else None
