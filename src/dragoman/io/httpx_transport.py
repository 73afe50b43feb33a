"""A transport over a user's own httpx client. httpx is no dependency: it is imported only for such a client."""

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
"""What a client raises: httpx's own errors and time-outs, and the errors of its hooks and its event loop."""


def wrap_httpx_client(client: object, /) -> "HttpxTransport | None":
    """A transport over an httpx client; None for any other object."""
    return HttpxTransport(client) if isinstance(client, httpx.Client | httpx.AsyncClient) else None


class HttpxTransport:
    """A transport over an httpx.Client (for blocking calls) or an httpx.AsyncClient (for async calls).

    Its proxies, certificates and event hooks apply; its base URL and its redirects do not. httpx limits each read, not
    the whole answer: in blocking calls the deadline is checked between reads. You close the client, not we.
    """

    def __init__(self, client: httpx.Client | httpx.AsyncClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"HttpxTransport({type(self._client).__name__})"

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        exchange = self.open(Open(effect.request, effect.timeout, effect.connect, total=effect.timeout))
        deadline = None if effect.timeout is None else time.monotonic() + effect.timeout
        body = BodyBuffer(effect)
        try:
            while data := exchange.handle.read(None if deadline is None else deadline - time.monotonic()):
                body.add(data)
        finally:
            exchange.handle.close()
        return HttpResponse(exchange.head, body.to_bytes())

    async def asend(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
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
        """Send a request and read the head of the answer."""
        client = self._blocking_client()
        try:
            response = client.send(_build(client, effect), stream=True, follow_redirects=False)
        except _UNSENDABLE:
            response = None
        except _FAULTS as error:
            raise translate(error, effect.request) from error
        return _exchange(response, effect.request)

    async def aopen(self, effect: Open, /) -> Exchange:
        """Send a request and read the head of the answer."""
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
        """Do nothing: the user closes the client."""

    def _blocking_client(self) -> httpx.Client:
        if isinstance(self._client, httpx.Client):
            return self._client
        raise SetupError("http_client must be an httpx.Client for blocking calls, got an httpx.AsyncClient")

    def _async_client(self) -> httpx.AsyncClient:
        if isinstance(self._client, httpx.AsyncClient):
            return self._client
        raise SetupError("http_client must be an httpx.AsyncClient for async calls, got an httpx.Client")


class _HttpxHandle:
    """A streamed answer of httpx."""

    def __init__(self, response: httpx.Response, request: HttpRequest) -> None:
        self._response = response
        self._request = request
        self._chunks: Iterator[bytes] | None = None
        self._achunks: AsyncIterator[bytes] | None = None

    def read(self, seconds: float | None, /) -> bytes:
        if seconds is not None and seconds <= 0:
            raise TimedOut(f"{redact_url(self._request.origin)}: no answer in time")
        self._chunks = self._chunks or self._response.iter_bytes()
        try:
            return next(self._chunks, b"")
        except _FAULTS as error:
            raise translate(error, self._request) from error

    async def aread(self, seconds: float | None, /) -> bytes:
        self._achunks = self._achunks or self._response.aiter_bytes()
        try:
            async with asyncio.timeout(seconds):
                return await anext(self._achunks, b"")
        except _FAULTS as error:
            raise translate(error, self._request) from error

    def finish(self) -> None:
        self.close()

    async def afinish(self) -> None:
        await self.aclose()

    def close(self) -> None:
        self._response.close()

    async def aclose(self) -> None:
        await self._response.aclose()


def _exchange(response: httpx.Response | None, request: HttpRequest) -> Exchange:
    """The exchange. Our error is raised here, outside `except`: httpx's error may quote a header, and so a key."""
    if response is None:
        raise unsendable(request)
    return Exchange(_head(response), _HttpxHandle(response, request))


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
    """Our error for an error of httpx; it does not quote the path, which may hold a key."""
    origin, reason = redact_url(request.origin), str(error) or type(error).__name__
    match error:
        case httpx.ConnectTimeout():
            return TimedOut(f"{origin}: no connection within the `connect` timeout")
        case httpx.TimeoutException() | TimeoutError():
            return TimedOut(f"{origin}: no answer in time")
        case httpx.ConnectError() | httpx.ProxyError():
            return ConnectFailed(f"{origin}: cannot connect: {reason}")
        case httpx.DecodingError():
            return Malformed(f"{origin}: not HTTP: {reason}")
        case httpx.HTTPError() | httpx.StreamError():
            return Reset(f"{origin}: the connection broke: {reason}")
        case _:
            return TransportError(f"{origin}: the client failed: {type(error).__name__}: {reason}")
