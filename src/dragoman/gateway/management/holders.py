"""What the operations on keys and on teams have in common: their fields, their views and how they are found."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.accounting.quotas import Level
from dragoman.gateway.auth.api_keys import Count, Key, KeyBudget, LimitHolder, check_id
from dragoman.gateway.errors import NameNotFound
from dragoman.gateway.runtime import Runtime
from dragoman.types import JsonObject

H = TypeVar("H", bound=LimitHolder)
Source: TypeAlias = Literal["file", "store", "store over file", "removed", "environment"]
"""Where something comes from. `removed`: it is in the file, but was deleted at run time."""


class LimitFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for keys and for teams. A field that is left out does not change; null removes a limit."""

    models: tuple[str, ...] | UnsetType = UNSET
    requests_per_minute: Count | UnsetType | None = UNSET
    tokens_per_minute: Count | UnsetType | None = UNSET
    concurrent: Count | UnsetType | None = UNSET
    budgets: tuple[KeyBudget, ...] | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    cache: bool | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        """The fields that were sent."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not UNSET and name != "name"}


class HolderView(msgspec.Struct, frozen=True, kw_only=True):
    """What keys and teams have in common."""

    name: str
    source: Source
    models: tuple[str, ...]
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrent: int | None
    budgets: tuple[KeyBudget, ...]
    disabled: bool
    tags: tuple[str, ...]
    cache: bool
    """Whether its requests use the response cache."""
    levels: tuple[Level, ...] | None = None
    """How much of its own limits is used; only in the answer for one holder, or in `limits`."""


def common_fields(runtime: Runtime, holder: LimitHolder, levels: Iterable[Level] | None) -> dict[str, Any]:
    """The fields of the view of a key or a team."""
    is_key = isinstance(holder, Key)
    in_file = holder.id in {each.id for each in (runtime.base.keys if is_key else runtime.base.teams)}
    in_store = holder.id in (runtime.managed.keys if is_key else runtime.managed.teams)
    source = "file" if not in_store else "store over file" if in_file else "store"
    return {
        **{name: getattr(holder, name) for name in LimitFields.__struct_fields__},
        "name": holder.id,
        "source": source,
        "levels": None if levels is None else tuple(levels),
    }


def checked_name(name: str) -> str:
    """The name of a new key or team; InvalidRequest if it is not valid."""
    try:
        return check_id(name)
    except ValueError as error:
        raise InvalidRequest(f"name: {error}", param="name") from None


def find_holder(holders: Iterable[H], name: str, kind: str) -> H:
    """The key or team with a name; NameNotFound if there is none."""
    holder = next((each for each in holders if each.id == name), None)
    if holder is None:
        raise NameNotFound(f"there is no {kind} {name[:200]!r}")
    return holder


def with_fields(holder: H, fields: Mapping[str, Any]) -> H:
    """A key or team with new values; InvalidRequest if they are not valid."""
    values = dict(fields)
    if isinstance(holder, Key) and "role" in values:
        values["admin"] = False  # of the config file
    try:
        return replace(holder, **values)
    except ValueError as error:
        param = str(error).partition(" ")[0]
        raise InvalidRequest(str(error), param=param if param in fields else None) from None


def without_name(changed: Mapping[str, H | None], name: str, base: Iterable[H]) -> dict[str, H | None]:
    """The state without a name; one of the file is marked as removed."""
    rest = {each: value for each, value in changed.items() if each != name}
    return {**rest, name: None} if any(each.id == name for each in base) else rest


def audit_fields(fields: Mapping[str, Any]) -> JsonObject:
    """Fields for the audit log."""
    plain: JsonObject = msgspec.to_builtins(dict(fields))
    return plain
