"""Values and schemas are validated, and the reasons say where."""

import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from dragoman.errors import InvalidRequest
from dragoman.schema import validate as module
from dragoman.schema.validate import schema_error, validate
from dragoman.types import JsonObject


def test_a_valid_value_has_no_reasons() -> None:
    assert validate({"a": 1}, {"type": "object"}) == ()


def test_reasons_say_where() -> None:
    schema: JsonObject = {
        "properties": {"items": {"items": {"properties": {"my age": {"type": "integer"}}}}},
        "required": ["b"],
    }
    assert set(validate({"items": [{"my age": "x"}]}, schema)) == {
        '$.items[0]["my age"]: "x" is not of type "integer"',
        '$: "b" is a required property',
    }


def test_there_are_not_too_many_reasons_and_none_is_too_long() -> None:
    reasons = validate(["x" * 9_000] * 300, {"items": {"type": "null"}})
    assert len(reasons) == 100
    assert len(reasons[0]) < 600
    assert reasons[0].endswith('is not of type "null"')


def test_a_value_that_is_not_json_is_a_reason() -> None:
    assert validate(object(), {}) == ("$: Unsupported type: 'object'",)


@pytest.mark.parametrize("schema", [{"type": "nope"}, {"$ref": "#/$defs/none"}, {"pattern": "("}, {"a": object()}])
def test_a_broken_schema_is_an_invalid_request(schema: JsonObject) -> None:
    with pytest.raises(InvalidRequest, match="schema must be a valid JSON Schema: "):
        validate(1, schema)


@pytest.mark.parametrize("ref", ["http://127.0.0.1:9/x", "https://example.org/x.json", "file:///etc/hostname"])
def test_nothing_is_fetched_for_a_ref(ref: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []
    refuse = module._refuse  # pyright: ignore[reportPrivateUsage]

    def ask(uri: str, /) -> JsonObject:
        requested.append(uri)
        return refuse(uri)

    monkeypatch.setattr(module, "_refuse", ask)
    with pytest.raises(InvalidRequest, match="is not fetched"):
        validate(1, {"$ref": ref})
    assert requested == [ref]


def test_a_file_that_is_there_is_not_read(tmp_path: Any) -> None:
    file = tmp_path / "any.json"
    file.write_text("{}")
    for ref in (file.as_uri(), str(file), "any.json"):
        with pytest.raises(InvalidRequest):
            validate(1, {"$ref": ref})
    assert jsonschema_rs.is_valid({"$ref": file.as_uri()}, 1)


def test_the_validator_is_imported_at_first_use() -> None:
    code = "import sys, dragoman.schema.validate; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def doubled(levels: int) -> JsonObject:
    """A schema that takes time to compile, twice as much for each level."""
    schemas = {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)}
    reached = {"properties": {"a": {"unevaluatedProperties": False, "$ref": "#/$defs/d0"}}}
    return {**reached, "$defs": {**schemas, f"d{levels}": {}}}


@pytest.mark.no_cover
def test_a_schema_that_compiles_too_long_is_not_compiled() -> None:
    with pytest.raises(InvalidRequest, match="unevaluatedProperties and unevaluatedItems must look at"):
        validate(1, doubled(40))
    assert "must look at 10000 subschemas or fewer" in (schema_error(doubled(40)) or "")
    assert validate({"a": {"b": 1}}, doubled(4)) == (
        "$.a: Unevaluated properties are not allowed ('b' was unexpected)",
    )


def test_the_size_of_a_schema_is_checked_before_it_is_compiled() -> None:
    assert schema_error({"pattern": "a" * 10_001}) == "a pattern must have at most 10000 characters, got 10001"
    assert "at most 20000 values" in (schema_error({"enum": list(range(30_000))}) or "")


@pytest.mark.parametrize("draft", ["4", "6", "7"])
def test_old_drafts_check_formats(draft: str) -> None:
    schema: JsonObject = {
        "$schema": f"http://json-schema.org/draft-0{draft}/schema#",
        "properties": {"day": {"format": "date-time"}, "mail": {"format": "email"}},
    }
    assert validate({"day": "2026-01-31T10:00:00", "mail": "me@example.org"}, schema) == ()
    assert sorted(validate({"day": "3 March", "mail": "me"}, schema)) == [
        '$.day: "3 March" is not a date and time such as 2026-01-31T12:30:00Z',
        '$.mail: "me" is not a "email"',
    ]


def test_a_format_is_only_checked_for_an_invalid_value() -> None:
    schema: JsonObject = {
        "properties": {
            "n": {"type": "integer"},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "mail": {"type": "string", "format": "email"},
        }
    }
    value = {"n": 1, "day": "3 March", "at": "2026-01-31T10:00:00", "mail": "me"}
    assert validate(value, schema, add_formats=True) == ()
    assert validate(value | {"n": "x"}, schema) == ('$.n: "x" is not of type "integer"',)
    assert sorted(validate(value | {"n": "x"}, schema, add_formats=True)) == [
        '$.day: "3 March" is not a date such as 2026-01-31',
        '$.mail: "me" is not a "email"',
        '$.n: "x" is not of type "integer"',
    ]
