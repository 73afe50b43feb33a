"""Users' functions in, how each of them ended out, as they end: blocking and async.

Functions run in threads and coroutines in tasks, a blocking plan's on a loop of its own. A thread cannot be killed: one
that hangs is left to itself, holds up nobody's exit (it is a daemon), and what it gives in the end is dropped. So is a
coroutine that blocks its loop or goes on though it was cancelled: nobody waits for it longer than `STOP_TIMEOUT`.
"""

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from dragoman.engine.effects import Job, JobResult

STOP_TIMEOUT = 2.0
"""Seconds that coroutines have to end in, once they are cancelled."""
_End: TypeAlias = tuple[int, Any, BaseException | None]
"""Which job ended, what it gave, what it raised."""
_Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Is told how something ended: with what it gave, or with what it raised."""
_PASSING = (KeyboardInterrupt, SystemExit)
"""What is no outcome of a job, but meant for the program."""
_Await: TypeAlias = Callable[[Awaitable[Any], _Done], Callable[[], object]]
"""Begins to await something, and gives what cancels it."""


class _Batch:
    """Jobs that were begun together: since when they run, until when each may, and how it is cancelled."""

    def __init__(self, jobs: Sequence[Job], start: _Await, put: Callable[[_End], None]) -> None:
        self._jobs = jobs
        self._start = start
        self._put = put
        self._began = time.monotonic()
        self._running = set(range(len(jobs)))
        self._cancels: dict[int, Callable[[], object]] = {}

    def call(self, number: int) -> None:
        """Call the function of a job here and now; what it gives to be awaited is begun."""
        try:
            value = self._jobs[number].function()
        except _PASSING:
            raise
        except BaseException as error:  # noqa: BLE001 - an outcome like any other
            self._put((number, None, error))
            return
        if not self.awaits((number, value, None)):
            self._put((number, value, None))

    def done(self, number: int) -> _Done:
        """Who is told how a job ended. What one gives that was given up is awaited by nobody."""

        def tell(value: Any, error: BaseException | None) -> None:
            if number in self._running:
                self._put((number, value, error))
            elif inspect.iscoroutine(value):
                value.close()

        return tell

    @property
    def patience(self) -> float | None:
        """Seconds until the next of them is late."""
        limits = [limit for number in self._running if (limit := self._jobs[number].timeout) is not None]
        return max(0.0, self._began + min(limits) - time.monotonic()) if limits else None

    def late(self) -> tuple[int, JobResult]:
        """The first that has taken too long; it is cancelled, where that can be done."""
        limits = {number: limit for number in self._running if (limit := self._jobs[number].timeout) is not None}
        number = min(limits, key=lambda number: limits[number])
        if number in self._cancels:
            self._cancels[number]()
        return self._out(number, error=TimeoutError(f"no result within {limits[number]:g} s"))

    def awaits(self, end: _End) -> bool:
        """Whether a job gave something that is to be awaited yet; that is begun."""
        number, value, _ = end
        if number not in self._running or not inspect.isawaitable(value):
            return False
        self._cancels[number] = self._start(value, self.done(number))
        return True

    def outcome(self, end: _End) -> tuple[int, JobResult] | None:
        """How a job ended; None for one that was given up. An interrupt and an exit are raised.

        A cancellation that comes here is the job's own: who cancels a plan does so where it waits.
        """
        number, value, error = end
        if number not in self._running:
            return None
        if isinstance(error, _PASSING):
            raise error
        return self._out(number, value=value, error=_speaking(error))

    def _out(self, number: int, **facts: Any) -> tuple[int, JobResult]:
        self._running.remove(number)
        return number, JobResult(duration=time.monotonic() - self._began, **facts)


def _speaking(error: BaseException | None) -> BaseException | None:
    """The error; where it cannot say what it is, one that can."""
    try:
        str(error)
    except Exception:  # noqa: BLE001 - whatever a user's class does there
        return RuntimeError(f"{type(error).__name__}, which cannot say why")
    return error


def start_thread(function: Callable[[], Any], done: _Done, /) -> None:
    """Run a function in a thread of its own, and tell there how it ended."""
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - the plan's own thread shall have it
            done(None, error)
        else:
            done(value, None)

    threading.Thread(target=work, name="dragoman-job", daemon=True).start()


def _track(task: asyncio.Task[None], tasks: set[asyncio.Task[None]], work: Awaitable[Any]) -> None:
    """Keep a task until it is done. One that was cancelled before it began never saw its coroutine."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    if inspect.iscoroutine(work):
        task.add_done_callback(lambda _task: work.close())


