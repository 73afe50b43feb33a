"""Adapts a JSON Schema to the schema language of a provider.

A `SchemaDialect` describes what a provider accepts. A keyword that it lacks is replaced by an equivalent one if there
is one (`const` by `enum`, `oneOf` by `anyOf`, `allOf` merged, `$ref` inlined, ...), else dropped. Each change gives a
Notice; without a change the same schema comes back. Results are cached, because tools and formats repeat in every call.
"""

import marshal
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from dragoman.errors import Unsupported
from dragoman.schema.merge import merge_schemas, one_or_list
from dragoman.schema.traverse import (
    CONSTRAINTS,
    DEFINITION_KEYWORDS,
    KEYWORDS_OF_TYPE,
    SCHEMA_OR_BOOLEAN_KEYWORDS,
    as_list,
    definitions,
    json_type,
    map_children,
    recursive_groups,
    refs,
    resolve_pointer,
    subschemas,
)
from dragoman.types import JsonObject, Notice, NoticeKind, is_list, is_object

MAX_SUBSCHEMAS = 20_000
"""Subschemas of an adapted schema: inlined `$ref`s can double them with each level."""
MAX_WORK = 200_000
"""Members of all subschemas, counted each time that one is merged into another."""
MAX_CACHED_BYTES = 16 * 1024
_MARSHAL_VERSION = 2  # gives equal bytes for equal values, because it writes no back references
_MAX_DESCRIPTION = 500
"""Characters of a dropped constraint that the description may repeat."""


class SchemaDialect(msgspec.Struct, frozen=True, kw_only=True):
    """What the schema language of one provider accepts; None means no limit."""

    name: str
    keywords: frozenset[str] | None = None
    root_keywords: frozenset[str] | None = None
    """The keywords at the root; None means the same as elsewhere."""
    formats: frozenset[str] | None = None
    enum_types: frozenset[str] | None = None
    """The JSON types (string, number, boolean, null, array, object) of values in an `enum`."""
    min_items: int | None = None
    """The largest `minItems`."""
    type_lists: Literal["any", "null"] = "any"
    """`null`: a list of types may only make one type nullable."""
    simple_patterns: bool = False
    """No lookaround, backreference or word boundary in a `pattern`."""
    anchored_patterns: bool = False
    """A `pattern` begins with ^ and ends with $."""
    lone_refs: bool = False
    """Only keywords that begin with `$` may stand next to a `$ref`."""
    recursion: bool = True
    required_recursion: bool = True
    """A required property may be recursive."""
    closed_objects: bool = False
    """Every object has `additionalProperties: false`."""
    root_object: bool = False
    """The root is of type `object`."""
    describe_dropped: bool = False
    """Dropped constraints are written into the `description`, for the model to read."""


def adapt(schema: JsonObject, dialect: SchemaDialect, /, *, where: str) -> tuple[JsonObject, tuple[Notice, ...]]:
    """The schema in the provider's dialect, and a Notice for each change; the same object if nothing changes.

    >>> tiny = SchemaDialect(name="tiny", keywords=frozenset({"type", "enum"}))
    >>> adapted, notices = adapt({"type": "string", "const": "a", "minLength": 1}, tiny, where="schema")
    >>> adapted
    {'type': 'string', 'enum': ['a']}
    >>> [(notice.kind, notice.what) for notice in notices]
    [('renamed', 'schema: const'), ('dropped', 'schema: minLength')]
    """
    try:
        data, notices = _adapt_cached(marshal.dumps(schema, _MARSHAL_VERSION), dialect, where)
    except ValueError:
        return _adapt(schema, dialect, where)
    return (marshal.loads(data)[0], notices) if notices else (schema, ())  # noqa: S302 - our own bytes


@lru_cache(maxsize=256)
def _adapt_cached(data: bytes, dialect: SchemaDialect, where: str) -> tuple[bytes, tuple[Notice, ...]]:
    if len(data) <= MAX_CACHED_BYTES:
        adapted, notices = _adapt(marshal.loads(data), dialect, where)  # noqa: S302 - our own bytes
        result = marshal.dumps((adapted, [notice.what for notice in notices]), _MARSHAL_VERSION)
        if len(result) <= MAX_CACHED_BYTES:
            return result, notices
    raise ValueError("too large for the cache")


