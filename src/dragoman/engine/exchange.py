"""Sends one HTTP request and reads its answer, whole or streamed.

A streamed answer is held back until it has content: up to then the attempt can fail like any other and another
target can be tried. After the first emitted event a failure is an `Interrupted` that has the response so far.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple, NoReturn, cast

import msgspec

from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Compute, Emit, Now, Open, OpenResponse, Plan, Read, Send
from dragoman.engine.structured_output import OutputForm, ToolOutputDecoder
from dragoman.errors import (
    Blocked,
    ConnectTimeout,
    DragomanError,
    EmptyResponse,
    Interrupted,
    Malformed,
    MalformedToolCall,
    ReadTimeout,
    TimedOut,
    TooLarge,
)
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, Ping, StreamEvent, fold
from dragoman.http import Head, HttpRequest, HttpResponse, provider_headers
from dragoman.targets.prices import target_cost
from dragoman.targets.target import Target
from dragoman.types import Attempt, Finish, Request, Response, Text, Thinking, Usage
from dragoman.types.base import unchecked
from dragoman.types.fast_constructors import complete_response
from dragoman.wires.base import ClientHalf, StreamDecoder
from dragoman.wires.common.classify import MALFORMED_CALLS, is_stop_sequence, model_mistake
from dragoman.wires.common.header_counts import counts_in_headers

MAX_BODY = 256 * 1024 * 1024
HEAVY_BODY = 1024 * 1024
"""Bytes. Longer bodies are decoded outside the event loop."""
MAX_EVENTS = 512
"""Events that a stream keeps one by one."""
MAX_ERROR_BODY = 1024 * 1024
ERROR_BODY_TIMEOUT = 5.0
"""Seconds to wait for the body of an error; its status is known already."""
CLOCK_TOLERANCE = 0.05
"""Seconds by which a timer may fire early."""


class Completed(msgspec.Struct, frozen=True):
    """A response and its timing."""

    response: Response
    latency: float
    """Seconds until the response was complete or, if streamed, until its first event."""
    ended_at: float
    """The moment at which it was complete."""
    head: Head | None = None


def exchange(
    http: HttpRequest, output: OutputForm, target: Target, client: ClientHalf, call: CallContext, /
) -> Plan[Completed]:
    """Send a request and read its answer. A streamed answer emits its events on the way."""
    began: float = yield Now()
    if output.request.stream:
        return (yield from _StreamedExchange(http, output, target, client, call).run(began))
    timeouts = call.timeouts
    try:
        http_response: HttpResponse = yield Send(
            http,
            time_left(call.deadline, began),
            timeouts.connect,
            limit=MAX_BODY,
            head_timeout=timeouts.first_event,
            transport=target.http_client,
        )
    except TimedOut as error:
        yield from name_limit(error, call, began)
        raise
    request, decoder = output.request, None if output.tool is None else ToolOutputDecoder(output)
    try:
        response = (
            decode_answer(http_response, request, target, client, decoder)
            if len(http_response.body) <= HEAVY_BODY
            else (yield Compute(lambda _: decode_answer(http_response, request, target, client, decoder)))
        )
        if call.blocked_is_error:
            check_blocked(response)
    except DragomanError as error:
        add_provider_headers(error, http_response)
        raise
    ended_at: float = yield Now()
    response = add_call_details(response, http, target, http_response)
    return Completed(response, ended_at - began, ended_at, http_response)


def join_deltas(events: list[Event]) -> list[Event]:
    """Events that fold to the same response, with one delta for many: a long answer has a thousand times more."""
    joined: list[Event] = []
    for is_delta, group in groupby(events, lambda event: type(event) is PartDelta):
        if is_delta:
            texts: dict[int, list[str]] = {}
            for event in cast("Iterator[PartDelta]", group):
                texts.setdefault(event.index, []).append(event.text)
            joined += [PartDelta(index=index, text="".join(pieces)) for index, pieces in texts.items()]
        else:
            joined += [event for event in group if type(event) not in (CallDelta, Ping)]
    return joined


def add_call_details(
    response: Response, http: HttpRequest, target: Target, head: Head, attempts: tuple[Attempt, ...] = (), /
) -> Response:
    """The response with its target, the notices of the request, its cost, and what the provider said in its headers."""
    request_id, rate_limits = provider_headers(head)
    notices = http.notices + response.notices
    cost = target_cost(target, response.usage, response.service_tier)
    if notices:
        notices = tuple(dict.fromkeys(notices))
    return complete_response(response, target.name, notices, request_id, rate_limits, cost, attempts)


def time_left(
    deadline: float | None, now: float, /, *limits: float | None, count_failure: bool = False
) -> float | None:
    """The shortest of the time until the deadline and some limits; raises TimedOut if the deadline has passed.

    >>> time_left(10.0, 7.0, 5.0, None)
    3.0
    """
    if deadline is not None and deadline <= now:
        raise TimedOut("the deadline of the call has passed", count_failure=count_failure)
    shortest = None if deadline is None else deadline - now
    for limit in limits:
        if limit is not None and (shortest is None or limit < shortest):
            shortest = limit
    return shortest


# Whole answers --------------------------------------------------------------------------------------------------------


def decode_answer(
    http_response: HttpResponse,
    request: Request,
    target: Target,
    client: ClientHalf,
    output: ToolOutputDecoder | None = None,
    /,
) -> Response:
    """The response of a whole answer. `output` turns the call of a tool into the answer that it stands for."""
    if http_response.status >= 300:
        raise client.decode_error(http_response, http_response.body)
    if len(http_response.body) > MAX_BODY:
        raise TooLarge(f"the answer is larger than {MAX_BODY} bytes")
    if output is None:
        response = client.decode_response(http_response.body, request, target)
    else:
        response = fold(output.feed(client.decode_body(http_response.body, request, target)))
    if response.usage.source == "unknown":
        response = unchecked(response, usage=counts_in_headers(http_response))
    if response.is_empty and is_empty_response(response, request):
        raise _empty(response)
    if response.finish.reason == "other" and (mistake := mistake_in(response.finish, response.usage)) is not None:
        raise mistake
    return response


def mistake_in(finish: Finish, usage: Usage, /) -> DragomanError | None:
    """The error for an answer that the provider ends because of a mistake of the model; None for other answers.

    Its text may be the rest of a broken tool call, so it does not count as an answer, unless it has a complete call.

    >>> mistake_in(Finish(reason="other", raw="MALFORMED_FUNCTION_CALL"), Usage())
    MalformedToolCall('the model made a mistake (finish: MALFORMED_FUNCTION_CALL)')
    >>> mistake_in(Finish(reason="tool_calls", raw="MALFORMED_FUNCTION_CALL"), Usage())
    """
    mistake = model_mistake(finish.raw) if finish.reason == "other" else None
    if mistake is None:
        return None
    message = f"the model made a mistake (finish: {finish.raw})"
    if mistake in MALFORMED_CALLS:
        return MalformedToolCall(message, usage=usage)
    return Malformed(message, usage=usage, count_failure=False)


def _with_provider_headers(response: Response, head: Head) -> Response:
    request_id, rate_limits = provider_headers(head)
    if request_id is None and not rate_limits:
        return response
    return msgspec.structs.replace(response, request_id=request_id, rate_limits=rate_limits)


def add_provider_headers(error: DragomanError, head: Head, /) -> None:
    """Set the provider's request id and rate limits on an error."""
    request_id, rate_limits = provider_headers(head)
    error.annotate(request_id=request_id)
    if rate_limits:
        error.annotate(rate_limits=rate_limits)


