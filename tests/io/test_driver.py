"""Plans, driven over real sockets: each case twice, blocking and async, by one fixture."""

import asyncio
import gc
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, Self, cast

import anyio
import httpx
import pytest

from dragoman import wires
from dragoman.engine.call_context import Timeouts
from dragoman.engine.effects import Compute, Now, Observe, Plan, Random, Sleep
from dragoman.engine.health import Health
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ConnectFailed,
    ContextTooLong,
    DragomanError,
    EmptyResponse,
    Interrupted,
    MalformedToolCall,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ReadTimeout,
    RequestTooLarge,
    Reset,
    ServerFault,
    TimedOut,
    Unsupported,
    WireError,
)
from dragoman.io.driver import Driver
from dragoman.io.transport import make_transport
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.provider import Provider
from dragoman.testing import (
    CloseAfter,
    CloseAtOnce,
    DefectiveAnswer,
    ErrorInside200,
    FaultyServer,
    InvalidBody,
    KeepOpen,
    NoResponse,
    RawResponse,
    ResetAfter,
    Scripted,
    ScriptLine,
    StallAfter,
    refused_url,
)
from dragoman.testing.script import render
from dragoman.types import Image, Request, Response, Tool, ToolCall, assistant, user
from tests.support.clock import soonest
from tests.support.images import picture

PATIENCE = 10.0
"""Seconds after which a test that waits for an event has failed."""
CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})
TIDE = Tool(
    name="tide", description="The tide", parameters={"type": "object", "properties": {"port": {"type": "string"}}}
)


class Way(Protocol):
    """One of the two ways of use."""

    def generate(self, model: Model, prompt: str = "hi", **options: Any) -> Response: ...
    def stream(self, model: Model, prompt: str = "hi", **options: Any) -> list[Any]: ...
    def run(self, driver: Driver, flow: Plan[Any]) -> Any: ...
    def leave(self, model: Model, after: int) -> None: ...


class Blocking:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def generate(self, model: Model, prompt: str = "hi", **options: Any) -> Response:
        response: Response = model.generate(prompt, **options)
        return response

    def stream(self, model: Model, prompt: str = "hi", **options: Any) -> list[Any]:
        return list(model.stream(prompt, **options))

    def run(self, driver: Driver, flow: Plan[Any]) -> Any:
        return driver.run(flow)

    def leave(self, model: Model, after: int) -> None:
        for number, _ in enumerate(model.stream("hi"), 1):
            if number == after:
                break


class Async:
    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()

    def generate(self, model: Model, prompt: str = "hi", **options: Any) -> Response:
        response: Response = self.runner.run(model.agenerate(prompt, **options))
        return response

    def stream(self, model: Model, prompt: str = "hi", **options: Any) -> list[Any]:
        async def work() -> list[Any]:
            return [item async for item in model.astream(prompt, **options)]

        return self.runner.run(work())

    def run(self, driver: Driver, flow: Plan[Any]) -> Any:
        return self.runner.run(driver.arun(flow))

    def leave(self, model: Model, after: int) -> None:
        async def work() -> None:
            number = 0
            async for _ in model.astream("hi"):
                number += 1
                if number == after:
                    break
            await asyncio.sleep(0.01)  # the loop, which goes on, closes what was left

        self.runner.run(work())


@pytest.fixture(params=[Blocking, Async], ids=["blocking", "async"])
def make_way(request: pytest.FixtureRequest) -> type[Blocking | Async]:
    kind: type[Blocking | Async] = request.param
    return kind


@pytest.fixture
def way(make_way: type[Blocking | Async]) -> Iterator[Way]:
    with make_way() as made:
        yield made


@pytest.fixture
def pooled() -> Iterator[Any]:
    transport = make_transport()
    yield transport
    transport.close()


def ask(way: Way, model: Model, *, streamed: bool, **options: Any) -> Response:
    if not streamed:
        return way.generate(model, **options)
    last = way.stream(model, **options)[-1]
    assert isinstance(last, Response)
    return last


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
EVERY_WIRE = pytest.mark.parametrize("wire", wires.NAMES)

# ── effects ─────────────────────────────────────────────────────────────────


