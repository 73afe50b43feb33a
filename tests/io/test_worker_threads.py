"""Long computations: limited in time, in their own threads, and abandoned ones do not block."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from dragoman.engine.effects import Compute
from dragoman.errors import TimedOut
from dragoman.io.worker_threads import THREADS, acompute, compute


class Work:
    """Work that continues until it has to stop."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.ended = threading.Event()

    def __call__(self, stop: Callable[[], bool]) -> str:
        self.began.set()
        while not stop():
            self.ended.wait(0.001)
        self.ended.set()
        return "stopped"


def test_blocking_work_sees_when_its_time_is_over() -> None:
    assert compute(Compute(Work(), timeout=0.01)) == "stopped"
    assert compute(Compute(lambda stop: stop())) is False


def test_a_loop_does_not_wait_for_work_that_does_not_stop() -> None:
    release = threading.Event()
    with pytest.raises(TimedOut, match="during a conversion") as caught:
        asyncio.run(acompute(Compute(lambda _: release.wait(60), timeout=0.01)))
    release.set()
    assert not caught.value.count_failure


def test_abandoned_work_sees_that_it_has_to_stop() -> None:
    work = Work()

    async def leave() -> None:
        task = asyncio.ensure_future(acompute(Compute(work)))
        await asyncio.to_thread(work.began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert work.ended.wait(60)


def test_a_timeout_of_the_work_itself_is_raised_unchanged() -> None:
    def fail(_: object) -> None:
        raise TimeoutError("a disk")

    with pytest.raises(TimeoutError, match="a disk"):
        asyncio.run(acompute(Compute(fail, timeout=60)))


def test_work_shares_a_few_threads() -> None:
    def name(_: object) -> str:
        return threading.current_thread().name

    async def many() -> set[str]:
        return {*await asyncio.gather(*(acompute(Compute(name)) for _ in range(4 * THREADS)))}

    names = asyncio.run(many())
    assert len(names) <= THREADS
    assert all(name.startswith("dragoman-") for name in names)
