"""Operations on keys."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.accounting.quotas import Level
from dragoman.gateway.auth.api_keys import Key, KeyRole, new_key
from dragoman.gateway.errors import Forbidden, NameNotFound, NameTaken
from dragoman.gateway.management.holders import (
    HolderView,
    LimitFields,
    audit_fields,
    checked_name,
    common_fields,
    find_holder,
    with_fields,
    without_name,
)
from dragoman.gateway.management.managed_state import MAX_KEYS, ManagedState
from dragoman.gateway.management.operations import AdminCall, AdminOperations, Named
from dragoman.gateway.management.teams import TeamView, team_view
from dragoman.gateway.runtime import Runtime

OPERATIONS = AdminOperations()

MAX_OVERLAP = 90 * 86_400
KeyStatus: TypeAlias = Literal["active", "disabled", "expired"]


class KeyFields(LimitFields, frozen=True, kw_only=True):
    """What can be set for a key."""

    role: KeyRole | UnsetType | None = UNSET
    owner: str | UnsetType | None = UNSET
    team: str | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET


class NewKey(KeyFields, frozen=True, kw_only=True):
    """A key to make."""

    name: str


class Rotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to rotate a key."""

    overlap: Annotated[float, msgspec.Meta(ge=0, le=MAX_OVERLAP, title="seconds")] = 0.0
    """Seconds in which the old key is still accepted."""


class KeysQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which keys to list, in the order of their names."""

    team: str | None = None
    owner: str | None = None
    tag: str | None = None
    after: str = ""
    """List only names after this one: the `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200

    def fits(self, key: Key, /) -> bool:
        """Whether a key matches the query."""
        wanted = ((self.team, key.team), (self.owner, key.owner))
        return all(each in (None, own) for each, own in wanted) and (self.tag is None or self.tag in key.tags)


class KeyView(HolderView, frozen=True, kw_only=True):
    """A key, without its hash."""

    role: KeyRole | None
    owner: str | None
    team: str | None
    status: KeyStatus
    expires_at: datetime | None
    created_at: datetime | None
    previous_until: datetime | None
    """Until when the key from before the last rotation is accepted."""


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A new key. `key` is its plain text, which is shown only here."""

    key: str


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys."""

    keys: tuple[KeyView, ...]
    next: str | None
    """The value of `after` for the next page; null if this is the last one."""


class LimitList(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and teams that have limits, with what is used of them."""

    keys: tuple[KeyView, ...]
    teams: tuple[TeamView, ...]
    next: str | None


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is."""

    name: str
    role: KeyRole | None
    key: KeyView | None
    """The caller's own key, with what is used of its limits; null on a gateway without keys."""


def key_view(runtime: Runtime, key: Key, levels: Iterable[Level] | None = None, /) -> KeyView:
    """A key as clients see it."""
    return KeyView(**_key_fields(runtime, key, levels))


def _key_fields(runtime: Runtime, key: Key, levels: Iterable[Level] | None = None) -> dict[str, Any]:
    now = datetime.now(UTC)
    is_expired = key.expires_at is not None and now >= key.expires_at
    status: KeyStatus = "disabled" if key.disabled else "expired" if is_expired else "active"
    return {
        **common_fields(runtime, key, levels),
        "role": "admin" if key.is_admin else key.role,
        "owner": key.owner,
        "team": key.team,
        "status": status,
        "expires_at": key.expires_at,
        "created_at": key.created_at,
        "previous_until": key.previous_until if key.previous_until is not None and key.previous_until > now else None,
    }


@OPERATIONS.add("me.show", "GET", "me", None)
async def _me(call: AdminCall) -> Me:
    """Show who the caller is."""
    principal, key = call.principal, call.principal.key
    view = None
    if key is not None:
        (levels,) = await call.runtime.accounting.quotas.levels([key])
        view = key_view(call.runtime, key, levels)
    return Me(name=principal.name, role=principal.role, key=view)


def _page(call: AdminCall, *, limited: bool = False) -> tuple[list[Key], str | None]:
    query: KeysQuery = call.query
    principal = call.principal
    keys = sorted(
        (
            key
            for key in call.runtime.keys.all
            if key.id > query.after
            and query.fits(key)
            and (principal.may_view or principal.owns(key))
            and (key.has_limits or not limited)
        ),
        key=lambda key: key.id,
    )
    page = keys[: query.limit]
    return page, page[-1].id if len(keys) > len(page) else None


@OPERATIONS.add("keys.list", "GET", "keys", "owner", query=KeysQuery)
async def _list_keys(call: AdminCall) -> KeyList:
    """List keys; an owner sees their own."""
    page, next = _page(call)
    return KeyList(keys=tuple(key_view(call.runtime, key) for key in page), next=next)


@OPERATIONS.add("keys.create", "POST", "keys", "admin", body=NewKey, status=201)
async def _create_key(call: AdminCall) -> NewKeyView:
    """Make a key; its plain text is in this answer only."""
    body: NewKey = call.body
    name, (plain, hash) = checked_name(body.name), new_key()
    fields = body.changes()

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        if any(key.id == name for key in runtime.keys.all):
            raise NameTaken(f"name must be new, and there is a key {name!r}; choose another one", param="name")
        if len(state.keys) >= MAX_KEYS:
            raise InvalidRequest(f"a gateway has at most {MAX_KEYS} keys in its store; delete keys first")
        key = with_fields(Key(id=name, hash=hash, created_at=_now()), fields)
        if key.expires_at is not None and key.expires_at <= _now():
            raise InvalidRequest(f"expires_at must be in the future, got {key.expires_at}", param="expires_at")
        return replace(state, keys={**state.keys, name: _in_team(key, runtime)})

    await call.change(edit, audit_fields(fields), name=name)
    key = find_holder(call.runtime.keys.all, name, "key")
    return NewKeyView(**_key_fields(call.runtime, key), key=plain)


@OPERATIONS.add("keys.show", "GET", "keys/{name}", "owner")
async def _show_key(call: AdminCall) -> KeyView:
    """Show a key and how much of its limits is used."""
    key = _find_key(call, call.runtime)
    (levels,) = await call.runtime.accounting.quotas.levels([key])
    return key_view(call.runtime, key, levels)


@OPERATIONS.add("keys.update", "PATCH", "keys/{name}", "admin", body=KeyFields)
async def _update_key(call: AdminCall) -> KeyView:
    """Change a key; fields that are left out stay as they are."""
    fields = call.body.changes()
    return await _edit_key(call, lambda key: with_fields(key, fields), fields)


@OPERATIONS.add("keys.disable", "POST", "keys/{name}/disable", "owner")
async def _disable_key(call: AdminCall) -> KeyView:
    """Refuse a key until it is enabled again."""
    return await _edit_key(call, lambda key: replace(key, disabled=True))


@OPERATIONS.add("keys.enable", "POST", "keys/{name}/enable", "owner")
async def _enable_key(call: AdminCall) -> KeyView:
    """Accept a key again."""
    return await _edit_key(call, lambda key: replace(key, disabled=False))


@OPERATIONS.add("keys.rotate", "POST", "keys/{name}/rotate", "owner", body=Rotation)
async def _rotate_key(call: AdminCall) -> NewKeyView:
    """Give a key a new secret; the old one is accepted during the overlap."""
    body: Rotation = call.body
    plain, hash = new_key()

    def rotate(key: Key) -> Key:
        if not body.overlap:
            return replace(key, hash=hash, previous_hash=None, previous_until=None)
        until = _now() + timedelta(seconds=body.overlap)
        return replace(key, hash=hash, previous_hash=key.hash, previous_until=until)

    await _edit_key(call, rotate, {"overlap": body.overlap})
    key = find_holder(call.runtime.keys.all, call.name, "key")
    return NewKeyView(**_key_fields(call.runtime, key), key=plain)


async def _edit_key(call: AdminCall, change: Callable[[Key], Key], fields: Mapping[str, Any] | None = None) -> KeyView:
    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        key = _find_key(call, runtime)
        if not call.principal.may_manage(key):
            raise Forbidden(f"{call.principal.name!r} may not change the key {key.id!r}")
        # The team itself is not part of what is stored.
        new = _in_team(change(replace(key, team_record=None)), runtime)
        return replace(state, keys={**state.keys, key.id: new})

    await call.change(edit, audit_fields(fields or {}))
    return key_view(call.runtime, find_holder(call.runtime.keys.all, call.name, "key"))


@OPERATIONS.add("keys.delete", "DELETE", "keys/{name}", "admin")
async def _delete_key(call: AdminCall) -> Named:
    """Delete a key; its usage stays."""

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        find_holder(runtime.keys.all, call.name, "key")
        return replace(state, keys=without_name(state.keys, call.name, runtime.base.keys))

    await call.change(edit)
    return Named(call.name)


@OPERATIONS.add("keys.reset", "POST", "keys/{name}/reset", "admin")
async def _reset_key(call: AdminCall) -> KeyView:
    """Set what is used of the current budgets of a key to 0."""
    key = find_holder(call.runtime.keys.all, call.name, "key")
    await call.runtime.accounting.quotas.reset(key)
    await call.note()
    return await _show_key(call)


@OPERATIONS.add("limits.list", "GET", "limits", "owner", query=KeysQuery)
async def _list_limits(call: AdminCall) -> LimitList:
    """List keys and teams with limits, and how much of them is used."""
    runtime, (page, next) = call.runtime, _page(call, limited=True)
    teams = [team for team in runtime.keys.teams.values() if team.has_limits] if call.principal.may_view else []
    levels = await runtime.accounting.quotas.levels([*page, *teams])
    return LimitList(
        keys=tuple(key_view(runtime, key, own) for key, own in zip(page, levels, strict=False)),
        teams=tuple(team_view(runtime, team, own) for team, own in zip(teams, levels[len(page) :], strict=True)),
        next=next,
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _find_key(call: AdminCall, runtime: Runtime) -> Key:
    """The key of the path; keys that the caller may not see do not exist for them."""
    key, principal = find_holder(runtime.keys.all, call.name, "key"), call.principal
    if not (principal.may_view or principal.owns(key)):
        raise NameNotFound(f"there is no key {call.name[:200]!r}")
    return key


def _in_team(key: Key, runtime: Runtime) -> Key:
    if key.team is not None and key.team not in runtime.keys.teams:
        raise InvalidRequest(f"team must be a team of this gateway, got {key.team[:64]!r}; make it first", param="team")
    return key