def test_effects_are_performed(way: Way) -> None:
    seen: list[object] = []

    def flow() -> Plan[tuple[float, float, int]]:
        before: float = yield Now()
        number: float = yield Random()
        yield Sleep(0.01)
        yield Observe("info")
        value: int = yield Compute(lambda _: 42)
        after: float = yield Now()
        return after - before, number, value

    took, number, value = way.run(Driver(Scripted(), [seen.append]), flow())
    assert took >= 0.01
    assert 0 <= number < 1
    assert (value, seen) == (42, ["info"])


def test_a_failed_effect_is_raised_inside_the_plan(way: Way) -> None:
    def fail(_: object) -> int:
        raise ValueError("no")

    def flow() -> Plan[str]:
        try:
            yield Compute(fail)
        except ValueError as error:
            return str(error)
        return "nothing"

    assert way.run(Driver(Scripted()), flow()) == "no"


def test_an_error_of_a_plan_is_raised(way: Way) -> None:
    def flow() -> Plan[None]:
        yield Now()
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        way.run(Driver(Scripted()), flow())


def test_an_observer_breaks_nothing(way: Way) -> None:
    seen: list[object] = []

    def fail(_what: object) -> None:
        raise RuntimeError("observer")

    registry = Scripted("Hello.").registry()
    registry.observe(fail)
    registry.observe(seen.append)
    assert way.generate(registry.model("scripted/m")).text == "Hello."
    assert len(seen) == 1


# ── every wire, and every line of the fault table ───────────────────────────


@EVERY_WIRE
@STREAMED
def test_every_wire_answers(way: Way, wire: str, *, streamed: bool) -> None:
    with FaultyServer("Hello, world.", (CALL,)) as server:
        model = server.model(wire)
        assert ask(way, model, streamed=streamed).text == "Hello, world."
        (call,) = ask(way, model, streamed=streamed, tools=[TIDE]).tool_calls
    assert (call.name, call.arguments) == ("tide", {"port": "Brest"})


TRANSIENT: list[tuple[str, ScriptLine, type[DragomanError]]] = [
    ("429", RateLimited("slow down", code="rate_limit_exceeded"), RateLimited),
    ("529", Overloaded("busy", code="overloaded_error"), Overloaded),
    ("408", RawResponse(status=408, body=b'{"error":{"message":"late"}}'), ServerFault),
    ("500", RawResponse(status=500, body=b'{"error":{"message":"boom"}}'), ServerFault),
    ("502", RawResponse(status=502, body=b"<html>Bad gateway</html>"), ServerFault),
    ("503", RawResponse(status=503, body=b""), Overloaded),
    ("504", RawResponse(status=504, body=b"late"), ServerFault),
    ("drop", CloseAtOnce(), Reset),
    ("reset", ResetAfter(3), Reset),
    ("cut", CloseAfter(3), Reset),
    ("silence", NoResponse(), TimedOut),
    ("stall", StallAfter(3), TimedOut),
    ("garbage", InvalidBody(), WireError),
]


@EVERY_WIRE
@STREAMED
@pytest.mark.parametrize(
    "line", [pytest.param(line, id=name) for name, line, error in TRANSIENT if error is not TimedOut]
)
def test_a_transient_error_is_retried(way: Way, wire: str, line: ScriptLine, *, streamed: bool) -> None:
    retried(way, wire, line, 5.0, streamed=streamed)


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line, error in TRANSIENT if error is TimedOut])
def test_a_silence_is_retried(make_way: type[Blocking | Async], line: ScriptLine) -> None:
    """A plain call has no limit but the whole one: a time-out of it ends the call. The wires wait at the same time."""

    def work(wire: str) -> None:
        with make_way() as own:
            retried(own, wire, line, 2.0, streamed=True)

    with ThreadPoolExecutor(len(wires.NAMES)) as pool:
        calls = {wire: pool.submit(work, wire) for wire in wires.NAMES}
    assert {wire: call.exception() for wire, call in calls.items()} == dict.fromkeys(wires.NAMES)


def retried(way: Way, wire: str, line: ScriptLine, limit: float, *, streamed: bool) -> None:
    with FaultyServer(line, "Hello.") as server:
        limits = Timeouts(total=10.0, first_event=limit, idle=limit)
        response = ask(way, server.model(wire, backoff=0.0, timeout=limits), streamed=streamed)
    assert response.text == "Hello."
    assert [attempt.outcome for attempt in response.attempts] == ["failed", "served"]
    assert response.attempts[0].error is not None


