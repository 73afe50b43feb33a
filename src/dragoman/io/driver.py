"""A plan in, its result or its events out: blocking and async. The only module that waits."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from dragoman.engine.effects import (
    Compute,
    Emit,
    Exchange,
    Fetch,
    IoEffect,
    JobGroup,
    NextResult,
    Now,
    Observe,
    Open,
    Plan,
    Random,
    Read,
    Send,
    Sleep,
    StartJobs,
)
from dragoman.errors import SetupError
from dragoman.io.task_runner import AsyncJobs, Jobs
from dragoman.io.transport import Handle, Transport
from dragoman.io.url_fetcher import Fetcher
from dragoman.io.worker_threads import acompute, compute

T = TypeVar("T")
Observer: TypeAlias = Callable[[Any], object]


class Driver:
    """Runs plans over a transport.

    >>> from dragoman.engine.effects import now
    >>> from dragoman.io.pyreqwest import transport_of
    >>> Driver(transport_of()).run(now()) > 0
    True
    """

    def __init__(
        self, transport: Transport, observers: Sequence[Observer] = (), *, fetcher: Fetcher | None = None
    ) -> None:
        self.transport = transport
        self.fetcher = fetcher or Fetcher()
        self.observers = list(observers)

    def run(self, flow: Plan[T], /) -> T:
        """The plan's result, blocking; what it emits is not shown."""
        walk = _Execution(self, flow)
        try:
            while walk.advance() is not None:
                continue
            return walk.result
        finally:
            walk.close()

    async def arun(self, flow: Plan[T], /) -> T:
        """The plan's result, async; what it emits is not shown."""
        _check_loop()
        walk = _Execution(self, flow)
        try:
            while await walk.aadvance() is not None:
                continue
            return walk.result
        finally:
            await walk.aclose()

    def iterate(self, flow: Plan[T], /) -> Generator[Any, None, T]:
        """The events that the plan emits, blocking, and at the end its result."""
        walk = _Execution(self, flow)
        try:
            while (emission := walk.advance()) is not None:
                yield from emission.events
            return walk.result
        finally:
            walk.close()

    async def aiterate(self, flow: Plan[T], done: Callable[[T], object], /) -> AsyncGenerator[Any, None]:
        """The events that the plan emits, async; its result goes to `done`."""
        _check_loop()
        walk = _Execution(self, flow)
        try:
            while (emission := await walk.aadvance()) is not None:
                for event in emission.events:
                    yield event
            done(walk.result)
        finally:
            await walk.aclose()

    async def aemissions(self, flow: Plan[Any], /) -> AsyncGenerator[Emit, None]:
        """The batches of events that the plan emits, async; its result is dropped."""
        _check_loop()
        walk = _Execution(self, flow)
        try:
            while (emission := await walk.aadvance()) is not None:
                yield emission
        finally:
            await walk.aclose()

    def perform(self, effect: IoEffect, held: "_Resources") -> Any:
        """Its result, blocking."""
        match effect:
            case Read():
                return effect.exchange.handle.read(effect.timeout)
            case Send():
                held.close()
                return self.transport.send(effect)
            case Observe():
                return tell(self.observers, effect.what)
            case Open():
                held.close()
                return held.take(self.transport.open(effect))
            case Sleep():
                held.close()
                return time.sleep(effect.seconds)
            case Compute():
                return compute(effect)
            case Fetch():
                held.close()
                return self.fetcher.fetch(effect)
            case StartJobs():
                return JobGroup(held.jobs.start(effect.jobs))
            case NextResult():
                return effect.group.handle.next()
            case Random():
                return random.random()  # noqa: S311 - jitter, no secret
            case _:
                assert_never(effect)

    async def aperform(self, effect: IoEffect, held: "_Resources") -> Any:
        """Its result, async."""
        match effect:
            case Read():
                return await effect.exchange.handle.aread(effect.timeout)
            case Send():
                await held.aclose()
                return await self.transport.asend(effect)
            case Observe():
                return tell(self.observers, effect.what)
            case Open():
                await held.aclose()
                return held.take(await self.transport.aopen(effect))
            case Sleep():
                await held.aclose()
                return await asyncio.sleep(effect.seconds)
            case Compute():
                return await acompute(effect)
            case Fetch():
                await held.aclose()
                return await asyncio.to_thread(self.fetcher.fetch, effect)
            case StartJobs():
                return JobGroup(held.ajobs.start(effect.jobs))
            case NextResult():
                return await effect.group.handle.next()
            case Random():
                return random.random()  # noqa: S311 - jitter, no secret
            case _:
                assert_never(effect)


class _Execution(Generic[T]):
    """A plan under way. It advances to what it emits next, and to None at its end."""

    result: T

    def __init__(self, driver: Driver, flow: Plan[T]) -> None:
        self._driver = driver
        self._flow = flow
        self._held = _Resources()

    def advance(self) -> Emit | None:
        answer, error = None, None
        while True:
            try:
                effect = self._flow.send(answer) if error is None else self._flow.throw(error)
            except StopIteration as stop:
                self._held.finish()
                self.result = stop.value
                return None
            answer, error = None, None
            if isinstance(effect, Emit):
                return effect
            try:
                answer = time.monotonic() if isinstance(effect, Now) else self._driver.perform(effect, self._held)
            except Exception as failed:  # noqa: BLE001 - the plan decides what a failure means
                error = failed

    async def aadvance(self) -> Emit | None:
        answer, error = None, None
        while True:
            try:
                effect = self._flow.send(answer) if error is None else self._flow.throw(error)
            except StopIteration as stop:
                await self._held.afinish()
                self.result = stop.value
                return None
            answer, error = None, None
            if isinstance(effect, Emit):
                return effect
            try:
                if isinstance(effect, Now):
                    answer = time.monotonic()
                else:
                    answer = await self._driver.aperform(effect, self._held)
            except Exception as failed:  # noqa: BLE001 - the plan decides what a failure means
                error = failed

    def close(self) -> None:
        try:
            self._flow.close()
        finally:
            self._held.leave()

    async def aclose(self) -> None:
        try:
            self._flow.close()
        finally:
            await self._held.aleave()


def _check_loop() -> None:
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - as public as get_running_loop, and raises nothing
        raise SetupError("async calls need asyncio; under trio, make blocking calls by trio.to_thread.run_sync")


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


class _Resources:
    """What a plan has open: an exchange, which another or a wait ends, and jobs, which end with it."""

    _handle: Handle | None = None
    _jobs: Jobs | None = None
    _ajobs: AsyncJobs | None = None

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
