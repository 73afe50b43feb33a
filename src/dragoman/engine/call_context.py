"""The time limits of a call, and everything else that its attempts share."""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import SetupError
from dragoman.events import Restarted
from dragoman.http import HttpRequest
from dragoman.media import MediaCache
from dragoman.targets.target import Target
from dragoman.types import Notice, Request
from dragoman.types.checks import shown
from dragoman.types.structs import CheckedStruct

MAX_TIMEOUT = 1e9
"""Seconds. Longer limits mean no limit: timers cannot count that far."""


class Timeouts(CheckedStruct, frozen=True, kw_only=True):
    """How long a call may take, in seconds: the whole call, and each stage. None and infinity mean no limit."""

    total: float | None = 600.0
    """The whole call, across all attempts."""
    connect: float | None = 10.0
    """Until a connection is ready: name, TCP, proxy, TLS."""
    first_event: float | None = None
    """Until a stream has content; pings do not count. For a plain call: until its answer begins. Then the attempt ends,
    and the chain goes on."""
    idle: float | None = None
    """Between one piece of content of a stream and the next."""
    step: float | None = None
    """One step of an agent."""
    tool: float | None = None
    """One tool call of an agent."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            seconds = getattr(self, name)
            if seconds is None:
                continue
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
                reason = f"{name} must be seconds >= 0 or None for no limit, got {shown(seconds)}"
                raise SetupError(reason, param=name)
            if seconds > MAX_TIMEOUT:
                msgspec.structs.force_setattr(self, name, None)

    @property
    def max_read_timeout(self) -> float | None:
        """The longer of `first_event` and `idle`; None if one of them has no limit."""
        return None if self.first_event is None or self.idle is None else max(self.first_event, self.idle)


def remaining_time(timeouts: Timeouts, seconds: float, /) -> Timeouts:
    """The time limits of what is left of a call after some seconds.

    >>> remaining_time(Timeouts(total=30), 10).total
    20
    """
    total = timeouts.total
    return timeouts if total is None else msgspec.structs.replace(timeouts, total=max(total - seconds, 0.001))


AdaptRequest: TypeAlias = Callable[[Request, Target], tuple[Request, tuple[Notice, ...]]]
"""Makes the request for one target, with notices of what the target does not get."""


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt is made. The attempts of a call share its deadline and its media cache."""

    timeouts: Timeouts = Timeouts()
    deadline: float | None = None
    """The moment at which the whole call must end."""
    media_cache: MediaCache = msgspec.field(default_factory=MediaCache)
    fetch_images: bool = False
    """Whether to fetch images by URL for a target that cannot."""
    degrade_tool_media: bool = False
    """Whether to replace media in tool results by a note if the target does not take them."""
    call_deltas: bool = False
    """Whether a stream also emits the fragments of tool calls, as CallDelta."""
    restarted: Restarted | None = None
    """An event to emit before those of a stream that replaces an interrupted one."""
    notices: tuple[Notice, ...] = ()
    """What was already changed for the target."""
    change_http: Callable[[HttpRequest], Generator[Any, Any, HttpRequest]] | None = None
    """A plan that changes the encoded request before it is sent."""
    adapt: AdaptRequest | None = None
    """What changes the request for the target before it is encoded."""
    blocked_is_error: bool = False
    """Whether an answer that a content filter ended before its first event is an error, because there is a fallback."""
