"""The rules by which two JSON bodies of one wire are equal although their form differs.

Each rule has a name and a reason. docs/differences.md is generated from these.
"""

import importlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from dragoman.types import is_list, is_object
from dragoman.wires import NAMES

RECORDED = tuple(name for name in NAMES if name != "native")
"""The wires that have recorded exchanges."""


class Rule(NamedTuple):
    """One difference of form: its name, why the meaning is the same, and the function that removes it on both sides."""

    name: str
    reason: str
    level: Callable[[dict[str, Any]], dict[str, Any]]


def rules(wire: str) -> list[Rule]:
    """The rules of a wire."""
    found: list[Rule] = importlib.import_module(f"tests.support.corpus.rules_{wire}").RULES
    return found


def level(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body without the differences of form."""
    for rule in rules(wire):
        body = rule.level(body)
    return body


def arguments(text: str | None) -> Any:
    """The value of tool call arguments; the text itself if it is not JSON."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def without_nulls(value: Any) -> Any:
    """The JSON without null members."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_list(value) else value


RESPONSES = (
    (
        "finish.raw",
        "if there are tool calls, the reason is tool_calls, whatever the server sent, and is encoded as such",
    ),
    ("notices", "notices belong to one call; dialects have no field for them"),
    ("choices", "the first choice is the response; a notice has the number of choices"),
    (
        "order of parts in a Chat Completions body",
        "the body has one text and one thinking field; parts that a stream interleaved are joined",
    ),
    (
        "usage of the Responses API",
        "the types of its clients require every number, so an unknown one is 0",
    ),
    ("null arguments", "some servers send null for no arguments; it is decoded as {}"),
)
"""What may differ in a response that is decoded and encoded again, and why."""


def page() -> str:
    """docs/differences.md."""
    lines = [
        "# Differences of form",
        "",
        "If a request is decoded and encoded again for the same wire, the result means the same. Its form may differ",
        "only as listed here: the tests compare every recorded request with the result, and allow no other difference.",
        "",
        "Generated from `tests/support/corpus/rules*.py` by `python -m tests.support.corpus.rules > docs/differences.md`.",
    ]
    for wire in RECORDED:
        lines += ["", f"## Requests: {wire}", "", "| rule | why the meaning is the same |", "|---|---|"]
        lines += [f"| {rule.name} | {rule.reason} |" for rule in rules(wire)]
    lines += ["", "## Responses: all wires", "", "| what | why |", "|---|---|"]
    lines += [f"| {what} | {why} |" for what, why in RESPONSES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
