"""One connection of a client: HTTP/1.1 on the event loop, with httptools as its parser.

The bytes of a request go from the socket to the parser and to a task that runs `App.answer`, and the response goes
straight back: no other thread takes part, so nothing is handed over, and the event loop itself says when a client is
slow or gone. docs/decisions/0009-http-server.md compares this with other servers.

Requests of one connection are answered one after the other. If a client sends more before it has its answer, they wait,
and the connection stops reading.
"""

import asyncio
import logging
import math
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import httptools
from msgspec.structs import replace

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.gateway.errors import BodyTooSlow, Busy, HeadTooLarge
from dragoman.gateway.request import new_request_id
from dragoman.gateway.server.body_limits import MAX_HEADERS
from dragoman.gateway.server.request_body import RequestBody
from dragoman.gateway.server.response import GatewayResponse, error_without_dialect
from dragoman.gateway.server.websocket import SocketSession
from dragoman.gateway.server.websocket_connection import WebSocketConnection
from dragoman.gateway.server.websocket_frames import GOING_AWAY, accept_key
from dragoman.http import HttpRequest
from dragoman.io.http1 import HEADER_NAMES

if TYPE_CHECKING:
    from dragoman.gateway.server.http_server import HttpServer

log = logging.getLogger("dragoman.gateway")

