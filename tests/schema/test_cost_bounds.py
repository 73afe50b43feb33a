"""What the validation of a value may cost is known before it starts."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.errors import InvalidRequest
from dragoman.schema import cost_bounds
from dragoman.schema.cost_bounds import (
    CompileBudget,
    backtracking_patterns,
    check_expansion,
    check_patterns,
    check_size,
    check_steps,
    pattern_steps,
)
from dragoman.schema.validate import schema_error, validate


def test_the_values_of_a_schema_are_counted() -> None:
    assert check_size({"enum": [1, 2], "items": {"type": "null"}}) == 5


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="a pattern must have at most"):
        check_size({"properties": {"a": {"pattern": "a" * (cost_bounds.MAX_PATTERN + 1)}}})


def test_a_long_pattern_of_names_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="a pattern must have at most"):
        check_size({"patternProperties": {"a" * (cost_bounds.MAX_PATTERN + 1): True}})
    check_size({"patternProperties": {"a": True}})
    check_size({"patternProperties": 3, "pattern": 3})


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"\S" * 5_000, id="many classes of spaces"),
        pytest.param(r"\w|" * 3_000, id="many classes"),
        pytest.param("." * cost_bounds.MAX_PATTERN, id="long"),
    ],
)
def test_a_pattern_that_costs_much_is_refused(pattern: str) -> None:
    steps = pattern_steps(pattern)
    limit = cost_bounds.MAX_PATTERN_STEPS
    patterns = [{"pattern": pattern + str(number)} for number in range(limit // steps + 1)]
    with pytest.raises(InvalidRequest, match="schema must have patterns that cost at most 300000 steps"):
        check_patterns({"anyOf": patterns})


@pytest.mark.parametrize(
    ("pattern", "repeats"),
    [
        ("a{3}", 3),
        ("a{3,}b{2,7}", 10),
        ("a{,}", 0),
        ("(a{3}){5}", 3 + 4 * len("(aaaa})")),
        ("(a{10}b{1}){10}", 164),
        ("(a{9}){0}b", 9),
        ("a{3}{4}", 3 + 3 * len("aaaa}")),
        ("(?x)(a{3}) {4}", 1_000),
        ("(?x)a b", 0),
        ("a{99999999999}", 10**9),
        ("((((a{9}){9}){9}){9})b{3}", 10**9),
    ],
)
def test_repeats_count(pattern: str, repeats: int) -> None:
    assert pattern_steps(pattern) == 8 * (len(pattern) + min(repeats, 1_000))


ADDRESS = r"^(\d{1,3}\.){3}\d{1,3}$"


def test_harmless_patterns_pass() -> None:
    """Equal patterns are compiled once, and small repetitions in one another are cheap."""
    equal: dict[str, Any] = {"properties": {f"p{n}": {"pattern": ADDRESS} for n in range(2_000)}}
    assert check_patterns(equal) == cost_bounds.MAX_PATTERN_STEPS - pattern_steps(ADDRESS)
    different: dict[str, Any] = {"properties": {f"p{n}": {"pattern": f"{ADDRESS}|{n:03}"} for n in range(400)}}
    assert check_size(different, limit_patterns=True) == 801
    assert schema_error(different) is None


def test_a_program_may_have_as_many_patterns_as_it_wants() -> None:
    expensive: dict[str, Any] = {"properties": {f"p{n}": {"pattern": r"\S" * 90 + str(n)} for n in range(5)}}
    with pytest.raises(InvalidRequest, match="shorten repeats"):
        check_size(expensive, limit_patterns=True)
    assert "shorten repeats" in (schema_error(expensive) or "")
    check_size(expensive)
    assert len(validate({"p0": "a"}, expensive)) == 1


def test_patterns_that_backtrack_are_counted() -> None:
    hard = {"pattern": r"(a)\1", "patternProperties": {"(?<!a)b": True, "a++": True, "^(?:a|b)$": {"pattern": "(?!x)"}}}
    assert backtracking_patterns({"items": hard}) == 4


def test_the_schemas_of_one_request_share_a_budget() -> None:
    budget = CompileBudget()
    schema = {"pattern": "." * 9_000}
    for _ in range(4):
        budget.use(schema)
    with pytest.raises(InvalidRequest, match="shorten repeats"):
        budget.use(schema)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_a_long_reference_is_refused(keyword: str) -> None:
    longest = "#/$defs/" + "a" * (cost_bounds.MAX_REF - 8)
    check_size({"items": {keyword: longest}, "properties": {keyword: {"type": "null"}}})
    with pytest.raises(InvalidRequest, match=r"must have at most 2000 characters, got 2001; shorten the name"):
        check_size({"items": {keyword: longest + "a"}})


LOOP: dict[str, Any] = {"$ref": "#"}
LEAF: dict[str, Any] = {"type": "null"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        pytest.param([1, 2], {"items": [LEAF, True]}, id="a schema for each item"),
        pytest.param([1, 2], {"items": LEAF, "prefixItems": [LEAF]}, id="one schema for all items"),
        pytest.param([1, 2], {"items": True}, id="a schema that allows everything"),
        pytest.param({"a": 1}, {"properties": {"a": LEAF, "b": LEAF}}, id="properties"),
        pytest.param({"a": 1}, {"patternProperties": {"a": LEAF}}, id="patterns of properties"),
        pytest.param({"a": 1}, {"additionalProperties": LEAF}, id="other properties"),
        pytest.param({"a": 1}, {"dependentSchemas": {"a": LEAF}}, id="schemas that depend on a property"),
        pytest.param(1, {"not": LEAF, "anyOf": [LEAF]}, id="schemas of the same value"),
        pytest.param(1, LOOP, id="a reference to itself"),
        pytest.param(1, {"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, id="a reference by name"),
        pytest.param(
            1, {"$ref": "other#/a", "$defs": {"o": {"$id": "other", "a": LEAF}}}, id="a reference to another base"
        ),
        pytest.param(
            1, {"$ref": "#name", "$ref2": 1, "$dynamicRef": "#name", "enum": [1]}, id="a name that nobody has"
        ),
    ],
)
def test_simple_schemas_pass(value: Any, schema: dict[str, Any]) -> None:
    check_steps(value, schema)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"items": {"anyOf": [{"type": "null"} for _ in range(60)]}}, id="many schemas for many items"),
        pytest.param({"anyOf": [{"items": {"not": LEAF}} for _ in range(60)]}, id="many walks over the items"),
    ],
)
def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any]) -> None:
    monkeypatch.setattr(cost_bounds, "MAX_STEPS", 1000)
    with pytest.raises(InvalidRequest, match="must be checked in at most 1000 steps"):
        check_steps([[number] for number in range(50)], schema)


# What the compilation of a schema costs ------------------------------------------------------------------------------

UNEVALUATED: dict[str, Any] = {"unevaluatedProperties": False}


def levels(count: int, level: Callable[[dict[str, Any]], dict[str, Any]], **root: Any) -> dict[str, Any]:
    """A schema of many levels; `level` makes one that refers to the next."""
    schemas = {f"d{n}": level({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return {**root, "allOf": [{"$ref": "#/$defs/d0"}], "$defs": {**schemas, f"d{count}": {}}}


def nested(count: int) -> dict[str, Any]:
    """`if` in `if`, each next to a keyword for what the others did not look at."""
    schema: dict[str, Any] = {}
    for _ in range(count):
        schema = {"unevaluatedItems": False, "if": schema, "then": {}}
    return schema


def circle(count: int) -> dict[str, Any]:
    """Each schema refers to all others."""
    refs = [{"$ref": f"#/$defs/d{n}"} for n in range(count)]
    return {**UNEVALUATED, "$ref": "#/$defs/d0", "$defs": {f"d{n}": {"anyOf": refs} for n in range(count)}}


TOO_LARGE = [
    pytest.param(levels(40, lambda ref: {"allOf": [ref, ref]}, **UNEVALUATED), id="allOf"),
    pytest.param(levels(40, lambda ref: {"anyOf": [ref, ref]}, **UNEVALUATED), id="anyOf"),
    pytest.param(levels(40, lambda ref: {"oneOf": [ref, ref]}, unevaluatedItems=False), id="oneOf, items"),
    pytest.param(levels(40, lambda ref: {"if": {}, "then": ref, "else": ref}, **UNEVALUATED), id="then and else"),
    pytest.param(levels(40, lambda ref: {"dependentSchemas": {"a": ref, "b": ref}}, **UNEVALUATED), id="dependent"),
    pytest.param(nested(40), id="if in if"),
    pytest.param(circle(40), id="a circle"),
    pytest.param(
        {**UNEVALUATED, "allOf": 1500 * [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": 1500 * [True]}}},
        id="many members, many times",
    ),
    pytest.param(
        {
            **UNEVALUATED,
            "allOf": 1500 * [{"$ref": "#/$defs/a"}],
            "$defs": {"a": {"properties": {f"p{n}": True for n in range(1500)}}},
        },
        id="many names, many times",
    ),
]


@pytest.mark.no_cover
@pytest.mark.parametrize("schema", TOO_LARGE)
def test_a_schema_that_compiles_too_long_is_refused(schema: dict[str, Any]) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequest, match="must look at 10000 subschemas or fewer, got more"):
        check_expansion(schema)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(levels(40, lambda ref: {"anyOf": [ref, ref]}), id="nothing unevaluated"),
        pytest.param(levels(8, lambda ref: {"anyOf": [ref, ref]}, **UNEVALUATED), id="few levels"),
        pytest.param(levels(900, lambda ref: {"allOf": [ref]}, **UNEVALUATED), id="many levels, one way"),
        pytest.param(levels(40, lambda ref: {"properties": {"a": ref, "b": ref}}, **UNEVALUATED), id="properties"),
        pytest.param({**UNEVALUATED, "$ref": "#", "if": True, "properties": 3, "anyOf": 3}, id="itself"),
        pytest.param({**UNEVALUATED, "$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, id="a name"),
    ],
)
def test_schemas_that_compile_fast_pass(schema: dict[str, Any]) -> None:
    check_expansion(schema)
