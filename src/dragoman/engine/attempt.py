"""A request and one target in, its answer out: make it ready, send, read, decode. A plan; the driver waits."""

from typing import NoReturn

import msgspec

from dragoman import wires
from dragoman.engine.effects import Compute, Emit, Exchange, HttpResponse, Now, Open, Plan, Read, Send
from dragoman.engine.preparing import left, named, prepared
from dragoman.engine.structured_output import OutputPlan, ToolOutputDecoder, shape
from dragoman.errors import DragomanError, EmptyResponse, Interrupted, SetupError, TimedOut, TooLarge
from dragoman.events import Event, Finished, PartDelta, PartEnded, Restarted, StreamEvent, fold
from dragoman.http import HttpRequest
from dragoman.media import MediaCache
from dragoman.targets.target import Target
from dragoman.types import Request, Response, Text, Thinking
from dragoman.wires.base import StreamDecoder

MAX_BODY = 256 * 1024 * 1024
HEAVY_BODY = 1024 * 1024
"""Bytes of an answer that take long enough to be decoded elsewhere than in an event loop."""
MAX_ERROR_BODY = 1024 * 1024
ERROR_PATIENCE = 5.0
"""Seconds that the words of a refusal may take: its status is known by then."""


CLOCK_TOLERANCE = 0.05
"""Seconds by which a limit may seem to be short of its end."""
_NUMBER = (int, float)
MAX_TIMEOUT = 1e9
"""Seconds from which on a limit is none: thirty years are more than timers take."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take, in seconds: in all, and for each stage. None is as long as it takes; so is infinity.

    >>> Timeouts(total=30).idle is None
    True
    """

    total: float | None = 600.0
    """The whole call, across all attempts."""
    connect: float | None = 10.0
    first_event: float | None = None
    """Until a stream has content; pings are none."""
    idle: float | None = None
    """Between one piece of content of a stream and the next."""
    step: float | None = None
    tool: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        for name in self.__struct_fields__:
            seconds = getattr(self, name)
            if seconds is None:
                continue
            if isinstance(seconds, bool) or not isinstance(seconds, _NUMBER) or not seconds >= 0:
                raise SetupError(
                    f"timeout: {name} of {seconds!r} is none; give seconds from 0 on, or None for no limit"
                )
            if seconds > MAX_TIMEOUT:
                msgspec.structs.force_setattr(self, name, None)

    @property
    def longest_silence(self) -> float | None:
        """The longer of `first_event` and `idle`; None where one of them is not limited."""
        return None if self.first_event is None or self.idle is None else max(self.first_event, self.idle)


class Completed(msgspec.Struct, frozen=True):
    """A response, the seconds until it was there or, streamed, began, and the moment at which it was whole.

    >>> from dragoman.types import Finish, assistant
    >>> Completed(Response(message=assistant("hi"), finish=Finish(reason="stop")), 0.2, 7.0).latency
    0.2
    """

    response: Response
    latency: float
    ended: float


def call(
    request: Request,
    target: Target,
    timeouts: Timeouts,
    deadline: float | None,
    /,
    *,
    restarted: Restarted | None = None,
    album: MediaCache | None = None,
    fetch_images: bool = False,
    spare: bool = False,
) -> Plan[Completed]:
    """One request to one target. A streamed one emits its events on the way, after `restarted` where that is told.

    `album` keeps the pictures that were fetched and fitted for the next attempt. To `spare` the tools is to send words
    in the place of media in their results that the target cannot take.

    >>> from dragoman.targets.providers import target
    >>> plan = call(Request(), target("ollama/x"), Timeouts(), None)
    >>> next(plan), plan.send(0.0).request.url
    (Now(), 'http://localhost:11434/api/chat')
    """
    http = yield from prepared(request, target, deadline, album=album, fetch_images=fetch_images, spare=spare)
    shaped = shape(request, target)
    began: float = yield Now()
    try:
        if request.stream:
            answer = yield from _Stream(http, shaped, target, timeouts, deadline).run(began, restarted)
        else:
            answer = yield from _send(http, shaped, target, timeouts, deadline, began)
    except DragomanError as error:
        raise named(error, target, http) from error.__cause__
    response = answer.response
    notices = http.notices + response.notices
    return Completed(
        msgspec.structs.replace(response, target=target.name, notices=notices), answer.latency, answer.ended
    )


