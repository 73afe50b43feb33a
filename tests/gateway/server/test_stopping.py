"""SIGTERM finishes what runs, and SIGHUP or a changed file changes what comes next: nothing is dropped."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.store import open_store
from dragoman.gateway.store.base import UsageRow
from dragoman.testing import FaultyServer, RawResponse, StallAfter
from tests.support.gateway.live import PATIENCE, ColdGateway, Gateway, chat, record
from tests.support.gateway.usage import stored_rows

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
}


class Slow(FaultyServer):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(
            RawResponse(headers={"content-type": "application/json"}, body=json.dumps(ANSWER).encode()), repeat=True
        )
        self.may_go = threading.Event()

    def _answer(self, connection: object, http: object) -> bool:
        self.request_received.release()
        self.may_go.wait(PATIENCE)
        return super()._answer(connection, http)  # type: ignore[arg-type] # as they came


@pytest.mark.parametrize("is_for_all", [False, pytest.param(True, id="sent to all processes, as systemd may")])
def test_sigterm_finishes_what_runs(tmp_path: Path, is_for_all: bool) -> None:  # noqa: FBT001
    with Slow() as upstream, Gateway(tmp_path, record("up", upstream.base_url())) as gateway:
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(gateway.post, "/v1/chat/completions", chat("up/m")) for _ in range(8)]
            for _ in answers:
                assert upstream.request_received.acquire(timeout=PATIENCE)
            for process in gateway.processes()[::-1] if is_for_all else [gateway.process.pid]:
                os.kill(process, signal.SIGTERM)
            gateway.wait_until(lambda: is_refused(gateway))
            upstream.may_go.set()
            assert [answer.result()[0] for answer in answers] == [200] * 8
        assert gateway.process.wait(PATIENCE) == 0


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_new_connections_are_refused_while_several_workers_finish(tmp_path: Path) -> None:
    with Slow() as upstream, Gateway(tmp_path, record("up", upstream.base_url()), workers=2) as gateway:
        with ThreadPoolExecutor(16) as pool:
            gateway.wait_until(lambda: listeners_of(gateway) == 2)
            answers = [pool.submit(gateway.post, "/v1/chat/completions", chat("up/m")) for _ in range(16)]
            for _ in answers:
                assert upstream.request_received.acquire(timeout=PATIENCE)
            gateway.process.send_signal(signal.SIGTERM)
            try:
                gateway.wait_until(lambda: all(is_closed(gateway) for _ in range(20)))
            finally:
                upstream.may_go.set()
            assert [answer.result()[0] for answer in answers] == [200] * 16
        assert gateway.process.wait(PATIENCE) == 0


def listeners_of(gateway: Gateway) -> int:
    """How many sockets listen at its port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
    return sum(row[1] == f"0100007F:{gateway.port:04X}" and row[3] == "0A" for row in rows)


def is_closed(gateway: Gateway) -> bool:
    """Whether nobody listens."""
    try:
        socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_gateway_that_drains_answers_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    with Gateway(tmp_path, "[gateway]\ndrain = 60\n") as gateway:
        assert gateway.get("/health/ready")[0] == 200
        gateway.process.send_signal(signal.SIGTERM)
        gateway.wait_until(lambda: gateway.get("/health/ready")[0] == 503)
        assert gateway.post("/v1/chat/completions", chat("demo/any"))[0] == 200
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE) == 0


def test_a_gateway_that_has_drained_stops(tmp_path: Path) -> None:
    with Gateway(tmp_path, "[gateway]\ndrain = 0.1\n") as gateway:
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE) == 0


def test_workers_that_share_nothing_are_warned_of(tmp_path: Path) -> None:
    with Gateway(tmp_path, workers=2) as gateway:
        assert "2 workers do not share conversations" in gateway.log.read_text()


