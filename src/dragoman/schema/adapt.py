"""A JSON Schema in, the part of it that a provider can say out, with a Notice for each change.

A keyword that a subset lacks is said in another way where there is one (`const` as `enum`, `oneOf` as `anyOf`, `allOf`
merged, `$ref` inlined, …), else dropped. No Notice, no change.
"""

import marshal
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from dragoman.errors import Unsupported
from dragoman.types import JsonObject, Notice, NoticeKind, is_list, is_object

MAX_SUBSCHEMAS = 20_000
"""How many subschemas a fitted schema may have: `$ref`s that are inlined can double it with each level."""
MAX_KEPT = 16 * 1024
"""Bytes of a schema that is kept with what became of it: tools and formats are the same in call after call."""
_PLAIN = 2  # the version of marshal that says the same for the same: it counts no references
_MAX_WORDS = 500  # a dropped constraint that is longer than this is not told to the model


class SchemaDialect(msgspec.Struct, frozen=True, kw_only=True):
    """What one provider's schema language can say; None means no limit.

    >>> SchemaDialect(name="tiny", keywords=frozenset({"type", "enum"})).recursion
    True
    """

    name: str
    keywords: frozenset[str] | None = None
    root_keywords: frozenset[str] | None = None
    """Where other keywords are known at the root; the same as elsewhere when None."""
    formats: frozenset[str] | None = None
    enums: frozenset[str] | None = None
    """The JSON types (string, number, boolean, null, array, object) that values of an `enum` may have."""
    min_items: int | None = None
    """The largest `minItems`."""
    type_lists: Literal["any", "null"] = "any"
    """`null`: a list of types may only make one type nullable."""
    simple_patterns: bool = False
    """No lookaround, backreference or word boundary in a `pattern`."""
    anchored_patterns: bool = False
    """A `pattern` begins with ^ and ends with $."""
    lone_refs: bool = False
    """Beside `$ref` stand only keywords with a `$`."""
    recursion: bool = True
    required_recursion: bool = True
    """A property by which a schema comes back to itself may be required."""
    closed: bool = False
    """Every object says `additionalProperties: false`."""
    root_object: bool = False
    """The root is of type `object`."""
    describe: bool = False
    """What is dropped is told to the model in the `description`."""


def fit(schema: JsonObject, subset: SchemaDialect, /, *, where: str) -> tuple[JsonObject, tuple[Notice, ...]]:
    """The schema as the subset can say it, and a Notice for each change; the same object where there is none.

    >>> tiny = SchemaDialect(name="tiny", keywords=frozenset({"type", "enum"}))
    >>> fitted, notices = fit({"type": "string", "const": "a", "minLength": 1}, tiny, where="schema")
    >>> fitted
    {'type': 'string', 'enum': ['a']}
    >>> [(notice.kind, notice.what) for notice in notices]
    [('renamed', 'schema: const'), ('dropped', 'schema: minLength')]
    """
    try:
        kept, notices = _kept(marshal.dumps(schema, _PLAIN), subset, where)
    except ValueError:
        return _fit(schema, subset, where)
    return (marshal.loads(kept)[0], notices) if notices else (schema, ())  # noqa: S302 - our own bytes


@lru_cache(maxsize=256)
def _kept(said: bytes, subset: SchemaDialect, where: str) -> tuple[bytes, tuple[Notice, ...]]:
    if len(said) <= MAX_KEPT:
        fitted, notices = _fit(marshal.loads(said), subset, where)  # noqa: S302 - our own bytes
        kept = marshal.dumps((fitted, [notice.what for notice in notices]), _PLAIN)
        if len(kept) <= MAX_KEPT:
            return kept, notices
    raise ValueError("too large to keep")


def _fit(schema: JsonObject, subset: SchemaDialect, where: str) -> tuple[JsonObject, tuple[Notice, ...]]:
    fitter = _Fitter(schema, subset, where)
    try:
        fitted = fitter.fit_root()
        if not subset.required_recursion:
            _free_circles(fitted, fitter)
    except RecursionError as error:
        raise Unsupported(f"{subset.name}: {where}: the schema is nested too deeply; flatten it") from error
    return (fitted, tuple(fitter.notices)) if fitter.notices else (schema, ())


