"""The differences of the matrix in, docs/fidelity.md out."""

from collections.abc import Callable, Iterable

from dragoman import wires
from dragoman.errors import TimedOut, Truncated
from tests.support.gateway.differences import ANSWERS, BEFORE, ERRORS, INSIDE, REQUESTS, Difference, T, either
from tests.support.gateway.encounters import PAIRS, Pair, told_by
from tests.support.gateway.scenes import SCENES


def page() -> str:
    """docs/fidelity.md."""
    count = len(wires.NAMES)
    return "\n".join(
        [
            "# Fidelity",
            "",
            f"{count} dialects of clients before {count} wires of providers, plain and streamed: what a client sees",
            "is the same whatever the provider, and what a provider is asked is the same whatever the client, but for",
            "the differences on this page. `tests/gateway/test_matrix.py` has every client talk to every provider, allows",
            "these and no others, and fails where one of them is no longer there.",
            "",
            "Made from `tests/support/gateway/differences.py` by `python -m tests.support.gateway.fidelity > docs/fidelity.md`.",
            "",
            "The conversations: " + ", ".join(SCENES) + "; every kind of error, before an answer and inside it; a",
            "stream that is cut.",
            "",
            "## What a client sees of an answer",
            *_table(ANSWERS),
            "",
            "## What a provider is asked",
            *_table(REQUESTS),
            "",
            "## A failure",
            *_table([*BEFORE, *INSIDE]),
            "",
            "A client is told a failure in the words of its own dialect, whatever the provider called it: as the status",
            "and word below, and, once a stream has begun, as the dialect's error event with that word.",
            "",
            *_failures(),
            "",
            "A stream that a provider cuts ends with that event, and never as if it were whole: no `[DONE]`, no",
            "`message_stop`, no `finishReason`, no `done: true`, no `response.completed`.",
            "",
        ]
    )


def _table(differences: Iterable[Difference[T]]) -> list[str]:
    rows: list[str] = [
        f"| {each.name} | {_between(each.is_between)} | {each.reason}{_told(each)} |" for each in differences
    ]
    return ["", "| what | between | why |", "|---|---|---|", *rows]


def _told(difference: Difference[T]) -> str:
    return f" (a notice tells of `{difference.notice}`)" if difference.notice else ""


def _between(is_between: Callable[[Pair], bool]) -> str:
    """Those between whom a difference is there, in the fewest words."""
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
    told = [f"{_names(clients)} → {_names(providers)}" for providers, clients in by_providers.items()]
    return "; ".join(told) + streamed


def _names(names: Iterable[str]) -> str:
    names = list(names)
    missing = [name for name in wires.NAMES if name not in names]
    if not missing:
        return "all"
    return f"all but {missing[0]}" if len(missing) == 1 else ", ".join(names)


def _failures() -> list[str]:
    rows: list[str] = ["| | " + " | ".join(wires.NAMES) + " |", "|---|" + "---|" * len(wires.NAMES)]
    for error in (*ERRORS, TimedOut("too late"), Truncated("cut")):
        told = [told_by(dialect, error, inside=False) for dialect in wires.NAMES]
        cells = [f"{each.seen.status} {each.error.code or ''}".strip() for each in told]
        rows.append(f"| {type(error).__name__} | " + " | ".join(cells) + " |")
    return rows


if __name__ == "__main__":
    print(page(), end="")
