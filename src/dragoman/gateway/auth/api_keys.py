"""API keys of clients: making them, hashing them, and finding out whose a key is.

Only salted digests are stored. A key has 256 random bits, so a fast digest is as safe as a slow one, and costs a
microsecond per request.
"""

import hmac
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from secrets import token_hex, token_urlsafe
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.errors import SetupError

MIN_LENGTH = 24
"""Characters of a key: a shorter one could be guessed."""
ID = r"[\w.@-]{1,64}"
"""The name of a key: it is part of log lines and of the names of counters."""

MAX_LABEL = 128
"""Characters of a tag or an owner."""

KeyRole: TypeAlias = Literal["admin", "viewer", "owner"]
"""What a key may do in the admin API: everything, read everything, or manage the keys of its owner."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""Numbers that every store can count to."""
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


def check_id(id: str, /) -> str:
    """The id of a key; ValueError if it is not valid."""
    if not re.fullmatch(ID, id):
        raise ValueError(f"the name of a key must be 1 to 64 letters, digits or . @ _ -, got {id!r}")
    return id


class KeyBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a key or a team may use in a day, a week (from Monday) or a month (UTC): tokens, dollars, or both."""

    per: Literal["day", "week", "month"]
    """The period; a week begins on Monday, and all periods at midnight UTC."""
    tokens: Count | None = None
    """Tokens of prompts and answers together."""
    dollars: Dollars | None = None
    """Dollars by the price list; a model without a known price does not use them."""

    def __post_init__(self) -> None:
        if self.tokens is None and self.dollars is None:
            raise ValueError(f"the budget per {self.per} must have tokens or dollars")


class LimitHolder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a key and a team have in common: the models that they may use, and their limits."""

    id: str
    """Its name."""
    models: tuple[str, ...] = ("*",)
    """Patterns of the models, aliases and tiers that it may use."""
    requests_per_minute: Count | None = None
    """Requests in any 60 seconds."""
    tokens_per_minute: Count | None = None
    """Tokens of prompts and answers in any 60 seconds."""
    concurrent: Count | None = None
    """Requests at the same time."""
    budgets: tuple[KeyBudget, ...] = ()
    """What may be used in a day, a week or a month."""
    disabled: bool = False
    """Whether all its requests are refused."""
    cache: bool = False
    """Whether its requests use the response cache."""
    tags: tuple[str, ...] = ()
    """Words of your own, by which usage can be grouped."""

    def __post_init__(self) -> None:
        check_id(self.id)
        kinds = [
            (budget.per, unit) for budget in self.budgets for unit in ("tokens", "dollars") if getattr(budget, unit)
        ]
        if len(kinds) > len(set(kinds)):
            raise ValueError("budgets must limit different things, got two for the same period and unit")
        if (tag := next((tag for tag in self.tags if not 0 < len(tag) <= MAX_LABEL), None)) is not None:
            raise ValueError(f"tags must have 1 to {MAX_LABEL} characters each, got {len(tag)}")

    @property
    def has_limits(self) -> bool:
        """Whether it has any limit of its own."""
        rates = self.requests_per_minute, self.tokens_per_minute, self.concurrent
        return bool(self.budgets) or any(limit is not None for limit in rates)

    def allows(self, model: str, /) -> bool:
        """Whether its own patterns fit a model."""
        return any(fnmatchcase(model, glob) for glob in self.models)


class Team(LimitHolder, frozen=True, kw_only=True):
    """A group of keys. Its limits hold for all of them together, in addition to their own."""

    def __repr__(self) -> str:
        return f"Team({self.id!r})"


