"""Run a batch on all machines of a Ray cluster, with one worker per machine."""

import os
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from itertools import cycle
from typing import Any

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.io.batch.row_sender import BatchSettings, RowOutcome, RowSender
from dragoman.targets.providers import PROVIDERS

MAX_RESTARTS = 3
"""How often Ray restarts the worker of a machine."""


def open_cluster(
    address: str, settings: BatchSettings, /
) -> tuple[Callable[[bytes], Awaitable[RowOutcome]], Callable[[], None]]:
    """A function that sends one row, and one that leaves the cluster.

    If the address is empty, Ray uses RAY_ADDRESS, or starts on this machine alone.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise SetupError("Ray is not installed; pip install 'dragoman[ray]'") from error
    ray.init(address=address or None, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    machines = len([node for node in ray.nodes() if node["Alive"]])
    settings = replace(settings, env=worker_env(os.environ))
    actor: Any = ray.remote(RowSender)
    options = {
        "max_concurrency": settings.concurrency,
        "max_restarts": MAX_RESTARTS,
        "max_task_retries": MAX_RESTARTS,
        "scheduling_strategy": "SPREAD",
        "num_cpus": 1,
    }
    workers = cycle([actor.options(**options).remote(settings) for _ in range(machines)])

    async def send(line: bytes) -> RowOutcome:
        outcome: RowOutcome = await next(workers).send.remote(line)
        return outcome

    return send, ray.shutdown


def worker_env(env: Mapping[str, str], /) -> dict[str, str]:
    """The variables that name providers, keys and addresses; no others are sent to other machines.

    >>> worker_env({"GROQ_API_KEY": "k", "HOME": "/home/me", "LLM_BOX": "ollama+http://box", "OPENAI_ORG_ID": "o"})
    {'GROQ_API_KEY': 'k', 'LLM_BOX': 'ollama+http://box', 'OPENAI_ORG_ID': 'o'}
    """
    names = {name for record in PROVIDERS.values() for name in record.variables}
    return {name: value for name, value in env.items() if name in names or name.startswith("LLM_")}
