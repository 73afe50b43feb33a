"""`--reload`: a change of the code or the config replaces the workers."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.gateway.config import GatewaySettings
from dragoman.gateway.server.source_watch import stamps
from dragoman.gateway.server.worker import listen
from tests.gateway.server.test_stopping import Slow
from tests.support.gateway.live import PATIENCE, ColdGateway, Gateway, chat, free_port, record


def test_python_files_and_the_config_are_watched(tmp_path: Path) -> None:
    names = ("a.py", "b/c.py", "a.txt", ".hidden/a.py", "__pycache__/a.py", "dragoman.toml")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = stamps(tmp_path, tmp_path / "dragoman.toml")
    assert found.keys() == {str(tmp_path / name) for name in ("a.py", "b/c.py", "dragoman.toml")}
    assert stamps(tmp_path, tmp_path / "gone.toml").keys() == {str(tmp_path / name) for name in ("a.py", "b/c.py")}
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert stamps(tmp_path, None)[str(tmp_path / "a.py")] == 1


def test_a_config_that_is_wrong_is_named_and_the_old_workers_stay(tmp_path: Path) -> None:
    with Gateway(tmp_path, options=("--reload",)) as gateway:
        config, before = gateway.path, gateway.processes()
        good = config.read_text()
        config.write_text(f"{good}\n[hooks.h]\nuse = 'nothing'\n")
        gateway.wait_until(lambda: "hooks.h: unknown hook 'nothing'" in gateway.log.read_text())
        gateway.wait_until(lambda: "the workers stay" in gateway.log.read_text())
        assert gateway.processes() == before
        assert gateway.get("/health/live")[0] == 200
        config.write_text(good)
        gateway.wait_until(lambda: before[1] not in gateway.processes())
        assert gateway.get("/health/live")[0] == 200


def test_a_new_worker_answers_while_the_old_one_finishes(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("")
    with (
        Slow() as upstream,
        Gateway(tmp_path, record("up", upstream.base_url()), options=("--reload",)) as gateway,
    ):
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(gateway.post, "/v1/chat/completions", chat("up/m"))
            assert upstream.request_received.acquire(timeout=PATIENCE)
            old = gateway.processes()[1]
            os.utime(hook, ns=(1, 1))
            gateway.wait_until(lambda: len(gateway.processes()) == 3)
            gateway.wait_until(lambda: gateway.get("/health/live")[0] == 200)
            assert old in gateway.processes()
            upstream.may_go.set()
            assert answer.result()[0] == 200
        gateway.wait_until(lambda: old not in gateway.processes())
        assert len(gateway.processes()) == 2


def test_a_changed_file_replaces_the_workers(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("")
    with ColdGateway(tmp_path, options=("--reload",)) as gateway:
        parent, worker = gateway.processes()
        os.utime(hook, ns=(1, 1))
        gateway.wait_until(lambda: worker not in gateway.processes())
        gateway.wait_until(lambda: gateway.get("/health/live")[0] == 200)
        assert gateway.processes()[0] == parent
        assert gateway.process.poll() is None


PAUSE = 0.01
"""Seconds between the requests of a client: there is always one under way, and the workers can start."""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_replacement_under_load_drops_nothing(tmp_path: Path, workers: int) -> None:
    """Clients keep their connections or make new ones; each sees an answer for each request."""
    is_over, seen = threading.Event(), Counter[str]()

    def client(number: int) -> None:
        connection = gateway.connect()
        body = json.dumps(chat("demo/any", stream=number % 2 == 0))
        while not is_over.wait(PAUSE):
            if number % 4 == 3:
                connection.close()
            try:
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                seen[str(answer.status)] += 1
            except (OSError, http.client.HTTPException) as error:
                seen[type(error).__name__] += 1
                connection.close()
        connection.close()

    store = f'[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n'
    with Gateway(tmp_path, store, workers=workers) as gateway, ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client, number) for number in range(8)]
        try:
            for _ in range(2):
                gateway.wait_until(lambda: len(gateway.processes()) == 1 + workers)
                replace_workers(gateway)
        finally:
            is_over.set()
        for each in clients:
            each.result()
    assert seen.keys() == {"200"}


def replace_workers(gateway: Gateway) -> None:
    before = set(gateway.processes())
    gateway.process.send_signal(signal.SIGUSR1)
    gateway.wait_until(lambda: len(before & set(gateway.processes())) == 1)


REPLACED_EARLY = """
import os, signal, socket, threading
from dragoman.gateway.server.listener import bind
from dragoman.gateway.server.supervisor import WorkerSettings, report_ready, supervise

forks = []
lock = threading.Lock()

def replace():
    forks.append(1)
    if len(forks) == 2:
        os.kill(os.getpid(), signal.SIGUSR1)

def run(inherited):
    listener = inherited.listener or bind(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    is_blocking = os.get_blocking(listener.fileno())
    listener.setblocking(False)
    report_ready(inherited.parent, WorkerSettings(2, 0.0, 1.0), None if inherited.listener else listener)
    os.write(1, f"ready {os.getpid()} {is_blocking}\\n".encode())
    os.write(1, f"{inherited.parent.recv(1)} {os.getpid()}\\n".encode())

os.register_at_fork(after_in_parent=replace)
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
supervise(run)
"""
"""A gateway of two workers that is to replace them while it forks the second one, and while it holds a lock for that, as
many modules do."""


def test_a_worker_that_is_just_forked_is_replaced_too_and_listens_as_before() -> None:
    ready, stopped = dict[str, str](), list[str]()
    with subprocess.Popen([sys.executable, "-c", REPLACED_EARLY], stdout=subprocess.PIPE, text=True) as parent:
        late = threading.Timer(PATIENCE, parent.kill)
        late.start()
        try:
            assert parent.stdout is not None
            while len(ready) < 4 or len(stopped) < 2:
                word, process, *is_blocking = parent.stdout.readline().split() or pytest.fail("it waits for ever")
                if word == "ready":
                    ready[process] = is_blocking[0]
                else:
                    stopped.append(process)
            parent.send_signal(signal.SIGTERM)
            assert parent.wait(PATIENCE) == 0
        finally:
            late.cancel()
            parent.kill()
    before, after = sorted(stopped), sorted(ready.keys() - set(stopped))
    assert (len(before), len(after)) == (2, 2)
    # The old worker and the new one have the flags of a listener in common: `accept` of the old one must not block.
    assert [ready[each] for each in after] == ["False", "False"]


def test_what_waits_for_a_worker_that_dies_is_answered_by_its_successor(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        (_, worker) = gateway.processes()
        os.kill(worker, signal.SIGSTOP)
        connections = [gateway.send(chat("demo/any")) for _ in range(10)]
        os.kill(worker, signal.SIGKILL)
        for connection in connections:
            with connection:
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_worker_takes_the_listener_of_its_parent_if_it_has_the_address_of_the_config() -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        port = given.getsockname()[1]
        for wanted in (port, 0):
            assert listen(GatewaySettings(port=wanted), given, is_first=False) is given
        for other in (GatewaySettings(port=port, host="127.0.0.2"), GatewaySettings(port=free_port())):
            with listen(other, given, is_first=False) as own:
                assert own is not given
                assert own.getsockname() == (other.host, other.port)