class Key(LimitHolder, frozen=True, kw_only=True):
    """An API key: its hash, and what it may use."""

    hash: str
    """The hash of the key, from `dragoman keys new`; the key itself is nowhere stored."""
    admin: bool = False
    """The same as `role = "admin"`."""
    role: KeyRole | None = None
    """What it may do in the admin API; None is nothing but to read its own record."""
    owner: str | None = None
    """Who it belongs to, such as an email address; the role `owner` manages all keys of the same owner."""
    team: str | None = None
    """The team whose limits hold, too."""
    expires_at: datetime | None = None
    """From this moment on it is refused."""
    previous_hash: str | None = None
    """The hash before the last rotation, which is accepted until `previous_until`."""
    previous_until: datetime | None = None
    """Until when the key before the last rotation is accepted."""
    created_at: datetime | None = None
    """When it was made, if it is in the store."""
    team_record: Team | None = None
    """The team itself; `Keys` fills it in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hash", "previous_hash"):
            hash = getattr(self, name)
            if (hash is not None or name == "hash") and not _is_hash(hash):
                raise ValueError(f"{name} must be the hash of a key; make one with `dragoman keys new NAME`")
        for name in ("expires_at", "previous_until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name} must have a time zone, such as 2027-01-31T00:00:00Z")
        if self.owner is not None and not 0 < len(self.owner) <= MAX_LABEL:
            raise ValueError(f"owner must have 1 to {MAX_LABEL} characters, got {len(self.owner)}")
        if self.role == "owner" and self.owner is None:
            raise ValueError('owner is required for role = "owner"')

    @property
    def is_admin(self) -> bool:
        """Whether it may change everything."""
        return self.admin or self.role == "admin"

    @property
    def may_view(self) -> bool:
        """Whether it may read everything that operators see."""
        return self.is_admin or self.role == "viewer"

    @property
    def is_limited(self) -> bool:
        """Whether it or its team has any limit."""
        return self.has_limits or (self.team_record is not None and self.team_record.has_limits)

    @property
    def uses_cache(self) -> bool:
        """Whether its requests or those of its team use the response cache."""
        return self.cache or (self.team_record is not None and self.team_record.cache)

    @property
    def has_budgets(self) -> bool:
        """Whether it or its team has a budget."""
        return bool(self.budgets) or (self.team_record is not None and bool(self.team_record.budgets))

    @property
    def limits_concurrency(self) -> bool:
        """Whether it or its team has a limit of concurrent requests."""
        return self.concurrent is not None or (self.team_record is not None and self.team_record.concurrent is not None)

    def refusal(self, now: float, /) -> str | None:
        """Why the key is not accepted at a time; None if it is."""
        if self.disabled:
            return f"key {self.id!r} is disabled"
        if self.team is not None and (self.team_record is None or self.team_record.disabled):
            return f"team {self.team!r} is {'disabled' if self.team_record else 'unknown'}"
        if self.expires_at is not None and now >= self.expires_at.timestamp():
            return f"key {self.id!r} has expired"
        return None

    def may_use(self, model: str, /) -> bool:
        """Whether the key and its team may use a model, an alias or a tier."""
        return self.allows(model) and (self.team_record is None or self.team_record.allows(model))

    def __repr__(self) -> str:
        return f"Key({self.id!r})"


class _Secret(NamedTuple):
    """One hash of a key, in its parts."""

    salt: bytes
    digest: bytes
    key: Key
    until: float | None


class Keys:
    """All keys of a gateway. A lookup takes one digest, however many keys there are."""

    def __init__(self, keys: Iterable[Key] = (), teams: Iterable[Team] = (), /) -> None:
        self.teams: Mapping[str, Team] = {team.id: team for team in teams}
        self.all: Sequence[Key] = tuple(self._with_team(key) for key in keys)
        self._by_prefix: dict[str, list[_Secret]] = {}
        for key in self.all:
            self._add(key.hash, key, None)
            if key.previous_hash is not None and key.previous_until is not None:
                self._add(key.previous_hash, key, key.previous_until.timestamp())

    def _with_team(self, key: Key) -> Key:
        return key if key.team is None else replace(key, team_record=self.teams.get(key.team))

    def _add(self, hash: str, key: Key, until: float | None) -> None:
        _, prefix, salt, digest = hash.split(":")
        self._by_prefix.setdefault(prefix, []).append(_Secret(salt.encode()[:64], digest.encode(), key, until))

    def check(self, plain: str, /) -> Key | None:
        """The key with this plain text; None if there is none. A hash from before a rotation may have ended."""
        data = plain.encode(errors="surrogatepass")
        for secret in self._by_prefix.get(_prefix(data), ()):
            if hmac.compare_digest(_digest(data, secret.salt).encode(), secret.digest):
                return secret.key if secret.until is None or time.time() < secret.until else None
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
    return f"b2:{_prefix(data)}:{salt}:{_digest(data, salt.encode())}"


def _prefix(data: bytes) -> str:
    """Selects the keys to compare with; too short a digest to find a key by."""
    return blake2b(data, digest_size=4).hexdigest()


def _digest(data: bytes, salt: bytes) -> str:
    return blake2b(data, digest_size=32, key=salt).hexdigest()


def _is_hash(text: str | None) -> bool:
    return text is not None and text.startswith("b2:") and len(text.split(":")) == 4