def check_blocked(response: Response, /) -> None:
    """Raise Blocked if a content filter ended an answer, so that another target can be tried."""
    if response.finish.reason == "blocked":
        raw = response.finish.raw or response.finish.reason
        raise Blocked(f"a content filter ended the answer (finish: {raw})", usage=response.usage)


def _empty(response: Response) -> EmptyResponse:
    """An empty answer. If the model made a mistake, as with Gemini's MALFORMED_FUNCTION_CALL, a retry may help."""
    finish = response.finish
    message = f"the answer is empty (finish: {finish.raw or finish.reason})"
    return EmptyResponse(message, usage=response.usage, retry=finish.reason in ("other", "pause"))


def is_empty_response(response: Response, request: Request, /) -> bool:
    """Whether an answer is empty although it was neither blocked nor cut off, and no stop sequence ended it.

    >>> from dragoman.types import Finish, assistant
    >>> is_empty_response(Response(message=assistant(" "), finish=Finish(reason="stop")), Request())
    True
    """
    if not response.is_empty or response.finish.reason in ("blocked", "length"):
        return False
    # Most providers report the same finish for a stop sequence and for the natural end.
    return not (response.finish.reason == "stop" and (request.stop or is_stop_sequence(response.finish.raw)))


# Streamed answers -----------------------------------------------------------------------------------------------------


