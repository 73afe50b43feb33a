"""The gateway config and the gateway store that a command works on."""

from argparse import Namespace
from pathlib import Path

from dragoman.cli.parser import config_path
from dragoman.errors import SetupError
from dragoman.gateway.config import Config
from dragoman.gateway.runtime import read_config
from dragoman.gateway.store import Store, open_store


def gateway_config(arguments: Namespace, /) -> Config:
    """Read the config that `--config` or its default names."""
    path = config_path(arguments)
    return read_config(None if path is None else Path(path))


def gateway_store(arguments: Namespace, /) -> Store:
    """Open the store of the config. A store in memory belongs to one gateway process, so it is an error here."""
    url = gateway_config(arguments).gateway.store
    if url == "memory":
        raise SetupError(
            'store must be shared with the gateway, got "memory"; '
            'set store = "sqlite:PATH" or a redis:// URL in [gateway] of the config'
        )
    return open_store(url)
