"""Who may use the dashboard API.

A gateway with keys requires an admin key. A gateway without keys answers only on a loopback address, and only if the
`Host` header names that address: a page of another site could point its own name to 127.0.0.1 (DNS rebinding). A body
must be `application/json`, which a page of another site cannot send without a CORS preflight.
"""

from urllib.parse import urlsplit

from dragoman.errors import InvalidRequest
from dragoman.gateway.auth.api_keys import Key, Keys
from dragoman.gateway.auth.authenticate import identify_operator
from dragoman.gateway.errors import Forbidden
from dragoman.http import HttpRequest

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def check(http: HttpRequest, keys: Keys, /, *, is_local: bool) -> Key | None:
    """The operator's key, or None if the gateway needs no key. Everybody else gets an error."""
    key = identify_operator(http, keys)
    if key is None and not (is_local and host_of(http) in LOCAL):
        raise Forbidden("the dashboard needs an admin key; add a key with admin = true to [keys] of the config")
    if http.method != "GET" and http.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InvalidRequest("content-type must be application/json")
    return key


def host_of(http: HttpRequest, /) -> str | None:
    """The host name of the `Host` header, without the port."""
    try:
        return urlsplit(f"//{http.headers.get('host', '')}").hostname
    except ValueError:
        return None
