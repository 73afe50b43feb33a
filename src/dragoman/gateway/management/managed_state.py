"""What operators changed at run time, and how it is merged with the config file.

The file is the base. A name in the state replaces the same name of the file; None removes it. The state is one value in
the store, so that a change is one compare-and-swap. The newest changes are part of it: no change is without its entry
in the audit log.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.errors import SetupError
from dragoman.gateway.auth.api_keys import Key, LimitHolder, Team
from dragoman.gateway.config import Config, decode_tables
from dragoman.types import JsonObject, is_object

H = TypeVar("H", bound=LimitHolder)
TableKind: TypeAlias = Literal["aliases", "tiers", "pools", "providers"]
TABLE_KINDS: Final[tuple[TableKind, ...]] = ("aliases", "tiers", "pools", "providers")
MAX_KEYS = 10_000
"""Keys in the store: every change writes the whole state."""
RECENT_CHANGES = 50
"""Changes that stay in the state; older ones are moved to values of their own, this many in each."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the audit log."""

    id: int
    at: float
    """In seconds since the epoch."""
    actor: str
    """The id of the key that made the change, or "local" on a gateway without keys."""
    action: str
    """The kind and what happened to it, such as `keys.create`."""
    name: str
    fields: JsonObject = {}
    """The new values of the fields that were sent; secrets are left out."""
    request_id: str | None = None


class ManagedState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that was changed at run time. A value of None removes a name of the config file."""

    keys: dict[str, Key | None] = {}
    teams: dict[str, Team | None] = {}
    aliases: dict[str, str | None] = {}
    tiers: dict[str, JsonObject | None] = {}
    pools: dict[str, JsonObject | None] = {}
    providers: dict[str, JsonObject | None] = {}
    revision: int = 0
    """How many changes there were."""
    changes: tuple[Change, ...] = ()
    """The newest changes, oldest first."""

    def __repr__(self) -> str:
        # Without the tables of providers, which may have keys.
        return f"ManagedState({self.revision})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("revision", self.revision)]

    def tables(self, kind: TableKind, /) -> Mapping[str, Any]:
        """The aliases, tiers or providers."""
        return getattr(self, kind)  # type: ignore[no-any-return]  # a field of this class


EMPTY: Final = ManagedState()


class MergedConfig(msgspec.Struct, frozen=True):
    """The config that holds, and why parts of the state do not."""

    config: Config
    problems: tuple[str, ...] = ()


def merge(base: Config, state: ManagedState, env: Mapping[str, str], /) -> MergedConfig:
    """The config of the file with the state over it.

    Keys and teams always apply. If the other tables do not fit the file, for example because a provider of an alias
    was removed from it, they are left out, and `problems` says why.
    """
    config, problems = base, tuple[str, ...]()
    try:
        config = _with_tables(base, state, env)
    except SetupError as error:
        head, *lines = str(error).split("\n- ")
        problems = tuple(lines) or (head,)
    if state.keys or state.teams:
        config = replace(config, keys=_over(config.keys, state.keys), teams=_over(config.teams, state.teams))
    return MergedConfig(config, problems)


def _with_tables(base: Config, state: ManagedState, env: Mapping[str, str]) -> Config:
    if not any(state.tables(kind) for kind in TABLE_KINDS):
        return base
    source = dict(base.source)
    source.update({kind: merged_tables(base, state, kind) for kind in TABLE_KINDS})
    return replace(decode_tables(source, env), gateway=base.gateway, source=base.source)


def merged_tables(base: Config, state: ManagedState, kind: TableKind, /) -> dict[str, Any]:
    """The aliases, tiers or providers of the file with those of the state over them; variables are not expanded."""
    names: dict[str, Any] = {**file_tables(base, kind), **state.tables(kind)}
    return {name: value for name, value in names.items() if value is not None}


def file_tables(base: Config, kind: TableKind, /) -> dict[str, Any]:
    """The aliases, tiers or providers of the file."""
    table = base.source.get(kind)
    return table if is_object(table) else {}


def _over(base: tuple[H, ...], changed: Mapping[str, H | None]) -> tuple[H, ...]:
    names: dict[str, H | None] = {each.id: each for each in base}
    names.update(changed)
    return tuple(each for each in names.values() if each is not None)


decode_state = msgspec.json.Decoder(ManagedState).decode
encode_state = msgspec.json.Encoder().encode
