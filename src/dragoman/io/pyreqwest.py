"""A request in, an answer's bytes out: the HTTP client behind one small port, blocking and async.

pyreqwest's blocking client has no time-out for one read, cannot be stopped by another thread, and leaves Ctrl-C waiting
until the answer is there. So blocking use awaits the async client in the caller's own thread, see awaiting.py, and both
uses share one pool. docs/decisions/0004-blocking-over-async.md has the measurements.
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
"""Seconds that the end of an answer may take after the wire said goodbye; it is there at once, or it never comes."""
TIMEOUT_GRACE = 0.02
"""Seconds after which we end what should have ended itself: its own limit closes the connection, and so comes first."""
EXIT_DELAY = 0.005
"""Seconds that a program which has called waits at its end."""
MAX_CLIENTS = 16
BATCH = 65536
"""Bytes of a stream that are read together, where they are there already."""
MAX_ORIGINS = 256
_URL = r"(?<=\()\w+://[^\s)]+"
CERTIFICATES = "the certificates of SSL_CERT_FILE, or of ca=,"
IDLE = 90.0
"""Seconds that a connection is kept for the next request (reqwest 0.13)."""


class PyreqwestTransport:
    """The default transport: pooled connections, HTTP/2 where offered, proxies from the environment.

    `ca` is a PEM file, or its bytes, to trust beside the system's authorities; it is read when a connection is needed.
    `env` has the variables that tell proxies; None is the process's own. Loopback is never asked through a proxy.
    `pin` is a host and the one address to reach it at, without a proxy and without asking for its address again.
    A process that forks makes its first call after the fork; a child of one that has called before is told so.

    >>> PyreqwestTransport()
    Pyreqwest()
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
        self._kept = StaleConnections()
        self._process = os.getpid()

    def __repr__(self) -> str:
        """Nothing to tell."""
        return "PyreqwestTransport()"

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        began, ends = time.monotonic(), _moment(effect.timeout)
        request = self._streamed(effect.request, ends, effect.connect, None, held=1)
        late = None if ends is None else ends + TIMEOUT_GRACE
        try:
            response = wait(request.__aenter__(), _left(late))
        except _faults() as error:
            raise self._unanswered(error, effect.request, began) from error
        self._kept.note(effect.request.origin)
        body = _Body(effect, request, response)
        try:
            while not body.is_whole:
                body.take(wait(body.reader.read_chunk(), _left(late)))
        except _faults() as error:
            raise translate(error, effect.request) from error
        finally:
            body.close()
        return HttpResponse(body.head, body.to_bytes())

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        began = time.monotonic()
        request = self._streamed(effect.request, _moment(effect.timeout), effect.connect, None, held=1)
        try:
            response = await awaited(request.__aenter__())
        except _faults() as error:
            raise self._unanswered(error, effect.request, began) from error
        self._kept.note(effect.request.origin)
        body = _Body(effect, request, response)
        try:
            while not body.is_whole:
                body.take(await awaited(body.reader.read_chunk()))
        except _faults() as error:
            raise translate(error, effect.request) from error
        finally:
            body.close()
        return HttpResponse(body.head, body.to_bytes())

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        began, ends, head = time.monotonic(), _moment(effect.total), _moment(effect.timeout)
        request = self._streamed(effect.request, ends, effect.connect, effect.quiet)
        try:
            response = wait(request.__aenter__(), _left(head))
        except _faults() as error:
            raise self._unanswered(error, effect.request, began) from error
        self._kept.note(effect.request.origin)
        return Exchange(_head(response), _Answer(request, response.body_reader, effect.request, ends))

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        began, ends, head = time.monotonic(), _moment(effect.total), _moment(effect.timeout)
        request = self._streamed(effect.request, ends, effect.connect, effect.quiet)
        try:
            async with asyncio.timeout(_left(head)):
                response = await awaited(request.__aenter__())
        except _faults() as error:
            raise self._unanswered(error, effect.request, began) from error
        self._kept.note(effect.request.origin)
        return Exchange(_head(response), _Answer(request, response.body_reader, effect.request, ends))

    def close(self) -> None:
        """Let go of what is pooled; requests under way end in Reset, and the next one starts anew."""
        while self._clients:
            _, client = self._clients.popitem()
            if self._process == os.getpid():
                wait(client.close(), 1.0)

    def _unanswered(self, error: Exception, request: HttpRequest, began: float) -> DragomanError:
        """Our error where nothing of an answer came: if its connection was old, it may be asked for again at once."""
        from pyreqwest.exceptions import ClientClosedError

        fault = translate(error, request)
        is_broken = isinstance(fault, Reset) and not isinstance(error, ClientClosedError)
        if is_broken and self._kept.was_stale(request.origin, began):
            fault.count_failure, fault.retry_after = False, 0.0
        return fault

    def _streamed(
        self, request: HttpRequest, ends: float | None, connect: float | None, quiet: float | None, *, held: int = 0
    ) -> "StreamRequest":
        """The request, to be over at a moment: the first one of a client waits for that to be made, which counts.

        So many bytes of the answer are held back before its head is shown (pyreqwest 0.15), and until then it cannot be
        cancelled. A stream holds none; a whole answer holds its first piece, which is most often all, and which then
        costs no other change of threads.
        """
        client = self._client(connect, quiet, loopback=_is_loopback(request.origin))
        try:
            builder = client.request(request.method, _url(request.url)).headers(dict(request.headers))
        except ValueError:
            builder = None
        if builder is None:
            # Told out here, without their error, which may quote a header, and so a key.
            raise unsendable(request)
        if request.body:
            builder = builder.body_bytes(request.body)
        if (left := _left(ends)) is not None:
            builder = builder.timeout(timedelta(seconds=max(left, 0.001)))
        return builder.streamed_read_buffer_limit(held).build_streamed()

    def _client(self, connect: float | None, quiet: float | None, *, loopback: bool) -> "Client":
        """A client for these limits: pyreqwest has them for a client only."""
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

        _pause_at_exit()
        builder = ClientBuilder().follow_redirects(False).http2(True).http1_lower_case_headers()  # noqa: FBT003 - theirs
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
                "this process was forked from one that had called already; make the first call after the fork, or "
                "start processes by spawn"
            ) from error


