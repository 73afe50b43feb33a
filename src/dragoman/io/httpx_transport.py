"""The transport over a user's own httpx client.

httpx limits each read, not a whole wait, and its blocking client cannot be stopped from outside. So a blocking client
sends in a thread of its own, which the call leaves behind if a name is not resolved or no connection is free in time;
and a read is guarded: a thread shuts the socket down when the time is over or the call is stopped. An async wait is
just cancelled.
"""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import copy_context
from typing import Any

import httpx

from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import (
    ConnectFailed,
    ConnectTimeout,
    DragomanError,
    Malformed,
    ReadTimeout,
    Reset,
    SetupError,
    TransportError,
)
from dragoman.http import Head, HttpRequest, HttpResponse, redact_url
from dragoman.io.connection_pool import discard_unsent, send_unsent
from dragoman.io.stopper import Stopper
from dragoman.io.transport import BodyBuffer, unsendable, with_date

_UNSENDABLE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError)
_FAULTS = (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError)
"""What a client raises: httpx's own errors, and those of its hooks and its event loop."""


def wrap_httpx_client(client: object, /) -> "HttpxTransport | None":
    """The transport over an httpx client; None if it is not one."""
    return HttpxTransport(client) if isinstance(client, httpx.Client | httpx.AsyncClient) else None


