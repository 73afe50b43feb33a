"""The gateway config and the gateway store that a command works on."""

import os
from argparse import Namespace
from pathlib import Path

from msgspec.structs import replace

from dragoman.cli.parser import config_path
from dragoman.errors import SetupError
from dragoman.gateway.config import FILE, Config
from dragoman.gateway.runtime import read_gateway_config, read_gateway_settings
from dragoman.gateway.server.start_checks import address
from dragoman.gateway.store import Store, open_store
from dragoman.http import split_base_url


def gateway_config(arguments: Namespace, /) -> Config:
    """Read the config that `--config` or its default names."""
    path = config_path(arguments)
    return read_gateway_config(None if path is None else Path(path))


def gateway_url(arguments: Namespace, /) -> str:
    """The running gateway: `--gateway`, DRAGOMAN_GATEWAY, or the address in the config."""
    if named := arguments.gateway or os.environ.get("DRAGOMAN_GATEWAY"):
        try:
            split_base_url(named)
        except SetupError as error:
            source = "--gateway" if arguments.gateway else "DRAGOMAN_GATEWAY"
            raise SetupError(str(error).replace("base_url", source, 1)) from error
        return str(named)
    path = config_path(arguments)
    settings = read_gateway_settings(None if path is None else Path(path))
    return address(replace(settings, host=_ANY_ADDRESS.get(settings.host, settings.host)))


_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it is called, not listened at
"""Hosts that are every address of this machine, and the one to call."""


def gateway_store(arguments: Namespace, /) -> Store:
    """Open the store of the config. A store in memory belongs to one gateway process, so it is an error here."""
    url = gateway_config(arguments).gateway.store
    if url == "memory":
        path = config_path(arguments)
        if path is None and not Path(FILE).exists():
            raise SetupError(f"there is no {FILE} in this folder; name the config of the gateway with --config FILE")
        raise SetupError(
            f'{path or FILE}: store must be shared with the gateway, got "memory"; '
            'set store = "sqlite:PATH" or a redis:// URL in [gateway]'
        )
    return open_store(url)
