"""Jobs of a plan, driven both ways: threads, tasks, time-outs, interrupts, and that nothing is left behind."""

import asyncio
import contextvars
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from dragoman.engine.effects import Job, JobGroup, JobResult, NextResult, Plan, Sleep, StartJobs, StartPlans, perform
from dragoman.io import task_runner as jobs
from dragoman.io.driver import Driver
from dragoman.io.transport import make_transport

PATIENCE = 10.0
"""Seconds after which a test that waits has failed."""


class Way(Protocol):
    def __call__(self, flow: Plan[Any], /) -> Any: ...


def blocking(flow: Plan[Any], /) -> Any:
    return Driver(make_transport()).run(flow)


def later(flow: Plan[Any], /) -> Any:
    return asyncio.run(Driver(make_transport()).arun(flow))


@pytest.fixture(params=[blocking, later], ids=["blocking", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def all_of(*jobs: Job) -> Plan[list[tuple[int, JobResult]]]:
    running: JobGroup = yield StartJobs(jobs)
    ended: list[tuple[int, JobResult]] = []
    for _ in jobs:
        ended.append((yield NextResult(running)))  # noqa: PERF401 - a comprehension cannot yield
    return ended


def outcomes(way: Way, *jobs: Job) -> list[JobResult]:
    return [outcome for _, outcome in sorted(way(all_of(*jobs)), key=lambda ended: ended[0])]


def awaiting(work: Callable[[], Coroutine[Any, Any, Any]]) -> Job:
    return Job(work, timeout=PATIENCE, is_quick=True)


def sync(work: Callable[[], Any], timeout: float | None = PATIENCE) -> Job:
    return Job(work, timeout=timeout)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("dragoman")}


# ── how they end ────────────────────────────────────────────────────────────


def test_functions_and_coroutines_give_values_and_errors(way: Way) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    async def fails() -> None:
        raise KeyError("x")

    found = outcomes(way, sync(lambda: "now"), awaiting(later), sync(lambda: 1 / 0), awaiting(fails), sync(later))
    assert [outcome.value for outcome in found] == ["now", "later", None, None, "later"]
    assert [type(outcome.error).__name__ for outcome in found[2:4]] == ["ZeroDivisionError", "KeyError"]


def test_calling_it_may_fail_before_anything_is_awaited(way: Way) -> None:
    assert isinstance(way(perform(Job(lambda: 1 / 0, is_quick=True))).error, ZeroDivisionError)


def test_jobs_run_at_the_same_time(way: Way) -> None:
    meeting = threading.Barrier(3)
    arrived = asyncio.Event()

    async def first() -> bool:
        return await asyncio.wait_for(arrived.wait(), PATIENCE)

    async def second() -> None:
        arrived.set()

    met = [sync(lambda: meeting.wait(PATIENCE) >= 0) for _ in range(3)]
    found = outcomes(way, *met, awaiting(first), awaiting(second))
    assert [outcome.error for outcome in found] == [None] * 5


def test_the_first_that_ends_comes_first(way: Way) -> None:
    gate = threading.Event()

    def opens() -> None:
        gate.set()

    ended = way(all_of(sync(lambda: gate.wait(PATIENCE)), sync(opens)))
    assert {number for number, _ in ended} == {0, 1}


def test_a_job_that_takes_too_long_is_abandoned(way: Way) -> None:
    gate = threading.Event()
    cancelled = threading.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    jobs = (sync(lambda: gate.wait(PATIENCE), 0.02), Job(hangs, timeout=0.03, is_quick=True), sync(lambda: "ok"))
    began = time.monotonic()
    try:
        found = outcomes(way, *jobs)
    finally:
        gate.set()
    assert time.monotonic() - began < PATIENCE
    assert [str(outcome.error) for outcome in found[:2]] == ["no result within 0.02 s", "no result within 0.03 s"]
    assert found[2].value == "ok"
    assert cancelled.wait(PATIENCE)


def test_a_late_result_is_dropped(way: Way) -> None:
    gate, done = threading.Event(), threading.Event()

    def late() -> str:
        gate.wait(PATIENCE)
        done.set()
        return "late"

    def opens() -> str:
        gate.set()
        assert done.wait(PATIENCE)
        return "in time"

    def plan() -> Plan[list[JobResult]]:
        first: JobGroup = yield StartJobs((sync(late, 0.01), sync(lambda: gate.wait(PATIENCE))))
        one: tuple[int, JobResult] = yield NextResult(first)
        other = yield from perform(sync(opens))
        two: tuple[int, JobResult] = yield NextResult(first)
        return [one[1], other, two[1]]

    one, other, two = way(plan())
    assert isinstance(one.error, TimeoutError)
    assert other.value == "in time"
    assert two.value is True


def test_a_result_has_its_duration(way: Way) -> None:
    began = time.monotonic()
    moments: list[float] = []
    took = way(perform(sync(lambda: moments.append(time.monotonic())))).duration
    assert 0 <= took <= time.monotonic() - began


# ── where they run ──────────────────────────────────────────────────────────


def test_a_blocking_job_that_is_alone_and_unlimited_runs_in_the_callers_thread() -> None:
    found = blocking(perform(sync(threading.get_ident, None)))
    assert found.value == threading.get_ident()


def test_a_function_never_runs_on_the_loop_of_an_async_plan() -> None:
    def looping() -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    assert later(perform(sync(looping, None))).value is False


def test_coroutines_of_one_plan_share_a_loop(way: Way) -> None:
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    def plan() -> Plan[set[int]]:
        found: set[int] = set()
        for _ in range(2):
            for _, outcome in (yield from all_of(awaiting(loop), awaiting(loop))):
                found.add(outcome.value)
        return found

    assert len(way(plan())) == 1


def test_a_blocking_plan_runs_coroutines_where_a_loop_runs_already() -> None:
    async def work() -> int:
        return 7

    async def main() -> Any:
        return blocking(perform(awaiting(work)))

    assert asyncio.run(main()).value == 7


def test_jobs_see_the_callers_context(way: Way) -> None:
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="")

    async def later() -> str:
        return word.get()

    def plan() -> Plan[list[str]]:
        word.set("here")
        found = yield from all_of(sync(word.get), awaiting(later))
        return [outcome.value for _, outcome in found]

    assert contextvars.copy_context().run(lambda: way(plan())) == ["here", "here"]


