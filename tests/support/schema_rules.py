"""Checks the schema of a request against the rules of a provider, which are taken from its documentation."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.types import is_list, is_object

_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")
_ONE = ("items", "additionalProperties")
_OPENAI = frozenset(
    "type enum const anyOf $defs definitions $ref pattern format minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minItems maxItems properties required additionalProperties items title description $schema".split()
)
_ANTHROPIC = frozenset(
    "type enum const anyOf allOf $ref $defs default required properties items additionalProperties format minItems "
    "pattern title description".split()
)
_GOOGLE = frozenset(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf "
    "oneOf properties additionalProperties required propertyOrdering".split()
)
_OPENAI_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_ANTHROPIC_FORMATS = _OPENAI_FORMATS | {"uri"}
_NOT_SIMPLE = re.compile(r"\(\?[=!<]|\\[1-9bB]")

Path = tuple[str, ...]


def nodes(schema: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each subschema with its place."""
    if not is_object(schema):
        return
    yield path, schema
    for keyword in _MANY:
        for number, child in enumerate(schema.get(keyword, ())):
            yield from nodes(child, (*path, keyword, str(number)))
    for keyword in _NAMED:
        for name, child in schema.get(keyword, {}).items():
            yield from nodes(child, (*path, keyword, name))
    for keyword in _ONE:
        yield from nodes(schema.get(keyword), (*path, keyword))


def openai(schema: dict[str, Any]) -> list[str]:
    """Strict mode."""
    breaches = ["the root is an object"] if schema.get("type") != "object" or "anyOf" in schema else []
    names, choices = 0, 0
    for path, node in nodes(schema):
        breaches += [f"{path}: {keyword} is unknown" for keyword in node.keys() - _OPENAI]
        breaches += _typed(path, node)
        if "$ref" in node and len(node) > 1:
            breaches.append(f"{path}: a $ref stands alone")
        if "object" in _types(node):
            properties = node.get("properties", {})
            breaches += (
                [] if node.get("additionalProperties") is False else [f"{path}: additionalProperties must be false"]
            )
            breaches += [] if {*node.get("required", ())} == {*properties} else [f"{path}: all is required"]
            names += len(properties)
        if "array" in _types(node) and not node.get("items"):
            breaches.append(f"{path}: items are typed")
        choices += len(node.get("enum", ()))
        breaches += _worded(path, node, _OPENAI_FORMATS)
        if path.count("properties") > 10:
            breaches.append(f"{path}: ten levels at most")
    return [*breaches, *(["too large"] if names > 5000 or choices > 1000 else []), *_referring(schema)]


def anthropic(schema: dict[str, Any]) -> list[str]:
    """Structured output."""
    breaches: list[str] = []
    for path, node in nodes(schema):
        breaches += [f"{path}: {keyword} is unknown" for keyword in node.keys() - _ANTHROPIC]
        if "object" in _types(node) and node.get("additionalProperties") is not False:
            breaches.append(f"{path}: additionalProperties must be false")
        if any(isinstance(value, list | dict) for value in node.get("enum", ())):
            breaches.append(f"{path}: an enum is of primitives")
        if node.get("minItems", 0) > 1:
            breaches.append(f"{path}: minItems is 0 or 1")
        breaches += _worded(path, node, _ANTHROPIC_FORMATS)
    circles = [name for name in schema.get("$defs", {}) if name in _reached(schema, name)]
    return [*breaches, *(f"{name} is recursive" for name in circles), *_referring(schema)]


def google(schema: dict[str, Any]) -> list[str]:
    """responseJsonSchema."""
    breaches: list[str] = []
    for path, node in nodes(schema):
        breaches += [f"{path}: {keyword} is unknown" for keyword in node.keys() - _GOOGLE]
        if any(not isinstance(value, str | int | float) or isinstance(value, bool) for value in node.get("enum", ())):
            breaches.append(f"{path}: an enum is of strings and numbers")
        if "$ref" in node and any(not keyword.startswith("$") for keyword in node):
            breaches.append(f"{path}: beside a $ref stand only keywords with a $")
        if len({*_types(node)} - {"null"}) > 1:
            breaches.append(f"{path}: a list of types is for null")
    for name, definition in schema.get("$defs", {}).items():
        for path, node in nodes(definition):
            for needed in node.get("required", ()):
                refs = _refs(node.get("properties", {}).get(needed))
                if any(name == ref or name in _reached(schema, ref) for ref in refs):
                    breaches.append(f"{name} {path}: {needed} is recursive and required")
    return [*breaches, *_referring(schema)]


def _types(node: dict[str, Any]) -> list[str]:
    kind = node.get("type", [])
    return kind if is_list(kind) else [kind]


def _typed(path: Path, node: dict[str, Any]) -> list[str]:
    return [] if node.keys() & {"type", "anyOf", "$ref"} else [f"{path}: a type is required"]


def _worded(path: Path, node: dict[str, Any], formats: frozenset[str]) -> list[str]:
    breaches = [f"{path}: a simple pattern"] if _NOT_SIMPLE.search(node.get("pattern", "")) else []
    return breaches if node.get("format", "date") in formats else [*breaches, f"{path}: the format is unknown"]


def _refs(schema: Any) -> set[str]:
    return {node["$ref"].removeprefix("#/$defs/") for _, node in nodes(schema) if "$ref" in node}


def _reached(schema: dict[str, Any], name: str) -> set[str]:
    found: set[str] = set()
    fresh = _refs(schema.get("$defs", {}).get(name))
    while fresh:
        found |= fresh
        fresh = {ref for one in fresh for ref in _refs(schema.get("$defs", {}).get(one))} - found
    return found


def _referring(schema: dict[str, Any]) -> list[str]:
    return [f"{ref} is nowhere" for ref in _refs(schema) if ref != "#" and ref not in schema.get("$defs", {})]
