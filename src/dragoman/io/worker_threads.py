"""Work that takes long in, its result out: blocking where it is asked for, async in one of a few threads of our own.

A thread cannot be killed: work that takes too long is told to stop at its next step, and nobody waits for that.
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
"""Pictures that are made at the same time: each may have hundreds of megabytes of pixels."""


def compute(effect: Compute, /) -> Any:
    """Its result; work that asks whether to stop is told so when its time is over.

    >>> compute(Compute(lambda stop: stop(), timeout=0.0))
    True
    """
    return effect.function(_late(effect))


async def acompute(effect: Compute, /) -> Any:
    """Its result; TimedOut as soon as its time is over.

    >>> asyncio.run(acompute(Compute(lambda stop: 6 * 7)))
    42
    """
    is_late, is_left = _late(effect), threading.Event()
    work = asyncio.get_running_loop().run_in_executor(
        _pool(os.getpid()), effect.function, lambda: is_left.is_set() or is_late()
    )
    try:
        async with asyncio.timeout(effect.timeout):
            return await work
    except TimeoutError as error:
        if not work.cancelled():
            raise
        # The target had no part in it.
        raise TimedOut("the deadline of the call has passed before it was ready", count_failure=False) from error
    finally:
        is_left.set()


def _late(effect: Compute) -> Callable[[], bool]:
    ends = None if effect.timeout is None else time.monotonic() + effect.timeout
    return lambda: ends is not None and time.monotonic() >= ends


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process: one that is forked has none of its parent's."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix=f"dragoman-{process}")