_ONE = frozenset("items additionalItems contains propertyNames not if then else unevaluatedItems".split())
_ONE_OR_BOOLEAN = frozenset({"additionalProperties", "unevaluatedProperties"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_HOMES = frozenset({"$defs", "definitions"})
_SAYS_TYPE = frozenset({"type", "anyOf", "$ref"})
_TYPES = {"str": "string", "bool": "boolean", "int": "integer", "float": "number", "NoneType": "null", "dict": "object"}
_OF_TYPE = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "array": frozenset("items prefixItems minItems maxItems uniqueItems contains minContains maxContains".split()),
    "object": frozenset("properties required additionalProperties patternProperties propertyNames".split())
    | {"minProperties", "maxProperties"},
}
_CONSTRAINTS: frozenset[str] = frozenset(
    "$ref $dynamicRef type enum const nullable minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
    "dependentRequired dependencies".split()
).union(_ONE, _ONE_OR_BOOLEAN, _MANY, _NAMED - _HOMES, *_OF_TYPE.values())
"""All other keywords are annotations, those that nobody knows included."""
_SPOKEN = _CONSTRAINTS | {"default", "examples", "example", "deprecated", "readOnly", "writeOnly"}
_ROOT = frozenset({"#"})
_NOT_SIMPLE = r"(?s)\[(?:\\.|[^\]\\])*\]|(?P<hard>\\[1-9bBk]|\(\?(?:[=!]|<[=!]|P=))|\\."


def _json_type(value: object) -> str:
    return _TYPES.get(type(value).__name__, "array")


def _types(keywords: JsonObject) -> list[str]:
    return [one for one in as_list(keywords.get("type", [])) if isinstance(one, str)]


def map_children(keyword: str, value: Any, visit: Callable[[object, str], object]) -> Any:
    """The value with each subschema in it replaced by what `visit(subschema, step)` gives; other values are data."""
    if keyword in _ONE | _ONE_OR_BOOLEAN:
        return visit(value, "")
    if keyword in _MANY and is_list(value):
        return [visit(item, f"[{index}]") for index, item in enumerate(value)]
    if keyword in _NAMED and is_object(value):
        return {name: visit(item, f".{name}") for name, item in value.items()}
    return value


def subschemas(schema: object, level: int = 1) -> Iterator[tuple[JsonObject, int]]:
    """Each subschema, and how many objects it stands in.

    >>> [level for _, level in subschemas({"properties": {"a": {}}})]
    [1, 2]
    """
    if not is_object(schema):
        return
    yield schema, level
    for keyword, value in schema.items():
        below: list[object] = []
        map_children(keyword, value, partial(_collect, below))
        for child in below:
            yield from subschemas(child, level + (keyword == "properties"))


def _collect(into: list[object], child: object, _: str) -> None:
    into.append(child)


class _Node(msgspec.Struct):
    """One subschema on its way: its keywords so far, where it stands, and what its description has to say."""

    fitter: "_Fitter"
    place: str
    stack: frozenset[str]
    """The pointers that this subschema stands in."""
    known: frozenset[str] | None
    root: bool = False
    keywords: JsonObject = {}
    merged: set[str] = set()
    said: list[str] = []

    def knows(self, keyword: str) -> bool:
        return self.known is None or keyword in self.known

    def lacks(self, keyword: str) -> bool:
        return keyword in self.keywords and not self.knows(keyword)

    def note(self, kind: NoticeKind, keyword: str, why: str) -> None:
        self.fitter.note(kind, f"{self.place}: {keyword}", why)

    def say(self, keyword: str, value: object) -> None:
        words = f"{keyword}: {msgspec.json.encode(value).decode()}"
        if keyword in _SPOKEN and value is not None and len(words) <= _MAX_WORDS:
            self.said.append(words)

    def drop(self, keyword: str, why: str) -> None:
        self.say(keyword, self.keywords.pop(keyword))
        self.note("dropped" if keyword in _CONSTRAINTS else "info", keyword, why)


class _Fitter:
    """One run of `fit`."""

    def __init__(self, root: JsonObject, subset: SchemaDialect, where: str) -> None:
        self.root = root
        self.subset = subset
        self.where = where
        self.notices: dict[Notice, None] = {}
        self.room = MAX_SUBSCHEMAS
        self.defined: dict[str, object] = {}
        self.root_known = subset.keywords if subset.root_keywords is None else subset.root_keywords

    def note(self, kind: NoticeKind, what: str, why: str) -> None:
        self.notices[Notice(kind=kind, what=what, why=f"{self.subset.name}: {why}")] = None

    def fit_root(self) -> JsonObject:
        node = _Node(fitter=self, place=self.where, stack=_ROOT, known=self.root_known, root=True)
        return self.fit_node(self.root, node)

    def fit(self, schema: object, place: str, stack: frozenset[str]) -> object:
        if is_object(schema):
            return self.fit_node(schema, _Node(fitter=self, place=place, stack=stack, known=self.subset.keywords))
        if not isinstance(schema, bool) or self.subset.keywords is None:
            return schema
        self.note("renamed" if schema else "dropped", f"{place}: {schema}", "a schema is an object; {} in its place")
        return {}

    def fit_node(self, schema: JsonObject, node: _Node) -> JsonObject:
        node.keywords = self.flat(schema, node)
        for rule in _RULES:
            rule(node, self.subset)
        fitted = {keyword: self.fit_value(keyword, value, node) for keyword, value in node.keywords.items()}
        if self.subset.lone_refs and "$ref" in fitted and any(not keyword.startswith("$") for keyword in fitted):
            node.note("dropped" if "anyOf" in fitted else "renamed", "$ref", "a $ref stands alone; put into anyOf")
            fitted["anyOf"] = [{"$ref": fitted.pop("$ref")}]
        return fitted

    def fit_value(self, keyword: str, value: object, node: _Node) -> object:
        if keyword in _ONE_OR_BOOLEAN and isinstance(value, bool):
            return value
        if node.root and keyword in _HOMES and is_object(value):
            names = {name: name.replace("~", "~0").replace("/", "~1") for name in value}
            return {name: self.define(f"#/{keyword}/{names[name]}", item, _ROOT) for name, item in value.items()}
        place = f"{node.place}.{keyword}"
        return map_children(keyword, value, lambda child, step: self.fit(child, place + step, node.stack))

    def define(self, pointer: str, schema: object, stack: frozenset[str]) -> object:
        if pointer not in self.defined:
            self.defined[pointer] = None
            place = self.where + pointer[1:].replace("/", ".")
            self.defined[pointer] = self.fit(schema, place, stack | {pointer})
        return self.defined[pointer]

    def flat(self, schema: JsonObject, node: _Node, *, inline: bool = False) -> JsonObject:
        """The keywords of a schema, joined with those of its `allOf` and `$ref` where these have to go."""
        self.room -= 1
        if self.room < 0:
            size = f"more than {MAX_SUBSCHEMAS} subschemas, each $ref inlined that has to be"
            raise Unsupported(f"{self.subset.name}: {self.where}: {size}; make the schema smaller")
        own = _with_null(schema, node)
        members: list[Any] = []
        if is_list(own.get("allOf")) and not node.knows("allOf"):
            members = list(own.pop("allOf"))
            node.note("renamed", "allOf", "no allOf; merged")
        lone = members[0] if len(members) == 1 and not inline else None
        if is_object(lone) and lone.keys() == {"$ref"} and "$ref" not in own:
            own |= members.pop()
        parts = [*self.follow(own, node, inline=inline), *members]
        if any(part is False for part in parts):
            node.note("dropped", "allOf", "cannot say that nothing is valid")
        return _join([*(self.flat(part, node, inline=True) for part in parts if is_object(part)), own], node)

    def follow(self, own: JsonObject, node: _Node, *, inline: bool) -> list[object]:
        """What `$ref` points to, where it must be inlined; else it stays in `own`."""
        ref = own.get("$ref")
        if not isinstance(ref, str) or (node.known is None and self.subset.recursion and not inline):
            return []
        pointer = unquote(ref)
        target = _target(self.root, pointer)
        open_above = pointer in node.stack
        may_stay = not inline and node.knows("$ref") and self.is_home(pointer)
        if may_stay and target is not None and (self.subset.recursion or not open_above):
            if pointer != "#":
                self.define(pointer, target, node.stack)
            return []
        del own["$ref"]
        if target is None:
            node.note("dropped", "$ref", f"{ref} is not in the schema; anything goes")
        elif open_above and pointer not in node.merged:
            node.note("dropped", "$ref", f"no recursion; anything goes below {ref}")
        elif not open_above:
            node.note("renamed", "$ref", f"{ref} inlined")
            node.merged.add(pointer)
            node.stack |= {pointer}
            return [target]
        return []

    def is_home(self, pointer: str) -> bool:
        homes = _HOMES if self.root_known is None else _HOMES & self.root_known
        return pointer == "#" or (pointer.count("/") == 2 and pointer.split("/")[1] in homes)


def _free_circles(root: JsonObject, fitter: _Fitter) -> None:
    """Require no property by which a definition comes back to itself."""
    homes = _homes(root)
    leads_to = {pointer: reached(item, homes) for pointer, item in homes.items()}
    for pointer, item in homes.items():
        for node, _ in subschemas(item):
            properties, needed = node.get("properties"), as_list(node.get("required", []))
            circles = [
                name
                for name, item in (properties.items() if is_object(properties) else ())
                if name in needed and any(ref == pointer or pointer in leads_to.get(ref, ()) for ref in _refs(item))
            ]
            if circles:
                node["required"] = [name for name in needed if name not in circles]
                what = f"{fitter.where}{pointer[1:].replace('/', '.')}: required"
                fitter.note(
                    "changed", what, f"no recursion in required properties; {', '.join(circles)} may be left out"
                )
    if "required" in homes["#"]:
        root["required"] = homes["#"]["required"]


def is_recursive(schema: JsonObject, /) -> bool:
    """Whether a schema comes back to itself.

    >>> is_recursive({"properties": {"next": {"$ref": "#"}}})
    True
    """
    homes = _homes(schema)
    return any(pointer in reached(item, homes) for pointer, item in homes.items())


def _homes(root: JsonObject) -> dict[str, JsonObject]:
    """The root and its definitions, by pointer."""
    defined = {home: root[home] for home in _HOMES if is_object(root.get(home))}
    homes = {f"#/{home}/{name}": item for home, items in defined.items() for name, item in items.items()}
    return {**homes, "#": {keyword: value for keyword, value in root.items() if keyword not in _HOMES}}


def _refs(schema: object) -> set[str]:
    return {node["$ref"] for node, _ in subschemas(schema) if isinstance(node.get("$ref"), str)}


def reached(schema: object, homes: Mapping[str, Any], /) -> set[str]:
    """The pointers of all definitions that a schema leads to.

    >>> reached({"$ref": "#/$defs/A"}, {"#/$defs/A": {"$ref": "#/$defs/B"}}) == {"#/$defs/A", "#/$defs/B"}
    True
    """
    found: set[str] = set()
    fresh = _refs(schema)
    while fresh:
        found |= fresh
        fresh = {ref for pointer in fresh for ref in _refs(homes.get(pointer))} - found
    return found


def _target(root: object, pointer: str) -> object:
    """The schema that a pointer points to, None where there is none."""
    if pointer != "#" and not pointer.startswith("#/"):
        return None
    found = root
    for step in pointer.split("/")[1:]:
        token = step.replace("~1", "/").replace("~0", "~")
        if is_list(found) and token.isdecimal() and int(token) < len(found):
            found = found[int(token)]
        else:
            found = found.get(token) if is_object(found) else None
    return found if is_object(found) or isinstance(found, bool) else None


def _join(parts: list[JsonObject], node: _Node) -> JsonObject:
    """What satisfies all of them, as one; of annotations the last wins."""
    told: dict[str, list[Any]] = {}
    for part in parts:
        for keyword, value in part.items():
            told.setdefault(keyword, []).append(value)
    for rest, named in (("additionalProperties", "properties"), ("items", "prefixItems")):
        having = [part for part in parts if part.get(rest, True) is not True]
        if any(named in part for part in parts if having and part is not having[0]):
            node.note("changed", rest, f"{rest} is what is in none of the merged {named}")
    return {keyword: _join_values(keyword, values, node) for keyword, values in told.items()}


def _join_values(keyword: str, values: list[Any], node: _Node) -> Any:
    if keyword not in _CONSTRAINTS or all(value == values[0] for value in values):
        return values[-1]
    try:
        return _JOINS[keyword](values)
    except (KeyError, TypeError, ValueError):
        node.say(keyword, values[1:])
        node.note("dropped", keyword, "several of them cannot be merged")
        return values[0]


def _join_named(values: list[JsonObject]) -> JsonObject:
    told: dict[str, list[Any]] = {}
    for value in values:
        for name, item in {**value}.items():
            told.setdefault(name, []).append(item)
    return {name: _join_schemas(items) for name, items in told.items()}


def _join_schemas(schemas: list[Any]) -> Any:
    if any(schema is False for schema in schemas):
        return False
    if all(schema == schemas[0] for schema in schemas):
        return schemas[0]
    return {"allOf": [schema for schema in schemas if schema is not True]}


def _join_types(values: list[Any]) -> Any:
    sides = [{*as_list(value), *(["integer"] if "number" in as_list(value) else [])} for value in values]
    named = dict.fromkeys(chain(*map(as_list, values)))
    return _one_or_list([one for one in named if all(one in side for side in sides)])


def _join_enums(values: list[list[Any]]) -> list[Any]:
    sides = [{msgspec.json.encode(item) for item in value} for value in values]
    return as_list(
        _one_or_list([item for item in values[0] if all(msgspec.json.encode(item) in side for side in sides)])
    )


def as_list(value: object, /) -> list[Any]:
    """A list as it is, anything else as the only item of one.

    >>> as_list("string")
    ['string']
    """
    return value if is_list(value) else [value]


def _one_or_list(values: list[Any]) -> Any:
    if not values:
        raise ValueError("nothing in common")
    return values[0] if len(values) == 1 else values


_JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "allOf": lambda values: [*chain(*values)],
    "required": lambda values: [*dict.fromkeys(chain(*values))],
    "type": _join_types,
    "enum": _join_enums,
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _join_named),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _join_schemas),
    **dict.fromkeys("minimum exclusiveMinimum minLength minItems minProperties minContains".split(), max),
    **dict.fromkeys("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains".split(), min),
}


def _with_null(schema: JsonObject, node: _Node) -> JsonObject:
    """A copy; where OpenAPI's `nullable` is not known, with a null type instead."""
    own = dict(schema)
    if "nullable" not in own or node.knows("nullable"):
        return own
    node.note("renamed", "nullable", "no nullable; said by a null type")
    if own.pop("nullable") is not True:
        return own
    if "type" in own:
        own["type"] = [*dict.fromkeys([*_types(own), "null"])]
        if is_list(own.get("enum")) and None not in own["enum"]:
            own["enum"] = [*own["enum"], None]
        return own
    outside = {keyword: own.pop(keyword) for keyword in list(own) if keyword not in _CONSTRAINTS}
    return {**outside, "anyOf": [own, {"type": "null"}]}


def _const_as_enum(node: _Node, _: SchemaDialect) -> None:
    if node.lacks("const") and node.knows("enum"):
        value = node.keywords.pop("const")
        among = value in as_list(node.keywords.get("enum", value))
        node.keywords["enum"] = [value]
        node.note("renamed" if among else "changed", "const", "no const; said as enum")


def _one_of_as_any_of(node: _Node, _: SchemaDialect) -> None:
    if node.lacks("oneOf") and node.knows("anyOf") and "anyOf" not in node.keywords:
        node.keywords["anyOf"] = node.keywords.pop("oneOf")
        told_apart = "discriminator" in node.keywords
        node.note("renamed" if told_apart else "changed", "oneOf", "no oneOf; said as anyOf")


