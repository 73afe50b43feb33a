"""Every way to stop a call closes the connection to the provider, at every stage, within 50 ms.

docs/chains.md lists the matrix. The server is a plain socket that stops at a stage and reports when the client leaves.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import anyio
import pytest

from dragoman import Model, Registry
from tests.support.clock import TRIES

LIMIT = 0.05
"""Seconds between the end of a call and the end of its connection, as the server sees it."""
PATIENCE = 10.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
STAGES = {
    "connecting": None,
    "before the head": b"",
    "inside the head": HEAD[:40],
    "head without body": HEAD,
    "in the stream": HEAD + CHUNK,
}
"""What the server has sent when it stops; None: the TCP connection is there, the TLS handshake is not answered."""
STARTED = ("in the stream",)


class StoppingServer:
    """Accepts one connection at a time, answers up to a stage, and notes when the client closes."""

    def __init__(self, stage: str) -> None:
        self.reached = threading.Event()
        self.closed = threading.Event()
        self.closed_at = 0.0
        self._bytes = STAGES[stage]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def model(self) -> Model:
        scheme = "https" if self._bytes is None else "http"
        registry = Registry(env={})
        port = self._listener.getsockname()[1]
        registry.add_provider(name="stopping", like="vllm", base_url=f"{scheme}://127.0.0.1:{port}/v1")
        return registry.model("stopping/m", retries=0, timeout=30.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.recv(65536)
                if self._bytes:
                    connection.sendall(self._bytes)
                self.reached.set()
                with contextlib.suppress(OSError):
                    while connection.recv(65536):
                        continue
                self.closed_at = time.monotonic()
                self.closed.set()


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> str:
    stage: str = request.param
    return stage


def closes_within(stage: str, stop: Callable[[StoppingServer], float]) -> None:
    """The law: the connection ends at most LIMIT after the moment that `stop` returns, in one of a few tries."""

    def delay() -> float:
        with StoppingServer(stage) as server:
            stopped_at = stop(server)
            assert server.closed.wait(PATIENCE), "the connection was not closed"
            return server.closed_at - stopped_at

    assert any(delay() < LIMIT for _ in range(TRIES))


async def reached(server: StoppingServer) -> None:
    assert await asyncio.to_thread(server.reached.wait, PATIENCE)


async def read(model: Model) -> None:
    async for _ in model.astream("hi"):
        pass


CALLS: dict[str, Callable[[Model], Any]] = {"plain": lambda model: model.agenerate("hi"), "streamed": read}
each_call = pytest.mark.parametrize("call", CALLS)


@each_call
def test_a_cancelled_task(stage: str, call: str) -> None:
    async def main(server: StoppingServer) -> float:
        task = asyncio.ensure_future(CALLS[call](server.model))
        await reached(server)
        stopped_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stopped_at

    closes_within(stage, lambda server: asyncio.run(main(server)))


@each_call
def test_asyncio_timeout(stage: str, call: str) -> None:
    async def main(server: StoppingServer) -> float:
        with pytest.raises(TimeoutError):  # noqa: PT012 - the scope is what is tested
            async with asyncio.timeout(None) as scope:
                task = asyncio.ensure_future(reached(server))
                task.add_done_callback(lambda _: scope.reschedule(asyncio.get_running_loop().time()))
                await CALLS[call](server.model)
        return time.monotonic()

    closes_within(stage, lambda server: asyncio.run(main(server)))


@each_call
def test_an_anyio_scope(stage: str, call: str) -> None:
    async def main(server: StoppingServer) -> float:
        async def stop(scope: anyio.CancelScope) -> None:
            await reached(server)
            scope.cancel()

        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(stop, scope)
                await CALLS[call](server.model)
            assert scope.cancelled_caught
        return time.monotonic()

    closes_within(stage, lambda server: anyio.run(main, server))
