"""API keys of clients: making them, hashing them, and finding out whose a key is.

Only salted digests are stored. A key has 256 random bits, so a fast digest is as safe as a slow one, and costs a
microsecond per request.
"""

import hmac
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from secrets import token_hex, token_urlsafe
from typing import Annotated, Literal, TypeAlias

import msgspec

from dragoman.errors import SetupError

MIN_LENGTH = 24
"""Characters of a key: a shorter one could be guessed."""
ID = r"[\w.@-]{1,64}"
"""The name of a key: it is part of log lines and of the names of counters."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""Numbers that every store can count to."""
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


def check_id(id: str, /) -> str:
    """The id of a key; ValueError if it is not valid."""
    if not re.fullmatch(ID, id):
        raise ValueError(f"the name of a key must be 1 to 64 letters, digits or . @ _ -, got {id!r}")
    return id


class KeyBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a key may use in a day or a month (UTC): tokens, dollars, or both."""

    per: Literal["day", "month"]
    tokens: Count | None = None
    dollars: Dollars | None = None

    def __post_init__(self) -> None:
        if self.tokens is None and self.dollars is None:
            raise ValueError(f"the budget per {self.per} must have tokens or dollars")


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An API key in the config: its hash, and what it may use."""

    id: str
    hash: str
    models: tuple[str, ...] = ("*",)
    """Patterns of the models, aliases and tiers that it may use."""
    admin: bool = False
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrent: Count | None = None
    budgets: tuple[KeyBudget, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hash.split(":")) != 4 or not self.hash.startswith("b2:"):
            raise ValueError("hash must be the hash of a key; make one with `dragoman keys new NAME`")
        check_id(self.id)
        kinds = [
            (budget.per, unit) for budget in self.budgets for unit in ("tokens", "dollars") if getattr(budget, unit)
        ]
        if len(kinds) > len(set(kinds)):
            raise ValueError("budgets must limit different things, got two for the same period and unit")

    @property
    def is_limited(self) -> bool:
        """Whether it has any limit."""
        rates = self.requests_per_minute, self.tokens_per_minute, self.concurrent
        return bool(self.budgets) or any(limit is not None for limit in rates)

    def __repr__(self) -> str:
        return f"Key({self.id!r})"

    def may_use(self, model: str, /) -> bool:
        """Whether the key may use a model, an alias or a tier."""
        return any(fnmatchcase(model, glob) for glob in self.models)


class Keys:
    """All keys of a gateway. A lookup takes one digest, however many keys there are."""

    def __init__(self, keys: Iterable[Key] = (), /) -> None:
        self.all: Sequence[Key] = tuple(keys)
        self._by_prefix: dict[str, list[Key]] = {}
        for key in self.all:
            self._by_prefix.setdefault(key.hash.split(":")[1], []).append(key)

    def check(self, plain: str, /) -> Key | None:
        """The key with this plain text; None if there is none."""
        data = plain.encode(errors="surrogatepass")
        for key in self._by_prefix.get(_prefix(data), ()):
            _, _, salt, digest = key.hash.split(":")
            if hmac.compare_digest(_digest(data, salt).encode(), digest.encode()):
                return key
        return None


def new_key() -> tuple[str, str]:
    """A new key, to show once, and its hash, to store."""
    plain = f"sk-dm-{token_urlsafe(32)}"
    return plain, hash_key(plain)


def hash_key(plain: str, /) -> str:
    """The hash of a key that was made elsewhere."""
    if len(plain) < MIN_LENGTH:
        raise SetupError(f"a key must have at least {MIN_LENGTH} random characters, got {len(plain)}")
    data, salt = plain.encode(errors="surrogatepass"), token_hex(16)
    return f"b2:{_prefix(data)}:{salt}:{_digest(data, salt)}"


def _prefix(data: bytes) -> str:
    """Selects the keys to compare with; too short a digest to find a key by."""
    return blake2b(data, digest_size=4).hexdigest()


def _digest(data: bytes, salt: str) -> str:
    return blake2b(data, digest_size=32, key=salt.encode()[:64]).hexdigest()
