"""The parent of the workers: it starts them, replaces those that die, and passes signals on.

The parent stays small: it loads neither the config nor the app. The first worker reads the config and reports what the
parent needs to know. Parent and worker share a socket: the parent sends commands, and if it dies, the worker sees the
end of the socket. So no signal can be lost while a worker starts, and no worker outlives its parent.

Each worker has a listener of its own, and the kernel shares the connections out between them. The parent has each
listener, too, and gives that of a worker to its successor: so connections that wait in its queue are not lost.

SIGTERM first makes the workers report not ready for `drain` seconds, so that load balancers go elsewhere. Then they
stop: they finish what is in progress, and end what still runs after `grace` seconds with an error. SIGINT, a second
SIGTERM and the death of the parent skip `drain`. SIGHUP reloads the config in every worker. SIGUSR1 replaces the
workers one by one: a new one reads the code and the config again, and when it is ready, an old one stops.

Handlers of signals only note what to do and send commands. A handler may run in the middle of anything, even of a fork,
so what starts or forgets workers is done by the loop of `_wait`, which each signal wakes.
"""

import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from dragoman.errors import SetupError
from dragoman.gateway.server.listener import bind_beside

DRAIN, STOP, RELOAD = b"d", b"s", b"r"
"""Commands of the parent."""
KILL_DELAY = 3.0
"""Seconds after `grace` in which a worker may send error events and write usage rows. Then it is killed."""
MAX_START = 10.0
"""Seconds after SIGTERM until the first worker must be ready; only then is it known how long to drain."""
RESTART_DELAY = 1.0
"""Seconds before a worker is replaced that died before it was ready."""
MAX_REPORT = 65536
MAX_REASON = 10_000
"""Characters of an error; in JSON they fit into MAX_REPORT."""


class WorkerSettings(NamedTuple):
    """What the first worker reports: how many there are to be, and how they stop."""

    workers: int
    drain: float
    grace: float


class Inheritance(NamedTuple):
    """What a worker has from its parent."""

    parent: socket.socket | None = None
    """Where commands come from; None without a parent."""
    listener: socket.socket | None = None
    """A socket at the address that the last worker served; it may not listen yet."""
    is_first: bool = True


RunWorker: TypeAlias = Callable[[Inheritance], None]
"""Runs a worker until it is stopped."""


def report_ready(parent: socket.socket, settings: WorkerSettings, listener: socket.socket | None, /) -> None:
    """Tell the parent that this worker is ready, and give it the listener if this worker made it itself.

    The parent does not read each report, and one that waits keeps the listener in it open.
    """
    data = json.dumps(settings._asdict()).encode() + b"\n"
    if listener is None:
        parent.sendall(data)
    else:
        socket.send_fds(parent, [data], [listener.fileno()])


def _report_problem(parent: socket.socket, error: SetupError) -> None:
    parent.sendall(json.dumps({"error": str(error)[:MAX_REASON]}).encode() + b"\n")


def supervise(run: RunWorker, /) -> None:
    """Run workers until SIGTERM or SIGINT; raises SetupError if the first one cannot start."""
    _Supervisor(run).serve()


