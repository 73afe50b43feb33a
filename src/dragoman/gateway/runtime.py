"""A Config in, what answers requests out: names, targets, keys, what is remembered. A new config makes a new one."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from time import monotonic

from dragoman.engine.health import Health
from dragoman.errors import SetupError
from dragoman.gateway.accounting.accounting import Accounting
from dragoman.gateway.accounting.quotas import Quotas
from dragoman.gateway.auth.api_keys import Keys
from dragoman.gateway.catalog import Catalog
from dragoman.gateway.config import FILE, Config, Gateway, decode_config, fill
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.observability.tracing import Tracing
from dragoman.gateway.server.workers import Workers
from dragoman.gateway.sessions import ConversationStore, Responses
from dragoman.gateway.store import Store, open_store
from dragoman.registry import Registry


class Runtime:
    """What one config amounts to; what is remembered is that of the one before.

    >>> Runtime(Config(providers=frozenset({"demo"})), {}).catalog.models()[0].id
    'demo/any'
    """

    def __init__(
        self, config: Config, env: Mapping[str, str], before: "Runtime | None" = None, /, *, workers: int | None = None
    ) -> None:
        """`workers`: how many there are, where that is not what the config says."""
        self.config = config
        self.store: Store = open_store(config.gateway.store) if before is None else before.store
        self.conditions: SharedHealthStore = (
            SharedHealthStore(self.store, lock=Lock()) if before is None else before.conditions
        )
        self.accounting: Accounting = (
            _accounting(self.store, self.conditions, config.gateway, workers or config.gateway.workers)
            if before is None
            else before.accounting
        )
        self.sessions = ConversationStore(self.store)
        self.responses = Responses(self.store)
        self.keys = Keys(config.keys)
        self.registry: Registry = Registry(
            env=env,
            health=Health(conditions=self.conditions, clock=monotonic) if before is None else before.registry.health,
            http_client=None if before is None else before.registry.transport,
        )
        fill(self.registry, config)
        self.catalog = Catalog(self.registry, providers=config.providers, tiers=config.tiers, options=config.options)


def _accounting(store: Store, conditions: SharedHealthStore, gateway: Gateway, workers: int) -> Accounting:
    limits = Quotas(store, rates=gateway.rates_when_down, budgets=gateway.budgets_when_down)
    traces = Tracing() if gateway.traces else None
    return Accounting(
        store,
        limits=limits,
        conditions=conditions,
        traces=traces,
        log=AccessLog() if gateway.log else None,
        workers=Workers(store) if store.is_shared and workers > 1 else None,
    )


def read_config(path: Path | None, env: Mapping[str, str] | None = None, /) -> Config:
    """The config of a file; of ./dragoman.toml where none is named and that is there; otherwise of the environment.

    >>> read_config(None, {"GROQ_API_KEY": "k"}).providers == {"demo", "groq"}
    True
    """
    env = os.environ if env is None else env
    if path is None and not Path(FILE).exists():
        return decode_config("", env)
    try:
        text = (path or Path(FILE)).read_text(encoding="utf-8-sig")
        return decode_config(text, env)
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path or FILE}: cannot be read: {error}") from error
    except SetupError as error:
        raise SetupError(f"{path or FILE}: {error}") from error