HEAD_TIMEOUT = 30.0
"""Seconds for a client to send the head of a request."""
IDLE_TIMEOUT = 120.0
"""Seconds after which a connection without a request is closed: longer than most clients and load balancers do."""
DRAIN_TIMEOUT = 5.0
"""Seconds for which the rest of a body is read and dropped after the response."""
MAX_PIPELINED = 64
"""Requests of one connection that wait for the answer to an earlier one."""
LARGE_READ = 64 * 1024
"""Bytes that came at once, after which other connections have their turn."""
MAX_LOGGED_PATH = 200
"""Characters of a path in the log."""
_STATUS_LINES = {status: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_WITHOUT_BODY = (204, 304)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_REQUEST = HttpRequest(method="", path="")


class ClientTooSlow(ConnectionError):
    """The client read nothing for too long; its connection is closed."""


class _Exchange:
    """One request, and how its response must be written."""

    __slots__ = ("body", "http", "is_http_1_0", "keeps_alive")

    def __init__(self, http: HttpRequest, body: RequestBody, *, keeps_alive: bool, is_http_1_0: bool) -> None:
        self.http = http
        self.body = body
        self.keeps_alive = keeps_alive
        self.is_http_1_0 = is_http_1_0


class HttpConnection(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_exchange",
        "_headers",
        "_incoming",
        "_is_in_head",
        "_is_lost",
        "_is_reading",
        "_is_refused",
        "_is_resting",
        "_is_upgrade",
        "_is_writable",
        "_loop",
        "_parser",
        "_progress",
        "_server",
        "_socket",
        "_task",
        "_transport",
        "_unparsed",
        "_url",
        "_waiting",
        "_writer",
        "deadline",
    )

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._loop = server.loop
        self._transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._unparsed = 0
        """Bytes of headers and trailers: since the last piece of a body, or the last start or end of a request."""
        self._progress = 0
        """How many pieces of bodies, starts and ends of requests the last bytes had."""
        self._is_in_head = False
        self._is_upgrade = False
        self._incoming: RequestBody | None = None
        """The body that is being received."""
        self._exchange: _Exchange | None = None
        """The request that is being answered, and its task."""
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[_Exchange] = deque()
        self._is_refused = False
        """Whether what still comes is ignored, and the connection closed as soon as nothing is being answered."""
        self._is_lost = False
        self._is_reading = True
        self._is_resting = False
        """Whether it does not read until others had their turn."""
        self._is_writable = True
        self._writer: asyncio.Future[None] | None = None
        self._socket: WebSocketConnection | None = None
        self.deadline = server.now + IDLE_TIMEOUT
        """When the client must have done something; infinite while a request is being answered."""

    # What the event loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        if self._server.is_over:  # no request was read, so its client can send it elsewhere
            self._server.add(self)
            self._transport.close()
        elif not self._server.add(self):
            self._refuse(Busy("too many connections are open; try again later", retry_after=1.0))

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self._socket is not None:
            self._socket.feed(data)
        elif not self._is_refused:
            self._parse(data)
        if len(data) > LARGE_READ and self._is_reading and not self._is_lost:  # uvloop would read up to 32 times more
            self.pause()
            self._is_resting = True
            self._loop.call_soon(self._end_rest)

    def _end_rest(self) -> None:
        if self._is_resting:
            self.resume()

    def _parse(self, data: bytes) -> None:
        rest: bytes | None = data
        while rest is not None:
            rest = self._feed(rest)
            if self._is_refused and self._incoming is None:
                return

    def _feed(self, data: bytes) -> bytes | None:
        """Parse some bytes; what is to be parsed after an upgrade."""
        self._progress = 0
        rest = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = self._continue_after_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError:
            raise  # a bug: the event loop logs it and closes the connection
        except httptools.HttpParserError as error:
            self._refuse(InvalidRequest(f"the request is not valid HTTP/1.1: {error}"))
        if self._progress > 1 or not (self._progress == 0 or self._is_in_head):
            self._unparsed = 0
            return rest
        self._unparsed = len(data) + (0 if self._progress else self._unparsed)
        if self._unparsed > MAX_HEADERS:
            self._refuse(HeadTooLarge(f"the headers are larger than {MAX_HEADERS} bytes"))
        return rest

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """The client has disconnected, or we closed the connection."""
        self._is_lost = True
        self._server.remove(self)
        # It refers to this connection: without a cycle, nothing of both waits for the garbage collector.
        self._parser = cast("httptools.HttpRequestParser", None)
        self._waiting.clear()
        self._wake_writer()
        if self._socket is not None:
            self._socket.end()
        elif self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """The client has read most of what was written."""
        self._is_writable = True
        self._wake_writer()

    # What the parser calls -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._is_upgrade:  # the rest of a head that was read before
            return
        self._is_in_head = True
        self._progress += 1
        self._url = b""
        self._headers = {}
        if self._task is None:
            self.deadline = self._server.now + HEAD_TIMEOUT

    def on_url(self, url: bytes) -> None:
        """A part of the request line."""
        if self._is_in_head:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; several of one name are joined, as RFC 9110 allows."""
        if not self._is_in_head:  # a trailer
            return
        key, text, headers = HEADER_NAMES[name], value.decode("latin-1"), self._headers
        headers[key] = text if key not in headers else f"{headers[key]}, {text}"

    def on_headers_complete(self) -> None:
        """The end of a head."""
        if self._is_refused or self._is_upgrade:
            return
        self._is_in_head = False
        parser, headers = self._parser, self._headers
        http = replace(_REQUEST, method=parser.get_method().decode(), path=_path(self._url), headers=headers)
        body = self._incoming = RequestBody(self, headers, self._server.settings)
        exchange = _Exchange(
            http, body, keeps_alive=parser.should_keep_alive(), is_http_1_0=parser.get_http_version() == "1.0"
        )
        if self._task is None:
            self._start(exchange)
            return
        self._waiting.append(exchange)
        self.pause()
        self._is_refused = len(self._waiting) >= MAX_PIPELINED

    def on_body(self, data: bytes) -> None:
        self._progress += 1
        body = self._incoming
        if body is not None:
            body.feed(data)
            if body.is_dropped and body.is_too_large_to_drop:
                self._transport.close()

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._progress += 1
        self._is_upgrade = self._parser.should_upgrade()
        if self._is_upgrade and self._socket is None:  # the parser stops here, but the body is still to come
            return
        body, self._incoming = self._incoming, None
        if body is not None:
            body.end()
            if self._task is None:  # its response was sent before
                self._next()

    # Answering -------------------------------------------------------------------------------------------------------

    def _start(self, exchange: _Exchange) -> None:
        self.deadline = math.inf
        self._exchange = exchange
        headers = exchange.http.headers
        if "upgrade" in headers and headers["upgrade"].lower() == "websocket" and accept_key(headers) is not None:
            settings = self._server.settings
            self._socket = WebSocketConnection(self, settings.max_body, self._server.app.bodies.request(settings))
            self._task = self._loop.create_task(self._serve_socket(exchange, self._socket))
        else:
            self._task = self._loop.create_task(self._answer(exchange))

    async def _answer(self, exchange: _Exchange) -> None:
        is_done = False
        try:
            response = await self._server.app.answer(exchange.http, exchange.body.read)
            if isinstance(response.body, bytes):
                self._respond(exchange, response, response.body)
            else:
                await self._stream(exchange, response)
            if not self._is_writable:
                await self._drained()
            is_done = True
        except ConnectionError:  # the client is gone or too slow, and the app has recorded it
            self.abort()
        except DragomanError as error:  # after the head: `finally` cuts the response, so that nobody takes it for whole
            path = exchange.http.path.partition("?")[0][:MAX_LOGGED_PATH]  # a query may have a key
            log.warning("the response to %s %r broke off: %s", exchange.http.method, path, error)
        except asyncio.CancelledError:
            if not self._is_lost:
                raise
        finally:
            self._task = self._exchange = None
            if not is_done:
                self.abort()
            elif not self._is_lost:
                self._end(exchange)

    def _end(self, exchange: _Exchange) -> None:
        """The response is written: go on with the next request, drop what is left of the body, or close."""
        body = exchange.body
        if body.error is not None:
            self._end_writing()
        elif body.is_complete and exchange.keeps_alive and not self._server.is_over:
            self._next()
        elif body.is_complete or body.is_expected or self._server.is_over:
            self._close()
        else:
            body.drop()
            self.deadline = self._server.now + DRAIN_TIMEOUT
            exchange.keeps_alive = exchange.keeps_alive and not self._is_refused
            self._is_refused = self._is_refused or not exchange.keeps_alive

    def _next(self) -> None:
        """Answer the next request, or wait for it."""
        if self._waiting:
            self._start(self._waiting.popleft())
        elif self._is_refused or self._server.is_over:
            self._close()
        else:
            self.deadline = self._server.now + (HEAD_TIMEOUT if self._is_in_head else IDLE_TIMEOUT)
            if not self._is_reading:
                self.resume()

    def _refuse(self, error: DragomanError) -> None:
        """Answer something that is not a request, and close the connection."""
        if self._is_refused:
            return
        self._is_refused = True
        if self._incoming is not None:
            self._incoming.fail(error)
            if self._task is None:  # its response was sent before
                self._close()
        elif self._task is None and not self._is_lost:
            response = error_without_dialect(error, new_request_id())
            http = HttpRequest(method="GET", path="/")
            exchange = _Exchange(
                http, RequestBody(self, {}, self._server.settings), keeps_alive=False, is_http_1_0=False
            )
            self._respond(exchange, response, cast("bytes", response.body))
            self._end_writing()

    def _close(self) -> None:
        """Close it as soon as the response is sent, or if the client does not read that for too long."""
        self._is_refused = True
        self.deadline = self._server.now + self._server.settings.write_timeout
        self._transport.close()

    def _end_writing(self) -> None:
        """Say that nothing more is sent, and drop what still comes: to close now could destroy the response."""
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self.deadline = self._server.now + DRAIN_TIMEOUT
        else:
            self._close()

    def expire(self) -> None:
        """The client did nothing for too long."""
        if self._is_in_head and not self._is_refused:
            self._refuse(BodyTooSlow(f"the headers did not arrive within {HEAD_TIMEOUT:g} s"))
        elif self._transport.get_write_buffer_size():
            self._transport.abort()  # it does not read its response
        else:
            self._transport.close()

    @property
    def is_writable(self) -> bool:
        """Whether the client reads what is written."""
        return self._is_writable and not self._is_lost

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._task is None

    def close(self) -> None:
        """Close it if it has no request; else it is closed after the response."""
        if self.is_idle and not self._is_in_head and not self._is_lost:
            self._transport.close()

    def abort(self) -> None:
        """Close it now, whatever is being written."""
        if not self._is_lost:
            self._transport.abort()

    # Writing ---------------------------------------------------------------------------------------------------------

    def _respond(self, exchange: _Exchange, response: GatewayResponse, body: bytes) -> None:
        has_body = response.status not in _WITHOUT_BODY
        length = f"content-length: {len(body)}\r\n" if has_body else ""
        data = self._head(exchange, response, length)
        self._transport.write(data if exchange.http.method == "HEAD" or not has_body else data + body)

    def _head(self, exchange: _Exchange, response: GatewayResponse, framing: str) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in response.headers])
        if lines.count("\n") != len(response.headers) or lines.count("\r") != len(response.headers):
            lines = "".join([f"{name}: {_one_line(value)}\r\n" for name, value in response.headers])
        connection = ""
        is_last = self._server.is_stopping or self._server.app.is_stopping
        body = exchange.body
        is_cut = body.error is not None or (not body.is_complete and body.is_expected)
        if is_cut or (is_last and not self._waiting):
            exchange.keeps_alive = False
        if not exchange.keeps_alive:
            connection = "connection: close\r\n"
        elif exchange.is_http_1_0:
            connection = "connection: keep-alive\r\n"
        status = _STATUS_LINES.get(response.status) or f"HTTP/1.1 {response.status} \r\n"  # type: ignore[call-overload] # an int is equal to its HTTPStatus
        head: str = f"{status}{lines}{framing}{connection}{self._server.date}\r\n"
        return head.encode("latin-1", "replace")

    async def _stream(self, exchange: _Exchange, response: GatewayResponse) -> None:
        """Write a response in pieces. One of unknown length is in chunks, or for HTTP/1.0 ends with the connection."""
        if exchange.is_http_1_0:
            exchange.keeps_alive = False
        is_chunked = not (exchange.is_http_1_0 or any(name == "content-length" for name, _ in response.headers))
        head = self._head(exchange, response, "transfer-encoding: chunked\r\n" if is_chunked else "")
        self._transport.write(head)
        if exchange.http.method == "HEAD" or isinstance(response.body, bytes):
            return
        await response.body(self._write_chunk if is_chunked else self.write)
        if is_chunked and not self._is_lost:
            self._transport.write(_LAST_CHUNK)

    async def _write_chunk(self, data: bytes) -> None:
        if self._is_lost:
            raise ConnectionResetError("the client has disconnected")
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            if not self._is_writable:
                await self._drained()

    async def write(self, data: bytes, /) -> None:
        """Write, and wait while the client is slow; ConnectionError if it is gone or reads nothing."""
        if self._is_lost:
            raise ConnectionResetError("the client has disconnected")
        self._transport.write(data)
        if not self._is_writable:
            await self._drained()

    def send(self, data: bytes, /) -> None:
        """Write without waiting."""
        if not self._is_lost:
            self._transport.write(data)

    async def _drained(self) -> None:
        """Wait until the client has read most of what was written; ClientTooSlow if it reads nothing for too long."""
        timeout = self._server.settings.write_timeout
        while not self._is_writable and not self._is_lost:
            before = self._transport.get_write_buffer_size()
            if self._writer is None or self._writer.done():  # several tasks of a WebSocket may wait
                self._writer = self._loop.create_future()
            done, _ = await asyncio.wait((self._writer,), timeout=timeout)
            if not done and self._transport.get_write_buffer_size() >= before:
                self._transport.abort()
                raise ClientTooSlow(f"the client read nothing for {timeout} s, {before} bytes were waiting")

    def _wake_writer(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    # What a body and a WebSocket do ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading."""
        self._is_resting = False
        if self._is_reading and not self._is_lost:
            self._is_reading = False
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        self._is_resting = False
        if not self._is_reading and not self._is_lost:
            self._is_reading = True
            self._transport.resume_reading()

    def invite_body(self) -> None:
        """Tell the client to send its body."""
        self.send(_CONTINUE)

    # WebSockets ------------------------------------------------------------------------------------------------------

    def _continue_after_upgrade(self, rest: bytes) -> bytes | None:
        """The parser stops after the head of a request with `Upgrade`, even if a body follows.

        If it is not a WebSocket, another parser gets the rest, after a head that has only the length of the body.
        """
        if self._socket is not None:
            self._socket.feed(rest)
            return None
        self._parser = httptools.HttpRequestParser(self)
        framing = (name for name in ("content-length", "transfer-encoding") if name in self._headers)
        head = "".join(f"{name}: {self._headers[name]}\r\n" for name in framing)
        return f"POST / HTTP/1.1\r\n{head}\r\n".encode("latin-1") + rest

    async def _serve_socket(self, exchange: _Exchange, socket: WebSocketConnection) -> None:
        app, http = self._server.app, exchange.http
        try:
            protocol = await app.open_socket(http)
            if isinstance(protocol, GatewayResponse):
                exchange.keeps_alive = False
                self._respond(exchange, protocol, cast("bytes", protocol.body))
                return
            self.send(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                b"sec-websocket-accept: %b\r\n\r\n" % (accept_key(http.headers) or "").encode()
            )
            socket.open()
            await SocketSession(app, http, protocol, socket).run()
            socket.close(GOING_AWAY)
        finally:
            self._task = self._exchange = None
            socket.release()
            if not self._is_lost:
                self._close()


def _path(url: bytes) -> str:
    """The decoded path, and the query as it is. A proxy may send a whole URL."""
    target, mark, query = url.decode("latin-1").partition("?")
    if not target.startswith("/") and "://" in target:
        target = "/" + target.partition("://")[2].partition("/")[2]
    return (unquote(target) if "%" in target else target) + mark + query


def _one_line(value: str) -> str:
    """A value without line breaks: it may quote what a client sent."""
    return value.replace("\r", " ").replace("\n", " ")
