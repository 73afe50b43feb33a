"""Writes docs/fidelity.md from the differences of the matrix."""

from collections.abc import Callable, Iterable

from dragoman import wires
from dragoman.errors import TimedOut, Truncated
from tests.support.gateway.differences import ANSWERS, BEFORE, ERRORS, INSIDE, REQUESTS, Difference, T, either
from tests.support.gateway.matrix_cases import CASES
from tests.support.gateway.matrix_runs import PAIRS, Pair, expected_failure
from tests.support.wires.content import WORDS, table


def page() -> str:
    """docs/fidelity.md."""
    count = len(wires.NAMES)
    return "\n".join(
        [
            "# Fidelity",
            "",
            f"The gateway connects {count} dialects of clients with {count} wires of providers, plain and streamed. A client",
            "gets the same response from every provider, and a provider gets the same request from every client, except",
            "for the differences on this page. `tests/gateway/test_matrix.py` runs every client against every provider. It",
            "allows only these differences, and fails if one of them no longer exists.",
            "",
            "This page is made from `tests/support/gateway/differences.py` by",
            "`python -m tests.support.gateway.fidelity > docs/fidelity.md`.",
            "",
            "The tests run these conversations: " + ", ".join(CASES) + ". They also try every type",
            "of error, before a response and inside a stream, and a stream that is cut.",
            "",
            "## What a client gets",
            *_table(ANSWERS),
            "",
            "## What a provider gets",
            *_table(REQUESTS),
            "",
            "## Content",
            "",
            "No content of a message is lost silently. The types of the official SDKs have many kinds of content.",
            "Each of them is carried, converted, refused or left out, for every pair of a client's dialect and a",
            "provider's wire. `tests/wires/test_content.py` checks it.",
            "",
            *(f"- *{word}*: {meaning}" for word, meaning in WORDS.items()),
            *table(),
            "",
            "## Errors",
            *_table([*BEFORE, *INSIDE]),
            "",
            "A client gets an error in its own dialect, whatever the provider calls it. Before a response, the error has",
            "the status and the code below. After the start of a stream, it is the dialect's error event with that code.",
            "",
            *_failures(),
            "",
            "A stream that a provider cuts ends with that event, and never like a complete one: no `[DONE]`, no",
            "`message_stop`, no `finishReason`, no `done: true`, no `response.completed`.",
            "",
        ]
    )


def _table(differences: Iterable[Difference[T]]) -> list[str]:
    rows: list[str] = [
        f"| {each.name} | {_between(each.is_between)} | {each.reason}{_notice(each)} |" for each in differences
    ]
    return ["", "| what | between | why |", "|---|---|---|", *rows]


def _notice(difference: Difference[T]) -> str:
    return f" (with a notice for `{difference.notice}`)" if difference.notice else ""


def _between(is_between: Callable[[Pair], bool]) -> str:
    """The pairs that a difference applies to, as short as possible."""
    found = [pair for pair in PAIRS if is_between(pair)]
    sides = [name for name in wires.NAMES if all(pair in found for pair in PAIRS if name in pair[:2])]
    if sides and found == list(filter(either(*sides), PAIRS)):
        return "all" if len(found) == len(PAIRS) else f"{_names(sides)} on either side"
    streamed = " (streamed)" if all(pair.stream for pair in found) else ""
    by_client: dict[str, tuple[str, ...]] = {}
    for pair in found:
        by_client[pair.client] = tuple(dict.fromkeys((*by_client.get(pair.client, ()), pair.provider)))
    by_providers: dict[tuple[str, ...], list[str]] = {}
    for name, providers in by_client.items():
        by_providers.setdefault(providers, []).append(name)
    pairs = [f"{_names(clients)} → {_names(providers)}" for providers, clients in by_providers.items()]
    return "; ".join(pairs) + streamed


def _names(names: Iterable[str]) -> str:
    names = list(names)
    missing = [name for name in wires.NAMES if name not in names]
    if not missing:
        return "all"
    return f"all but {missing[0]}" if len(missing) == 1 else ", ".join(names)


def _failures() -> list[str]:
    rows: list[str] = ["| | " + " | ".join(wires.NAMES) + " |", "|---|" + "---|" * len(wires.NAMES)]
    for error in (*ERRORS, TimedOut("too late"), Truncated("cut")):
        failures = [expected_failure(dialect, error, inside=False) for dialect in wires.NAMES]
        cells = [f"{each.seen.status} {each.error.code or ''}".strip() for each in failures]
        rows.append(f"| {type(error).__name__} | " + " | ".join(cells) + " |")
    return rows


if __name__ == "__main__":
    print(page(), end="")
