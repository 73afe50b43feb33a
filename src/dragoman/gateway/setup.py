"""A Config in, what answers requests out: names, targets, health, connections. A new config makes a new one."""

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import SetupError
from dragoman.gateway.catalog import Catalog
from dragoman.gateway.config import FILE, Config, decode_config, fill
from dragoman.models import Registry


class Setup:
    """What one config amounts to; the health and the connections are those of the one before.

    >>> Setup(Config(providers=frozenset({"demo"})), {}).catalog.models()[0].id
    'demo/any'
    """

    def __init__(self, config: Config, env: Mapping[str, str], before: "Setup | None" = None, /) -> None:
        self.config = config
        self.registry: Registry = Registry(
            env=env,
            health=None if before is None else before.registry.health,
            http_client=None if before is None else before.registry.transport,
        )
        fill(self.registry, config)
        self.catalog = Catalog(self.registry, providers=config.providers, tiers=config.tiers, options=config.options)


def read_config(path: Path | None, env: Mapping[str, str] | None = None, /) -> Config:
    """The config of a file; of ./dragoman.toml where none is named and that is there; otherwise of the environment.

    >>> read_config(None, {"GROQ_API_KEY": "k"}).providers == {"demo", "groq"}
    True
    """
    env = os.environ if env is None else env
    if path is None and not Path(FILE).exists():
        return decode_config("", env)
    try:
        text = (path or Path(FILE)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path or FILE}: cannot be read: {error}") from error
    return decode_config(text, env)