class _StreamedExchange:
    """One streamed request: opens the response, decodes its bytes and emits the events, from the first with content."""

    def __init__(
        self, http: HttpRequest, output: OutputForm, target: Target, client: ClientHalf, call: CallContext
    ) -> None:
        self._http = http
        self._request = output.request
        self._output_decoder = None if output.tool is None else ToolOutputDecoder(output)
        self._answer_tool = None if output.is_wrapped else output.tool
        self._target = target
        self._name = target.name
        self._client = client
        self._call = call
        self._timeouts = call.timeouts
        self._events: list[Event] = []
        self._joined = 0
        """How many of them cannot be joined further."""
        self._has_emitted = False
        self._head = Head(status=0)
        self._last_content = 0.0
        """The moment of the last content, or of the start."""

    def run(self, began: float) -> Plan[Completed]:
        opened = yield from self._open(began)
        self._head = opened.head
        try:
            if opened.head.status >= 300:
                body = yield from _read_error_body(opened, self._call.deadline)
                raise self._client.decode_error(opened.head, body)
            return (yield from self._read_answer(opened, began))
        except DragomanError as error:
            add_provider_headers(error, opened.head)
            raise

    def _new_decoder(self) -> StreamDecoder:
        decoder = self._client.stream_decoder(self._request, self._target)
        if self._answer_tool is not None:
            decoder.emit_call_as_text(self._answer_tool)
        # A tool whose call is the answer has no fragments: the answer is text.
        decoder.call_deltas = self._call.call_deltas and self._output_decoder is None
        return decoder

    def _read_answer(self, opened: OpenResponse, began: float) -> Plan[Completed]:
        decoder = self._new_decoder()
        restarted = self._call.restarted
        preface: list[StreamEvent] = [] if restarted is None else [restarted]
        content_length, latency, now = 0, None, began
        self._last_content = began
        while not self._is_finished:
            try:
                timeout = time_left(self._call.deadline, now, self._time_for_content(now), count_failure=True)
                data: bytes = yield Read(opened, timeout)
            except TimedOut as error:
                yield from name_limit(error, self._call, self._last_content, self._content_limit[0])
                new = self._end_early(decoder, error)
            except DragomanError as error:
                new = self._end_early(decoder, error)
            else:
                new = self._decode(data, decoder)
            if self._output_decoder is not None:
                new = self._output_decoder.feed(new)
            last = new[-1] if new else None
            mistake = mistake_in(last.finish, last.usage) if isinstance(last, Finished) else None
            if mistake is not None:
                if not self._has_emitted:
                    response = fold([*self._events, *new])
                    raise _empty(response) if is_empty_response(response, self._request) else mistake
                new = new[:-1]  # the stream breaks instead of ending
            ready = self._take(new, preface)
            if latency is None and ready:
                moment: float = yield Now()
                latency = moment - began
            if ready:
                yield Emit(ready, self._name, self._http.notices)
            if decoder.error is not None:
                self._fail(decoder.error)
            if mistake is not None:
                self._fail(mistake)
            now = yield Now()
            if decoder.content_length > content_length or any(isinstance(event, PartEnded) for event in new):
                content_length, self._last_content = decoder.content_length, now
        response = add_call_details(fold(self._events), self._http, self._target, opened.head)
        if not self._has_emitted:
            if is_empty_response(response, self._request):
                raise _empty(response)
            if self._call.blocked_is_error:
                check_blocked(response)
            yield Emit([*preface, *self._events], self._name, self._http.notices)
        return Completed(response, now - began if latency is None else latency, now, opened.head)

    @property
    def _is_finished(self) -> bool:
        return type(self._events[-1]) is Finished if self._events else False

    def _open(self, began: float) -> Plan[OpenResponse]:
        timeouts, deadline = self._timeouts, self._call.deadline
        try:
            opened: OpenResponse = yield Open(
                self._http,
                time_left(deadline, began, timeouts.first_event),
                timeouts.connect,
                total_timeout=time_left(deadline, began),
                read_timeout=timeouts.max_read_timeout,
                transport=self._target.http_client,
            )
        except TimedOut as error:
            yield from name_limit(error, self._call, began)
            raise
        return opened

    def _decode(self, data: bytes, decoder: StreamDecoder) -> list[Event]:
        try:
            return decoder.feed(data) if data else decoder.end()
        except DragomanError as error:
            return self._fail(error)

    def _time_for_content(self, now: float) -> float | None:
        """Seconds until content must have come."""
        timeouts = self._timeouts
        if timeouts.idle is None and timeouts.first_event is None:
            return None
        name, limit = self._content_limit
        if limit is None:
            return None
        remaining = self._last_content + limit - now
        if remaining <= 0:
            raise ReadTimeout(f"no content within `{name}` ({limit:g} s)", limit_name=name)
        return remaining

    @property
    def _content_limit(self) -> tuple[str, float | None]:
        """The limit that applies to the next piece of content."""
        timeouts = self._timeouts
        return ("idle", timeouts.idle) if self._has_emitted else ("first_event", timeouts.first_event)

    def _end_early(self, decoder: StreamDecoder, error: DragomanError) -> list[Event]:
        """The last events, if only the end of the stream was missing; otherwise raises the error, with the usage."""
        try:
            return decoder.end(is_complete=False)
        except DragomanError as end:
            return self._fail(error, end.usage)

    def _take(self, new: list[Event], preface: list[StreamEvent]) -> list[StreamEvent]:
        """Keep the new events; return those to emit now: none before the first that has content, then all."""
        self._events += new
        if self._has_emitted:
            if len(self._events) - self._joined > MAX_EVENTS:
                self._events[self._joined :] = join_deltas(self._events[self._joined :])
                self._joined = len(self._events)
            return [*new]
        if not any(has_content(event) for event in new):
            return []
        self._has_emitted = True
        return [*preface, *self._events]

    def _fail(self, error: DragomanError, usage: Usage | None = None) -> NoReturn:
        """Raise the error itself if nothing was emitted yet, otherwise an `Interrupted` with the response so far."""
        error.annotate(usage=error.usage or usage)
        if not self._has_emitted:
            raise error
        partial = _with_provider_headers(fold(self._events), self._head)
        usage = error.usage or partial.usage
        notices = self._http.notices + partial.notices
        raise Interrupted(
            f"the stream broke: {error.message.removeprefix(f'{self._target.wire}: ')}",
            partial=msgspec.structs.replace(partial, target=self._name, usage=usage, notices=notices),
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
            usage=usage,
            count_failure=error.count_failure,
        ) from error


