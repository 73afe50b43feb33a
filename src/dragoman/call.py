"""A request and one target in, its response out: encode, send, read, decode. A plan; the driver does the waiting."""

import msgspec

from dragoman import wires
from dragoman.errors import AuthFailed, DragomanError, EmptyResponse, Interrupted, TimedOut, TooLarge, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, fold
from dragoman.flow import Emit, Exchange, Flow, Now, Open, Read, Reply, Send
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.types import Audio, Document, Image, Request, Response

MAX_ERROR_BODY = 1024 * 1024
MAX_BODY = 256 * 1024 * 1024


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take, in seconds: in all, and for each stage.

    >>> Timeouts(total=30).idle is None
    True
    """

    total: float | None = 600.0
    connect: float | None = 10.0
    first_event: float | None = None
    idle: float | None = None
    step: float | None = None
    tool: float | None = None

    @property
    def longest_silence(self) -> float | None:
        """The longer of `first_event` and `idle`; None where one of them is not limited."""
        return None if self.first_event is None or self.idle is None else max(self.first_event, self.idle)


def check(request: Request, target: Target, /) -> None:
    """Refuse what the target cannot do, before anything is sent.

    >>> from dragoman.providers import target
    >>> check(Request(), target("ollama/x"))
    """
    limits = target.limits
    parts = [part for message in request.messages for part in message.parts]
    images = sum(isinstance(part, Image) for part in parts)
    refusals = (
        (request.tools and not limits.tools, "tools"),
        (request.schema is not None and not limits.structured, "structured output"),
        (request.stream and not limits.streaming, "streams"),
        (limits.max_images == 0 and images, "images"),
        (limits.max_images is not None and images > limits.max_images, f"more than {limits.max_images} images"),
        (not limits.documents and any(isinstance(part, Document) for part in parts), "documents"),
        (not limits.audio and any(isinstance(part, Audio) for part in parts), "audio"),
    )
    for refused, what in refusals:
        if refused:
            raise Unsupported(f"{target.name}: cannot take {what}", provider=target.provider, model=target.model)
    for part in parts:
        if isinstance(part, Image):
            _check_image(part, target)


def _check_image(image: Image, target: Target) -> None:
    limits = target.limits
    if image.data is not None and limits.max_image_bytes is not None and len(image.data) > limits.max_image_bytes:
        raise Unsupported(f"{target.name}: an image is larger than {limits.max_image_bytes} bytes")
    if image.mime and limits.allowed_image_types and image.mime not in limits.allowed_image_types:
        raise Unsupported(f"{target.name}: takes no {image.mime}")


def prepare(request: Request, target: Target, /) -> HttpRequest:
    """The exact HTTP request for a target; refused where it cannot be made or the key is not there.

    >>> from dragoman.providers import target
    >>> prepare(Request(), target("ollama/x")).path
    '/api/chat'
    """
    check(request, target)
    if target.needs_key and target.api_key is None:
        raise AuthFailed(
            f"{target.provider}: no key; set {' or '.join(target.key_names)} or pass api_key=",
            provider=target.provider,
            model=target.model,
            advance=True,
        )
    return wires.get(target.wire).client.encode_request(request, target)


def call(request: Request, target: Target, timeouts: Timeouts, deadline: float | None, /) -> Flow[Response]:
    """One request to one target. A streamed one emits its events on the way."""
    http = prepare(request, target)
    try:
        response = yield from (_stream if request.stream else _send)(http, request, target, timeouts, deadline)
    except DragomanError as error:
        raise _named(error, target) from error.__cause__
    if is_nothing(response):
        raise EmptyResponse(
            f"{target.name}: nothing in the answer",
            provider=target.provider,
            model=target.model,
            usage=response.usage,
        )
    return msgspec.structs.replace(response, target=target.name, notices=http.notices + response.notices)


def _named(error: DragomanError, target: Target) -> DragomanError:
    error.provider = error.provider or target.provider
    error.model = error.model or target.model
    if target.api_key and target.api_key in error.message:
        error.message = error.message.replace(target.api_key, "[redacted]")
        error.args = (error.message,)
    return error


def _left(deadline: float | None, now: float, *limits: float | None) -> float | None:
    """The shortest of the time that is left and some limits; TimedOut where none is left."""
    if deadline is not None and deadline <= now:
        raise TimedOut("the deadline of the call has passed")
    left = [limit for limit in limits if limit is not None]
    if deadline is not None:
        left.append(deadline - now)
    return min(left, default=None)


def _send(
    http: HttpRequest, request: Request, target: Target, timeouts: Timeouts, deadline: float | None
) -> Flow[Response]:
    client = wires.get(target.wire).client
    now: float = yield Now()
    reply: Reply = yield Send(http, _left(deadline, now), timeouts.connect)
    if reply.head.status >= 400:
        raise client.decode_error(reply.head, reply.body)
    if len(reply.body) > MAX_BODY:
        raise TooLarge(f"{target.name}: the body is larger than {MAX_BODY} bytes")
    return fold(client.decode_body(reply.body, request))


def _stream(
    http: HttpRequest, request: Request, target: Target, timeouts: Timeouts, deadline: float | None
) -> Flow[Response]:
    client = wires.get(target.wire).client
    began: float = yield Now()
    exchange: Exchange = yield Open(
        http,
        _left(deadline, began, timeouts.first_event),
        timeouts.connect,
        total=_left(deadline, began),
        quiet=timeouts.longest_silence,
    )
    if exchange.head.status >= 400:
        body = yield from _read_error(exchange, deadline)
        raise client.decode_error(exchange.head, body)
    show = _Show(began, timeouts)
    decoder = client.stream_decoder(request)
    ended = False
    while not ended:
        now: float = yield Now()
        try:
            data: bytes = yield Read(exchange, _left(deadline, now, show.patience(now)))
            fresh = decoder.feed(data)
        except DragomanError as error:
            raise show.broken(error) from error
        if events := show.take(fresh, now):
            yield Emit(events)
        if decoder.error is not None:
            raise show.broken(decoder.error) from decoder.error
        ended = not data or any(isinstance(event, Finished) for event in fresh)
    response = fold(show.seen)
    if not show.shown and not is_nothing(response):
        yield Emit(show.seen)
    return response


def _read_error(exchange: Exchange, deadline: float | None) -> Flow[bytes]:
    pieces: list[bytes] = []
    size = 0
    while size < MAX_ERROR_BODY:
        now: float = yield Now()
        data: bytes = yield Read(exchange, _left(deadline, now))
        if not data:
            break
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


class _Show:
    """What of a stream has been shown. Nothing is, until there is content: so long, another target may be tried."""

    def __init__(self, began: float, timeouts: Timeouts) -> None:
        self.seen: list[Event] = []
        self.shown = False
        self._timeouts = timeouts
        self._quiet_since = began

    def patience(self, now: float) -> float | None:
        """Seconds until content must have come; pings are none."""
        limit = self._timeouts.idle if self.shown else self._timeouts.first_event
        if limit is None:
            return None
        left = self._quiet_since + limit - now
        if left <= 0:
            raise TimedOut(f"no content for {limit} s")
        return left

    def take(self, fresh: list[Event], now: float) -> list[Event]:
        """The events that may be shown now."""
        self.seen += fresh
        if any(isinstance(event, PartStarted | PartDelta | PartEnded) for event in fresh):
            self._quiet_since = now
            if not self.shown:
                self.shown = True
                return list(self.seen)
        return fresh if self.shown else []

    def broken(self, error: DragomanError) -> DragomanError:
        """The error itself while nothing was shown; afterwards the interruption, with what there was."""
        if not self.shown:
            return error
        partial = fold(self.seen)
        if error.usage is not None:
            partial = msgspec.structs.replace(partial, usage=error.usage)
        return Interrupted(f"the stream broke: {error.message}", partial=partial, usage=error.usage, code=error.code)


def is_nothing(response: Response, /) -> bool:
    """Whether an answer is empty without a reason that it gives itself."""
    return response.is_empty and response.finish.reason not in ("blocked", "length")