class HttpxTransport:
    """A transport over an httpx.Client (for blocking calls) or an httpx.AsyncClient (for async calls).

    The client's proxies, certificates and event hooks apply; its base URL and its redirects do not. Its owner closes
    it.
    """

    def __init__(self, client: httpx.Client | httpx.AsyncClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"HttpxTransport({type(self._client).__name__})"

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        ends = _moment(effect.total_timeout)
        body = BodyBuffer(effect)
        opened = self.open(
            Open(
                effect.request,
                effect.head_timeout,
                effect.connect_timeout,
                total_timeout=effect.total_timeout,
                stopper=effect.stopper,
            )
        )
        try:
            while data := opened.handle.read_until(ends, "no complete answer in time"):
                body.add(data)
        finally:
            opened.handle.close()
        return HttpResponse(status=opened.head.status, headers=opened.head.headers, body=body.to_bytes())

    async def asend(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        body = BodyBuffer(effect)
        has_head = False
        progress = _Progress()
        try:
            async with asyncio.timeout(effect.total_timeout):
                opened = await self._aopen(
                    Open(
                        effect.request,
                        effect.head_timeout,
                        effect.connect_timeout,
                        total_timeout=effect.total_timeout,
                    ),
                    progress,
                )
                has_head = True
                try:
                    while data := await opened.handle.aread(None):
                        body.add(data)
                finally:
                    await opened.handle.aclose()
        except TimeoutError as error:
            timeout_message = "no complete answer in time" if has_head else "no answer in time"
            raise translate(progress.explain(error), effect.request, timeout_message, has_head=has_head) from error
        return HttpResponse(status=opened.head.status, headers=opened.head.headers, body=body.to_bytes())

    def open(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        client = self._blocking_client()
        guard = _Guard(client, effect.stopper)
        progress = _Progress()
        response = None
        try:
            request = guard.request = _build(client, effect)
            request.extensions["trace"] = progress.trace
            response = guard.response = _Sending(client, request, guard).run(
                _moment(_shortest(effect.head_timeout, effect.total_timeout)),
                _moment(effect.connect_timeout),
                progress,
                effect.stopper,
            )
            _limit_reads(request, effect)
        except _UNSENDABLE:
            response = None
        except _FAULTS as error:
            fault = progress.explain(TimeoutError() if guard.is_over else error)
            raise translate(fault, effect.request, "no answer in time") from error
        finally:
            if response is None:
                guard.close()
        if response is None:
            # Raised outside `except`: httpx's error may quote a header, and so a key.
            raise unsendable(effect.request)
        return OpenResponse(
            _head(response), _BlockingHandle(response, effect.request, guard, _moment(effect.total_timeout))
        )

    async def aopen(self, effect: Open, /) -> OpenResponse:
        """Send a request and read the head of the answer."""
        return await self._aopen(effect, _Progress())

    async def _aopen(self, effect: Open, progress: "_Progress") -> OpenResponse:
        client = self._async_client()
        ends = _moment(effect.total_timeout)
        try:
            async with asyncio.timeout(_shortest(effect.head_timeout, effect.total_timeout)):
                request = _build(client, effect)
                request.extensions["trace"] = _AsyncTrace(client, request, progress)
                response = await client.send(request, stream=True, follow_redirects=False)
                _limit_reads(request, effect)
        except _UNSENDABLE:
            response = None
        except _FAULTS as error:
            raise translate(progress.explain(error), effect.request, "no answer in time") from error
        if response is None:
            raise unsendable(effect.request)
        return OpenResponse(_head(response), _AsyncHandle(response, effect.request, ends))

    def close(self) -> None:
        """Do nothing: the client belongs to its owner."""

    def _blocking_client(self) -> httpx.Client:
        if isinstance(self._client, httpx.Client):
            return self._client
        raise SetupError("http_client must be an httpx.Client for blocking calls, got an httpx.AsyncClient")

    def _async_client(self) -> httpx.AsyncClient:
        if isinstance(self._client, httpx.AsyncClient):
            return self._client
        raise SetupError("http_client must be an httpx.AsyncClient for async calls, got an httpx.Client")


class _BlockingHandle:
    """An answer that is being read, blocking."""

    def __init__(self, response: httpx.Response, request: HttpRequest, guard: "_Guard", ends: float | None) -> None:
        self._response = response
        self._request = request
        self._guard = guard
        self._ends = ends
        self._chunks: Iterator[bytes] = response.iter_bytes()

    def read(self, seconds: float | None, /) -> bytes:
        return self.read_until(_shortest(self._ends, _moment(seconds)), "no more data in time")

    def read_until(self, ends: float | None, timeout_message: str, /) -> bytes:
        try:
            with self._guard.until(ends):
                return next(self._chunks, b"")
        except _FAULTS as error:
            fault = TimeoutError() if self._guard.is_over else error
            raise translate(fault, self._request, timeout_message, has_head=True) from error

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self._guard.close()
        self._response.close()


class _AsyncHandle:
    """An answer that is being read, async."""

    def __init__(self, response: httpx.Response, request: HttpRequest, ends: float | None) -> None:
        self._response = response
        self._request = request
        self._ends = ends
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes()

    async def aread(self, seconds: float | None, /) -> bytes:
        ends = _shortest(self._ends, _moment(seconds))
        try:
            async with asyncio.timeout(None if ends is None else ends - time.monotonic()):
                return await anext(self._chunks, b"")
        except _FAULTS as error:
            raise translate(error, self._request, "no more data in time", has_head=True) from error

    async def afinish(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._response.aclose()


class _Progress:
    """Whether a request still waits for its connection: a time limit that ends then is one of the connection."""

    def __init__(self) -> None:
        self.is_connecting = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of httpcore. A CONNECT goes to a proxy."""
        if event == "connection.connect_tcp.started":
            self.is_connecting = True
        elif event.endswith(".send_request_headers.started") and info["request"].method != b"CONNECT":
            self.is_connecting = False

    def explain(self, error: Exception) -> Exception:
        """The error, or ConnectTimeout for a time limit of ours that ended before there was a connection."""
        return httpx.ConnectTimeout("") if self.is_connecting and isinstance(error, TimeoutError) else error


class _AsyncTrace:
    """Takes the events of httpcore in an async client. A connection that closes while it sends discards the rest."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request, progress: _Progress) -> None:
        self._client = client
        self._request = request
        self._progress = progress

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        self._progress.trace(event, info)
        on_close = _ON_CLOSE.get(event)
        if on_close is not None:
            stream = _network_stream(self._client, self._request, None)
            sock = None if stream is None else stream.get_extra_info("socket")
            if sock is not None:
                on_close(sock)


_ON_CLOSE = {"http11.send_request_body.started": discard_unsent, "http11.send_request_body.complete": send_unsent}
"""What becomes of unsent bytes if the connection is closed after an event."""


class _Sending:
    """Sends a request in a thread, up to the head of its answer, so that the caller can leave it at any moment."""

    def __init__(self, client: httpx.Client, request: httpx.Request, guard: "_Guard") -> None:
        self._client = client
        self._request = request
        self._guard = guard
        self._is_abandoned = False
        self._lock = threading.Lock()
        self._result: Future[httpx.Response] = Future()
        self._stopped: Future[None] = Future()

    def run(
        self, ends: float | None, connects: float | None, progress: "_Progress", stopper: Stopper | None
    ) -> httpx.Response:
        """The response, whose body is not read. Raises TimeoutError when a moment is over."""
        if ends is not None and ends <= time.monotonic():
            raise TimeoutError
        if stopper is not None:
            stopper.attach(self._stop)
        context = copy_context()
        threading.Thread(target=context.run, args=(self._send,), name="dragoman-httpx", daemon=True).start()
        try:
            first = _shortest(ends, connects)
            self._wait(first)
            if not self._is_over() and first != ends and not progress.is_connecting:
                self._wait(ends)
            if self._result.done():
                return self._result.result()
            self._guard.is_over = True
            raise TimeoutError
        finally:
            self._abandon()
            if stopper is not None:
                stopper.attach(self._guard.abort)

    def _wait(self, ends: float | None) -> None:
        seconds = None if ends is None else max(0.0, ends - time.monotonic())
        futures: list[Future[Any]] = [self._result, self._stopped]
        wait(futures, seconds, FIRST_COMPLETED)

    def _is_over(self) -> bool:
        return self._result.done() or self._stopped.done()

    def _send(self) -> None:
        with self:
            response = self._client.send(self._request, stream=True, follow_redirects=False)
            with self._lock:
                if not self._is_abandoned:
                    self._result.set_result(response)
                    return
            response.close()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Keep an error of any kind for the caller, who raises it in its own thread."""
        if error is not None and not self._result.done():
            self._result.set_exception(error)
        return True

    def _stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)
        self._guard.abort()

    def _abandon(self) -> None:
        """Leave the thread alone, if it is not done: it ends by itself, and what it gets is closed."""
        with self._lock:
            self._is_abandoned = not self._result.done()
        if self._is_abandoned:
            self._guard.abort()


class _Guard:
    """Ends the blocking waits of one request in time, or when it is stopped, by shutting its socket down."""

    def __init__(self, client: httpx.Client, stopper: Stopper | None) -> None:
        self.request: httpx.Request | None = None
        self.response: httpx.Response | None = None
        self.is_over = False
        """Whether a wait was ended because its time was over."""
        self._client = client
        self._stopper = stopper
        self._is_closed = False
        self._ends: float | None = None
        self._wakes: float | None = None
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        if stopper is not None:
            stopper.attach(self.abort)

    def until(self, ends: float | None, /) -> "_Guard":
        """Guard the `with` block that follows, until a moment."""
        with self._condition:
            self._ends = ends
            if ends is None:
                return self
            if ends <= time.monotonic():
                raise TimeoutError
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="dragoman-guard", daemon=True)
                self._thread.start()
            elif self._wakes is None or ends < self._wakes:
                self._condition.notify()
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._ends = None

    def close(self) -> None:
        """End the guard."""
        if self._stopper is not None:
            self._stopper.detach()
        with self._condition:
            self._is_closed = True
            self._condition.notify()

    def abort(self) -> None:
        """Shut the socket down, from any thread."""
        stream = None if self.request is None else _network_stream(self._client, self.request, self.response)
        sock = None if stream is None else stream.get_extra_info("socket")
        if sock is not None:
            discard_unsent(sock)
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:  # it is closed already
                return

    def _watch(self) -> None:
        with self._condition:
            while not self._is_closed:
                self._wakes = self._ends
                remaining = None if self._ends is None else self._ends - time.monotonic()
                if remaining is not None and remaining <= 0:
                    self.is_over = True
                    self.abort()
                    return
                self._condition.wait(remaining)


def _network_stream(
    client: httpx.Client | httpx.AsyncClient, request: httpx.Request, response: httpx.Response | None
) -> Any:
    """The socket of a request, if it has one of its own: an HTTP/2 connection is shared.

    Before the head has come, httpx has no public way to it; its pool knows (httpx 0.28, httpcore 1.0).
    """
    if response is not None:
        return None if response.http_version == "HTTP/2" else response.extensions.get("network_stream")
    find: Callable[[httpx.URL], object] | None = getattr(client, "_transport_for_url", None)
    pools = () if find is None else _pools(find(request.url))
    for entry in [entry for pool in pools for entry in getattr(pool, "_requests", ())]:
        if entry.request.extensions is request.extensions:
            connection = entry.connection
            while connection is not None and not hasattr(connection, "_network_stream"):
                connection = getattr(connection, "_connection", None)
            if type(connection).__name__ in ("HTTP11Connection", "AsyncHTTP11Connection"):
                return getattr(connection, "_network_stream", None)
    return None


def _pools(transport: object, depth: int = 5) -> Iterator[object]:
    """The pool of a transport, or of the transports that it wraps: for retries, a cache, a log."""
    if (pool := getattr(transport, "_pool", None)) is not None:
        yield pool
    elif depth:
        for value in list(getattr(transport, "__dict__", {}).values()):
            if isinstance(value, httpx.BaseTransport | httpx.AsyncBaseTransport):
                yield from _pools(value, depth - 1)


def _moment(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _shortest(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _build(client: httpx.Client | httpx.AsyncClient, effect: Open) -> httpx.Request:
    request = effect.request
    whole = _shortest(effect.head_timeout, effect.total_timeout)
    timeout = httpx.Timeout(whole, connect=_shortest(effect.connect_timeout, whole))
    return client.build_request(
        request.method, request.url, headers=dict(request.headers), content=request.body or None, timeout=timeout
    )


def _limit_reads(request: httpx.Request, effect: Open) -> None:
    """After the head, a single read may take as long as the stream may be silent. httpx looks at it for each body."""
    request.extensions["timeout"]["read"] = _shortest(effect.read_timeout, effect.total_timeout)


def _head(response: httpx.Response) -> Head:
    headers: dict[str, str] = {}
    for name, value in response.headers.raw:  # httpx would guess the encoding
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Head(status=response.status_code, headers=with_date(response.status_code, headers))


def translate(
    error: Exception, request: HttpRequest, timeout_message: str, /, *, has_head: bool = False
) -> DragomanError:
    """Our error for one of httpx's; it does not quote the path, which may hold a key.

    For a time-out, `timeout_message` is the message, and `has_head` says whether the head of the answer had come.
    """
    origin, reason = redact_url(request.origin), str(error) or type(error).__name__
    match error:
        case httpx.ConnectTimeout():
            return ConnectTimeout(f"{origin}: no connection in time")
        case httpx.TimeoutException() | TimeoutError():
            return ReadTimeout(f"{origin}: {timeout_message}", has_head=has_head)
        case httpx.ConnectError() | httpx.ProxyError():
            return ConnectFailed(f"{origin}: cannot connect: {reason}; check the base URL and the network")
        case httpx.DecodingError():
            return Malformed(f"{origin}: not HTTP: {reason}")
        case httpx.HTTPError() | httpx.StreamError():
            return Reset(f"{origin}: the connection broke: {reason}")
        case _:
            return TransportError(f"{origin}: the client failed: {type(error).__name__}: {reason}")