def _adapt(schema: JsonObject, dialect: SchemaDialect, where: str) -> tuple[JsonObject, tuple[Notice, ...]]:
    adapter = _Adapter(schema, dialect, where)
    try:
        adapted = adapter.adapt_root()
        if not dialect.required_recursion:
            _make_recursion_optional(adapted, adapter)
    except RecursionError as error:
        raise Unsupported(f"{dialect.name}: {where}: the schema is nested too deeply; flatten it") from error
    return (adapted, tuple(adapter.notices)) if adapter.notices else (schema, ())


_TYPE_KEYWORDS = frozenset({"type", "anyOf", "$ref", "oneOf", "allOf"})
"""Keywords that tell the type of a value."""
_DESCRIBED = CONSTRAINTS | {"default", "examples", "example", "deprecated", "readOnly", "writeOnly"}
_ROOT = frozenset({"#"})
_PATTERN_TOKENS = r"(?s)\[(?:\\.|[^\]\\])*+\]?|(?P<hard>\\[1-9bBk]|\(\?(?:[=!]|<[=!]|P=))|\\."


def _types(keywords: JsonObject) -> list[str]:
    return [one for one in as_list(keywords.get("type", [])) if isinstance(one, str)]


def _enum_type(value: object) -> str:
    return json_type(value) or "array"


class _Node(msgspec.Struct):
    """One subschema while it is adapted."""

    adapter: "_Adapter"
    path: str
    open_pointers: frozenset[str]
    """The pointers of the definitions around this subschema."""
    allowed: frozenset[str] | None
    root: bool = False
    keywords: JsonObject = {}
    merged: set[str] = set()
    descriptions: list[str] = []

    def allows(self, keyword: str) -> bool:
        return self.allowed is None or keyword in self.allowed

    def lacks(self, keyword: str) -> bool:
        return keyword in self.keywords and not self.allows(keyword)

    def note(self, kind: NoticeKind, keyword: str, why: str) -> None:
        self.adapter.note(kind, f"{self.path}: {keyword}", why)

    def describe(self, keyword: str, value: object) -> None:
        text = f"{keyword}: {msgspec.json.encode(value).decode()}"
        if keyword in _DESCRIBED and value is not None and len(text) <= _MAX_DESCRIPTION:
            self.descriptions.append(text)

    def drop(self, keyword: str, why: str) -> None:
        self.describe(keyword, self.keywords.pop(keyword))
        self.note("dropped" if keyword in CONSTRAINTS else "info", keyword, why)


