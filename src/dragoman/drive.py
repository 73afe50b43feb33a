"""A plan in, its result or its events out: blocking and async. The only module that waits."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from dragoman.events import Event
from dragoman.flow import Compute, Dice, Effect, Emit, Flow, Now, Observe, Open, Read, Send, Sleep
from dragoman.transport import Handle, Transport

T = TypeVar("T")
Observer: TypeAlias = Callable[[object], None]


class Driver:
    """Runs plans over a transport."""

    def __init__(self, transport: Transport, observers: Sequence[Observer] = ()) -> None:
        self.transport = transport
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

    def iterate(self, flow: Flow[T], /) -> Generator[Event, None, T]:
        """The events that the plan emits, blocking, and at the end its result."""
        handles: list[Handle] = []
        answer: Callable[[], Effect] = flow.__next__
        try:
            while True:
                effect = answer()
                try:
                    if isinstance(effect, Emit):
                        yield from effect.events
                        result = None
                    else:
                        result = self._perform(effect, handles)
                except Exception as error:  # the plan decides what a failure means
                    answer = _throw(flow, error)
                else:
                    answer = _send(flow, result)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()
            for handle in handles:
                handle.close()

    async def aiterate(self, flow: Flow[T], done: Callable[[T], object], /) -> AsyncGenerator[Event, None]:
        """The events that the plan emits, async; its result goes to `done`."""
        handles: list[Handle] = []
        answer: Callable[[], Effect] = flow.__next__
        try:
            while True:
                try:
                    effect = answer()
                except StopIteration as stop:
                    done(stop.value)
                    return
                try:
                    if isinstance(effect, Emit):
                        for event in effect.events:
                            yield event
                        result = None
                    else:
                        result = await self._aperform(effect, handles)
                except Exception as error:  # the plan decides what a failure means
                    answer = _throw(flow, error)
                else:
                    answer = _send(flow, result)
        finally:
            flow.close()
            for handle in handles:
                await handle.aclose()

    def _perform(self, effect: Effect, handles: list[Handle]) -> Any:
        match effect:
            case Now():
                return time.monotonic()
            case Send():
                return self.transport.send(effect)
            case Open():
                exchange = self.transport.open(effect)
                handles.append(exchange.handle)
                return exchange
            case Read():
                return effect.exchange.handle.read(effect.timeout)
            case Sleep():
                return time.sleep(effect.seconds)
            case Compute():
                return effect.function()
            case _:
                return self._tell(effect)

    async def _aperform(self, effect: Effect, handles: list[Handle]) -> Any:
        match effect:
            case Now():
                return time.monotonic()
            case Send():
                return await self.transport.asend(effect)
            case Open():
                exchange = await self.transport.aopen(effect)
                handles.append(exchange.handle)
                return exchange
            case Read():
                return await effect.exchange.handle.aread(effect.timeout)
            case Sleep():
                return await asyncio.sleep(effect.seconds)
            case Compute():
                return await asyncio.to_thread(effect.function)
            case _:
                return self._tell(effect)

    def _tell(self, effect: Effect) -> Any:
        if isinstance(effect, Dice):
            return random.random()  # noqa: S311 - jitter, no secret
        if isinstance(effect, Observe):
            for observer in self.observers:
                try:
                    observer(effect.what)
                except Exception:  # an observer's mistake breaks no call
                    continue
        return None


def _send(flow: Flow[Any], result: object) -> Callable[[], Effect]:
    return lambda: flow.send(result)


def _throw(flow: Flow[Any], error: Exception) -> Callable[[], Effect]:
    return lambda: flow.throw(error)
