"""The default transport, over pyreqwest.

pyreqwest's blocking client has no timeout for a single read, another thread cannot stop it, and Ctrl-C waits until the
answer has come. So blocking calls run the async client in the caller's own thread (see blocking.py), and blocking and
async calls share one pool. docs/decisions/0004-blocking-over-async.md has the measurements.
"""

import asyncio
import atexit
import os
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import (
    ConnectFailed,
    DragomanError,
    Malformed,
    Reset,
    SetupError,
    TimedOut,
)
from dragoman.http import Head, HttpRequest, redact_url
from dragoman.io.blocking import awaited, wait
from dragoman.io.transport import BodyBuffer, response_head, unsendable

if TYPE_CHECKING:
    from pyreqwest.bytes import Bytes
    from pyreqwest.client import Client
    from pyreqwest.exceptions import DetailedPyreqwestError
    from pyreqwest.http import Url
    from pyreqwest.proxy import ProxyBuilder
    from pyreqwest.request import StreamRequest
    from pyreqwest.response import Response, ResponseBodyReader

DRAIN_TIMEOUT = 0.02
"""Seconds to wait for the end of a body after the last event; it comes at once or not at all."""
TIMEOUT_GRACE = 0.02
"""Seconds that we wait longer than pyreqwest's own timeout, which closes the connection and so should come first."""
EXIT_DELAY = 0.005
"""Seconds that a program waits at its exit if it made a call; see `_wait_at_exit`."""
MAX_CLIENTS = 16
READ_SIZE = 65536
"""Bytes of a stream that are read together if they have already arrived."""
MAX_ORIGINS = 256
_URL = r"(?<=\()\w+://[^\s)]+"
CERTIFICATES = "the certificates of ca= or SSL_CERT_FILE"
IDLE_TIMEOUT = 90.0
"""Seconds that the pool keeps an idle connection (reqwest 0.13)."""


