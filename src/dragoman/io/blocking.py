"""Run coroutines of pyreqwest, blocking in the caller's own thread or async.

pyreqwest's coroutines come from PyO3: all they need from an event loop is `create_future` and `call_soon_threadsafe`.
For a blocking call, a `_FutureLoop` takes the place of the loop while the coroutine runs, and the thread waits on a
queue. So Ctrl-C and time-outs work while it waits.
"""

import asyncio
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _FutureLoop:
    """An event loop and a future in one, as far as a coroutine of PyO3 uses them."""

    __slots__ = ("_calls", "call_soon_threadsafe")

    def create_future(self) -> "_FutureLoop":
        self._calls: SimpleQueue[object] = SimpleQueue()
        # Called in a thread of pyreqwest while it holds the GIL: a C method is faster than a Python function.
        self.call_soon_threadsafe = self._calls.put
        return self

    def __iter__(self) -> "Iterator[_FutureLoop]":
        return iter((self,))

    def wait(self, seconds: float | None) -> None:
        try:
            self._calls.get(True, None if seconds is None else max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None

    def step(self, function: Callable[[Any], object], argument: object) -> object:
        """Take one step of the coroutine, with this object as the running loop."""
        loop: Any = self
        outer = asyncio._get_running_loop()  # noqa: SLF001 - exported for authors of event loops
        asyncio._set_running_loop(loop)  # noqa: SLF001
        try:
            return function(argument)
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001


def wait(work: Coroutine[Any, Any, T], timeout: float | None, /) -> T:
    """The result of the coroutine, blocking; TimeoutError after `timeout` seconds."""
    loop = _FutureLoop()
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            # The coroutine yields the future it waits for, or None if it was already woken: then nothing more comes.
            if loop.step(work.send, None) is not None:
                loop.wait(None if deadline is None else deadline - time.monotonic())
    except StopIteration as stop:
        result: T = stop.value
        return result
    except (TimeoutError, KeyboardInterrupt, SystemExit):
        _cancel(work, loop)
        raise


def _cancel(work: Coroutine[Any, Any, Any], loop: _FutureLoop) -> None:
    try:
        loop.step(work.throw, asyncio.CancelledError())
    except (asyncio.CancelledError, StopIteration, RuntimeError):
        work.close()


@types.coroutine
def awaited(work: Coroutine[Any, Any, T], future: Any = None, /) -> Generator[Any, None, T]:
    """The result of the coroutine, async; `future` is what a coroutine that was already started waits for.

    A cancellation is raised again as it came in: pyreqwest raises a new one, which anyio does not accept.
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
        except asyncio.CancelledError as cancellation:
            try:
                work.throw(cancellation)
            except (asyncio.CancelledError, StopIteration, RuntimeError):
                work.close()
            raise