class _Adapter:
    """One run of `adapt`: the notices and the definitions that were adapted so far."""

    def __init__(self, root: JsonObject, dialect: SchemaDialect, where: str) -> None:
        self.root = root
        self.dialect = dialect
        self.where = where
        self.notices: dict[Notice, None] = {}
        self.remaining = MAX_SUBSCHEMAS
        self.work = 0
        self.defined: dict[str, object] = {}
        self.root_keywords = dialect.keywords if dialect.root_keywords is None else dialect.root_keywords

    def note(self, kind: NoticeKind, what: str, why: str) -> None:
        self.notices[Notice(kind=kind, what=what, why=f"{self.dialect.name}: {why}")] = None

    def adapt_root(self) -> JsonObject:
        node = _Node(adapter=self, path=self.where, open_pointers=_ROOT, allowed=self.root_keywords, root=True)
        return self.adapt_node(self.root, node)

    def adapt(self, schema: object, path: str, open_pointers: frozenset[str]) -> object:
        if is_object(schema):
            node = _Node(adapter=self, path=path, open_pointers=open_pointers, allowed=self.dialect.keywords)
            return self.adapt_node(schema, node)
        if not isinstance(schema, bool) or self.dialect.keywords is None:
            return schema
        kind: NoticeKind = "renamed" if schema else "dropped"
        self.note(kind, f"{path}: {schema}", "boolean schemas are not supported; sent as {}")
        return {}

    def adapt_node(self, schema: JsonObject, node: _Node) -> JsonObject:
        node.keywords = self.flatten(schema, node)
        for rule in _RULES:
            rule(node, self.dialect)
        adapted = {keyword: self.adapt_value(keyword, value, node) for keyword, value in node.keywords.items()}
        if self.dialect.lone_refs and "$ref" in adapted and any(not keyword.startswith("$") for keyword in adapted):
            kind: NoticeKind = "dropped" if "anyOf" in adapted else "renamed"
            node.note(kind, "$ref", "$ref cannot have sibling keywords; moved into anyOf")
            adapted["anyOf"] = [{"$ref": adapted.pop("$ref")}]
        return adapted

    def adapt_value(self, keyword: str, value: object, node: _Node) -> object:
        if keyword in SCHEMA_OR_BOOLEAN_KEYWORDS and isinstance(value, bool):
            return value
        if node.root and keyword in DEFINITION_KEYWORDS and is_object(value):
            tokens = {name: name.replace("~", "~0").replace("/", "~1") for name in value}
            return {name: self.define(f"#/{keyword}/{tokens[name]}", item, _ROOT) for name, item in value.items()}
        path = f"{node.path}.{keyword}"
        return map_children(keyword, value, lambda child, step: self.adapt(child, path + step, node.open_pointers))

    def define(self, pointer: str, schema: object, open_pointers: frozenset[str]) -> object:
        if pointer not in self.defined:
            self.defined[pointer] = None
            path = self.where + pointer[1:].replace("/", ".")
            self.defined[pointer] = self.adapt(schema, path, open_pointers | {pointer})
        return self.defined[pointer]

    def flatten(self, schema: JsonObject, node: _Node, *, inline: bool = False) -> JsonObject:
        """The keywords of a schema, merged with those of an `allOf` and a `$ref` that the dialect lacks."""
        self.remaining -= 1
        self.work += 1 + sum(len(value) for value in schema.values() if is_object(value) or is_list(value))
        if self.work > MAX_WORK:
            raise Unsupported(f"{self.dialect.name}: {self.where}: too much to merge; make the schema smaller")
        if self.remaining < 0:
            size = f"more than {MAX_SUBSCHEMAS} subschemas after $ref was inlined"
            raise Unsupported(f"{self.dialect.name}: {self.where}: {size}; make the schema smaller")
        own = _without_nullable(schema, node)
        members: list[Any] = []
        if is_list(own.get("allOf")) and not node.allows("allOf"):
            members = list(own.pop("allOf"))
            node.note("renamed", "allOf", "allOf is not supported; merged")
        lone = members[0] if len(members) == 1 and not inline else None
        if is_object(lone) and lone.keys() == {"$ref"} and "$ref" not in own:
            own |= members.pop()
        parts = [*self.inline_ref(own, node, inline=inline), *members]
        if any(part is False for part in parts):
            node.note("dropped", "allOf", "a schema that allows no value cannot be expressed")
        return _merge([*(self.flatten(part, node, inline=True) for part in parts if is_object(part)), own], node)

    def inline_ref(self, own: JsonObject, node: _Node, *, inline: bool) -> list[object]:
        """The target of `$ref`, taken out of `own`, if it must be inlined."""
        ref = own.get("$ref")
        if not isinstance(ref, str) or (node.allowed is None and self.dialect.recursion and not inline):
            return []
        pointer = unquote(ref)
        target = resolve_pointer(self.root, pointer)
        is_loop = pointer in node.open_pointers
        may_stay = not inline and node.allows("$ref") and self.is_definition(pointer)
        if may_stay and target is not None and (self.dialect.recursion or not is_loop):
            if pointer != "#":
                self.define(pointer, target, node.open_pointers)
            return []
        del own["$ref"]
        if target is None:
            node.note("dropped", "$ref", f"{ref} is not in the schema; any value is allowed")
        elif is_loop and pointer not in node.merged:
            node.note("dropped", "$ref", f"recursion is not supported; any value is allowed below {ref}")
        elif not is_loop:
            node.note("renamed", "$ref", f"{ref} was inlined")
            node.merged.add(pointer)
            node.open_pointers |= {pointer}
            return [target]
        return []

    def is_definition(self, pointer: str) -> bool:
        groups = DEFINITION_KEYWORDS if self.root_keywords is None else DEFINITION_KEYWORDS & self.root_keywords
        return pointer == "#" or (pointer.count("/") == 2 and pointer.split("/")[1] in groups)


def _merge(parts: list[JsonObject], node: _Node) -> JsonObject:
    if len(parts) == 1:
        return parts[0]
    merged = merge_schemas(parts)
    for keyword, named in merged.widened:
        node.note("changed", keyword, f"after the merge it applies only to what no merged {named} cover")
    for keyword, values in merged.lost.items():
        node.describe(keyword, values)
        node.note("dropped", keyword, "the values cannot be merged; the first one is sent")
    return merged.keywords


