"""Record real exchanges to a tape, and answer from the tape later.

A tape holds canonical requests and events, not HTTP: you can replay it to a client that speaks another wire. It holds
no headers, and so no keys.
"""

import asyncio
import difflib
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from dragoman.demo.provider import MemoryHandle
from dragoman.engine.effects import Open, OpenResponse, Send
from dragoman.errors import DragomanError, InvalidRequest, TransportError
from dragoman.events import Event, PartDelta
from dragoman.http import Head, HttpRequest, HttpResponse
from dragoman.io.transport import Handle, Transport, make_transport
from dragoman.testing.redaction import redact_json, redact_text, sent_texts
from dragoman.testing.script import EncodedAnswer, render, render_events, wire_of
from dragoman.types import Request, dump, is_list, is_object
from dragoman.types.checks import is_encodable, naming, wrong_value
from dragoman.types.parameters import named_methods
from dragoman.wires.base import StreamDecoder, Wire
from dragoman.wires.common.classify import classify


class ReplayMiss(AssertionError):
    """The tape has no exchange for a request."""


class RecordedFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error response, or the error of a broken connection."""

    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None


class TimedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and the seconds from the request to it."""

    at: float
    event: Event


class RecordedExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request, and its events or its failure."""

    wire: str
    model: str
    request: Request
    moments: tuple[TimedEvent, ...] = ()
    failure: RecordedFailure | None = None
    duration: float = 0.0


class Tape(msgspec.Struct, kw_only=True):
    """Exchanges in the order of recording."""

    exchanges: list[RecordedExchange] = []
    version: int = 1

    def encode(self) -> bytes:
        """Encode the tape as JSON, one exchange per line."""
        lines = b",\n".join(msgspec.json.encode(exchange, enc_hook=_no_handler) for exchange in self.exchanges)
        return b'{"version":%d,"exchanges":[\n%b\n]}\n' % (self.version, lines)

    @classmethod
    def decode(cls, data: bytes) -> "Tape":
        """Read a tape from JSON."""
        return msgspec.json.decode(data, type=cls)


def _no_handler(_value: object) -> None:
    """Leave out the function of a tool."""


@named_methods("__init__", "save")
class Recorder:
    """A transport that sends requests through another one and records the exchanges; call `save` at the end.

    >>> from dragoman.testing import Scripted
    >>> from dragoman import Registry
    >>> recorder = Recorder(Scripted("Hello!"))
    >>> registry = Registry(env={}, http_client=recorder)
    >>> registry.model("ollama/x").generate("hi").text, len(recorder.tape.exchanges)
    ('Hello!', 1)
    """

    def __init__(self, http_client: object = None) -> None:
        self.tape = Tape()
        self._transport: Transport = make_transport(http_client)

    def save(self, path: str | Path, /) -> None:
        """Write the tape to a file."""
        file = _file(path)
        try:
            file.write_bytes(self.tape.encode())
        except OSError as error:
            raise wrong_value("path", "a file that can be written", str(path), error.strerror or "") from error

    def send(self, effect: Send, /) -> HttpResponse:
        recorder = _ExchangeRecorder(self.tape, effect.request)
        with recorder.failure():
            http_response = self._transport.send(effect)
        recorder.add_response(http_response)
        return http_response

    async def asend(self, effect: Send, /) -> HttpResponse:
        recorder = _ExchangeRecorder(self.tape, effect.request)
        with recorder.failure():
            http_response = await self._transport.asend(effect)
        recorder.add_response(http_response)
        return http_response

    def open(self, effect: Open, /) -> OpenResponse:
        recorder = _ExchangeRecorder(self.tape, effect.request)
        with recorder.failure():
            exchange = self._transport.open(effect)
        return OpenResponse(exchange.head, _RecordingHandle(exchange.handle, recorder, exchange.head))

    async def aopen(self, effect: Open, /) -> OpenResponse:
        recorder = _ExchangeRecorder(self.tape, effect.request)
        with recorder.failure():
            exchange = await self._transport.aopen(effect)
        return OpenResponse(exchange.head, _RecordingHandle(exchange.handle, recorder, exchange.head))

    def close(self) -> None:
        """Close the connections of the other transport."""
        self._transport.close()


class _ExchangeRecorder:
    """Records one exchange."""

    def __init__(self, tape: Tape, http: HttpRequest) -> None:
        self._tape = tape
        self._began = time.monotonic()
        self._wire = wire_of(http)
        self._model, self._request = self._wire.server.decode_request(http) if self._wire else ("", Request())
        self._keys = sent_texts(http)
        self._moments: list[TimedEvent] = []
        self._failure: RecordedFailure | None = None
        self._body: list[bytes] = []
        self._decoder: StreamDecoder | None = None
        self._done = self._wire is None

    def add_response(self, http_response: HttpResponse) -> None:
        if self._wire is not None:
            if http_response.status >= 400:
                self._set_failure(self._wire.client.decode_error(http_response, http_response.body))
            else:
                self._decode(self._wire.client.decode_body, http_response.body)
        self.end()

    def add_chunk(self, head: Head, data: bytes) -> None:
        if self._wire is None or self._done:
            return
        if head.status >= 400:
            self._body.append(data)
            if not data:
                self._set_failure(self._wire.client.decode_error(head, b"".join(self._body)))
        else:
            self._decoder = self._decoder or self._wire.client.stream_decoder(self._request)
            decoder = self._decoder

            def read(data: bytes) -> list[Event]:
                return decoder.feed(data) if data else decoder.end()

            self._decode(read, data)
        if not data:
            self.end()

    @contextmanager
    def failure(self) -> Generator[None]:
        """Record an error that the block raises; it is the end of the exchange."""
        try:
            yield
        except DragomanError as error:
            self._set_failure(error)
            self.end()
            raise

    def end(self) -> None:
        """Add the exchange to the tape, once."""
        if self._done:
            return
        self._done = True
        exchange = RecordedExchange(
            wire=self._wire.name if self._wire else "",
            model=self._model,
            request=self._request,
            moments=_redact_deltas(self._moments, self._keys),
            failure=self._failure,
            duration=round(time.monotonic() - self._began, 6),
        )
        self._tape.exchanges.append(_redact(exchange, self._keys))

    def _decode(self, decode: Any, data: bytes) -> None:
        at = round(time.monotonic() - self._began, 6)
        try:
            self._moments += [TimedEvent(at=at, event=event) for event in decode(data)]
        except DragomanError as error:
            self._set_failure(error)

    def _set_failure(self, error: DragomanError) -> None:
        self._failure = self._failure or RecordedFailure(
            kind=type(error).__name__,
            message=error.message,
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
        )


def _redact(exchange: RecordedExchange, keys: list[str]) -> RecordedExchange:
    """The exchange without the keys that were sent: some providers repeat them in an answer or an error."""
    data = msgspec.json.encode(exchange, enc_hook=_no_handler)
    redacted = redact_json(data, keys)
    if redacted == data:
        return exchange
    # The name of the wire stays: "ollama" is a usual key for a local server.
    return msgspec.structs.replace(msgspec.json.decode(redacted, type=RecordedExchange), wire=exchange.wire)


def _redact_deltas(moments: list[TimedEvent], keys: list[str]) -> tuple[TimedEvent, ...]:
    """The events without keys that are spread over several deltas: the first one gets the whole text."""
    texts: dict[int, str] = {}
    for moment in moments:
        if isinstance(delta := moment.event, PartDelta):
            texts[delta.index] = texts.get(delta.index, "") + delta.text
    secret = {index: text for index, text in texts.items() if any(key in text for key in keys)}
    redacted: list[TimedEvent] = []
    for moment in moments:
        delta = moment.event
        if not isinstance(delta, PartDelta) or delta.index not in secret:
            redacted.append(moment)
            continue
        text, secret[delta.index] = secret[delta.index], ""
        event = msgspec.structs.replace(delta, text=redact_text(text, keys))
        redacted.append(TimedEvent(at=moment.at, event=event))
    return tuple(redacted)


class _RecordingHandle:
    """Reads from another handle, and records the bytes."""

    def __init__(self, handle: Handle, recorder: _ExchangeRecorder, head: Head) -> None:
        self._handle = handle
        self._recorder = recorder
        self._head = head

    def read(self, within: float | None, /) -> bytes:
        with self._recorder.failure():
            data = self._handle.read(within)
        self._recorder.add_chunk(self._head, data)
        return data

    async def aread(self, within: float | None, /) -> bytes:
        with self._recorder.failure():
            data = await self._handle.aread(within)
        self._recorder.add_chunk(self._head, data)
        return data

    def finish(self) -> None:
        self._recorder.end()
        self._handle.finish()

    async def afinish(self) -> None:
        self._recorder.end()
        await self._handle.afinish()

    def close(self) -> None:
        self._recorder.end()
        self._handle.close()

    async def aclose(self) -> None:
        self._recorder.end()
        await self._handle.aclose()


def _check_speed(speed: object) -> None:
    if speed is not None and (isinstance(speed, bool) or not isinstance(speed, int | float) or not speed > 0):
        raise wrong_value("speed", "a number > 0 or None", speed)


def _file(path: object) -> Path:
    if not isinstance(path, str | Path) or not str(path) or not is_encodable(str(path)) or "\0" in str(path):
        raise wrong_value("path", "a str or a Path", path)
    return Path(path)


def _read_tape(tape: object) -> Tape:
    if isinstance(tape, str | Path):
        with naming("tape"):
            file = _file(tape)
        try:
            tape = file.read_bytes()
        except OSError as error:
            raise wrong_value("tape", "a file that can be read", str(tape), error.strerror or "") from error
    if isinstance(tape, bytes):
        try:
            return Tape.decode(tape)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"tape must be the JSON of a Tape, got other bytes; {error}", param="tape") from error
    if not isinstance(tape, Tape):
        raise wrong_value("tape", "a Tape, its bytes or the path of its file", tape)
    return tape


@named_methods("__init__")
class Replayer:
    """A transport that answers from a tape. It plays each exchange once; equal requests in the order of recording.

    `speed=1.0` keeps the recorded timing, 2.0 is twice as fast, None does not wait. A request that is not on the tape
    raises `ReplayMiss` with the difference to the most similar one.

    >>> from dragoman.testing import Scripted
    >>> from dragoman import Registry
    >>> recorder = Recorder(Scripted("Hello!"))
    >>> _ = Registry(env={}, http_client=recorder).model("ollama/x").generate("hi")
    >>> Registry(env={}, http_client=Replayer(recorder.tape)).model("vllm/x").generate("hi").text
    'Hello!'
    """

    def __init__(self, tape: Tape | bytes | str | Path, /, *, speed: float | None = None) -> None:
        _check_speed(speed)
        self._remaining = list(_read_tape(tape).exchanges)
        self._speed = speed

    @property
    def remaining(self) -> list[RecordedExchange]:
        """The exchanges that were not played yet."""
        return list(self._remaining)

    def send(self, effect: Send, /) -> HttpResponse:
        recorded, wire = self._find(effect.request)
        time.sleep(self.wait(recorded.duration))
        return _to_http_response(recorded, wire)

    async def asend(self, effect: Send, /) -> HttpResponse:
        recorded, wire = self._find(effect.request)
        await asyncio.sleep(self.wait(recorded.duration))
        return _to_http_response(recorded, wire)

    def open(self, effect: Open, /) -> OpenResponse:
        recorded, wire = self._find(effect.request)
        answer = _render(recorded, wire, stream=True)
        return OpenResponse(
            Head(status=answer.status or 200, headers=answer.headers), _ReplayHandle(self, recorded, answer)
        )

    async def aopen(self, effect: Open, /) -> OpenResponse:
        return self.open(effect)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def wait(self, seconds: float, /) -> float:
        """Return the seconds to wait for an event that took `seconds` when it was recorded."""
        return 0.0 if self._speed is None else max(0.0, seconds) / self._speed

    def _find(self, http: HttpRequest) -> tuple[RecordedExchange, Wire]:
        wire = wire_of(http)
        if wire is None:
            raise ReplayMiss(f"path must be a path of a wire, got {http.path!r}; a tape holds generation only")
        model, request = wire.server.decode_request(http)
        pairs: list[tuple[str, str]] = []
        for index, recorded in enumerate(self._remaining):
            same = recorded.wire == wire.name
            on_tape = _comparable(recorded.model, recorded.request, same=same)
            requested = _comparable(model, request, same=same)
            if on_tape == requested:
                return self._remaining.pop(index), wire
            pairs.append((on_tape, requested))
        raise ReplayMiss(_difference(pairs) if pairs else f"the tape has no more exchanges, got {model}: {request}")


class _ReplayHandle(MemoryHandle):
    """Reads the chunks of a recorded answer, with the recorded timing."""

    def __init__(self, replayer: Replayer, recorded: RecordedExchange, answer: EncodedAnswer) -> None:
        super().__init__(list(answer.chunks))
        self._replayer = replayer
        self._failure = recorded.failure if recorded.moments or answer.status is None else None
        times = [moment.at for moment in recorded.moments]
        self._times = iter([0.0, *(later - sooner for sooner, later in pairwise(times))])

    def read(self, within: float | None, /) -> bytes:
        time.sleep(self._replayer.wait(next(self._times, 0.0)))
        return self._next(within)

    async def aread(self, within: float | None, /) -> bytes:
        await asyncio.sleep(self._replayer.wait(next(self._times, 0.0)))
        return self._next(within)

    def _next(self, within: float | None) -> bytes:
        data = super().read(within)
        if not data and self._failure is not None:
            _raise_transport(self._failure)
        return data


def _raise_transport(failure: RecordedFailure) -> None:
    kinds = {kind.__name__: kind for kind in TransportError.__subclasses__()}
    if failure.kind in kinds:
        raise kinds[failure.kind](failure.message)


def _render(recorded: RecordedExchange, wire: Wire, *, stream: bool) -> EncodedAnswer:
    request = msgspec.structs.replace(recorded.request, stream=stream)
    failure = recorded.failure
    if failure is not None and not recorded.moments:
        _raise_transport(failure)
        error = classify(failure.message, status=failure.status, codes=(failure.code,), retry_after=failure.retry_after)
        return render(error, wire, request)
    return render_events([moment.event for moment in recorded.moments], wire, request)


def _to_http_response(recorded: RecordedExchange, wire: Wire) -> HttpResponse:
    answer = _render(recorded, wire, stream=False)
    return HttpResponse(status=answer.status or 200, headers=answer.headers, body=b"".join(answer.chunks))


def _comparable(model: str, request: Request, *, same: bool) -> str:
    """Return a request as text, for comparing: without `stream` and without the `extra` of a wire.

    If the wires differ, fields that one wire adds or drops are left out, too.
    """
    plain = msgspec.structs.replace(request, stream=False, extra={})
    if not same:
        plain = msgspec.structs.replace(plain, max_tokens=None, parallel_tool_calls=None, schema_name="response")
    text = msgspec.json.encode(_without_extra(msgspec.json.decode(dump(plain))), order="sorted")
    return f"model: {model}\n" + msgspec.json.format(text, indent=2).decode()


def _without_extra(data: object) -> object:
    if is_list(data):
        return [_without_extra(item) for item in data]
    if is_object(data):
        return {key: _without_extra(value) for key, value in data.items() if key != "extra"}
    return data


def _difference(pairs: list[tuple[str, str]]) -> str:
    on_tape, requested = max(pairs, key=lambda pair: difflib.SequenceMatcher(None, *pair).ratio())
    lines = difflib.unified_diff(on_tape.splitlines(), requested.splitlines(), "on the tape", "requested", lineterm="")
    return "the request is not on the tape; difference to the most similar request:\n" + "\n".join(lines)
