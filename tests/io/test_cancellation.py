"""Every way to stop a call closes the connection to the provider, at every stage, within 50 ms.

docs/chains.md lists the matrix; tests/gateway/test_client_disconnects.py has its row for clients of a gateway.
"""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeAlias

import anyio
import httpx
import pytest

from dragoman import (
    AsyncStream,
    ConnectTimeout,
    DragomanError,
    Interrupted,
    Model,
    Registry,
    Reset,
    Stream,
    TimedOut,
    Timeouts,
)
from tests.support.clock import TRIES, Moment, moment
from tests.support.sockets import PATIENCE, STAGES, DeafServer, SilentServer, StoppedServer, stopped_server

LIMIT = 0.05
"""Seconds between the end of a call and the end of its connection, as the server sees it."""
SHORTS = (0.15, 1.0, 5.0)
"""Seconds of a time limit: the first that is enough to reach the stage counts. On a quiet machine each is."""
PROMPT = "hi"
STREAM_STAGE = "in the stream"
BEFORE_THE_BODY = STAGES[:-2]

Stop: TypeAlias = Callable[[StoppedServer, Model], Moment]
"""Makes a call, stops it, and returns the moment of that."""


def model_of(server: StoppedServer, *, retries: int = 0, http_client: Any = None) -> Model:
    registry = Registry(env={}, http_client=http_client)
    api_key = server if isinstance(server, KeyFunction) else None
    registry.add_provider(name="stopped", like="vllm", base_url=f"{server.origin}/v1", api_key=api_key)
    return registry.model("stopped/m", retries=retries, timeout=30.0)


# Ways to make a call --------------------------------------------------------------------------------------------------


async def read(stream: AsyncStream) -> None:
    async for _ in stream:
        continue


def agenerate(model: Model, **options: Any) -> Any:
    return model.agenerate(PROMPT, **options)


def astream(model: Model, **options: Any) -> Any:
    return read(model.astream(PROMPT, **options))


def generate(model: Model, **options: Any) -> object:
    return model.generate(PROMPT, **options)


def stream(model: Model, **options: Any) -> object:
    return list(model.stream(PROMPT, **options))


ASYNC_CALLS: dict[str, Callable[..., Any]] = {"plain": agenerate, "streamed": astream}
BLOCKING_CALLS: dict[str, Callable[..., Any]] = {"plain": generate, "streamed": stream}


# Ways to stop it ------------------------------------------------------------------------------------------------------


def cancelled_task(call: Callable[..., Any]) -> Stop:
    async def main(server: StoppedServer, model: Model) -> Moment:
        task = asyncio.ensure_future(call(model))
        await asyncio.to_thread(server.wait_until_reached)
        stopped_at = moment()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stopped_at

    return lambda server, model: asyncio.run(main(server, model))


def asyncio_timeout(call: Callable[..., Any]) -> Stop:
    async def wait(server: StoppedServer, model: Model, scope: asyncio.Timeout) -> None:
        async with scope:
            reached = asyncio.ensure_future(asyncio.to_thread(server.wait_until_reached))
            reached.add_done_callback(lambda _: scope.reschedule(asyncio.get_running_loop().time()))
            await call(model)

    async def main(server: StoppedServer, model: Model) -> Moment:
        with pytest.raises(TimeoutError):
            await wait(server, model, asyncio.timeout(None))
        return moment()

    return lambda server, model: asyncio.run(main(server, model))


def anyio_scope(call: Callable[..., Any]) -> Stop:
    async def main(server: StoppedServer, model: Model) -> Moment:
        async def stop(scope: anyio.CancelScope) -> None:
            await asyncio.to_thread(server.wait_until_reached)
            scope.cancel()

        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(stop, scope)
                await call(model)
            assert scope.cancelled_caught
        return moment()

    return lambda server, model: anyio.run(main, server, model)


def aclose_from_another_task(_call: Callable[..., Any]) -> Stop:
    async def main(server: StoppedServer, model: Model) -> Moment:
        stream = model.astream(PROMPT)
        task = asyncio.ensure_future(read(stream))
        await asyncio.to_thread(server.wait_until_reached)
        stopped_at = moment()
        await stream.aclose()
        with pytest.raises(Reset, match="closed while it was read"):
            await task
        return stopped_at

    return lambda server, model: asyncio.run(main(server, model))


def leave_async_loop(_call: Callable[..., Any]) -> Stop:
    async def main(model: Model) -> Moment:
        async for _ in model.astream("hi"):
            break
        stopped_at = moment()
        await asyncio.sleep(2 * LIMIT)  # the loop goes on, and closes what was left
        return stopped_at

    return lambda _server, model: asyncio.run(main(model))