class StaleConnections:
    """Where connections are kept, by origin: pyreqwest does not tell whether a request was given a new one."""

    def __init__(self) -> None:
        self._answered: dict[str, float] = {}
        self._broke: dict[str, float] = {}

    def note(self, origin: str) -> None:
        """It answered just now."""
        if len(self._answered) >= MAX_ORIGINS:
            self._answered, self._broke = {}, {}
        self._answered[origin] = time.monotonic()

    def was_stale(self, origin: str, began: float) -> bool:
        """Whether a request that broke without an answer may have had a connection that its server had given up.

        So may those that were under way when the first of them broke. What begins later has a new connection.
        """
        answered, broke = self._answered.get(origin), self._broke.get(origin, 0.0)
        if answered is None or began - answered > IDLE or answered < broke < began:
            return False
        if broke < answered:
            self._broke[origin] = time.monotonic()
        return True


class _Body(BodyBuffer):
    """The body of a whole answer of pyreqwest: all is there when it says so, or when the head told how much it is."""

    def __init__(self, effect: Send, context: "StreamRequest", response: "Response") -> None:
        super().__init__(effect)
        self.is_whole = False
        self.head = _head(response)
        self.reader = response.body_reader
        self._context = context
        self._length = _length(self.head)
        self._size = 0

    def take(self, chunk: "Bytes | None") -> None:
        """More of it; None is the end."""
        if chunk is None:
            self.is_whole = True
            return
        data = chunk.to_bytes()
        self._size += len(data)
        self.is_whole = self._size == self._length
        self.add(data)

    def close(self) -> None:
        """Close the connection, if not all was read."""
        if not self.is_whole:
            wait(self._context.__aexit__(None, None, None), 1.0)