class PyreqwestTransport:
    """The default transport: pooled connections, HTTP/2 if the server offers it, proxies from the environment.

    `ca` is a PEM file or its bytes, trusted in addition to the system's certificates; it is read at the first call.
    `env` has the proxy variables; None means those of the process. Loopback addresses never go through a proxy.
    `pin` is a host and the address to use for it, without DNS and without a proxy.
    If a process forks, it must make its first call after the fork; otherwise the child gets a SetupError.
    """

    def __init__(
        self,
        *,
        ca: bytes | str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pin: tuple[str, str] | None = None,
    ) -> None:
        self._pin = pin
        self._ca = ca
        self._env = env
        self._clients: dict[tuple[float | None, float | None, bool], Client] = {}
        self._connections = StaleConnections()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return "PyreqwestTransport()"

    def send(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        began, deadline = time.monotonic(), _deadline(effect.timeout)
        request = self._build(effect.request, deadline, effect.connect, None, buffer=1)
        late = None if deadline is None else deadline + TIMEOUT_GRACE
        try:
            response = wait(request.__aenter__(), _remaining(late))
        except _errors() as error:
            raise self._without_answer(error, effect.request, began) from error
        self._connections.note(effect.request.origin)
        body = _Body(effect, request, response)
        try:
            while not body.is_complete:
                body.add_chunk(wait(body.reader.read_chunk(), _remaining(late)))
        except _errors() as error:
            raise translate(error, effect.request) from error
        finally:
            body.close()
        return HttpResponse(body.head, body.to_bytes())

    async def asend(self, effect: Send, /) -> HttpResponse:
        """Send a request and read the whole answer."""
        began = time.monotonic()
        request = self._build(effect.request, _deadline(effect.timeout), effect.connect, None, buffer=1)
        try:
            response = await awaited(request.__aenter__())
        except _errors() as error:
            raise self._without_answer(error, effect.request, began) from error
        self._connections.note(effect.request.origin)
        body = _Body(effect, request, response)
        try:
            while not body.is_complete:
                body.add_chunk(await awaited(body.reader.read_chunk()))
        except _errors() as error:
            raise translate(error, effect.request) from error
        finally:
            body.close()
        return HttpResponse(body.head, body.to_bytes())

    def open(self, effect: Open, /) -> Exchange:
        """Send a request and read the head of the answer."""
        began = time.monotonic()
        deadline, head_deadline = _deadline(effect.total), _deadline(effect.timeout)
        request = self._build(effect.request, deadline, effect.connect, effect.quiet)
        try:
            response = wait(request.__aenter__(), _remaining(head_deadline))
        except _errors() as error:
            raise self._without_answer(error, effect.request, began) from error
        self._connections.note(effect.request.origin)
        return Exchange(_head(response), _PyreqwestHandle(request, response.body_reader, effect.request, deadline))

    async def aopen(self, effect: Open, /) -> Exchange:
        """Send a request and read the head of the answer."""
        began = time.monotonic()
        deadline, head_deadline = _deadline(effect.total), _deadline(effect.timeout)
        request = self._build(effect.request, deadline, effect.connect, effect.quiet)
        try:
            async with asyncio.timeout(_remaining(head_deadline)):
                response = await awaited(request.__aenter__())
        except _errors() as error:
            raise self._without_answer(error, effect.request, began) from error
        self._connections.note(effect.request.origin)
        return Exchange(_head(response), _PyreqwestHandle(request, response.body_reader, effect.request, deadline))

    def close(self) -> None:
        """Close the pooled connections: running requests end with Reset, a later request opens new ones."""
        while self._clients:
            _, client = self._clients.popitem()
            if self._process == os.getpid():
                wait(client.close(), 1.0)

    def _without_answer(self, error: Exception, request: HttpRequest, began: float) -> DragomanError:
        """Our error if no byte of an answer came; it may be retried at once if the connection was probably stale."""
        from pyreqwest.exceptions import ClientClosedError

        failure = translate(error, request)
        is_reset = isinstance(failure, Reset) and not isinstance(error, ClientClosedError)
        if is_reset and self._connections.was_stale(request.origin, began):
            failure.count_failure, failure.retry_after = False, 0.0
        return failure

    def _build(
        self,
        request: HttpRequest,
        deadline: float | None,
        connect: float | None,
        quiet: float | None,
        *,
        buffer: int = 0,
    ) -> "StreamRequest":
        """The request, with the time that remains. Building the first client takes time, too, so that counts.

        pyreqwest 0.15 reads `buffer` bytes of the body before it returns the head, and cannot be cancelled until then.
        A stream reads none. A whole answer reads its first piece, which is most often all of it: that saves a switch of
        threads.
        """
        client = self._client(connect, quiet, loopback=_is_loopback(request.origin))
        try:
            builder = client.request(request.method, _url(request.url)).headers(dict(request.headers))
        except ValueError:
            builder = None
        if builder is None:
            # Raised outside `except`: pyreqwest's error may quote a header, and so a key.
            raise unsendable(request)
        if request.body:
            builder = builder.body_bytes(request.body)
        if (seconds := _remaining(deadline)) is not None:
            builder = builder.timeout(timedelta(seconds=max(seconds, 0.001)))
        return builder.streamed_read_buffer_limit(buffer).build_streamed()

    def _client(self, connect: float | None, quiet: float | None, *, loopback: bool) -> "Client":
        """A client with these timeouts: pyreqwest sets them per client, not per request."""
        if self._process != os.getpid():
            self._clients = {}
            self._process = os.getpid()
        key = (connect, quiet, loopback)
        client = self._clients.get(key)
        if client is None:
            while len(self._clients) >= MAX_CLIENTS:
                self._clients.pop(next(iter(self._clients)), None)
            client = self._clients.setdefault(key, self._new_client(connect, quiet, loopback=loopback))
        return client

    def _new_client(self, connect: float | None, quiet: float | None, *, loopback: bool) -> "Client":
        from pyreqwest.client import ClientBuilder
        from pyreqwest.exceptions import BuilderError

        _wait_at_exit()
        builder = ClientBuilder().follow_redirects(False).http2(True).http1_lower_case_headers()  # noqa: FBT003 - the API of pyreqwest
        if connect is not None:
            builder = builder.connect_timeout(timedelta(seconds=connect))
        if quiet is not None:
            builder = builder.read_timeout(timedelta(seconds=quiet))
        if loopback or self._pin is not None or self._env is not None:
            builder = builder.no_proxy()
        if self._pin is not None:
            builder = builder.resolve(*self._pin, 0)
        elif self._env is not None and not loopback:
            for proxy in _proxies(self._env):
                builder = builder.proxy(proxy)
        for certificate in _certificates(self._ca):
            builder = builder.add_root_certificate_pem(certificate)
        try:
            return builder.build()
        except BuilderError as error:
            raise SetupError(f"{CERTIFICATES} cannot be used: {_causes(error)[-1]}") from error
        except RuntimeError as error:
            raise SetupError(
                "this process was forked from one that had already made a call; make the first call after the fork, "
                "or start processes with the spawn method"
            ) from error


class StaleConnections:
    """Guesses whether a request failed on a pooled connection that the server had closed.

    pyreqwest does not say whether a request used a new connection, so this remembers answers and failures by origin.
    """

    def __init__(self) -> None:
        self._last_answer: dict[str, float] = {}
        self._last_failure: dict[str, float] = {}

    def note(self, origin: str) -> None:
        """Record an answer."""
        if len(self._last_answer) >= MAX_ORIGINS:
            self._last_answer, self._last_failure = {}, {}
        self._last_answer[origin] = time.monotonic()

    def was_stale(self, origin: str, began: float) -> bool:
        """Whether a request that failed without an answer may have used a stale connection.

        This holds for all requests that were running at the first failure. A later request has a new connection.
        """
        answer, failure = self._last_answer.get(origin), self._last_failure.get(origin, 0.0)
        if answer is None or began - answer > IDLE_TIMEOUT or answer < failure < began:
            return False
        if failure < answer:
            self._last_failure[origin] = time.monotonic()
        return True


class _Body(BodyBuffer):
    """The body of a whole answer: complete at the end of the stream, or after Content-Length bytes."""

    def __init__(self, effect: Send, context: "StreamRequest", response: "Response") -> None:
        super().__init__(effect)
        self.is_complete = False
        self.head = _head(response)
        self.reader = response.body_reader
        self._context = context
        self._length = _length(self.head)
        self._size = 0

    def add_chunk(self, chunk: "Bytes | None") -> None:
        """Append a chunk; None is the end."""
        if chunk is None:
            self.is_complete = True
            return
        data = chunk.to_bytes()
        self._size += len(data)
        self.is_complete = self._size == self._length
        self.add(data)

    def close(self) -> None:
        """Close the connection, unless the body is complete."""
        if not self.is_complete:
            wait(self._context.__aexit__(None, None, None), 1.0)


class _PyreqwestHandle:
    """A streamed answer of pyreqwest."""

    def __init__(
        self,
        context: "StreamRequest",
        reader: "ResponseBodyReader",
        request: HttpRequest,
        deadline: float | None,
    ) -> None:
        self._context = context
        self._reader = reader
        self._request = request
        self._deadline = deadline
        self._at_end = False
        self._closed = False
        self._pending: tuple[Coroutine[Any, Any, Bytes | None], Any] | None = None
        self._error: Exception | None = None

    def read(self, seconds: float | None, /) -> bytes:
        if self._check_open():
            return b""
        try:
            chunk = wait(self._reader.read_chunk(), seconds)
        except _errors() as error:
            raise translate(error, self._request) from error
        return self._take(chunk)

    async def aread(self, seconds: float | None, /) -> bytes:
        """The next bytes, with all that have already arrived; b"" at the end."""
        if self._check_open():
            return b""
        try:
            if seconds is None or (
                self._deadline is not None and time.monotonic() + seconds + TIMEOUT_GRACE >= self._deadline
            ):
                chunk = await self._next()  # the request's own timeout ends it in time
            else:
                async with asyncio.timeout(seconds):
                    chunk = await self._next()
        except _errors() as error:
            raise translate(error, self._request) from error
        data = self._take(chunk)
        return data if self._at_end else self._with_arrived(data)

    async def _next(self) -> "Bytes | None":
        """The next chunk; reading it may have started already."""
        if self._error is not None:
            raise self._error
        work, future = self._pending or (self._reader.read_chunk(), None)
        self._pending = None
        return await awaited(work, future)

    def _with_arrived(self, data: bytes) -> bytes:
        """These bytes and all that have already arrived: reading each chunk alone would cost a turn of the loop."""
        pieces, size = [data], len(data)
        while size < READ_SIZE and not self._at_end:
            if len(pieces) == 2:
                _yield_core()  # more may come at once, but the reading thread may share our core
            work = self._reader.read_chunk()
            try:
                self._pending = work, work.send(None)
                break
            except StopIteration as stop:
                pieces.append(self._take(stop.value))
                size += len(pieces[-1])
            except _errors() as error:
                self._error = error
                break
        return data if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """Read to the end if it comes in time: then the pool can use the connection again."""
        try:
            for seconds in _drain_timeouts():
                if self._at_end or self._closed or not self.read(seconds):
                    break
        except DragomanError:
            self._at_end = False
        finally:
            self.close()

    async def afinish(self) -> None:
        """Read to the end if it comes in time: then the pool can use the connection again."""
        try:
            for seconds in _drain_timeouts():
                if self._at_end or self._closed or not await self.aread(seconds):
                    break
        except DragomanError:
            self._at_end = False
        finally:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pending is not None:
                self._pending[0].close()
            if not self._at_end:
                wait(self._context.__aexit__(None, None, None), 1.0)

    async def aclose(self) -> None:
        """Close without awaiting, so that a cancellation cannot interrupt it."""
        self.close()

    def _check_open(self) -> bool:
        if self._closed:
            raise Reset("the stream was closed")
        return self._at_end

    def _take(self, chunk: "Bytes | None") -> bytes:
        if chunk is None:
            self._at_end = True
            return b""
        return chunk.to_bytes()


_yield_core: Callable[[], object] = getattr(os, "sched_yield", int)
"""Let another thread run; does nothing if the system has no sched_yield."""


def _drain_timeouts() -> Iterator[float]:
    """The remaining seconds of `DRAIN_TIMEOUT`, at most eight times."""
    deadline = time.monotonic() + DRAIN_TIMEOUT
    for _ in range(8):
        if (seconds := deadline - time.monotonic()) <= 0:
            return
        yield seconds


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - time.monotonic()


def _head(response: "Response") -> Head:
    return response_head(response.status, dict(response.headers.items()))


def _length(head: Head) -> int | None:
    """The Content-Length; pyreqwest removes it if the body is compressed."""
    value = head.headers.get("content-length", "")
    return int(value) if value.isdecimal() else None


@cache
def _errors() -> tuple[type[Exception], ...]:
    from pyreqwest.exceptions import PyreqwestError

    return PyreqwestError, TimeoutError


@lru_cache(maxsize=MAX_ORIGINS)
def _url(url: str) -> "Url":
    from pyreqwest.http import Url

    return Url(url)


@cache
def _wait_at_exit() -> None:
    """Let the threads of pyreqwest finish: if Python exits while one of them frees an answer, the process aborts.

    Without the delay, 21 of 260 short async programs aborted (0.15, Python 3.11, 2026-11). Closing the client at exit
    does not prevent it (3 of 60), nor does giving up the GIL once (1 of 60 on a busy machine).
    """
    atexit.register(time.sleep, EXIT_DELAY)


@lru_cache(maxsize=256)
def _is_loopback(origin: str) -> bool:
    host = urlsplit(origin).hostname or ""
    return host in ("localhost", "::1") or re.fullmatch(r"127\.\d+\.\d+\.\d+", host) is not None


def _certificates(ca: bytes | str | Path | None) -> list[bytes]:
    if ca is None:
        return []
    try:
        pem = ca if isinstance(ca, bytes) else Path(ca).read_bytes()
    except OSError as error:
        raise SetupError(f"{CERTIFICATES} cannot be read: {error}") from error
    certificates = re.findall(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    if not certificates:
        raise SetupError(f"{CERTIFICATES} cannot be used: the file has no PEM certificate")
    return certificates


def _proxies(env: Mapping[str, str]) -> "Iterator[ProxyBuilder]":
    """The proxies of the environment variables, the specific ones before ALL_PROXY."""
    from pyreqwest.proxy import ProxyBuilder

    def variable(name: str) -> str:
        return (env.get(name.lower()) or env.get(name) or "").strip()

    kinds = {"HTTP_PROXY": ProxyBuilder.http, "HTTPS_PROXY": ProxyBuilder.https, "ALL_PROXY": ProxyBuilder.all}
    for name, kind in kinds.items():
        if url := variable(name):
            try:
                yield kind(url if "://" in url else f"http://{url}").no_proxy(variable("NO_PROXY"))
            except ValueError as error:
                raise SetupError(f"{name} must be the URL of a proxy: {error}") from error


def _causes(error: "DetailedPyreqwestError") -> list[str]:
    """The messages of an error's causes, with secrets removed from their URLs."""
    causes = error.details["causes"] or []
    for cause in causes:
        cause["message"] = re.sub(_URL, lambda match: redact_url(match[0]), cause["message"])
    return [cause["message"] for cause in causes]


def translate(error: Exception, request: HttpRequest, /) -> DragomanError:
    """Our error for an error of pyreqwest; it does not quote the path, which may hold a key."""
    from pyreqwest import exceptions

    causes = _causes(error) if isinstance(error, exceptions.DetailedPyreqwestError) else []
    reason = causes[-1] if causes else str(error) or type(error).__name__
    origin = redact_url(request.origin)
    match error:
        case exceptions.ConnectTimeoutError():
            return TimedOut(f"{origin}: no connection within the `connect` timeout")
        case TimeoutError():
            return TimedOut(f"{origin}: no answer in time")
        case exceptions.ClientClosedError():
            reason = "the registry was closed during the request"
            return Reset(f"{origin}: {reason}", retry=False, fail_over=False, count_failure=False)
        case _ if any("(Connect)" in cause for cause in causes):
            return ConnectFailed(f"{origin}: cannot connect: {reason}")
        case exceptions.DecodeError() if not any("from connection" in cause for cause in causes):
            return Malformed(f"{origin}: not HTTP: {reason}")
        case _:
            return Reset(f"{origin}: the connection broke: {reason}")
