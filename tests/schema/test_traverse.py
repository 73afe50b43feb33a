"""Definitions that refer to each other are found."""

from dragoman.schema.traverse import recursive_groups


def test_definitions_that_refer_to_each_other_are_one_group() -> None:
    defined = {
        "#/$defs/A": {"items": {"$ref": "#/$defs/B"}},
        "#/$defs/B": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/C"}]},
        "#/$defs/C": {"type": "null"},
        "#/$defs/D": {"items": {"$ref": "#/$defs/D"}},
        "#": {"$ref": "#/$defs/A"},
    }
    groups = recursive_groups(defined)
    assert groups["#/$defs/A"] == groups["#/$defs/B"] > 0
    assert groups["#/$defs/D"] not in (0, groups["#/$defs/A"])
    assert groups["#/$defs/C"] == groups["#"] == 0