def test_what_takes_long_to_load_waits_until_it_is_asked_for() -> None:
    """The parent loads hardly anything; a worker loads nothing that only some requests need."""
    parent = (
        "dragoman.cli, dragoman.cli.commands.serve, dragoman.gateway.server.run, dragoman.gateway.server.supervisor"
    )
    worker = "dragoman.gateway.server.worker, dragoman.gateway.app"
    not_in_worker = ["genai_prices", "redis", "sqlite3", "opentelemetry", "PIL", "mcp", "httpx", "jsonschema_rs"]
    not_in_worker += ["importlib.metadata", "html", "statistics", "dragoman.agents"]
    not_in_parent = [*not_in_worker, "msgspec", "asyncio", "ssl", "hashlib", "dragoman.types", "dragoman.registry"]
    start = "app.App(runtime.Runtime(runtime.decode_config('', {}), {}))"
    script = f"""import sys, {parent}
print([name for name in {not_in_parent} if name in sys.modules])
import {worker}
from dragoman.gateway import app, runtime
{start}
print([name for name in {not_in_worker} if name in sys.modules])"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert output.split(b"\n") == [b"[]", b"[]", b""]


def test_sigterm_waits_no_longer_than_its_grace(tmp_path: Path) -> None:
    config = "[gateway]\ngrace = 1\n"
    with Slow() as upstream, Gateway(tmp_path, config + record("up", upstream.base_url())) as gateway:
        with gateway.send(chat("up/m")):
            assert upstream.request_received.acquire(timeout=PATIENCE)
            gateway.process.send_signal(signal.SIGTERM)
            gateway.process.wait(PATIENCE)
        upstream.may_go.set()


def test_sigterm_is_heard_by_workers_that_only_start(tmp_path: Path) -> None:
    """The first of them answers before the last can hear a signal."""
    with ColdGateway(tmp_path, workers=4) as gateway:
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE) == 0


def test_sighup_reloads_and_drops_nothing(tmp_path: Path) -> None:
    with Slow() as upstream, Gateway(tmp_path, record("up", upstream.base_url())) as gateway:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(gateway.post, "/v1/chat/completions", chat("up/m"))
            assert upstream.request_received.acquire(timeout=PATIENCE)
            gateway.path.write_text('[aliases]\nfresh = "demo/any"\n')
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_until(lambda: gateway.post("/v1/chat/completions", chat("fresh"))[0] == 200)
            upstream.may_go.set()
            assert answer.result()[0] == 200
        assert gateway.post("/v1/chat/completions", chat("up/m"))[0] == 404


def test_a_changed_file_is_taken_without_a_signal(tmp_path: Path) -> None:
    with Gateway(tmp_path, workers=2) as gateway:
        gateway.path.write_text('[aliases]\nfresh = "demo/any"\n')
        gateway.wait_until(lambda: gateway.post("/v1/chat/completions", chat("fresh"))[0] == 200)


def test_a_bad_config_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    with Gateway(tmp_path, '[aliases]\nold = "demo/any"\n') as gateway:
        gateway.path.write_text('[aliases]\nnew = "demo/any"\n[gateway]\nprot = 1\n[chain]\nretries = "many"\n')
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_until(lambda: "retries" in gateway.log.read_text())
        assert "gateway: unknown setting 'prot'; did you mean 'port'?" in gateway.log.read_text()
        assert gateway.post("/v1/chat/completions", chat("old"))[0] == 200
        assert gateway.post("/v1/chat/completions", chat("new"))[0] == 404


def test_a_bad_config_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[gateway]\nport = true\nhots = 1\n")
    run = subprocess.run(
        [sys.executable, "-m", "dragoman.gateway", str(path)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 2
    assert b"gateway.port" in run.stderr
    assert b"gateway: unknown setting 'hots'" in run.stderr


def test_without_keys_only_this_machine_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text('[gateway]\nhost = "0.0.0.0"\n')
    run = subprocess.run(
        [sys.executable, "-m", "dragoman.gateway", str(path)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 2
    assert b"there are no keys" in run.stderr


def is_refused(gateway: Gateway) -> bool:
    try:
        gateway.get("/health/live")
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("is_busy", [False, True])
def test_workers_end_with_their_parent(tmp_path: Path, is_busy: bool) -> None:  # noqa: FBT001
    with Slow() as upstream:
        gateway = Gateway(tmp_path, "[gateway]\ngrace = 1\n" + record("up", upstream.base_url()), workers=2)
        with gateway:
            gateway.wait_until(lambda: len(workers_of(gateway)) == 2)
            workers = workers_of(gateway)
            connection = gateway.send(chat("up/m")) if is_busy else None
            if is_busy:
                assert upstream.request_received.acquire(timeout=PATIENCE)
            gateway.process.kill()
            gateway.process.wait(PATIENCE)
            wait_for_end(workers)
            if connection is not None:
                connection.close()
        upstream.may_go.set()


def workers_of(gateway: Gateway) -> list[str]:
    id = gateway.process.pid
    children = Path(f"/proc/{id}/task/{id}/children")
    return children.read_text(encoding="ascii").split() if children.exists() else []


def wait_for_end(processes: list[str]) -> None:
    end = time.monotonic() + 10
    while any(is_alive(process) for process in processes):
        assert time.monotonic() < end, processes
        time.sleep(0.05)


def is_alive(process: str) -> bool:
    """Not a zombie: nobody may collect it in a container."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


