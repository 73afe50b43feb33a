"""One worker process: reads the config, listens, serves, and does what its parent says."""

import asyncio
import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dragoman.errors import SetupError, StoreDown
from dragoman.gateway.app import App
from dragoman.gateway.config import Config, GatewaySettings
from dragoman.gateway.observability import access_log as logs
from dragoman.gateway.reload import Reloader
from dragoman.gateway.runtime import Runtime, read_gateway_config
from dragoman.gateway.server.http_server import HttpServer, tls_context
from dragoman.gateway.server.listener import bind
from dragoman.gateway.server.start_checks import (
    address,
    check_auth,
    check_shared_limits,
    is_loopback,
    override_settings,
    warn_if_not_shared,
)
from dragoman.gateway.server.supervisor import (
    DRAIN,
    KILL_DELAY,
    RELOAD,
    STOP,
    Inheritance,
    WorkerSettings,
    report_ready,
)

CONFIG_CHECK_INTERVAL = 1.0
"""Seconds between two checks whether the config file has changed."""
WRITTEN_AHEAD = 128 * 1024
"""Bytes that the kernel takes for a client before it sends them: else it takes megabytes of a stream at once, and all
others wait until they are translated."""
GC_THRESHOLD = 10_000
"""New objects until a garbage collection: a request makes some hundred, and leaves no cycles."""


def run_worker(
    inherited: Inheritance,
    /,
    *,
    config: Path | None,
    secret: bytes,
    no_auth: bool,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
) -> None:
    """Serve until the parent says stop, or dies. `secret` is what all workers know and nobody else."""
    settings = read_gateway_config(config)
    gateway = override_settings(settings.gateway, host=host, port=port, workers=workers)
    if inherited.is_first:
        check_auth(gateway, settings, no_auth=no_auth)
        check_shared_limits(gateway, settings)
    logs.configure_logging(logging.WARNING)
    if inherited.is_first:
        warn_if_not_shared(gateway)
    listener = listen(gateway, inherited.listener, is_first=inherited.is_first)
    _raise_file_limit()
    worker = Worker(config, settings, gateway, secret)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(worker.serve(listener, inherited))


class Worker:
    """One worker of a gateway."""

    def __init__(self, path: Path | None, config: Config, gateway: GatewaySettings, secret: bytes, /) -> None:
        self._gateway = gateway
        """As at the start: a reload cannot change how it listens and stops."""
        runtime = Runtime(config, os.environ, workers=gateway.workers, process_secret=secret)
        self._app = App(runtime, is_local=is_loopback(gateway.host))
        self._reloader = Reloader(self._app, path, os.environ)

    async def serve(self, listener: socket.socket, inherited: Inheritance) -> None:
        """Serve until a signal stops it; then finish the requests in progress."""
        loop, gateway = asyncio.get_running_loop(), self._gateway
        server = HttpServer(self._app, loop)
        tls = None if gateway.tls_certificate is None else tls_context(gateway.tls_certificate, gateway.tls_key)
        set_up_collector()
        with suppress(StoreDown):  # then the first request tries again
            await self._app.manager.load()
        await server.listen(listener, tls)
        if inherited.is_first:
            print(f"dragoman listens at {address(gateway)}", file=sys.stderr, flush=True)  # noqa: T201 - for the operator
        parent = inherited.parent
        if parent is not None:
            settings = WorkerSettings(gateway.workers, gateway.drain, float(gateway.grace))
            report_ready(parent, settings, None if listener is inherited.listener else listener)
            commands = {DRAIN: self._app.drain, STOP: lambda: self._stop(server), RELOAD: self._reloader.reload}
            threading.Thread(
                target=_obey, args=(parent, loop, commands, gateway.grace), name="dragoman-parent", daemon=True
            ).start()
        background = [asyncio.create_task(self._app.run()), asyncio.create_task(self._watch_config())]
        try:
            await server.wait_until_ended()
        except asyncio.CancelledError:  # Ctrl-C, if there is no parent
            self._stop(server)
            await server.wait_until_ended()
        for task in background:
            task.cancel()
        await self._app.close()

    def _stop(self, server: HttpServer) -> None:
        """Take no more requests; end what still runs after `grace` seconds."""
        loop, grace = asyncio.get_running_loop(), self._gateway.grace
        self._app.drain()
        server.stop()
        loop.call_later(grace, self._app.end_requests)
        loop.call_later(grace + KILL_DELAY / 2, server.abort)

    async def _watch_config(self) -> None:
        while True:
            self._reloader.check()
            await asyncio.sleep(CONFIG_CHECK_INTERVAL)


def set_up_collector() -> None:
    """Collect garbage rarely, and skip the objects that exist by now: they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    gc.enable()


def _obey(
    parent: socket.socket, loop: asyncio.AbstractEventLoop, commands: dict[bytes, Callable[[], object]], grace: float
) -> None:
    """Run the parent's commands in the event loop; stop if the parent dies: nobody else could stop this process.

    It is a thread, because it must end the process even if the event loop does not run.
    """
    while True:
        try:
            command = parent.recv(1)
        except OSError:
            command = b""
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(commands[command or STOP])
        if not command:
            break
    time.sleep(grace + KILL_DELAY)
    os._exit(1)


def listen(gateway: GatewaySettings, inherited: socket.socket | None = None, /, *, is_first: bool) -> socket.socket:
    """A socket at the address of the gateway, that of the parent if it fits; raises SetupError if it is in use.

    Workers share the port, and the kernel gives each its share of the connections. Then a second gateway could share
    it, too, so the first worker checks whether the port is free.
    """
    try:
        family, kind, *_, own_address = socket.getaddrinfo(gateway.host, gateway.port, type=socket.SOCK_STREAM)[0]
        if inherited is not None and inherited.fileno() >= 0 and _is_at(inherited, own_address):
            return _set_up(inherited)
        is_shared = hasattr(socket, "SO_REUSEPORT")
        if gateway.workers > 1 and not is_shared:
            raise SetupError(f"workers must be 1 on this system, which cannot share a port, got {gateway.workers}")
        if is_first and is_shared:
            with socket.socket(family, kind) as test:
                test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                test.bind(own_address)
                test.listen()
        listener = _set_up(bind(family, kind, own_address))
        listener.listen()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SetupError(f"cannot listen at {address(gateway)}: {reason}") from error
    return listener


def _set_up(listener: socket.socket) -> socket.socket:
    """What a listener needs wherever it comes from; its connections inherit the limit."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, WRITTEN_AHEAD)
    listener.setblocking(False)  # noqa: FBT003 - the API of sockets
    return listener


def _is_at(listener: socket.socket, own_address: tuple[object, ...]) -> bool:
    """Whether a socket has an address; port 0 is any port."""
    host, port, *rest = listener.getsockname()
    return own_address in ((host, port, *rest), (host, 0, *rest))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop if it is installed: it needs half of the CPU time of asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _raise_file_limit() -> None:
    """Allow as many connections as the system does: the default limit of many systems is 1024 files."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
