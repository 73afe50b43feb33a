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
import re
import time
from collections.abc import Iterator
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

import msgspec

from dragoman import wires
from dragoman.errors import InvalidRequest, ModelNotFound
from dragoman.gateway.dashboard import views
from dragoman.gateway.dashboard.files import FILES, PAGE, file
from dragoman.gateway.dashboard.guard import check
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.limits import decode_body
from dragoman.gateway.server.response import GatewayResponse, RequestHandler, json_response
from dragoman.gateway.validation import describe_mismatch
from dragoman.wires.common.json import DECODE_ERRORS
from dragoman.wires.common.server_endpoints import Route

S = TypeVar("S", bound=msgspec.Struct)

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

    def __init__(self, *, is_local: bool) -> None:
        self._is_local = is_local

    @staticmethod
    def files() -> Iterator[tuple[Route, RequestHandler]]:
        """The routes of the page and its files."""
        for path, name in (("/", PAGE), *((f"/dashboard/{name}", name) for name in FILES)):
            yield Route(method="GET", path=path), _static(name)

    def table(self) -> Iterator[tuple[Route, RequestHandler]]:
        """Every route of the API and its handler."""
        for method, name, handler in (
            ("GET", "snapshot", _snapshot),
            ("GET", "requests", _requests),
            ("GET", "usage", _usage),
            ("POST", "targets/disable", _disable),
            ("POST", "targets/enable", _enable),
            ("POST", "explain", _explain),
        ):
            yield Route(method=method, path=API + name), self._for_operators(handler)

    def _for_operators(self, handler: RequestHandler) -> RequestHandler:
        async def checked(context: RequestContext) -> GatewayResponse:
            check(context.http, context.key, is_local=self._is_local)
            return await handler(context)

        return checked


def _static(name: str) -> RequestHandler:
    async def respond(_context: RequestContext) -> GatewayResponse:
        return file(name)

    return respond


async def _snapshot(context: RequestContext) -> GatewayResponse:
    return _json(await views.snapshot(context.runtime))


async def _disable(context: RequestContext) -> GatewayResponse:
    body = _decode_body(context, DisableTarget)
    context.runtime.registry.health.disable(_check_target(context, body.target), body.seconds)
    return await _snapshot(context)


async def _enable(context: RequestContext) -> GatewayResponse:
    body = _decode_body(context, EnableTarget)
    context.runtime.registry.health.enable(_check_target(context, body.target))
    return await _snapshot(context)


async def _requests(context: RequestContext) -> GatewayResponse:
    return _json(await views.requests(context.runtime, since=_decode_query(context, RequestsQuery).since))


async def _usage(context: RequestContext) -> GatewayResponse:
    return _json(await views.usage(context.runtime, days=_decode_query(context, UsageQuery).days, now=time.time()))


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


def _decode_query(context: RequestContext, type: type[S]) -> S:
    fields = dict(parse_qsl(context.http.path.partition("?")[2], keep_blank_values=True))
    fields.pop("key", None)
    try:
        return msgspec.convert(fields, type, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, fields, type) from error


def _decode_body(context: RequestContext, type: type[S]) -> S:
    try:
        body = msgspec.json.decode(context.http.body)
    except DECODE_ERRORS as error:
        raise InvalidRequest(f"the body must be JSON: {error}") from error
    try:
        return msgspec.convert(body, type)
    except msgspec.ValidationError as error:
        raise _invalid(error, body, type) from error


def _invalid(error: msgspec.ValidationError, value: object, type: type[msgspec.Struct]) -> InvalidRequest:
    problem = describe_mismatch(error, value, type)
    field = re.match(r"\.(\w+)", problem)
    return InvalidRequest(problem[1:] if field else f"the body{problem}", param=field[1] if field else None)
