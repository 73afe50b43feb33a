"""A plan in, its result or its events out: blocking and async. The only module that waits."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from dragoman.events import StreamEvent
from dragoman.fetching import Fetcher
from dragoman.flow import Compute, Dice, Effect, Emit, Exchange, Fetch, Flow, Now, Observe, Open, Read, Send, Sleep
from dragoman.port import Handle, Transport

T = TypeVar("T")
Observer: TypeAlias = Callable[[object], None]
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

    def iterate(self, flow: Flow[T], /) -> Generator[StreamEvent, None, T]:
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
                held.close()

    async def aiterate(self, flow: Flow[T], done: Callable[[T], object], /) -> AsyncGenerator[StreamEvent, None]:
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
                await held.aclose()

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
            case _:
                return self._tell(effect)

    def _tell(self, effect: Effect) -> Any:
        if isinstance(effect, Dice):
            return random.random()  # noqa: S311 - jitter, no secret
        if isinstance(effect, Observe):
            for observer in self.observers:
                try:
                    observer(effect.what)
                except Exception:  # noqa: BLE001, S112 - an observer's mistake breaks no call
                    continue
        return None


class _Held:
    """The exchange that a plan reads. It reads one at a time: asking for another, or for time, ends the last."""

    def __init__(self) -> None:
        self._handle: Handle | None = None

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


def _send(flow: Flow[Any], result: object) -> _Answer:
    return lambda: flow.send(result)


def _throw(flow: Flow[Any], error: Exception) -> _Answer:
    return lambda: flow.throw(error)
