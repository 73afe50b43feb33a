"""Two JSON bodies of one wire in, equal ones out where they mean the same: the differences that cannot be avoided.

Each rule has a name and the reason why the difference is none of meaning. docs/differences.md is made from these.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from dragoman.types import is_list, is_object


class Rule(NamedTuple):
    """One difference of form: its name, why it is none of meaning, and the function that levels it on both sides."""

    name: str
    reason: str
    level: Callable[[dict[str, Any]], dict[str, Any]]


def rules(wire: str) -> list[Rule]:
    """The rules of a wire."""
    found: list[Rule] = importlib.import_module(f"tests.corpus.rules_{wire}").RULES
    return found


def level(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body with all avoidable form taken out of it."""
    for rule in rules(wire):
        body = rule.level(body)
    return body


def without_nulls(value: Any) -> Any:
    """JSON without the members of objects that are null."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_list(value) else value
