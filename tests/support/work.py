"""Measures work without a clock: counts function calls and bytes."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """How many functions were called, ours and built in."""
    count = 0

    def tell(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def memory_of(work: Callable[[], object]) -> tuple[int, int]:
    """How many bytes are held after it, and how many were held at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