PERMANENT: list[tuple[str, ScriptLine, type[DragomanError]]] = [
    ("400", RawResponse(status=400, body=b'{"error":{"message":"temperature"}}'), BadRequest),
    ("405", RawResponse(status=405, body=b""), BadRequest),
    ("422", RawResponse(status=422, body=b'{"detail":"no"}'), BadRequest),
    ("blocked", RawResponse(status=400, body=b'{"error":{"message":"unsafe","code":"content_filter"}}'), Blocked),
]


@STREAMED
@pytest.mark.parametrize(("line", "error"), [case[1:] for case in PERMANENT], ids=[case[0] for case in PERMANENT])
def test_a_permanent_error_stops_the_chain(
    way: Way, line: ScriptLine, error: type[DragomanError], *, streamed: bool
) -> None:
    with FaultyServer(line, "Hello.") as server:
        registry = server.registry()
        with pytest.raises(error):
            ask(way, registry.model("server/m1,server/m2"), streamed=streamed)
        assert len(server.http) == 1
        assert (
            registry.health.snapshot().get("server/m1") is None or not registry.health.snapshot()["server/m1"].failures
        )


ELSEWHERE: list[tuple[str, ScriptLine, type[DragomanError]]] = [
    ("404", RawResponse(status=404, body=b'{"error":{"message":"model m1 not found"}}'), ModelNotFound),
    ("bare 404", RawResponse(status=404, body=b""), ModelNotFound),
    ("401", RawResponse(status=401, body=b'{"error":{"message":"who?"}}'), AuthFailed),
    ("403", RawResponse(status=403, body=b'{"error":{"message":"no"}}'), AuthFailed),
    ("413", RawResponse(status=413, body=b""), RequestTooLarge),
    (
        "context",
        RawResponse(status=400, body=b'{"error":{"message":"long","code":"context_length_exceeded"}}'),
        ContextTooLong,
    ),
    ("empty", assistant(), EmptyResponse),
]


@STREAMED
@pytest.mark.parametrize("line", [case[1] for case in ELSEWHERE], ids=[case[0] for case in ELSEWHERE])
def test_an_error_that_another_target_may_avoid_fails_over_at_once(
    way: Way, line: ScriptLine, *, streamed: bool
) -> None:
    with FaultyServer(line, "Hello.") as server:
        response = ask(way, server.registry().model("server/m1,server/m2"), streamed=streamed)
        assert len(server.http) == 2
    assert (response.text, response.target) == ("Hello.", "server/m2")


@EVERY_WIRE
@STREAMED
def test_an_error_behind_a_200_is_seen(way: Way, wire: str, *, streamed: bool) -> None:
    with FaultyServer(ErrorInside200(Overloaded("busy", code="overloaded_error")), "Hello.") as server:
        response = ask(way, server.model(wire, backoff=0.0), streamed=streamed)
    assert response.text == "Hello."
    assert "busy" in (response.attempts[0].error or "")


@STREAMED
def test_a_refused_connection_fails_over(way: Way, *, streamed: bool) -> None:
    with FaultyServer("Hello.") as server:
        registry = server.registry()
        nobody = Provider(name="nobody", wire="openai_chat", base_url=refused_url(), needs_key=False)
        registry.add_provider(nobody)
        response = ask(way, registry.model("nobody/m,server/m", retries=0), streamed=streamed)
    assert response.target == "server/m"
    assert (response.attempts[0].error or "").startswith(ConnectFailed.__name__)


@STREAMED
def test_a_missing_key_fails_over_and_is_named(way: Way, *, streamed: bool) -> None:
    with FaultyServer("Hello.") as server:
        response = ask(way, server.registry().model("groq/llama,server/m"), streamed=streamed)
        assert "GROQ_API_KEY" in (response.attempts[0].error or "")
        with pytest.raises(AuthFailed, match="GROQ_API_KEY"):
            ask(way, server.registry().model("groq/llama"), streamed=streamed)


@STREAMED
def test_an_unsupported_request_fails_over(way: Way, *, streamed: bool) -> None:
    with FaultyServer("Hello.") as server:
        registry = server.registry()
        registry.set_capabilities("server/blind", max_images=0)
        model = registry.model("server/blind,server/m")
        prompt = user("see", Image(data=picture(mime="image/gif"), mime="image/gif"))
        response = ask(way, model, streamed=streamed, prompt=prompt)
    assert response.target == "server/m"
    assert (response.attempts[0].error or "").startswith(Unsupported.__name__)


