"""The settings of health: how many failures start a cooldown, and how long it is."""

import math
from typing import Any

from dragoman.errors import SetupError
from dragoman.types.checks import shown
from dragoman.types.structs import CheckedStruct


class HealthPolicy(CheckedStruct, frozen=True, kw_only=True):
    """When a target is put on cooldown, and for how long. Times are in seconds.

    >>> [HealthPolicy().cooldown(n) for n in (1, 2, 3, 9)]
    [5.0, 10.0, 20.0, 300.0]
    """

    threshold: int = 2
    """Consecutive failures that start a cooldown."""
    base: float = 5.0
    """The first cooldown."""
    multiplier: float = 2.0
    """Each further cooldown is longer by this factor."""
    cap: float = 300.0
    """The longest cooldown."""
    lease: float = 60.0
    """After this time a trial that has not ended no longer blocks the next one: its caller may be gone."""
    down_after: float = 10.0
    """A target is down after nothing but failures for this time. Gateways then send it one request at a time."""

    def __post_init__(self) -> None:
        threshold: Any = self.threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
            raise SetupError(f"threshold must be a whole number >= 1, got {shown(threshold)}", param="threshold")
        for name, least in (("base", 0), ("multiplier", 1), ("cap", 0), ("lease", 0), ("down_after", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
                raise SetupError(f"{name} must be a number >= {least}, got {shown(value)}", param=name)

    def cooldown(self, number: int, /) -> float:
        """Seconds of the n-th consecutive cooldown."""
        return min(self.cap, self.base * self.multiplier ** min(number - 1, 64))
