"""A key that a client sent in, whose it is out; a new key in one line. Only salted digests are kept.

A key has 256 random bits, so one fast digest is as safe as a slow one, and costs a microsecond a request.
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

SHORTEST = 24
"""Characters of a key that nobody can guess."""
ID = r"[\w.@-]{1,64}"
"""What a key may be called: it stands in logs and in the names of meters."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""Whole numbers that every store can count to."""
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class KeyBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a key may use in a day or a month (UTC): tokens, or dollars, or both.

    >>> KeyBudget(per="day", tokens=1_000_000).dollars is None
    True
    """

    per: Literal["day", "month"]
    tokens: Count | None = None
    dollars: Dollars | None = None

    def __post_init__(self) -> None:
        """Refuse one that limits nothing."""
        if self.tokens is None and self.dollars is None:
            raise ValueError(f"the budget of a {self.per} has neither tokens nor dollars")


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A client's key as the config has it: its digest, and what it may.

    >>> Key(id="team", hash="b2:00:00:00", models=("groq/*",)).may_use("groq/llama")
    True
    """

    id: str
    hash: str
    models: tuple[str, ...] = ("*",)
    """Globs of what may be asked for."""
    admin: bool = False
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrent: Count | None = None
    budgets: tuple[KeyBudget, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no digest, and two budgets that would be counted as one."""
        if len(self.hash.split(":")) != 4 or not self.hash.startswith("b2:"):
            raise ValueError("hash: no hash of a key; make one with `dragoman keys new NAME`")
        if not re.fullmatch(ID, self.id):
            raise ValueError(f"{self.id!r} is no name of a key: letters, digits and . @ _ - only, at most 64")
        kinds = [
            (budget.per, unit) for budget in self.budgets for unit in ("tokens", "dollars") if getattr(budget, unit)
        ]
        if len(kinds) > len(set(kinds)):
            raise ValueError("budgets: two of them limit the same")

    @property
    def is_limited(self) -> bool:
        """Whether anything of it has to be counted."""
        rates = self.requests_per_minute, self.tokens_per_minute, self.concurrent
        return bool(self.budgets) or any(limit is not None for limit in rates)

    def __repr__(self) -> str:
        """Without its digest."""
        return f"Key({self.id!r})"

    def may_use(self, model: str, /) -> bool:
        """Whether a model, an alias or a tier may be asked for."""
        return any(fnmatchcase(model, glob) for glob in self.models)


class Keys:
    """All keys of a gateway. Looking one up takes one digest, whoever asks.

    >>> plain, hash = new_key()
    >>> Keys([Key(id="team", hash=hash)]).check(plain).id
    'team'
    >>> Keys([Key(id="team", hash=hash)]).check("sk-dm-wrong") is None
    True
    """

    def __init__(self, keys: Iterable[Key] = (), /) -> None:
        self.all: Sequence[Key] = tuple(keys)
        self._by_tag: dict[str, list[Key]] = {}
        for key in self.all:
            self._by_tag.setdefault(key.hash.split(":")[1], []).append(key)

    def check(self, plain: str, /) -> Key | None:
        """The key that this is the plain text of."""
        data = plain.encode(errors="surrogatepass")
        for key in self._by_tag.get(_tag(data), ()):
            _, _, salt, digest = key.hash.split(":")
            if hmac.compare_digest(_digest(data, salt).encode(), digest.encode()):
                return key
        return None


def new_key() -> tuple[str, str]:
    """A key, to be given to a client and shown once, and its hash, to be kept.

    >>> plain, hash = new_key()
    >>> plain[:6], hash[:3]
    ('sk-dm-', 'b2:')
    """
    plain = f"sk-dm-{token_urlsafe(32)}"
    return plain, hash_key(plain)


def hash_key(plain: str, /) -> str:
    """The hash of a key that was made elsewhere; it has to be long and random.

    >>> hash_key("too short")
    Traceback (most recent call last):
    dragoman.errors.SetupError: a key of 9 characters can be guessed; take at least 24 random ones
    """
    if len(plain) < SHORTEST:
        raise SetupError(f"a key of {len(plain)} characters can be guessed; take at least {SHORTEST} random ones")
    data, salt = plain.encode(errors="surrogatepass"), token_hex(16)
    return f"b2:{_tag(data)}:{salt}:{_digest(data, salt)}"


def _tag(data: bytes) -> str:
    """Which keys this may be: too little of a digest to find a key by."""
    return blake2b(data, digest_size=4).hexdigest()


def _digest(data: bytes, salt: str) -> str:
    return blake2b(data, digest_size=32, key=salt.encode()[:64]).hexdigest()
