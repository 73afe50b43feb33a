"""Targets of a tier and the session of a conversation in, the order to try them out. Pure; dice are passed in."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from dragoman.targets.target import Target

if TYPE_CHECKING:
    from dragoman.gateway.sessions import ConversationState

TIERS = ("simple", "moderate", "complex")
"""From low to high, the first where none is told; others have no height, and move nothing."""


def is_higher(tier: str | None, other: str | None, tiers: Sequence[str] = TIERS, /) -> bool:
    """Whether a tier is higher than another. What is no tier is not higher than any.

    >>> is_higher("complex", "simple"), is_higher("simple", None), is_higher("mine", "simple")
    (True, False, False)
    """
    return tier in tiers and other in tiers and tiers.index(tier) > tiers.index(other)


def tier_of(wanted: str, session: "ConversationState | None", tiers: Sequence[str] = TIERS, /) -> str:
    """The tier whose targets a request goes to: the wanted one, or that of its session, which never goes down.

    >>> from dragoman.gateway.sessions import ConversationState
    >>> tier_of("simple", ConversationState(target="groq/llama", tier="complex"))
    'complex'
    """
    if session is not None and session.tier is not None and is_higher(session.tier, wanted, tiers):
        return session.tier
    return wanted


def arrange(targets: Sequence[Target], session: "ConversationState | None", tier: str | None = None, /) -> list[Target]:
    """The pinned target first; where the session moves to another tier, the other models of its provider after it.

    >>> from dragoman.gateway.sessions import ConversationState
    >>> from dragoman.targets.providers import target
    >>> targets = [target("groq/small"), target("ollama/big"), target("ollama/huge")]
    >>> [each.name for each in arrange(targets, ConversationState(target="ollama/tiny", tier="simple"), "complex")]
    ['ollama/big', 'ollama/huge', 'groq/small']
    """
    if session is None:
        return list(targets)
    provider = session.target.partition("/")[0] if tier != session.tier else None
    return sorted(targets, key=lambda target: (target.name != session.target, target.provider != provider))


def draw(targets: Sequence[Target], costs: Mapping[str, float], dice: Callable[[], float], /) -> list[Target]:
    """All targets in an order by lot, a target of twice the cost half as often before another.

    >>> from dragoman.targets.providers import target
    >>> [each.name for each in draw([target("groq/x"), target("ollama/y")], {"groq/x": 9.0}, lambda: 0.5)]
    ['ollama/y', 'groq/x']
    """
    # A race: the first of exponential waiting times is each target's with the probability of its weight.
    return sorted(targets, key=lambda target: -log(1.0 - dice()) * max(costs.get(target.name, 1.0), 1.0))
