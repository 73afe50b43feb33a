"""The page of an operator, and the JSON that it asks for: a table of routes and who answers them.

GET  /                          the page; it and its files hold nothing that needs a key
GET  /dashboard/{file}
GET  /admin/api/snapshot        targets, names, the store
GET  /admin/api/requests        the last ones, ended after ?since=; without a word of content
GET  /admin/api/usage           sums of the last ?days=
POST /admin/api/bench           {"target": …, "seconds": …}
POST /admin/api/unbench         {"target": …}
POST /admin/api/explain         a native request: what each of its targets would get
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec

from dragoman import wires
from dragoman.errors import InvalidRequest, ModelNotFound
from dragoman.gateway.dashboard import views
from dragoman.gateway.dashboard.files import FILES, PAGE, file
from dragoman.gateway.dashboard.guard import check
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.limits import check_depth
from dragoman.gateway.server.response import GatewayResponse, json_response
from dragoman.wires.common.json import DECODE_ERRORS
from dragoman.wires.common.server_endpoints import Route

S = TypeVar("S", bound=msgspec.Struct)
Endpoint: TypeAlias = Callable[[RequestContext], Awaitable[GatewayResponse]]

API = "/admin/api/"
MAX_DAYS = 366


class DisableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target is to be left alone, and how long.

    >>> DisableTarget(target="groq/llama").seconds
    300.0
    """

    target: str
    seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0


class EnableTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which target may be asked again.

    >>> EnableTarget(target="groq/llama").target
    'groq/llama'
    """

    target: str


class Since(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The moment after which requests ended that are asked for.

    >>> Since().since
    0.0
    """

    since: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0


class TimeRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last days whose sums are asked for.

    >>> TimeRange().days
    30
    """

    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] = 30


class Dashboard:
    """The routes of the dashboard.

    >>> [route.path for route, _ in Dashboard(is_local=True).table()][0]
    '/'
    """

    def __init__(self, *, is_local: bool) -> None:
        self._is_local = is_local

    def table(self) -> Iterator[tuple[Route, Endpoint]]:
        """Every route, and who answers there."""
        for path, name in (("/", PAGE), *((f"/dashboard/{name}", name) for name in FILES)):
            yield Route(method="GET", path=path), _show(name)
        for method, name, endpoint in (
            ("GET", "snapshot", _snapshot),
            ("GET", "requests", _requests),
            ("GET", "usage", _usage),
            ("POST", "bench", _bench),
            ("POST", "enable", _unbench),
            ("POST", "explain", _explain),
        ):
            yield Route(method=method, path=API + name), self._guarded(endpoint)

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        async def answer(context: RequestContext) -> GatewayResponse:
            context.key = check(context.http, context.runtime.keys, is_local=self._is_local)
            return await endpoint(context)

        return answer


def _show(name: str) -> Endpoint:
    async def answer(_context: RequestContext) -> GatewayResponse:
        return file(name)

    return answer


async def _snapshot(context: RequestContext) -> GatewayResponse:
    return _told(await views.snapshot(context.runtime))


async def _bench(context: RequestContext) -> GatewayResponse:
    wish = _decoded(context, DisableTarget)
    context.runtime.registry.health.disable(_known(context, wish.target), wish.seconds)
    return await _snapshot(context)


async def _unbench(context: RequestContext) -> GatewayResponse:
    wish = _decoded(context, EnableTarget)
    context.runtime.registry.health.enable(_known(context, wish.target))
    return await _snapshot(context)


async def _requests(context: RequestContext) -> GatewayResponse:
    return _told(await views.requests(context.runtime, since=_asked(context, Since).since))


async def _usage(context: RequestContext) -> GatewayResponse:
    return _told(await views.usage(context.runtime, days=_asked(context, TimeRange).days, now=time.time()))


async def _explain(context: RequestContext) -> GatewayResponse:
    """What a request of the playground would look like to each target; nothing is sent."""
    context.wire = wire = wires.get("native")
    check_depth(context.http.body, context.runtime.config.gateway.max_depth)
    await context.prepare(*wire.server.decode_request(context.http))
    options = context.runtime.config.options
    # In a thread: fitting images takes long.
    return _told(await asyncio.to_thread(views.explain, context.request, context.choice.targets, options))


def _known(context: RequestContext, name: str) -> str:
    if not views.is_target(context.runtime, name):
        raise ModelNotFound(f"this gateway has no target {name[:200]!r}")
    return name


def _told(value: object) -> GatewayResponse:
    answer = json_response(value)
    answer.headers.append(("cache-control", "no-store"))
    return answer


def _asked(context: RequestContext, shape: type[S]) -> S:
    """What stands behind the question mark, but for the key."""
    told = dict(parse_qsl(context.http.path.partition("?")[2], keep_blank_values=True))
    told.pop("key", None)
    try:
        return msgspec.convert(told, shape, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong(error) from error


def _decoded(context: RequestContext, shape: type[S]) -> S:
    try:
        return msgspec.json.decode(context.http.body, type=shape)
    except DECODE_ERRORS as error:
        raise _wrong(error) from error


def _wrong(error: Exception) -> InvalidRequest:
    """Which field it is stands at the end of what msgspec says."""
    wrong = InvalidRequest(str(error))
    found = re.search(r"(?:\$\.|field `)(\w+)`$", wrong.message) if isinstance(error, msgspec.ValidationError) else None
    wrong.param = None if found is None else found[1]
    return wrong
