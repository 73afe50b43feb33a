"""A client's request in, the answer in its own dialect out: decode, choose, ask, encode. Knows no server protocol."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from msgspec.structs import replace

from dragoman import chain, wires
from dragoman.drive import Driver
from dragoman.errors import DragomanError, InvalidRequest, ServerFault
from dragoman.events import Event, Ping, Restarted, Started, StreamEvent
from dragoman.flow import Emit
from dragoman.gateway.answer import Answer, Write
from dragoman.gateway.catalog import Catalog, Choice
from dragoman.gateway.refusals import Busy
from dragoman.gateway.routes import Routes
from dragoman.http import HttpReply, HttpRequest
from dragoman.models import Registry
from dragoman.types import Attempt, Notice, Request, Response
from dragoman.wire import ServerHalf, StreamEncoder

log = logging.getLogger("dragoman.gateway")

FAILED = "the gateway failed; its log has the reason"
MOST_NOTICES = 16
"""Notices that are told in a header, and the characters of each: headers have limits."""
LONGEST_NOTICE = 200


class Visit:
    """One request on its way: what is known of it so far."""

    __slots__ = ("attempts", "choice", "http", "id", "name", "server")

    def __init__(self, id: str, http: HttpRequest, server: ServerHalf) -> None:
        self.id = id
        self.http = http
        self.server = server
        self.name = ""
        self.choice: Choice | None = None
        self.attempts: list[object] = []


class App:
    """All dialects before all targets.

    >>> import asyncio
    >>> app = App(Registry(env={}), Catalog(Registry(env={}), providers={"demo"}))
    >>> body = b'{"model": "demo/any", "messages": [{"role": "user", "content": "hi"}]}'
    >>> asyncio.run(app.answer(HttpRequest(method="POST", path="/v1/chat/completions", body=body))).status
    200
    """

    def __init__(self, registry: Registry, catalog: Catalog, *, most: int = 1000, ping: float = 15.0) -> None:
        self._registry = registry
        self._catalog = catalog
        self._most = most
        self._ping = ping
        self._under_way = 0
        self._streams: set[_Stream] = set()
        self._ticking = False
        self._routes = Routes(
            (route.method, route.path, server)
            for server in (wires.get(name).server for name in wires.NAMES)
            for route in server.routes
        )

    async def answer(self, http: HttpRequest, /) -> Answer:
        """The answer to one request; whatever happens, it is one."""
        id = http.headers.get("x-request-id") or "req_" + secrets.token_hex(12)
        try:
            server = self._routes.find(http.method, http.path.partition("?")[0])
        except DragomanError as error:
            return _refusal(error, id)
        visit = Visit(id, http, server)
        if self._under_way >= self._most:
            return self._refused(visit, Busy(f"{self._most} requests are under way", retry_after=1.0))
        self._under_way += 1
        try:
            return await self._chat(visit)
        except Exception as error:  # noqa: BLE001 - a client is told in its own dialect, whatever it was
            return self._refused(visit, explain(error, id))
        finally:
            self._under_way -= 1

    async def _chat(self, visit: Visit) -> Answer:
        visit.name, request = visit.server.decode_request(visit.http)
        visit.choice = choice = self._catalog.find(visit.name)
        driver = Driver(self._registry.transport, (visit.attempts.append,))
        plan = chain.run(request, choice.targets, self._registry.health, choice.options)
        if request.stream:
            return await self._stream(visit, request, driver.aemissions(plan, _forget))
        response = await driver.arun(plan)
        reply = visit.server.encode_body(_completed(response, visit))
        return _answer(reply, visit, response.target, response.notices)

    async def _stream(self, visit: Visit, request: Request, emissions: AsyncGenerator[Emit, None]) -> Answer:
        stream = _Stream(visit, emissions, visit.server.stream_encoder(request))
        first = await stream.begin(self._ping)
        if isinstance(first, DragomanError):
            raise first
        target, notices = (None, ()) if first is None else (first.target, first.notices)
        reply = HttpReply(headers={"content-type": stream.content_type, "cache-control": "no-cache"})

        async def write(write: Write) -> None:
            self._under_way += 1
            self._streams.add(stream)
            self._tick_later()
            try:
                await stream.write(write)
            finally:
                self._under_way -= 1
                self._streams.discard(stream)

        return Answer(200, _headers(reply, visit, target, notices), write)

    def _refused(self, visit: Visit, error: DragomanError) -> Answer:
        return _answer(visit.server.encode_error(error), visit, None, ())

    # Keeping idle streams open ----------------------------------------------------------------------------------------

    def _tick_later(self) -> None:
        if not self._ticking and self._streams:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._ping, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        for stream in self._streams:
            stream.tick()
        self._tick_later()


class _Stream:
    """One streamed answer: what is emitted together is written together."""

    def __init__(self, visit: Visit, emissions: AsyncGenerator[Emit, None], encoder: StreamEncoder) -> None:
        self.content_type = encoder.content_type
        self._visit = visit
        self._emissions = emissions
        self._encoder = encoder
        self._first: asyncio.Task[Emit | DragomanError | None] | None = None
        self._write: Write | None = None
        self._is_quiet = False
        self._pinging: asyncio.Task[None] | None = None

    async def begin(self, patience: float) -> Emit | DragomanError | None:
        """The first that comes, so that a refusal has its own status; None where it takes too long for that."""
        self._first = task = asyncio.create_task(self._next())
        try:
            await asyncio.wait((task,), timeout=patience)
        except asyncio.CancelledError:
            task.cancel()
            raise
        return task.result() if task.done() else None

    async def write(self, write: Write) -> None:
        """All of it, to where it goes."""
        self._write = write
        try:
            told = await self._first if self._first is not None else None
            while told is not None:
                is_last = isinstance(told, DragomanError)
                if data := self._encode(told):
                    self._is_quiet = False
                    await write(data)
                if is_last:
                    break
                told = await self._next()
        finally:
            self._write = None
            await self._emissions.aclose()

    def tick(self) -> None:
        """Say that it lives, if it has said nothing since the last time."""
        if self._is_quiet and self._write is not None and (ping := self._encoder.feed(Ping())):
            self._pinging = asyncio.ensure_future(self._write(ping))
        self._is_quiet = True

    async def _next(self) -> Emit | DragomanError | None:
        try:
            return await anext(self._emissions, None)
        except Exception as error:  # noqa: BLE001 - it is said as the dialect says it, and ends the stream
            return explain(error, self._visit.id)

    def _encode(self, told: Emit | DragomanError) -> bytes:
        if isinstance(told, DragomanError):
            return self._encoder.feed(told)
        feed = self._encoder.feed
        return b"".join([feed(event) for event in told.events])


def explain(error: Exception, id: str, /) -> DragomanError:
    """The same, where it is one of ours; otherwise it goes to the log, and the client learns that it is our fault."""
    if isinstance(error, DragomanError):
        return error
    if isinstance(error, RecursionError):
        return InvalidRequest("the body is nested too deeply")
    log.error("request %s failed", id, exc_info=error)
    return ServerFault(FAILED)


def _forget(_response: Response) -> None:
    """What a stream folds to is nobody's wish here."""


def _completed(response: Response, visit: Visit) -> Response:
    """With an id and a time, where the provider told none: here we are the server."""
    return replace(
        response,
        id=response.id or visit.id,
        model=response.model or visit.name,
        created=response.created or int(time.time()),
    )


def _answer(reply: HttpReply, visit: Visit, target: str | None, notices: Iterable[Notice]) -> Answer:
    return Answer(reply.status, _headers(reply, visit, target, notices), reply.body)


def _headers(reply: HttpReply, visit: Visit, target: str | None, notices: Iterable[Notice]) -> list[tuple[str, str]]:
    headers = [*reply.headers.items(), ("x-request-id", visit.id)]
    if target is not None:
        headers.append(("x-dragoman-target", target))
    return headers


def _refusal(error: DragomanError, id: str) -> Answer:
    return Answer(404, [], b"{}")