async def _await(work: Awaitable[Any], done: _Done) -> None:
    try:
        value = await work
    except BaseException as error:  # noqa: BLE001 - whoever waits for it shall have it
        done(None, error)
    else:
        done(value, None)


# Blocking -------------------------------------------------------------------------------------------------------------


class Jobs:
    """The jobs of a blocking plan."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None

    def start(self, jobs: Sequence[Job], /) -> "Batch":
        """Begin them all."""
        return Batch(jobs, self._await)

    def close(self) -> None:
        """Cancel what is awaited, and end the loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _await(self, work: Awaitable[Any], done: _Done) -> Callable[[], object]:
        self._loop = self._loop or _Loop()
        return self._loop.start(work, done)


class Batch(_Batch):
    """Jobs of a blocking plan that were begun together."""

    def __init__(self, jobs: Sequence[Job], start: _Await) -> None:
        self._ends: SimpleQueue[_End] = SimpleQueue()
        super().__init__(jobs, start, self._ends.put)
        is_alone = len(jobs) == 1 and jobs[0].timeout is None
        for number, job in enumerate(jobs):
            if job.is_quick or is_alone:
                self.call(number)
            else:
                start_thread(job.function, self.done(number))

    def next(self) -> tuple[int, JobResult]:
        """The next that ends."""
        while True:
            try:
                end = self._ends.get(timeout=self.patience)
            except Empty:
                return self.late()
            if not self.awaits(end) and (outcome := self.outcome(end)) is not None:
                return outcome


class _Loop:
    """An event loop in a thread of its own, for as long as a plan runs: what its coroutines share stays usable."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="dragoman-loop", daemon=True)
        self._thread.start()

    def start(self, work: Awaitable[Any], done: _Done) -> Callable[[], object]:
        context = contextvars.copy_context()
        made: list[asyncio.Task[None]] = []

        def begin() -> None:
            made.append(self._loop.create_task(_await(work, done), context=context))
            _track(made[0], self._tasks, work)

        def end() -> None:
            made[0].cancel()

        self._loop.call_soon_threadsafe(begin)
        return lambda: self._loop.call_soon_threadsafe(end)

    def close(self) -> None:
        """Cancel what runs; the loop ends when all of it has, and is left to its thread where that takes too long."""
        ending = asyncio.run_coroutine_threadsafe(_cancel(self._tasks), self._loop)
        ending.add_done_callback(lambda _ended: self._loop.call_soon_threadsafe(self._loop.stop))
        self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _cancel(tasks: set[asyncio.Task[None]], patience: float | None = None) -> None:
    left = list(tasks)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=patience)


# Async ----------------------------------------------------------------------------------------------------------------


class AsyncJobs:
    """The jobs of an async plan."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, jobs: Sequence[Job], /) -> "AsyncBatch":
        """Begin them all."""
        return AsyncBatch(jobs, self._await)

    async def aclose(self) -> None:
        """Cancel what is awaited."""
        await _cancel(self._tasks, STOP_TIMEOUT)

    def _await(self, work: Awaitable[Any], done: _Done) -> Callable[[], object]:
        task = asyncio.get_running_loop().create_task(_await(work, done))
        _track(task, self._tasks, work)
        return task.cancel


class AsyncBatch(_Batch):
    """Jobs of an async plan that were begun together."""

    def __init__(self, jobs: Sequence[Job], start: _Await) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends: asyncio.Queue[_End] = asyncio.Queue()
        super().__init__(jobs, start, self._put_safely)
        for number, job in enumerate(jobs):
            if job.is_quick:
                self.call(number)
            else:
                start_thread(job.function, self.done(number))

    async def next(self) -> tuple[int, JobResult]:
        """The next that ends."""
        while True:
            try:
                async with asyncio.timeout(self.patience):
                    end = await self._ends.get()
            except TimeoutError:
                return self.late()
            if not self.awaits(end) and (outcome := self.outcome(end)) is not None:
                return outcome

    def _put_safely(self, end: _End) -> None:
        """Also from a thread."""
        try:
            self._loop.call_soon_threadsafe(self._ends.put_nowait, end)
        except RuntimeError:
            return  # the loop is closed: nobody waits for it any more
