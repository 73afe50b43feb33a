"""Runs the gateway on granian: checks the config, starts the workers and forwards signals.

SIGTERM first makes the workers report not ready for `drain` seconds (SIGUSR1), so that load balancers go elsewhere.
Then they stop (SIGUSR2): they finish what is in progress, and end what still runs after `grace` seconds with an error.
SIGINT, a second SIGTERM and the death of the parent skip `drain`. SIGHUP reloads the config in every worker. Signals
that arrive while a worker is being forked are blocked until its event loop runs, or they would be lost.
"""

import asyncio
import gc
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.config import Config, GatewaySettings
from dragoman.gateway.observability import access_log as logs
from dragoman.gateway.reasoning.vault import SECRET_SIZE
from dragoman.gateway.reload import Reloader
from dragoman.gateway.runtime import Runtime, read_config
from dragoman.gateway.server.granian import Rsgi
from dragoman.gateway.server.limits import MAX_HEADERS

log = logging.getLogger("dragoman.gateway")

CONFIG_CHECK_INTERVAL = 1.0
"""Seconds between two checks whether the config file has changed."""
PARENT_CHECK_INTERVAL = 0.5
"""Seconds between two checks whether the parent process is alive."""
LAST_WORDS = 3
"""Seconds after `grace` for a worker to send error events and write usage rows, until it is killed."""
GC_THRESHOLD = 10_000
"""New objects until a garbage collection: a request makes some hundred, and leaves no cycles."""
MAX_IDLE_CONNECTIONS = 4096
"""Connections besides those with a request: clients keep theirs open."""