class _Supervisor:
    def __init__(self, run: RunWorker) -> None:
        self._run = run
        self._workers: dict[int, socket.socket] = {}
        """By process id: our end of the socket."""
        self._listeners: dict[int, socket.socket] = {}
        """By process id: the listener of each."""
        self._settings: WorkerSettings | None = None
        """What the first worker reports when it is ready."""
        self._ready: set[int] = set()
        """The process ids of workers whose report was read: the first, and those that replace others."""
        self._replaced: set[int] = set()
        """The process ids of workers that end and have a successor."""
        self._shall_replace = False
        """Whether SIGUSR1 came since the last replacement began."""
        self._is_draining = False
        self._is_stopping = False
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        """Python writes to the second when a signal comes, before the handler runs, so that `select` wakes up."""

    def serve(self) -> None:
        handlers = {signal.SIGTERM: self._terminate, signal.SIGINT: self._terminate, signal.SIGHUP: self._reload}
        handlers |= {signal.SIGALRM: self._timer, signal.SIGUSR1: self._replace, signal.SIGCHLD: _do_nothing}
        self._wakeup_writer.setblocking(False)  # noqa: FBT003 - the API of sockets
        wakeup_before = signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._settings = settings = self._read_report(self._start(is_first=True))
            if self._is_draining and not self._is_stopping:  # SIGTERM came before the settings
                self._limit_drain()
            for _ in range(settings.workers - 1):
                if not self._is_stopping:
                    self._start()
            self._wait()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_before)
            self._wakeup_reader.close()
            self._wakeup_writer.close()

    def _start(self, listener: socket.socket | None = None, *, is_first: bool = False) -> int:
        """Start a worker; returns its process id. `listener` is that of the worker that it replaces."""
        if listener is None:
            listener = bind_beside(self._listeners.values())
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            self._become_worker(ours, theirs, listener, is_first=is_first)
        theirs.close()
        self._workers[child] = ours
        if listener is not None:
            self._keep(child, listener)
        if self._is_draining:
            self._send(child, DRAIN)
        if self._is_stopping:
            self._send(child, STOP)
        return child

    def _keep(self, child: int, listener: socket.socket) -> None:
        """Keep the listener of a worker for its successor; after `_stop`, clients must not wait for one."""
        before = self._listeners.get(child)
        self._listeners[child] = listener
        if before is not None:
            before.close()
        if self._is_stopping:
            listener.close()

    def _become_worker(
        self, ours: socket.socket, theirs: socket.socket, listener: socket.socket | None, *, is_first: bool
    ) -> None:
        """In the new process: the worker, and nothing of the parent after it."""
        code = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)
            # Both may go to all processes at once; the parent tells us. Programs that we start must not ignore SIGTERM.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _do_nothing)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (
                ours,
                self._wakeup_reader,
                self._wakeup_writer,
                *self._workers.values(),
                *self._listeners.values(),
            ):
                if other is not listener:
                    other.close()
            self._run(Inheritance(theirs, listener, is_first))
            code = 0
        except SetupError as error:
            _report_problem(theirs, error)
            code = 2
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _read_report(self, child: int) -> WorkerSettings:
        """Wait until a worker is ready: the first before the others start, a successor before another one stops."""
        data, listeners = b"", list[int]()
        with suppress(ConnectionResetError):  # it has ended, and has not read the commands to it
            while not data.endswith(b"\n"):
                piece, sent, _, _ = socket.recv_fds(self._workers[child], MAX_REPORT, 1)
                data, listeners = data + piece, listeners + sent
                if not piece:
                    break
        message = json.loads(data if data.endswith(b"\n") else b'{"error": ""}')
        if "error" in message:
            _, status = os.waitpid(child, 0)
            listener = self._forget(child)
            if listener is not None:
                listener.close()
            reason = f"the worker ended before it was ready ({_describe_exit(status)}); its log says why"
            raise SetupError(message["error"] or reason)
        self._ready.add(child)
        for file in listeners:
            self._keep(child, socket.socket(fileno=file))
        return WorkerSettings(**message)

    def _forget(self, child: int) -> socket.socket | None:
        """Forget a worker that has ended; returns its listener."""
        self._workers.pop(child).close()
        self._ready.discard(child)
        return self._listeners.pop(child, None)

    def _wait(self) -> None:
        """Until all workers have ended; one that dies is replaced."""
        while self._workers:
            select.select([self._wakeup_reader], [], [])
            self._wakeup_reader.recv(4096)
            while self._workers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._handle_exit(*ended)
            if self._shall_replace:
                self._shall_replace = False
                self._replace_all()

    def _handle_exit(self, child: int, status: int) -> None:
        """Forget a worker that has ended, and start another one if it was not to end."""
        ours = self._workers.get(child)
        if ours is None:
            return
        problem = None if child in self._ready else _problem(_read_rest(ours))
        listener = self._forget(child)
        if self._is_stopping or child in self._replaced:
            self._replaced.discard(child)
            if listener is not None:  # its successor has it as another file
                listener.close()
            return
        reason = f"; the last one could not start: {problem}" if problem else ""
        print(f"worker {child} ended ({_describe_exit(status)}); a new one starts{reason}", file=sys.stderr, flush=True)  # noqa: T201 - for the operator
        if problem is not None:
            if listener is not None and self._listeners:  # clients must not wait for it: others listen
                listener.close()
                listener = None
            time.sleep(RESTART_DELAY)
        if not self._is_stopping:
            self._start(listener)

    def _replace_all(self) -> None:
        """Start a new worker for each; when it is ready, the old one stops. If it cannot start, the old ones stay."""
        for child in [each for each in self._workers if each not in self._replaced]:
            if self._is_stopping:
                return
            try:
                self._read_report(self._start(self._copy_listener(child)))
            except SetupError as error:
                reason = f"the workers stay, because a new one could not start: {error}"
                print(reason, file=sys.stderr, flush=True)  # noqa: T201 - for the operator
                return
            self._replaced.add(child)
            self._send(child, STOP)

    def _copy_listener(self, child: int) -> socket.socket | None:
        """The listener of a worker as another file, because both are closed; None if that has none, or is to stop."""
        try:
            # `dup` of a socket would make the old worker block in `accept`: both files have the flags in common.
            return socket.socket(fileno=os.dup(self._listeners[child].fileno()))
        except (KeyError, OSError):
            return None

    # Signals ---------------------------------------------------------------------------------------------------------

    def _terminate(self, number: int, _frame: object) -> None:
        """On SIGTERM, workers first report not ready; after `drain` seconds, or at the next signal, they stop."""
        if number != signal.SIGTERM or self._is_draining:
            self._stop()
            return
        self._is_draining = True
        self._send_all(DRAIN)
        self._limit_drain()

    def _limit_drain(self) -> None:
        """Stop after `drain` seconds; before these are known, if the first worker is not ready in time."""
        seconds = MAX_START if self._settings is None else self._settings.drain
        if seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            self._stop()

    def _reload(self, _number: int, _frame: object) -> None:
        """Workers reload the config themselves and keep what is in memory."""
        self._send_all(RELOAD)

    def _replace(self, _number: int, _frame: object) -> None:
        """Replace every worker; if another signal comes meanwhile, once more."""
        self._shall_replace = True

    def _timer(self, _number: int, _frame: object) -> None:
        if not self._is_stopping:
            self._stop()
            return
        for child in self._workers:
            os.kill(child, signal.SIGKILL)

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            for listener in self._listeners.values():  # clients must not wait for us
                listener.close()
            self._send_all(STOP)
            grace = 0.0 if self._settings is None else self._settings.grace
            signal.setitimer(signal.ITIMER_REAL, grace + KILL_DELAY)

    def _send_all(self, command: bytes) -> None:
        for child in self._workers:
            self._send(child, command)

    def _send(self, child: int, command: bytes) -> None:
        try:
            self._workers[child].send(command)
        except OSError:  # it has just ended
            return


def _do_nothing(_number: int, _frame: object) -> None:
    """A handler: a signal without one would not wake the loop, or end the process."""


def _read_rest(ours: socket.socket) -> bytes:
    """What a worker that has ended had reported."""
    try:
        return ours.recv(MAX_REPORT, socket.MSG_DONTWAIT)
    except OSError:
        return b""


def _problem(reported: bytes) -> str | None:
    """Why a worker could not start, as far as it is known; None if it was ready."""
    error = json.loads(reported).get("error") if reported.endswith(b"\n") else ""
    return error if error is None else str(error)


def _describe_exit(status: int) -> str:
    """How a process ended."""
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"