# ── what passes through ─────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
def test_interrupts_and_exits_pass_through(way: Way, kind: type[BaseException], is_async: object) -> None:
    def raises() -> None:
        raise kind

    async def araises() -> None:
        raise kind

    with pytest.raises(kind):
        way(perform(awaiting(araises) if is_async else sync(raises)))
    assert "dragoman-loop" not in threads()


def test_a_signal_interrupts_a_blocking_plan_that_waits_for_a_thread() -> None:
    gate, begun = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def hangs() -> None:
        begun.set()
        gate.wait(PATIENCE)

    def signals() -> None:
        assert begun.wait(PATIENCE)
        signal.pthread_kill(main, signal.SIGINT)
        gate.wait(PATIENCE)

    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            blocking(all_of(sync(hangs), sync(signals)))
    finally:
        gate.set()
    assert time.monotonic() - began < PATIENCE / 2


class Panic(BaseException):
    """As extensions in Rust raise it."""


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, Panic])
@pytest.mark.parametrize("timeout", [None, PATIENCE], ids=["here", "elsewhere"])
def test_the_exception_of_a_job_is_its_result(way: Way, kind: type[BaseException], timeout: float | None) -> None:
    def raises() -> None:
        raise kind

    async def araises() -> None:
        raise kind

    found = [way(perform(job)) for job in (sync(raises, timeout), awaiting(araises), Job(raises, is_quick=True))]
    assert [type(outcome.error) for outcome in found] == [kind, kind, kind]


def test_a_cancelled_plan_leaves_no_task_behind() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("closed")

    async def main() -> int:
        plan = asyncio.create_task(Driver(make_transport()).arun(all_of(awaiting(hangs), awaiting(hangs))))
        await begun.wait()
        plan.cancel()
        with pytest.raises(asyncio.CancelledError):
            await plan
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert ended == ["closed", "closed"]


