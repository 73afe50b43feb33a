"""Run functions of the user at the same time, and report each result as it comes: blocking and async.

Functions run in threads, coroutines in tasks; a blocking plan gets an event loop of its own for them. A thread cannot
be killed: one that hangs is abandoned. It is a daemon, so it does not keep the program from exiting, and its result is
dropped. A coroutine that blocks its loop or ignores its cancellation is abandoned after `STOP_TIMEOUT`.
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
"""Seconds that cancelled coroutines have to end."""
_JobEnd: TypeAlias = tuple[int, Any, BaseException | None]
"""The number of a job that ended, and its value or its exception."""
_DoneCallback: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with the value or the exception of a job."""
_EXITS = (KeyboardInterrupt, SystemExit)
"""Raised in the program, not reported as the result of a job."""
_StartAwaiting: TypeAlias = Callable[[Awaitable[Any], _DoneCallback], Callable[[], object]]
"""Starts to await something, and returns a function that cancels it."""


class _JobGroup:
    """Jobs that were started together, with their time limits and how to cancel them."""

    def __init__(self, jobs: Sequence[Job], start: _StartAwaiting, put: Callable[[_JobEnd], None]) -> None:
        self._jobs = jobs
        self._start = start
        self._put = put
        self._began = time.monotonic()
        self._running = set(range(len(jobs)))
        self._cancels: dict[int, Callable[[], object]] = {}

    def call(self, number: int) -> None:
        """Call the function of a job in this thread; if it returns an awaitable, start that."""
        try:
            value = self._jobs[number].function()
        except _EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - reported as the result of the job
            self._put((number, None, error))
            return
        if not self.start_if_awaitable((number, value, None)):
            self._put((number, value, None))

    def done_callback(self, number: int) -> _DoneCallback:
        """The callback for the end of a job; the coroutine of an abandoned job is closed."""

        def report(value: Any, error: BaseException | None) -> None:
            if number in self._running:
                self._put((number, value, error))
            elif inspect.iscoroutine(value):
                value.close()

        return report

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the next time limit."""
        limits = [limit for number in self._running if (limit := self._jobs[number].timeout) is not None]
        return max(0.0, self._began + min(limits) - time.monotonic()) if limits else None

    def time_out(self) -> tuple[int, JobResult]:
        """The result of the job whose time limit comes first; it is cancelled if possible."""
        limits = {number: limit for number in self._running if (limit := self._jobs[number].timeout) is not None}
        number = min(limits, key=lambda number: limits[number])
        if number in self._cancels:
            self._cancels[number]()
        return self._finish(number, error=TimeoutError(f"no result within {limits[number]:g} s"))

    def start_if_awaitable(self, end: _JobEnd) -> bool:
        """Start what a job returned if it is awaitable; returns whether it is."""
        number, value, _ = end
        if number not in self._running or not inspect.isawaitable(value):
            return False
        self._cancels[number] = self._start(value, self.done_callback(number))
        return True

    def result(self, end: _JobEnd) -> tuple[int, JobResult] | None:
        """The result of a job; None if it was abandoned. KeyboardInterrupt and SystemExit are raised.

        A CancelledError here is the job's own: a cancelled plan sees it where it waits.
        """
        number, value, error = end
        if number not in self._running:
            return None
        if isinstance(error, _EXITS):
            raise error
        return self._finish(number, value=value, error=_printable(error))

    def _finish(self, number: int, **fields: Any) -> tuple[int, JobResult]:
        self._running.remove(number)
        return number, JobResult(duration=time.monotonic() - self._began, **fields)


def _printable(error: BaseException | None) -> BaseException | None:
    """The error, or a RuntimeError in its place if its `__str__` fails."""
    try:
        str(error)
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return RuntimeError(f"{type(error).__name__} (its message cannot be shown)")
    return error


def start_thread(function: Callable[[], Any], done: _DoneCallback, /) -> None:
    """Run a function in a new thread, and call `done` there with its value or exception."""
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - passed on to the thread of the plan
            done(None, error)
        else:
            done(value, None)

    threading.Thread(target=work, name="dragoman-job", daemon=True).start()


def _track(task: asyncio.Task[None], tasks: set[asyncio.Task[None]], work: Awaitable[Any]) -> None:
    """Hold a task until it is done, then close its coroutine: a task that is cancelled at once never starts it."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    if inspect.iscoroutine(work):
        task.add_done_callback(lambda _task: work.close())


