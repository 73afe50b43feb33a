"""A JSON Schema in, a value that satisfies it out: always the same one, with words and numbers of the prompt in it."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dragoman.demo.patterns import example_of
from dragoman.errors import InvalidRequest
from dragoman.schema.validate import schema_error, validate
from dragoman.types import JsonObject, is_list, is_object

Schema: TypeAlias = JsonObject | bool
DEEPEST = 4
"""Beyond this level only what must be there is filled in."""
END = 24
MAX_VALUES = 5_000
MAX_LETTERS = 10_000

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

_TELLING = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems")),
    ("string", ("pattern", "format", "minLength", "maxLength", "contentEncoding")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""Keywords that tell a type where none is given."""
_CONFLICTS = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})


def fill(schema: JsonObject, /, *, words: tuple[str, ...] = (), numbers: tuple[float, ...] = ()) -> Any:
    """A value for a schema; the first texts and numbers in it are those given, where they fit.

    >>> fill({"type": "object", "properties": {"port": {"type": "string"}}}, words=("Brest",))
    {'port': 'Brest'}
    """
    try:
        return _Filler(schema, words, numbers).value(schema, 0, "text")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, re.error) as error:
        raise InvalidRequest(f"the demo cannot fill this schema: {schema_error(schema) or error}") from error


