"""Checks of the settings at the start of a gateway."""

import ipaddress
import logging
from typing import Any

from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.gateway.config import Config, GatewaySettings
from dragoman.gateway.management.manager import has_stored_keys

log = logging.getLogger("dragoman.gateway")


def override_settings(gateway: GatewaySettings, /, **values: Any) -> GatewaySettings:
    """The settings with values from the command line; None keeps the setting."""
    return replace(gateway, **{name: value for name, value in values.items() if value is not None})


def warn_if_not_shared(gateway: GatewaySettings, /) -> None:
    """Warn if several workers have no store to share conversations and usage."""
    if gateway.workers > 1 and gateway.store == "memory":
        log.warning(
            'store is "memory", so %d workers do not share conversations, stored responses and usage; '
            'set store = "sqlite:PATH" or "redis://HOST:PORT/DB"',
            gateway.workers,
        )


def check_auth(gateway: GatewaySettings, config: Config, /, *, no_auth: bool) -> None:
    """Raise SetupError if other machines could use the gateway without a key."""
    if not config.keys and not no_auth and not is_loopback(gateway.host) and not has_stored_keys(gateway.store):
        raise SetupError(
            f"gateway.host {gateway.host} can be reached from other machines, and there are no keys; "
            'add a key (dragoman keys new NAME), set host = "127.0.0.1", or use --no-auth'
        )


def check_shared_limits(gateway: GatewaySettings, config: Config, /) -> None:
    """Raise SetupError if every worker would count the limits of keys and teams separately."""
    has_limits = any(holder.has_limits for holder in (*config.keys, *config.teams))
    if gateway.workers > 1 and gateway.store == "memory" and has_limits:
        raise SetupError(
            f'gateway.store must be shared if there are limits and {gateway.workers} workers, got "memory"; '
            'set store = "sqlite:PATH" or "redis://HOST:PORT/DB"'
        )


def is_loopback(host: str, /) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(gateway: GatewaySettings, /) -> str:
    """The URL of the gateway."""
    scheme = "http" if gateway.tls_certificate is None else "https"
    return f"{scheme}://{f'[{gateway.host}]' if ':' in gateway.host else gateway.host}:{gateway.port}"
