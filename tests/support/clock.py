"""Time as tests take it: on a busy machine anything may be late once."""

import time
from collections.abc import Callable

import pytest

TRIES = 10


def soonest(work: Callable[[], object], error: type[BaseException], *, most: float) -> float:
    """Seconds until the error comes, the best of some tries: late every time is our fault."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.monotonic()
        with pytest.raises(error):
            work()
        best = min(best, time.monotonic() - began)
        if best <= most:
            break
    return best
