"""Reloads the config of a running gateway. If the new config has a problem, the old one stays."""

import logging
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.config import FILE, GatewaySettings
from dragoman.gateway.runtime import Runtime, read_gateway_config
from dragoman.gateway.server.start_checks import check_shared_limits

log = logging.getLogger("dragoman.gateway")

NEEDS_RESTART = (
    "host",
    "port",
    "workers",
    "tls_certificate",
    "tls_key",
    "store",
    "drain",
    "grace",
    "rates_when_down",
    "budgets_when_down",
    "log",
    "traces",
    "metric_labels",
)
"""Settings that a running gateway cannot change."""


class Reloader:
    """Gives the app a new Runtime if its config file changes; requests in progress keep the old one."""

    def __init__(self, app: App, path: Path | None, env: Mapping[str, str], /) -> None:
        self._app = app
        self._path = path
        self._env = env
        self._seen = self._stamp()
        self._had_file = self._seen is not None

    def check(self) -> None:
        """Reload if the file has changed since the last check."""
        if (stamp := self._stamp()) != self._seen:
            self._seen = stamp
            self.reload()

    def reload(self) -> bool:
        """Reload the file now; False if its config was rejected."""
        before = self._app.runtime
        self._seen = self._stamp()
        try:
            config = read_gateway_config(self._path, self._env)
            if self._had_file and self._seen is None:
                raise SetupError("the file was deleted")
            check_shared_limits(replace(before.config.gateway, workers=before.workers), config)
            after = Runtime(config, self._env, before)
            if before.keys.all and not after.keys.all:
                raise SetupError("it has no keys, so anyone could use the gateway; restart it if you want that")
            self._app.runtime = after
        except SetupError as error:
            before.file_problem = str(error)
            log.error("the new config was rejected, the old one stays: %s", error)  # noqa: TRY400 - no bug of ours
            return False
        log.warning("the config was reloaded%s", _needs_restart(before.config.gateway, config.gateway))
        for problem in after.problems:
            log.error("a change at run time does not fit the new config and is left out: %s", problem)
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = (self._path or Path(FILE)).stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _needs_restart(old: GatewaySettings, new: GatewaySettings) -> str:
    names = [name for name in NEEDS_RESTART if getattr(old, name) != getattr(new, name)]
    return f"; restart to change {', '.join(names)}" if names else ""
