"""The contract of a credential: what signs the requests to a target, if its key is not a constant."""

from typing import Any, Protocol

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types.checks import is_text
from dragoman.types.fields import check_struct
from dragoman.types.structs import CheckedStruct


class Token(CheckedStruct, frozen=True, kw_only=True):
    """A key and the time at which it expires. Its repr does not show the key.

    >>> Token(value="sk-1", expires_at=1_800_000_000)
    Token([redacted], expires_at=1800000000)
    """

    value: str
    expires_at: float | None = None
    """Seconds since 1970; None if it is valid until a server rejects it."""

    def __post_init__(self) -> None:
        if not is_key(self.value):  # it is not shown: it may be a key of a wrong type
            kind = "other characters" if is_text(self.value) else type(self.value).__name__
            raise InvalidRequest(f"value must be a str of printable ASCII characters, got {kind}", param="value")
        check_struct(self, without="value")

    def __repr__(self) -> str:
        return f"Token([redacted], expires_at={self.expires_at})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show the key.
        return [("expires_at", self.expires_at)]


def is_key(value: object, /) -> bool:
    """Whether a value is a key that can be sent, perhaps with blanks around it.

    >>> is_key("sk-1\\n"), is_key(5)
    (True, False)
    """
    text = value.strip() if isinstance(value, str) else ""
    return bool(text) and text.isascii() and text.isprintable()


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