def _make_recursion_optional(root: JsonObject, adapter: _Adapter) -> None:
    """Take properties that lead back to their own definition out of `required`."""
    defined = definitions(root)
    groups = recursive_groups(defined)
    for pointer, item in defined.items():
        for node, _ in subschemas(item):
            if not groups[pointer]:
                break
            properties, required = node.get("properties"), as_list(node.get("required", []))
            names = {name for name in required if isinstance(name, str)}
            recursive = [
                name
                for name, item in (properties.items() if is_object(properties) else ())
                if name in names and any(groups.get(ref) == groups[pointer] for ref in refs(item))
            ]
            if recursive:
                removed = {*recursive}
                node["required"] = [name for name in required if name not in removed]
                what = f"{adapter.where}{pointer[1:].replace('/', '.')}: required"
                adapter.note(
                    "changed", what, f"a required property cannot be recursive; now optional: {', '.join(recursive)}"
                )
    if "required" in defined["#"]:
        root["required"] = defined["#"]["required"]


def _without_nullable(schema: JsonObject, node: _Node) -> JsonObject:
    """A copy, in which a null type replaces OpenAPI's `nullable` if the dialect lacks it."""
    own = dict(schema)
    if "nullable" not in own or node.allows("nullable"):
        return own
    node.note("renamed", "nullable", "nullable is not supported; sent as a null type")
    if own.pop("nullable") is not True:
        return own
    if "type" in own:
        own["type"] = [*dict.fromkeys([*_types(own), "null"])]
        if is_list(own.get("enum")) and None not in own["enum"]:
            own["enum"] = [*own["enum"], None]
        return own
    outside = {keyword: own.pop(keyword) for keyword in list(own) if keyword not in CONSTRAINTS}
    return {**outside, "anyOf": [own, {"type": "null"}]}


# Rules: each changes the keywords of one node -------------------------------------------------------------------------


def _const_to_enum(node: _Node, _: SchemaDialect) -> None:
    if node.lacks("const") and node.allows("enum"):
        value = node.keywords.pop("const")
        is_same = value in as_list(node.keywords.get("enum", value))
        node.keywords["enum"] = [value]
        node.note("renamed" if is_same else "changed", "const", "const is not supported; sent as enum")


def _one_of_to_any_of(node: _Node, _: SchemaDialect) -> None:
    if node.lacks("oneOf") and node.allows("anyOf") and "anyOf" not in node.keywords:
        node.keywords["anyOf"] = node.keywords.pop("oneOf")
        is_same = "discriminator" in node.keywords
        node.note("renamed" if is_same else "changed", "oneOf", "oneOf is not supported; sent as anyOf")


def _tuple_to_list(node: _Node, _: SchemaDialect) -> None:
    own = node.keywords
    if node.allowed is not None and is_list(own.get("items")):
        own["prefixItems"] = own.pop("items")
        own |= {"items": own.pop("additionalItems")} if "additionalItems" in own else {}
        node.note("renamed", "items", "a list of items is sent as prefixItems")
    if not (node.lacks("prefixItems") and node.allows("items") and is_list(own["prefixItems"])):
        return
    rest = own.get("items", own.get("maxItems") != len(own["prefixItems"]))
    if rest is not True:
        own["items"] = {"anyOf": [*own["prefixItems"], *([rest] if rest else [])]}
        node.describe("prefixItems", own.pop("prefixItems"))
        node.note("changed", "prefixItems", "prefixItems is not supported; each item may match any of them")


def _exclusive_to_inclusive(node: _Node, _: SchemaDialect) -> None:
    own = node.keywords
    for keyword, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = own.get(keyword)
        if not node.lacks(keyword) or not node.allows(plain) or plain in own or type(bound) not in (int, float):
            continue
        is_same = own.get("type") == "integer" and type(bound) is int
        own[plain] = own.pop(keyword) + (step if is_same else 0)
        if not is_same:
            node.describe(keyword, bound)
        node.note("renamed" if is_same else "changed", keyword, f"{keyword} is not supported; sent as {plain}")


def _add_type_of_enum(node: _Node, _: SchemaDialect) -> None:
    values = node.keywords.get("enum")
    if node.allowed is None or not node.allows("type") or not is_list(values) or not values:
        return
    if not _TYPE_KEYWORDS & node.keywords.keys():
        node.keywords["type"] = one_or_list([*dict.fromkeys(map(_enum_type, values))])
        node.note("renamed", "enum", "an enum needs a type; added")


