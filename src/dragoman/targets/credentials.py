"""The contract of a credential: what signs the requests to a target, if its key is not a constant."""

from typing import Any, Protocol

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A key and the time at which it expires. Its repr does not show the key.

    >>> Token(value="sk-1", expires_at=1_800_000_000)
    Token([redacted], expires_at=1800000000)
    """

    value: str
    expires_at: float | None = None
    """Seconds since 1970; None if it is valid until a server rejects it."""

    def __repr__(self) -> str:
        return f"Token([redacted], expires_at={self.expires_at})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("expires_at", self.expires_at)]


class SigningRequest(Protocol):
    """What a credential needs: the effect `Sign` has it."""

    @property
    def request(self) -> HttpRequest:
        """The request with its final body."""
        ...

    @property
    def target(self) -> Target:
        """The target of the request."""
        ...

    @property
    def rejected(self) -> str | None:
        """The `secret` of a signed request that the server rejected."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds to wait for the key."""
        ...


class Credential(Protocol):
    """Signs requests, blocking and async. The signed request has its key as `secret`, so that it can be redacted."""

    source: str
    """Where the key comes from, for messages; never the key."""

    def sign(self, signing: SigningRequest, /) -> HttpRequest:
        """The signed request."""
        ...

    async def asign(self, signing: SigningRequest, /) -> HttpRequest:
        """The signed request."""
        ...
