"""What the validation of a value may cost is known before it starts."""

from typing import Any

import pytest

from dragoman.errors import InvalidRequest
from dragoman.schema import limits
from dragoman.schema.limits import check_size, check_steps


def test_the_values_of_a_schema_are_counted() -> None:
    assert check_size({"enum": [1, 2], "items": {"type": "null"}}) == 5


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="a pattern must have at most"):
        check_size({"properties": {"a": {"pattern": "a" * (limits.MAX_PATTERN + 1)}}})


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
    monkeypatch.setattr(limits, "MAX_STEPS", 1000)
    with pytest.raises(InvalidRequest, match="must be checked in at most 1000 steps"):
        check_steps([[number] for number in range(50)], schema)
