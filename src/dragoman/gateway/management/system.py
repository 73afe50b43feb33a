"""The operation that describes the running gateway: its version, its store, and what is wrong with its setup."""

import platform
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from dragoman.errors import ModelNotFound, SetupError
from dragoman.gateway.management.operations import AdminCall, AdminOperations
from dragoman.gateway.observability import health
from dragoman.gateway.runtime import Runtime

OPERATIONS = AdminOperations()

NAME = "dragoman"


class SystemView(msgspec.Struct, frozen=True, kw_only=True):
    """The running gateway."""

    version: str
    python: str
    started_at: float
    """When this worker started, in seconds since the epoch."""
    uptime: float
    workers: int
    store: str
    """`memory`, `sqlite` or `redis`."""
    store_state: str
    """`ok`, or why the store cannot be used."""
    cache: str | None
    """The store of the response cache; null if there is none."""
    body_retention: float | None
    """Seconds for which bodies are stored; null if they are not stored."""
    keys: int
    teams: int
    providers: int
    targets_in_cooldown: int
    in_flight: int
    pending_rows: int
    """Rows of the usage log that are not in the store yet."""
    lost_rows: int
    problems: tuple[str, ...]
    """What an operator should repair."""


@OPERATIONS.add("system.show", "GET", "system", "viewer")
async def _show(call: AdminCall) -> SystemView:
    """Show the version, uptime and store of the gateway, and problems of its config."""
    runtime, accounting = call.runtime, call.runtime.accounting
    report = await health.health_report(runtime, in_flight=accounting.metrics.in_flight)
    config, now = runtime.config, time.time()
    return SystemView(
        version=_version(),
        python=platform.python_version(),
        started_at=accounting.started_at,
        uptime=round(max(0.0, now - accounting.started_at), 1),
        workers=runtime.workers,
        store=_kind(config.gateway.store),
        store_state=report["store"],
        cache=None if config.cache is None else _kind(config.cache.store),
        body_retention=None if config.bodies is None else config.bodies.retention,
        keys=len(runtime.keys.all),
        teams=len(runtime.keys.teams),
        providers=len(config.providers),
        targets_in_cooldown=sum(not each.is_healthy for each in runtime.registry.health.snapshot().values()),
        in_flight=accounting.metrics.in_flight,
        pending_rows=accounting.usage_log.pending,
        lost_rows=accounting.usage_log.lost,
        problems=tuple(_problems(runtime, report["store"])),
    )


def _problems(runtime: Runtime, store: str) -> Iterator[str]:
    if store != "ok":
        yield f"the store cannot be used: {store}"
    if runtime.file_problem is not None:
        yield f"the config file was changed and rejected, the old config stays: {runtime.file_problem}"
    for problem in runtime.problems:
        yield f"a change at run time does not fit the config file and is left out: {problem}"
    for name in sorted(runtime.config.providers):
        with suppress(SetupError, ModelNotFound):  # a name of a pool, or one that the registry refuses
            if runtime.registry.target(f"{name}/any").lacks_key:
                yield f"provider {name} has no API key: set api_key in [providers.{name}]"
    if lost := runtime.accounting.usage_log.lost:
        yield f"{lost} rows of the usage log were lost while the store was down"
    if runtime.keys.all and not runtime.store.is_shared:
        yield 'the usage log and run-time changes are lost at a restart: set store = "sqlite:PATH" in [gateway]'


def _kind(store: str) -> str:
    return store.partition(":")[0].removesuffix("s") if store.startswith("redis") else store.partition(":")[0]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
