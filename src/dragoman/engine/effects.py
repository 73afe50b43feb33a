"""What a plan may ask for: effects, small values that are yielded; their results are sent back in.

A `Plan[T]` is a generator that yields effects and ends in a T. It does no I/O, reads no clock and throws no dice: the
driver does, once for blocking and once for async use. An effect that fails is raised inside the plan.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from dragoman.http import Head, HttpRequest
from dragoman.types import Notice

T = TypeVar("T")


class Now(msgspec.Struct, frozen=True):
    """What time is it? Seconds of a clock that never goes back.

    >>> Now()
    Now()
    """


class Random(msgspec.Struct, frozen=True):
    """A number from 0 up to 1.

    >>> Random()
    Dice()
    """


class Sleep(msgspec.Struct, frozen=True):
    """Wait.

    >>> Sleep(0.25).seconds
    0.25
    """

    seconds: float


class Send(msgspec.Struct, frozen=True):
    """Send a request and read its whole answer: gives a `HttpResponse`.

    >>> Send(HttpRequest(method="POST", path="/x"), timeout=30.0).timeout
    30.0
    """

    request: HttpRequest
    timeout: float | None = None
    connect: float | None = None
    limit: int | None = None
    """Bytes that the answer may have; more of them are not read, and are TooLarge."""
    transport: Any = None
    """Who sends it, where a provider has one of its own."""


class Open(msgspec.Struct, frozen=True):
    """Send a request and begin to read its answer: gives an `Exchange`.

    The driver closes it when the plan ends, or asks for something that comes after it (a Sleep, another request).

    >>> Open(HttpRequest(method="POST", path="/x"), quiet=5.0).quiet
    5.0
    """

    request: HttpRequest
    timeout: float | None = None
    """Seconds until the head must be there."""
    connect: float | None = None
    total: float | None = None
    """Seconds until the whole answer must be there."""
    quiet: float | None = None
    """The longest silence that any `Read` will bear."""
    transport: Any = None
    """Who sends it, where a provider has one of its own."""


class Read(msgspec.Struct, frozen=True):
    """The next bytes of an exchange, b"" at its end.

    >>> Read(Exchange(Head(status=200), handle=None), timeout=5.0).timeout
    5.0
    """

    exchange: "Exchange"
    timeout: float | None = None


class Fetch(msgspec.Struct, frozen=True):
    """Fetch a picture that a caller gave by its URL: gives its bytes, or Unsupported where that is not safe.

    >>> Fetch("https://example.org/a.png", timeout=15.0, limit=1000).limit
    1000
    """

    url: str
    timeout: float
    limit: int


class Emit(msgspec.Struct, frozen=True):
    """Show these events to whoever listens: those of a stream, or an agent's.

    >>> Emit([]).events
    []
    """

    events: Sequence[Any]
    target: str | None = None
    """Whose events they are."""
    notices: tuple[Notice, ...] = ()
    """What was bent on the way there."""


class Compute(msgspec.Struct, frozen=True):
    """Run a function that takes long, where it blocks nobody; TimedOut where it takes longer than it may.

    It is given a function that says that the time is over, and asks it between its steps.

    >>> Compute(lambda stop: 6 * 7, timeout=5.0).function(lambda: False)
    42
    """

    function: Callable[[Callable[[], bool]], Any]
    timeout: float | None = None


class Observe(msgspec.Struct, frozen=True):
    """Tell the observers; what they raise breaks nothing.

    >>> Observe("an attempt").what
    'an attempt'
    """

    what: object


class Job(msgspec.Struct, frozen=True, eq=False):
    """A function of the user's, and the seconds that it may take; one that gives an awaitable is awaited.

    >>> Job(lambda: 6 * 7, timeout=60.0).function()
    42
    """

    function: Callable[[], Any]
    timeout: float | None = None
    """None has no limit; then a job that is alone runs in the thread of its blocking plan, not in one of its own."""
    is_quick: bool = False
    """Whether calling it takes no time, as with a coroutine function: it is called on the spot, and what it gives
    awaited. Others are called where they block nobody."""


class StartJobs(msgspec.Struct, frozen=True):
    """Begin some jobs, all at once: gives a `JobGroup`.

    >>> len(StartJobs((Job(int),)).jobs)
    1
    """

    jobs: tuple[Job, ...]


class NextResult(msgspec.Struct, frozen=True):
    """The next job that ends: gives its number and its `JobResult`.

    >>> NextResult(JobGroup(handle=None)).running.handle is None
    True
    """

    running: "JobGroup"


class JobGroup(msgspec.Struct, frozen=True, eq=False):
    """Jobs that were begun, as the driver's own handle. It ends them when the plan ends.

    >>> JobGroup(handle=None).handle is None
    True
    """

    handle: Any


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: with a value, or with an error; and the seconds that it took.

    >>> JobResult(value=42).error is None
    True
    """

    value: Any = None
    error: BaseException | None = None
    duration: float = 0.0


class HttpResponse(msgspec.Struct, frozen=True):
    """A whole answer.

    >>> HttpResponse(Head(status=200), b"{}").body
    b'{}'
    """

    head: Head
    body: bytes


class Exchange(msgspec.Struct, frozen=True, eq=False):
    """An answer that is being read: its head, and the driver's own handle.

    >>> Exchange(Head(status=200), handle=None).head.status
    200
    """

    head: Head
    handle: Any


IoEffect: TypeAlias = Random | Sleep | Send | Open | Read | Fetch | Compute | Observe | StartJobs | NextResult
Effect: TypeAlias = Now | Emit | IoEffect
Plan: TypeAlias = Generator[Effect, Any, T]


def now() -> Plan[float]:
    """The time.

    >>> plan = now()
    >>> next(plan)
    Now()
    """
    moment: float = yield Now()
    return moment


def perform(job: Job, /) -> Plan[JobResult]:
    """How one job ends.

    >>> plan = perform(Job(int))
    >>> isinstance(next(plan), StartJobs)
    True
    """
    running: JobGroup = yield StartJobs((job,))
    ended: tuple[int, JobResult] = yield NextResult(running)
    return ended[1]
