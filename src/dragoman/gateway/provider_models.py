"""The models that providers list themselves: for model lists, and for bare names of models.

The gateway calls a provider when its list is first needed. After that the list is cached: an old one is used while a
new one is fetched in the background. A provider that does not answer has no list, and is called again after a minute.
Nobody waits longer than `FIRST_WAIT` seconds, and the health of targets is not affected.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from dragoman.engine.call_context import Timeouts
from dragoman.engine.endpoints import list_models
from dragoman.engine.failover import ChainOptions
from dragoman.errors import DragomanError, SetupError
from dragoman.registry import Registry
from dragoman.targets.providers import OTHER_NAMES
from dragoman.targets.target import Target
from dragoman.types import ModelInfo

log = logging.getLogger("dragoman.gateway")

FRESH = 600.0
"""Seconds until a list is fetched again."""
RETRY = 60.0
"""Seconds until a provider that failed is called again."""
FIRST_WAIT = 3.0
"""Seconds to wait for lists that are not there yet."""
MAX_MODELS = 5000
"""Models of one provider."""
OPTIONS = ChainOptions(retries=0, timeouts=Timeouts(total=20.0, connect=5.0))
DEMO = "demo"
"""Its list has only examples of failures."""


class ModelList(msgspec.Struct, frozen=True):
    """The list of one provider."""

    source: tuple[object, ...]
    """What the list depends on: another key or address may have other models."""
    due: float
    """When it is fetched again."""
    models: tuple[ModelInfo, ...] | None = None
    """None if the provider did not answer."""
    ids: frozenset[str] = frozenset()


class ProviderModels:
    """The lists of the providers of one config; `previous` has those of the config before it."""

    def __init__(
        self,
        registry: Registry,
        providers: Iterable[str],
        previous: "ProviderModels | None" = None,
        /,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        names = frozenset(providers)
        others = {other for name in names for other in OTHER_NAMES.get(name, ())}
        self._registry = registry
        self._names = tuple(sorted(names - others - {DEMO}))
        self._clock = clock
        self._lists: dict[str, ModelList] = {} if previous is None else dict(previous._lists)  # noqa: SLF001 - its own
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def all(self) -> Mapping[str, ModelList]:
        """The lists by provider; providers without a list are not there."""
        targets = {name: target for name in self._names if (target := self._target(name)) is not None}
        now, waiting = self._clock(), list[asyncio.Task[None]]()
        for name, target in targets.items():
            source = target.wire, target.base_url, target.api_key, target.identity
            known = self._lists.get(name)
            if known is not None and known.source != source:
                del self._lists[name]
                known = None
            if (known is None or now >= known.due) and name not in self._tasks:
                self._tasks[name] = asyncio.create_task(self._fetch(name, target, source))
            if known is None:
                waiting.append(self._tasks[name])
        if waiting:
            await asyncio.wait(waiting, timeout=FIRST_WAIT)
        lists = {name: self._lists[name] for name in targets if name in self._lists}
        return {name: each for name, each in lists.items() if each.models is not None}

    def _target(self, name: str) -> Target | None:
        try:
            target = self._registry.target(f"{name}/any")
        except (SetupError, DragomanError):
            return None  # a pool, or a provider without a base URL
        return None if target.lacks_key else target

    async def _fetch(self, name: str, target: Target, source: tuple[object, ...]) -> None:
        models: tuple[ModelInfo, ...] | None
        try:
            models = await self._registry.driver.arun(list_models(target, OPTIONS))
            due = self._clock() + FRESH
        except (DragomanError, SetupError) as error:
            log.info("the models of %s cannot be listed: %s", name, type(error).__name__)
            old = self._lists.get(name)
            models = None if old is None else old.models  # an old list is better than none
            due = self._clock() + RETRY
        finally:
            self._tasks.pop(name, None)
        models = None if models is None else models[:MAX_MODELS]
        self._lists[name] = ModelList(source, due, models, frozenset(model.id for model in models or ()))

    def close(self) -> None:
        """Stop asking."""
        for task in tuple(self._tasks.values()):
            task.cancel()


def as_listed(provider: str, model: ModelInfo, /) -> ModelInfo:
    """A model of a provider under the name by which clients of the gateway ask for it."""
    return replace(model, id=f"{provider}/{model.id}")
