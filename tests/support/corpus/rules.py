"""Two JSON bodies of one wire in, equal ones out where they mean the same: the differences that cannot be avoided.

Each rule has a name and the reason why the difference is none of meaning. docs/differences.md is made from these.
"""

import importlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from dragoman.types import is_list, is_object
from dragoman.wires import NAMES

RECORDED = tuple(name for name in NAMES if name != "native")
"""The wires of which there are recorded exchanges."""


class Rule(NamedTuple):
    """One difference of form: its name, why it is none of meaning, and the function that levels it on both sides."""

    name: str
    reason: str
    level: Callable[[dict[str, Any]], dict[str, Any]]


def rules(wire: str) -> list[Rule]:
    """The rules of a wire."""
    found: list[Rule] = importlib.import_module(f"tests.support.corpus.rules_{wire}").RULES
    return found


def level(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body with all avoidable form taken out of it."""
    for rule in rules(wire):
        body = rule.level(body)
    return body


def arguments(text: str | None) -> Any:
    """What the text of some arguments says; the text itself where it is no JSON."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def without_nulls(value: Any) -> Any:
    """JSON without the members of objects that are null."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_list(value) else value


RESPONSES = (
    ("finish.raw", "where calls are there, the reason is tool_calls whatever the server said, and is said so again"),
    ("notices", "they are the receipt of one call, so a dialect has no word for them"),
    ("choices", "the first is the response; a notice says how many there were"),
    (
        "order of parts in a Chat Completions body",
        "that body has one text and one thinking; parts that a stream interleaved are joined there, and only there",
    ),
    (
        "usage of the Responses API",
        "clients' types demand every number, so that a portion that was not told is 0 there",
    ),
    ("null arguments", "some servers write null for no arguments; it is read as {}"),
)
"""What of a response may differ after it was decoded and encoded again, and why."""


def page() -> str:
    """docs/differences.md."""
    lines = [
        "# Differences of form",
        "",
        "A request that a client sent is decoded into the vocabulary and encoded again for a target of the same wire.",
        "What comes out means the same. Its form may differ as follows, and in no other way: the tests compare every",
        "recorded request with what we make of it, and level only these.",
        "",
        "Made from `tests/corpus/rules*.py` by `python -m tests.support.corpus.rules > docs/differences.md`.",
    ]
    for wire in RECORDED:
        lines += ["", f"## Requests: {wire}", "", "| rule | why it is no difference of meaning |", "|---|---|"]
        lines += [f"| {rule.name} | {rule.reason} |" for rule in rules(wire)]
    lines += ["", "## Responses: all wires", "", "| what | why |", "|---|---|"]
    lines += [f"| {what} | {why} |" for what, why in RESPONSES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
