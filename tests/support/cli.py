"""Runs the command line in a process of its own, and returns its output and exit code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.fork_server import can_fork, run
from tests.support.paths import ROOT

SOURCE = ROOT / "src"
COMMAND = (sys.executable, "-m", "dragoman")


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(**variables: str) -> dict[str, str]:
    """An environment without anybody's keys."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    return {**inherited, "PYTHONPATH": str(SOURCE), **variables}


def dragoman(*words: str | Path, stdin: str | bytes | None = None, **variables: str) -> Done:
    """Run it to its end; nothing is piped in where `stdin` is None."""
    data = stdin.encode(errors="surrogateescape") if isinstance(stdin, str) else stdin
    env = environment(**variables)
    if can_fork(env):
        code, out, err = run("dragoman", list(map(str, words)), env=env, data=data, timeout=120)
    else:
        code, out, err = _run([*COMMAND, *map(str, words)], env=env, data=data)
    # A binary stream is not UTF-8; this keeps its bytes, so that it can be piped in again.
    return Done(code, out.decode(errors="surrogateescape"), err.decode())


def _run(command: list[str], *, env: dict[str, str], data: bytes | None) -> tuple[int, bytes, bytes]:
    stdin = subprocess.DEVNULL if data is None else None
    done = subprocess.run(command, input=data, stdin=stdin, capture_output=True, env=env, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr
