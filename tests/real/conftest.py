"""A real server for the tests of this folder: one child process for a run (for a worker, where there are several)."""

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from dragoman import Registry
from tests.support.paths import ROOT

collect_ignore = ["serve.py", "tiny.py"]
"""They have no doctests, and import what need not be there."""
PATIENCE = 60.0
"""Seconds that it may take to start; it takes half of one."""


class Server(NamedTuple):
    """Where it listens, what its model is called, and the only key that it takes."""

    url: str
    name: str
    key: str

    @property
    def place(self) -> str:
        return self.url.removeprefix("http://")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("real")
    name, key = f"tiny-{secrets.token_hex(4)}", secrets.token_hex(8)
    command = [sys.executable, "-m", "tests.support.real.serve", str(folder), name, key]
    log = folder / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        try:
            told = _first_line(child, log)
            if "missing" in told:
                pytest.skip(f"no real server: {told['missing']}; pip install 'dragoman[real]'")
            found = Server(told["url"], name, key)
            assert _names(found) == [name], f"somebody else answers at {found.url}"
            yield found
        finally:
            _stop(child)


def _first_line(child: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    """What the child tells once it listens. It binds the port itself, so the port is its own."""
    assert child.stdout is not None
    alarm = threading.Timer(PATIENCE, child.kill)
    alarm.start()
    try:
        line = child.stdout.readline()
    finally:
        alarm.cancel()
    if not line:
        words = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        pytest.fail(f"the real server did not start within {PATIENCE} s:\n{words}")
    told: dict[str, str] = json.loads(line)
    return told


def _names(server: Server) -> list[str]:
    """The models of whoever answers there: ours has a name that nobody else knows."""
    answer = httpx.get(f"{server.url}/v1/models", headers={"authorization": f"Bearer {server.key}"}, trust_env=False)
    return [model["id"] for model in answer.raise_for_status().json()["data"]]


def _stop(child: subprocess.Popen[bytes]) -> None:
    """It ends when its input does; should it not, it is killed."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()


@pytest.fixture
def registry(server: Server) -> Iterator[Registry]:
    """Four ways to the same server, by three wires."""
    registry = Registry(
        env={
            "LLAMA_CPP_BASE_URL": f"{server.url}/v1",
            "LLAMA_CPP_API_KEY": server.key,
            "LLM_CHAT": f"openai+http://{server.key}@{server.place}/v1",
            "LLM_RESPONSES": f"openai-responses+http://{server.key}@{server.place}/v1",
            "LLM_MESSAGES": f"anthropic+http://{server.key}@{server.place}/v1",
        }
    )
    yield registry
    registry.close()
