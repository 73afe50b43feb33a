"""Requests over a WebSocket: with the official SDK, by hand, and without a network."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

import pytest
import uvicorn
from openai import OpenAI
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.server import websocket
from dragoman.gateway.server.asgi import Asgi
from dragoman.gateway.server.websocket import SocketSession
from dragoman.http import HttpRequest
from dragoman.testing import ClaudeSimulator, CloseAfter, FaultyServer, StallAfter
from dragoman.types import Text
from dragoman.wires.base import WireSocket
from tests.gateway.test_client_disconnects import SHOWN, WORDS
from tests.support.gateway.dialects import app_of
from tests.support.gateway.live import PATIENCE, Gateway, record

EVENT = TypeAdapter[Any](ResponsesServerEvent)
PATH = "/v1/responses"


# With a running gateway -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def claude() -> ClaudeSimulator:
    return ClaudeSimulator()


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    claude: ClaudeSimulator, upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        url = stack.enter_context(claude.serve()).url
        config = f'[providers.anthropic]\nbase_url = "{url}"\napi_key = "k"\n{record("up", upstream.base_url())}'
        yield stack.enter_context(Gateway(folder, config))


def address(gateway: Gateway, path: str = PATH) -> str:
    return f"ws://127.0.0.1:{gateway.port}{path}"


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used as a context manager:DeprecationWarning")  # in the SDK
def test_the_official_sdk_continues_a_conversation_that_is_not_stored(
    gateway: Gateway, claude: ClaudeSimulator
) -> None:
    client = OpenAI(api_key="x", base_url=f"{gateway.url}/v1")
    with client.responses.connect() as connection:

        def ask(input: str, **more: Any) -> Any:
            connection.response.create(model=claude.spec, input=input, store=False, **more)
            events: list[Any] = []
            while not events or events[-1].type not in ("response.completed", "error"):
                data = connection.recv_bytes()
                EVENT.validate_json(data, strict=True)
                events.append(connection.parse_event(data))
            assert events[0].type in ("response.created", "error")
            return events[-1]

        first = ask("My name is Ada.").response
        second = ask("What is it?", previous_response_id=first.id, stream_id="fork")
        assert second.stream_id == "fork"
        texts = [part.text for turn in claude.requests[-1].messages for part in turn.parts if isinstance(part, Text)]
        assert texts[0] == "My name is Ada."
        assert texts[-1] == "What is it?"
        count = len(claude.requests)
        warm = ask("Be quick.", generate=False).response
        assert (warm.output, len(claude.requests)) == ([], count)
        ask("Go.", previous_response_id=warm.id)
        texts = [part.text for turn in claude.requests[-1].messages for part in turn.parts if isinstance(part, Text)]
        assert texts == ["Be quick.", "Go."]
        lost = ask("What is it?", previous_response_id="resp_unknown")
        assert (lost.status, lost.error.code) == (400, "previous_response_not_found")
    # Another connection has no memory of it, and nothing was stored.
    with client.responses.connect() as connection:
        lost = ask("What is it?", previous_response_id=first.id)
        assert lost.error.code == "previous_response_not_found"


def test_the_first_message_says_what_headers_say(gateway: Gateway, claude: ClaudeSimulator) -> None:
    with connect(address(gateway)) as socket:
        socket.send(
            json.dumps(
                {
                    "type": "response.create",
                    "model": claude.spec,
                    "input": "hi",
                    "top_logprobs": 1,
                    "include": ["message.output_text.logprobs"],
                }
            )
        )
        first, second = json.loads(socket.recv()), json.loads(socket.recv())
    assert first["headers"]["x-dragoman-target"] == claude.spec
    assert "logprobs" in first["headers"]["x-dragoman-notice"]
    assert "headers" not in second


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/chat/completions", 426), ("/v1/responses/compact", 426), ("/health", 426), ("/no", 404)]
)
def test_other_paths_have_no_websocket(gateway: Gateway, path: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(address(gateway, path)):
        pass
    assert refused.value.response.status_code == status


def test_a_page_of_another_site_is_refused(gateway: Gateway) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(address(gateway), origin=Origin("https://evil.example")):
        pass
    assert refused.value.response.status_code == 403


def test_a_client_that_hangs_up_cancels_its_call(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(StallAfter(SHOWN, WORDS))
    with connect(address(gateway)) as socket:
        socket.send(json.dumps({"type": "response.create", "model": "up/m", "input": "hi"}))
        while "three" not in str(socket.recv(timeout=PATIENCE)):
            pass
    assert upstream.client_disconnected.acquire(timeout=PATIENCE)


def test_a_call_that_breaks_is_an_error_with_a_status(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(CloseAfter(SHOWN, WORDS))
    with connect(address(gateway)) as socket:
        socket.send(json.dumps({"type": "response.create", "model": "up/m", "input": "hi"}))
        event: Any = {"type": ""}
        while event["type"] != "error":
            event = json.loads(socket.recv(timeout=PATIENCE))
        assert event["status"] >= 500
        EVENT.validate_json(json.dumps(event), strict=True)


def test_messages_that_are_wrong_are_errors_with_a_status(gateway: Gateway) -> None:
    with connect(address(gateway)) as socket:
        socket.send(json.dumps({"type": "response.create", "model": "up/m", "input": 7}))
        error = json.loads(socket.recv(timeout=PATIENCE))
        assert (error["type"], error["status"]) == ("error", 400)
        socket.send(b"\xff{")
        assert json.loads(socket.recv(timeout=PATIENCE))["status"] == 400
        socket.send("[" * 100_000)
        assert json.loads(socket.recv(timeout=PATIENCE))["status"] == 400


def test_a_key_is_checked_before_the_connection_opens_and_limits_hold(tmp_path: Path) -> None:
    key, hash = new_key()
    config = f'[gateway]\nproviders = ["demo"]\n[keys.alice]\nhash = "{hash}"\nrequests_per_minute = 1\n'
    with Gateway(tmp_path, config) as gateway:
        for headers in ({}, {"authorization": "Bearer sk-wrong"}):
            with pytest.raises(InvalidStatus) as refused, connect(address(gateway), additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        with connect(address(gateway), additional_headers={"authorization": f"Bearer {key}"}) as socket:
            event: Any = {}
            for status in (None, 429):
                socket.send(json.dumps({"type": "response.create", "model": "demo/any", "input": "hello"}))
                event = {"type": ""}
                while event["type"] not in ("error", "response.completed"):
                    event = json.loads(socket.recv(timeout=PATIENCE))
                assert event.get("status") == status
            assert "retry-after" in event["headers"]
    log = gateway.log.read_text()
    assert log.count('"outcome":"served"') == 1
    assert key not in log


def test_a_gateway_that_stops_closes_an_idle_websocket_at_once(tmp_path: Path) -> None:
    with Gateway(tmp_path, "[gateway]\ngrace = 30\n") as gateway:
        socket = connect(address(gateway)).__enter__()
    # The block has ended, so the process has stopped.
    with pytest.raises(ConnectionClosed):
        socket.recv(timeout=PATIENCE)


class EndlessServer(ThreadingHTTPServer):
    """A provider that writes until its client is gone."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Endless)
        self.is_left = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Endless(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        choice = {"index": 0, "delta": {"content": "x" * 1000}, "finish_reason": None}
        with suppress(OSError):
            while True:
                self.wfile.write(b"data: %b\n\n" % json.dumps({"id": "1", "choices": [choice]}).encode())
        cast("EndlessServer", self.server).is_left.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_client_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    with EndlessServer() as upstream:
        config = record("up", f"http://127.0.0.1:{upstream.server_port}/v1")
        with Gateway(tmp_path, f"[gateway]\nwrite_timeout = 0.5\n{config}") as gateway:
            socket = connect(address(gateway), max_queue=1, ping_interval=None, close_timeout=0).__enter__()
            socket.send(json.dumps({"type": "response.create", "model": "up/m", "input": "hi"}))
            assert upstream.is_left.wait(PATIENCE)
            socket.close()
    assert '"outcome":"client_disconnected"' in gateway.log.read_text()


# By ASGI --------------------------------------------------------------------------------------------------------------


async def with_uvicorn(app: App, use: Callable[[str], Awaitable[None]]) -> None:
    server = uvicorn.Server(uvicorn.Config(Asgi(app), port=0, log_level="error", ws="websockets-sansio"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event of its own
        await asyncio.sleep(0)
    try:
        await use(f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    finally:
        server.should_exit = True
        await task


def test_it_works_under_uvicorn() -> None:
    async def use(url: str) -> None:
        async with connect_async(f"{url}{PATH}") as socket:
            for data in ('{"type":"response.create","model":"demo/any","input":"hello"}', b"{}"):
                await socket.send(data)
            kinds: list[str] = []
            while "error" not in kinds:
                kinds.append(json.loads(await socket.recv())["type"])
        assert kinds[-2:] == ["response.completed", "error"]
        with pytest.raises(InvalidStatus) as refused:
            async with connect_async(f"{url}/v1/messages"):
                pass
        assert refused.value.response.status_code == 426
        assert "does not support WebSocket" in refused.value.response.body.decode()

    asyncio.run(with_uvicorn(app_of(), use))


def test_a_server_that_stops_ends_a_websocket_under_uvicorn() -> None:
    async def use(url: str) -> None:
        async with connect_async(f"{url}{PATH}") as socket:
            app.drain()
            with pytest.raises(ConnectionClosed):
                await socket.recv()

    app = app_of()
    asyncio.run(with_uvicorn(app, use))


def test_an_asgi_server_without_responses_closes_the_connection() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope: dict[str, Any] = {"type": "websocket", "path": "/v1/messages", "headers": []}
    asyncio.run(Asgi(app_of())(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


# Without a network ----------------------------------------------------------------------------------------------------


class Wire:
    """The two ends of a connection in memory."""

    def __init__(self) -> None:
        self.to_gateway: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.to_client: asyncio.Queue[Any] = asyncio.Queue()
        self.can_send = asyncio.Event()
        self.can_send.set()
        self.failure: Exception | None = None

    async def receive(self) -> bytes | None:
        return await self.to_gateway.get()

    async def send(self, message: bytes) -> None:
        await asyncio.sleep(0)  # others may write, too
        if json.loads(message)["type"] != "error":
            await self.can_send.wait()
        if self.failure is not None:
            raise self.failure
        self.to_client.put_nowait(json.loads(message))

    def ask(self, text: str = "hello", **more: Any) -> None:
        message = {"type": "response.create", "model": "demo/any", "input": text, **more}
        self.to_gateway.put_nowait(json.dumps(message).encode())

    async def next(self, *kinds: str) -> Any:
        while (event := await asyncio.wait_for(self.to_client.get(), PATIENCE))["type"] not in kinds:
            pass
        return event


class Clock:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def with_session(
    use: Callable[[Wire, "asyncio.Task[None]"], Awaitable[None]], app: App | None = None, clock: Clock | None = None
) -> None:
    async def run() -> None:
        served, wire = app or app_of(), Wire()
        http = HttpRequest(method="GET", path=PATH, headers={"upgrade": "websocket", "host": "localhost"})
        hooks: Any = await served.open_socket(http)
        session = SocketSession(served, http, _as_hooks(hooks), wire, clock=clock or Clock())
        task = asyncio.create_task(session.run())
        try:
            await use(wire, task)
        finally:
            wire.to_gateway.put_nowait(None)
            await asyncio.wait_for(task, PATIENCE)
        assert served.sockets == set()

    asyncio.run(run())


def _as_hooks(hooks: Any) -> WireSocket:
    assert hasattr(hooks, "decode"), hooks
    return hooks  # type: ignore[no-any-return] # checked by its method


def test_lanes_run_side_by_side_and_each_in_order() -> None:
    async def use(wire: Wire, _task: "asyncio.Task[None]") -> None:
        wire.can_send.clear()
        for lane in ("a", "b", "a"):
            wire.ask(f"Say {lane}.", stream_id=lane)
        for _ in range(50):
            await asyncio.sleep(0)
        wire.can_send.set()
        ends = [await wire.next("response.created", "response.completed") for _ in range(6)]
        order = [(event["stream_id"], event["type"].removeprefix("response.")) for event in ends]
        assert [event for event in order if event[0] == "a"] == [("a", "created"), ("a", "completed")] * 2
        assert {order[0], order[1]} == {("a", "created"), ("b", "created")}

    with_session(use)


def test_too_many_requests_at_a_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_LANES", 2)
    monkeypatch.setattr(websocket, "MAX_WAITING", 1)

    async def use(wire: Wire, _task: "asyncio.Task[None]") -> None:
        wire.can_send.clear()
        for lane in ("a", "b", "c", "a", "a"):
            wire.ask(stream_id=lane)
        for _ in range(200):
            await asyncio.sleep(0)
        wire.can_send.set()
        refused = [await wire.next("error") for _ in range(2)]
        assert [(error["stream_id"], error["status"]) for error in refused] == [("c", 503), ("a", 503)]

    with_session(use)


def test_a_message_that_is_too_large_is_refused() -> None:
    async def use(wire: Wire, _task: "asyncio.Task[None]") -> None:
        wire.ask("x" * 2000)
        assert (await wire.next("error"))["status"] == 413
        wire.ask()
        await wire.next("response.completed")

    with_session(use, app_of("[gateway]\nmax_body = 1000\n"))


def test_a_conversation_that_is_too_large_for_the_connection_starts_again() -> None:
    async def use(wire: Wire, _task: "asyncio.Task[None]") -> None:
        wire.ask("x" * 500, store=False)
        first = (await wire.next("response.completed"))["response"]["id"]
        wire.ask("x" * 700, store=False, previous_response_id=first)
        second = (await wire.next("response.completed"))["response"]["id"]
        wire.ask("y", store=False, previous_response_id=second)
        assert (await wire.next("error"))["error"]["code"] == "previous_response_not_found"

    with_session(use, app_of("[gateway]\nmax_body = 1000\n"))


def test_an_old_connection_takes_no_more_requests() -> None:
    clock = Clock()

    async def use(wire: Wire, task: "asyncio.Task[None]") -> None:
        wire.ask()
        await wire.next("response.completed")
        clock.now = websocket.MAX_AGE + 1
        wire.ask()
        assert (await wire.next("error"))["error"]["code"] == "websocket_connection_limit_reached"
        await asyncio.wait_for(task, PATIENCE)

    with_session(use, clock=clock)


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_IDLE", 0.01)

    async def use(_wire: Wire, task: "asyncio.Task[None]") -> None:
        await asyncio.wait_for(task, PATIENCE)

    with_session(use)


@pytest.mark.parametrize("failure", [ConnectionResetError(), TimeoutError()])
def test_a_client_that_cannot_be_written_to_ends_the_session(failure: Exception) -> None:
    async def use(wire: Wire, task: "asyncio.Task[None]") -> None:
        wire.failure = failure
        wire.ask()
        await asyncio.wait_for(task, PATIENCE)

    with_session(use)


def test_a_gateway_that_stops_answers_what_runs_and_takes_no_new_connection() -> None:
    app = app_of()

    async def use(wire: Wire, task: "asyncio.Task[None]") -> None:
        wire.can_send.clear()
        wire.ask()
        for _ in range(50):
            await asyncio.sleep(0)
        app.drain()
        assert not task.done()
        wire.can_send.set()
        await wire.next("response.completed")
        await asyncio.wait_for(task, PATIENCE)
        refused: Any = await app.open_socket(HttpRequest(method="GET", path=PATH, headers={}))
        assert refused.status == 503

    with_session(use, app)


def test_a_worker_has_as_many_connections_as_requests() -> None:
    app = app_of("[gateway]\nmax_requests = 1\n")

    async def use(_wire: Wire, _task: "asyncio.Task[None]") -> None:
        await asyncio.sleep(0)
        refused: Any = await app.open_socket(HttpRequest(method="GET", path=PATH, headers={}))
        assert refused.status == 503

    with_session(use, app)
