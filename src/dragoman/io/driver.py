"""Runs plans, blocking and async: performs each effect and sends its result back into the plan.

This is the only place that waits. The blocking and the async methods mirror each other.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from msgspec.structs import replace

from dragoman.engine.effects import (
    Claim,
    Compute,
    Emit,
    Fetch,
    IoEffect,
    Job,
    JobGroup,
    NextResult,
    Now,
    Observe,
    Open,
    OpenResponse,
    Plan,
    Random,
    Read,
    Recall,
    RecallAll,
    Remember,
    Send,
    Sign,
    Sleep,
    StartJobs,
    StartPlans,
)
from dragoman.engine.health import CooldownStarted
from dragoman.engine.target_load import SharedLimits
from dragoman.errors import DragomanError, SetupError
from dragoman.io.stopper import Stopper
from dragoman.io.task_runner import AsyncJobs, Jobs
from dragoman.io.transport import Handle, Transport
from dragoman.io.upload_index import UploadIndex
from dragoman.io.url_fetcher import UrlFetcher
from dragoman.io.worker_threads import acompute, compute
from dragoman.types import Attempt
from dragoman.types.tracebacks import shorten_traceback

LOGGER = logging.getLogger("dragoman.calls")
LOGGER.addHandler(logging.NullHandler())
"""Silent unless the program configures logging: attempts (debug), failed ones (info), cooldowns (warning)."""
T = TypeVar("T")
E = TypeVar("E", Send, Open, Fetch, Sign)
Observer: TypeAlias = Callable[[Any], object]


class Driver:
    """Runs plans over a transport."""

    def __init__(
        self,
        transport: Transport,
        observers: Sequence[Observer] = (),
        *,
        fetcher: UrlFetcher | None = None,
        uploads: UploadIndex | None = None,
        limits: SharedLimits | None = None,
    ) -> None:
        """`limits` are counted for several processes; only async plans can wait for them."""
        self.transport = transport
        self.fetcher = fetcher or UrlFetcher()
        self.uploads = uploads or UploadIndex()
        self.limits = limits
        self.observers = list(observers)

    def observe(self, what: object, /) -> None:
        """Log a value, and pass it to the observers."""
        log_observation(what)
        if self.observers:
            notify(self.observers, what)

    def run(self, plan: Plan[T], stopper: Stopper | None = None, /) -> T:
        """The result of a plan; its events are dropped. With a stopper, another thread can stop it."""
        execution = _Execution(self, plan, stopper)
        try:
            while execution.advance() is not None:
                continue
            return execution.result
        finally:
            if not execution.has_nothing_to_end:
                execution.end()

    async def arun(self, plan: Plan[T], /) -> T:
        """The result of a plan; its events are dropped."""
        _check_loop()
        execution = _Execution(self, plan)
        try:
            while await execution.aadvance() is not None:
                continue
            return execution.result
        finally:
            if not execution.has_nothing_to_end:
                await execution.aend()

    def iterate(self, plan: Plan[T], stopper: Stopper | None = None, /) -> Generator[Any, None, T]:
        """Yield the events of a plan; return its result. With a stopper, another thread can stop it."""
        execution = _Execution(self, plan, stopper)
        try:
            while (emission := execution.advance()) is not None:
                yield from emission.events
            return execution.result
        finally:
            execution.end()

    async def aiterate(
        self, plan: Plan[T], done: Callable[[T], object], stopper: Stopper | None = None, /
    ) -> AsyncGenerator[Any, None]:
        """Yield the events of a plan; pass its result to `done`. With a stopper, another task can stop it."""
        _check_loop()
        execution = _Execution(self, plan, stopper)
        advance = execution.aadvance if stopper is None else partial(_stoppable, execution, stopper)
        try:
            while (emission := await advance()) is not None:
                for event in emission.events:
                    yield event
            done(execution.result)
        finally:
            await execution.aend()

    async def aemissions(self, plan: Plan[Any], /) -> AsyncGenerator[Emit, None]:
        """Yield the events of a plan in batches, as they come together; its result is dropped."""
        _check_loop()
        execution = _Execution(self, plan)
        try:
            while (emission := await execution.aadvance()) is not None:
                yield emission
        finally:
            await execution.aend()

    def perform(self, effect: IoEffect, resources: "_Resources") -> Any:
        """Perform an effect; `_Execution` performs the most frequent ones itself."""
        match effect:
            case Read():
                return effect.response.handle.read(effect.timeout)
            case Open():
                resources.close()
                return resources.keep(self.transport.open(resources.stoppable(effect)))
            case Sleep():
                resources.close()
                return resources.sleep(effect.seconds)
            case Compute():
                return compute(effect)
            case Fetch():
                resources.close()
                return self.fetcher.fetch(resources.stoppable(effect))
            case Recall():
                return self.uploads.get(effect.key)
            case RecallAll():
                return self.uploads.find(effect.prefix)
            case Remember():
                return self.uploads.put(effect.key, effect.copy)
            case Claim():
                return None
            case StartJobs():
                return JobGroup(resources.jobs.start(effect.jobs))
            case StartPlans():
                return JobGroup(resources.jobs.start([resources.job(self, plan) for plan in effect.plans]))
            case NextResult():
                return resources.next_result(effect.group)
            case Random():
                return random.random()  # noqa: S311 - jitter, no secret
            case Sign():
                return effect.target.credential.sign(resources.stoppable(effect))
            case _:
                assert_never(effect)

    async def aperform(self, effect: IoEffect, resources: "_Resources") -> Any:
        """Perform an effect; `_Execution` performs the most frequent ones itself."""
        match effect:
            case Read():
                return await effect.response.handle.aread(effect.timeout)
            case Open():
                await resources.aclose()
                return resources.keep(await self.transport.aopen(effect))
            case Sleep():
                await resources.aclose()
                return await asyncio.sleep(effect.seconds)
            case Compute():
                return await acompute(effect)
            case Fetch():
                await resources.aclose()
                return await self._afetch(effect)
            case Recall():
                return await asyncio.to_thread(self.uploads.get, effect.key)
            case RecallAll():
                return await asyncio.to_thread(self.uploads.find, effect.prefix)
            case Remember():
                return await asyncio.to_thread(self.uploads.put, effect.key, effect.copy)
            case Claim():
                return None if self.limits is None else await self.limits.claim(effect.target, effect.tokens)
            case StartJobs():
                return JobGroup(resources.ajobs.start(effect.jobs))
            case StartPlans():
                jobs = [Job(partial(self.arun, plan), is_quick=True) for plan in effect.plans]
                return JobGroup(resources.ajobs.start(jobs))
            case NextResult():
                return await effect.group.handle.next()
            case Random():
                return random.random()  # noqa: S311 - jitter, no secret
            case Sign():
                return await effect.target.credential.asign(effect)
            case _:
                assert_never(effect)

    async def _afetch(self, effect: Fetch) -> bytes:
        """Fetch in a thread; a cancelled call stops it there."""
        stopper = Stopper()
        try:
            return await asyncio.to_thread(self.fetcher.fetch, replace(effect, stopper=stopper))
        finally:
            stopper.stop()


class _Resources:
    """The open resources of a plan: a response, closed by the next request or wait, and jobs, closed at its end.

    `finish` gives the connection of a response back, which was read to its end; `close` drops it. `close_all` closes
    the response and the jobs. The methods with an `a` do the same for async plans.
    """

    handle: Handle | None = None
    _jobs: Jobs | None = None
    _ajobs: AsyncJobs | None = None
    _stoppers: tuple[Stopper, ...] = ()
    """Of plans that run in threads."""

    stopper: Stopper | None

    def stoppable(self, effect: E) -> E:
        return effect if self.stopper is None else replace(effect, stopper=self.stopper)

    def sleep(self, seconds: float) -> None:
        if self.stopper is None:
            time.sleep(seconds)
        else:
            woken = threading.Event()
            self.stopper.attach(woken.set)
            woken.wait(seconds)
            self.stopper.detach()

    def job(self, driver: Driver, plan: Plan[Any]) -> Job:
        """A plan as a job in a thread; it stops when this plan ends."""
        stopper = Stopper()
        self._stoppers = (*self._stoppers, stopper)
        return Job(lambda: driver.run(plan, stopper))

    def next_result(self, group: JobGroup) -> Any:
        if self.stopper is not None:
            self.stopper.attach(group.handle.interrupt)
        return group.handle.next()

    @property
    def jobs(self) -> Jobs:
        self._jobs = self._jobs or Jobs()
        return self._jobs

    @property
    def ajobs(self) -> AsyncJobs:
        self._ajobs = self._ajobs or AsyncJobs()
        return self._ajobs

    def keep(self, response: OpenResponse) -> OpenResponse:
        self.handle = response.handle
        return response

    def finish(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.finish()

    async def afinish(self) -> None:
        handle = self.handle
        if handle is not None:
            await handle.afinish()
        self.handle = None

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close()

    async def aclose(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            await handle.aclose()

    def close_all(self) -> None:
        try:
            self.close()
        finally:
            for stopper in self._stoppers:
                stopper.stop()
            if self._jobs is not None:
                self._jobs.close()

    async def aclose_all(self) -> None:
        try:
            await self.aclose()
        finally:
            if self._ajobs is not None:
                await self._ajobs.aclose()


class _Execution(_Resources, Generic[T]):
    """One run of a plan. It advances to the next `Emit`, and to None at the end of the plan.

    `end` closes the plan and all that it left open. The resources are a base class because most plans open none: so a
    run is one object.
    """

    result: T
    has_nothing_to_end = False
    """Whether the plan has returned and left nothing open, as most do: then there is nothing to end."""

    def __init__(self, driver: Driver, plan: Plan[T], stopper: Stopper | None = None) -> None:
        self._driver = driver
        self._plan = plan
        self.stopper = stopper

    def advance(self) -> Emit | None:
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = self._plan.send(value) if error is None else self._plan.throw(error)
            except StopIteration as stop:
                if self.handle is not None:
                    self.finish()
                self.result = stop.value
                self.has_nothing_to_end = self._jobs is None
                return None
            value, error = None, None
            # Not isinstance(), which takes three times as long for a struct of another class.
            if type(effect) is Emit:
                return effect
            try:
                if type(effect) is Now:
                    value = time.monotonic()
                elif type(effect) is Send:
                    if self.handle is not None:
                        self.close()
                    value = self._driver.transport.send(effect if self.stopper is None else self.stoppable(effect))
                elif type(effect) is Observe:
                    self._driver.observe(effect.what)
                else:
                    value = self._driver.perform(effect, self)
            except Exception as failed:  # noqa: BLE001 - the plan decides what a failure means
                error = failed
            if self.stopper is not None and self.stopper.is_stopped:
                raise self.stopper.error from error

    async def aadvance(self) -> Emit | None:
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                effect = self._plan.send(value) if error is None else self._plan.throw(error)
            except StopIteration as stop:
                if self.handle is not None:
                    await self.afinish()
                self.result = stop.value
                self.has_nothing_to_end = self._ajobs is None
                return None
            value, error = None, None
            if type(effect) is Emit:
                return effect
            try:
                if type(effect) is Now:
                    value = time.monotonic()
                elif type(effect) is Send:
                    if self.handle is not None:
                        await self.aclose()
                    value = await self._driver.transport.asend(effect)
                elif type(effect) is Observe:
                    self._driver.observe(effect.what)
                else:
                    value = await self._driver.aperform(effect, self)
            except Exception as failed:  # noqa: BLE001 - the plan decides what a failure means
                error = failed

    def end(self) -> None:
        try:
            self._plan.close()
        finally:
            if self.handle is not None or self._jobs is not None:
                self.close_all()

    async def aend(self) -> None:
        try:
            self._plan.close()
        finally:
            if self.handle is not None or self._ajobs is not None:
                await self.aclose_all()


async def _stoppable(execution: _Execution[Any], stopper: Stopper) -> Emit | None:
    """The next emission of an execution that another task may stop; that cancels the wait, and only the wait."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine of asyncio runs in a task
    wait = _Wait(task)
    stopper.attach(wait.cancel)
    failure: BaseException | None = None
    try:
        return await execution.aadvance()
    except (Exception, asyncio.CancelledError) as error:
        failure = error
        raise
    finally:
        stopper.detach()
        is_cancelled_elsewhere = wait.end()
        if stopper.is_stopped and not is_cancelled_elsewhere:
            raise stopper.error from failure