def test_arguments_that_are_not_json_are_retried(way: Way) -> None:
    bad = b'{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","function":{"name":"tide","arguments":"{"}}]}}]}'
    with FaultyServer(RawResponse(body=bad), "Hello.") as server:
        registry = server.registry()
        response = way.generate(registry.model("server/m", backoff=0.0), tools=[TIDE])
    assert response.text == "Hello."
    assert (response.attempts[0].error or "").startswith(MalformedToolCall.__name__)


@EVERY_WIRE
@STREAMED
@pytest.mark.parametrize("how", ["missing_index", "wrong_index", "missing_id"])
def test_malformed_calls_are_repaired_or_refused(way: Way, wire: str, how: Any, *, streamed: bool) -> None:
    with FaultyServer(DefectiveAnswer(how, (CALL,)), repeat=True) as server:
        try:
            response = ask(way, server.model(wire, retries=0), streamed=streamed, tools=[TIDE])
        except (WireError, Interrupted):
            assert how != "missing_id" or wire in ("native", "openai_responses"), "an id is not needed"
            return
    (call,) = response.tool_calls
    assert (call.name, call.arguments) == ("tide", {"port": "Brest"})
    assert call.id


# ── streams that break ──────────────────────────────────────────────────────


@EVERY_WIRE
@pytest.mark.parametrize("fault", [CloseAfter, ResetAfter])
def test_a_stream_that_breaks_after_content_is_interrupted(
    way: Way, wire: str, fault: Callable[..., ScriptLine]
) -> None:
    words = "one two three four five six seven eight nine ten " * 20
    with FaultyServer(fault(_until(wire, words), words), "Hello.") as server:
        with pytest.raises(Interrupted) as caught:
            way.stream(server.model(wire))
        assert len(server.http) == 1, "after the first event nobody tries again"
    assert caught.value.partial is not None
    assert caught.value.partial.text == words


def _until(wire: str, words: str) -> int:
    """The bytes of a stream up to the end of its one delta, and a little more."""
    chunks = render(words, wires.get(wire), Request(stream=True)).chunks
    last = next(number for number, chunk in enumerate(chunks) if words[-40:].encode() in chunk)
    before, chunk = sum(map(len, chunks[:last])), chunks[last]
    if wire == "bedrock":  # a binary event has no line end: it is a chunk
        return before + len(chunk) + 2
    at = chunk.index(words[-40:].encode()) + 40
    return before + chunk.index(b"\n", at) + 2


def test_a_stalled_stream_is_interrupted_in_time(way: Way) -> None:
    words = "one two three " * 30
    with FaultyServer(StallAfter(_until("openai_chat", words), words), repeat=True) as server:
        limits = Timeouts(total=30.0, first_event=5.0, idle=0.2)
        work = lambda: way.stream(server.model(), timeout=limits)  # noqa: E731 - it is run three times
        assert soonest(work, Interrupted, most=0.3) <= 0.3
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


@STREAMED
def test_a_stale_connection_is_retried_at_once(way: Way, *, streamed: bool) -> None:
    with FaultyServer("Hello.", CloseAtOnce(), "Again.") as server:
        registry = server.registry()
        model = registry.model("server/m", backoff=1e6, backoff_cap=1e6, timeout=PATIENCE)
        ask(way, model, streamed=False)  # the connection is in the pool when this returns
        response = ask(way, model, streamed=streamed)
    assert response.text == "Again."
    assert [attempt.outcome for attempt in response.attempts] == ["failed", "served"]


# ── deadlines and cancellation ──────────────────────────────────────────────


@STREAMED
@pytest.mark.parametrize("line", [NoResponse(), StallAfter(3)], ids=["head", "body"])
def test_a_deadline_holds_within_50_ms(way: Way, line: ScriptLine, *, streamed: bool) -> None:
    with FaultyServer(line, repeat=True) as server:
        took = soonest(lambda: ask(way, server.model(), streamed=streamed, timeout=0.3), TimedOut, most=0.35)
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"
    assert 0.25 <= took <= 0.35


def test_a_late_body_names_the_limit_that_it_broke(way: Way) -> None:
    with FaultyServer(StallAfter(3)) as server:
        limits = Timeouts(total=0.5, first_event=0.45)  # the head comes in time
        with pytest.raises(ReadTimeout, match=r"no complete answer within `total` \(0.5 s\)$"):
            ask(way, server.model(retries=0), streamed=False, timeout=limits)