class _Filler:
    def __init__(self, root: JsonObject, words: tuple[str, ...], numbers: tuple[float, ...]) -> None:
        self._root = root
        self._left = MAX_VALUES
        self._words = list(words)
        self._numbers = list(numbers)
        self._kinds: dict[str, Callable[[JsonObject, int, str], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "boolean": lambda _schema, _level, _name: True,
            "null": lambda _schema, _level, _name: None,
        }

    def value(self, schema: Schema, level: int, name: str) -> Any:
        """A value; `name` is what a text without any other rule will be."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it asks for more than {MAX_VALUES} values")
        if isinstance(schema, bool) or level > END:
            return name
        schema = self._flat(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._first_valid(iter(schema["enum"]), schema)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            return self._branch(schema, branches, level, name)
        if is_object(schema.get("if")):
            return self._conditional(schema, level, name)
        return self._kinds.get(self._kind(schema, level), self._string)(schema, level, name)

    def _flat(self, schema: JsonObject) -> JsonObject:
        """The same with what it refers to, and all that must hold at once, laid into it."""
        for _ in range(END):
            if isinstance(reference := schema.get("$ref"), str):
                schema = _joined(
                    {key: value for key, value in schema.items() if key != "$ref"}, self._target(reference)
                )
            elif is_list(parts := schema.get("allOf")):
                schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts:
                    schema = _joined(schema, self._flat(part) if is_object(part) else {})
            else:
                break
        return schema

    def _target(self, reference: str) -> JsonObject:
        found: Any = self._root
        for step in reference.removeprefix("#").split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if key:
                found = found.get(key) if is_object(found) else None
        return found if is_object(found) else {}

    def _is_valid(self, value: object, schema: JsonObject) -> bool:
        shared: JsonObject = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        return not validate(value, {**shared, **schema})

    def _first_valid(self, values: Iterator[Any], schema: JsonObject) -> Any:
        first: list[Any] = []
        for value in values:
            if self._is_valid(value, schema):
                return value
            first.append(value)
        return first[0] if first else None

    def _branch(self, schema: JsonObject, branches: list[Any], level: int, name: str) -> Any:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        flat = [self._flat(branch) for branch in branches if is_object(branch)]
        flat.sort(key=lambda branch: _weight(branch, deep=level >= DEEPEST))
        return self._first_valid((self.value(_joined(rest, branch), level + 1, name) for branch in flat), schema)

    def _conditional(self, schema: JsonObject, level: int, name: str) -> Any:
        rest = {key: value for key, value in schema.items() if key not in ("if", "then", "else")}
        ways = (
            _joined(_joined(rest, schema["if"]), _as_object(schema.get("then"))),
            _joined(rest, _as_object(schema.get("else"))),
        )
        return self._first_valid((self.value(way, level, name) for way in ways), schema)

    @staticmethod
    def _kind(schema: JsonObject, level: int) -> str:
        told = schema.get("type")
        if is_list(told):
            if level >= DEEPEST and "null" in told:
                return "null"
            return next((kind for kind in told if kind != "null"), "null")
        if isinstance(told, str):
            return told
        return next((kind for kind, keywords in _TELLING if schema.keys() & set(keywords)), "string")

    def _object(self, schema: JsonObject, level: int, _name: str) -> JsonObject:
        properties: dict[str, Any] = schema.get("properties") or {}
        required: list[str] = list(schema.get("required") or ())
        most = schema.get("maxProperties", math.inf)
        value: JsonObject = {}
        for name in sorted(properties, key=lambda name: name not in required):
            wanted = name in required or (level < DEEPEST and properties[name] is not False and len(required) <= most)
            if wanted and len(value) < most:
                value[name] = self.value(properties[name], level + 1, name)
        for name in required:
            if name not in value:
                value[name] = self.value(self._schema_of(name, schema), level + 1, name)
        number = 1
        while len(value) < schema.get("minProperties", 0) and number < 1000:
            name = self._new_name(schema, number)
            value.setdefault(name, self.value(self._schema_of(name, schema), level + 1, name))
            number += 1
        return {name: value[name] for name in [*(key for key in properties if key in value), *value]}

    @staticmethod
    def _schema_of(name: str, schema: JsonObject) -> Schema:
        patterned = _as_object(schema.get("patternProperties"))
        other = schema.get("additionalProperties")
        fitting: list[Schema] = [patterned[pattern] for pattern in patterned if re.search(pattern, name)]
        return fitting[0] if fitting else other if is_object(other) else {}

    def _new_name(self, schema: JsonObject, number: int) -> str:
        patterns = list(schema.get("patternProperties") or ())
        names = schema.get("propertyNames")
        if patterns:
            return example_of(patterns[0], number)
        return str(self.value({"type": "string", **names}, 1, f"key{number}")) if is_object(names) else f"key{number}"

    def _array(self, schema: JsonObject, level: int, name: str) -> list[Any]:
        first: list[Any] = schema.get("prefixItems") or []
        items = schema.get("items", True)
        contained = schema.get("contains")
        least = max(schema.get("minItems", 0), schema.get("minContains", 1) if contained is not None else 0)
        usual = max(least, len(first), 1 if level < DEEPEST and items is not False else 0)
        count = min(usual, schema.get("maxItems", usual))
        values: list[Any] = []
        for index in range(count):
            part = first[index] if index < len(first) else contained if contained is not None else items
            values.append(self._distinct(part, values, level, name, unique=bool(schema.get("uniqueItems"))))
        return values

    def _distinct(self, schema: Schema, others: list[Any], level: int, name: str, *, unique: bool) -> Any:
        value = self.value(schema, level + 1, name.removesuffix("s") or name)
        if not unique or value not in others or isinstance(schema, bool):
            return value
        for option in schema.get("enum") or ():
            if option not in others:
                return option
        for number in range(2, 1000):
            value = self.value(_moved(self._flat(schema), number), level + 1, f"{name}{number}")
            if value not in others:
                return value
        return value

    def _string(self, schema: JsonObject, _level: int, name: str) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        if least > MAX_LETTERS:
            raise ValueError(f"it asks for a text of more than {MAX_LETTERS} letters")
        if isinstance(pattern := schema.get("pattern"), str):
            texts = (example_of(pattern, size) for size in (1, least, 2, 3, 5, 8))
            return str(self._first_valid(texts, schema))
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        text: str = self._words.pop(0) if self._words and least <= len(self._words[0]) <= most else name
        text += "x" * max(0, least - len(text))
        return text if most == math.inf else text[: int(most)]

    def _number(self, schema: JsonObject, _level: int, _name: str) -> float:
        whole = schema.get("type") == "integer" or (is_list(kinds := schema.get("type")) and "integer" in kinds)
        step = schema.get("multipleOf") or 1
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        tries: list[float] = [*self._numbers[:1], 1, 0]
        for edge, sign in ((low, 1), (high, -1)):
            if edge is not None:
                nearest = math.ceil(edge / step) * step if sign > 0 else math.floor(edge / step) * step
                tries += [edge, nearest, nearest + sign * step, edge + sign]
        tries += [step, -step]
        if low is not None and high is not None:
            tries.append((low + high) / 2)
        exact = [int(number) if float(number).is_integer() else number for number in tries]
        kind = {**schema, "type": "integer" if whole else "number"}
        value = self._first_valid(iter(exact), {key: kind[key] for key in kind if key not in ("anyOf", "oneOf")})
        if self._numbers and value == self._numbers[0]:
            self._numbers.pop(0)
        return float(value) if isinstance(value, float) else int(value)


def _as_object(schema: object) -> JsonObject:
    return schema if is_object(schema) else {}


def _weight(branch: JsonObject, *, deep: bool) -> int:
    """What is tried first: anything but null; deep down null, and what has nothing inside."""
    kind = branch.get("type")
    if not deep:
        return int(kind == "null")
    return 0 if kind == "null" else 1 if kind not in ("object", "array") and "properties" not in branch else 2


def _joined(left: JsonObject, right: JsonObject) -> JsonObject:
    """Both at once; of two limits the tighter one."""
    both = {**right, **left}
    for key in left.keys() & right.keys():
        mine, theirs = left[key], right[key]
        if key in ("properties", "patternProperties") and is_object(mine) and is_object(theirs):
            shared = {name: {"allOf": [mine[name], theirs[name]]} for name in mine.keys() & theirs.keys()}
            both[key] = {**theirs, **mine, **shared}
        elif key == "required":
            both[key] = [*mine, *(name for name in theirs if name not in mine)]
        elif key == "enum":
            both[key] = [option for option in mine if option in theirs]
        elif key == "type" and mine != theirs:
            kinds = [
                kind for kind in _listed(mine) if kind in _listed(theirs) or (kind, theirs) == ("integer", "number")
            ]
            both[key] = "integer" if not kinds and (mine, theirs) == ("number", "integer") else kinds
        elif isinstance(mine, int | float) and isinstance(theirs, int | float):
            both[key] = max(mine, theirs) if key in _CONFLICTS else min(mine, theirs)
    return both


def _listed(value: Any) -> list[Any]:
    return value if is_list(value) else [value]


def _moved(schema: JsonObject, number: int) -> JsonObject:
    """The same with another least number or length, so that its value is another."""
    kind = schema.get("type")
    if kind in ("integer", "number"):
        least: float = schema.get("minimum") or schema.get("exclusiveMinimum") or 0
        return {**schema, "minimum": least + number}
    return schema