def _send(
    http: HttpRequest, shaped: OutputPlan, target: Target, timeouts: Timeouts, deadline: float | None, began: float
) -> Plan[Completed]:
    client = wires.get(target.wire).client
    try:
        reply: HttpResponse = yield Send(http, left(deadline, began), timeouts.connect, MAX_BODY, target.http_client)
    except TimedOut as error:
        raise (yield from _told(error, ("total", timeouts.total, deadline))) from error.__cause__
    if reply.head.status >= 300:
        raise client.decode_error(reply.head, reply.body)
    if len(reply.body) > MAX_BODY:
        raise TooLarge(f"{target.name}: the answer is larger than {MAX_BODY} bytes")

    def decode(_: object = None) -> Response:
        return fold(ToolOutputDecoder(shaped).feed(client.decode_body(reply.body, shaped.request)))

    response: Response = (yield Compute(decode)) if len(reply.body) > HEAVY_BODY else decode()
    if is_empty_response(response):
        raise _empty(target, response)
    ended: float = yield Now()
    return Completed(response, ended - began, ended)


class _Stream:
    """One streamed answer. Nothing of it is shown until it has content: so long, another target may be tried."""

    def __init__(
        self, http: HttpRequest, shaped: OutputPlan, target: Target, timeouts: Timeouts, deadline: float | None
    ) -> None:
        self._http = http
        self._request = shaped.request
        self._restorer = ToolOutputDecoder(shaped)
        self._target = target
        self._name = target.name
        self._timeouts = timeouts
        self._deadline = deadline
        self._client = wires.get(target.wire).client
        self._seen: list[Event] = []
        self._is_shown = False
        self._quiet_since = 0.0

    def run(self, began: float, restarted: Restarted | None) -> Plan[Completed]:
        exchange = yield from self._open(began)
        decoder = self._client.stream_decoder(self._request)
        preface: list[StreamEvent] = [restarted] if restarted is not None else []
        content_length, latency, now = 0, None, began
        self._quiet_since = began
        while not self._is_over:
            fresh = self._restorer.feed((yield from self._read(exchange, decoder, now)))
            shown = self._take(fresh, preface)
            if latency is None and shown:
                moment: float = yield Now()
                latency = moment - began
            if shown:
                yield Emit(shown, self._name, self._http.notices)
            if decoder.error is not None:
                self._break(decoder.error)
            now = yield Now()
            if decoder.content_length > content_length or any(isinstance(event, PartEnded) for event in fresh):
                content_length, self._quiet_since = decoder.content_length, now
        response = fold(self._seen)
        if not self._is_shown:
            if is_empty_response(response):
                raise _empty(self._target, response)
            yield Emit([*preface, *self._seen], self._name, self._http.notices)
        return Completed(response, now - began if latency is None else latency, now)

    @property
    def _is_over(self) -> bool:
        return isinstance(self._seen[-1], Finished) if self._seen else False

    def _open(self, began: float) -> Plan[Exchange]:
        limits, deadline = self._timeouts, self._deadline
        try:
            exchange: Exchange = yield Open(
                self._http,
                left(deadline, began, limits.first_event),
                limits.connect,
                total=left(deadline, began),
                quiet=limits.longest_silence,
                transport=self._target.http_client,
            )
        except TimedOut as error:
            raise (yield from self._late(error, began)) from error.__cause__
        if exchange.head.status >= 300:
            body = yield from _read_refusal(exchange, deadline)
            raise self._client.decode_error(exchange.head, body)
        return exchange

    def _read(self, exchange: Exchange, decoder: StreamDecoder, now: float) -> Plan[list[Event]]:
        try:
            data: bytes = yield Read(exchange, left(self._deadline, now, self._patience(now)))
        except TimedOut as error:
            error.count_failure = True
            return self._last_words(decoder, (yield from self._late(error, self._quiet_since)))
        except DragomanError as error:
            return self._last_words(decoder, error)
        try:
            return decoder.feed(data)
        except DragomanError as error:
            return self._break(error)

    def _patience(self, now: float) -> float | None:
        """Seconds until content must have come."""
        name, limit = self._silence
        if limit is None:
            return None
        left = self._quiet_since + limit - now
        if left <= 0:
            raise TimedOut(f"no content for {limit} s; that is the limit `{name}`")
        return left

    @property
    def _silence(self) -> tuple[str, float | None]:
        """The limit that holds for the next piece of content."""
        return ("idle", self._timeouts.idle) if self._is_shown else ("first_event", self._timeouts.first_event)

    def _late(self, error: TimedOut, since: float) -> Plan[TimedOut]:
        name, limit = self._silence
        ends = None if limit is None else since + limit
        return _told(error, (name, limit, ends), ("total", self._timeouts.total, self._deadline))

    def _last_words(self, decoder: StreamDecoder, error: DragomanError) -> list[Event]:
        """What the end of the file gives, where only the farewell was missing; otherwise the error, with the usage."""
        try:
            return decoder.feed(b"")
        except DragomanError as end:
            usage = end.usage
        error.usage = error.usage or usage
        return self._break(error)

    def _take(self, fresh: list[Event], preface: list[StreamEvent]) -> list[StreamEvent]:
        """The events that may be shown now: all, from the first that says something."""
        self._seen += fresh
        if self._is_shown:
            return [*fresh]
        if not any(has_content(event) for event in fresh):
            return []
        self._is_shown = True
        return [*preface, *self._seen]

    def _break(self, error: DragomanError) -> NoReturn:
        """Raise the error itself while nothing was shown; afterwards the interruption, with what there was."""
        if not self._is_shown:
            raise error
        partial = fold(self._seen)
        usage = error.usage or partial.usage
        notices = self._http.notices + partial.notices
        raise Interrupted(
            f"the stream broke: {type(error).__name__}: {error.message}",
            partial=msgspec.structs.replace(partial, target=self._target.name, usage=usage, notices=notices),
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
            usage=usage,
            count_failure=error.count_failure,
        ) from error


