"""A config file that changes in, a new set-up of the app out; a bad one is refused, and the old one stays."""

import logging
from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.config import FILE, Gateway
from dragoman.gateway.runtime import Runtime, read_config

log = logging.getLogger("dragoman.gateway")

FIXED = ("host", "port", "workers", "store", "drain", "grace", "rates_when_down", "budgets_when_down", "log", "traces")
"""What a running gateway cannot change."""


class Reloader:
    """Gives the app what its config file says by now; requests under way keep what they began with."""

    def __init__(self, app: App, path: Path | None, env: Mapping[str, str], /) -> None:
        self._app = app
        self._path = path
        self._env = env
        self._seen = self._stamp()
        self._had_file = self._seen is not None

    def check(self) -> None:
        """Reload, if the file is another one than at the last time."""
        if (stamp := self._stamp()) != self._seen:
            self._seen = stamp
            self.reload()

    def reload(self) -> bool:
        """Take the file as it is now; whether it was taken."""
        before = self._app.runtime
        self._seen = self._stamp()
        try:
            config = read_config(self._path, self._env)
            if self._had_file and self._seen is None:
                raise SetupError("its file is gone")
            if before.config.keys and not config.keys:
                raise SetupError("it has no keys, and a gateway that runs is not opened to all; start it anew for that")
            self._app.runtime = Runtime(config, self._env, before)
        except SetupError as error:
            log.error("the new config is refused, and the old one stays: %s", error)  # noqa: TRY400 - no bug of ours
            return False
        log.warning("the config was reloaded%s", _unchanged(before.config.gateway, config.gateway))
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            stat = (self._path or Path(FILE)).stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _unchanged(old: Gateway, new: Gateway) -> str:
    names = [name for name in FIXED if getattr(old, name) != getattr(new, name)]
    return f"; {', '.join(names)} will change at the next start" if names else ""
