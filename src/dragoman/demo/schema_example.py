"""Makes an example value for a JSON Schema: always the same one, with words and numbers of the prompt in it.

It follows references and combinations (allOf, anyOf, oneOf, if), then builds a value by type. A `pattern` is not
analysed: a few simple texts are tried. A schema without an example is refused with InvalidRequest. The number of steps
is limited, because a small schema can describe a huge value.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from dragoman.errors import InvalidRequest
from dragoman.schema.cost_bounds import MAX_PATTERN_STEPS, backtracking_patterns, check_patterns, check_size
from dragoman.schema.traverse import as_list
from dragoman.schema.validate import schema_error, validate
from dragoman.types import JsonObject, is_list, is_object
from dragoman.wires.common.json import encode_json, object_of

Schema: TypeAlias = JsonObject | bool
MAX_OPTIONAL_DEPTH = 4
"""Below this level, only required properties get a value."""
MAX_DEPTH = 24
MAX_STEPS = 5_000
MAX_TEXT_LENGTH = 10_000
MAX_BACKTRACKS = 1_000
MAX_BACKTRACKED_TEXT = 500
"""Characters of a text for a pattern that looks around or refers back: it may read the text once per character."""
STEPS_OF_BACKTRACKING = 20

FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1DT2H",
    "email": "demo@example.org",
    "idn-email": "demo@example.org",
    "hostname": "example.org",
    "idn-hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/demo",
    "iri": "https://example.org/demo",
    "uri-reference": "/demo",
    "iri-reference": "/demo",
    "uri-template": "https://example.org/{demo}",
    "url": "https://example.org/demo",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/demo",
    "relative-json-pointer": "0",
    "regex": "^demo$",
    "byte": "ZGVtbw==",
    "base64": "ZGVtbw==",
}
_PATTERN_CANDIDATES = (*(letter * count for count in range(1, 17) for letter in "aA0"), *FORMATS.values())
"""Texts to try for a `pattern`."""

_TYPE_KEYWORDS = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems")),
    ("string", ("pattern", "format", "minLength", "maxLength", "contentEncoding")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""Keywords that imply a type if the schema names none."""
_LOWER_BOUNDS = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})


def example_value(schema: JsonObject, /, *, words: tuple[str, ...] = (), numbers: tuple[float, ...] = ()) -> Any:
    """Make an example value. It uses the words and numbers first, if they fit.

    >>> example_value({"type": "object", "properties": {"port": {"type": "string"}}}, words=("Brest",))
    {'port': 'Brest'}
    """
    try:
        return _ExampleBuilder(schema, words, numbers).value(schema, 0, "text")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, re.error) as error:
        raise InvalidRequest(f"the demo cannot fill this schema: {schema_error(schema) or error}") from error


