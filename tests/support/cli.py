"""Runs the real executable, and returns its output and exit code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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
    done = subprocess.run(
        [*COMMAND, *map(str, words)],
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        env=environment(**variables),
        check=False,
        timeout=120,
    )
    # A binary stream is not UTF-8; this keeps its bytes, so that it can be piped in again.
    return Done(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())