def _tuple_as_list(node: _Node, _: SchemaDialect) -> None:
    own = node.keywords
    if node.known is not None and is_list(own.get("items")):
        own["prefixItems"] = own.pop("items")
        own |= {"items": own.pop("additionalItems")} if "additionalItems" in own else {}
        node.note("renamed", "items", "a list of items is said as prefixItems")
    if not (node.lacks("prefixItems") and node.knows("items") and is_list(own["prefixItems"])):
        return
    rest = own.get("items", own.get("maxItems") != len(own["prefixItems"]))
    if rest is not True:
        own["items"] = {"anyOf": [*own["prefixItems"], *([rest] if rest else [])]}
        node.say("prefixItems", own.pop("prefixItems"))
        node.note("changed", "prefixItems", "no prefixItems; each item may be any of them")


def _exclusive_as_inclusive(node: _Node, _: SchemaDialect) -> None:
    own = node.keywords
    for keyword, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = own.get(keyword)
        if not node.lacks(keyword) or not node.knows(plain) or plain in own or type(bound) not in (int, float):
            continue
        whole = own.get("type") == "integer" and type(bound) is int
        own[plain] = own.pop(keyword) + (step if whole else 0)
        if not whole:
            node.say(keyword, bound)
        node.note("renamed" if whole else "changed", keyword, f"no {keyword}; said as {plain}")