def has_content(event: Event, /) -> bool:
    """Whether an event has text, thinking, a fragment of a call or any other part.

    >>> has_content(PartDelta(index=0, text=" "))
    False
    """
    match event:
        case PartDelta(text=text) | PartEnded(part=Text(text=text) | Thinking(text=text)):
            return bool(text.strip())
        case PartEnded() | CallDelta():
            return True
        case _:
            return False


def name_limit(error: TimedOut, call: CallContext, since: float, content: str | None = None, /) -> Plan[None]:
    """Add the name of the time limit to an error: of the limits that have passed, the one that ended first.

    `content` names the limit that began at `since`. Without it, that is `first_event` until the head has come.
    """
    now: float = yield Now()
    timeouts = call.timeouts
    names: list[str] = []
    if isinstance(error, ConnectTimeout):
        names.append("connect")
    if content is not None:
        names.append(content)
    elif not (isinstance(error, ReadTimeout) and error.has_head):
        names.append("first_event")
    limits = [
        _TimeLimit(name, seconds, since + seconds)
        for name in names
        if (seconds := cast("float | None", getattr(timeouts, name))) is not None
    ]
    if timeouts.total is not None and call.deadline is not None:
        limits.append(_TimeLimit("total", timeouts.total, call.deadline))
    passed = [limit for limit in limits if now >= limit.ends_at - CLOCK_TOLERANCE]
    if passed and error.limit_name is None:
        first = min(passed, key=lambda limit: limit.ends_at)
        what = error.message.removesuffix(" in time")
        limit = f"`{first.name}` ({first.seconds:g} s)"
        message = f"{what}: the limit is {limit}" if what == error.message else f"{what} within {limit}"
        error.annotate(message=message, limit_name=first.name)


class _TimeLimit(NamedTuple):
    """One of the `timeouts` of a call."""

    name: str
    seconds: float
    ends_at: float


def _read_error_body(opened: OpenResponse, deadline: float | None) -> Plan[bytes]:
    """The body of an error, or as much of it as comes in time."""
    pieces: list[bytes] = []
    size = 0
    now: float = yield Now()
    until = now + ERROR_BODY_TIMEOUT
    while size < MAX_ERROR_BODY:
        try:
            data: bytes = yield Read(opened, time_left(until if deadline is None else min(until, deadline), now))
        except DragomanError:
            break
        if not data:
            break
        pieces.append(data)
        size += len(data)
        now = yield Now()
    return b"".join(pieces)
