import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import Effort, Request, Tool
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import BUDGETS, EFFORTS, requested_reasoning, to_budget, to_effort

TOOLS = (Tool(name="now"),)


def effort(reasoning: Effort | int, allowed: tuple[Effort, ...] | None = None) -> tuple[Effort, list[str]]:
    notes = NoticeCollector("w")
    target = Target(provider="p", model="m", wire="w", base_url="https://x", quirks=Quirks(efforts=allowed))
    return to_effort(reasoning, target, notes), [notice.why for notice in notes.notices]


@pytest.mark.parametrize("word", EFFORTS)
def test_a_word_that_the_target_takes_is_sent_as_it_is(word: Effort) -> None:
    assert effort(word) == (word, [])
    assert effort(word, (word,)) == (word, [])


@pytest.mark.parametrize(
    ("requested", "allowed", "expected"),
    [
        ("max", ("low", "medium", "high"), "high"),
        ("minimal", ("low", "medium", "high"), "low"),
        ("none", ("low", "high"), "low"),
        ("minimal", ("none", "low"), "low"),
        ("minimal", ("none", "high"), "none"),
        ("medium", ("none", "high"), "high"),
    ],
)
def test_another_word_is_the_nearest_that_the_target_takes(
    requested: Effort, allowed: tuple[Effort, ...], expected: Effort
) -> None:
    assert effort(requested, allowed) == (expected, [f"w: {requested!r} became {expected!r}: not supported"])


@pytest.mark.parametrize(
    ("tokens", "word"),
    [(0, "none"), (-1, "none"), (1, "minimal"), (1024, "minimal"), (9000, "medium"), (10**6, "max")],
)
def test_a_budget_becomes_the_nearest_word(tokens: int, word: Effort) -> None:
    assert effort(tokens) == (word, [f"w: {tokens} tokens became {word!r}: a number is not supported"])


def test_one_notice_says_what_became_of_a_budget() -> None:
    assert effort(10**6, ("low", "high")) == ("high", ["w: 1000000 tokens became 'high': a number is not supported"])


def test_a_target_that_names_no_words_takes_all() -> None:
    assert effort("low", ()) == ("low", [])


@given(st.sampled_from(EFFORTS) | st.integers(0, 10**6), st.lists(st.sampled_from(EFFORTS), min_size=1, unique=True))
def test_a_target_gets_only_words_that_it_takes(reasoning: Effort | int, allowed: list[Effort]) -> None:
    assert effort(reasoning, tuple(allowed))[0] in allowed


@pytest.mark.parametrize(
    ("capabilities", "quirks", "tools", "requested", "got", "kinds"),
    [
        (Capabilities(), Quirks(), TOOLS, "high", "high", []),
        (Capabilities(), Quirks(), (), None, None, []),
        (Capabilities(thinking=False), Quirks(), (), "high", None, ["dropped"]),
        (Capabilities(thinking=False), Quirks(), (), "none", None, []),
        (Capabilities(thinking=False), Quirks(), (), None, None, []),
        (Capabilities(), Quirks(reasoning_with_tools=False), TOOLS, 500, "none", ["changed"]),
        (Capabilities(), Quirks(reasoning_with_tools=False), TOOLS, None, "none", []),
        (Capabilities(), Quirks(reasoning_with_tools=False), (), "high", "high", []),
    ],
)
def test_a_target_thinks_as_hard_as_it_can_and_is_asked(
    capabilities: Capabilities,
    quirks: Quirks,
    tools: tuple[Tool, ...],
    requested: Effort | int | None,
    got: Effort | int | None,
    kinds: list[str],
) -> None:
    notes = NoticeCollector("w")
    target = Target(provider="p", model="m", wire="w", base_url="https://x", capabilities=capabilities, quirks=quirks)
    assert requested_reasoning(Request(tools=tools, reasoning=requested), target, notes) == got
    assert [notice.kind for notice in notes.notices] == kinds


@pytest.mark.parametrize(("word", "tokens"), BUDGETS.items())
def test_a_word_stands_for_a_budget(word: Effort, tokens: int) -> None:
    assert to_budget(word) == tokens


def test_a_budget_is_sent_as_it_is() -> None:
    assert to_budget(500) == 500


def test_more_effort_is_a_larger_budget() -> None:
    assert [BUDGETS[word] for word in EFFORTS] == sorted(BUDGETS.values())
