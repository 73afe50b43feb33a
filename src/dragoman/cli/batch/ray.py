"""Settings in, a way to ask from every machine of a Ray cluster out: the same asker, one a machine."""

import os
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from itertools import cycle
from typing import Any

from msgspec.structs import replace

from dragoman.cli.batch.asker import Asker, BatchSettings, RowOutcome
from dragoman.errors import SetupError
from dragoman.targets.providers import PROVIDERS

RESTARTS = 3
"""How often the asker of a machine is started anew."""


def open_cluster(
    address: str, settings: BatchSettings, /
) -> tuple[Callable[[bytes], Awaitable[RowOutcome]], Callable[[], None]]:
    """How to ask one row, and how to leave; no address is this machine alone, or what RAY_ADDRESS says."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise SetupError("Ray is not installed; pip install 'dragoman[ray]'") from error
    ray.init(address=address or None, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    machines = len([node for node in ray.nodes() if node["Alive"]])
    told = replace(settings, env=variables(os.environ))
    actor: Any = ray.remote(Asker)
    options = {
        "max_concurrency": settings.concurrency,
        "max_restarts": RESTARTS,
        "max_task_retries": RESTARTS,
        "scheduling_strategy": "SPREAD",
        "num_cpus": 1,
    }
    askers = cycle([actor.options(**options).remote(told) for _ in range(machines)])

    async def ask(line: bytes) -> RowOutcome:
        outcome: RowOutcome = await next(askers).ask.remote(line)
        return outcome

    return ask, ray.shutdown


def variables(env: Mapping[str, str], /) -> dict[str, str]:
    """The variables that say who answers, as whom and where: what another machine must know, and nothing more.

    >>> variables({"GROQ_API_KEY": "k", "HOME": "/home/me", "LLM_BOX": "ollama+http://box"})
    {'GROQ_API_KEY': 'k', 'LLM_BOX': 'ollama+http://box'}
    """
    names = {name for record in PROVIDERS.values() for name in (*record.key_names, *record.base_url_names)}
    return {name: value for name, value in env.items() if name in names or name.startswith("LLM_")}