def _type_of_enum(node: _Node, _: SchemaDialect) -> None:
    values = node.keywords.get("enum")
    if node.known is None or not node.knows("type") or not is_list(values) or not values:
        return
    if not (_SAYS_TYPE | {"oneOf", "allOf"}) & node.keywords.keys():
        node.keywords["type"] = _one_or_list([*dict.fromkeys(map(_json_type, values))])
        node.note("renamed", "enum", "an enum names its type")


def _types_of_enum(node: _Node, subset: SchemaDialect) -> None:
    own, values = node.keywords, node.keywords.get("enum")
    if subset.enums is None or not is_list(values):
        return
    alien = {_json_type(value).replace("integer", "number") for value in values} - subset.enums
    rest = [value for value in values if value is not None]
    if alien == {"null"} and rest and node.knows("anyOf") and "anyOf" not in own:
        own["enum"] = rest
        if "type" not in own or "null" in _types(own):
            del own["enum"]
            types = [one for one in _types(own) if one != "null"]
            own.pop("type", None)
            own["anyOf"] = [{**({"type": _one_or_list(types)} if types else {}), "enum": rest}, {"type": "null"}]
        node.note("renamed", "enum", "no null in an enum; said by anyOf")
    elif alien:
        node.drop("enum", f"no {' or '.join(sorted(alien))} in an enum")


