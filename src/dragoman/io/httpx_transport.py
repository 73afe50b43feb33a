"""A user's own httpx client in, a transport out. httpx is there already: it is the user's."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import httpx

from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import (
    ConnectFailed,
    DragomanError,
    Malformed,
    Reset,
    SetupError,
    TimedOut,
    TransportError,
)
from dragoman.http import Head, HttpRequest, redact_url
from dragoman.io.transport import BodyBuffer, response_head, unsendable

_UNSENDABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError)
_FAULTS = (httpx.HTTPError, OSError, RuntimeError)
"""What a client raises: httpx's own errors, time-outs among them, and what its hooks and its loop fail with."""


def wrap_httpx_client(client: object, /) -> "HttpxTransport | None":
    """The transport over an httpx client; None for what is none."""
    return HttpxTransport(client) if isinstance(client, httpx.Client | httpx.AsyncClient) else None


class HttpxTransport:
    """A transport over an httpx.Client (for blocking calls) or an httpx.AsyncClient (for async ones).

    Its proxies, certificates and event hooks hold; its base URL and redirects do not. httpx limits each read, not a
    whole answer: in blocking use a deadline is looked at between reads. Closing it is left to its owner.
    """

    def __init__(self, client: httpx.Client | httpx.AsyncClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        """What is behind it."""
        return f"HttpxTransport({type(self._client).__name__})"

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        exchange = self.open(Open(effect.request, effect.timeout, effect.connect, total=effect.timeout))
        ends = None if effect.timeout is None else time.monotonic() + effect.timeout
        body = BodyBuffer(effect)
        try:
            while data := exchange.handle.read(None if ends is None else ends - time.monotonic()):
                body.add(data)
        finally:
            exchange.handle.close()
        return HttpResponse(exchange.head, body.to_bytes())

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        body = BodyBuffer(effect)
        try:
            async with asyncio.timeout(effect.timeout):
                exchange = await self.aopen(Open(effect.request, None, effect.connect))
                try:
                    while data := await exchange.handle.aread(None):
                        body.add(data)
                finally:
                    await exchange.handle.aclose()
        except TimeoutError as error:
            raise translate(error, effect.request) from error
        return HttpResponse(exchange.head, body.to_bytes())

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        client = self._blocking_client()
        try:
            response = client.send(_build(client, effect), stream=True, follow_redirects=False)
        except _UNSENDABLE:
            response = None
        except _FAULTS as error:
            raise translate(error, effect.request) from error
        return _exchange(response, effect.request)

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        client = self._async_client()
        try:
            async with asyncio.timeout(effect.timeout):
                response = await client.send(_build(client, effect), stream=True, follow_redirects=False)
        except _UNSENDABLE:
            response = None
        except _FAULTS as error:
            raise translate(error, effect.request) from error
        return _exchange(response, effect.request)

    def close(self) -> None:
        """Nothing: the client is its owner's."""

    def _blocking_client(self) -> httpx.Client:
        if isinstance(self._client, httpx.Client):
            return self._client
        raise SetupError("blocking calls need an httpx.Client; http_client= is an httpx.AsyncClient")

    def _async_client(self) -> httpx.AsyncClient:
        if isinstance(self._client, httpx.AsyncClient):
            return self._client
        raise SetupError("async calls need an httpx.AsyncClient; http_client= is an httpx.Client")


class _Answer:
    """A streamed answer of httpx."""

    def __init__(self, response: httpx.Response, request: HttpRequest) -> None:
        self._response = response
        self._request = request
        self._chunks: Iterator[bytes] | None = None
        self._achunks: AsyncIterator[bytes] | None = None

    def read(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        if within is not None and within <= 0:
            raise TimedOut(f"{redact_url(self._request.origin)}: nothing came in time")
        self._chunks = self._chunks or self._response.iter_bytes()
        try:
            return next(self._chunks, b"")
        except _FAULTS as error:
            raise translate(error, self._request) from error

    async def aread(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        self._achunks = self._achunks or self._response.aiter_bytes()
        try:
            async with asyncio.timeout(within):
                return await anext(self._achunks, b"")
        except _FAULTS as error:
            raise translate(error, self._request) from error

    def finish(self) -> None:
        """Close; httpx keeps a connection that was read to its end."""
        self.close()

    async def afinish(self) -> None:
        """Close; httpx keeps a connection that was read to its end."""
        await self.aclose()

    def close(self) -> None:
        """Close the connection, if the answer is not at its end."""
        self._response.close()

    async def aclose(self) -> None:
        """Close the connection, if the answer is not at its end."""
        await self._response.aclose()


def _exchange(response: httpx.Response | None, request: HttpRequest) -> Exchange:
    """What was answered; or our error, told out here, without theirs, which may quote a header, and so a key."""
    if response is None:
        raise unsendable(request)
    return Exchange(_head(response), _Answer(response, request))


def _build(client: httpx.Client | httpx.AsyncClient, effect: Send | Open) -> httpx.Request:
    request = effect.request
    quiet = effect.quiet if isinstance(effect, Open) else None
    read = min((limit for limit in (effect.timeout, quiet) if limit is not None), default=None)
    timeout = httpx.Timeout(read, connect=effect.connect)
    return client.build_request(
        request.method, request.url, headers=dict(request.headers), content=request.body or None, timeout=timeout
    )


def _head(response: httpx.Response) -> Head:
    return response_head(response.status_code, dict(response.headers.items()))


def translate(error: Exception, request: HttpRequest, /) -> DragomanError:
    """Our error for one of httpx's; told without the path, which may hold a key."""
    place, why = redact_url(request.origin), str(error) or type(error).__name__
    match error:
        case httpx.ConnectTimeout():
            return TimedOut(f"{place}: no connection in time; the limit `connect` has passed")
        case httpx.TimeoutException() | TimeoutError():
            return TimedOut(f"{place}: nothing came in time")
        case httpx.ConnectError() | httpx.ProxyError():
            return ConnectFailed(f"{place}: cannot connect: {why}")
        case httpx.DecodingError():
            return Malformed(f"{place}: not HTTP: {why}")
        case httpx.HTTPError() | httpx.StreamError():
            return Reset(f"{place}: the connection broke: {why}")
        case _:
            return TransportError(f"{place}: the client failed: {type(error).__name__}: {why}")
