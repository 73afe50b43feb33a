"""The fork server of the tests: if it dies, no process looks as if it had succeeded."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import fork_server
from tests.support.cli import environment
from tests.support.fork_server import Forked, can_fork

pytestmark = pytest.mark.skipif(not can_fork(environment()), reason="processes are not forked")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    own: Any = vars(fork_server)["_Server"]()
    monkeypatch.setattr(fork_server, "_server", lambda: own)
    yield own
    own.stop()


@pytest.fixture
def files() -> Iterator[tuple[int, int, int]]:
    """A standard input that never ends, and output to nowhere."""
    stdin, feed = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    yield stdin, nothing, nothing
    for file in (stdin, feed, nothing):
        os.close(file)


def start(files: tuple[int, int, int]) -> Any:
    return Forked("json.tool", [], env=environment(), cwd=Path.cwd(), files=files)


def test_a_process_whose_server_dies_has_no_exit_code(server: Any, files: tuple[int, int, int]) -> None:
    process = start(files)
    assert process.pid > 0
    server._process.kill()
    for wait in (process.wait, process.poll):
        with pytest.raises(RuntimeError, match="the fork server has died"):
            wait()
    process._status.close()
    os.kill(process.pid, 9)


def test_a_test_that_goes_away_does_not_end_the_server(server: Any, files: tuple[int, int, int]) -> None:
    gone, theirs = socket.socketpair()
    gone.close()
    with theirs:
        words: list[str] = []
        job = {"module": "this", "words": words, "env": environment(), "cwd": str(Path.cwd())}
        server.start(job, (*files, theirs.fileno()))
    process = start(files)
    process.kill()
    assert process.wait(10) == -9
