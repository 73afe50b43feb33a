"""What a plan may ask for: effects, small values that are yielded; their results are sent back in.

A `Flow[T]` is a generator that yields effects and ends in a T. It does no I/O, reads no clock and throws no dice: the
driver does, once for blocking and once for async use. An effect that fails is raised inside the plan.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from dragoman.events import StreamEvent
from dragoman.http import Head, HttpRequest

T = TypeVar("T")


class Now(msgspec.Struct, frozen=True):
    """What time is it? Seconds of a clock that never goes back."""


class Dice(msgspec.Struct, frozen=True):
    """A number from 0 up to 1."""


class Sleep(msgspec.Struct, frozen=True):
    """Wait."""

    seconds: float


class Send(msgspec.Struct, frozen=True):
    """Send a request and read its whole answer: gives a `Reply`."""

    request: HttpRequest
    timeout: float | None = None
    connect: float | None = None
    limit: int | None = None
    """Bytes that the answer may have; more of them are not read, and are TooLarge."""


class Open(msgspec.Struct, frozen=True):
    """Send a request and begin to read its answer: gives an `Exchange`.

    The driver closes it when the plan ends, or asks for something that comes after it (a Sleep, another request).
    """

    request: HttpRequest
    timeout: float | None = None
    """Seconds until the head must be there."""
    connect: float | None = None
    total: float | None = None
    """Seconds until the whole answer must be there."""
    quiet: float | None = None
    """The longest silence that any `Read` will bear."""


class Read(msgspec.Struct, frozen=True):
    """The next bytes of an exchange, b"" at its end."""

    exchange: "Exchange"
    timeout: float | None = None


class Emit(msgspec.Struct, frozen=True):
    """Show these events to whoever listens."""

    events: Sequence[StreamEvent]


class Compute(msgspec.Struct, frozen=True):
    """Run a function that takes long, where it blocks nobody."""

    function: Callable[[], Any]


class Observe(msgspec.Struct, frozen=True):
    """Tell the observers; what they raise breaks nothing."""

    what: object


class Reply(msgspec.Struct, frozen=True):
    """A whole answer."""

    head: Head
    body: bytes


class Exchange(msgspec.Struct, frozen=True, eq=False):
    """An answer that is being read: its head, and the driver's own handle."""

    head: Head
    handle: Any


Effect: TypeAlias = Now | Dice | Sleep | Send | Open | Read | Emit | Compute | Observe
Flow: TypeAlias = Generator[Effect, Any, T]


def now() -> Flow[float]:
    """The time.

    >>> plan = now()
    >>> next(plan)
    Now()
    """
    moment: float = yield Now()
    return moment
