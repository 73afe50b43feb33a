"""The objects that a running gateway is made of, set up from its config."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TypeVar

from dragoman.engine.health import Health
from dragoman.errors import SetupError
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.accounting.deployment_limits import StoredDeploymentLimits
from dragoman.gateway.accounting.pricing import price_names
from dragoman.gateway.accounting.quotas import Quotas
from dragoman.gateway.auth.api_keys import Keys
from dragoman.gateway.batch_store import BatchStore
from dragoman.gateway.catalog import Catalog
from dragoman.gateway.config import (
    FILE,
    Config,
    GatewaySettings,
    configure_registry,
    decode_config,
    decode_gateway_settings,
)
from dragoman.gateway.conversations import ConversationStore, ResponseStore
from dragoman.gateway.files import FileStore
from dragoman.gateway.hooks.base import HookServices
from dragoman.gateway.hooks.settings import OWN, make_hooks
from dragoman.gateway.item_lists import ItemListStore
from dragoman.gateway.management.managed_state import EMPTY, ManagedState, merge
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.alerts import Alerts
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.observability.tracing import Tracing
from dragoman.gateway.provider_models import ProviderModels
from dragoman.gateway.reasoning.vault import ReasoningVault
from dragoman.gateway.response_cache import ResponseCache
from dragoman.gateway.server.workers import Workers
from dragoman.gateway.store import Store, open_store
from dragoman.gateway.stored_chats import ChatStore
from dragoman.gateway.webhooks import Webhooks
from dragoman.registry import Registry
from dragoman.targets.health_policy import HealthPolicy
from dragoman.wires.common.item_cache import ItemCache

T = TypeVar("T")


class Runtime:
    """Everything that one config sets up.

    A reload makes a new Runtime from the `previous` one: the new config applies, but the store, the accounting, the
    health of targets and the open connections stay.
    """

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        previous: "Runtime | None" = None,
        /,
        *,
        managed: ManagedState | None = None,
        workers: int | None = None,
        process_secret: bytes | None = None,
    ) -> None:
        """`managed`: what was changed at run time, by default as before.

        `workers`: the number of worker processes, if it is not the config's; `process_secret`: what they share.
        """
        self.base = config
        """The config of the file."""
        self.env = env
        self.managed: ManagedState = managed or (EMPTY if previous is None else previous.managed)
        merged = merge(config, self.managed, env)
        self.config = config = merged.config
        self.problems = merged.problems
        """Why run-time changes do not apply."""
        self.file_problem: str | None = previous.file_problem if previous and previous.base is self.base else None
        """Why the config file was rejected when it changed."""
        if previous is None:
            self.store: Store = open_store(config.gateway.store)
            self.shared_health = SharedHealthStore(self.store, lock=Lock())
            self.workers = workers or config.gateway.workers
            self.accounting = _accounting(self.store, self.shared_health, config.gateway, self.workers)
            health, transport = Health(store=self.shared_health, clock=monotonic), None
        else:
            self.store, self.shared_health = previous.store, previous.shared_health
            self.accounting, self.workers = previous.accounting, previous.workers
            health, transport = previous.registry.health, previous.registry.transport
            health.policy = HealthPolicy()  # the new config may have no table [health]
        limits = config.gateway
        self.conversations = ConversationStore(self.store)
        self.responses = ResponseStore(self.store, max_bytes=2 * limits.max_body)
        self.item_lists = ItemListStore(self.store, max_bytes=limits.max_body, max_objects=limits.max_objects)
        self.chats = ChatStore(self.store)
        self.files = FileStore(self.store, max_bytes=limits.max_file_storage)
        self.batches = BatchStore(self.store, self.files)
        self.reasoning = self._vault(previous, process_secret)
        self.cache = self._response_cache(previous)
        self.keys = Keys(config.keys, config.teams)
        self.registry: Registry = Registry(env=env, health=health, http_client=transport)
        configure_registry(self.registry, config)
        prices = self.accounting.prices
        prices.names = names = price_names(self.registry)
        has_others = bool(self.registry.pools or config.options.fallbacks)  # their providers need no table of their own
        prices.is_needed = has_others or any(names.get(name, name) is not None for name in config.providers)
        health.loads.processes = 1 if self.store.is_shared else self.workers
        if self.store.is_shared:
            self.registry.driver.limits = StoredDeploymentLimits(self.accounting.quotas)
        webhooks = self.accounting.webhooks
        webhooks.driver = self.registry.driver
        self.accounting.alerts = self._alerts(webhooks)
        self.hooks = make_hooks(config.hooks, HookServices(self.registry, webhooks))
        # Requests share what is in the cache, and a hook of somebody else may change it.
        self.item_cache = ItemCache() if all(each.use in OWN for each in config.hooks) else None
        listed = ProviderModels(self.registry, config.providers, None if previous is None else previous.catalog.listed)
        self.catalog: Catalog = Catalog(
            self.registry, providers=config.providers, tiers=config.tiers, options=config.options, listed=listed
        )

    def _alerts(self, webhooks: Webhooks) -> Alerts | None:
        settings, alerts = self.config.alerts, self.accounting.alerts
        if settings is None or (alerts is not None and alerts.settings == settings):
            return None if settings is None else alerts
        return Alerts(settings, self.store, webhooks)

    def _response_cache(self, previous: "Runtime | None") -> ResponseCache | None:
        """The cache of the config; a reload keeps it if its settings are the same."""
        settings = self.config.cache
        if previous is not None and previous.config.cache == settings:
            return previous.cache
        return None if settings is None else ResponseCache(settings)

    async def aclose(self) -> None:
        """Close the connections and stores. Call it after all requests have ended."""
        self.catalog.listed.close()
        self.registry.close()
        if self.cache is not None:
            await self.cache.aclose()
        await self.store.aclose()

    def _vault(self, previous: "Runtime | None", process_secret: bytes | None) -> ReasoningVault:
        secret = self.config.gateway.reasoning_key
        if previous is not None and previous.config.gateway.reasoning_key == secret:
            return previous.reasoning
        return ReasoningVault(self.store, secret=secret, process_secret=process_secret)


def _accounting(store: Store, shared_health: SharedHealthStore, gateway: GatewaySettings, workers: int) -> Accounting:
    return Accounting(
        store,
        quotas=Quotas(store, rates=gateway.rates_when_down, budgets=gateway.budgets_when_down),
        shared_health=shared_health,
        tracing=Tracing() if gateway.traces else None,
        log=AccessLog() if gateway.log else None,
        metrics=Metrics(gateway.metric_labels),
        workers=Workers(store) if store.is_shared and workers > 1 else None,
    )


def read_gateway_config(path: Path | None, env: Mapping[str, str] | None = None, /) -> Config:
    """Read the config file; by default ./dragoman.toml if it exists, else the environment."""
    return _read_file(path, env, decode_config)


def read_gateway_settings(path: Path | None, env: Mapping[str, str] | None = None, /) -> GatewaySettings:
    """Read only the table [gateway] of the config file."""
    return _read_file(path, env, decode_gateway_settings)


def _read_file(path: Path | None, env: Mapping[str, str] | None, decode: Callable[[str, Mapping[str, str]], T]) -> T:
    env = os.environ if env is None else env
    if path is None and not Path(FILE).exists():
        return decode("", env)
    try:
        return decode((path or Path(FILE)).read_text(encoding="utf-8-sig"), env)
    except OSError as error:
        raise SetupError(f"{path or FILE}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{path or FILE}: the file must be UTF-8 text (error at byte {error.start})") from error
    except SetupError as error:
        raise SetupError(f"{path or FILE}: {error}") from error