def serve(
    config: Path | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    no_auth: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT. The other parameters override the config.

    By default, the config is ./dragoman.toml if it exists, else the environment.
    """
    settings = read_config(config)
    gateway = override(settings.gateway, host=host, port=port, workers=workers)
    check_auth(gateway, settings, no_auth=no_auth)
    check_store(gateway, settings)
    try:
        from granian.constants import HTTPModes, Interfaces, Loops
        from granian.http import HTTP1Settings
        from granian.log import LogLevels
        from granian.server import Server
    except ImportError as error:
        raise SetupError("granian is not installed; pip install 'dragoman[gateway]'") from error

    server: Any = Server(
        "dragoman.gateway",
        address=gateway.host,
        port=gateway.port,
        interface=Interfaces.RSGI,
        workers=gateway.workers,
        loop=Loops.auto,
        websockets=True,
        http=HTTPModes.http1,  # `backpressure` cannot tell the streams of one HTTP/2 connection apart
        backpressure=gateway.max_requests + MAX_IDLE_CONNECTIONS,
        http1_settings=HTTP1Settings(max_buffer_size=MAX_HEADERS),
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        workers_kill_timeout=gateway.grace + LAST_WORDS,
    )
    _install_signal_handlers(server, gateway.drain)
    warn_if_not_shared(gateway)
    check_port(gateway)
    _block_signals_while_forking()
    print(f"dragoman listens at {address(gateway)}", file=sys.stderr, flush=True)  # noqa: T201 - for the operator
    is_local = is_loopback(gateway.host)
    load = partial(
        _load,
        config=config,
        workers=gateway.workers,
        is_local=is_local,
        parent=os.getpid(),
        secret=secrets.token_bytes(SECRET_SIZE),
    )
    server.serve(target_loader=load)


def _install_signal_handlers(server: Any, drain: float) -> None:
    stop: Callable[..., None] = server.signal_handler_interrupt
    draining: list[threading.Timer] = []

    def signal_workers(number: int) -> None:
        for worker in server.wrks:
            with suppress(ProcessLookupError):  # Ctrl-C goes to all processes: this one may have ended
                os.kill(worker.inner.pid, number)

    def stop_workers() -> None:
        signal_workers(signal.SIGUSR2)
        stop()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        """On SIGTERM, workers first report not ready; after `drain` seconds, or at the next signal, they stop."""
        if number != signal.SIGTERM or draining or not drain:
            stop_workers()
            return
        signal_workers(signal.SIGUSR1)
        draining.append(threading.Timer(drain, stop_workers))
        draining[0].daemon = True
        draining[0].start()

    def reload(_number: int, _frame: FrameType | None) -> None:
        """Workers reload the config themselves and keep what is in memory; granian would start new ones."""
        signal_workers(signal.SIGHUP)

    server.signal_handler_reload = reload
    if hasattr(signal, "SIGUSR1"):
        server.signal_handler_interrupt = interrupt


_SIGNALS = [
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
]


def _block_signals_while_forking() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, _SIGNALS), after_in_parent=_unblock_signals
        )


def _unblock_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _load(
    _target: str, /, *, config: Path | None, workers: int, is_local: bool, parent: int, secret: bytes
) -> "Worker":
    """Called in the worker process: connections do not survive a fork."""
    worker = Worker(config, workers=workers, is_local=is_local, secret=secret)
    grace = worker.settings.grace
    threading.Thread(target=_end_with_parent, args=(parent, grace), name="dragoman-parent", daemon=True).start()
    return worker


def _end_with_parent(parent: int, grace: float) -> None:
    """Stop this worker if its parent was killed: nobody else could stop it, and it would hold the port.

    It is a thread, because it must work even if the event loop does not run. On Windows, a process keeps the id of its
    parent for ever, so this does nothing there.
    """
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_INTERVAL)
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace + LAST_WORDS)
    os._exit(1)


class Worker(Rsgi):
    """One worker process of a gateway."""

    def __init__(
        self, config: Path | None, /, *, workers: int = 1, is_local: bool = False, secret: bytes | None = None
    ) -> None:
        """`secret`: what the workers share if they have no store for it."""
        logs.configure_logging(logging.WARNING)
        runtime = Runtime(read_config(config), os.environ, workers=workers, process_secret=secret)
        app = App(runtime, is_local=is_local)
        super().__init__(app)
        self._reloader = Reloader(app, config, os.environ)
        self._background: asyncio.Task[None] | None = None
        self._grace = self.settings.grace
        """As at the start: the parent does not wait longer if a reload changes it."""

    @property
    def settings(self) -> GatewaySettings:
        """The table [gateway] of its config."""
        return self._app.runtime.config.gateway

    def __rsgi_init__(self, loop: Any) -> None:
        """Called by granian before the first request."""
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._reloader.reload)
            loop.add_signal_handler(signal.SIGUSR1, self._app.drain)
            loop.add_signal_handler(signal.SIGUSR2, self._stop, loop)
        # Objects that exist by now stay until the end, so collections skip them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 50)
        self._check_config(loop)
        # Only when the loop runs: before, signals would be lost.
        loop.call_soon(_unblock_signals)
        self._background = loop.create_task(self._app.run())

    def __rsgi_del__(self, loop: Any) -> None:
        """Called by granian after the last request."""
        if self._background is not None:
            self._background.cancel()
        loop.run_until_complete(self._app.close())

    def _stop(self, loop: Any) -> None:
        """End what still runs after `grace` seconds. Granian stops taking requests at a signal of its own."""
        self._app.drain()
        loop.call_later(self._grace, self._app.end_requests)

    def _check_config(self, loop: Any) -> None:
        self._reloader.check()
        loop.call_later(CONFIG_CHECK_INTERVAL, self._check_config, loop)


def override(gateway: GatewaySettings, /, **values: Any) -> GatewaySettings:
    """The settings with values from the command line; None keeps the setting."""
    return replace(gateway, **{name: value for name, value in values.items() if value is not None})


def warn_if_not_shared(gateway: GatewaySettings, /) -> None:
    """Warn if several workers have no store to share conversations and usage."""
    if gateway.workers > 1 and gateway.store == "memory":
        log.warning(
            'store is "memory", so %d workers do not share conversations, stored responses and usage; '
            'set store = "sqlite:PATH" or "redis://HOST:PORT/DB"',
            gateway.workers,
        )


def check_auth(gateway: GatewaySettings, config: Config, /, *, no_auth: bool) -> None:
    """Raise SetupError if other machines could use the gateway without a key."""
    if not config.keys and not no_auth and not is_loopback(gateway.host):
        raise SetupError(
            f"gateway.host {gateway.host} can be reached from other machines, and there are no keys; "
            'add a key (dragoman keys new NAME), set host = "127.0.0.1", or use --no-auth'
        )


def check_port(gateway: GatewaySettings, /) -> None:
    """Raise SetupError if the port is in use: granian shares it between workers, and so with a second gateway."""
    try:
        family, kind, *_, address_info = socket.getaddrinfo(gateway.host, gateway.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            if os.name == "posix":  # on Windows, the option would allow a second listener
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address_info)
            listener.listen()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SetupError(f"cannot listen at {address(gateway)}: {reason}") from error


def check_store(gateway: GatewaySettings, config: Config, /) -> None:
    """Raise SetupError if every worker would count the limits of keys separately."""
    if gateway.workers > 1 and gateway.store == "memory" and any(key.is_limited for key in config.keys):
        raise SetupError(
            f'gateway.store must be shared if there are keys with limits and {gateway.workers} workers, got "memory"; '
            'set store = "sqlite:PATH" or "redis://HOST:PORT/DB"'
        )


def is_loopback(host: str, /) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(gateway: GatewaySettings, /) -> str:
    """The URL of the gateway."""
    return f"http://{f'[{gateway.host}]' if ':' in gateway.host else gateway.host}:{gateway.port}"
