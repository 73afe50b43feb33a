"""A client's request in, the answer in its own dialect out: decode, choose, ask, encode. Knows no server protocol."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, cast

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.effects import Emit
from dragoman.errors import (
    ChainExhausted,
    DragomanError,
    Interrupted,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RequestError,
    StoreDown,
    TransportError,
    WireError,
)
from dragoman.events import Event, Finished, Ping, Started, fold
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.accounting.quotas import Headers, OverLimit
from dragoman.gateway.auth.authenticate import identify, identify_operator
from dragoman.gateway.chat import Chat, begin
from dragoman.gateway.dashboard import Dashboard
from dragoman.gateway.endpoints import find
from dragoman.gateway.errors import Busy, InternalFault, NoRoute, Stopping, WrongMethod
from dragoman.gateway.observability import health
from dragoman.gateway.observability.access_log import where
from dragoman.gateway.observability.metrics import CONTENT_TYPE
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.depth import check_depth
from dragoman.gateway.server.replies import notes, plain, receipt, refusal, said
from dragoman.gateway.server.response import GatewayResponse, Write
from dragoman.gateway.server.router import Routes
from dragoman.gateway.server.unpacking import HEADER, unpack
from dragoman.http import HttpRequest, redact_url
from dragoman.io.driver import Driver
from dragoman.types import Notice, Response
from dragoman.wires.base import StreamEncoder, Wire, unsupported_parts
from dragoman.wires.common.errors import URL_PATTERN, shorten
from dragoman.wires.common.server_endpoints import Route, ServerEndpoint

log = logging.getLogger("dragoman.gateway")

TICKS = 4
"""Looks at all streams within the seconds after which one that is silent says that it lives."""
FAILED = "the gateway failed; its log has the reason"


Endpoint: TypeAlias = Callable[[RequestContext], Awaitable[GatewayResponse]]


class App:
    """All dialects before all targets.

    >>> from dragoman.gateway.config import decode_config
    >>> app = App(Runtime(decode_config(""), {}))
    >>> body = b'{"model": "demo/any", "messages": [{"role": "user", "content": "hi"}]}'
    >>> asyncio.run(app.answer(HttpRequest(method="POST", path="/v1/chat/completions", body=body))).status
    200
    """

    def __init__(self, runtime: Runtime, /, *, is_local: bool = False) -> None:
        """`is_local`: nobody reaches it from elsewhere, so that its dashboard needs no key where there are none."""
        self.runtime = runtime
        """What the next request is answered by; those under way keep theirs."""
        self.is_stopping = False
        """Whether nothing more should come: those who ask whether it is ready are told."""
        self._under_way = 0
        self._dashboard = Dashboard(is_local=is_local)
        self._streams: set[_Stream] = set()
        self._is_ticking = False
        self._routes: Routes[tuple[Wire | None, Endpoint]] = Routes(self._table())

    def _table(self) -> Iterator[tuple[Route, tuple[Wire | None, Endpoint]]]:
        for wire in map(wires.get, wires.NAMES):
            for half in (wire.server, *wire.other_servers):
                for route in half.routes:
                    yield route, (replace(wire, server=half), self._chat)
            for service in wire.server_endpoints:
                yield service.route, (wire, partial(_serve, service))
        for path, endpoint in (
            ("/health/live", self._live),
            ("/health/ready", self._ready),
            ("/health", self._health),
            ("/metrics", self._metrics),
        ):
            yield Route(method="GET", path=path), (None, endpoint)
        for route, shown in self._dashboard.table():
            yield route, (None, shown)

    async def answer(self, http: HttpRequest, /) -> GatewayResponse:
        """The answer to one request; whatever happens, it is one."""
        context = RequestContext(self.runtime, http)
        try:
            endpoint = self._find(context)
            most = context.runtime.config.gateway.max_requests
            if self._under_way >= most and context.wire is not None:
                raise Busy(f"{most} requests are under way", retry_after=1.0)
            self._under_way += 1
            try:
                if HEADER in http.headers:
                    identify(http, context.runtime.keys)  # nobody else may make us unpack
                    context.http = await unpack(http, context.runtime.config.gateway.max_body)
                return await endpoint(context)
            finally:
                self._under_way -= 1
        except Exception as error:  # noqa: BLE001 - a client is told in its own dialect, whatever it was
            told = explain(error, context.id)
            if context.wire is not None and not (context.is_counted or isinstance(told, NoRoute)):
                await context.runtime.accounting.refuse(context.as_row(), told)
            return refused(context, told, () if isinstance(told, OverLimit) else await context.limit_headers())

    def refuse(self, http: HttpRequest, error: DragomanError, /) -> GatewayResponse:
        """A refusal to a request that could not be read, in its own dialect."""
        context = RequestContext(self.runtime, http)
        try:
            self._find(context)
        except DragomanError as found:
            error = found
        if context.wire is not None and not isinstance(error, NoRoute):
            context.runtime.accounting.tell_refused(context.as_row(), error)
        return refused(context, error)

    def _find(self, context: RequestContext) -> Endpoint:
        try:
            context.wire, endpoint = self._routes.find(context.http)
        except (NoRoute, WrongMethod):
            near = {wire.name: wire for wire, _ in self._routes.find_near(context.http) if wire is not None}
            # It is said in the dialect whose paths begin like this; where several do, in that of nobody.
            context.wire = next(iter(near.values())) if len(near) == 1 else None
            raise
        return endpoint

    async def live(self) -> None:
        """Tend to what is shared with other gateways, until cancelled."""
        await self.runtime.accounting.run()

    def drain(self) -> None:
        """Say that nothing more should come, and answer what comes."""
        self.is_stopping = True

    async def close(self) -> None:
        """Write what waits, and let go of what is held; all requests have ended."""
        try:
            await self.runtime.accounting.aclose()
        except StoreDown as error:
            log.error("usage was lost: %s", error)  # noqa: TRY400 - no bug of ours
        self.runtime.registry.close()
        await self.runtime.store.aclose()

    # An answer -------------------------------------------------------------------------------------------------------

    async def _chat(self, context: RequestContext) -> GatewayResponse:
        wire, runtime = cast("Wire", context.wire), context.runtime
        context.key = identify(context.http, runtime.keys)
        check_depth(context.http.body, runtime.config.gateway.max_depth)
        chat = await begin(context, *wire.server.decode_request(context.http))
        account = await chat.open()
        registry = runtime.registry
        driver = Driver(registry.transport, (context.observe, account.observe), fetcher=registry.driver.fetcher)
        try:
            if chat.request.stream:
                return await self._stream(context, chat, account, driver.aemissions(chat.plan(), _forget))
            return await self._whole(context, chat, account, driver)
        except asyncio.CancelledError:
            await account.leave(chat.asked)
            raise
        except DragomanError as error:
            await account.fail(error)
            raise
        except Exception as error:
            told = explain(error, context.id)
            await account.fail(told)
            raise told from error

    async def _whole(
        self, context: RequestContext, chat: Chat, account: RequestRecord, driver: Driver
    ) -> GatewayResponse:
        wire = cast("Wire", context.wire)
        response = _completed(chat.lift(await driver.arun(chat.plan())), context, chat.id)
        # What was used is booked first: it is paid for, whether or not it can be remembered.
        await account.settle("served", status=200, target=response.target, usage=response.usage, response=response)
        unkept = await chat.settle(response)
        reply = wire.server.encode_body(response, chat.request)
        notices = (*response.notices, *unkept, *unsupported_parts(wire, response.message.parts))
        return said(reply, [*_told(context, response.target, notices), *chat.headers(), *account.headers])

    async def _stream(
        self, context: RequestContext, chat: Chat, account: RequestRecord, emissions: AsyncGenerator[Emit, None]
    ) -> GatewayResponse:
        encoder = cast("Wire", context.wire).server.stream_encoder(chat.request)
        stream = _Stream(context, chat, account, emissions, encoder)
        ping = context.runtime.config.gateway.ping
        await stream.begin(ping)
        target, notices = (None, ()) if stream.first is None else (stream.first.target, stream.first.notices)
        # The one that answers is noted when it has ended.
        context.attempts += stream.first is not None

        async def write(write: Write) -> None:
            self._under_way += 1
            self._streams.add(stream)
            self._tick_later(ping)
            try:
                await stream.write(write)
            finally:
                self._under_way -= 1
                self._streams.discard(stream)

        headers = [("content-type", encoder.content_type), ("cache-control", "no-cache")]
        return GatewayResponse(
            200, [*headers, *_told(context, target, notices), *chat.headers(), *account.headers], write
        )

    # How it is -------------------------------------------------------------------------------------------------------

    async def _live(self, _context: RequestContext) -> GatewayResponse:
        return plain({"status": "live"})

    async def _ready(self, context: RequestContext) -> GatewayResponse:
        if self.is_stopping:
            raise Stopping("the gateway is stopping")
        await context.runtime.store.read("ready")
        return plain({"status": "ready"})

    async def _health(self, context: RequestContext) -> GatewayResponse:
        context.key = identify(context.http, context.runtime.keys)
        return plain(await health.report(context.runtime, context.key, in_flight=self._under_way))

    async def _metrics(self, context: RequestContext) -> GatewayResponse:
        runtime = context.runtime
        context.key = identify_operator(context.http, runtime.keys)
        return GatewayResponse(200, [("content-type", CONTENT_TYPE)], await runtime.accounting.scrape())

    # Keeping idle streams open ---------------------------------------------------------------------------------------

    def _tick_later(self, ping: float) -> None:
        if not self._is_ticking and self._streams:
            self._is_ticking = True
            asyncio.get_running_loop().call_later(ping / TICKS, self._tick, ping)

    def _tick(self, ping: float) -> None:
        self._is_ticking = False
        for stream in self._streams:
            stream.tick()
        self._tick_later(ping)


class _Stream:
    """One streamed answer: what is emitted together is written together."""

    def __init__(
        self,
        context: RequestContext,
        chat: Chat,
        account: RequestRecord,
        emissions: AsyncGenerator[Emit, None],
        encoder: StreamEncoder,
    ) -> None:
        self.first: Emit | None = None
        """What came first, once it has come."""
        self._context = context
        self._chat = chat
        self._account = account
        self._emissions = emissions
        self._encoder = encoder
        self._begun: asyncio.Task[bytes | DragomanError | None] | None = None
        self._write: Write | None = None
        self._pinging: asyncio.Future[None] | None = None
        self._quiet = 0
        """Ticks since something was said."""
        self._is_kept = chat.is_remembered or account.span is not None
        self._seen: list[Event] = []
        """All of it, where somebody wants it as a whole."""

    async def begin(self, patience: float) -> None:
        """Wait for what comes first, so that a refusal has its own status; but not for ever."""
        self._begun = task = asyncio.create_task(self._next())
        try:
            await asyncio.wait((task,), timeout=patience)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done() and isinstance(error := task.result(), DragomanError):
            raise error

    async def write(self, write: Write) -> None:
        """All of it, to where it goes."""
        self._write = write
        try:
            if self.first is None:
                self._ping()  # nothing was said for as long as that may be
            told = await (self._begun or self._next())
            while isinstance(told, bytes):
                if told:
                    self._quiet = 0
                    await write(told)
                told = await self._next()
            if told is not None:
                await self._account.fail(told)
                await write(self._encoder.feed(as_told(told, self._context.id)))
        finally:
            self._write = None
            await self._emissions.aclose()
            await self._account.leave(self._chat.asked)

    def tick(self) -> None:
        """Say that it lives, if it has said nothing for so many ticks."""
        self._quiet += 1
        if self._quiet >= TICKS:
            self._ping()

    def _ping(self) -> None:
        self._quiet = 0
        if self._write is not None and (ping := self._encoder.feed(Ping())):
            self._pinging = asyncio.ensure_future(self._write(ping))
            self._pinging.add_done_callback(_unheard)

    async def _next(self) -> bytes | DragomanError | None:
        """The bytes of what is emitted next; an error is the last, and None comes after all of it."""
        try:
            emission = await anext(self._emissions, None)
            if emission is None:
                return None
            # Nothing is restarted here: the options of a gateway do not ask for it.
            events = cast("Sequence[Event]", emission.events)
            if self.first is None:
                self.first = emission
                self._account.first()
                events = [_begun(event, self._context, self._chat.id) for event in events]
            self._account.heard(events)
            if self._chat.has_ids:
                events = [self._chat.lift_event(event) for event in events]
            if self._is_kept:
                self._seen += events
            if isinstance(last := events[-1], Finished):
                unkept = await self._finish(last, emission.target)
                if notices := (*emission.notices, *unkept):
                    events = [*events[:-1], replace(last, notices=notices + last.notices)]
            feed = self._encoder.feed
            return b"".join([feed(event) for event in events])
        except Exception as error:  # noqa: BLE001 - it is said as the dialect says it, and ends the stream
            return explain(error, self._context.id)

    async def _finish(self, finished: Finished, target: str | None) -> tuple[Notice, ...]:
        """All is there: remember it before the farewell, as the next request of the conversation may follow at once."""
        response = replace(fold(self._seen), target=target) if self._is_kept else None
        await self._account.settle("served", status=200, target=target, usage=finished.usage, response=response)
        if response is not None and self._chat.is_remembered:
            return await self._chat.settle(response)
        return ()


def _unheard(ping: "asyncio.Future[None]") -> None:
    """A client that has gone hears no ping: what is written next, or the server, tells."""
    if not ping.cancelled():
        ping.exception()


async def _serve(service: ServerEndpoint, context: RequestContext) -> GatewayResponse:
    """The answer to what a client asks beside generation."""
    if not service.is_open:
        context.key = identify(context.http, context.runtime.keys)
    check_depth(context.http.body, context.runtime.config.gateway.max_depth)
    question = service.decode(context.http)
    found = await find(context, question)
    return said(service.encode(question, found), [*_told(context, None, ()), *await context.limit_headers()])


def explain(error: Exception, id: str, /) -> DragomanError:
    """The same, where it is one of ours; otherwise it goes to the log, and the client learns that it is our fault."""
    if isinstance(error, DragomanError):
        return error
    if isinstance(error, RecursionError):
        return InvalidRequest("the body is nested too deeply")
    # Not what it says: that may quote the request, and other formatters than ours would show it.
    log.error("request %s failed: %s", id, where(error))
    return InternalFault(FAILED)


def as_told(error: DragomanError, id: str, /) -> DragomanError:
    """The error as its client hears it: of a stream that broke, what broke it; and the id by which we know it."""
    cause = error.__cause__
    if isinstance(error, Interrupted) and isinstance(cause, DragomanError):
        # Not the cause itself: its words are those of the provider, and may hold a key.
        error = type(cause)(
            error.message,
            provider=error.provider,
            model=error.model,
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
            retry=cause.retry,
        )
    if isinstance(error, TransportError | WireError | Interrupted | ChainExhausted | ModelNotFound):
        error.message = re.sub(URL_PATTERN, "[address]", error.message)  # where providers are is no client's business
    elif isinstance(error, ProviderError):
        error.message = re.sub(URL_PATTERN, _without_secrets, error.message)
    if not isinstance(error, RequestError | ChainExhausted):
        error.message = shorten(error.message)
    error.request_id = id
    return error


def _without_secrets(place: "re.Match[str]") -> str:
    return redact_url(place[0].replace("[redacted]@", ""))


def refused(context: RequestContext, error: DragomanError, limits: Headers = (), /) -> GatewayResponse:
    """A refusal in the client's dialect, where that is known."""
    if context.wire is None:
        return refusal(error, context.id)
    headers = receipt(context.id, None, context.tier, context.attempts)
    if isinstance(error, OverLimit | WrongMethod):
        headers += error.headers
    return said(context.wire.server.encode_error(as_told(error, context.id)), [*headers, *limits])


def _told(context: RequestContext, target: str | None, notices: tuple[Notice, ...]) -> list[tuple[str, str]]:
    headers = receipt(context.id, target, context.tier, context.attempts)
    notices = context.notices + notices
    return [*headers, *notes(notices)] if notices else headers


def _forget(_response: Response) -> None:
    """What a stream folds to is nobody's wish here."""


def _completed(response: Response, context: RequestContext, own_id: str | None) -> Response:
    """With an id, a model and a time, where the provider told none: here we are the server."""
    if response.id and response.model and response.created and own_id is None:
        return response
    id, model = own_id or response.id or context.id, response.model or context.model
    return replace(response, id=id, model=model, created=response.created or int(time.time()))


def _begun(event: Event, context: RequestContext, own_id: str | None) -> Event:
    """As `_completed`, for a stream."""
    if not isinstance(event, Started):
        return event
    id, model = own_id or event.id or context.id, event.model or context.model
    return Started(id=id, model=model, created=event.created or int(time.time()))
