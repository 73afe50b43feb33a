"""Operations on aliases, tiers, pools and providers: tables as in the config file, changed at run time."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from dragoman.errors import DragomanError, InvalidRequest, SetupError
from dragoman.gateway.auth.api_keys import KeyRole
from dragoman.gateway.errors import NameNotFound
from dragoman.gateway.management.holders import Source
from dragoman.gateway.management.managed_state import TABLE_KINDS, ManagedState, TableKind, file_tables, merged_tables
from dragoman.gateway.management.operations import AdminCall, AdminOperation, Named
from dragoman.gateway.management.secrets import has_secrets, hide_secrets, restore_secrets
from dragoman.gateway.runtime import Runtime
from dragoman.types import JsonObject

ManagedKind: TypeAlias = Literal["keys", "teams", "aliases", "tiers", "pools", "providers"]
KINDS: Final[tuple[ManagedKind, ...]] = ("keys", "teams", *TABLE_KINDS)
ONE: Final[dict[ManagedKind, str]] = {
    "keys": "key",
    "teams": "team",
    "aliases": "alias",
    "tiers": "tier",
    "pools": "pool",
    "providers": "provider",
}
_REVERT = "Drop the run-time changes of one {one}: what the config file says holds again"
MAX_TABLES = 2000
"""Names of each kind in the store."""


class AliasBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an alias stands for."""

    spec: str


class TableBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table as in the config file: `[tiers.NAME]`, `[pools.NAME]` or `[providers.NAME]`."""

    table: dict[str, Any]
    """In a provider, `(set)` stands for a secret that is stored already."""


class TableView(msgspec.Struct, frozen=True, kw_only=True):
    """An alias, a tier or a provider."""

    name: str
    source: Source
    table: dict[str, Any]
    """As in the config file; an alias is `{"spec": …}`, and a secret is `(set)`."""
    targets: tuple[str, ...] = ()
    """What an alias or a tier stands for."""
    wire: str | None = None
    """The protocol of a provider."""
    ready: bool | None = None
    """Whether a provider has its key."""
    problem: str | None = None
    """Why it cannot be used."""


class TableList(msgspec.Struct, frozen=True, kw_only=True):
    """All aliases, tiers or providers."""

    items: tuple[TableView, ...]
    problems: tuple[str, ...]
    """Why changes at run time do not fit the config file. They are left out until that is fixed."""


async def _list(kind: TableKind, call: AdminCall) -> TableList:
    runtime = call.runtime
    names = {**file_tables(runtime.base, kind), **runtime.managed.tables(kind)}
    if kind == "providers":
        names |= {name: {} for name in sorted(runtime.config.providers - names.keys())}
    items = tuple(_view(runtime, kind, name, table) for name, table in sorted(names.items()))
    return TableList(items=items, problems=runtime.problems)


async def _show(kind: TableKind, call: AdminCall) -> TableView:
    view = next((each for each in (await _list(kind, call)).items if each.name == call.name), None)
    if view is None:
        raise NameNotFound(f"there is no {ONE[kind]} {call.name[:200]!r}")
    return view


async def _put(kind: TableKind, call: AdminCall) -> TableView:
    name = call.name
    sent: Any = call.body.spec if kind == "aliases" else call.body.table

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        tables = state.tables(kind)
        if name not in tables and len(tables) >= MAX_TABLES:
            raise InvalidRequest(f"a gateway has at most {MAX_TABLES} {kind} in its store; delete some first")
        table = restore_secrets(sent, merged_tables(runtime.base, state, kind).get(name))
        if has_secrets(table) and (problem := runtime.store.exposure()) is not None:
            raise InvalidRequest(problem)
        return replace(state, **{kind: {**tables, name: table}})

    await call.change(edit, _fields(kind, hide_secrets(sent)))
    return await _show(kind, call)


async def _delete(kind: TableKind, call: AdminCall) -> Named:
    name = call.name

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        if name not in merged_tables(runtime.base, state, kind):
            raise NameNotFound(f"there is no {ONE[kind]} {name[:200]!r} in the config file or the store")
        rest = {each: table for each, table in state.tables(kind).items() if each != name}
        if name in file_tables(runtime.base, kind):
            rest[name] = None
        return replace(state, **{kind: rest})

    await call.change(edit)
    return Named(name)


async def _revert(kind: ManagedKind, call: AdminCall) -> Named:
    name = call.name

    def edit(state: ManagedState, _runtime: Runtime) -> ManagedState:
        changed: Mapping[str, Any] = getattr(state, kind)
        if name not in changed:
            raise NameNotFound(f"the {ONE[kind]} {name[:200]!r} was not changed at run time")
        return replace(state, **{kind: {each: value for each, value in changed.items() if each != name}})

    await call.change(edit)
    return Named(name)


def _fields(kind: TableKind, table: Any) -> JsonObject:
    return {"spec": table} if kind == "aliases" else {"table": table}


def _view(runtime: Runtime, kind: TableKind, name: str, table: Any) -> TableView:
    in_file, changed = name in file_tables(runtime.base, kind), runtime.managed.tables(kind)
    source: Source = "store over file" if in_file else "store"
    if name not in changed:
        source = "file" if in_file else "environment"
    elif changed[name] is None:
        return TableView(name=name, source="removed", table={})
    hidden = hide_secrets(table)
    shown: dict[str, Any] = _fields(kind, hidden) if kind == "aliases" else hidden
    try:
        return TableView(name=name, source=source, table=shown, **_facts(runtime, kind, name))
    except (SetupError, DragomanError) as error:
        return TableView(name=name, source=source, table=shown, problem=error.message)


def _facts(runtime: Runtime, kind: TableKind, name: str) -> dict[str, Any]:
    if kind == "providers":
        target = runtime.registry.target(f"{name}/any")
        return {"wire": target.wire, "ready": not target.lacks_key}
    if kind == "pools" and runtime.registry.pools[name].providers:
        return {"targets": tuple(f"{provider}/*" for provider in runtime.registry.pools[name].providers)}
    return {"targets": tuple(target.name for target in runtime.registry.targets(name))}


_TableHandler: TypeAlias = Callable[[Any, AdminCall], Awaitable[Any]]
_ROWS: Final[tuple[tuple[str, str, str, KeyRole, _TableHandler, type, str], ...]] = (
    ("list", "GET", "", "viewer", _list, TableList, "List {kind}"),
    ("show", "GET", "/{name}", "viewer", _show, TableView, "Show one {one}"),
    ("set", "PUT", "/{name}", "admin", _put, TableView, "Add or replace one {one}"),
    ("delete", "DELETE", "/{name}", "admin", _delete, Named, "Remove one {one}, also one of the config file"),
    ("revert", "POST", "/{name}/revert", "admin", _revert, Named, _REVERT),
)
"""The operations on each kind of table. Keys and teams have only the last of them here."""


def _operations() -> Iterator[AdminOperation]:
    for kind in KINDS:
        for verb, method, path, role, handle, result, summary in _ROWS if kind in TABLE_KINDS else _ROWS[-1:]:
            yield AdminOperation(
                id=f"{kind}.{verb}",
                method=method,
                path=f"{kind}{path}",
                role=role,
                handle=partial(handle, kind),
                body=None if verb != "set" else AliasBody if kind == "aliases" else TableBody,
                result=result,
                summary=summary.format(kind=kind, one=ONE[kind]),
            )


OPERATIONS = tuple(_operations())