async def _await(work: Awaitable[Any], done: _DoneCallback) -> None:
    try:
        value = await work
    except BaseException as error:  # noqa: BLE001 - passed on to the plan
        done(None, error)
    else:
        done(value, None)


# Blocking -------------------------------------------------------------------------------------------------------------


class Jobs:
    """The jobs of a blocking plan."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None

    def start(self, jobs: Sequence[Job], /) -> "BlockingJobGroup":
        return BlockingJobGroup(jobs, self._await)

    def close(self) -> None:
        """Cancel running coroutines and stop their loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _await(self, work: Awaitable[Any], done: _DoneCallback) -> Callable[[], object]:
        self._loop = self._loop or _Loop()
        return self._loop.start(work, done)


class BlockingJobGroup(_JobGroup):
    """Jobs of a blocking plan that were started together."""

    def __init__(self, jobs: Sequence[Job], start: _StartAwaiting) -> None:
        self._ends: SimpleQueue[_JobEnd | None] = SimpleQueue()
        super().__init__(jobs, start, self._ends.put)
        is_alone = len(jobs) == 1 and jobs[0].timeout is None
        for number, job in enumerate(jobs):
            if job.is_quick or is_alone:
                self.call(number)
            else:
                start_thread(job.function, self.done_callback(number))

    def interrupt(self) -> None:
        """Let `next` raise InterruptedError; from any thread."""
        self._ends.put(None)

    def next(self) -> tuple[int, JobResult]:
        while True:
            try:
                end = self._ends.get(timeout=self.seconds_left)
            except Empty:
                return self.time_out()
            if end is None:
                raise InterruptedError
            if not self.start_if_awaitable(end) and (result := self.result(end)) is not None:
                return result


class _Loop:
    """An event loop in a thread of its own. It lives as long as the plan, so that its coroutines can share objects."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="dragoman-loop", daemon=True)
        self._thread.start()

    def start(self, work: Awaitable[Any], done: _DoneCallback) -> Callable[[], object]:
        context = contextvars.copy_context()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(_await(work, done), context=context))
            _track(tasks[0], self._tasks, work)

        def end() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(begin)
        return lambda: self._loop.call_soon_threadsafe(end)

    def close(self) -> None:
        """Cancel the tasks and stop the loop when they have ended; wait at most `STOP_TIMEOUT` for that."""
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


async def _cancel(tasks: set[asyncio.Task[None]], timeout: float | None = None) -> None:  # noqa: ASYNC109 - nothing is raised
    pending = list(tasks)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=timeout)


# Async ----------------------------------------------------------------------------------------------------------------


class AsyncJobs:
    """The jobs of an async plan."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, jobs: Sequence[Job], /) -> "AsyncJobGroup":
        return AsyncJobGroup(jobs, self._await)

    async def aclose(self) -> None:
        """Cancel running coroutines."""
        await _cancel(self._tasks, STOP_TIMEOUT)

    def _await(self, work: Awaitable[Any], done: _DoneCallback) -> Callable[[], object]:
        task = asyncio.get_running_loop().create_task(_await(work, done))
        _track(task, self._tasks, work)
        return task.cancel


class AsyncJobGroup(_JobGroup):
    """Jobs of an async plan that were started together."""

    def __init__(self, jobs: Sequence[Job], start: _StartAwaiting) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends: asyncio.Queue[_JobEnd] = asyncio.Queue()
        super().__init__(jobs, start, self._put_safely)
        for number, job in enumerate(jobs):
            if job.is_quick:
                self.call(number)
            else:
                start_thread(job.function, self.done_callback(number))

    async def next(self) -> tuple[int, JobResult]:
        while True:
            try:
                async with asyncio.timeout(self.seconds_left):
                    end = await self._ends.get()
            except TimeoutError:
                return self.time_out()
            if not self.start_if_awaitable(end) and (result := self.result(end)) is not None:
                return result

    def _put_safely(self, end: _JobEnd) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ends.put_nowait, end)
        except RuntimeError:
            return  # the loop is closed: the plan has ended
