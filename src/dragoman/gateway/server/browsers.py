"""What web pages may do with the gateway: the `Host` and `Origin` headers, and CORS.

A gateway without keys answers everyone who can reach it, and a browser can reach it for any page that its user opens.
So without keys, `Host` must not be a name that a stranger could point to this machine (DNS rebinding), and `Origin`
must be the gateway itself or in the setting `origins` (cross-site requests). A gateway with keys needs no such check,
because a page does not have the key. Clients that are not browsers send no `Origin`.
"""

import ipaddress
import re
from functools import lru_cache

from dragoman.gateway.errors import Forbidden
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.response import GatewayResponse
from dragoman.http import HttpRequest

ANY = "*"
METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
DEFAULT_HEADERS = "authorization, content-type"
MAX_AGE = "600"
"""Seconds for which a browser keeps the answer to a preflight."""
_HOST = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::[0-9]*)?")


def check_browser(http: HttpRequest, runtime: Runtime, /) -> None:
    """Raise Forbidden if a page of another site may have sent this request to a gateway without keys."""
    if runtime.keys.all:
        return
    headers, settings = http.headers, runtime.config.gateway
    host = headers.get("host")
    if host is not None and not _is_own_host(host, settings.host_names):
        raise Forbidden(f"host {host[:200]!r} is not a name of this gateway; add it to host_names in [gateway]")
    origin = headers.get("origin")
    if origin is not None and not _is_allowed(origin, settings.origins) and _origin_host(origin) != host:
        raise Forbidden(f"origin {origin[:200]!r} may not use this gateway; add it to origins in [gateway]")


def preflight(http: HttpRequest, runtime: Runtime, /) -> GatewayResponse | None:
    """The response to a CORS preflight; None if the request is something else."""
    headers = http.headers
    origin = headers.get("origin")
    if http.method != "OPTIONS" or origin is None or "access-control-request-method" not in headers:
        return None
    allowed = cors_headers(http, runtime)
    if not allowed:
        raise Forbidden(f"origin {origin[:200]!r} may not use this gateway; add it to origins in [gateway]")
    allowed += [
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", headers.get("access-control-request-headers") or DEFAULT_HEADERS),
        ("access-control-max-age", MAX_AGE),
    ]
    if headers.get("access-control-request-private-network") == "true":
        allowed.append(("access-control-allow-private-network", "true"))
    return GatewayResponse(204, allowed, b"")


def cors_headers(http: HttpRequest, runtime: Runtime, /) -> list[tuple[str, str]]:
    """The headers that let a page of an allowed origin read the response."""
    origin, origins = http.headers.get("origin"), runtime.config.gateway.origins
    if origin is None or not _is_allowed(origin, origins):
        return []
    return [
        ("access-control-allow-origin", ANY if ANY in origins else origin),
        ("access-control-expose-headers", ANY),
        ("vary", "origin"),
    ]


def host_name(host: str, /) -> str | None:
    """The name in a `Host` header, without the port.

    >>> host_name("[::1]:8080"), host_name("[::1].evil.example")
    ('::1', None)
    """
    match = _HOST.fullmatch(host)
    return (match["name"] or match["address"]).lower() if match else None


def _origin_host(origin: str) -> str | None:
    scheme, _, host = origin.partition("://")
    return host if scheme in ("http", "https") else None


def _is_allowed(origin: str, origins: tuple[str, ...]) -> bool:
    return origin in origins or ANY in origins


@lru_cache(maxsize=256)
def _is_own_host(host: str, hosts: tuple[str, ...]) -> bool:
    return _is_own_name(host_name(host), hosts)


def _is_own_name(name: str | None, hosts: tuple[str, ...]) -> bool:
    """Whether no stranger can own the name: an address, a name without a dot, or one in the setting `host_names`."""
    if name is None:
        return False
    if "." not in name and ":" not in name:
        return True
    if name in hosts or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