class _ExampleBuilder:
    def __init__(self, root: JsonObject, words: tuple[str, ...], numbers: tuple[float, ...]) -> None:
        self._root = root
        self._remaining_steps = MAX_STEPS
        self._size = check_size(root)
        self._words = list(words)
        self._numbers = list(numbers)

    def value(self, schema: Schema, level: int, name: str) -> Any:
        """Make a value; `name` is the text for a string without other rules."""
        self._count_step()
        if isinstance(schema, bool) or level > MAX_DEPTH:
            return name
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._first_valid(iter(schema["enum"]), schema)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            return self._branch(schema, branches, level, name)
        if is_object(schema.get("if")):
            return self._conditional(schema, level, name)
        return self._of_type(_type_of(schema, level), schema, level, name)

    def _of_type(self, kind: object, schema: JsonObject, level: int, name: str) -> Any:
        match kind:
            case "object":
                return self._object(schema, level, name)
            case "array":
                return self._array(schema, level, name)
            case "integer" | "number":
                return self._number(schema, level, name)
            case "boolean":
                return True
            case "null":
                return None
            case str():
                return self._string(schema, level, name)
            case _:
                raise TypeError("type must be a string")

    def _count_step(self, steps: int = 1) -> None:
        self._remaining_steps -= steps
        if self._remaining_steps < 0:
            raise ValueError(f"it needs more than {MAX_STEPS} steps")

    def _resolve(self, schema: JsonObject) -> JsonObject:
        """Merge the schemas behind `$ref` and `allOf` into this one."""
        for _ in range(MAX_DEPTH):
            self._count_step()
            if isinstance(reference := schema.get("$ref"), str):
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = _merge(rest, self._definition(reference))
            elif is_list(parts := schema.get("allOf")):
                schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts:
                    schema = _merge(schema, self._resolve(part) if is_object(part) else {})
            else:
                break
        return schema

    def _definition(self, reference: str) -> JsonObject:
        node: Any = self._root
        for step in reference.removeprefix("#").split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if key:
                node = node.get(key) if is_object(node) else None
        return node if is_object(node) else {}

    def _is_valid(self, value: object, schema: JsonObject) -> bool:
        definitions: JsonObject = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        # The validator reads the whole schema each time.
        whole = {**definitions, **schema}
        compiling = (MAX_PATTERN_STEPS - check_patterns(whole)) // 100
        self._count_step(1 + self._size // 100 + compiling + self._backtracking_steps(value, whole))
        return not validate(value, whole, backtracks=MAX_BACKTRACKS)

    def _backtracking_steps(self, value: object, schema: JsonObject) -> int:
        patterns = backtracking_patterns(schema)
        if not patterns:
            return 0
        texts = _texts(value)
        if max(map(len, texts), default=0) > MAX_BACKTRACKED_TEXT:
            raise ValueError(f"a pattern that looks around needs a text of at most {MAX_BACKTRACKED_TEXT} characters")
        return STEPS_OF_BACKTRACKING * patterns * len(texts)

    def _first_valid(self, values: Iterator[Any], schema: JsonObject) -> Any:
        invalid: list[Any] = []
        for value in values:
            if self._is_valid(value, schema):
                return value
            invalid.append(value)
        return invalid[0] if invalid else None

    def _branch(self, schema: JsonObject, branches: list[Any], level: int, name: str) -> Any:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        resolved = [self._resolve(branch) for branch in branches if is_object(branch)]
        resolved.sort(key=lambda branch: _branch_rank(branch, is_deep=level >= MAX_OPTIONAL_DEPTH))
        return self._first_valid((self.value(_merge(rest, branch), level + 1, name) for branch in resolved), schema)

    def _conditional(self, schema: JsonObject, level: int, name: str) -> Any:
        rest = {key: value for key, value in schema.items() if key not in ("if", "then", "else")}
        branches = (
            _merge(_merge(rest, schema["if"]), object_of(schema.get("then"))),
            _merge(rest, object_of(schema.get("else"))),
        )
        return self._first_valid((self.value(branch, level, name) for branch in branches), schema)

    def _object(self, schema: JsonObject, level: int, _name: str) -> JsonObject:
        properties: dict[str, Any] = schema.get("properties") or {}
        required: list[str] = list(schema.get("required") or ())
        maximum = schema.get("maxProperties", math.inf)
        can_have_optional = level < MAX_OPTIONAL_DEPTH and len(required) <= maximum
        value: JsonObject = {}
        needed = set(required)
        for name in sorted(properties, key=lambda name: name not in needed):
            is_wanted = name in needed or (can_have_optional and properties[name] is not False)
            if is_wanted and len(value) < maximum:
                value[name] = self.value(properties[name], level + 1, name)
        for name in required:
            if name not in value:
                value[name] = self.value(self._schema_of_extra(name, schema), level + 1, name)
        number = 1
        while len(value) < schema.get("minProperties", 0) and number < 1000:
            name = self._new_name(schema, number)
            value.setdefault(name, self.value(self._schema_of_extra(name, schema), level + 1, name))
            number += 1
        return {name: value[name] for name in [*(key for key in properties if key in value), *value]}

    def _schema_of_extra(self, name: str, schema: JsonObject) -> Schema:
        """The schema of a property that is not in `properties`."""
        by_pattern = object_of(schema.get("patternProperties"))
        for pattern, item in by_pattern.items():
            if self._is_valid(name, {"pattern": pattern}):
                matching: Schema = item
                return matching
        other = schema.get("additionalProperties")
        return other if is_object(other) else {}

    def _new_name(self, schema: JsonObject, number: int) -> str:
        patterns = list(schema.get("patternProperties") or ())
        if patterns:
            return self._matching({"type": "string", "pattern": patterns[0]}, f"key{number}")
        names = schema.get("propertyNames")
        return str(self.value({"type": "string", **names}, 1, f"key{number}")) if is_object(names) else f"key{number}"

    def _array(self, schema: JsonObject, level: int, name: str) -> list[Any]:
        first: list[Any] = schema.get("prefixItems") or []
        items = schema.get("items", True)
        contained = schema.get("contains")
        minimum = max(schema.get("minItems", 0), schema.get("minContains", 1) if contained is not None else 0)
        usual = max(minimum, len(first), 1 if level < MAX_OPTIONAL_DEPTH and items is not False else 0)
        count = min(usual, schema.get("maxItems", usual))
        values: list[Any] = []
        for index in range(count):
            item = first[index] if index < len(first) else contained if contained is not None else items
            values.append(self._item(item, values, level, name, is_unique=bool(schema.get("uniqueItems"))))
        return values

    def _item(self, schema: Schema, others: list[Any], level: int, name: str, *, is_unique: bool) -> Any:
        value = self.value(schema, level + 1, name.removesuffix("s") or name)
        if not is_unique or value not in others or isinstance(schema, bool):
            return value
        for option in schema.get("enum") or ():
            if option not in others:
                return option
        for number in range(2, 1000):
            value = self.value(_with_higher_minimum(self._resolve(schema), number), level + 1, f"{name}{number}")
            if value not in others:
                return value
        return value

    def _string(self, schema: JsonObject, _level: int, name: str) -> str:
        minimum, maximum = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        if minimum > MAX_TEXT_LENGTH:
            raise ValueError(f"it needs a text of more than {MAX_TEXT_LENGTH} characters")
        if isinstance(schema.get("pattern"), str):
            return self._matching(schema, name)
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        text: str = self._words.pop(0) if self._words and minimum <= len(self._words[0]) <= maximum else name
        text += "x" * max(0, minimum - len(text))
        return text if maximum == math.inf else text[: int(maximum)]

    def _matching(self, schema: JsonObject, name: str) -> str:
        """Try simple texts for a pattern: the schema's own examples, the pattern itself, the prompt's words, runs."""
        pattern: str = schema["pattern"]
        own = [*as_list(schema.get("examples", [])), schema.get("default"), pattern.strip("^$")]
        for text in (*own, *self._words, name, *_PATTERN_CANDIDATES):
            if isinstance(text, str) and self._is_valid(text, schema):
                return text
        raise ValueError(f"no simple text matches the pattern {pattern!r}; add one to the schema as 'examples'")

    def _number(self, schema: JsonObject, _level: int, _name: str) -> float:
        is_integer = "integer" in as_list(schema.get("type"))
        step = schema.get("multipleOf") or 1
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        candidates: list[float] = [*self._numbers[:1], 1, 0]
        for edge, sign in ((low, 1), (high, -1)):
            if edge is not None:
                nearest = math.ceil(edge / step) * step if sign > 0 else math.floor(edge / step) * step
                candidates += [edge, nearest, nearest + sign * step, edge + sign]
        candidates += [step, -step]
        if low is not None and high is not None:
            candidates.append((low + high) / 2)
        exact = [int(number) if float(number).is_integer() else number for number in candidates]
        rules = {key: rule for key, rule in schema.items() if key not in ("anyOf", "oneOf")}
        value = self._first_valid(iter(exact), {**rules, "type": "integer" if is_integer else "number"})
        if self._numbers and value == self._numbers[0]:
            self._numbers.pop(0)
        return float(value) if isinstance(value, float) else int(value)


def _texts(value: object) -> list[str]:
    """The texts and the names of properties in a value."""
    texts: list[str] = []
    open_values: list[object] = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, str):
            texts.append(one)
        elif is_object(one):
            open_values += [*one, *one.values()]
        elif is_list(one):
            open_values += one
    return texts


