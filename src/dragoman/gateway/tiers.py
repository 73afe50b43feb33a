"""Tiers: classes of models, from low to high, and the order in which a conversation tries their targets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.targets.target import Target

if TYPE_CHECKING:
    from dragoman.gateway.conversations import ConversationState

TIERS = ("simple", "moderate", "complex")
"""From low to high. A request without a model or tier gets the first. Tiers with other names have no order."""


def is_higher(tier: str | None, other: str | None, /) -> bool:
    """Whether a tier is higher than another; False if one of them is not in `TIERS`."""
    return tier in TIERS and other in TIERS and TIERS.index(tier) > TIERS.index(other)


def effective_tier(requested: str, conversation: "ConversationState | None", /) -> str:
    """The requested tier, or that of the conversation if it is higher: a conversation never moves down."""
    if conversation is not None and conversation.tier is not None and is_higher(conversation.tier, requested):
        return conversation.tier
    return requested


def put_conversation_first(
    targets: Sequence[Target], conversation: "ConversationState | None", tier: str | None = None, /
) -> list[Target]:
    """The conversation's target first; if it moves to another tier, then the other models of its provider."""
    if conversation is None:
        return list(targets)
    current = conversation.target
    provider = current.partition("/")[0] if tier != conversation.tier else None
    return sorted(targets, key=lambda target: (target.name != current, target.provider != provider))