def leave_async_with(_call: Callable[..., Any]) -> Stop:
    async def main(model: Model) -> Moment:
        async with model.astream("hi") as stream:
            await anext(aiter(stream))
        stopped_at = moment()
        await asyncio.sleep(2 * LIMIT)  # the loop goes on, and closes what was left
        return stopped_at

    return lambda _server, model: asyncio.run(main(model))


def leave_loop(_call: Callable[..., Any]) -> Stop:
    def stop(_server: StoppedServer, model: Model) -> Moment:
        for _ in model.stream("hi"):
            break
        return moment()

    return stop


def leave_with(_call: Callable[..., Any]) -> Stop:
    def stop(_server: StoppedServer, model: Model) -> Moment:
        with model.stream("hi") as stream:
            next(iter(stream))
        return moment()

    return stop


def close(_call: Callable[..., Any]) -> Stop:
    def stop(_server: StoppedServer, model: Model) -> Moment:
        stream: Stream = model.stream("hi")
        next(iter(stream))
        stream.close()
        return moment()

    return stop


def close_from_another_thread(_call: Callable[..., Any]) -> Stop:
    def stop(server: StoppedServer, model: Model) -> Moment:
        stream: Stream = model.stream(PROMPT)
        stopped: list[Moment] = []

        def close() -> None:
            server.wait_until_reached()
            stopped.append(moment())
            stream.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(Reset, match="closed while it was read"):
            list(stream)
        thread.join()
        return stopped[0]

    return stop


def ctrl_c(call: Callable[..., Any]) -> Stop:
    def stop(server: StoppedServer, model: Model) -> Moment:
        stopped: list[Moment] = []

        def interrupt() -> None:
            server.wait_until_reached()
            time.sleep(0.02)  # the signal shall come while the call waits
            stopped.append(moment())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            call(model)
        thread.join()
        return stopped[0]

    return stop


def close_registry(call: Callable[..., Any]) -> Stop:
    def stop(server: StoppedServer, _model: Model) -> Moment:
        registry = Registry(env={})
        registry.add_provider(name="stopped", like="vllm", base_url=f"{server.origin}/v1")
        stopped: list[Moment] = []

        def close() -> None:
            server.wait_until_reached()
            stopped.append(moment())
            registry.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(Reset, match="closed during the request"):
            call(registry.model("stopped/m", timeout=30.0))
        thread.join()
        return stopped[0]

    return stop


def run(result: Any) -> None:
    """Run the call, if it is async; a blocking one has run already."""
    if asyncio.iscoroutine(result):
        asyncio.run(result)


def time_limit(name: str, *errors: type[DragomanError]) -> Callable[[Callable[..., Any]], Stop]:
    def way(call: Callable[..., Any]) -> Stop:
        def stop(server: StoppedServer, model: Model) -> Moment:
            for short in SHORTS:
                timeouts = Timeouts(**{"total": 30.0, "connect": 30.0, name: short})
                with pytest.raises(errors, match=rf"`{name}`.*{short:g} s"):
                    run(call(model, timeout=timeouts))
                stopped_at = moment()
                if server.is_reached:
                    return stopped_at
            raise AssertionError("the call did not reach the stage")

        return stop

    return way


# The matrix -----------------------------------------------------------------------------------------------------------

Row: TypeAlias = tuple[Callable[[Callable[..., Any]], Stop], str, str, tuple[str, ...]]
"""A way to stop, the calls it is for, and the stages at which it can be done."""
TIMEOUT = (TimedOut, Interrupted)
ROWS: dict[str, Row] = {
    "cancelled task": (cancelled_task, "async", "plain streamed", STAGES),
    "asyncio.timeout": (asyncio_timeout, "async", "plain streamed", STAGES),
    "anyio scope": (anyio_scope, "async", "plain streamed", STAGES),
    "aclose from another task": (aclose_from_another_task, "async", "streamed", STAGES),
    "break out of async for": (leave_async_loop, "async", "streamed", (STREAM_STAGE,)),
    "leave async with": (leave_async_with, "async", "streamed", (STREAM_STAGE,)),
    "break out of for": (leave_loop, "blocking", "streamed", (STREAM_STAGE,)),
    "leave with": (leave_with, "blocking", "streamed", (STREAM_STAGE,)),
    "close": (close, "blocking", "streamed", (STREAM_STAGE,)),
    "close from another thread": (close_from_another_thread, "blocking", "streamed", STAGES),
    "Ctrl-C": (ctrl_c, "blocking", "plain streamed", STAGES),
    "Registry.close": (close_registry, "blocking", "plain streamed", BEFORE_THE_BODY),
    "limit total": (time_limit("total", *TIMEOUT), "async blocking", "plain streamed", STAGES),
    "limit connect": (time_limit("connect", ConnectTimeout), "async blocking", "plain streamed", STAGES[:2]),
    "limit first_event": (time_limit("first_event", *TIMEOUT), "async blocking", "plain streamed", BEFORE_THE_BODY),
    "limit first_event, no content": (time_limit("first_event", *TIMEOUT), "async blocking", "streamed", STAGES[4:5]),
    "limit idle": (time_limit("idle", Interrupted), "async blocking", "streamed", (STREAM_STAGE,)),
}