def _told(error: TimedOut, *limits: tuple[str, float | None, float | None]) -> Plan[TimedOut]:
    """The same with the limit that has passed: of each its name, its seconds, and the moment at which it ends."""
    now: float = yield Now()
    passed = [(name, limit) for name, limit, ends in limits if ends is not None and now >= ends - CLOCK_TOLERANCE]
    if passed and "limit" not in error.message:
        name, limit = passed[0]
        error.message = f"{error.message}; the limit `{name}` of {limit} s has passed"
    return error


def has_content(event: Event) -> bool:
    match event:
        case PartDelta(text=text) | PartEnded(part=Text(text=text) | Thinking(text=text)):
            return bool(text.strip())
        case PartEnded():
            return True
        case _:
            return False


def _read_refusal(exchange: Exchange, deadline: float | None) -> Plan[bytes]:
    """The body of an answer that is no, or as much of it as comes: its status is known already."""
    pieces: list[bytes] = []
    size = 0
    now: float = yield Now()
    until = now + ERROR_PATIENCE
    while size < MAX_ERROR_BODY:
        try:
            data: bytes = yield Read(exchange, left(until if deadline is None else min(until, deadline), now))
        except DragomanError:
            break
        if not data:
            break
        pieces.append(data)
        size += len(data)
        now = yield Now()
    return b"".join(pieces)


def _empty(target: Target, response: Response) -> EmptyResponse:
    finish = response.finish.raw or response.finish.reason
    return EmptyResponse(f"{target.name}: nothing in the answer (finish: {finish})", usage=response.usage)


def is_empty_response(response: Response, /) -> bool:
    """Whether an answer is empty without a reason that it gives itself.

    >>> from dragoman.types import Finish, assistant
    >>> is_empty_response(Response(message=assistant(" "), finish=Finish(reason="stop")))
    True
    """
    return response.is_empty and response.finish.reason not in ("blocked", "length")
