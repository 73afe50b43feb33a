"""Who may use the dashboard API.

A gateway with keys requires an admin key. A gateway without keys answers only on a loopback address, and only if the
`Host` header names that address: a page of another site could point its own name to 127.0.0.1 (DNS rebinding). A body
must be `application/json`, which a page of another site cannot send without a CORS preflight.
"""

from dragoman.errors import InvalidRequest
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.auth.authenticate import check_operator
from dragoman.gateway.errors import Forbidden
from dragoman.gateway.server.browsers import host_name
from dragoman.http import HttpRequest

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def check(http: HttpRequest, key: Key | None, /, *, is_local: bool) -> None:
    """Raise an error unless the key is an operator's, or the gateway has no keys and only this machine reaches it."""
    check_operator(key)
    if key is None and not (is_local and host_name(http.headers.get("host", "")) in LOCAL):
        raise Forbidden("the dashboard needs an admin key; add a key with admin = true to [keys] of the config")
    if http.method != "GET" and http.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InvalidRequest("content-type must be application/json")
