"""A plan in, its result or its events out: blocking and async. The only module that waits."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from dragoman.fetching import Fetcher
from dragoman.flow import (
    Await,
    Compute,
    Dice,
    Effect,
    Emit,
    Exchange,
    Fetch,
    Flow,
    Now,
    Observe,
    Open,
    Read,
    Running,
    Send,
    Sleep,
    Start,
)
from dragoman.jobs import AsyncJobs, Jobs
from dragoman.port import Handle, Transport

T = TypeVar("T")
Observer: TypeAlias = Callable[[Any], object]
_Answer: TypeAlias = Callable[[], Effect]


class Driver:
    """Runs plans over a transport.

    >>> from dragoman.flow import now
    >>> from dragoman.transport import transport_of
    >>> Driver(transport_of()).run(now()) > 0
    True
    """

    def __init__(
        self, transport: Transport, observers: Sequence[Observer] = (), *, fetcher: Fetcher | None = None
    ) -> None:
        self.transport = transport
        self.fetcher = fetcher or Fetcher()
        self.observers = list(observers)

    def run(self, flow: Flow[T], /) -> T:
        """The plan's result, blocking; what it emits is not shown."""
        events = self.iterate(flow)
        while True:
            try:
                next(events)
            except StopIteration as stop:
                result: T = stop.value
                return result

    async def arun(self, flow: Flow[T], /) -> T:
        """The plan's result, async; what it emits is not shown."""
        results: list[T] = []
        async for _ in self.aiterate(flow, results.append):
            continue
        return results[0]

    def iterate(self, flow: Flow[T], /) -> Generator[Any, None, T]:
        """The events that the plan emits, blocking, and at the end its result."""
        held = _Held()
        answer: _Answer = flow.__next__
        try:
            while True:
                try:
                    effect = answer()
                except StopIteration as stop:
                    held.finish()
                    value: T = stop.value
                    return value
                if isinstance(effect, Emit):
                    yield from effect.events
                    answer = _send(flow, None)
                    continue
                try:
                    result = self._perform(effect, held)
                except Exception as error:  # noqa: BLE001 - the plan decides what a failure means
                    answer = _throw(flow, error)
                else:
                    answer = _send(flow, result)
        finally:
            try:
                flow.close()
            finally:
                held.leave()

    async def aiterate(self, flow: Flow[T], done: Callable[[T], object], /) -> AsyncGenerator[Any, None]:
        """The events that the plan emits, async; its result goes to `done`."""
        held = _Held()
        answer: _Answer = flow.__next__
        try:
            while True:
                try:
                    effect = answer()
                except StopIteration as stop:
                    await held.afinish()
                    done(stop.value)
                    return
                if isinstance(effect, Emit):
                    for event in effect.events:
                        yield event
                    answer = _send(flow, None)
                    continue
                try:
                    result = await self._aperform(effect, held)
                except Exception as error:  # noqa: BLE001 - the plan decides what a failure means
                    answer = _throw(flow, error)
                else:
                    answer = _send(flow, result)
        finally:
            try:
                flow.close()
            finally:
                await held.aleave()

    def _perform(self, effect: Effect, held: "_Held") -> Any:
        match effect:
            case Now():
                return time.monotonic()
            case Read():
                return effect.exchange.handle.read(effect.timeout)
            case Send():
                held.close()
                return self.transport.send(effect)
            case Open():
                held.close()
                return held.take(self.transport.open(effect))
            case Sleep():
                held.close()
                return time.sleep(effect.seconds)
            case Compute():
                return effect.function()
            case Fetch():
                held.close()
                return self.fetcher.fetch(effect)
            case Start():
                return Running(held.jobs.start(effect.jobs))
            case Await():
                return effect.running.handle.next()
            case _:
                return self._tell(effect)

    async def _aperform(self, effect: Effect, held: "_Held") -> Any:
        match effect:
            case Now():
                return time.monotonic()
            case Read():
                return await effect.exchange.handle.aread(effect.timeout)
            case Send():
                await held.aclose()
                return await self.transport.asend(effect)
            case Open():
                await held.aclose()
                return held.take(await self.transport.aopen(effect))
            case Sleep():
                await held.aclose()
                return await asyncio.sleep(effect.seconds)
            case Compute():
                return await asyncio.to_thread(effect.function)
            case Fetch():
                await held.aclose()
                return await asyncio.to_thread(self.fetcher.fetch, effect)
            case Start():
                return Running(held.ajobs.start(effect.jobs))
            case Await():
                return await effect.running.handle.next()
            case _:
                return self._tell(effect)

    def _tell(self, effect: Effect) -> Any:
        if isinstance(effect, Dice):
            return random.random()  # noqa: S311 - jitter, no secret
        if isinstance(effect, Observe):
            tell(self.observers, effect.what)
        return None


def tell(observers: Sequence[Observer], what: object, /) -> None:
    """Tell some observers; what they raise breaks nothing.

    >>> tell([print, int, print], "a step")
    a step
    a step
    """
    for observer in observers:
        try:
            observer(what)
        except Exception:  # noqa: BLE001, S112 - an observer's mistake breaks no call
            continue


class _Held:
    """What a plan has open: an exchange, which another or a wait ends, and jobs, which end with it."""

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._jobs: Jobs | None = None
        self._ajobs: AsyncJobs | None = None

    @property
    def jobs(self) -> Jobs:
        self._jobs = self._jobs or Jobs()
        return self._jobs

    @property
    def ajobs(self) -> AsyncJobs:
        self._ajobs = self._ajobs or AsyncJobs()
        return self._ajobs

    def take(self, exchange: Exchange) -> Exchange:
        self._handle = exchange.handle
        return exchange

    def finish(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.finish()

    async def afinish(self) -> None:
        handle = self._handle
        if handle is not None:
            await handle.afinish()
        self._handle = None

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    async def aclose(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            await handle.aclose()

    def leave(self) -> None:
        try:
            self.close()
        finally:
            if self._jobs is not None:
                self._jobs.close()

    async def aleave(self) -> None:
        try:
            await self.aclose()
        finally:
            if self._ajobs is not None:
                await self._ajobs.aclose()


def _send(flow: Flow[Any], result: object) -> _Answer:
    return lambda: flow.send(result)


def _throw(flow: Flow[Any], error: Exception) -> _Answer:
    return lambda: flow.throw(error)
