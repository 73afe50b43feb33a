"""Run long computations: blocking in the caller's thread, async in one of a few threads.

A thread cannot be killed. A computation that takes too long sees at its next step that it has to stop, and the caller
does not wait for that.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from dragoman.engine.effects import Compute
from dragoman.errors import TimedOut

THREADS = 4
"""Images that are converted at the same time: each may need hundreds of megabytes for its pixels."""


def compute(effect: Compute, /) -> Any:
    """Run the function, blocking; its `stop` argument returns True after the timeout."""
    return effect.function(_is_late(effect))


async def acompute(effect: Compute, /) -> Any:
    """Run the function in a thread; TimedOut after the timeout."""
    is_late, is_abandoned = _is_late(effect), threading.Event()
    work = asyncio.get_running_loop().run_in_executor(
        _pool(os.getpid()), effect.function, lambda: is_abandoned.is_set() or is_late()
    )
    try:
        async with asyncio.timeout(effect.timeout):
            return await work
    except TimeoutError as error:
        if not work.cancelled():
            raise
        # The target was not involved, so this is not counted as its failure.
        raise TimedOut("the deadline of the call passed during a conversion", count_failure=False) from error
    finally:
        is_abandoned.set()


def _is_late(effect: Compute) -> Callable[[], bool]:
    deadline = None if effect.timeout is None else time.monotonic() + effect.timeout
    return lambda: deadline is not None and time.monotonic() >= deadline


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process; a forked process does not have those of its parent."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix=f"dragoman-{process}")