@STREAMED
def test_a_deadline_holds_for_all_attempts(way: Way, *, streamed: bool) -> None:
    with FaultyServer(Overloaded("busy"), repeat=True) as server:
        options = {"timeout": 0.3, "retries": 1000, "backoff": 0.02, "backoff_cap": 0.02}
        work = lambda: ask(way, server.model(), streamed=streamed, **options)  # noqa: E731 - it is run three times
        assert soonest(work, DragomanError, most=0.35) <= 0.35


@STREAMED
def test_closing_the_registry_is_not_a_failure_of_the_target(way: Way, *, streamed: bool) -> None:
    with FaultyServer(NoResponse(), "never") as server:
        registry = server.registry()

        def close() -> None:
            assert server.request_received.acquire(timeout=PATIENCE)
            registry.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(Reset, match="closed during the request"):
            ask(way, registry.model("server/m"), streamed=streamed)
        thread.join()
    assert len(server.requests) == 1
    assert registry.health.get("server/m").failures == 0


def test_leaving_a_stream_closes_its_connection(way: Way) -> None:
    words = "one two three " * 30
    with FaultyServer(StallAfter(_until("openai_chat", words), words)) as server:
        way.leave(server.model(), 1)
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


@pytest.mark.parametrize("streamed", [True], ids=["streamed"])
@pytest.mark.parametrize("how", ["cancel", "timeout", "anyio"])
def test_cancelling_while_the_body_is_read_closes_the_connection(how: str, *, streamed: bool) -> None:
    async def work(server: FaultyServer) -> None:
        registry = server.registry()
        started = asyncio.Event()
        plan = _consume(registry.model("server/m"), started)
        match how:
            case "cancel":
                task = asyncio.ensure_future(plan)
                await started.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            case "timeout":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await plan
            case _:
                with anyio.move_on_after(0.1) as scope:
                    await plan
                assert scope.cancelled_caught

    words = "one two three " * 30
    with FaultyServer(StallAfter(_until("openai_chat", words), words)) as server:
        asyncio.run(work(server))
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


async def _consume(model: Model, started: asyncio.Event) -> None:
    async for _ in model.astream("hi"):
        started.set()


@pytest.mark.parametrize("is_httpx", [False, True], ids=["own", "httpx"])
def test_cancelling_before_the_head_closes_the_connection(*, is_httpx: bool) -> None:
    client = httpx.AsyncClient(trust_env=False) if is_httpx else None
    with FaultyServer(NoResponse()) as server:
        model = server.registry(http_client=client).model("server/m", timeout=60.0)
        asyncio.run(_cancel_when_asked(server, model))
        assert server.client_disconnected.acquire(timeout=PATIENCE), "the connection was not closed"


