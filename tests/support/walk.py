"""Follows one call through the package: which files it enters, in which order, and how often it changes the place.

A place is a file. A package of helpers, such as `wires/common`, is one place: a reader enters it by one call with one
obvious name and need not follow further. Type guards are left out: they are an `isinstance` with a name. So are the
checks of values when they are made.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import Any, NamedTuple

import dragoman

PACKAGE = dragoman.__path__[0] + "/"
HELPERS = ("wires/common", "media", "schema", "targets", "types")
GUARDS = frozenset(
    {
        "is_object",
        "is_list",
        "object_of",
        "objects",
        "text_of",
        "__post_init__",
        "all_are",
        "check_texts",
        "check_fields",
        "check_reasoning",
    }
)
MAKERS = frozenset(
    {
        *("NamedParameters.__call__", "unchecked", "new_text", "new_message", "new_call", "new_result"),
        *("new_usage", "new_finish", "new_response", "complete_response", "served_attempt"),
    }
)
"""What stands for the constructor of a value."""


class Walk(NamedTuple):
    """The file of each function of ours that was entered, in order."""

    steps: list[str]

    @property
    def files(self) -> list[str]:
        """Each file once, in the order of the first visit."""
        return list(dict.fromkeys(self.steps))

    @property
    def places(self) -> list[str]:
        """Each place once, in the order of the first visit."""
        return list(dict.fromkeys(map(place_of, self.steps)))

    @property
    def changes(self) -> int:
        """How often the walk goes to another file; a call of a helper is no step of the walk."""
        return sum(one != other for one, other in pairwise(step for step in self.steps if place_of(step) == step))

    @property
    def file_changes(self) -> int:
        """How often a step is in another file than the one before, helpers included."""
        return sum(one != other for one, other in pairwise(self.steps))

    def __str__(self) -> str:
        """The places in order, as ARCHITECTURE.md shows them."""
        head = (
            f"{len(self.places)} places, {self.changes} changes "
            f"({len(self.files)} files, {self.file_changes} changes of file, {len(self.steps)} functions)"
        )
        return "\n".join([head, *(f"{number:3} {place}" for number, place in enumerate(self.places, 1))])


def place_of(file: str) -> str:
    """The place of a file: itself, or the package of helpers that it belongs to."""
    return next((f"{package}/" for package in HELPERS if file.startswith(f"{package}/")), file)


@contextmanager
def followed() -> Generator[Walk]:
    """Record the calls of this thread. Resuming a generator counts as entering it."""
    steps: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_guard = code.co_name in GUARDS or code.co_qualname in MAKERS
        if event == "call" and code.co_filename.startswith(PACKAGE) and not is_guard:
            steps.append(code.co_filename.removeprefix(PACKAGE))

    sys.setprofile(profile)
    try:
        yield Walk(steps)
    finally:
        sys.setprofile(None)


def walk_of(call: Callable[[], object]) -> Walk:
    """The walk of a call that was made twice before, so that nothing is loaded or created for the first time.

    It is the shortest of three: if a busy machine delivers a response in two pieces, the walk reads twice.
    """
    call()
    call()
    walks: list[Walk] = []
    for _ in range(3):
        with followed() as walk:
            call()
        walks.append(walk)
    return min(walks, key=lambda walk: walk.file_changes)