def _check_types_in_enum(node: _Node, dialect: SchemaDialect) -> None:
    own, values = node.keywords, node.keywords.get("enum")
    if dialect.enum_types is None or not is_list(values):
        return
    unsupported = {_enum_type(value).replace("integer", "number") for value in values} - dialect.enum_types
    rest = [value for value in values if value is not None]
    if unsupported == {"null"} and rest and node.allows("anyOf") and "anyOf" not in own:
        own["enum"] = rest
        if "type" not in own or "null" in _types(own):
            del own["enum"]
            types = [one for one in _types(own) if one != "null"]
            own.pop("type", None)
            own["anyOf"] = [{**({"type": one_or_list(types)} if types else {}), "enum": rest}, {"type": "null"}]
        node.note("renamed", "enum", "null is not supported in an enum; sent as anyOf")
    elif unsupported:
        node.drop("enum", f"{' and '.join(sorted(unsupported))} are not supported in an enum")


def _split_type_list(node: _Node, dialect: SchemaDialect) -> None:
    own, types = node.keywords, _types(node.keywords)
    if dialect.type_lists == "any" or len([one for one in types if one != "null"]) < 2:
        return
    if "anyOf" in own:
        node.drop("type", "a list of types may only add null")
        return
    del own["type"]
    typed = [
        (one, {keyword: own[keyword] for keyword in own if keyword in KEYWORDS_OF_TYPE.get(one, frozenset())})
        for one in types
    ]
    for keyword in {keyword for _, keywords in typed for keyword in keywords}:
        del own[keyword]
    own["anyOf"] = [{"type": one, **keywords} for one, keywords in typed]
    node.note("renamed", "type", "a list of types may only add null; sent as anyOf")


def _check_limits(node: _Node, dialect: SchemaDialect) -> None:
    own = node.keywords
    if "format" in own and dialect.formats is not None and str(own["format"]) not in dialect.formats:
        node.drop("format", f"format {own['format']} is not supported")
    pattern = str(own.get("pattern", ""))
    if dialect.simple_patterns and any(token["hard"] for token in re.finditer(_PATTERN_TOKENS, pattern)):
        node.drop("pattern", "lookaround, backreferences and word boundaries are not supported in a pattern")
    if dialect.anchored_patterns and not re.fullmatch(r"\^.*\$", str(own.get("pattern", "^$")), re.DOTALL):
        node.drop("pattern", "a pattern must begin with ^ and end with $")
    count = own.get("minItems")
    if dialect.min_items is not None and isinstance(count, int) and count > dialect.min_items:
        own["minItems"] = dialect.min_items
        node.describe("minItems", count)
        node.note("changed", "minItems", f"minItems must be at most {dialect.min_items}")


def _drop_unsupported(node: _Node, dialect: SchemaDialect) -> None:
    for keyword in [keyword for keyword in node.keywords if not node.allows(keyword)]:
        node.drop(keyword, f"{keyword} is not supported{' at the root' if node.root else ''}")
    if node.descriptions and dialect.describe_dropped and node.allows("description"):
        text = node.keywords.get("description")
        node.keywords["description"] = "\n".join([*([text] if isinstance(text, str) else []), *node.descriptions])


def _close_objects(node: _Node, dialect: SchemaDialect) -> None:
    own, types = node.keywords, _types(node.keywords)
    if node.root and dialect.root_object and types != ["object"]:
        if types and "object" not in types:
            raise Unsupported(f"{dialect.name}: {node.path}: the root must be an object; put the schema into one")
        own["type"] = "object"
        node.note("changed", "type", "the root must be an object")
    takes_objects = "object" in _types(own) or ("type" not in own and "properties" in own)
    if dialect.closed_objects and takes_objects and own.get("additionalProperties") is not False:
        is_same = "properties" in own and "additionalProperties" not in own
        own["additionalProperties"] = False
        node.note("info" if is_same else "changed", "additionalProperties", "additionalProperties must be false")


_RULES: tuple[Callable[[_Node, SchemaDialect], None], ...] = (
    _const_to_enum,
    _one_of_to_any_of,
    _tuple_to_list,
    _exclusive_to_inclusive,
    _add_type_of_enum,
    _check_types_in_enum,
    _split_type_list,
    _check_limits,
    _drop_unsupported,
    _close_objects,
)
