"""Operations on teams."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.accounting.quotas import Level
from dragoman.gateway.auth.api_keys import Team
from dragoman.gateway.errors import NameTaken
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
from dragoman.gateway.management.managed_state import ManagedState
from dragoman.gateway.management.operations import AdminCall, AdminOperations, Named
from dragoman.gateway.runtime import Runtime

OPERATIONS = AdminOperations()


class TeamFields(LimitFields, frozen=True, kw_only=True):
    """What can be set for a team."""


class NewTeam(TeamFields, frozen=True, kw_only=True):
    """A team to make."""

    name: str


class TeamView(HolderView, frozen=True, kw_only=True):
    """A team."""

    keys: int
    """How many keys it has."""


class TeamList(msgspec.Struct, frozen=True, kw_only=True):
    """All teams."""

    teams: tuple[TeamView, ...]


def team_view(runtime: Runtime, team: Team, levels: Iterable[Level] | None = None, /) -> TeamView:
    """A team as clients see it."""
    count = sum(key.team == team.id for key in runtime.keys.all)
    return TeamView(**common_fields(runtime, team, levels), keys=count)


@OPERATIONS.add("teams.list", "GET", "teams", "viewer")
async def _list_teams(call: AdminCall) -> TeamList:
    """List teams."""
    runtime = call.runtime
    return TeamList(teams=tuple(team_view(runtime, team) for _, team in sorted(runtime.keys.teams.items())))


@OPERATIONS.add("teams.create", "POST", "teams", "admin", body=NewTeam, status=201)
async def _create_team(call: AdminCall) -> TeamView:
    """Make a team."""
    body: NewTeam = call.body
    name, fields = checked_name(body.name), body.changes()

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        if name in runtime.keys.teams:
            raise NameTaken(f"name must be new, and there is a team {name!r}; choose another one", param="name")
        return replace(state, teams={**state.teams, name: with_fields(Team(id=name), fields)})

    await call.change(edit, audit_fields(fields), name=name)
    return team_view(call.runtime, call.runtime.keys.teams[name])


@OPERATIONS.add("teams.show", "GET", "teams/{name}", "viewer")
async def _show_team(call: AdminCall) -> TeamView:
    """Show a team and how much of its limits is used."""
    team = find_holder(call.runtime.keys.teams.values(), call.name, "team")
    (levels,) = await call.runtime.accounting.quotas.levels([team])
    return team_view(call.runtime, team, levels)


@OPERATIONS.add("teams.update", "PATCH", "teams/{name}", "admin", body=TeamFields)
async def _update_team(call: AdminCall) -> TeamView:
    """Change a team; fields that are left out stay as they are."""
    fields = call.body.changes()

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        team = find_holder(runtime.keys.teams.values(), call.name, "team")
        return replace(state, teams={**state.teams, team.id: with_fields(team, fields)})

    await call.change(edit, audit_fields(fields))
    return team_view(call.runtime, call.runtime.keys.teams[call.name])


@OPERATIONS.add("teams.delete", "DELETE", "teams/{name}", "admin")
async def _delete_team(call: AdminCall) -> Named:
    """Delete a team that has no keys."""

    def edit(state: ManagedState, runtime: Runtime) -> ManagedState:
        team = find_holder(runtime.keys.teams.values(), call.name, "team")
        if keys := sorted(key.id for key in runtime.keys.all if key.team == team.id):
            shown = ", ".join(keys[:5]) + (" …" if len(keys) > 5 else "")
            raise InvalidRequest(f"team {team.id!r} must have no keys, got {shown}; delete or move them first")
        return replace(state, teams=without_name(state.teams, team.id, runtime.base.teams))

    await call.change(edit)
    return Named(call.name)


@OPERATIONS.add("teams.reset", "POST", "teams/{name}/reset", "admin")
async def _reset_team(call: AdminCall) -> TeamView:
    """Set what is used of the current budgets of a team to 0."""
    await call.runtime.accounting.quotas.reset(find_holder(call.runtime.keys.teams.values(), call.name, "team"))
    await call.note()
    return await _show_team(call)
