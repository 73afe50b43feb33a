"""A real llama.cpp server for the tests of this folder: one child process per test worker."""

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
"""They have no doctests, and import optional packages."""
START_TIMEOUT = 60.0
"""Seconds. It usually takes half a second."""


class Server(NamedTuple):
    """Its URL, the name of its model, and its API key."""

    url: str
    name: str
    key: str

    @property
    def host(self) -> str:
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
            report = _first_line(child, log)
            if "missing" in report:
                pytest.skip(f"no real server: {report['missing']}; pip install 'dragoman[real]'")
            server = Server(report["url"], name, key)
            assert _model_names(server) == [name], f"another server answers at {server.url}"
            yield server
        finally:
            _stop(child)


def _first_line(child: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    """Read the report of the child. It picks the port itself, so no other process has it."""
    assert child.stdout is not None
    alarm = threading.Timer(START_TIMEOUT, child.kill)
    alarm.start()
    try:
        line = child.stdout.readline()
    finally:
        alarm.cancel()
    if not line:
        tail = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        pytest.fail(f"the real server did not start within {START_TIMEOUT} s:\n{tail}")
    report: dict[str, str] = json.loads(line)
    return report


def _model_names(server: Server) -> list[str]:
    answer = httpx.get(f"{server.url}/v1/models", headers={"authorization": f"Bearer {server.key}"}, trust_env=False)
    return [model["id"] for model in answer.raise_for_status().json()["data"]]


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Close stdin, which stops the server; kill it if it does not stop."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()


@pytest.fixture
def registry(server: Server) -> Iterator[Registry]:
    """Four providers for the same server, with three wires."""
    registry = Registry(
        env={
            "LLAMA_CPP_BASE_URL": f"{server.url}/v1",
            "LLAMA_CPP_API_KEY": server.key,
            "LLM_CHAT": f"openai+http://{server.key}@{server.host}/v1",
            "LLM_RESPONSES": f"openai-responses+http://{server.key}@{server.host}/v1",
            "LLM_MESSAGES": f"anthropic+http://{server.key}@{server.host}/v1",
        }
    )
    yield registry
    registry.close()