async def _cancel_when_asked(server: FaultyServer, model: Model) -> None:
    task = asyncio.ensure_future(model.agenerate("hi"))
    assert await asyncio.to_thread(server.request_received.acquire, timeout=PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_between_attempts_ends_at_once() -> None:
    forever: Any = {"backoff": 1e6, "backoff_cap": 1e6, "timeout": Timeouts(total=None)}

    async def work(server: FaultyServer) -> None:
        task = asyncio.ensure_future(server.model(**forever).agenerate("hi"))
        assert await asyncio.to_thread(server.request_received.acquire, timeout=PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with FaultyServer(Overloaded("busy"), repeat=True) as server:
        asyncio.run(work(server))


def test_a_cancelled_trial_lets_the_next_one_try() -> None:
    async def work(server: FaultyServer, registry: Registry) -> None:
        await _cancel_when_asked(server, registry.model("server/m", timeout=1.0))

    with FaultyServer(NoResponse(), "Hello.") as server:
        registry = server.registry()
        registry.health.disable("server/m", 0.0)
        asyncio.run(work(server, registry))
        assert registry.model("server/m").generate("hi").text == "Hello."


# ── where it runs ───────────────────────────────────────────────────────────


def test_a_blocking_call_works_in_a_running_loop() -> None:
    async def work() -> str:
        return Registry(env={}).model("demo/any").generate("hello").text

    assert asyncio.run(work()).startswith("Hello")


def test_it_works_in_threads_and_loops_at_once() -> None:
    with FaultyServer("Hello.", repeat=True) as server:
        model = server.model()
        texts: list[str] = []

        def blocking() -> None:
            texts.extend(model.generate("hi").text for _ in range(5))

        def looping() -> None:
            async def work() -> list[Response]:
                return await asyncio.gather(*(model.agenerate("hi") for _ in range(5)))

            texts.extend(response.text for response in asyncio.run(work()))

        threads = [threading.Thread(target=work) for work in (blocking, looping) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == ["Hello."] * 40


def test_it_works_with_anyio() -> None:
    async def work() -> list[str]:
        texts: list[str] = []
        model = Registry(env={}).model("demo/any")

        async def one(number: int) -> None:
            texts.append((await model.agenerate(f"say {number}")).text)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(one, number)
        return texts

    assert len(anyio.run(work)) == 10


# ── nothing is left behind ──────────────────────────────────────────────────

FAULTS: list[ScriptLine] = [
    "Hello.",
    "Hello, world.",
    (CALL,),
    assistant(),
    Overloaded("busy"),
    RateLimited("slow"),
    CloseAtOnce(),
    CloseAfter(7),
    CloseAfter(120),
    ResetAfter(3),
    ResetAfter(150),
    InvalidBody(),
    KeepOpen("Hello."),
    ErrorInside200(Overloaded("busy")),
    RawResponse(status=404),
    RawResponse(status=400),
    RawResponse(status=500, body=b"boom"),
]


def sockets() -> int:
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        try:
            found += str(file.readlink()).startswith("socket:")
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_thousands_of_requests_with_random_faults_leak_nothing() -> None:
    rng = random.Random(7)
    warm = FaultyServer("Hello.", repeat=True)
    with warm:
        warm.model().generate("hi")
    gc.collect()
    before = sockets(), threading.active_count()
    outcomes: dict[str, int] = {}

    async def one(model: Model, number: int) -> str:
        try:
            match number % 4:
                case 0:
                    await model.agenerate("hi")
                case 1:
                    async with model.astream("hi") as stream:
                        async for _ in stream:
                            if rng.random() < 0.2:
                                return "left"
                case 2:
                    async for _ in model.astream("hi"):
                        continue
                case _:
                    async with asyncio.timeout(rng.choice([0.001, 1.0])):
                        await model.agenerate("hi")
        except DragomanError as error:
            return type(error).__name__
        except TimeoutError:
            return "cancelled"
        return "served"

    async def many(model: Model, numbers: range) -> None:
        for outcome in await asyncio.gather(*(one(model, number) for number in numbers)):
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        assert len(asyncio.all_tasks()) == 1

    async def work(model: Model) -> None:
        for start in range(0, 2000, 50):
            await many(model, range(start, start + 50))

    lines = [rng.choice(FAULTS) for _ in range(997)]
    with FaultyServer(*lines, repeat=True) as server:
        registry = server.registry()
        registry.health = Health(HealthPolicy(threshold=10**9))
        asyncio.run(work(registry.model("server/m", retries=0, timeout=5.0)))
        registry.close()
    in_process = Scripted(*lines, repeat=True)
    registry = in_process.registry()
    registry.health = Health(HealthPolicy(threshold=10**9))
    model = registry.model("scripted/m", retries=0)
    for _ in range(2000):
        try:
            model.generate("hi")
        except DragomanError as error:
            outcomes[type(error).__name__] = outcomes.get(type(error).__name__, 0) + 1
    gc.collect()
    assert _settles(lambda: (sockets(), threading.active_count()), before)
    assert outcomes["served"] > 100
    assert outcomes["left"] > 20


def _settles(measure: Callable[[], tuple[int, int]], wanted: tuple[int, int]) -> bool:
    """Whether it comes to what is wanted: the HTTP client closes sockets in its own thread."""
    ends = time.monotonic() + PATIENCE
    ready = threading.Event()
    while measure() > wanted and time.monotonic() < ends:
        ready.wait(0.01)
    return measure() <= wanted


class NotAnEffect:
    pass


def test_an_unknown_effect_is_an_error() -> None:
    def plan() -> Plan[Any]:
        return (yield cast("Any", NotAnEffect()))

    driver = Driver(make_transport())
    with pytest.raises(AssertionError, match="NotAnEffect"):
        driver.run(plan())
    with pytest.raises(AssertionError, match="NotAnEffect"):
        asyncio.run(driver.arun(plan()))
