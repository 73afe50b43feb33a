"""A coroutine of pyreqwest's in, its result out: blocking in the caller's own thread, or async."""

import asyncio
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _Turn:
    """All that a coroutine of PyO3's asks of an event loop: a future, and to be told when to go on."""

    __slots__ = ("_calls", "call_soon_threadsafe")

    def create_future(self) -> "_Turn":
        self._calls: SimpleQueue[object] = SimpleQueue()
        # Called in a thread of pyreqwest's, which holds the GIL for no longer than this takes: no frame of ours.
        self.call_soon_threadsafe = self._calls.put
        return self

    def __iter__(self) -> "Iterator[_Turn]":
        return iter((self,))

    def wait(self, seconds: float | None) -> None:
        try:
            self._calls.get(True, None if seconds is None else max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None

    def during(self, step: Callable[[Any], object], argument: object) -> object:
        """Take a step of the coroutine while this is what it finds for a running loop."""
        loop: Any = self
        outer = asyncio._get_running_loop()  # noqa: SLF001 - exported for those who write loops
        asyncio._set_running_loop(loop)  # noqa: SLF001
        try:
            return step(argument)
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001


def wait(work: Coroutine[Any, Any, T], timeout: float | None, /) -> T:
    """The result; TimeoutError after `timeout` seconds. Signals are heard, as the thread waits in Python."""
    turn = _Turn()
    ends = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            # It gives the future that it waits for, or None where it was woken in the meantime: then nobody will call.
            if turn.during(work.send, None) is not None:
                turn.wait(None if ends is None else ends - time.monotonic())
    except StopIteration as stop:
        result: T = stop.value
        return result
    except (TimeoutError, KeyboardInterrupt, SystemExit):
        _cancel(work, turn)
        raise


def _cancel(work: Coroutine[Any, Any, Any], turn: _Turn) -> None:
    try:
        turn.during(work.throw, asyncio.CancelledError())
    except (asyncio.CancelledError, StopIteration, RuntimeError):
        work.close()


@types.coroutine
def awaited(work: Coroutine[Any, Any, T], future: Any = None, /) -> Generator[Any, None, T]:
    """The result, async. A cancellation is raised as it came: pyreqwest raises one of its own, which anyio disowns.

    `future` is what the coroutine waits for already, where somebody has begun it.
    """
    while True:
        try:
            future = future or work.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            yield future
            future = None
        except asyncio.CancelledError as asked:
            try:
                work.throw(asked)
            except (asyncio.CancelledError, StopIteration, RuntimeError):
                work.close()
            raise
