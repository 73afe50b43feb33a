"""Operations on targets: their health, disabling and enabling one, and what a request to them would be."""

import asyncio
from typing import Annotated, Any

import msgspec

from dragoman import wires
from dragoman.errors import ModelNotFound
from dragoman.gateway.management import views
from dragoman.gateway.management.operations import AdminCall, AdminOperations
from dragoman.gateway.server.body_limits import decode_body
from dragoman.types import JsonObject

OPERATIONS = AdminOperations()


class DisableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target to disable, and for how long."""

    target: str
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0


class EnableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target to enable."""

    target: str


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the native dialect; it may have all of its fields."""

    model: str
    messages: list[dict[str, Any]]


@OPERATIONS.add("targets.list", "GET", "snapshot", "viewer")
async def _snapshot(call: AdminCall) -> JsonObject:
    """Show the health of all targets, the tiers and aliases, and the requests in flight."""
    return await views.snapshot(call.runtime)


@OPERATIONS.add("targets.disable", "POST", "targets/disable", "admin", body=DisableTarget)
async def _disable(call: AdminCall) -> JsonObject:
    """Send no requests to a target for some seconds."""
    body: DisableTarget = call.body
    target = _check_target(call, body.target)
    await call.note(msgspec.to_builtins(body), name=target)
    call.runtime.registry.health.disable(target, body.seconds)
    return await _snapshot(call)


@OPERATIONS.add("targets.enable", "POST", "targets/enable", "admin", body=EnableTarget)
async def _enable(call: AdminCall) -> JsonObject:
    """Send requests to a target again."""
    body: EnableTarget = call.body
    target = _check_target(call, body.target)
    await call.note(msgspec.to_builtins(body), name=target)
    call.runtime.registry.health.enable(target)
    return await _snapshot(call)


@OPERATIONS.add("targets.explain", "POST", "explain", "viewer", body=ExplainRequest)
async def _explain(call: AdminCall) -> JsonObject:
    """Show what each target would receive for a native request; nothing is sent."""
    context = call.context
    context.wire = wire = wires.get("native")
    config = context.runtime.config
    await context.prepare(*await decode_body(context.http, config.gateway, wire.server.decode_request))
    # In a thread: resizing images takes long.
    return await asyncio.to_thread(views.explain, context.request, context.choice.targets, config.options)


def _check_target(call: AdminCall, name: str) -> str:
    if not views.is_target(call.runtime, name):
        raise ModelNotFound(f"target must be a target of this gateway, got {name[:200]!r}")
    return name