def test_an_interrupted_blocking_plan_leaves_no_task_or_loop_behind() -> None:
    ended: list[str] = []
    begun = threading.Event()

    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("closed")

    def interrupts() -> None:
        assert begun.wait(PATIENCE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blocking(all_of(awaiting(hangs), sync(interrupts)))
    assert ended == ["closed"]
    assert "dragoman-loop" not in threads()


def test_a_plan_that_ends_early_ends_its_jobs(way: Way) -> None:
    ended: list[str] = []
    begun = threading.Event()

    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("closed")

    def plan() -> Plan[object]:
        running: JobGroup = yield StartJobs((awaiting(hangs), sync(lambda: begun.wait(PATIENCE))))
        first: tuple[int, JobResult] = yield NextResult(running)
        return first[1].value

    assert way(plan()) is True
    assert ended == ["closed"]


def test_a_coroutine_that_blocks_its_loop_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "STOP_TIMEOUT", 0.01)
    gate = threading.Event()

    async def blocks() -> None:
        gate.wait(PATIENCE)

    began = time.monotonic()
    try:
        assert isinstance(blocking(perform(Job(blocks, timeout=0.01, is_quick=True))).error, TimeoutError)
        assert time.monotonic() - began < PATIENCE / 2
    finally:
        gate.set()
        left_to_end()


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "async"])
def test_a_coroutine_that_ignores_its_cancellation_is_abandoned(
    is_blocking: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "STOP_TIMEOUT", 0.01)
    gate, loops = asyncio.Event(), list[asyncio.AbstractEventLoop]()

    async def stubborn() -> None:
        loops.append(asyncio.get_running_loop())
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> JobResult:
        outcome: JobResult = await Driver(make_transport()).arun(perform(job))
        gate.set()
        return outcome

    job = Job(stubborn, timeout=0.5, is_quick=True)  # long enough to start on a busy machine
    outcome = blocking(perform(job)) if is_blocking else asyncio.run(main())
    assert isinstance(outcome.error, TimeoutError)
    if is_blocking:
        loops[0].call_soon_threadsafe(gate.set)
    left_to_end()


def left_to_end() -> None:
    for thread in threading.enumerate():
        if thread.name == "dragoman-loop":
            thread.join(PATIENCE)
    assert "dragoman-loop" not in threads()


def test_a_coroutine_that_never_started_is_closed(way: Way) -> None:
    async def never() -> None: ...

    def plan() -> Plan[None]:
        running: JobGroup = yield StartJobs((awaiting(never), sync(lambda: 1 / 0)))
        while (yield NextResult(running))[1].error is None:
            continue

    way(plan())


def test_a_coroutine_that_comes_too_late_is_closed(way: Way) -> None:
    gate = threading.Event()

    async def never() -> None: ...

    def late() -> object:
        gate.wait(PATIENCE)
        return never()

    def plan() -> Plan[None]:
        running: JobGroup = yield StartJobs((sync(late, 0.01), sync(lambda: gate.wait(PATIENCE))))
        yield NextResult(running)
        gate.set()
        yield NextResult(running)

    way(plan())


def test_a_thread_may_outlive_its_loop() -> None:
    gate = threading.Event()

    def hangs() -> str:
        gate.wait(PATIENCE)
        return "late"

    assert isinstance(later(perform(sync(hangs, 0.01))).error, TimeoutError)
    left = [thread for thread in threading.enumerate() if thread.name == "dragoman-job"]
    assert left
    assert all(thread.daemon for thread in left)
    gate.set()
    for thread in left:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in left)


# Plans ----------------------------------------------------------------------------------------------------------------


def all_plans(*plans: Plan[Any]) -> Plan[list[tuple[int, JobResult]]]:
    running: JobGroup = yield StartPlans(plans)
    ended: list[tuple[int, JobResult]] = []
    for _ in plans:
        ended.append((yield NextResult(running)))  # noqa: PERF401 - a comprehension cannot yield
    return ended


def test_plans_run_at_the_same_time(way: Way) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)
    ended = way(all_plans(*(perform(Job(meeting.wait, timeout=PATIENCE)) for _ in range(3))))
    assert sorted(number for number, _ in ended) == [0, 1, 2]
    assert all(outcome.value.error is None for _, outcome in ended)


def test_plans_that_run_end_with_the_plan_that_started_them(way: Way) -> None:
    closed = threading.Semaphore(0)

    def sleeper() -> Plan[None]:
        try:
            yield Sleep(600.0)
        finally:
            closed.release()

    def broken() -> Plan[None]:
        yield StartPlans((sleeper(), sleeper()))
        yield Sleep(0.05)  # both have begun to wait
        raise LookupError

    with pytest.raises(LookupError):
        way(broken())
    assert closed.acquire(timeout=PATIENCE)
    assert closed.acquire(timeout=PATIENCE)
