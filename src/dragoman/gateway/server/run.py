"""Runs the gateway: a parent with its workers, or one process where processes cannot be forked (Windows).

What a worker needs is imported in the worker, so that the parent stays small.
"""

import gc
import os
import signal
from functools import partial
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.server.supervisor import Inheritance, supervise

SECRET_SIZE = 32
"""Bytes of the secret that the workers of a gateway share."""


def serve(
    config: Path | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    no_auth: bool = False,
    reload: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT. The other parameters override the config.

    By default, the config is ./dragoman.toml if it exists, else the environment. With `reload`, a change of the config
    or of a Python file below the current folder replaces the workers: for the development of hooks.
    """
    run = partial(
        _run_worker,
        config=config,
        secret=os.urandom(SECRET_SIZE),
        no_auth=no_auth,
        host=host,
        port=port,
        workers=workers,
    )
    if not hasattr(os, "fork"):
        if reload:
            raise SetupError("reload must be False on this system, which cannot replace workers, got True")
        run(Inheritance())
        return
    if reload:
        from dragoman.gateway.server.source_watch import watch

        watch(Path.cwd(), config, partial(os.kill, os.getpid(), signal.SIGUSR1))
    supervise(run)


def _run_worker(*arguments: object, **options: object) -> None:
    gc.disable()  # until the worker listens: imports make many objects and hardly any garbage
    from dragoman.gateway.server.worker import run_worker

    run_worker(*arguments, **options)  # type: ignore[arg-type] # as they came
