"""How busy deployments are: requests in progress, recent latencies, and what is left of their rate limits.

Limits are those of the config (`DeploymentLimits`), which are never exceeded, and those that a provider reports in the
headers of its answers. Time is passed in; nothing runs by itself. If processes share the limits of the config, `Claim`
asks for room in them.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

import msgspec

from dragoman.engine.effects import Claim, Now, Plan, Sleep
from dragoman.http import MAX_WAIT, Head, rate_limit_states
from dragoman.targets.target import Target

WINDOW = 60.0
"""Seconds of a limit per minute."""
MAX_LATENCIES = 31
LATENCY_TTL = 60.0
"""Seconds after which a latency is old. If all are old, one request finds out how fast the target is now."""
SLOT_CHECK = 0.05
"""Seconds until the next check for a free slot."""
MAX_SLOT_CHECK = 0.25
"""The longest time between two such checks, in seconds."""
MAX_TARGETS = 4096
"""Targets whose load is known. Clients may choose the model of a pool, so their number is not limited otherwise."""

LimitKind: TypeAlias = Literal["requests", "tokens"]


class SharedSlot(Protocol):
    """The room of a request in limits that processes share."""

    def end(self, tokens: int | None, /) -> None:
        """Free the slot, and charge the tokens that were really used; None if that is not known. Never waits."""


class SharedLimits(Protocol):
    """The limits of deployments, counted for all processes."""

    async def claim(self, target: Target, tokens: int, /) -> "SharedSlot | LimitState | None":
        """Room for a request, or the limit that has none; None if nobody can count for all now."""


class Slot(msgspec.Struct, frozen=True, eq=False):
    """A request in progress at a target."""

    name: str
    began: float
    tokens: int
    """The tokens that were reserved for it."""
    number: int
    """How many requests the target had got before."""
    shared: SharedSlot | None = None


class LimitState(msgspec.Struct, frozen=True):
    """A limit that has no room for a request."""

    wait: float
    """Seconds until it may have room."""
    reason: str
    is_reported: bool = False
    """Whether it is the provider's own limit, as its headers report it."""


class Window:
    """What was used in the last minute, in steps of a second. In no period of 60 seconds is more than the limit used.

    >>> window = Window()
    >>> window.add(0.5, 2)
    >>> window.used(30.0), window.used(60.9), window.used(61.0)
    (2, 2, 0)
    """

    __slots__ = ("_steps", "_total")

    def __init__(self) -> None:
        self._steps: deque[list[int]] = deque()
        self._total = 0

    def add(self, now: float, amount: int, /) -> None:
        """Note what is used at a moment; a negative amount gives back."""
        second = int(now)
        self._expire(now)
        if not self._steps or self._steps[-1][0] != second:
            self._steps.append([second, 0])
        self._steps[-1][1] += amount
        self._total += amount

    def used(self, now: float, /) -> int:
        """What was used in the last minute."""
        self._expire(now)
        return self._total

    def wait(self, now: float, amount: int, limit: int, /) -> float:
        """Seconds until there is room for an amount; 0 if there is. More than the limit fits if nothing else is used.

        >>> window = Window()
        >>> window.add(10.0, 5)
        >>> window.wait(20.0, 1, 5), window.wait(20.0, 1, 6)
        (51.0, 0.0)
        """
        self._expire(now)
        left = self._total
        if left <= 0 or left + amount <= limit:
            return 0.0
        for second, used in self._steps:
            left -= used
            if left <= 0 or left + amount <= limit:
                return max(0.0, second + 1 + WINDOW - now)
        return WINDOW  # not reached: the last step leaves nothing

    def _expire(self, now: float) -> None:
        while self._steps and self._steps[0][0] + 1 + WINDOW <= now:
            self._total -= self._steps.popleft()[1]


class _Reported:
    """What is left of a limit that a provider reported."""

    __slots__ = ("left", "until")

    def __init__(self, left: int, until: float) -> None:
        self.left = left
        self.until = until


class TargetLoad:
    """The load of one target."""

    __slots__ = ("in_progress", "latencies", "refused", "reported", "requests", "started", "tokens")

    def __init__(self) -> None:
        self.in_progress = 0
        self.refused: tuple[float, str] | None = None
        """Until when limits that processes share have no room, and why."""
        self.started = 0
        """How many requests it has got."""
        self.requests = Window()
        self.tokens = Window()
        self.reported: dict[str, tuple[LimitKind, _Reported]] = {}
        """By the name of a limit."""
        self.latencies: dict[bool, deque[tuple[float, float]]] = {}
        """By whether the answer was streamed: the moments and the seconds of the last answers."""