def _types_apart(node: _Node, subset: SchemaDialect) -> None:
    own, types = node.keywords, _types(node.keywords)
    if subset.type_lists == "any" or len([one for one in types if one != "null"]) < 2:
        return
    if "anyOf" in own:
        node.drop("type", "a list of types only with null")
        return
    del own["type"]
    typed = [
        (one, {keyword: own[keyword] for keyword in own if keyword in _OF_TYPE.get(one, frozenset())}) for one in types
    ]
    for keyword in {keyword for _, keywords in typed for keyword in keywords}:
        del own[keyword]
    own["anyOf"] = [{"type": one, **keywords} for one, keywords in typed]
    node.note("renamed", "type", "a list of types only with null; said by anyOf")


def _limits(node: _Node, subset: SchemaDialect) -> None:
    own = node.keywords
    if "format" in own and subset.formats is not None and str(own["format"]) not in subset.formats:
        node.drop("format", f"no format {own['format']}")
    if subset.simple_patterns and any(found["hard"] for found in re.finditer(_NOT_SIMPLE, str(own.get("pattern", "")))):
        node.drop("pattern", "no lookaround, backreference or word boundary in a pattern")
    if subset.anchored_patterns and not re.fullmatch(r"\^.*\$", str(own.get("pattern", "^$")), re.DOTALL):
        node.drop("pattern", "a pattern begins with ^ and ends with $")
    least = own.get("minItems")
    if subset.min_items is not None and isinstance(least, int) and least > subset.min_items:
        own["minItems"] = subset.min_items
        node.say("minItems", least)
        node.note("changed", "minItems", f"minItems is at most {subset.min_items}")


def _unknown(node: _Node, subset: SchemaDialect) -> None:
    for keyword in [keyword for keyword in node.keywords if not node.knows(keyword)]:
        node.drop(keyword, f"no {keyword}{' here' if node.root else ''}")
    if node.said and subset.describe and node.knows("description"):
        words = node.keywords.get("description")
        node.keywords["description"] = "\n".join([*([words] if isinstance(words, str) else []), *node.said])


def _closed(node: _Node, subset: SchemaDialect) -> None:
    own, types = node.keywords, _types(node.keywords)
    if node.root and subset.root_object and types != ["object"]:
        if types and "object" not in types:
            raise Unsupported(f"{subset.name}: {node.place}: the root must be an object; put the schema into one")
        own["type"] = "object"
        node.note("changed", "type", "the root is an object")
    takes_objects = "object" in _types(own) or ("type" not in own and "properties" in own)
    if subset.closed and takes_objects and own.get("additionalProperties") is not False:
        whole = "properties" in own and "additionalProperties" not in own
        own["additionalProperties"] = False
        node.note("info" if whole else "changed", "additionalProperties", "every object is closed")


_RULES: tuple[Callable[[_Node, SchemaDialect], None], ...] = (
    _const_as_enum,
    _one_of_as_any_of,
    _tuple_as_list,
    _exclusive_as_inclusive,
    _type_of_enum,
    _types_of_enum,
    _types_apart,
    _limits,
    _unknown,
    _closed,
)
