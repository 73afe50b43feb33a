"""What the app hands to a server adapter, and the headers and error bodies that belong to no dialect."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from dragoman.errors import DragomanError
from dragoman.gateway.errors import WrongMethod
from dragoman.http import HttpReply
from dragoman.types import Notice
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.json import encode_json

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends some bytes of a stream; waits while the client is slow."""
Body: TypeAlias = bytes | Callable[[Write], Awaitable[None]]
"""The whole body, or a function that writes it."""
Headers: TypeAlias = Iterable[tuple[str, str]]

MAX_NOTICES = 16
"""`X-Dragoman-Notice` headers of one response; the last one lists the remaining notices."""
MAX_NOTICE = 200
MAX_LAST_NOTICE = 1000


class GatewayResponse(msgspec.Struct, frozen=True, eq=False):
    """The response to one HTTP request."""

    status: int
    headers: list[tuple[str, str]]
    body: Body


def from_reply(reply: HttpReply, headers: Headers, /) -> GatewayResponse:
    """A dialect's reply with more headers.

    >>> from_reply(HttpReply(body=b"{}"), [("x-request-id", "req_1")]).headers
    [('content-type', 'application/json'), ('x-request-id', 'req_1')]
    """
    return GatewayResponse(reply.status, [*reply.headers.items(), *headers], reply.body)


def json_response(value: object, /) -> GatewayResponse:
    """JSON that belongs to no dialect.

    >>> json_response({"status": "live"}).body
    b'{"status":"live"}'
    """
    return GatewayResponse(200, [("content-type", "application/json")], encode_json(value))


def error_response(error: DragomanError, id: str, /) -> GatewayResponse:
    """An error for a client whose dialect is not known: in OpenAI's format.

    >>> from dragoman.gateway.errors import NoRoute
    >>> error_response(NoRoute("no route for /v2"), "req_1").status
    404
    """
    body = encode_json({"error": {**encode_openai_error(error), "request_id": id}})
    headers = [*error_headers(error).items(), *id_headers(id)]
    if isinstance(error, WrongMethod):
        headers += error.headers
    return GatewayResponse(error.http_status, headers, body)


def id_headers(id: str, /) -> list[tuple[str, str]]:
    """The id of a request, in the headers where the client libraries of each dialect look for it.

    >>> id_headers("req_1")
    [('x-request-id', 'req_1'), ('request-id', 'req_1')]
    """
    return [("x-request-id", id), ("request-id", id)]


def notice_headers(notices: Iterable[Notice], /) -> list[tuple[str, str]]:
    """One header for each notice.

    >>> notice_headers([Notice(kind="dropped", what="seed", why="not supported by ollama")])
    [('x-dragoman-notice', 'dropped seed: not supported by ollama')]
    """
    notices = [*notices]
    first, rest = notices[: MAX_NOTICES - 1], notices[MAX_NOTICES - 1 :]
    texts = [f"{notice.kind} {notice.what}: {notice.why}"[:MAX_NOTICE] for notice in first]
    if rest:
        texts.append(f"and {', '.join(f'{notice.kind} {notice.what}' for notice in rest)}"[:MAX_LAST_NOTICE])
    return [("x-dragoman-notice", header_value(text)) for text in texts]


def header_value(text: str, /) -> str:
    """The text with only the characters that a header may have.

    >>> header_value("a\\nb → c")
    'a b ? c'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if " " <= letter <= "~" else " " if letter.isspace() else "?" for letter in text)
