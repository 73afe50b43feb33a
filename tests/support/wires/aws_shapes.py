"""Examples of the shapes in botocore's model of a service: one with the required members only, and with all members."""

from importlib import import_module
from typing import Any


def shape(name: str) -> Any:
    """A shape of Bedrock's runtime."""
    return import_module("botocore.session").Session().get_service_model("bedrock-runtime").shape_for(name)


def examples(shape: Any, name: str = "") -> list[Any]:
    """Values of a shape as JSON: each arm of a union, and what must and what may be there."""
    match shape.type_name:
        case "structure" if shape.is_document_type:
            return [{"type": "object"}]
        case "structure" if getattr(shape, "is_tagged_union", False):
            return [{arm: value} for arm, inner in shape.members.items() for value in examples(inner, arm)]
        case "structure":
            return _structures(shape)
        case "list":
            return [[value] for value in examples(shape.member, name)]
        case "map":
            return [{"k": value} for value in examples(shape.value, name)]
        case "string":
            return list(shape.enum) or [_WORDS.get(name, f"{name} x")]
        case kind:
            return [{"boolean": True, "integer": 7, "long": 7, "float": 0.5, "double": 0.5, "blob": "aGk="}[kind]]


_WORDS = {
    "schema": '{"type":"object"}',
    "toolUseId": "t1",
    "name": "tide",
    "uri": "s3://a/b",
    "input": '{"a":1}',
    "type": "default",
}


def _structures(shape: Any) -> list[Any]:
    members = {name: examples(inner, name) for name, inner in shape.members.items()}
    found = [{name: members[name][0] for name in shape.required_members}]
    found += [
        {name: values[min(number, len(values) - 1)] for name, values in members.items()}
        for number in range(max(map(len, members.values()), default=0))
    ]
    return [value for number, value in enumerate(found) if value not in found[:number]]