STOPS: dict[str, list[signal.Signals]] = {
    "SIGTERM": [signal.SIGTERM],
    "Ctrl-C": [signal.SIGINT],
    "SIGTERM twice": [signal.SIGTERM, signal.SIGTERM],
    "SIGTERM, Ctrl-C": [signal.SIGTERM, signal.SIGINT],
    "kill -9": [signal.SIGKILL],
}


@pytest.mark.parametrize("signals", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_runs_after_the_grace_gets_an_error_and_its_row(
    tmp_path: Path,
    stream: bool,  # noqa: FBT001
    signals: list[signal.Signals],
) -> None:
    line = StallAfter(450, "one two three four") if stream else StallAfter(0)
    store = tmp_path / "store.db"
    with FaultyServer(line, repeat=True) as upstream:
        drain = 60 * (len(signals) - 1)  # only the second signal can end it in time
        config = f'[gateway]\ngrace = 1\ndrain = {drain}\nstore = "sqlite:{store}"\n'
        config += record("up", upstream.base_url())
        with Gateway(tmp_path, config) as gateway, gateway.send(chat("up/m", stream=stream)) as connection:
            if stream:
                while b"one" not in connection.recv(65536):
                    continue
            else:
                assert upstream.request_received.acquire(timeout=PATIENCE)
            workers = workers_of(gateway)
            for number in signals[:-1]:
                gateway.process.send_signal(number)
                gateway.wait_until(lambda: gateway.get("/health/ready")[0] == 503)
            gateway.process.send_signal(signals[-1])
            connection.settimeout(PATIENCE)
            seen = b"".join(iter(lambda: connection.recv(65536), b""))
            assert gateway.process.wait(PATIENCE) == (-9 if signal.SIGKILL in signals else 0)
            wait_for_end(workers)
    assert b"the gateway stopped before the request was finished" in seen
    assert b" 503 " in seen or stream
    assert b'"failed"' in gateway.log.read_bytes()
    (row,) = asyncio.run(rows_of(f"sqlite:{store}"))
    assert (row.outcome, row.status) == ("failed", 503)


class Early(ColdGateway):
    """Gets SIGTERM when its first worker has started, which is before that is ready."""

    def wait_until(self, is_so: Any) -> None:
        super().wait_until(lambda: len(self.processes()) == 2)
        self.process.send_signal(signal.SIGTERM)


def test_a_signal_before_the_worker_is_ready_waits_for_its_settings(tmp_path: Path) -> None:
    with Early(tmp_path, "[gateway]\ngrace = 1\ndrain = 2\n") as gateway:
        sent = time.monotonic()
        assert gateway.process.wait(PATIENCE) == 0
        assert time.monotonic() - sent > 2


def test_a_signal_does_not_wait_for_a_worker_that_hangs_at_its_start() -> None:
    script = """import time
from dragoman.gateway.server import supervisor
supervisor.MAX_START = supervisor.KILL_DELAY = 0.1
def hang(inherited):
    print("started", flush=True)
    time.sleep(60)
supervisor.supervise(hang)"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"started\n"
            parent.send_signal(signal.SIGTERM)
            _, log = parent.communicate(timeout=PATIENCE)
        finally:
            parent.kill()
    assert b"the worker ended before it was ready (signal 9)" in log


async def rows_of(url: str) -> tuple[UsageRow, ...]:
    store = open_store(url)
    rows = await stored_rows(store, 10)
    await store.aclose()
    return rows


def test_connections_that_wait_are_closed_politely(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        connection = gateway.connect()
        connection.request("GET", "/health/live")
        connection.getresponse().read()
        gateway.process.send_signal(signal.SIGTERM)
        assert connection.sock.recv(100) == b""  # an end, not a reset
        connection.close()
        assert gateway.process.wait(PATIENCE) == 0
