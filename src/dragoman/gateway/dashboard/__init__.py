"""The dashboard: a page for operators.

    GET /                    the page; it and its files need no key, because they hold no data
    GET /dashboard/{file}

All data of the page, and all that it changes, goes through the admin API (`gateway/management`).
"""

from collections.abc import Iterator

from dragoman.gateway.dashboard.static_files import FILES, file, page
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.response import GatewayResponse, RequestHandler
from dragoman.wires.common.server_endpoints import Route


def page_routes() -> Iterator[tuple[Route, RequestHandler]]:
    """The routes of the page and its files."""
    yield Route(method="GET", path="/"), _page
    for name in FILES:
        yield Route(method="GET", path=f"/dashboard/{name}"), _static(name)


async def _page(context: RequestContext) -> GatewayResponse:
    return page(needs_key=bool(context.runtime.keys.all))


def _static(name: str) -> RequestHandler:
    async def respond(_context: RequestContext) -> GatewayResponse:
        return file(name)

    return respond
