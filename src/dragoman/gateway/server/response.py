"""What the app hands to a server adapter, and JSON bodies that belong to no dialect."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from dragoman.errors import DragomanError
from dragoman.gateway.errors import WrongMethod
from dragoman.gateway.request import RequestContext, id_headers
from dragoman.http import HttpResponse
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.json import encode_json

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends some bytes of a stream; waits while the client is slow."""
Body: TypeAlias = bytes | Callable[[Write], Awaitable[None]]
"""The whole body, or a function that writes it."""
HeaderPairs: TypeAlias = Iterable[tuple[str, str]]


class GatewayResponse(msgspec.Struct, frozen=True, eq=False):
    """The response to one HTTP request."""

    status: int
    headers: list[tuple[str, str]]
    body: Body


RequestHandler: TypeAlias = Callable[[RequestContext], Awaitable[GatewayResponse]]
"""Answers the requests of one route."""


def with_headers(http_response: HttpResponse, headers: HeaderPairs, /) -> GatewayResponse:
    """A response of a dialect with more headers."""
    return GatewayResponse(http_response.status, [*http_response.headers.items(), *headers], http_response.body)


def json_response(value: object, /) -> GatewayResponse:
    """JSON that belongs to no dialect."""
    return GatewayResponse(200, [("content-type", "application/json")], encode_json(value))


def error_without_dialect(error: DragomanError, id: str, /) -> GatewayResponse:
    """An error for a client whose dialect is not known: in OpenAI's format."""
    body = encode_json({"error": {**encode_openai_error(error), "request_id": id}})
    headers = [*error_headers(error).items(), *id_headers(id)]
    if isinstance(error, WrongMethod):
        headers += error.headers
    return GatewayResponse(error.http_status, headers, body)
