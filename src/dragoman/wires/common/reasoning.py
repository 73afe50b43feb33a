"""How hard to think in, the word or the budget that a target takes out."""

from typing import get_args

from dragoman.targets.target import Target
from dragoman.types import Effort, Request
from dragoman.wires.common.notices import NoticeCollector

EFFORTS: tuple[Effort, ...] = get_args(Effort)
BUDGETS: dict[Effort, int] = {"none": 0, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "max": 32768}
"""Tokens that a word stands for, where a target wants a number."""


def wanted(request: Request, target: Target, notes: NoticeCollector, /) -> Effort | int | None:
    """How hard the target shall think; None leaves it to itself.

    >>> from dragoman.targets.target import Capabilities
    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x", capabilities=Capabilities(thinking=False))
    >>> wanted(Request(reasoning="high"), target, NoticeCollector("w")) is None
    True
    """
    reasoning = request.reasoning
    asked = reasoning not in (None, "none", 0)
    if not target.capabilities.thinking:
        if asked:
            notes.add("dropped", "reasoning", "the model does not think")
        return None
    if request.tools and not target.quirks.reasoning_with_tools:
        if asked:
            notes.add("changed", "reasoning", "a model that has tools may not think, so it does not")
        return "none"
    return reasoning


def as_effort(reasoning: Effort | int, target: Target, notes: NoticeCollector, /) -> Effort:
    """The target's word that is nearest to what is asked.

    >>> target = Target(provider="p", model="m", wire="w", base_url="https://x")
    >>> as_effort(9000, target, NoticeCollector("w"))
    'medium'
    """
    effort = reasoning if isinstance(reasoning, str) else _nearest_word(reasoning)
    if not isinstance(reasoning, str):
        notes.add("changed", "reasoning", f"it takes a word, so {reasoning} tokens became {effort!r}")
    allowed = target.quirks.efforts
    if not allowed or effort in allowed:
        return effort
    rank = EFFORTS.index(effort)
    nearest = min(allowed, key=lambda word: (abs(EFFORTS.index(word) - rank), word == "none"))
    notes.add("changed", "reasoning", f"it does not take {effort!r}, so it got {nearest!r}")
    return nearest


def as_budget(reasoning: Effort | int, /) -> int:
    """The tokens that are asked for.

    >>> as_budget("low"), as_budget(500)
    (2048, 500)
    """
    return BUDGETS[reasoning] if isinstance(reasoning, str) else reasoning


def _nearest_word(tokens: int) -> Effort:
    """Any tokens at all are not "none"."""
    return min(EFFORTS[1:], key=lambda word: abs(BUDGETS[word] - tokens)) if tokens > 0 else "none"
