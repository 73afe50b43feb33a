"""Bounds for work on a schema that somebody else wrote: a small schema can cost any amount of time.

`check_size` bounds what is linear in the schema. `check_steps` bounds the validation of a value: it counts how often a
validator looks at a subschema, without doing it. A subschema that is reached several times for the same value (through
`$ref`) is counted once and multiplied, so that counting is cheap even if validating would take years.
`check_expansion` and `check_patterns` bound the compilation. For `unevaluatedProperties` and `unevaluatedItems`,
jsonschema-rs (0.60) compiles each subschema of the same value again for each way that leads to it. It copies a pattern
once for each `\\d`, `\\w` or `\\s`, and a repeated part as often as it is repeated. Patterns are only counted in
schemas that a client of the gateway or of the demo sends: a program may write patterns that cost more.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from dragoman.errors import InvalidRequest
from dragoman.schema.traverse import resolve_pointer
from dragoman.types import JsonObject, is_list, is_object

MAX_SIZE = 20_000
"""Objects, lists and values in one schema."""
MAX_PATTERN = 10_000
"""Characters of a `pattern`."""
MAX_REF = 2_000
"""Characters of a `$ref`, which is read each time that it is followed."""
MAX_STEPS = 200_000
"""Subschemas that the validation of one value may look at."""
MAX_EXPANSION = 10_000
"""Subschemas that all `unevaluatedProperties` and `unevaluatedItems` of one schema may look at."""
MAX_PATTERN_STEPS = 300_000
"""What compiling all patterns of one schema may cost; a step takes up to a microsecond."""
_STEPS_PER_CHARACTER = 8
_MAX_REPEATS = 1_000
"""Characters after which a repeated pattern is too large to be compiled."""
_IGNORES_SPACE = re.compile(r"\(\?[a-zA-Z]*x")
"""The start of a pattern where spaces and comments may stand in a repetition, and before it."""
_REPEAT = re.compile(r"(?P<nested>[)}*+?])?\{(?P<least>\d*)(?:,(?P<most>\d*))?")
_SHORT_CLASS = re.compile(r"\\[dDwW]")
_LONG_CLASS = re.compile(r"\\[sS]")
_LONG_CLASS_COPIES = 5
"""A `\\s` or `\\S` takes about five times as long to compile as a `\\d` or `\\w` (measured)."""
_BACKTRACKING = re.compile(r"\\[1-9k]|\(\?(?:[=!>]|<[=!]|P[=>])|[*+?}]\+")
_NAMES_PER_STEP = 8
"""Names of properties, or members of a list, that cost as much as one subschema."""
_CONTAINERS = (dict, list)
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE = ("not", "if", "then", "else")
_NAMED_PROPERTIES = ("properties", "patternProperties")
_EACH_ITEM = ("items", "contains", "additionalItems", "unevaluatedItems")
_EACH_PROPERTY = ("additionalProperties", "unevaluatedProperties", "propertyNames")


def check_size(schema: JsonObject, /, *, limit_patterns: bool = False) -> int:
    """The number of values in a schema; raises InvalidRequest if it is too large to be worked on.

    With `limit_patterns`, it also raises what `check_patterns` raises, without another walk.

    >>> check_size({"enum": list(range(30_000))})
    Traceback (most recent call last):
    dragoman.errors.InvalidRequest: a schema must have at most 20000 values, got more; make it smaller
    """
    remaining = MAX_SIZE
    patterns: set[str] = set()
    open_values: list[Any] = [schema]
    while open_values:
        value = open_values.pop()
        children = value.values() if is_object(value) else value
        if is_object(value) and ("pattern" in value or "patternProperties" in value):
            patterns.update(_short_patterns(value))
        if is_object(value):
            _check_refs(value)
        remaining -= len(children)
        if remaining < 0:
            raise InvalidRequest(f"a schema must have at most {MAX_SIZE} values, got more; make it smaller")
        open_values += [child for child in children if isinstance(child, _CONTAINERS)]
    if limit_patterns:
        _use_steps(patterns, MAX_PATTERN_STEPS)
    return MAX_SIZE - remaining


def _short_patterns(schema: JsonObject) -> Iterator[str]:
    for pattern in _own_patterns(schema):
        if len(pattern) > MAX_PATTERN:
            raise InvalidRequest(f"a pattern must have at most {MAX_PATTERN} characters, got {len(pattern)}")
        yield pattern


def _own_patterns(schema: JsonObject) -> Iterator[str]:
    names = schema.get("patternProperties")
    for pattern in (schema.get("pattern"), *(names if is_object(names) else ())):
        if isinstance(pattern, str):
            yield pattern


def check_patterns(schema: JsonObject, remaining: int = MAX_PATTERN_STEPS, /) -> int:
    """What remains of the steps after the patterns of a schema; raises InvalidRequest if they cost more.

    Equal patterns are compiled once.

    >>> check_patterns({"pattern": r"\\S" * 5000})
    Traceback (most recent call last):
    dragoman.errors.InvalidRequest: schema must have patterns that cost at most 300000 steps, got more; shorten repeats
    """
    return _use_steps({pattern for node in _objects(schema) for pattern in _own_patterns(node)}, remaining)


def _use_steps(patterns: set[str], remaining: int) -> int:
    for pattern in patterns:
        remaining -= pattern_steps(pattern)
        if remaining < 0:
            raise InvalidRequest(
                f"schema must have patterns that cost at most {MAX_PATTERN_STEPS} steps, got more; shorten repeats"
            )
    return remaining


def pattern_steps(pattern: str, /) -> int:
    """What it costs to compile a pattern.

    >>> pattern_steps("^[a-z]+$"), pattern_steps("^[a-z]{1,64}$"), pattern_steps(r"^\\d+$")
    (64, 616, 45)
    """
    copies = len(_SHORT_CLASS.findall(pattern)) + _LONG_CLASS_COPIES * len(_LONG_CLASS.findall(pattern))
    return len(pattern) * (_STEPS_PER_CHARACTER + copies) + _STEPS_PER_CHARACTER * _repeats(pattern)


def _repeats(pattern: str) -> int:
    """How many characters the repetitions of a pattern add, at most `_MAX_REPEATS`.

    A repeated group counts as all that stands before it: that is never too little, and needs no search for its start.
    """
    if "{" in pattern and _IGNORES_SPACE.search(pattern):
        return _MAX_REPEATS
    size = added = end = 0
    for match in _REPEAT.finditer(pattern):
        count = max(int(digits[:5] or 0) for digits in (match["least"], match["most"] or ""))
        size += match.start("least") - 1 - end
        more = size * max(count - 1, 0) if match["nested"] is not None else count
        size, added, end = size + more, added + more, match.end()
        if added >= _MAX_REPEATS:
            return _MAX_REPEATS
    return added


def backtracking_patterns(schema: JsonObject, /) -> int:
    """How many patterns of a schema look around or refer back, so that a match may take many steps.

    >>> backtracking_patterns({"pattern": "^(?=a)b", "items": {"pattern": "^(?:a|b)$"}})
    1
    """
    return sum(bool(_BACKTRACKING.search(pattern)) for node in _objects(schema) for pattern in _own_patterns(node))


def _check_refs(schema: JsonObject) -> None:
    for keyword in _REFS:
        ref = schema.get(keyword)
        if isinstance(ref, str) and len(ref) > MAX_REF:
            raise InvalidRequest(f"{keyword} must have at most {MAX_REF} characters, got {len(ref)}; shorten the name")


def check_steps(value: object, schema: JsonObject, /) -> None:
    """Raise InvalidRequest if the validation of a value would take too many steps.

    >>> doubled = {f"d{n}": {"allOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)}
    >>> check_steps(1, {"$ref": "#/$defs/d0", "$defs": doubled})
    Traceback (most recent call last):
    dragoman.errors.InvalidRequest: a schema must be checked in at most 200000 steps, got more; make it simpler
    """
    if _StepCounter(schema).count(value, schema) > MAX_STEPS:
        raise _too_many_steps()


def check_expansion(schema: JsonObject, remaining: int = MAX_EXPANSION, /) -> int:
    """What remains of the subschemas after `unevaluatedProperties` and `unevaluatedItems`; raises InvalidRequest.

    >>> doubled = {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)}
    >>> check_expansion({"$ref": "#/$defs/d0", "unevaluatedItems": False, "$defs": doubled})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dragoman.errors.InvalidRequest: unevaluatedProperties and unevaluatedItems must look at 10000 ...
    """
    counter: _StepCounter | None = None
    for node in _objects(schema):
        if node.keys() & _UNEVALUATED:
            counter = counter or _StepCounter(schema)
            remaining = counter.expand(node, remaining)
    return remaining


class CompileBudget:
    """What remains for the schemas of one request, which are compiled one after the other."""

    def __init__(self) -> None:
        self._expansion = MAX_EXPANSION
        self._pattern_steps = MAX_PATTERN_STEPS

    def use(self, schema: JsonObject, /) -> None:
        """Raise InvalidRequest if the schema costs more than what remains.

        Then nothing remains for the next ones: to count each of them up to the limit would take long, too.
        """
        pattern_steps, self._pattern_steps = self._pattern_steps, 0
        self._pattern_steps = check_patterns(schema, pattern_steps)
        expansion, self._expansion = self._expansion, 0
        self._expansion = check_expansion(schema, expansion)


def _too_many_steps() -> InvalidRequest:
    return InvalidRequest(f"a schema must be checked in at most {MAX_STEPS} steps, got more; make it simpler")


class _StepCounter:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._counts: dict[tuple[int, int], int] = {}
        self._followed = 0
        self._named: list[JsonObject] | None = None

    def count(self, value: object, schema: object) -> int:
        if not is_object(schema):
            return 1
        pair = id(value), id(schema)
        if pair in self._counts:
            return self._counts[pair]
        self._counts[pair] = 1  # a schema that leads back to itself with the same value is not followed again
        steps = 1
        for child_value, child in self._children(value, schema):
            self._followed += 1
            if self._followed >= MAX_STEPS:  # each is at least one step
                raise _too_many_steps()
            steps += self.count(child_value, child)
        self._counts[pair] = steps
        return steps

    def expand(self, schema: JsonObject, remaining: int) -> int:
        """Follow every way to a subschema of the same value; returns what remains of the steps."""
        path: set[int] = set()
        """The subschemas on the way to this one: none is followed inside itself."""
        # A schema is at the end of the list twice: above its children to enter it, and below them to leave it.
        open_schemas: list[tuple[JsonObject, bool]] = [(schema, True)]
        while open_schemas:
            node, is_entry = open_schemas.pop()
            if not is_entry:
                path.discard(id(node))
                continue
            children = [*self._same_value(node), *_dependent(node)]
            if node.keys() & _UNEVALUATED and "if" in node:
                children.append(node["if"])  # it is validated once more, to know which of `then` and `else` counts
            names = sum(len(each) for key in _NAMED_PROPERTIES if is_object(each := node.get(key)))
            remaining -= 1 + (len(children) + names) // _NAMES_PER_STEP
            if remaining < 0:
                raise InvalidRequest(
                    f"unevaluatedProperties and unevaluatedItems must look at {MAX_EXPANSION} subschemas or fewer, "
                    "got more; make the schema simpler"
                )
            if id(node) in path:
                continue
            path.add(id(node))
            open_schemas.append((node, False))
            open_schemas += ((child, True) for child in children if is_object(child))
        return remaining

    def _same_value(self, schema: JsonObject) -> Iterator[object]:
        for keyword in _REFS:
            if isinstance(ref := schema.get(keyword), str):
                yield from self._targets(unquote(ref))
        for keyword in _SAME_VALUE_LISTS:
            if is_list(members := schema.get(keyword)):
                yield from members
        for keyword in _SAME_VALUE:
            if keyword in schema:
                yield schema[keyword]

    def _children(self, value: object, schema: JsonObject) -> Iterator[tuple[object, object]]:
        yield from ((value, child) for child in self._same_value(schema))
        if is_object(value):
            yield from self._object_children(value, schema)
        elif is_list(value):
            for keyword in ("prefixItems", *_EACH_ITEM):
                items = schema.get(keyword)
                if is_list(items):
                    yield from zip(value, items, strict=False)
                elif is_object(items):
                    yield from ((item, items) for item in value)

    def _object_children(self, value: JsonObject, schema: JsonObject) -> Iterator[tuple[object, object]]:
        properties = schema.get("properties")
        if is_object(properties):
            yield from ((value[name], item) for name, item in properties.items() if name in value)
        patterns = schema.get("patternProperties")
        for item in patterns.values() if is_object(patterns) else ():
            yield from ((each, item) for each in value.values())
        for keyword in _EACH_PROPERTY:
            if keyword in schema:
                yield from ((each, schema[keyword]) for each in value.values())
        yield from ((value, item) for item in _dependent(schema))

    def _targets(self, ref: str) -> Iterator[object]:
        """What a reference may mean: a pointer is one schema; a name counts as all schemas that have a name."""
        base, _, fragment = ref.partition("#")
        is_pointer = fragment.startswith("/") or not fragment
        if not base and is_pointer:
            yield resolve_pointer(self._root, ref)
            return
        if self._named is None:
            self._named = [node for node in _objects(self._root) if node is self._root or node.keys() & _NAMES]
        yield from (resolve_pointer(node, f"#{fragment}") if is_pointer else node for node in self._named)


def _dependent(schema: JsonObject) -> Iterator[object]:
    for keyword in ("dependentSchemas", "dependencies"):
        if is_object(dependent := schema.get(keyword)):
            yield from dependent.values()


def _objects(root: JsonObject) -> Iterator[JsonObject]:
    open_values: list[object] = [root]
    while open_values:
        value = open_values.pop()
        if is_object(value):
            yield value
            open_values += value.values()
        elif is_list(value):
            open_values += value
