"""A request to the dashboard in, the operator's key out, or a refusal.

Without any keys it answers on a loopback address only, and only under a name of it: a page from elsewhere could have
its own name lead here (DNS rebinding). What changes something has to be JSON, which no page can send elsewhere unasked.
"""

from urllib.parse import urlsplit

from dragoman.errors import InvalidRequest
from dragoman.gateway.auth.api_keys import Key, Keys
from dragoman.gateway.auth.authenticate import identify_operator
from dragoman.gateway.errors import Forbidden
from dragoman.http import HttpRequest

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def check(http: HttpRequest, keys: Keys, /, *, is_local: bool) -> Key | None:
    """The key of an operator; None where none is needed.

    >>> check(HttpRequest(method="GET", path="/", headers={"host": "localhost:8080"}), Keys(), is_local=True) is None
    True
    """
    key = identify_operator(http, keys)
    if key is None and not (is_local and host_of(http) in LOCAL):
        raise Forbidden("the dashboard needs a key: add one with admin = true to [keys] of the config")
    if http.method != "GET" and http.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InvalidRequest("the body has to be application/json")
    return key


def host_of(http: HttpRequest, /) -> str | None:
    """The name under which we were called.

    >>> host_of(HttpRequest(method="GET", path="/", headers={"host": "[::1]:8080"}))
    '::1'
    """
    try:
        return urlsplit(f"//{http.headers.get('host', '')}").hostname
    except ValueError:
        return None
