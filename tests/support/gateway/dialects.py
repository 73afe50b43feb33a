"""Calls the gateway as a client of a dialect does, without a socket: the client halves of the wires encode and decode."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.events import Event, fold
from dragoman.gateway.app import App
from dragoman.gateway.config import decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.response import GatewayResponse
from dragoman.http import Head, HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Request, Response, user

BASES = {"bedrock": "", "google": "/v1beta", "google_interactions": "/v1beta", "ollama": "", "native": "/native/v1"}


def app_of(config: str = "", /) -> App:
    return App(Runtime(decode_config(config), {}))


def request_of(dialect: str, model: str, request: Request) -> HttpRequest:
    """The bytes that a client of a dialect would send."""
    base_url = "http://gateway" + BASES.get(dialect, "/v1")
    target = Target(provider="gateway", model=model, wire=dialect, base_url=base_url, api_key="sk-client-key")
    return wires.get(dialect).client.encode_request(request, target)


def hello(*, stream: bool = False) -> Request:
    return Request(messages=(user("hello"),), stream=stream)


class ClientResponse(msgspec.Struct):
    """What the client saw."""

    status: int
    headers: dict[str, str]
    writes: list[bytes]
    notices: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)


def post(path: str, body: bytes, **headers: str) -> HttpRequest:
    return HttpRequest(method="POST", path=path, body=body, headers=headers)


async def send_request(app: App, http: HttpRequest) -> ClientResponse:
    answer: GatewayResponse = await app.answer(http)
    writes: list[bytes] = []

    async def write(data: bytes) -> None:
        writes.append(data)

    if isinstance(answer.body, bytes):
        writes.append(answer.body)
    else:
        await answer.body(write)
    notices = tuple(value for name, value in answer.headers if name == "x-dragoman-notice")
    return ClientResponse(answer.status, dict(answer.headers), writes, notices)


def send_blocking(app: App, http: HttpRequest) -> ClientResponse:
    return run(send_request(app, http))


def run(work: Coroutine[Any, Any, ClientResponse]) -> ClientResponse:
    return asyncio.run(work)


def events_of(dialect: str, request: Request, seen: ClientResponse) -> list[Event]:
    """What the client of that dialect makes of it; raises what it would raise."""
    client = wires.get(dialect).client
    if seen.status >= 300:
        raise client.decode_error(Head(status=seen.status, headers=seen.headers), seen.body)
    if not request.stream:
        return client.decode_body(seen.body, request)
    decoder = client.stream_decoder(request)
    return [*decoder.feed(seen.body), *decoder.feed(b"")]


def response_of(dialect: str, request: Request, seen: ClientResponse) -> Response:
    return fold(events_of(dialect, request, seen))


def error_of(dialect: str, request: Request, seen: ClientResponse) -> DragomanError | None:
    try:
        events_of(dialect, request, seen)
    except DragomanError as error:
        return error
    return None
