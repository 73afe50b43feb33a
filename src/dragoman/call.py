"""A request and one target in, its answer out: check, fit, encode, send, read, decode. A plan; the driver waits."""

from typing import NoReturn

import msgspec

from dragoman import media, wires
from dragoman.errors import AuthFailed, DragomanError, EmptyResponse, Interrupted, TimedOut, TooLarge, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, Restarted, StreamEvent, fold
from dragoman.flow import Compute, Emit, Exchange, Fetch, Flow, Now, Open, Read, Reply, Send
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.types import Notice, Request, Response, Text, Thinking
from dragoman.ways import Restorer, Shaped, shape
from dragoman.wire import Notes, StreamDecoder

MAX_BODY = 256 * 1024 * 1024
MAX_ERROR_BODY = 1024 * 1024
MIN_SECRET = 6
"""Characters of a key that is one: local servers are given words such as "x"."""
ERROR_PATIENCE = 5.0
"""Seconds that the words of a refusal may take: its status is known by then."""
MAX_FETCHED = 20 * 1024 * 1024
FETCH_PATIENCE = 15.0
"""Seconds until a picture that is fetched must be there."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take, in seconds: in all, and for each stage. None is as long as it takes.

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

    @property
    def longest_silence(self) -> float | None:
        """The longer of `first_event` and `idle`; None where one of them is not limited."""
        return None if self.first_event is None or self.idle is None else max(self.first_event, self.idle)


class Answer(msgspec.Struct, frozen=True):
    """A response, the seconds until it was there or, streamed, began, and the moment at which it was whole.

    >>> from dragoman.types import Finish, assistant
    >>> Answer(Response(message=assistant("hi"), finish=Finish(reason="stop")), 0.2, 7.0).latency
    0.2
    """

    response: Response
    latency: float
    ended: float


# Before anything is sent ----------------------------------------------------------------------------------------------


def check(request: Request, target: Target, /) -> None:
    """Refuse what the target cannot do, so that a caller who skips the chain is told the truth, too.

    A forced choice, a schema that may be asked for in any way, and thinking are no part of it: where a target cannot do
    these, the nearest that there is is asked for and told in a notice, or refused where the request is strict.

    >>> from dragoman.providers import target
    >>> check(Request(), target("ollama/x"))
    """
    limits = target.limits
    refusals = (
        (request.tools and not limits.tools, "tools"),
        (
            request.schema is not None and not limits.structured and request.schema_way == "own",
            "a schema for its answer",
        ),
        (request.stream and not limits.streaming, "a wish for a stream"),
    )
    for refused, what in refusals:
        if refused:
            raise Unsupported(f"{target.name}: cannot take {what}")
    try:
        media.check(request, limits)
    except Unsupported as error:
        raise _told_by(target, error) from error.__cause__


def _told_by(target: Target, error: Unsupported) -> Unsupported:
    return Unsupported(f"{target.name}: {error.message}")


def _fit(request: Request, target: Target, album: media.Album | None) -> tuple[Request, tuple[Notice, ...]]:
    """The request with its media as the target takes them, and what was bent."""
    bent: list[Notice] = []
    try:
        fitted = media.fit(request, target.limits, album=album, notices=bent)
    except Unsupported as error:
        raise _told_by(target, error) from error.__cause__
    notes = Notes(target.name, strict=request.strict)
    for notice in bent:
        notes.add(notice.kind, notice.what, notice.why)
    return fitted, notes.notices


def prepare(request: Request, target: Target, /, *, album: media.Album | None = None) -> HttpRequest:
    """The exact HTTP request for a target; refused where it cannot be made or the key is not there.

    >>> from dragoman.providers import target
    >>> prepare(Request(), target("ollama/x")).path
    '/api/chat'
    """
    try:
        _check_all(request, target)
        shaped = shape(request, target)
        fitted, bent = _fit(shaped.request, target, album)
        http = wires.get(target.wire).client.encode_request(fitted, target)
    except DragomanError as error:
        raise named(error, target) from error.__cause__
    notices = shaped.notices + bent
    return msgspec.structs.replace(http, notices=notices + http.notices) if notices else http


def _check_all(request: Request, target: Target) -> None:
    check(request, target)
    if target.needs_key and not target.api_key:
        ways = [f"set {' or '.join(target.key_names)}"] if target.key_names else []
        # Nothing was sent: the target is not set up, and another one may be.
        raise AuthFailed(f"{target.provider}: no key; {' or '.join([*ways, 'pass api_key='])}", advance=True)


def _prepared(
    request: Request, target: Target, deadline: float | None, album: media.Album, *, fetch: bool
) -> Flow[HttpRequest]:
    """As `prepare`; pictures are fetched where that is wanted, and what takes long is done where it blocks nobody."""
    if fetch:
        yield from _fetch(request, target, deadline, album)
    if media.is_heavy(request, target.limits, album=album):
        http: HttpRequest = yield Compute(lambda: prepare(request, target, album=album))
        return http
    return prepare(request, target, album=album)


def _fetch(request: Request, target: Target, deadline: float | None, album: media.Album) -> Flow[None]:
    """Put the pictures that the target cannot fetch into the album."""
    urls = [url for url in media.urls_to_fetch(request, target.limits) if url not in album.fetched]
    if not urls:
        return
    try:
        _check_all(request, target)
        for url in urls:
            now: float = yield Now()
            timeout = _left(deadline, now, FETCH_PATIENCE)
            album.fetched[url] = yield Fetch(url, timeout or FETCH_PATIENCE, MAX_FETCHED)
    except Unsupported as error:
        raise named(_told_by(target, error), target) from error.__cause__
    except DragomanError as error:
        raise named(error, target) from error.__cause__


def named(error: DragomanError, target: Target, /) -> DragomanError:
    """The same with whose it is, and without the key that a server said back.

    >>> target = Target(provider="x", model="m", wire="ollama", base_url="http://x", api_key="secret-key")
    >>> named(DragomanError("bad key secret-key"), target).message
    'bad key [redacted]'
    """
    error.provider = error.provider or target.provider
    error.model = error.model or target.model
    key = target.api_key or ""
    if len(key) >= MIN_SECRET and key in error.message:
        error.message = error.message.replace(key, "[redacted]")
        error.args = (error.message,)
    if len(key) >= MIN_SECRET and error.code is not None:
        error.code = error.code.replace(key, "[redacted]")
    return error


# The call -------------------------------------------------------------------------------------------------------------


def call(
    request: Request,
    target: Target,
    timeouts: Timeouts,
    deadline: float | None,
    /,
    *,
    restarted: Restarted | None = None,
    album: media.Album | None = None,
    fetch_images: bool = False,
) -> Flow[Answer]:
    """One request to one target. A streamed one emits its events on the way, after `restarted` where that is told.

    `album` keeps the pictures that were fetched and fitted for the next attempt.

    >>> from dragoman.providers import target
    >>> plan = call(Request(), target("ollama/x"), Timeouts(), None)
    >>> next(plan), plan.send(0.0).request.url
    (Now(), 'http://localhost:11434/api/chat')
    """
    http = yield from _prepared(request, target, deadline, album or media.Album(), fetch=fetch_images)
    shaped = shape(request, target)
    began: float = yield Now()
    try:
        if request.stream:
            answer = yield from _Stream(http, shaped, target, timeouts, deadline).run(began, restarted)
        else:
            answer = yield from _send(http, shaped, target, timeouts, deadline, began)
    except DragomanError as error:
        raise named(error, target) from error.__cause__
    response = answer.response
    notices = http.notices + response.notices
    return Answer(msgspec.structs.replace(response, target=target.name, notices=notices), answer.latency, answer.ended)


def _send(
    http: HttpRequest, shaped: Shaped, target: Target, timeouts: Timeouts, deadline: float | None, began: float
) -> Flow[Answer]:
    client = wires.get(target.wire).client
    reply: Reply = yield Send(http, _left(deadline, began), timeouts.connect, MAX_BODY)
    if reply.head.status >= 300:
        raise client.decode_error(reply.head, reply.body)
    if len(reply.body) > MAX_BODY:
        raise TooLarge(f"{target.name}: the answer is larger than {MAX_BODY} bytes")
    response = fold(Restorer(shaped).feed(client.decode_body(reply.body, shaped.request)))
    if is_nothing(response):
        raise _empty(target, response)
    ended: float = yield Now()
    return Answer(response, ended - began, ended)


class _Stream:
    """One streamed answer. Nothing of it is shown until it has content: so long, another target may be tried."""

    def __init__(
        self, http: HttpRequest, shaped: Shaped, target: Target, timeouts: Timeouts, deadline: float | None
    ) -> None:
        self._http = http
        self._request = shaped.request
        self._restorer = Restorer(shaped)
        self._target = target
        self._name = target.name
        self._timeouts = timeouts
        self._deadline = deadline
        self._client = wires.get(target.wire).client
        self._seen: list[Event] = []
        self._is_shown = False
        self._quiet_since = 0.0

    def run(self, began: float, restarted: Restarted | None) -> Flow[Answer]:
        exchange = yield from self._open(began)
        decoder = self._client.stream_decoder(self._request)
        preface: list[StreamEvent] = [restarted] if restarted is not None else []
        heard, latency, now = 0, None, began
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
            if decoder.heard > heard or any(isinstance(event, PartEnded) for event in fresh):
                heard, self._quiet_since = decoder.heard, now
        response = fold(self._seen)
        if not self._is_shown:
            if is_nothing(response):
                raise _empty(self._target, response)
            yield Emit([*preface, *self._seen], self._name, self._http.notices)
        return Answer(response, now - began if latency is None else latency, now)

    @property
    def _is_over(self) -> bool:
        return isinstance(self._seen[-1], Finished) if self._seen else False

    def _open(self, began: float) -> Flow[Exchange]:
        limits, deadline = self._timeouts, self._deadline
        exchange: Exchange = yield Open(
            self._http,
            _left(deadline, began, limits.first_event),
            limits.connect,
            total=_left(deadline, began),
            quiet=limits.longest_silence,
        )
        if exchange.head.status >= 300:
            body = yield from _read_refusal(exchange, deadline)
            raise self._client.decode_error(exchange.head, body)
        return exchange

    def _read(self, exchange: Exchange, decoder: StreamDecoder, now: float) -> Flow[list[Event]]:
        try:
            data: bytes = yield Read(exchange, _left(self._deadline, now, self._patience(now)))
        except DragomanError as error:
            return self._last_words(decoder, error)
        try:
            return decoder.feed(data)
        except DragomanError as error:
            return self._break(error)

    def _patience(self, now: float) -> float | None:
        """Seconds until content must have come."""
        limit = self._timeouts.idle if self._is_shown else self._timeouts.first_event
        if limit is None:
            return None
        left = self._quiet_since + limit - now
        if left <= 0:
            raise TimedOut(f"no content for {limit} s")
        return left

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
        if not any(_says_something(event) for event in fresh):
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
            penalise=error.penalise,
        ) from error


def _says_something(event: Event) -> bool:
    match event:
        case PartDelta(text=text) | PartEnded(part=Text(text=text) | Thinking(text=text)):
            return bool(text.strip())
        case PartEnded():
            return True
        case _:
            return False


def _read_refusal(exchange: Exchange, deadline: float | None) -> Flow[bytes]:
    """The body of an answer that is no, or as much of it as comes: its status is known already."""
    pieces: list[bytes] = []
    size = 0
    now: float = yield Now()
    until = now + ERROR_PATIENCE
    while size < MAX_ERROR_BODY:
        try:
            data: bytes = yield Read(exchange, _left(until if deadline is None else min(until, deadline), now))
        except DragomanError:
            break
        if not data:
            break
        pieces.append(data)
        size += len(data)
        now = yield Now()
    return b"".join(pieces)


def _left(deadline: float | None, now: float, *limits: float | None) -> float | None:
    """The shortest of the time that is left and some limits; TimedOut where none is left."""
    if deadline is not None and deadline <= now:
        raise TimedOut("the deadline of the call has passed")
    left = [limit for limit in limits if limit is not None]
    if deadline is not None:
        left.append(deadline - now)
    return min(left, default=None)


def _empty(target: Target, response: Response) -> EmptyResponse:
    finish = response.finish.raw or response.finish.reason
    return EmptyResponse(f"{target.name}: nothing in the answer (finish: {finish})", usage=response.usage)


def is_nothing(response: Response, /) -> bool:
    """Whether an answer is empty without a reason that it gives itself.

    >>> from dragoman.types import Finish, assistant
    >>> is_nothing(Response(message=assistant(" "), finish=Finish(reason="stop")))
    True
    """
    return response.is_empty and response.finish.reason not in ("blocked", "length")
