"""The gateway's application: it answers HTTP requests of all dialects.

`App.answer` handles a request from start to end: find the route, authenticate, decode, choose targets, reserve limits,
run the chain, encode. What is known of the request is in its `RequestContext`. Errors of all steps end in `answer`,
which records them and encodes them in the client's dialect; errors after the first byte of a stream end in
`ResponseStream.write`. The app knows no server protocol: adapters in `gateway/server` call it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from dragoman import wires
from dragoman.engine.effects import Emit
from dragoman.errors import DragomanError, InvalidRequest, StoreDown
from dragoman.gateway import pass_through
from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.accounting.quotas import LimitHeaders, OverLimit
from dragoman.gateway.auth.authenticate import check_operator, identify
from dragoman.gateway.background import BackgroundResponses
from dragoman.gateway.batches import BatchRunner, results_response
from dragoman.gateway.conversations import RecentResponses
from dragoman.gateway.dashboard import page_routes
from dragoman.gateway.endpoints import run_endpoint
from dragoman.gateway.errors import (
    Busy,
    NoRoute,
    NoWebSocket,
    Stopping,
    WrongMethod,
    to_client_error,
    to_dragoman_error,
)
from dragoman.gateway.management.api import AdminApi
from dragoman.gateway.management.manager import Manager
from dragoman.gateway.observability import health
from dragoman.gateway.observability.metrics import CONTENT_TYPE
from dragoman.gateway.request import RequestContext
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.body_limits import (
    CONTENT_ENCODING,
    BodyBytes,
    BodyMemory,
    check_structure,
    decode_body,
    decompress,
    has_body,
)
from dragoman.gateway.server.browsers import check_browser, cors_headers, preflight
from dragoman.gateway.server.response import (
    GatewayResponse,
    RequestHandler,
    Write,
    error_without_dialect,
    json_response,
    with_headers,
)
from dragoman.gateway.server.router import Routes
from dragoman.gateway.stream import TICKS, ResponseStream, set_client_fields
from dragoman.http import HttpRequest
from dragoman.io.driver import Driver
from dragoman.types import Notice, Response
from dragoman.wires.base import Wire, WireBackground, WireSocket, unsupported_parts
from dragoman.wires.common.batch_values import BatchQuery, StoredBatch
from dragoman.wires.common.item_cache import MIN_CACHED_BODY, decode_with_cache
from dragoman.wires.common.request_body import decode_request_json
from dragoman.wires.common.server_endpoints import (
    DropResponse,
    EndpointResult,
    FileQuery,
    Route,
    ServerEndpoint,
)

LARGE_FILE = 256 * 1024
"""Bytes. A longer file is written in pieces of this size."""
_MAX_FIELD = 40
"""Characters of the name of a field in an error."""
log = logging.getLogger("dragoman.gateway")

ReadBody: TypeAlias = Callable[[BodyBytes], Awaitable[bytes]]
"""Reads the body of a request, and counts its bytes as they arrive."""


class RouteHandler(NamedTuple):
    """The handler of a route, and its dialect."""

    wire: Wire | None
    """The dialect of its clients; None if the route belongs to the gateway itself."""
    handle: RequestHandler
    is_public: bool = False
    """Whether it needs no key. It gets no body, and does not count as a request in progress."""


class App:
    """Serves all dialects.

    It ends in three steps: `drain` reports not ready, `end_requests` ends what still runs, `close` releases everything.
    """

    def __init__(self, runtime: Runtime, /, *, is_local: bool = False) -> None:
        """`is_local`: only this machine can reach the gateway, so its dashboard needs no key if there are no keys."""
        self.runtime = runtime
        """The runtime for new requests; running requests keep the old one."""
        self.is_stopping = False
        self._in_flight = 0
        self._answering: set[asyncio.Task[Any]] = set()
        """The tasks of requests whose response has not begun."""
        self._ends_requests = False
        """Whether `end_requests` was called."""
        self.manager = Manager(self)
        self._admin = AdminApi(self.manager, is_local=is_local)
        self._background = BackgroundResponses()
        self._batches = BatchRunner(lambda: self.runtime, self._answer_row)
        self._streams: set[ResponseStream] = set()
        self.sockets: set[Callable[[], None]] = set()
        """Functions that close the open WebSockets, each once it has nothing to answer."""
        self._is_ticking = False
        self.bodies = BodyMemory()
        self._routes: Routes[RouteHandler] = Routes(self._merge_by_path(self.table()))

    def table(self) -> Iterator[tuple[Route, RouteHandler]]:
        """Every route of the gateway, with what answers it."""
        for wire in map(wires.get, wires.NAMES):
            for half in (wire.server, *wire.other_servers):
                socket = wire.socket if half is wire.server else None
                handler = RouteHandler(replace(wire, server=half, socket=socket), self._generate)
                for route in half.routes:
                    yield route, handler
            for endpoint in wire.server_endpoints:
                serve = partial(self._serve_endpoint, endpoint)
                served = wire if endpoint.server is None else replace(wire, server=endpoint.server)
                yield endpoint.route, RouteHandler(served, serve, is_public=endpoint.is_public)
        for route in pass_through.routes():
            yield route, RouteHandler(pass_through.DIALECT, self._pass_through)
        yield Route(method="GET", path="/health/live"), RouteHandler(None, self._live, is_public=True)
        yield Route(method="GET", path="/health/ready"), RouteHandler(None, self._ready, is_public=True)
        yield Route(method="GET", path="/health"), RouteHandler(None, self._health)
        yield Route(method="GET", path="/metrics"), RouteHandler(None, self._metrics)
        for route, page in page_routes():
            yield route, RouteHandler(None, page, is_public=True)
        for route, handle in self._admin.table():
            yield route, RouteHandler(None, handle)

    def _merge_by_path(self, table: Iterable[tuple[Route, RouteHandler]]) -> Iterator[tuple[Route, RouteHandler]]:
        """The table with one handler for each path where only the body tells which dialect a request has."""
        by_path: dict[tuple[str, str], list[tuple[Route, RouteHandler]]] = {}
        for route, handler in table:
            if route.accepts is None:
                yield route, handler
            else:
                by_path.setdefault((route.method, route.path), []).append((route, handler))
        for choices in by_path.values():
            route, first = choices[0]
            yield route, RouteHandler(first.wire, partial(self._answer_by_body, choices))

    # Every request ---------------------------------------------------------------------------------------------------

    async def answer(
        self, http: HttpRequest, read: ReadBody | None = None, /, *, recent: RecentResponses | None = None
    ) -> GatewayResponse:
        """The response to one request; errors are responses, too.

        `read` reads the body of the request. It is called only if the headers were accepted, so a client without a
        key cannot fill the memory. `recent` has the last responses of the client's WebSocket.
        """
        context = RequestContext(self.runtime, http)
        context.recent = recent
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._answering.add(task)
        try:
            response = await self._answer(context, read)
        except asyncio.CancelledError:
            if self._ends_requests:
                response = await self._answer_error(context, _stopped())
            else:
                if context.record is not None:
                    await context.record.client_disconnected(context.current_target)
                raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the client gets it in its own dialect
            response = await self._answer_error(context, to_dragoman_error(error, context.id))
        finally:
            self._answering.discard(task)
        if "origin" in http.headers and http.method != "OPTIONS":
            response.headers.extend(cors_headers(http, context.runtime))
        return response

    async def _answer(self, context: RequestContext, read: ReadBody | None) -> GatewayResponse:
        if context.http.method == "OPTIONS" and (response := preflight(context.http, context.runtime)) is not None:
            return response
        if "upgrade" in context.http.headers and context.http.headers["upgrade"].lower() == "websocket":
            raise NoWebSocket("this path does not support WebSocket; send the request as POST")
        handler = self._find_route(context)
        if not (handler.is_public or self.manager.is_loaded):
            context.runtime = await self.manager.load()
        check_browser(context.http, context.runtime)
        if handler.is_public:  # public paths ignore the body
            context.http = replace(context.http, body=b"")
            return await handler.handle(context)
        context.key = identify(context.http, context.runtime.keys)
        limits = context.runtime.config.gateway
        if self._in_flight >= limits.max_requests and handler.wire is not None:
            raise Busy(f"{limits.max_requests} requests are in progress; try again later", retry_after=1.0)
        self._in_flight += 1
        try:
            with self.bodies.request(limits) as body_bytes:
                if read is not None:
                    if context.key is not None and has_body(context.http):
                        context.slot = await context.runtime.accounting.quotas.reserve_slot(context.key)
                    context.http = replace(context.http, body=await read(body_bytes))
                if CONTENT_ENCODING in context.http.headers:
                    context.http = await decompress(context.http, limits.max_body, body_bytes)
                return await handler.handle(context)
        finally:
            self._in_flight -= 1
            if context.slot.limits:
                await context.runtime.accounting.quotas.finish(context.slot, tokens=None)

    async def _answer_row(self, context: RequestContext) -> GatewayResponse:
        """The response to a row of a batch."""
        try:
            return await self._find_route(context).handle(context)
        except asyncio.CancelledError:
            if context.record is not None:
                await context.record.client_disconnected(context.current_target)
            raise
        except Exception as error:  # noqa: BLE001 - as in `answer`
            return await self._answer_error(context, to_dragoman_error(error, context.id))

    async def open_socket(self, http: HttpRequest, /) -> WireSocket | GatewayResponse:
        """How to talk with a client that asks for a WebSocket, or the response that refuses it."""
        context = RequestContext(self.runtime, replace(http, method="POST"))
        try:
            try:
                socket = None if (wire := self._find_route(context).wire) is None else wire.socket
            except WrongMethod:
                socket = None
            if socket is None:
                raise NoWebSocket(f"{http.path[:200]} does not support WebSocket; send the request as POST")
            context.runtime = await self.manager.load()
            check_browser(http, context.runtime)
            context.key = identify(http, context.runtime.keys)
            limit = context.runtime.config.gateway.max_requests
            if self.is_stopping:
                raise Stopping("the gateway is stopping", retry_after=1.0)
            if len(self.sockets) >= limit:
                raise Busy(f"{limit} WebSockets are open; try again later", retry_after=1.0)
        except DragomanError as error:
            return await self._answer_error(context, error)
        return socket

    def _find_route(self, context: RequestContext) -> RouteHandler:
        try:
            handler = self._routes.find(context.http)
        except (NoRoute, WrongMethod) as error:
            # Use the error format that most dialects with similar paths share.
            similar = [each.wire for each in self._routes.find_similar(context.http) if each.wire is not None]
            bodies = {wire.name: wire.server.encode_error(error).body for wire in similar}
            counts = Counter(bodies[wire.name] for wire in similar)
            context.wire = next((wire for wire in similar if 2 * counts[bodies[wire.name]] > len(similar)), None)
            raise
        context.wire = handler.wire
        return handler

    async def _answer_error(self, context: RequestContext, error: DragomanError) -> GatewayResponse:
        if context.record is not None:
            await context.record.fail(error)
        elif context.wire is not None and not isinstance(error, NoRoute):
            await context.runtime.accounting.refuse(context, error)
        return _encode_error(context, error, () if isinstance(error, OverLimit) else await context.limit_headers())

    # Generation ------------------------------------------------------------------------------------------------------

    async def _generate(self, context: RequestContext) -> GatewayResponse:
        wire, runtime = cast("Wire", context.wire), context.runtime
        decode, http, limits = wire.server.decode_request, context.http, runtime.config.gateway
        if len(http.body) < MIN_CACHED_BODY:  # as most are: there is nothing to look up, and nothing that takes long
            check_structure(http.body, limits)
            decoded = decode(http)
        else:
            if runtime.item_cache is not None:
                decode = partial(decode_with_cache, decode, runtime.item_cache)
            decoded = await decode_body(http, limits, decode)
        await context.prepare(*decoded)
        record = context.record = await runtime.accounting.open(context)
        registry = runtime.registry
        shared = registry.driver
        driver = Driver(
            registry.transport,
            (record.observe,),
            fetcher=shared.fetcher,
            uploads=shared.uploads,
            limits=shared.limits,
        )
        if context.is_background:
            return await self._in_background(context, record, driver)
        if context.request.stream:
            return await self._answer_streamed(context, record, driver.aemissions(context.plan()))
        return await self._answer_whole(context, record, await driver.arun(context.plan()))

    async def _answer_whole(
        self, context: RequestContext, record: RequestRecord, response: Response
    ) -> GatewayResponse:
        wire = cast("Wire", context.wire)
        if context.tool_ids is not None:
            response = context.tool_ids.to_client(response)
        response = set_client_fields(response, context)
        context.note_completed(int(time.time()))
        if wire.add_durations is not None:
            response = replace(response, finish=wire.add_durations(response.finish, *record.seconds()))
        not_tagged: tuple[Notice, ...] = ()
        if context.may_need_tags(response.target):
            response, not_tagged = await context.tag_response(response)
        unsupported = unsupported_parts(wire, response.message.parts, response.other_choices)
        lost = (*response.notices, *not_tagged, *unsupported)
        # Accounting comes first: the response is paid for even if it cannot be stored.
        await record.finish(
            "served",
            status=200,
            target=response.target,
            usage=response.usage,
            response=response,
            notices=context.notices + lost,
        )
        not_stored = await context.store_conversation(response) if context.must_store else ()
        if not_stored:
            response = replace(response, notices=(*response.notices, *not_stored))
        http_response = wire.server.encode_body(response, context.request)
        notices = (*lost, *not_stored)
        return with_headers(http_response, [*context.response_headers(response.target, notices), *record.limit_headers])

    async def _answer_streamed(
        self, context: RequestContext, record: RequestRecord, emissions: AsyncGenerator[Emit, None]
    ) -> GatewayResponse:
        encoder = cast("Wire", context.wire).server.stream_encoder(context.request)
        stream = ResponseStream(context, record, emissions, encoder)
        ping = context.runtime.config.gateway.ping
        await stream.wait_for_first(ping)
        target, notices = (None, ()) if stream.first is None else (stream.first.target, stream.first.notices)

        headers = [("content-type", encoder.content_type), ("cache-control", "no-cache")]
        headers += context.response_headers(target, notices)
        return GatewayResponse(200, [*headers, *record.limit_headers], partial(self._write, stream, ping))

    async def _write(self, stream: ResponseStream, ping: float, write: Write) -> None:
        self._in_flight += 1
        self._streams.add(stream)
        self._tick_later(ping)
        try:
            await stream.write(write)
        finally:
            self._in_flight -= 1
            self._streams.discard(stream)

    async def _in_background(self, context: RequestContext, record: RequestRecord, driver: Driver) -> GatewayResponse:
        """Start the response and answer at once. Its events are kept, so clients can fetch them later."""
        wire, wants_stream = cast("Wire", context.wire), context.request.stream
        context.request = replace(context.request, stream=True)
        encoder = wire.server.stream_encoder(context.request)
        stream = ResponseStream(context, record, driver.aemissions(context.plan()), encoder)
        write_all = partial(self._write, stream, context.runtime.config.gateway.ping)
        running = await self._background.start(context, write_all, stream.end)
        if wants_stream:
            return self._background.stream(context, running)
        background = cast("WireBackground", wire.background)
        headers = [*context.response_headers(), *record.limit_headers]
        return with_headers(background.encode(running.progress.snapshot), headers)

    async def _answer_by_body(
        self, choices: list[tuple[Route, RouteHandler]], context: RequestContext
    ) -> GatewayResponse:
        """Answer with the handler that accepts the body."""
        find = partial(_handler_of_body, choices)
        handler = await decode_body(context.http, context.runtime.config.gateway, find)
        context.wire = handler.wire
        return await handler.handle(context)

    async def _serve_endpoint(self, endpoint: ServerEndpoint, context: RequestContext) -> GatewayResponse:
        """Answer a request for something else: model lists, token counts, embeddings, stored responses."""
        request = await decode_body(
            context.http, context.runtime.config.gateway, endpoint.decode, is_json=endpoint.is_json
        )
        background, owner = self._background, context.owner
        if (response := await background.answer(context, request)) is not None:
            return response
        if isinstance(request, FileQuery) and request.action == "content":
            file = await context.runtime.files.find(owner, request.id)
            if file.size > LARGE_FILE:
                return await self._serve_large_file(endpoint, request, file.size, context)
        result: EndpointResult
        if isinstance(request, DropResponse) and await background.drop(context, request.id):
            await context.runtime.responses.delete(owner, request.id)
            result = None
        else:
            result = await background.input_of(context, request) or await run_endpoint(context, request)
        if isinstance(request, BatchQuery) and request.action == "results":
            response = results_response(context, endpoint, request, cast("StoredBatch", result))
        else:
            response = with_headers(endpoint.encode(request, result), context.response_headers())
        response.headers.extend(await context.limit_headers())
        return response

    async def _serve_large_file(
        self, endpoint: ServerEndpoint, query: FileQuery, size: int, context: RequestContext
    ) -> GatewayResponse:
        """Answer with a large file. It is read before the headers are written, so errors still have a status."""
        limits = context.runtime.config.gateway
        with self.bodies.request(limits) as body_bytes:
            body_bytes.add(size)
            content = await run_endpoint(context, query)
            headers = [*context.response_headers(), *await context.limit_headers()]
        http_response = endpoint.encode(query, content)
        data = http_response.body
        headers.append(("content-length", str(len(data))))

        async def write_file(write: Write) -> None:
            """Until the client has all of it, the file counts as a body in memory: many clients may read slowly."""
            with self.bodies.request(limits) as body_bytes:
                body_bytes.keep(len(data))
                for start in range(0, len(data), LARGE_FILE):
                    await write(data[start : start + LARGE_FILE])

        return replace(with_headers(http_response, headers), body=write_file)

    async def _pass_through(self, context: RequestContext) -> GatewayResponse:
        return await pass_through.PassThrough(context).open()

    # Keeping silent streams open -------------------------------------------------------------------------------------

    def _tick_later(self, ping: float) -> None:
        if not self._is_ticking and self._streams:
            self._is_ticking = True
            asyncio.get_running_loop().call_later(ping / TICKS, self._tick, ping)

    def _tick(self, ping: float) -> None:
        self._is_ticking = False
        for stream in self._streams:
            stream.tick()
        self._tick_later(ping)

    # Operation -------------------------------------------------------------------------------------------------------

    async def _live(self, _context: RequestContext) -> GatewayResponse:
        return json_response({"status": "live"})

    async def _ready(self, context: RequestContext) -> GatewayResponse:
        if self.is_stopping:
            raise Stopping("the gateway is stopping")
        await health.check_store_writable(context.runtime)
        return json_response({"status": "ready"})

    async def _health(self, context: RequestContext) -> GatewayResponse:
        return json_response(await health.health_report(context.runtime, context.key, in_flight=self._in_flight))

    async def _metrics(self, context: RequestContext) -> GatewayResponse:
        check_operator(context.key)
        return GatewayResponse(200, [("content-type", CONTENT_TYPE)], await context.runtime.accounting.scrape())

    async def run(self) -> None:
        """Do the background work of the accounting, the manager and the batches, until cancelled."""
        await asyncio.gather(self.runtime.accounting.run(), self.manager.run(), self._batches.run())

    def drain(self) -> None:
        """Report not ready, but go on answering. A WebSocket is closed as soon as it is idle."""
        self.is_stopping = True
        for close in tuple(self.sockets):
            close()

    def end_requests(self) -> None:
        """End what is in progress with an error in the client's dialect: the time after `drain` is over."""
        self._ends_requests = True
        for task in self._answering:
            task.cancel()
        for stream in self._streams:
            stream.end(_stopped())

    async def close(self) -> None:
        """Write what is waiting and release everything. Call it after all requests have ended.

        Responses in the background end as failed.
        """
        await asyncio.sleep(0)  # a response that was just put into the background begins its stream
        for stream in tuple(self._streams):
            stream.end(_stopped())
        await self._background.wait()
        try:
            await self.runtime.accounting.aclose()
        except StoreDown as error:
            log.error("usage rows were lost: %s", error)  # noqa: TRY400 - no bug of ours
        await self.runtime.aclose()


def _stopped() -> Stopping:
    return Stopping("the gateway stopped before the request was finished; send it again", retry_after=1.0)


def _handler_of_body(choices: Iterable[tuple[Route, RouteHandler]], http: HttpRequest) -> RouteHandler:
    """The handler that accepts the body of a request."""
    body = decode_request_json(http)
    for route, handler in choices:
        if route.accepts is not None and route.accepts(body):
            return handler
    fields = ", ".join(name[:_MAX_FIELD] for name in islice(body, 8)) or "none"
    why = f"no API at this path has a body with these fields: {fields}; see docs/clouds.md"
    raise InvalidRequest(why)


def _encode_error(context: RequestContext, error: DragomanError, limits: LimitHeaders = ()) -> GatewayResponse:
    if context.wire is None:
        return error_without_dialect(error, context.id)
    headers = context.routing_headers()
    if isinstance(error, OverLimit | WrongMethod):
        headers += error.headers
    return with_headers(context.wire.server.encode_error(to_client_error(error, context.id)), [*headers, *limits])