def cells() -> Iterator[Any]:
    for name, (way, uses, calls, stages) in ROWS.items():
        for use in uses.split():
            for kind in calls.split():
                call = (ASYNC_CALLS if use == "async" else BLOCKING_CALLS)[kind]
                for stage in stages:
                    yield pytest.param(way(call), stage, id=f"{name}-{use}-{kind}-{stage}")


@pytest.mark.parametrize(("stop", "stage"), list(cells()))
def test_stopping_a_call_closes_its_connection_at_once(stop: Stop, stage: str) -> None:
    with stopped_server(stage) as server:
        stopped_at = stop(server, model_of(server))
        assert stopped_at.until(server.wait_until_left() - server.look_seconds) < LIMIT


# While the request is sent ---------------------------------------------------------------------------------------------

LONG = "long " * 4_000_000
"""More than the systems of both sides buffer."""
SENDING_ROWS = ("cancelled task", "asyncio.timeout", "anyio scope", "aclose from another task", "close from another thread",
                "Ctrl-C", "Registry.close", "limit total", "limit first_event")  # fmt: skip


def sending_cells() -> Iterator[Any]:
    for name in SENDING_ROWS:
        way, uses, calls, _ = ROWS[name]
        for use in uses.split():
            for kind in calls.split():
                yield pytest.param(
                    way((ASYNC_CALLS if use == "async" else BLOCKING_CALLS)[kind]), id=f"{name}-{use}-{kind}"
                )


