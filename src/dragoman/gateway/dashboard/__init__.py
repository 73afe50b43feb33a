"""The dashboard: a page for operators, and the JSON API that it calls.

GET  /                           the page; it and its files need no key, because they hold no data
GET  /dashboard/{file}
GET  /admin/api/snapshot         targets, names and the store
GET  /admin/api/requests         the last requests that ended after ?since=, without their content
GET  /admin/api/usage            sums of the last ?days=
POST /admin/api/targets/disable  {"target": …, "seconds": …}
POST /admin/api/targets/enable   {"target": …}
POST /admin/api/explain          a native request: what each of its targets would receive
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec

from dragoman import wires
from dragoman.errors import ModelNotFound
from dragoman.gateway.auth.api_keys import KeyRole
from dragoman.gateway.dashboard import views
from dragoman.gateway.dashboard.files import FILES, PAGE, file
from dragoman.gateway.management.api import AdminApi
from dragoman.gateway.management.manager import ChangeNote, Manager
from dragoman.gateway.management.principal import check_role, principal_of
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.limits import decode_body
from dragoman.gateway.server.response import GatewayResponse, RequestHandler, json_response
from dragoman.gateway.validation import decode_json, decode_query
from dragoman.wires.common.server_endpoints import Route

API = "/admin/api/"
MAX_DAYS = 366


class DisableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target to disable, and for how long."""

    target: str
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0


class EnableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target to enable."""

    target: str


class RequestsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only requests that ended after `since`, in seconds since the epoch."""

    since: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sums of the last `days` days."""

    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] = 30


class Dashboard:
    """The routes of the dashboard. `is_local`: the gateway listens on a loopback address only."""

    def __init__(self, manager: Manager, /, *, is_local: bool) -> None:
        self._is_local = is_local
        self._manager = manager
        self._admin = AdminApi(manager, is_local=is_local)

    @staticmethod
    def files() -> Iterator[tuple[Route, RequestHandler]]:
        """The routes of the page and its files."""
        for path, name in (("/", PAGE), *((f"/dashboard/{name}", name) for name in FILES)):
            yield Route(method="GET", path=path), _static(name)

    def table(self) -> Iterator[tuple[Route, RequestHandler]]:
        """Every route of the API and its handler."""
        routes: tuple[tuple[str, str, KeyRole, RequestHandler], ...] = (
            ("GET", "snapshot", "viewer", _snapshot),
            ("GET", "requests", "viewer", _requests),
            ("GET", "usage", "viewer", _usage),
            ("POST", "targets/disable", "admin", _disable),
            ("POST", "targets/enable", "admin", _enable),
            ("POST", "explain", "viewer", _explain),
        )
        for method, name, role, handler in routes:
            yield Route(method=method, path=API + name), self._for_operators(name, role, handler)
        yield from self._admin.table()

    def _for_operators(self, name: str, role: KeyRole, handler: RequestHandler) -> RequestHandler:
        async def checked(context: RequestContext) -> GatewayResponse:
            principal = principal_of(context.http, context.key, is_local=self._is_local)
            check_role(principal, role)
            response = await handler(context)
            if role == "admin":  # targets are disabled and enabled: their bodies have no secrets
                fields = msgspec.json.decode(context.http.body)
                note = ChangeNote(
                    actor=principal.name,
                    action=name.replace("/", "."),
                    name=fields["target"],
                    fields=fields,
                    request_id=context.id,
                )
                await self._manager.note(note)
            return response

        return checked


def _static(name: str) -> RequestHandler:
    async def respond(_context: RequestContext) -> GatewayResponse:
        return file(name)

    return respond


async def _snapshot(context: RequestContext) -> GatewayResponse:
    return _json(await views.snapshot(context.runtime))


async def _disable(context: RequestContext) -> GatewayResponse:
    body = decode_json(context.http.body, DisableTarget)
    context.runtime.registry.health.disable(_check_target(context, body.target), body.seconds)
    return await _snapshot(context)


async def _enable(context: RequestContext) -> GatewayResponse:
    body = decode_json(context.http.body, EnableTarget)
    context.runtime.registry.health.enable(_check_target(context, body.target))
    return await _snapshot(context)


async def _requests(context: RequestContext) -> GatewayResponse:
    return _json(await views.requests(context.runtime, since=decode_query(context.http, RequestsQuery).since))


async def _usage(context: RequestContext) -> GatewayResponse:
    return _json(await views.usage(context.runtime, days=decode_query(context.http, UsageQuery).days, now=time.time()))


async def _explain(context: RequestContext) -> GatewayResponse:
    """Show what each target would receive for a request of the playground; nothing is sent."""
    context.wire = wire = wires.get("native")
    limits = context.runtime.config.gateway
    await context.prepare(*await decode_body(context.http, limits, wire.server.decode_request))
    options = context.runtime.config.options
    # In a thread: resizing images takes long.
    return _json(await asyncio.to_thread(views.explain, context.request, context.choice.targets, options))


def _check_target(context: RequestContext, name: str) -> str:
    if not views.is_target(context.runtime, name):
        raise ModelNotFound(f"target must be a target of this gateway, got {name[:200]!r}")
    return name


def _json(value: object) -> GatewayResponse:
    response = json_response(value)
    response.headers.append(("cache-control", "no-store"))
    return response
