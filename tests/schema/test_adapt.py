"""A schema is adapted to the dialect of a provider, with a notice for each change."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import InvalidRequest, RequestError, Unsupported
from dragoman.schema import adapt as module
from dragoman.schema.adapt import SchemaDialect, adapt
from dragoman.schema.output_type import OutputType
from dragoman.schema.strict import is_strict
from dragoman.schema.traverse import subschemas
from dragoman.schema.validate import validate
from dragoman.types import JsonObject, Notice
from tests.support.output_types import STRING, Leaf, Point, an_object

ANTHROPIC = SchemaDialect(
    name="anthropic",
    keywords=frozenset(
        "$defs $ref type title description default enum const anyOf properties required additionalProperties items "
        "minItems pattern format".split()
    ),
    formats=frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split()),
    enum_types=frozenset({"string", "number", "boolean", "null"}),
    min_items=1,
    simple_patterns=True,
    lone_refs=True,
    recursion=False,
    closed_objects=True,
    describe_dropped=True,
)
assert ANTHROPIC.keywords is not None
ANTHROPIC_TOOL = msgspec.structs.replace(
    ANTHROPIC, root_keywords=ANTHROPIC.keywords - {"$ref", "anyOf"}, root_object=True
)
ANTHROPIC_LOOSE_TOOL = SchemaDialect(
    name="anthropic",
    root_keywords=frozenset(
        "$schema $id $comment $defs definitions type title description default examples properties required "
        "additionalProperties patternProperties propertyNames minProperties maxProperties dependentRequired "
        "dependentSchemas unevaluatedProperties not if then else".split()
    ),
    root_object=True,
)
GOOGLE = SchemaDialect(
    name="google",
    keywords=frozenset(
        "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum "
        "anyOf properties additionalProperties required propertyOrdering".split()
    ),
    enum_types=frozenset({"string", "number"}),
    type_lists="null",
    lone_refs=True,
    describe_dropped=True,
)
OLLAMA_TOOL = SchemaDialect(
    name="ollama",
    keywords=frozenset("anyOf type items description enum properties required".split()),
    root_keywords=frozenset("type items properties required".split()),
    root_object=True,
    describe_dropped=True,
)
ANYTHING = SchemaDialect(name="anything")
DIALECTS = (ANTHROPIC, GOOGLE, OLLAMA_TOOL, ANTHROPIC_TOOL, ANTHROPIC_LOOSE_TOOL, ANYTHING)


def only(*keywords: str, **facts: Any) -> SchemaDialect:
    return SchemaDialect(name="only", keywords=frozenset(keywords), **facts)


def adapted(schema: JsonObject, dialect: SchemaDialect) -> JsonObject:
    return adapt(schema, dialect, where="s")[0]


def kinds(schema: JsonObject, dialect: SchemaDialect) -> list[tuple[str, str]]:
    return [(notice.kind, notice.what) for notice in adapt(schema, dialect, where="s")[1]]


def whys(schema: JsonObject, dialect: SchemaDialect) -> list[str]:
    return [notice.why for notice in adapt(schema, dialect, where="s")[1]]


# ── fit: nothing to do ─────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_fits_is_the_same_object(dialect: SchemaDialect) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    if dialect.closed_objects:
        schema["additionalProperties"] = False
    result, notices = adapt(schema, dialect, where="s")
    assert result is schema
    assert notices == ()


def test_what_was_fitted_belongs_to_whoever_asked() -> None:
    tiny = only("type", "enum", "properties")
    first, _ = adapt({"properties": {"a": {"const": 1}}}, tiny, where="schema")
    first["properties"]["a"]["enum"].append(2)
    again, _ = adapt({"properties": {"a": {"const": 1}}}, tiny, where="schema")
    assert again == {"properties": {"a": {"type": "integer", "enum": [1]}}}


def test_what_grew_large_is_not_kept() -> None:
    homes: JsonObject = {"l0": {"type": "string", "enum": ["x" * 100 + str(i) for i in range(99)]}}
    for i in range(1, 9):
        below = {"$ref": f"#/$defs/l{i - 1}"}
        homes[f"l{i}"] = {"type": "object", "properties": {"a": below, "b": below}}
    schema: JsonObject = {"type": "object", "properties": {"r": {"$ref": "#/$defs/l8"}}, "$defs": homes}
    cached = module._adapt_cached  # pyright: ignore[reportPrivateUsage] # the law is about it
    before = cached.cache_info().currsize
    adapted, _ = adapt(schema, only("type", "enum", "properties"), where="a large one")
    assert len(msgspec.json.encode(adapted)) > 10 * module.MAX_CACHED_BYTES
    assert cached.cache_info().currsize == before


def test_a_schema_that_was_changed_is_fitted_anew() -> None:
    tiny, schema = only("type", "enum"), {"type": "string", "const": "a"}
    adapt(schema, tiny, where="schema")
    schema["const"] = "b"
    assert adapt(schema, tiny, where="schema")[0] == {"type": "string", "enum": ["b"]}


class Odd(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    "schema", [Odd(const=1), {"const": 1, "$comment": "x" * module.MAX_CACHED_BYTES}], ids=["odd", "large"]
)
def test_what_is_not_kept_is_fitted_all_the_same(schema: JsonObject) -> None:
    assert adapt(schema, only("type", "enum"), where="schema")[0] == {"type": "integer", "enum": [1]}


def test_a_subset_without_limits_takes_all() -> None:
    schema: JsonObject = {
        "$ref": "http://example.org/a",
        "properties": {"a": True, "b": {"$ref": "#/properties/a"}, "c": {"nullable": True, "allOf": [{}]}},
        "definitions": {"x": {"$ref": "#"}},
        "items": [{"const": 1}],
    }
    assert adapt(schema, ANYTHING, where="s") == (schema, ())


# ── fit: keywords said in another way ──────────────────────────────────────


def test_const_is_said_as_enum_with_its_type() -> None:
    schema: JsonObject = {"properties": {"a": {"const": "x"}}}
    assert adapted(schema, only("properties", "enum", "type")) == {
        "properties": {"a": {"enum": ["x"], "type": "string"}}
    }
    assert kinds(schema, only("properties", "enum", "type")) == [
        ("renamed", "s.properties.a: const"),
        ("renamed", "s.properties.a: enum"),
    ]


def test_const_rules_an_enum_beside_it() -> None:
    assert kinds({"const": 1, "enum": [1, 2], "type": "integer"}, GOOGLE) == [("renamed", "s: const")]
    assert kinds({"const": 1, "enum": [2], "type": "integer"}, GOOGLE) == [("changed", "s: const")]


def test_const_is_dropped_where_there_is_no_enum() -> None:
    assert kinds({"const": 1}, only("type")) == [("dropped", "s: const")]


def test_an_enum_of_many_types_names_them_once() -> None:
    assert adapted({"enum": [1, 2, "a", 1.5, None, True, [], {}]}, only("enum", "type"))["type"] == [
        "integer",
        "string",
        "number",
        "null",
        "boolean",
        "array",
        "object",
    ]


@pytest.mark.parametrize("other", ["anyOf", "oneOf", "allOf"])
def test_an_enum_with_another_word_for_its_type_stays(other: str) -> None:
    schema: JsonObject = {"enum": ["a"], other: [{}]}
    assert adapted(schema, only("enum", "type", "anyOf", "oneOf", "allOf")) is schema


def test_one_of_is_said_as_any_of_and_loses_its_exclusion() -> None:
    assert adapted({"oneOf": [{"type": "null"}]}, only("anyOf", "type")) == {"anyOf": [{"type": "null"}]}
    assert kinds({"oneOf": []}, only("anyOf")) == [("changed", "s: oneOf")]


def test_one_of_with_a_discriminator_loses_nothing() -> None:
    schema: JsonObject = {"oneOf": [], "discriminator": {"propertyName": "kind"}}
    assert kinds(schema, only("anyOf")) == [("renamed", "s: oneOf"), ("info", "s: discriminator")]


def test_one_of_beside_any_of_is_dropped() -> None:
    assert adapted({"oneOf": [{}], "anyOf": [{}]}, only("anyOf")) == {"anyOf": [{}]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "string", "enum": [None], "nullable": True}, {"type": ["string", "null"], "enum": [None]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        (
            {"enum": ["a"], "description": "d", "nullable": True},
            {"description": "d", "anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
        ),
    ],
)
def test_nullable_is_said_by_a_null_type(schema: JsonObject, expected: JsonObject) -> None:
    assert adapted(schema, only("type", "enum", "anyOf", "description")) == expected
    assert ("renamed", "s: nullable") in kinds(schema, only("type", "enum", "anyOf", "description"))


def test_a_tuple_is_said_as_a_list_of_any_of_its_items() -> None:
    dialect = only("items", "anyOf", "type", "maxItems", "description", describe_dropped=True)
    two = [{"type": "integer"}, {"type": "string"}]
    output = 'prefixItems: [{"type":"integer"},{"type":"string"}]'
    assert adapted({"prefixItems": two, "maxItems": 2}, dialect) == {
        "maxItems": 2,
        "items": {"anyOf": two},
        "description": output,
    }
    assert adapted({"prefixItems": two, "items": False}, dialect) == {"items": {"anyOf": two}, "description": output}
    assert adapted({"prefixItems": two, "items": {"type": "null"}}, dialect)["items"] == {
        "anyOf": [*two, {"type": "null"}]
    }
    assert kinds({"prefixItems": two, "maxItems": 2}, dialect) == [("changed", "s: prefixItems")]


@pytest.mark.parametrize("rest", [{}, {"maxItems": 3}, {"items": True}])
def test_an_open_tuple_constrains_no_item(rest: JsonObject) -> None:
    assert "anyOf" not in str(adapted({"prefixItems": [{"type": "null"}], **rest}, only("items", "anyOf", "maxItems")))
    assert ("dropped", "s: prefixItems") in kinds({"prefixItems": [{}], **rest}, only("items", "anyOf", "maxItems"))


def test_the_tuples_of_draft_7_are_said_as_prefix_items() -> None:
    dialect = only("items", "prefixItems", "type")
    assert adapted({"items": [{"type": "null"}]}, dialect) == {"prefixItems": [{"type": "null"}]}
    assert adapted({"items": [{}], "additionalItems": {"type": "null"}}, dialect) == {
        "prefixItems": [{}],
        "items": {"type": "null"},
    }


@pytest.mark.parametrize(
    ("schema", "expected", "kind"),
    [
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}, "renamed"),
        ({"type": "integer", "exclusiveMaximum": 9}, {"type": "integer", "maximum": 8}, "renamed"),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0}, "changed"),
        ({"type": "integer", "exclusiveMinimum": 0.5}, {"type": "integer", "minimum": 0.5}, "changed"),
        ({"exclusiveMinimum": True}, {}, "dropped"),
        ({"exclusiveMinimum": 3, "minimum": 1}, {"minimum": 1}, "dropped"),
    ],
)
def test_an_exclusive_bound_is_said_as_an_inclusive_one(schema: JsonObject, expected: JsonObject, kind: str) -> None:
    dialect = only("type", "minimum", "maximum")
    assert adapted(schema, dialect) == expected
    assert [found for found, _ in kinds(schema, dialect)] == [kind]


def test_boolean_schemas_are_said_as_open_ones() -> None:
    dialect = only("properties", "items", "additionalProperties")
    schema: JsonObject = {"properties": {"a": True, "b": False}, "additionalProperties": True}
    assert adapted(schema, dialect) == {"properties": {"a": {}, "b": {}}, "additionalProperties": True}
    assert kinds(schema, dialect) == [("renamed", "s.properties.a: True"), ("dropped", "s.properties.b: False")]


# ── fit: keywords dropped ──────────────────────────────────────────────────


def test_what_is_dropped_is_said_in_the_description() -> None:
    schema: JsonObject = {"type": "integer", "minimum": 3, "multipleOf": 2, "description": "Age."}
    assert adapted(schema, ANTHROPIC)["description"] == "Age.\nminimum: 3\nmultipleOf: 2"
    assert adapted({"type": "integer", "minimum": 3}, ANTHROPIC) == {"type": "integer", "description": "minimum: 3"}


def test_what_is_dropped_is_not_said_where_nobody_asks_or_there_is_no_description() -> None:
    assert adapted({"minimum": 3}, only("description")) == {}
    assert adapted({"minimum": 3}, only("type", describe_dropped=True)) == {}


def test_a_long_story_is_not_said() -> None:
    assert adapted({"not": {"enum": ["x" * 600]}}, only("description", describe_dropped=True)) == {}


def test_an_annotation_that_is_dropped_is_no_loss() -> None:
    schema: JsonObject = {"title": "T", "default": 3, "$schema": "x", "minimum": 1, "x-mine": True}
    _, notices = adapt(schema, OLLAMA_TOOL, where="s")
    assert [notice.what for notice in notices if notice.loss] == ["s: minimum", "s: type"]


def test_equal_notices_are_given_once() -> None:
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"allOf": [{"$ref": "no"}, {"$ref": "no"}]}},
    }
    assert len(set(kinds(schema, OLLAMA_TOOL))) == len(kinds(schema, OLLAMA_TOOL))


def test_notices_say_who_and_where() -> None:
    schema: JsonObject = {"anyOf": [{"items": {"minimum": 3}}]}
    assert adapt(schema, only("anyOf", "items"), where="tools[0].parameters")[1] == (
        Notice(
            kind="dropped", what="tools[0].parameters.anyOf[0].items: minimum", why="only: minimum is not supported"
        ),
    )


def test_properties_named_like_keywords_stay() -> None:
    schema: JsonObject = {
        "properties": {"format": {"type": "string"}, "const": {"type": "string"}, "$ref": {"type": "string"}}
    }
    assert adapted(schema, only("properties", "type")) is schema


@pytest.mark.parametrize("keyword", ["enum", "default", "examples", "const"])
def test_data_is_never_rewritten(keyword: str) -> None:
    data = [{"const": 1, "$ref": "#/$defs/a", "minimum": 3, "nullable": True}]
    schema: JsonObject = {keyword: data, "type": "array"}
    assert adapted(schema, only("type", keyword)) is schema


def test_a_format_that_is_not_known_is_dropped() -> None:
    assert adapted({"format": "email"}, ANTHROPIC) == {"format": "email"}
    assert adapted({"format": "iban"}, ANTHROPIC) == {"description": 'format: "iban"'}
    assert adapted({"format": "email"}, OLLAMA_TOOL) == {"type": "object"}


@pytest.mark.parametrize(
    ("pattern", "simple"),
    [
        (r"^[a-z]+\d$", True),
        (r"(?:a|b)(?<name>c)", True),
        (r"\\b", True),
        (r"[\b(?=]", True),
        (r"a\b", False),
        (r"(a)\1", False),
        (r"(?=a)", False),
        (r"(?!a)", False),
        (r"(?<=a)", False),
        (r"(?<!a)", False),
        (r"(?P=a)", False),
    ],
)
def test_a_pattern_that_is_not_simple_is_dropped(pattern: str, simple: bool) -> None:  # noqa: FBT001
    assert ("pattern" in adapted({"pattern": pattern}, only("pattern", simple_patterns=True))) is simple


@pytest.mark.parametrize(("pattern", "stays"), [("^a$", True), ("^a", False), ("a$", False), (3, False)])
def test_a_pattern_that_is_not_anchored_is_dropped(pattern: object, stays: bool) -> None:  # noqa: FBT001
    assert ("pattern" in adapted({"pattern": pattern}, only("pattern", anchored_patterns=True))) is stays
    assert adapted({}, only("pattern", anchored_patterns=True)) == {}


@pytest.mark.parametrize("odd", [{"pattern": 3}, {"minItems": "x"}, {"minItems": 1}])
def test_what_is_within_the_limits_or_no_schema_at_all_stays(odd: JsonObject) -> None:
    assert adapted(odd, ANTHROPIC) is odd


def test_min_items_is_cut_to_the_limit() -> None:
    schema: JsonObject = {"type": "array", "minItems": 3}
    assert adapted(schema, ANTHROPIC) == {"type": "array", "minItems": 1, "description": "minItems: 3"}
    assert kinds(schema, ANTHROPIC) == [("changed", "s: minItems")]


def test_an_enum_of_alien_values_is_dropped() -> None:
    assert adapted({"type": "boolean", "enum": [True]}, GOOGLE) == {"type": "boolean", "description": "enum: [true]"}
    assert adapted({"type": "array", "enum": [[1]]}, ANTHROPIC) == {"type": "array", "description": "enum: [[1]]"}
    assert adapted({"enum": [None], "type": "null"}, GOOGLE) == {"type": "null", "description": "enum: [null]"}


def test_a_null_among_strings_becomes_a_type_of_its_own() -> None:
    split = {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}
    assert adapted({"enum": ["a", None]}, GOOGLE) == split
    assert adapted({"enum": ["a", None], "type": ["string", "null"]}, GOOGLE) == split
    assert adapted({"enum": ["a", None], "type": "string"}, GOOGLE) == {"type": "string", "enum": ["a"]}
    assert adapted({"enum": ["a", None]}, only("enum", "anyOf", enum_types=frozenset({"string"}))) == {
        "anyOf": [{"enum": ["a"]}, {}]
    }


def test_types_are_told_apart_where_a_list_may_only_hold_null() -> None:
    schema: JsonObject = {"type": ["string", "object", "null"], "properties": {"a": {}}, "format": "date", "title": "T"}
    assert adapted(schema, GOOGLE) == {
        "title": "T",
        "anyOf": [
            {"type": "string", "format": "date"},
            {"type": "object", "properties": {"a": {}}},
            {"type": "null"},
        ],
    }
    assert kinds(schema, GOOGLE) == [("renamed", "s: type")]
    assert adapted({"type": ["string", "null"]}, GOOGLE) == {"type": ["string", "null"]}


def test_a_list_of_types_beside_any_of_is_dropped() -> None:
    schema: JsonObject = {"type": ["string", "integer"], "anyOf": [{"type": "string"}]}
    assert adapted(schema, GOOGLE) == {
        "anyOf": [{"type": "string"}],
        "description": 'type: ["string","integer"]',
    }


# ── fit: allOf ─────────────────────────────────────────────────────────────


def test_all_of_is_merged() -> None:
    schema: JsonObject = {
        "description": "outer",
        "allOf": [
            {
                "type": ["object", "null"],
                "properties": {"a": {"type": "number"}, "b": {}},
                "required": ["a"],
                "minProperties": 1,
            },
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {}},
                "required": ["a", "b"],
                "minProperties": 2,
            },
            {
                "description": "inner",
                "allOf": [{"maxProperties": 4}, {"maxProperties": 3}],
                "additionalProperties": True,
            },
            {"additionalProperties": False},
            True,
        ],
    }
    known = "description type properties required minProperties maxProperties additionalProperties".split()
    assert adapted(schema, only(*known)) == {
        "description": "outer",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {}},
        "required": ["a", "b"],
        "minProperties": 2,
        "maxProperties": 3,
        "additionalProperties": False,
    }
    assert set(kinds(schema, only(*known))) == {
        ("renamed", "s: allOf"),
        ("changed", "s: additionalProperties"),
        ("renamed", "s.properties.a: allOf"),
    }


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ({"enum": [1, 2]}, {"enum": [2, 3]}, {"enum": [2]}),
        ({"type": "integer"}, {"type": "number"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}, {"type": ["string", "null"]}),
        ({"items": True}, {"items": {"type": "null"}}, {"items": {"type": "null"}}),
        (
            {"items": {"type": "null"}},
            {"items": {"type": "null", "minLength": 1}},
            {"items": {"type": "null", "minLength": 1}},
        ),
        ({"items": {"type": "null"}}, {"items": {"type": "null"}}, {"items": {"type": "null"}}),
        ({"title": "a"}, {"title": "b"}, {"title": "b"}),
    ],
)
def test_what_all_of_them_say_is_said_once(first: JsonObject, second: JsonObject, joined: JsonObject) -> None:
    dialect = only("enum", "type", "items", "minLength", "title")
    schema: JsonObject = {"allOf": [first, second], **({"type": "integer"} if "enum" in first else {})}
    assert {"type": "integer", **adapted(schema, dialect)} == {"type": "integer", **joined}
    assert all(kind == "renamed" for kind, _ in kinds(schema, dialect))


@pytest.mark.parametrize(
    ("keyword", "first", "second"),
    [
        ("type", "string", "null"),
        ("enum", ["a"], ["b"]),
        ("anyOf", [{"type": "string"}], [{"type": "null"}]),
        ("minItems", 1, "x"),
        ("properties", {"a": {"type": "null"}}, 3),
        ("required", ["a"], None),
        ("type", "string", [["x"]]),
    ],
)
def test_what_cannot_be_merged_is_dropped(keyword: str, first: object, second: object) -> None:
    dialect = only("type", "enum", "anyOf", "minItems", "properties", "required")
    schema: JsonObject = {"allOf": [{keyword: first}, {keyword: second}]}
    assert adapted(schema, dialect)[keyword] == first
    assert ("dropped", f"s: {keyword}") in kinds(schema, dialect)


def test_all_of_with_a_false_member_cannot_be_said() -> None:
    assert kinds({"allOf": [False]}, only("type")) == [("renamed", "s: allOf"), ("dropped", "s: allOf")]


@pytest.mark.parametrize(
    ("first", "second", "loss"),
    [
        ({"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}, True),
        ({"prefixItems": [True]}, {"items": {"type": "null"}}, True),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"required": ["a"]}, False),
        ({"properties": {"a": {}}}, {"properties": {"b": {}}}, False),
    ],
)
def test_merging_what_is_closed_is_a_loss(first: Any, second: Any, loss: bool) -> None:  # noqa: FBT001
    _, notices = adapt({"allOf": [first, second]}, GOOGLE, where="s")
    assert any(notice.loss for notice in notices) is loss


def test_all_of_one_keyword_is_merged_like_any_other() -> None:
    assert adapted({"type": "number", "allOf": [{"type": "integer"}]}, GOOGLE) == {"type": "integer"}


def test_all_of_that_is_known_stays() -> None:
    schema: JsonObject = {"allOf": [{"type": "string"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {}}}
    assert adapted(schema, only("allOf", "type", "$ref", "$defs")) is schema


def test_all_of_one_ref_is_the_ref() -> None:
    schema: JsonObject = {"properties": {"a": {"allOf": [{"$ref": "#/$defs/x"}]}}, "$defs": {"x": {"type": "string"}}}
    assert adapted(schema, only("properties", "$ref", "$defs", "type"))["properties"] == {"a": {"$ref": "#/$defs/x"}}


def test_a_diamond_of_all_of_is_merged_once() -> None:
    schema: JsonObject = {
        "allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}],
        "$defs": {
            "a": {"properties": {"a": {"type": "string"}}},
            "b": {"allOf": [{"$ref": "#/$defs/a"}], "required": ["a"]},
            "c": {"allOf": [{"$ref": "#/$defs/a"}], "type": "object"},
        },
    }
    assert adapted(schema, only("properties", "required", "type")) == {
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "type": "object",
    }
    assert not [kind for kind, _ in kinds(schema, only("properties", "required", "type")) if kind == "dropped"]


# ── fit: $ref ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("home", ["$defs", "definitions"])
def test_refs_are_inlined_where_they_are_not_known(home: str) -> None:
    schema: JsonObject = {
        "$ref": f"#/{home}/Order",
        home: {
            "Order": {
                "type": "object",
                "properties": {"port": {"$ref": f"#/{home}/a~1b~0%20c", "description": "Where"}},
            },
            "a/b~ c": {"type": "string", "description": "A port"},
        },
    }
    assert adapted(schema, OLLAMA_TOOL) == {
        "type": "object",
        "properties": {"port": {"type": "string", "description": "Where"}},
    }
    assert kinds(schema, OLLAMA_TOOL) == [
        ("renamed", "s: $ref"),
        ("info", f"s: {home}"),
        ("renamed", "s.properties.port: $ref"),
    ]


def test_refs_to_other_places_are_inlined() -> None:
    schema: JsonObject = {"properties": {"a": {"anyOf": [{"type": "null"}]}, "b": {"$ref": "#/properties/a/anyOf/0"}}}
    assert adapted(schema, GOOGLE)["properties"]["b"] == {"type": "null"}


@pytest.mark.parametrize(
    "ref", ["#/$defs/none", "#/properties/b/anyOf/7", "#anchor", "http://example.org/x", "#/required/0", "#/title/x"]
)
def test_a_ref_to_nothing_is_open(ref: str) -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": ref}, "b": {"anyOf": []}}, "required": ["a"], "title": "T"}
    assert adapted(schema, GOOGLE)["properties"]["a"] == {}
    assert kinds(schema, GOOGLE) == [("dropped", "s.properties.a: $ref")]


def test_a_ref_that_is_no_text_is_left_as_it_is() -> None:
    schema: JsonObject = {"$ref": 3}
    assert adapted(schema, GOOGLE) is schema


def test_a_ref_to_a_boolean_is_inlined() -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/any"}}, "$defs": {"any": True}}
    assert adapted(schema, only("properties")) == {"properties": {"a": {}}}


def test_refs_with_siblings_go_into_any_of_where_refs_stand_alone() -> None:
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/x", "description": "d"}},
        "$defs": {"x": {"type": "string"}},
    }
    assert adapted(schema, GOOGLE)["properties"] == {"a": {"description": "d", "anyOf": [{"$ref": "#/$defs/x"}]}}
    assert kinds(schema, GOOGLE) == [("renamed", "s.properties.a: $ref")]
    assert adapted(schema, only("properties", "$ref", "$defs", "description", "type")) is schema


def test_a_ref_beside_any_of_takes_its_place_where_refs_stand_alone() -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/x", "anyOf": [{}]}}, "$defs": {"x": {"type": "string"}}}
    assert adapted(schema, GOOGLE)["properties"] == {"a": {"anyOf": [{"$ref": "#/$defs/x"}]}}
    assert kinds(schema, GOOGLE) == [("dropped", "s.properties.a: $ref")]


def test_definitions_that_stay_are_fitted_where_they_stand() -> None:
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"const": "k"}, "spare": {"minLength": 1, "type": "string"}},
    }
    assert adapted(schema, GOOGLE) == {
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}},
        "$defs": {
            "x": {"enum": ["k"], "type": "string"},
            "spare": {"type": "string", "description": "minLength: 1"},
        },
    }
    assert kinds(schema, GOOGLE)[0] == ("renamed", "s.$defs.x: const")


TREE = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "additionalProperties": False,
        }
    },
}


def test_recursion_stays_where_it_can() -> None:
    assert adapted(TREE, GOOGLE) is TREE
    root = {"properties": {"a": {"$ref": "#"}}}
    assert adapted(root, GOOGLE) is root


def test_recursion_is_cut_where_refs_stay_but_must_not_loop() -> None:
    result, notices = adapt(TREE, ANTHROPIC, where="s")
    assert result["$defs"]["Node"]["properties"]["kids"] == {"type": "array", "items": {}}
    assert result["$ref"] == "#/$defs/Node"
    assert [(notice.kind, notice.what) for notice in notices] == [
        ("dropped", "s.$defs.Node.properties.kids.items: $ref")
    ]


def test_mutual_recursion_is_cut_once() -> None:
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "additionalProperties": False,
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#"}]}},
    }
    assert adapted(schema, ANTHROPIC)["$defs"] == {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"anyOf": [{}, {}]}}


def test_recursion_is_cut_where_refs_are_inlined() -> None:
    assert adapted(TREE, OLLAMA_TOOL) == {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {}}},
    }
    assert ("dropped", "s.properties.kids.items: $ref") in kinds(TREE, OLLAMA_TOOL)


def test_a_ref_to_itself_says_nothing() -> None:
    assert (
        adapted({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, only("type"))
        == {}
    )
    assert adapted({"$ref": "#"}, only("type")) == {}


def test_nested_definitions_are_fitted_too() -> None:
    schema: JsonObject = {"properties": {"a": {"$defs": {"x": {"const": 1, "type": "integer"}}}}}
    assert adapted(schema, GOOGLE)["properties"]["a"]["$defs"]["x"] == {"enum": [1], "type": "integer"}


def test_an_explosion_of_refs_is_refused() -> None:
    defs: JsonObject = {"x0": {"type": "string"}}
    for level in range(1, 40):
        ref = {"$ref": f"#/$defs/x{level - 1}"}
        defs[f"x{level}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    with pytest.raises(Unsupported, match=r"ollama: tools\[0\]: more than 20000 subschemas"):
        adapt({"$ref": "#/$defs/x39", "$defs": defs}, OLLAMA_TOOL, where="tools[0]")
    assert adapt({"$ref": "#/$defs/x39", "$defs": defs}, GOOGLE, where="s")[1] == ()


def test_too_much_to_merge_is_refused() -> None:
    wide = {"enum": [f"v{number}" for number in range(10_000)]}
    schema: JsonObject = {
        "type": "object",
        "properties": {f"p{number}": {"$ref": "#/$defs/w"} for number in range(30)},
        "$defs": {"w": wide},
    }
    with pytest.raises(Unsupported, match="too much to merge; make the schema smaller"):
        adapt(schema, OLLAMA_TOOL, where="s")


def test_a_bottomless_schema_is_refused() -> None:
    schema: JsonObject = {}
    for _ in range(3000):
        schema = {"items": schema}
    with pytest.raises(Unsupported, match="google: s: the schema is nested too deeply"):
        adapt(schema, GOOGLE, where="s")


# ── fit: objects and the root ──────────────────────────────────────────────


def test_every_object_is_closed() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"properties": {}}, "b": {"type": ["object", "null"]}}}
    assert adapted(schema, ANTHROPIC) == {
        "type": "object",
        "properties": {
            "a": {"properties": {}, "additionalProperties": False},
            "b": {"type": ["object", "null"], "additionalProperties": False},
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "loss"),
    [
        ({"type": "object", "properties": {}}, False),
        ({"type": "object"}, True),
        ({"type": "object", "properties": {}, "additionalProperties": True}, True),
        ({"type": "object", "additionalProperties": {"type": "string"}}, True),
    ],
)
def test_closing_is_a_loss_where_other_properties_were_meant(schema: JsonObject, loss: bool) -> None:  # noqa: FBT001
    _, notices = adapt(schema, ANTHROPIC, where="s")
    assert [notice.loss for notice in notices] == [loss]


def test_the_root_has_keywords_of_its_own() -> None:
    schema: JsonObject = {"type": "object", "description": "d", "properties": {"a": {"description": "d"}}}
    assert adapted(schema, OLLAMA_TOOL) == {"type": "object", "properties": {"a": {"description": "d"}}}
    assert whys(schema, OLLAMA_TOOL) == ["ollama: description is not supported at the root"]


@pytest.mark.parametrize("schema", [{"properties": {}}, {"type": ["object", "null"], "properties": {}}])
def test_the_root_becomes_an_object_where_it_may_be_one(schema: JsonObject) -> None:
    assert adapted(schema, OLLAMA_TOOL) == {"properties": {}, "type": "object"}
    assert kinds(schema, OLLAMA_TOOL) == [("changed", "s: type")]


def test_a_root_that_is_no_object_is_refused() -> None:
    with pytest.raises(Unsupported, match="ollama: s: the root must be an object"):
        adapt({"type": "array"}, OLLAMA_TOOL, where="s")


def test_a_root_ref_is_inlined_where_the_root_must_be_an_object() -> None:
    result = adapted(TREE, ANTHROPIC_LOOSE_TOOL)
    assert result["type"] == "object"
    assert result["properties"]["kids"]["items"] == {"$ref": "#/$defs/Node"}


# ── fit: laws ──────────────────────────────────────────────────────────────

NAMES = st.sampled_from(["a", "b", "format", "const", "$ref", "enum"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
REFS = st.sampled_from(["#/$defs/a", "#/$defs/b", "#/definitions/a", "#", "#/properties/a", "#/$defs/none"])


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    counts = st.integers(0, 3)
    many = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "title": st.just("T"),
        "description": st.just("D"),
        "default": VALUES,
        "minimum": counts,
        "exclusiveMinimum": counts,
        "maxLength": counts,
        "minItems": counts,
        "maxItems": counts,
        "pattern": st.sampled_from(["^a", r"a\b", "(?=a)"]),
        "format": st.sampled_from(["date", "x"]),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": named,
        "additionalProperties": inner,
        "items": inner,
        "prefixItems": many,
        "anyOf": many,
        "oneOf": many,
        "allOf": many,
        "not": inner,
        "$ref": REFS,
    }
    return st.lists(
        st.one_of(*(st.tuples(st.just(keyword), value) for keyword, value in keywords.items())), max_size=5
    ).map(dict[str, Any])


SUBSCHEMAS = st.recursive(st.booleans() | st.builds(dict[str, Any]), nodes, max_leaves=8)


def rooted(root: JsonObject, a: Any, b: Any, old: Any) -> JsonObject:
    return {**root, "$defs": {"a": a, "b": b}, "definitions": {"a": old}}


SCHEMAS = st.builds(rooted, nodes(SUBSCHEMAS), SUBSCHEMAS, SUBSCHEMAS, SUBSCHEMAS)
law = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def used_keywords(schema: object) -> set[str]:
    return {keyword for node, _ in subschemas(schema) for keyword in node}


def adapt_or_none(schema: JsonObject, dialect: SchemaDialect) -> tuple[JsonObject, tuple[Notice, ...]] | None:
    try:
        return adapt(schema, dialect, where="s")
    except Unsupported:
        return None


@law
@given(SCHEMAS, st.sampled_from(DIALECTS))
def test_fitting_twice_is_fitting_once(schema: JsonObject, dialect: SchemaDialect) -> None:
    once = adapt_or_none(schema, dialect)
    if once is not None:
        twice, notices = adapt(once[0], dialect, where="s")
        assert notices == ()
        assert twice is once[0]


@law
@given(SCHEMAS, st.sampled_from(DIALECTS))
def test_only_known_keywords_are_left(schema: JsonObject, dialect: SchemaDialect) -> None:
    result = adapt_or_none(schema, dialect)
    if result is not None and dialect.keywords is not None:
        assert used_keywords(result[0]) <= dialect.keywords | (dialect.root_keywords or frozenset())
        assert dialect.root_keywords is None or result[0].keys() <= dialect.root_keywords


@law
@given(SCHEMAS, st.sampled_from(DIALECTS))
def test_the_input_is_never_touched(schema: JsonObject, dialect: SchemaDialect) -> None:
    before = copy.deepcopy(schema)
    adapt_or_none(schema, dialect)
    assert schema == before


@law
@given(SCHEMAS, st.sampled_from(DIALECTS))
def test_there_is_a_notice_if_and_only_if_there_is_a_change(schema: JsonObject, dialect: SchemaDialect) -> None:
    result = adapt_or_none(schema, dialect)
    if result is not None:
        assert bool(result[1]) == (result[0] is not schema)
        assert bool(result[1]) == (msgspec.json.encode(result[0]) != msgspec.json.encode(schema))


@law
@given(
    SCHEMAS,
    VALUES,
    st.sampled_from([GOOGLE, msgspec.structs.replace(ANTHROPIC, closed_objects=False), only("type", "enum")]),
)
def test_what_was_valid_stays_valid_where_nothing_is_closed(
    schema: JsonObject, value: object, dialect: SchemaDialect
) -> None:
    try:
        valid = validate(value, schema) == ()
    except InvalidRequest:
        return
    if valid:
        assert validate(value, adapted(schema, dialect)) == ()


@law
@given(SCHEMAS, VALUES)
def test_what_changes_without_loss_means_the_same(schema: JsonObject, value: object) -> None:
    result, notices = adapt(schema, GOOGLE, where="s")
    if any(notice.loss for notice in notices):
        return
    try:
        expected = validate(value, schema) == ()
    except InvalidRequest:
        return
    assert (validate(value, result) == ()) == expected


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["#", "#/items", "object", "x", r"\b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*"$ref $defs allOf anyOf oneOf items prefixItems properties type enum const".split()])
            | st.sampled_from(
                "nullable required additionalProperties minItems exclusiveMinimum format description".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@law
@given(
    st.dictionaries(st.sampled_from("$ref allOf anyOf items properties type enum nullable format".split()), JUNK),
    st.sampled_from(DIALECTS),
)
def test_junk_raises_nothing_but_our_errors(junk: JsonObject, dialect: SchemaDialect) -> None:
    adapt_or_none(junk, dialect)
    is_strict(junk)
    try:
        validate(None, junk)
    except RequestError:
        return


# ── recursion ────────────────────────────────────────────────────────────────


def test_recursion_can_be_had_in_properties_that_are_not_required() -> None:
    tree = OutputType(Leaf).schema
    adapted, notices = adapt(tree, SchemaDialect(name="some", required_recursion=False), where="schema")
    assert adapted["required"] == ["name", "leaves", "next"]
    assert adapted["$defs"]["Leaf"]["required"] == ["name"]
    assert [(notice.kind, notice.what) for notice in notices] == [("changed", "schema.$defs.Leaf: required")]


def test_recursion_to_the_root_is_freed_too() -> None:
    tree = {**an_object(a={"$ref": "#"}, b=STRING), "required": ["a", "b"]}
    adapted, _ = adapt(tree, SchemaDialect(name="some", required_recursion=False), where="schema")
    assert adapted["required"] == ["b"]


def test_what_is_not_recursive_is_left_alone() -> None:
    for schema in (OutputType(Point).schema, STRING):
        assert adapt(schema, SchemaDialect(name="some", required_recursion=False), where="schema") == (schema, ())