def _type_of(schema: JsonObject, level: int) -> str:
    types = schema.get("type")
    if is_list(types):
        if level >= MAX_OPTIONAL_DEPTH and "null" in types:
            return "null"
        return next((one for one in types if one != "null"), "null")
    if isinstance(types, str):
        return types
    return next((one for one, keywords in _TYPE_KEYWORDS if schema.keys() & set(keywords)), "string")


def _branch_rank(branch: JsonObject, *, is_deep: bool) -> int:
    """Order branches: null comes last, but deep down it comes first, and objects and arrays come last."""
    kind = branch.get("type")
    if not is_deep:
        return int(kind == "null")
    return 0 if kind == "null" else 1 if kind not in ("object", "array") and "properties" not in branch else 2


def _merge(left: JsonObject, right: JsonObject) -> JsonObject:
    """Merge two schemas that must both hold; of two limits the stricter one stays."""
    both = {**right, **left}
    for key in left.keys() & right.keys():
        mine, theirs = left[key], right[key]
        if key in ("properties", "patternProperties") and is_object(mine) and is_object(theirs):
            shared = {name: {"allOf": [mine[name], theirs[name]]} for name in mine.keys() & theirs.keys()}
            both[key] = {**theirs, **mine, **shared}
        elif key == "required":
            both[key] = [*dict.fromkeys([*mine, *theirs])]
        elif key == "enum":
            both[key] = _common(as_list(mine), as_list(theirs))
        elif key == "type" and mine != theirs:
            types = [one for one in as_list(mine) if one in as_list(theirs) or (one, theirs) == ("integer", "number")]
            both[key] = "integer" if not types and (mine, theirs) == ("number", "integer") else types
        elif isinstance(mine, int | float) and isinstance(theirs, int | float):
            both[key] = max(mine, theirs) if key in _LOWER_BOUNDS else min(mine, theirs)
    return both


def _common(mine: list[Any], theirs: list[Any]) -> list[Any]:
    known = {encode_json(option) for option in theirs}
    return [option for option in mine if encode_json(option) in known]


def _with_higher_minimum(schema: JsonObject, number: int) -> JsonObject:
    """Raise the minimum of a number, so that its example differs."""
    if schema.get("type") not in ("integer", "number"):
        return schema
    minimum: float = schema.get("minimum") or schema.get("exclusiveMinimum") or 0
    return {**schema, "minimum": minimum + number}