@pytest.mark.parametrize("stop", list(sending_cells()))
def test_stopping_a_call_that_is_being_sent_closes_its_connection_at_once(
    stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.PROMPT", LONG)
    monkeypatch.setattr(f"{__name__}.SHORTS", (1.0,))
    with DeafServer() as server:
        stopped_at = stop(server, model_of(server))
        assert stopped_at.until(server.wait_until_left()) < LIMIT


# With an httpx client of the user -------------------------------------------------------------------------------------

HTTPX_ROWS = ("cancelled task", "asyncio.timeout", "aclose from another task", "close", "close from another thread",
              "Ctrl-C", "limit total", "limit first_event", "limit idle")  # fmt: skip


def httpx_cells() -> Iterator[Any]:
    for name in HTTPX_ROWS:
        way, uses, calls, stages = ROWS[name]
        for use in uses.split():
            client = httpx.AsyncClient if use == "async" else httpx.Client
            for kind in calls.split():
                call = (ASYNC_CALLS if use == "async" else BLOCKING_CALLS)[kind]
                for stage in stages:
                    if stage in STAGES[2:]:  # httpx closes a socket that connects only when its own time limit is over
                        yield pytest.param(way(call), stage, client, id=f"{name}-{use}-{kind}-{stage}")


@pytest.mark.parametrize(("stop", "stage", "client"), list(httpx_cells()))
def test_stopping_a_call_closes_the_connection_of_an_httpx_client(
    stop: Stop, stage: str, client: Callable[..., Any]
) -> None:
    with stopped_server(stage) as server:
        stopped_at = stop(server, model_of(server, http_client=client(trust_env=False)))
        assert stopped_at.until(server.wait_until_left()) < LIMIT


HTTPX_SENDING_ROWS = tuple(name for name in SENDING_ROWS if name in HTTPX_ROWS)


def httpx_sending_cells() -> Iterator[Any]:
    for name in HTTPX_SENDING_ROWS:
        way, uses, calls, _ = ROWS[name]
        for use in uses.split():
            client = httpx.AsyncClient if use == "async" else httpx.Client
            for kind in calls.split():
                call = (ASYNC_CALLS if use == "async" else BLOCKING_CALLS)[kind]
                yield pytest.param(way(call), client, id=f"{name}-{use}-{kind}")


@pytest.mark.parametrize(("stop", "client"), list(httpx_sending_cells()))
def test_stopping_a_call_that_an_httpx_client_sends_closes_its_connection_at_once(
    stop: Stop, client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.PROMPT", LONG)
    monkeypatch.setattr(f"{__name__}.SHORTS", (1.0,))
    late: list[float] = []
    # Threads of httpx with 20 MB wait for each other's interpreter lock, too: late every time is our fault.
    while not late or (min(late) >= LIMIT and len(late) < TRIES):
        with DeafServer() as server:
            stopped_at = stop(server, model_of(server, http_client=client(trust_env=False)))
            late.append(stopped_at.until(server.wait_until_left()))
    assert min(late) < LIMIT, late


# Without a connection -------------------------------------------------------------------------------------------------


class Resolving:
    """A name server that does not answer."""

    origin = "http://provider.test"
    is_reached = False
    look_seconds = 0.0

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._ended = threading.Event()
        self._resolve = socket.getaddrinfo

    def __enter__(self) -> Self:
        socket.getaddrinfo = self._wait
        return self

    def __exit__(self, *_: object) -> None:
        socket.getaddrinfo = self._resolve
        self._ended.set()

    def wait_until_reached(self) -> None:
        assert self._reached.acquire(timeout=PATIENCE), "the client has not come"

    def wait_until_left(self) -> float:
        return time.monotonic()

    def _wait(self, *args: Any, **options: Any) -> Any:
        if args[0] != "provider.test":
            return self._resolve(*args, **options)
        self.is_reached = True
        self._reached.release()
        self._ended.wait(PATIENCE)
        raise OSError("no name server")


class KeyFunction:
    """A function that is called for a key, and does not return. The server behind it is not reached."""

    origin = "http://127.0.0.1:9"
    is_reached = False
    look_seconds = 0.0

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def wait_until_reached(self) -> None:
        assert self._reached.acquire(timeout=PATIENCE), "the function was not called"

    def wait_until_left(self) -> float:
        return time.monotonic()

    def __call__(self) -> str:
        self.is_reached = True
        self._reached.release()
        self._ended.wait(PATIENCE)
        return "sk-late"


class Busy(SilentServer):
    """A server that asks its client to come back later."""

    def __init__(self) -> None:
        super().__init__("before the head")
        self._bytes = b"HTTP/1.1 503 Busy\r\nretry-after: 20\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

    def wait_until_reached(self) -> None:
        super().wait_until_reached()
        super().wait_until_left()

    def wait_until_left(self) -> float:
        return time.monotonic()


WAITS: dict[str, Callable[[], StoppedServer]] = {
    "resolving the name": Resolving,
    "waiting for a retry": Busy,
    "waiting for a key": KeyFunction,
}
QUEUED_ROWS = ("cancelled task", "asyncio.timeout", "anyio scope", "aclose from another task", "close from another thread",
               "Ctrl-C", "limit total")  # fmt: skip


def queued_cells() -> Iterator[Any]:
    for name in QUEUED_ROWS:
        way, uses, calls, _ = ROWS[name]
        for use in uses.split():
            for kind in calls.split():
                call = (ASYNC_CALLS if use == "async" else BLOCKING_CALLS)[kind]
                for stage, server in WAITS.items():
                    # A wait for a retry that is too long is not begun. A limit says that it passed while a key was made.
                    if name != "limit total" or stage == "resolving the name":
                        yield pytest.param(way(call), server, id=f"{name}-{use}-{kind}-{stage}")


@pytest.mark.parametrize(("stop", "server_of"), list(queued_cells()))
def test_stopping_a_call_that_has_no_connection_ends_it_at_once(
    stop: Stop, server_of: Callable[[], StoppedServer]
) -> None:
    with server_of() as server:
        stopped_at = stop(server, model_of(server, retries=1))
        assert stopped_at.until(server.wait_until_left()) < LIMIT


@pytest.mark.parametrize("name", ["close from another thread", "Ctrl-C", "limit total", "limit connect"])
@pytest.mark.parametrize("kind", ["plain", "streamed"])
def test_a_blocking_httpx_client_that_resolves_a_name_can_be_stopped(name: str, kind: str) -> None:
    way, _, kinds, _ = ROWS[name]
    if kind in kinds:
        with Resolving() as server:
            client = httpx.Client(trust_env=False)
            stopped_at = way(BLOCKING_CALLS[kind])(server, model_of(server, http_client=client))
            assert stopped_at.until(time.monotonic()) < LIMIT
