"""Starts `python -m dragoman ...` as a fork of a process that has already imported dragoman.

The interpreter and the imports take 0.2 s of CPU, and the tests start hundreds of processes. What runs is still a process
of its own: it has its own files, environment, folder and signals, it runs the module as `__main__`, and the interpreter ends
it as usual. What is not tested this way is the start itself; `tests/cli/test_page.py` runs each command of the docs in a real
interpreter. So does a process whose environment changes the interpreter (`PYTHON...`).
"""

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.paths import ROOT

PRELOADED = (
    "dragoman.cli",
    "dragoman.cli.commands",
    "dragoman.engine",
    "dragoman.gateway",
    "dragoman.gateway.server",
    "dragoman.io",
)
"""Packages whose modules are imported before the first fork, with all that they import."""
_SIZE = 4
_MAX_JOB = 1 << 20


class Forked:
    """A process that the fork server started; it has the methods of `subprocess.Popen` that the tests use."""

    def __init__(
        self, module: str, words: list[str], *, env: dict[str, str], cwd: Path, files: tuple[int, int, int]
    ) -> None:
        self.args = [module, *words]
        self.returncode: int | None = None
        status, theirs = socket.socketpair()
        with theirs:
            _server().start({"module": module, "words": words, "env": env, "cwd": str(cwd)}, (*files, theirs.fileno()))
        self._status = status
        self.pid = int.from_bytes(self._read(), "big")

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int.from_bytes(self._read(), "big", signed=True)
            self._status.close()
        return self.returncode

    def _read(self) -> bytes:
        """The next number of the fork server: the process id, then the exit code."""
        data = self._status.recv(_SIZE)
        if len(data) < _SIZE:
            raise RuntimeError("the fork server has died")
        return data

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def can_fork(env: dict[str, str]) -> bool:
    """Whether a process with this environment may be a fork: nothing in it is for the start of the interpreter."""
    changes = any(name.startswith(("PYTHON", "LANG", "LC_")) for name in env.keys() - {"PYTHONPATH"})
    return hasattr(os, "pidfd_open") and not changes and env.get("PYTHONPATH", _SOURCE) == _SOURCE


def run(
    module: str, words: list[str], *, env: dict[str, str], data: bytes | None, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run it to its end with `data` piped in, or nothing at all; returns the exit code and what it wrote."""
    pipes = [os.pipe() for _ in range(3)]
    (stdin, feed), (out, stdout), (err, stderr) = pipes
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        process = Forked(
            module, words, env=env, cwd=Path.cwd(), files=(nothing if data is None else stdin, stdout, stderr)
        )
    finally:
        for file in (stdin, stdout, stderr, nothing):
            os.close(file)
    outputs = {out: b"", err: b""}

    def read(file: int) -> None:
        with os.fdopen(file, "rb") as pipe:
            outputs[file] = pipe.read()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(feed, "wb") as pipe:
            pipe.write(data or b"")

    threads = [threading.Thread(target=read, args=(out,)), threading.Thread(target=read, args=(err,))]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    try:
        code = process.wait(timeout)
    finally:
        process.kill()
        process.wait()
        for thread in threads:
            thread.join()
    return code, outputs[out], outputs[err]


# The two ends of the server ---------------------------------------------------------------------------------------------

_SOURCE = str(ROOT / "src")


class _Server:
    """The process that forks, as the tests see it; it ends with the tests."""

    def __init__(self) -> None:
        self._jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": _SOURCE},
                pass_fds=[theirs.fileno()],
            )
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def start(self, job: dict[str, Any], files: tuple[int, ...]) -> None:
        with self._lock:
            socket.send_fds(self._jobs, [json.dumps(job).encode()], list(files))

    def stop(self) -> None:
        self._jobs.close()
        self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


class _Job(NamedTuple):
    module: str
    words: list[str]
    env: dict[str, str]
    cwd: str


def _serve(jobs: socket.socket) -> _Job | None:
    """Fork for each job; the child returns with its job, the server with None when nobody has jobs any more."""
    children: dict[int, tuple[int, int]] = {}
    selector = selectors.DefaultSelector()
    selector.register(jobs, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not jobs:
                process, status = children.pop(key.fd)
                selector.unregister(key.fd)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                with suppress(OSError):  # nobody waits for it
                    os.write(status, code.to_bytes(_SIZE, "big", signed=True))
                os.close(status)
                continue
            data, files, _flags, _address = socket.recv_fds(jobs, _MAX_JOB, 4)
            if not data:
                return None
            *streams, status = files
            process = os.fork()
            if not process:
                for number, file in enumerate(streams):
                    os.dup2(file, number)
                selector.close()
                for file in (*files, *children, *(other for _, other in children.values()), jobs.detach()):
                    os.close(file)
                return _Job(**json.loads(data))
            with suppress(OSError):  # who asked for it is gone
                os.write(status, process.to_bytes(_SIZE, "big"))
            for file in streams:
                os.close(file)
            watch = os.pidfd_open(process)
            children[watch] = (process, status)
            selector.register(watch, selectors.EVENT_READ)


def _preload() -> None:
    for name in PRELOADED:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # the forks share these pages


def _open_standard_streams() -> None:
    """Open them as the interpreter does when it starts: it looks at the files that they have."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        first = getattr(sys, name)
        raw = os.fdopen(number, "wb" if number else "rb", closefd=False)
        lines = name == "stderr" or raw.isatty()
        stream = io.TextIOWrapper(raw, first.encoding, first.errors, newline="\n", line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _keep_modules() -> None:
    """Let the interpreter end without the modules: it would clear each, and for that copy the memory of the server.

    This is the last thing that runs before the interpreter writes out its streams. What is in the modules is not deleted.
    """
    kept = {name: module for name, module in sys.modules.items() if name not in ("sys", "builtins", "__main__")}
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    for name in kept:
        del sys.modules[name]


def main() -> None:
    """Serve; in a fork, run its module as the interpreter would do."""
    _preload()
    job = _serve(socket.socket(fileno=int(sys.argv[1])))
    if job is None:
        return
    os.environ.clear()
    os.environ.update(job.env)
    time.tzset()
    _open_standard_streams()
    os.chdir(job.cwd)
    sys.path[0] = job.cwd
    sys.argv = [job.module, *job.words]
    atexit.register(_keep_modules)
    runpy.run_module(job.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
