"""The client in threads that come and go, in event loops one after another, and in a process that ends at once."""

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from dragoman.models import Model
from dragoman.testing import FaultyServer

CHILD = """
import asyncio, threading
from dragoman.testing import FaultyServer
def run_in_threads(count, work, at_once=50):
    done = []
    for start in range(0, count, at_once):
        threads = [threading.Thread(target=lambda: done.append(work())) for _ in range(at_once)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return done
"""


def child(code: str, *, timeout: float = 120.0) -> str:
    """What a program prints; it must end without an error."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", CHILD + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.strip()


@pytest.mark.parametrize("call", ["model.generate('hi').text", "asyncio.run(model.agenerate('hi')).text"])
def test_many_threads_make_one_call_each(call: str) -> None:
    """None of them is the first thread of the process, and the first of them ends before the next call.

    If each left one file open, they would be more than the process may have.
    """
    answers = child(f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
with FaultyServer("Hello.", repeat=True) as server:
    registry = server.registry()
    model = registry.model("server/m")
    first = threading.Thread(target=lambda: {call})
    first.start()
    first.join()
    done = run_in_threads(600, lambda: {call})
    registry.close()
print(len(done), set(done), threading.active_count())
""")
    assert answers == "600 {'Hello.'} 1"


def test_types_are_safe_at_their_first_use_in_many_threads() -> None:
    """msgspec prepares a type at its first use, and crashed if two threads did so at the same time."""
    answers = child("""
import sys
import dragoman
sys.setswitchinterval(1e-5)
from dragoman.targets.config import make_provider
from dragoman.targets.providers import PROVIDERS
start = threading.Barrier(24)
def work():
    start.wait()
    dragoman.dump(dragoman.Request(messages=(dragoman.user("hi"),)))
    return make_provider({"name": "box", "like": "vllm", "base_url": "http://box:8000/v1"}, PROVIDERS).name
print(set(run_in_threads(24, work, at_once=24)))
""")
    assert answers == "{'box'}"


def test_each_thread_may_have_a_registry_of_its_own() -> None:
    answers = child("""
def work():
    registry = server.registry()
    try:
        return registry.model("server/m").generate("hi").text
    finally:
        registry.close()
with FaultyServer("Hello.", repeat=True) as server:
    done = run_in_threads(200, work)
print(len(done), set(done))
""")
    assert answers == "200 {'Hello.'}"


def test_five_event_loops_one_after_another_leave_nothing_open() -> None:
    """With warnings as errors, a socket that is left open is one."""
    answers = child("""
import gc
async def work(model):
    answers = await asyncio.gather(*(model.agenerate("hi") for _ in range(10)))
    async for _ in model.astream("hi"): pass
    return len(answers)
with FaultyServer("Hello.", repeat=True) as server:
    model = server.registry().model("server/m")
    print([asyncio.run(work(model)) for _ in range(5)])
    gc.collect()
    loops = [each for each in gc.get_objects() if isinstance(each, asyncio.AbstractEventLoop)]
    print(len(loops))
""")
    assert answers == "[10, 10, 10, 10, 10]\n0"


def test_event_loops_of_several_threads_share_a_registry() -> None:
    answers = child("""
async def work(model):
    answers = await asyncio.gather(*(model.agenerate("hi") for _ in range(5)))
    return len(answers)
with FaultyServer("Hello.", repeat=True) as server:
    model = server.registry().model("server/m")
    done = run_in_threads(40, lambda: asyncio.run(work(model)), at_once=8)
print(len(done), set(done))
""")
    assert answers == "40 {5}"


@pytest.mark.parametrize(
    "call",
    [
        "model.generate('hi')",
        "list(model.stream('hi'))",
        "next(iter(model.stream('hi')))",
        "asyncio.run(model.agenerate('hi'))",
    ],
)
def test_a_process_that_ends_right_after_a_call_ends_cleanly(call: str) -> None:
    """The server runs here: it must not keep the child alive, nor end with it."""
    with FaultyServer("Hello.", repeat=True) as server:
        code = f"""
from dragoman import Registry
registry = Registry(env={{}})
registry.add_provider(name="server", like="vllm", base_url={server.base_url()!r})
model = registry.model("server/m")
{call}
print("done")
"""
        for _ in range(3):
            assert child(code, timeout=30.0) == "done"


def test_a_blocking_call_works_in_a_thread_whose_loop_runs_as_in_a_notebook() -> None:
    async def cell(model: Model) -> list[Any]:
        texts: list[Any] = [model.generate("hi").text, list(model.stream("hi"))[-1].text]  # type: ignore[union-attr]
        texts.append((await model.agenerate("hi")).text)
        return texts

    with FaultyServer("Hello.", repeat=True) as server:
        assert asyncio.run(cell(server.model())) == ["Hello."] * 3


def test_calls_in_threads_run_at_the_same_time() -> None:
    """A blocking call does not hold the interpreter while it waits."""
    with FaultyServer("Hello.", repeat=True) as server:
        model = server.model()
        gate = threading.Barrier(8)
        ended: list[float] = []

        def work() -> None:
            gate.wait(10)
            for _ in range(20):
                model.generate("hi")
            ended.append(time.monotonic())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == 8
        assert 1 < server.connections <= 8
