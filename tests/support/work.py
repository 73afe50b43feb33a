"""Measures work without a clock: counts function calls, bytes and objects."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


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


class NewObjects:
    """In its `with` block the garbage collector does not run; `count` says how many objects of a type are new."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._before: list[object] = []

    def __enter__(self) -> Self:
        gc.collect()
        self._before = self._all()
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        gc.enable()
        self._before = []

    def count(self) -> int:
        before = {id(each) for each in self._before}
        return sum(id(each) not in before for each in self._all())

    def _all(self) -> list[object]:
        return [each for each in gc.get_objects() if type(each) is self._kind]