class _Answer:
    """A streamed answer of pyreqwest."""

    def __init__(
        self,
        context: "StreamRequest",
        reader: "ResponseBodyReader",
        request: HttpRequest,
        ends: float | None,
    ) -> None:
        self._context = context
        self._reader = reader
        self._request = request
        self._ends = ends
        self._ended = False
        self._closed = False
        self._begun: tuple[Coroutine[Any, Any, Bytes | None], Any] | None = None
        self._failed: Exception | None = None

    def read(self, within: float | None, /) -> bytes:
        """The next bytes, b"" at the end."""
        if self._is_over():
            return b""
        try:
            chunk = wait(self._reader.read_chunk(), within)
        except _faults() as error:
            raise translate(error, self._request) from error
        return self._took(chunk)

    async def aread(self, within: float | None, /) -> bytes:
        """The next bytes, and what else is there already; b"" at the end."""
        if self._is_over():
            return b""
        try:
            if within is None or (self._ends is not None and time.monotonic() + within + TIMEOUT_GRACE >= self._ends):
                chunk = await self._next()  # the request's own limit ends it in time
            else:
                async with asyncio.timeout(within):
                    chunk = await self._next()
        except _faults() as error:
            raise translate(error, self._request) from error
        data = self._took(chunk)
        return data if self._ended else self._gathered(data)

    async def _next(self) -> "Bytes | None":
        """The next chunk; it may have been asked for already."""
        if self._failed is not None:
            raise self._failed
        work, future = self._begun or (self._reader.read_chunk(), None)
        self._begun = None
        return await awaited(work, future)

    def _gathered(self, data: bytes) -> bytes:
        """These bytes with what is there already: each piece of a chunked body would cost a turn of the loop."""
        pieces, size = [data], len(data)
        while size < BATCH and not self._ended:
            if len(pieces) == 2:
                _give_way()  # more may come at once: where it shares our core, the thread that reads needs a turn
            work = self._reader.read_chunk()
            try:
                self._begun = work, work.send(None)
                break
            except StopIteration as stop:
                pieces.append(self._took(stop.value))
                size += len(pieces[-1])
            except _faults() as error:
                self._failed = error
                break
        return data if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """Read to the end if it is there; a connection that was read to its end is used again."""
        try:
            for left in _until_farewell():
                if self._ended or self._closed or not self.read(left):
                    break
        except DragomanError:
            self._ended = False
        finally:
            self.close()

    async def afinish(self) -> None:
        """Read to the end if it is there; a connection that was read to its end is used again."""
        try:
            for left in _until_farewell():
                if self._ended or self._closed or not await self.aread(left):
                    break
        except DragomanError:
            self._ended = False
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection, if the answer is not at its end."""
        if not self._closed:
            self._closed = True
            if self._begun is not None:
                self._begun[0].close()
            if not self._ended:
                wait(self._context.__aexit__(None, None, None), 1.0)

    async def aclose(self) -> None:
        """Close the connection, if the answer is not at its end; at once, so that no cancellation comes between."""
        self.close()

    def _is_over(self) -> bool:
        if self._closed:
            raise Reset("the stream was closed")
        return self._ended

    def _took(self, chunk: "Bytes | None") -> bytes:
        if chunk is None:
            self._ended = True
            return b""
        return chunk.to_bytes()


_give_way: Callable[[], object] = getattr(os, "sched_yield", int)
"""Let another thread have the core; nothing where there is no such thing."""


def _until_farewell() -> Iterator[float]:
    """The seconds that are left, a few times."""
    ends = time.monotonic() + DRAIN_TIMEOUT
    for _ in range(8):
        if (left := ends - time.monotonic()) <= 0:
            return
        yield left


def _moment(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _left(ends: float | None) -> float | None:
    return None if ends is None else ends - time.monotonic()


def _head(response: "Response") -> Head:
    return response_head(response.status, dict(response.headers.items()))


def _length(head: Head) -> int | None:
    """The bytes that the body has, where the head tells; it does not where they come compressed."""
    told = head.headers.get("content-length", "")
    return int(told) if told.isdecimal() else None


@cache
def _faults() -> tuple[type[Exception], ...]:
    """All that may go wrong."""
    from pyreqwest.exceptions import PyreqwestError

    return PyreqwestError, TimeoutError


@lru_cache(maxsize=MAX_ORIGINS)
def _url(url: str) -> "Url":
    from pyreqwest.http import Url

    return Url(url)


@cache
def _pause_at_exit() -> None:
    """Let pyreqwest's threads come to rest: where Python ends while one lets go of an answer, the process aborts."""
    atexit.register(time.sleep, EXIT_DELAY)  # seen after one of twenty async programs (0.15, Python 3.11, 2026-11)


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
    found = re.findall(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    if not found:
        raise SetupError(f"{CERTIFICATES} cannot be used: there is none in it, in the form of PEM")
    return found


def _proxies(env: Mapping[str, str]) -> "Iterator[ProxyBuilder]":
    """The proxies that variables tell: the more special before the general."""
    from pyreqwest.proxy import ProxyBuilder

    def told(name: str) -> str:
        return (env.get(name.lower()) or env.get(name) or "").strip()

    kinds = {"HTTP_PROXY": ProxyBuilder.http, "HTTPS_PROXY": ProxyBuilder.https, "ALL_PROXY": ProxyBuilder.all}
    for name, kind in kinds.items():
        if url := told(name):
            try:
                yield kind(url if "://" in url else f"http://{url}").no_proxy(told("NO_PROXY"))
            except ValueError as error:
                raise SetupError(f"{name} is not the URL of a proxy: {error}") from error


def _causes(error: "DetailedPyreqwestError") -> list[str]:
    """What it says of itself; in its own words, too, a URL loses what may be secret in it."""
    causes = error.details["causes"] or []
    for cause in causes:
        cause["message"] = re.sub(_URL, lambda found: redact_url(found[0]), cause["message"])
    return [cause["message"] for cause in causes]


def translate(error: Exception, request: HttpRequest, /) -> DragomanError:
    """Our error for one of pyreqwest's; told without the path, which may hold a key."""
    from pyreqwest import exceptions as theirs

    causes = _causes(error) if isinstance(error, theirs.DetailedPyreqwestError) else []
    why = causes[-1] if causes else str(error) or type(error).__name__
    place = redact_url(request.origin)
    match error:
        case theirs.ConnectTimeoutError():
            return TimedOut(f"{place}: no connection in time; the limit `connect` has passed")
        case TimeoutError():
            return TimedOut(f"{place}: nothing came in time")
        case theirs.ClientClosedError():
            why = "its registry was closed while it was under way"
            return Reset(f"{place}: {why}", retry=False, fail_over=False, count_failure=False)
        case _ if any("(Connect)" in cause for cause in causes):
            return ConnectFailed(f"{place}: cannot connect: {why}")
        case theirs.DecodeError() if not any("from connection" in cause for cause in causes):
            return Malformed(f"{place}: not HTTP: {why}")
        case _:
            return Reset(f"{place}: the connection broke: {why}")
