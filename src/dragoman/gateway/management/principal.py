"""Who uses the admin API, and what they may do there.

A gateway with keys requires a key with a role. A gateway without keys answers only on a loopback address, and only if
the `Host` header names that address: a page of another site could point its own name to 127.0.0.1 (DNS rebinding). The
body of a POST must be `application/json`, which a page of another site cannot send without a CORS preflight; the other
methods need one anyway.

`principal_of` is the only place that decides who somebody is. Another way to sign in, such as single sign-on, would
make a `Principal` here; nothing else has to change.
"""

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.gateway.auth.api_keys import Key, KeyRole
from dragoman.gateway.errors import Forbidden
from dragoman.gateway.server.browsers import host_name
from dragoman.http import HttpRequest

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
LOCAL_NAME = "local"
"""The name in the audit log of who uses a gateway without keys."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request to the admin API."""

    name: str
    role: KeyRole | None = None
    key: Key | None = None

    @property
    def may_view(self) -> bool:
        """Whether they may read everything."""
        return self.role in ("admin", "viewer")

    def may_manage(self, key: Key, /) -> bool:
        """Whether they may rotate, disable and enable a key."""
        return self.role == "admin" or (self.role == "owner" and self.owns(key))

    def owns(self, key: Key, /) -> bool:
        """Whether a key is theirs: the one that they use, or one of the same owner if their role is `owner`."""
        own = self.key
        if own is None:
            return False
        return key.id == own.id or (self.role == "owner" and own.owner is not None and key.owner == own.owner)


def principal_of(http: HttpRequest, key: Key | None, /, *, is_local: bool) -> Principal:
    """Who sent a request; raises Forbidden if the gateway has no keys and other machines can reach it."""
    if http.method == "POST" and http.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InvalidRequest("content-type must be application/json")
    if key is not None:
        return Principal(name=key.id, role="admin" if key.is_admin else key.role, key=key)
    if not (is_local and host_name(http.headers.get("host", "")) in LOCAL):
        raise Forbidden('the admin API needs a key with a role; add a key with role = "admin" to [keys] of the config')
    return Principal(name=LOCAL_NAME, role="admin")


def check_role(principal: Principal, needed: KeyRole | None, /) -> None:
    """Raise Forbidden unless the principal has a role, or a higher one. `None` needs only a key."""
    if needed is None or principal.role in ("admin", needed):
        return
    if needed == "owner" and principal.role == "viewer":
        return  # a viewer reads what owners read; what they may change is checked for each key
    expected = "admin" if needed == "admin" else f"{needed} or admin"
    raise Forbidden(f"role of {principal.name!r} must be {expected} for this, got {principal.role or 'none'}")
