"""Follows one call through the package: which files it enters, in which order, and how often it changes the file."""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import dragoman

PACKAGE = dragoman.__path__[0] + "/"


class Walk(NamedTuple):
    """The file of each function of ours that was entered, in order."""

    steps: list[str]

    @property
    def files(self) -> list[str]:
        """Each file once, in the order of the first visit."""
        return list(dict.fromkeys(self.steps))

    @property
    def changes(self) -> int:
        """How often a step is in another file than the one before."""
        return sum(one != other for one, other in zip(self.steps, self.steps[1:], strict=False))

    def __str__(self) -> str:
        """The files in order, as ARCHITECTURE.md shows them."""
        head = f"{len(self.files)} files, {len(self.steps)} functions, {self.changes} changes of file"
        return "\n".join([head, *(f"  {number:2} {file}" for number, file in enumerate(self.files, 1))])


@contextmanager
def followed(*, threads: bool = False) -> Generator[Walk]:
    """Record the calls of this thread, or of threads that start meanwhile, too."""
    steps: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            steps.append(frame.f_code.co_filename.removeprefix(PACKAGE))

    if threads:
        threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield Walk(steps)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk_of(call: Callable[[], object], /) -> Walk:
    """The walk of a call that was made twice before, so that nothing is loaded or made for the first time."""
    call()
    call()
    with followed() as walk:
        call()
    return walk
