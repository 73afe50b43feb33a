"""The dashboard: a page for operators.

    GET /                    the page; it and its files need no key, because they hold no data
    GET /dashboard/{file}

All data of the page, and all that it changes, goes through the admin API (`gateway/management`).
"""

from collections.abc import Iterator

from dragoman.gateway.dashboard.files import FILES, PAGE, file
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.response import GatewayResponse, RequestHandler
from dragoman.wires.common.server_endpoints import Route


def page_routes() -> Iterator[tuple[Route, RequestHandler]]:
    """The routes of the page and its files."""
    for path, name in (("/", PAGE), *((f"/dashboard/{name}", name) for name in FILES)):
        yield Route(method="GET", path=path), _static(name)


def _static(name: str) -> RequestHandler:
    async def respond(_context: RequestContext) -> GatewayResponse:
        return file(name)

    return respond