class _Wait:
    """The wait of a task, which can be cancelled from outside as long as it lasts."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._cancels = task.cancelling()
        self._is_over = False
        self._is_cancelled = False

    def cancel(self) -> None:
        self._task.get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._is_over and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    def end(self) -> bool:
        """End the wait; whether the task is to be cancelled for another reason."""
        self._is_over = True
        remaining = self._task.uncancel() if self._is_cancelled else self._task.cancelling()
        return remaining > self._cancels


def _check_loop() -> None:
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - as public as get_running_loop, and raises nothing
        raise SetupError("async calls need asyncio; under trio, make blocking calls with trio.to_thread.run_sync")


class _ShortTraceback:
    """Errors of ours leave its `with` block without the frames of plans, driver and transport."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, DragomanError):
            shorten_traceback(error)


short_traceback = _ShortTraceback()


def notify(observers: Sequence[Observer], what: object, /) -> None:
    """Call some observers; their exceptions are logged and ignored.

    >>> notify([print, int, print], "a step")
    a step
    a step
    """
    for observer in observers:
        try:
            observer(what)
        except Exception as error:  # noqa: BLE001 - an observer must not break a call
            # Without the message and the traceback: they may quote the prompt.
            LOGGER.warning("an observer or a hook failed: %s", type(error).__name__)


def log_observation(what: object, /) -> None:
    """Log an attempt or a cooldown, without content: messages of errors may quote the prompt."""
    if isinstance(what, Attempt):
        if what.outcome == "served":
            if LOGGER.isEnabledFor(logging.DEBUG):
                usage = what.usage
                LOGGER.debug(
                    "%s served in %.3f s, tokens: %s in, %s out", what.target, what.duration, usage.input, usage.output
                )
        else:
            LOGGER.info("%s %s: %s", what.target, what.outcome, _kind_of_error(what.error))
    elif isinstance(what, CooldownStarted):
        LOGGER.warning("%s: cooldown of %.1f s after %s", what.target, what.seconds, _kind_of_error(what.why))


def _kind_of_error(text: str | None) -> str:
    """The class of an error, without its message."""
    kind = (text or "").partition(":")[0]
    return kind if kind.isidentifier() else "unknown"
