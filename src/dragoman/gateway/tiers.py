"""Targets of a tier and the session of a conversation in, the order to try them out. Pure."""

from collections.abc import Sequence
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
