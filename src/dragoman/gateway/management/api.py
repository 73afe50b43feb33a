"""The admin API: its routes, made from the table of operations."""

from collections.abc import Iterator
from urllib.parse import unquote

import msgspec

from dragoman.gateway.management import audit, keys, openapi, system, tables, targets, teams, usage
from dragoman.gateway.management.manager import Manager
from dragoman.gateway.management.operations import PREFIX, AdminCall, AdminOperation
from dragoman.gateway.management.principal import check_role, principal_of
from dragoman.gateway.request import RequestContext
from dragoman.gateway.server.response import GatewayResponse, RequestHandler
from dragoman.gateway.validation import decode_json, decode_query
from dragoman.wires.common.server_endpoints import Route

OPERATIONS: tuple[AdminOperation, ...] = (
    *keys.OPERATIONS,
    *teams.OPERATIONS,
    *tables.OPERATIONS,
    *audit.OPERATIONS,
    *usage.OPERATIONS,
    *targets.OPERATIONS,
    *system.OPERATIONS,
)
DOCUMENT = "openapi.json"
NO_STORE = ("cache-control", "no-store")


class AdminApi:
    """The routes of the admin API. `is_local`: the gateway listens on a loopback address only."""

    def __init__(self, manager: Manager, /, *, is_local: bool) -> None:
        self._manager = manager
        self._is_local = is_local

    def table(self) -> Iterator[tuple[Route, RequestHandler]]:
        """Every route and its handler."""
        yield Route(method="GET", path=PREFIX + DOCUMENT), self._document
        for operation in OPERATIONS:
            yield Route(method=operation.method, path=PREFIX + operation.path), self._handler(operation)

    def _handler(self, operation: AdminOperation) -> RequestHandler:
        async def answer(context: RequestContext) -> GatewayResponse:
            http = context.http
            principal = principal_of(http, context.key, is_local=self._is_local)
            check_role(principal, operation.role)
            call = AdminCall(
                operation=operation,
                context=context,
                principal=principal,
                manager=self._manager,
                name=_name(http.path, operation.path),
                body=None if operation.body is None else decode_json(http.body or b"{}", operation.body),
                query=None if operation.query is None else decode_query(http, operation.query),
            )
            return _response(operation, await operation.handle(call))

        return answer

    async def _document(self, context: RequestContext) -> GatewayResponse:
        principal_of(context.http, context.key, is_local=self._is_local)
        return _json(200, openapi.document(OPERATIONS))


def _name(path: str, pattern: str) -> str:
    segments = path.partition("?")[0].removeprefix(PREFIX).split("/")
    parts = pattern.split("/")
    return unquote(segments[parts.index("{name}")]) if "{name}" in parts else ""


def _response(operation: AdminOperation, result: object) -> GatewayResponse:
    return result if isinstance(result, GatewayResponse) else _json(operation.status, result)


def _json(status: int, value: object) -> GatewayResponse:
    return GatewayResponse(status, [("content-type", "application/json"), NO_STORE], msgspec.json.encode(value))
