"""A config in, a running gateway out: granian, its workers and their signals."""

import asyncio
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.config import Config, Gateway
from dragoman.gateway.observability import access_log as logs
from dragoman.gateway.reload import Reloader
from dragoman.gateway.runtime import Runtime, read_config
from dragoman.gateway.server.granian import Rsgi
from dragoman.gateway.server.limits import MAX_HEADERS

log = logging.getLogger("dragoman.gateway")

LOOK = 1.0
"""Seconds between two looks at the config file."""
YOUNG = 10_000
"""Objects after which the collector looks for circles: a request makes some hundred, and leaves none."""
MAX_IDLE = 4096
"""Connections beside those that are answered: clients keep theirs open."""


def serve(
    path: Path | None = None,
    /,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    no_auth: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT. What is told here comes before what the file says.

    Without a file it is ./dragoman.toml, and without that the environment.
    """
    config = read_config(path)
    told = {"host": host, "port": port, "workers": workers}
    gateway = overridden(config.gateway, told)
    check_reach(gateway, config, no_auth=no_auth)
    check_store(gateway, config)
    try:
        from granian.constants import Interfaces, Loops
        from granian.http import HTTP1Settings
        from granian.log import LogLevels
        from granian.server import Server
    except ImportError as error:
        raise SetupError("the gateway needs granian: pip install 'dragoman[gateway]'") from error

    server: Any = Server(
        "dragoman.gateway",
        address=gateway.host,
        port=gateway.port,
        interface=Interfaces.RSGI,
        workers=gateway.workers,
        loop=Loops.auto,
        websockets=False,
        backpressure=gateway.max_requests + MAX_IDLE,
        http1_settings=HTTP1Settings(max_buffer_size=MAX_HEADERS),
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        workers_kill_timeout=gateway.grace,
    )
    _listen_to_signals(server, gateway.drain)
    warn_of_workers(gateway)
    check_free(gateway)
    _hold_signals()
    print(f"dragoman listens at {address(gateway)}", file=sys.stderr, flush=True)  # noqa: T201 - to whoever started it
    is_local = is_loopback(gateway.host)
    server.serve(target_loader=partial(_load, path=path, workers=gateway.workers, is_local=is_local))


def _listen_to_signals(server: Any, drain: float) -> None:
    stop: Callable[..., None] = server.signal_handler_interrupt
    draining: list[threading.Timer] = []

    def tell_workers(number: int) -> None:
        for worker in server.wrks:
            os.kill(worker.inner.pid, number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        """At SIGTERM workers say first that they are not ready; later, or at the next signal, they stop."""
        if number != signal.SIGTERM or draining:
            stop(number, frame)
            return
        tell_workers(signal.SIGUSR1)
        draining.append(threading.Timer(drain, stop))
        draining[0].daemon = True
        draining[0].start()

    def reload(_number: int, _frame: FrameType | None) -> None:
        """Workers reload by themselves, so that they lose nothing that they remember; granian would start new ones."""
        tell_workers(signal.SIGHUP)

    server.signal_handler_reload = reload
    if drain and hasattr(signal, "SIGUSR1"):
        server.signal_handler_interrupt = interrupt


_SIGNALS = [getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]


def _hold_signals() -> None:
    """Let signals wait for a worker that starts: they would be lost until it can hear them, and it would never stop."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, _SIGNALS), after_in_parent=_hear_signals
        )


def _hear_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _load(_target: str, /, *, path: Path | None, workers: int, is_local: bool) -> "Worker":
    """The app, made in the worker itself: connections do not survive a fork."""
    return Worker(path, workers=workers, is_local=is_local)


class Worker(Rsgi):
    """One process of a gateway."""

    def __init__(self, path: Path | None, /, *, workers: int = 1, is_local: bool = False) -> None:
        logs.configure_logging(logging.WARNING)
        app = App(Runtime(read_config(path), os.environ, workers=workers), is_local=is_local)
        super().__init__(app)
        self._life = app.run, app.close
        self._reloader = Reloader(app, path, os.environ)
        self._living: asyncio.Task[None] | None = None

    def __rsgi_init__(self, loop: Any) -> None:
        """Listen to SIGHUP, look at the file now and then, and tend to what is shared."""
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._reloader.reload)
            loop.add_signal_handler(signal.SIGUSR1, self._app.drain)
        # What is there by now stays: no collection needs to look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, 20, 50)
        self._look(loop)
        # Not before the loop runs: what it cannot hear is lost.
        loop.call_soon(_hear_signals)
        self._living = loop.create_task(self._life[0]())

    def __rsgi_del__(self, loop: Any) -> None:
        """All requests have ended: let go of what is held."""
        if self._living is not None:
            self._living.cancel()
        loop.run_until_complete(self._life[1]())

    def _look(self, loop: Any) -> None:
        self._reloader.check()
        loop.call_later(LOOK, self._look, loop)


def overridden(gateway: Gateway, told: dict[str, Any], /) -> Gateway:
    """What the file says, with what the command line says over it.

    >>> overridden(Gateway(), {"port": 9000, "host": None}).port
    9000
    """
    from msgspec.structs import replace

    return replace(gateway, **{name: value for name, value in told.items() if value is not None})


def warn_of_workers(gateway: Gateway, /) -> None:
    """Say what several workers do not share, where they have no store to share it in.

    >>> warn_of_workers(Gateway(workers=2, store="sqlite:gate.db"))
    """
    if gateway.workers > 1 and gateway.store == "memory":
        log.warning(
            "%d workers, and each remembers for itself: conversations, kept responses and usage of one are "
            'unknown to the others; set store = "sqlite:PATH" or "redis://HOST:PORT/DB"',
            gateway.workers,
        )


def check_reach(gateway: Gateway, config: Config, /, *, no_auth: bool) -> None:
    """Refuse to answer everybody who can reach the machine, unless told so.

    >>> check_reach(Gateway(), Config(), no_auth=False)
    """
    if not config.keys and not no_auth and not is_loopback(gateway.host):
        raise SetupError(
            f"{gateway.host} can be reached from elsewhere and there are no keys: add [keys] to the config "
            "(dragoman keys new NAME), listen on 127.0.0.1, or say --no-auth"
        )


def check_free(gateway: Gateway, /) -> None:
    """Refuse a place where somebody listens already: workers share theirs, and so would a second gateway.

    >>> check_free(Gateway(port=0))
    """
    try:
        family, kind, *_, place = socket.getaddrinfo(gateway.host, gateway.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            if os.name == "posix":  # elsewhere it would let two listen
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SetupError(f"cannot listen at {address(gateway)}: {why}") from error


def check_store(gateway: Gateway, config: Config, /) -> None:
    """Refuse to count limits where each worker would count for itself.

    >>> check_store(Gateway(workers=4), Config())
    """
    if gateway.workers > 1 and gateway.store == "memory" and any(key.is_limited for key in config.keys):
        raise SetupError(
            f"{gateway.workers} workers have no memory in common, and each would grant all that a key may use: "
            'write store = "sqlite:PATH" or a redis:// URL to [gateway]'
        )


def is_loopback(host: str, /) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(gateway: Gateway, /) -> str:
    """Where it listens.

    >>> address(Gateway(host="::1", port=8001))
    'http://[::1]:8001'
    """
    return f"http://{f'[{gateway.host}]' if ':' in gateway.host else gateway.host}:{gateway.port}"
