"""Effects: the values that a plan yields to ask for I/O.

A `Plan[T]` is a generator that yields effects, is sent their results, and returns a T. It does no I/O, reads no clock
and draws no random numbers: the driver does, for blocking and for async callers. If an effect fails, the driver raises
its error inside the plan. So a plan can be tested step by step without sockets, clocks or sleeping.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar, final

import msgspec

from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Notice

T = TypeVar("T")


@final
class Now(msgspec.Struct, frozen=True):
    """The time, in seconds of a monotonic clock."""


class Random(msgspec.Struct, frozen=True):
    """A random number from 0 up to 1."""


class Sleep(msgspec.Struct, frozen=True):
    """Wait."""

    seconds: float


class Sign(msgspec.Struct, frozen=True):
    """Sign a request with the target's credential. The result is the signed `HttpRequest`."""

    request: HttpRequest
    target: Target
    rejected: str | None = None
    """The `secret` of a signed request that the server rejected: another key is needed."""
    timeout: float | None = None
    stopper: Any = None
    """Set by the driver: stops it from another thread."""


@final
class Send(msgspec.Struct, frozen=True):
    """Send a request and read the whole response. The result is an `HttpResponse`."""

    request: HttpRequest
    total_timeout: float | None = None
    """Seconds until the whole response must have come."""
    connect_timeout: float | None = None
    limit: int | None = None
    """Bytes that the response may have; a longer one raises TooLarge."""
    head_timeout: float | None = None
    """Seconds until the head of the response must have come."""
    transport: Any = None
    """The transport of the provider, if it has its own."""
    stopper: Any = None
    """Set by the driver: stops it from another thread."""


class Open(msgspec.Struct, frozen=True):
    """Send a request and read the head of the response. The result is an `OpenResponse`.

    The driver closes it when the plan ends, sleeps, or sends another request.
    """

    request: HttpRequest
    head_timeout: float | None = None
    """Seconds until the head must have come."""
    connect_timeout: float | None = None
    total_timeout: float | None = None
    """Seconds until the whole response must have come."""
    read_timeout: float | None = None
    """The longest timeout of the `Read`s that follow."""
    transport: Any = None
    """The transport of the provider, if it has its own."""
    stopper: Any = None
    """Set by the driver: stops it from another thread."""


class Read(msgspec.Struct, frozen=True):
    """Read the next bytes of a response. The result is b"" at its end."""

    response: "OpenResponse"
    timeout: float | None = None


class Fetch(msgspec.Struct, frozen=True):
    """Fetch an image by a URL from the caller. The result is its bytes; raises Unsupported if that is not safe."""

    url: str
    timeout: float
    limit: int
    stopper: Any = None
    """Set by the driver: stops it from another thread."""


@final
class Emit(msgspec.Struct, frozen=True):
    """Give events to the caller: those of a stream, or of an agent."""

    events: Sequence[Any]
    target: str | None = None
    """The target that the events come from."""
    notices: tuple[Notice, ...] = ()
    """The notices of its request."""


class RemoteCopy(msgspec.Struct, frozen=True):
    """Something that a provider stores for us under an id, and for how many more seconds."""

    id: str
    seconds: float


class Recall(msgspec.Struct, frozen=True):
    """Look up what a provider stores for us. The result is a `RemoteCopy`, or None if there is none."""

    key: str


class RecallAll(msgspec.Struct, frozen=True):
    """Look up all that providers store for us under keys with some prefix. The result is a dict of `RemoteCopy`."""

    prefix: str


class Remember(msgspec.Struct, frozen=True):
    """Note what a provider stores for us; None if it stores it no longer."""

    key: str
    copy: RemoteCopy | None


class Claim(msgspec.Struct, frozen=True):
    """Ask for room in the limits of a deployment, which several processes may share.

    The result is a `SharedSlot`, the `LimitState` of a limit that has no room, or None if nothing is shared.
    """

    target: Target
    tokens: int


class Compute(msgspec.Struct, frozen=True):
    """Run a function that takes long, outside the event loop. Raises TimedOut after the timeout.

    The function gets a callable that returns True when the time is over; it calls that between its steps.
    """

    function: Callable[[Callable[[], bool]], Any]
    timeout: float | None = None


@final
class Observe(msgspec.Struct, frozen=True):
    """Pass a value to the observers. Their exceptions are ignored."""

    what: object


class Job(msgspec.Struct, frozen=True, eq=False):
    """A function of the user, and its time limit. If it returns an awaitable, that is awaited."""

    function: Callable[[], Any]
    timeout: float | None = None
    """None means no limit; a single job without a limit runs in the thread of its blocking plan."""
    is_quick: bool = False
    """Whether calling it takes no time, as with a coroutine function. Then it is called in the event loop, and its
    result is awaited there. Other functions are called in a thread."""


class StartJobs(msgspec.Struct, frozen=True):
    """Start some jobs at the same time. The result is a `JobGroup`."""

    jobs: tuple[Job, ...]


class StartPlans(msgspec.Struct, frozen=True, eq=False):
    """Start some plans at the same time. The result is a `JobGroup`; their events are dropped."""

    plans: tuple["Plan[Any]", ...]


class NextResult(msgspec.Struct, frozen=True):
    """Wait for the next job that ends. The result is its number and its `JobResult`."""

    group: "JobGroup"


class JobGroup(msgspec.Struct, frozen=True, eq=False):
    """Jobs that were started, as a handle of the driver. The driver ends them when the plan ends."""

    handle: Any


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: its value or its error, and how long it took."""

    value: Any = None
    error: BaseException | None = None
    duration: float = 0.0


class OpenResponse(msgspec.Struct, frozen=True, eq=False):
    """An HTTP response that is being read: its head, and a handle of the driver."""

    head: Head
    handle: Any


IoEffect: TypeAlias = (
    Random
    | Sleep
    | Sign
    | Open
    | Read
    | Fetch
    | RecallAll
    | Recall
    | Remember
    | Claim
    | Compute
    | StartJobs
    | StartPlans
    | NextResult
)
Effect: TypeAlias = Now | Emit | Send | Observe | IoEffect
"""The first four are in almost every plan, so the driver looks for them first."""
Plan: TypeAlias = Generator[Effect, Any, T]


def perform(job: Job, /) -> Plan[JobResult]:
    """Run one job."""
    group: JobGroup = yield StartJobs((job,))
    ended: tuple[int, JobResult] = yield NextResult(group)
    return ended[1]
