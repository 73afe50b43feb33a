"""What the gateway says beside a dialect's own words: headers of an answer, refusals that belong to no dialect."""

from collections.abc import Iterable, Mapping

from dragoman.errors import DragomanError
from dragoman.gateway.errors import WrongMethod
from dragoman.gateway.server.response import GatewayResponse
from dragoman.http import HttpReply
from dragoman.types import Notice
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.json import encode_json

MAX_NOTICES = 16
MAX_NOTICE = 200
MAX_REST = 1000
"""How many notices are told in headers, the last of which names all that are left, and the characters of one: headers
have limits."""
MAX_ID = 128


def said(reply: HttpReply, more: Iterable[tuple[str, str]], /) -> GatewayResponse:
    """A dialect's reply with headers of ours.

    >>> said(HttpReply(body=b"{}"), [("x-request-id", "req_1")]).headers
    [('content-type', 'application/json'), ('x-request-id', 'req_1')]
    """
    return GatewayResponse(reply.status, [*reply.headers.items(), *more], reply.body)


def plain(value: object, /, *, status: int = 200) -> GatewayResponse:
    """JSON that is of no dialect.

    >>> plain({"status": "live"}).body
    b'{"status":"live"}'
    """
    return GatewayResponse(status, [("content-type", "application/json")], encode_json(value))


def refusal(error: DragomanError, id: str, /) -> GatewayResponse:
    """A refusal to somebody whose dialect is not known, in the words that most know.

    >>> from dragoman.gateway.errors import NoRoute
    >>> refusal(NoRoute("nothing answers at /v2"), "req_1").status
    404
    """
    body = encode_json({"error": {**encode_openai_error(error), "request_id": id}})
    more = error.headers if isinstance(error, WrongMethod) else ()
    return GatewayResponse(error.http_status, [*error_headers(error).items(), *more, *named(id)], body)


def named(id: str, /) -> list[tuple[str, str]]:
    """The id of a request where the libraries of each dialect look for it.

    >>> named("req_1")
    [('x-request-id', 'req_1'), ('request-id', 'req_1')]
    """
    return [("x-request-id", id), ("request-id", id)]


def receipt(id: str, target: str | None, tier: str | None, attempts: int, /) -> list[tuple[str, str]]:
    """Headers that say who answered.

    >>> receipt("req_1", "groq/llama", None, 2)[2:]
    [('x-dragoman-target', 'groq/llama'), ('x-dragoman-attempts', '2')]
    """
    headers = named(id)
    if target is not None:
        headers.append(("x-dragoman-target", latin(target)))
    if tier is not None:
        headers.append(("x-dragoman-tier", latin(tier)))
    if attempts:
        headers.append(("x-dragoman-attempts", str(attempts)))
    return headers


def notes(notices: Iterable[Notice], /) -> list[tuple[str, str]]:
    """One header a notice: what was dropped or bent on the way to the target.

    >>> notes([Notice(kind="dropped", what="seed", why="ollama: it has none")])
    [('x-dragoman-notice', 'dropped seed: ollama: it has none')]
    """
    whole, rest = [*notices][: MAX_NOTICES - 1], [*notices][MAX_NOTICES - 1 :]
    told = [f"{notice.kind} {notice.what}: {notice.why}"[:MAX_NOTICE] for notice in whole]
    if rest:
        told.append(f"and {', '.join(f'{notice.kind} {notice.what}' for notice in rest)}"[:MAX_REST])
    return [("x-dragoman-notice", latin(text)) for text in told]


def latin(text: str, /) -> str:
    """The same as a header can say it.

    >>> latin("a\\nb → c")
    'a b ? c'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if " " <= letter <= "~" else " " if letter.isspace() else "?" for letter in text)


def request_id(headers: Mapping[str, str], fresh: str, /) -> str:
    """The id that a client or a proxy gave, where it is one; otherwise the fresh one.

    >>> request_id({"x-request-id": "abc"}, "req_1"), request_id({"x-request-id": "a b"}, "req_1")
    ('abc', 'req_1')
    """
    told = headers.get("x-request-id")
    if not told:
        return fresh
    return told if len(told) <= MAX_ID and told.isascii() and told.isprintable() and " " not in told else fresh