class Loads:
    """The load of all targets that chains choose between."""

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self.processes = 1
        """How many processes share the limits of the config without counting together: each may use its part."""
        self._lock = lock or nullcontext()
        self._targets: dict[str, TargetLoad] = {}

    # Requests ---------------------------------------------------------------------------------------------------------

    def start(self, target: Target, now: float, tokens: int, /) -> Slot | None:
        """Start a request; None if a limit of the config has no room for it."""
        with self._lock:
            load = self._load(target.name)
            if self._own_limit(load, target, now, tokens) is not None:
                return None
            slot = Slot(target.name, now, tokens, load.started)
            load.in_progress += 1
            load.started += 1
            load.requests.add(now, 1)
            load.tokens.add(now, tokens)
            for kind, reported in load.reported.values():
                reported.left -= 1 if kind == "requests" else tokens
            return slot

    def end(self, slot: Slot, now: float, /, *, tokens: int | None = None) -> None:
        """Note that a request ended, and how many tokens it really used."""
        with self._lock:
            load = self._load(slot.name)
            load.in_progress -= 1
            if tokens is not None:
                load.tokens.add(now, tokens - slot.tokens)
        if slot.shared is not None:
            slot.shared.end(tokens)

    def claim(self, target: Target, now: float, tokens: int, /) -> Plan[Slot | None]:
        """As `start`, also within the limits that processes share."""
        slot = self.start(target, now, tokens)
        if slot is None or target.deployment_limits is None:
            return slot
        answer: SharedSlot | LimitState | None = None
        is_sent = False
        try:
            answer = yield Claim(target, tokens)
            is_sent = not isinstance(answer, LimitState)
        finally:
            if not is_sent:  # also if the call ends meanwhile
                self._take_back(slot, now)
        if isinstance(answer, LimitState):
            self._load(slot.name).refused = now + answer.wait, answer.reason
            return None
        return slot if answer is None else msgspec.structs.replace(slot, shared=answer)

    def _take_back(self, slot: Slot, now: float) -> None:
        """Undo `start` for a request that was not sent."""
        with self._lock:
            load = self._load(slot.name)
            load.in_progress -= 1
            load.requests.add(now, -1)
            load.tokens.add(now, -slot.tokens)
            for kind, reported in load.reported.values():
                reported.left += 1 if kind == "requests" else slot.tokens

    def full(self, target: Target, now: float, tokens: int, /) -> LimitState | None:
        """The limit that has no room for a request of this many tokens; None if it may start."""
        with self._lock:
            load = self._targets.get(target.name)
            if load is None:
                return None
            return self._own_limit(load, target, now, tokens) or _reported_limit(load, now, tokens)

    def _own_limit(self, load: TargetLoad, target: Target, now: float, tokens: int) -> LimitState | None:
        limits = target.deployment_limits
        if limits is None:
            return None
        if load.refused is not None and load.refused[0] > now:
            return LimitState(load.refused[0] - now, load.refused[1])
        if limits.concurrent is not None and load.in_progress >= (limit := self._part(limits.concurrent)):
            return LimitState(SLOT_CHECK, f"it has {limit} requests in progress, which is its limit")
        for most, window, amount, what in (
            (limits.requests_per_minute, load.requests, 1, "requests"),
            (limits.tokens_per_minute, load.tokens, tokens, "tokens"),
        ):
            if most is not None and (wait := window.wait(now, amount, self._part(most))):
                return LimitState(wait, f"its limit of {most} {what} per minute is used up for {wait:.1f} s more")
        return None

    def _part(self, limit: int) -> int:
        return max(1, limit // self.processes)

    # Facts from answers -----------------------------------------------------------------------------------------------

    def learn(self, name: str, head: Head, now: float, slot: Slot | None = None, /) -> None:
        """Read what is left of the provider's limits from the headers of an answer.

        Requests that started after this one may not be counted in the headers, so they are subtracted.
        """
        states = rate_limit_states(head)
        if not states:
            return
        with self._lock:
            load = self._load(name)
            later = 0 if slot is None else load.started - slot.number - 1
            for limit, (kind, remaining, reset) in states.items():
                left = remaining - (later if kind == "requests" else 0)
                until = now + min(MAX_WAIT, WINDOW if reset is None else reset)
                load.reported[limit] = kind, _Reported(left, until)

    def record_latency(self, name: str, now: float, seconds: float, /, *, stream: bool) -> None:
        """Note how long an answer took, or its first event if it was streamed."""
        with self._lock:
            latencies = self._load(name).latencies.setdefault(stream, deque(maxlen=MAX_LATENCIES))
            latencies.append((now, seconds))

    def latency(self, name: str, now: float, /, *, stream: bool) -> float | None:
        """The median of the recent latencies; None if there is none."""
        with self._lock:
            load = self._targets.get(name)
            recent: Sequence[tuple[float, float]] = () if load is None else load.latencies.get(stream, ())
            seconds = [seconds for moment, seconds in recent if moment > now - LATENCY_TTL]
        if not seconds:
            return None
        from statistics import median

        return median(seconds)

    def in_progress(self, name: str, /) -> int:
        """How many requests a target works on."""
        load = self._targets.get(name)
        return 0 if load is None else load.in_progress

    def snapshot(self) -> dict[str, int]:
        """The targets whose load is known, and how many requests each works on."""
        with self._lock:
            return {name: load.in_progress for name, load in self._targets.items()}

    def _load(self, name: str) -> TargetLoad:
        load = self._targets.get(name)
        if load is None:
            if len(self._targets) >= MAX_TARGETS:
                self._targets = {each: load for each, load in self._targets.items() if load.in_progress}
            load = self._targets[name] = TargetLoad()
        return load


def wait_for_next_check(wait: float, now: float, began: float, /) -> Plan[float]:
    """Wait until the next check for room; returns the time then. `began`: when the request began to wait."""
    # The longer a request waits, the more rarely it checks: many may wait for the same slot.
    yield Sleep(max(wait, min(MAX_SLOT_CHECK, (now - began) / 4)))
    moment: float = yield Now()
    return moment


def _reported_limit(load: TargetLoad, now: float, tokens: int) -> LimitState | None:
    for name, (kind, reported) in tuple(load.reported.items()):
        if reported.until <= now:
            del load.reported[name]
        elif reported.left < (1 if kind == "requests" else min(tokens, 1)):
            wait = reported.until - now
            return LimitState(wait, f"its provider reports no {kind} left for {wait:.1f} s more", is_reported=True)
    return None
