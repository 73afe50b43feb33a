"""Exchanges in, a file out; the file in, the same exchanges out: what was asked and answered, in the canonical words.

A recording knows no wire: what one provider said can be replayed to a client of another. It holds no headers, and so
no keys.
"""

import asyncio
import difflib
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from dragoman.engine.effects import Exchange, HttpResponse, Open, Send
from dragoman.errors import DragomanError, TransportError, classify
from dragoman.events import Event
from dragoman.http import Head, HttpRequest
from dragoman.io.pyreqwest import transport_of
from dragoman.io.transport import Handle, Transport
from dragoman.testing.script import Rendered, render, render_events, wire_of
from dragoman.types import Request, dump, is_list, is_object
from dragoman.wires.base import StreamDecoder, Wire


class ReplayMiss(AssertionError):
    """Something was asked that the tape does not have.

    >>> str(ReplayMiss("not on the tape"))
    'not on the tape'
    """


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that was no, or none at all.

    >>> Failure(kind="Reset", message="by peer").status is None
    True
    """

    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and how many seconds after the request it came."""

    at: float
    event: Event


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange: the model and the request, and what came."""

    wire: str
    model: str
    request: Request
    moments: tuple[Moment, ...] = ()
    failure: Failure | None = None
    duration: float = 0.0


class Tape(msgspec.Struct, kw_only=True):
    """Exchanges in their order.

    >>> Tape.decode(Tape().encode()).exchanges
    []
    """

    exchanges: list[Recorded] = []
    version: int = 1

    def encode(self) -> bytes:
        """JSON, one exchange a line."""
        lines = b",\n".join(msgspec.json.encode(exchange, enc_hook=_no_handler) for exchange in self.exchanges)
        return b'{"version":%d,"exchanges":[\n%b\n]}\n' % (self.version, lines)

    @classmethod
    def decode(cls, data: bytes) -> "Tape":
        """The tape of some JSON."""
        return msgspec.json.decode(data, type=cls)


def _no_handler(_value: object) -> None:
    """A tool's function is not recorded."""


class Recorder:
    """A transport that passes everything on and writes down what it sees; `save` it when all is done.

    >>> from dragoman.testing import Scripted
    >>> from dragoman import Registry
    >>> recorder = Recorder(Scripted("Hello!"))
    >>> registry = Registry(env={}, http_client=recorder)
    >>> registry.model("ollama/x").generate("hi").text, len(recorder.tape.exchanges)
    ('Hello!', 1)
    """

    def __init__(self, http_client: object = None) -> None:
        self.tape = Tape()
        self._transport: Transport = transport_of(http_client)

    def save(self, path: str | Path, /) -> None:
        """Write the tape."""
        Path(path).write_bytes(self.tape.encode())

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        note = _Note(self.tape, effect.request)
        try:
            reply = self._transport.send(effect)
        except DragomanError as error:
            note.broke(error)
            raise
        note.replied(reply)
        return reply

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        note = _Note(self.tape, effect.request)
        try:
            reply = await self._transport.asend(effect)
        except DragomanError as error:
            note.broke(error)
            raise
        note.replied(reply)
        return reply

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        note = _Note(self.tape, effect.request)
        try:
            exchange = self._transport.open(effect)
        except DragomanError as error:
            note.broke(error)
            raise
        return Exchange(exchange.head, _Listening(exchange.handle, note, exchange.head))

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        note = _Note(self.tape, effect.request)
        try:
            exchange = await self._transport.aopen(effect)
        except DragomanError as error:
            note.broke(error)
            raise
        return Exchange(exchange.head, _Listening(exchange.handle, note, exchange.head))

    def close(self) -> None:
        """Let go of what is pooled."""
        self._transport.close()


class _Note:
    """One exchange while it is being written down."""

    def __init__(self, tape: Tape, http: HttpRequest) -> None:
        self._tape = tape
        self._began = time.monotonic()
        self._wire = wire_of(http)
        self._model, self._request = self._wire.server.decode_request(http) if self._wire else ("", Request())
        self._moments: list[Moment] = []
        self._failure: Failure | None = None
        self._body: list[bytes] = []
        self._decoder: StreamDecoder | None = None
        self._done = self._wire is None

    def replied(self, reply: HttpResponse) -> None:
        if self._wire is not None:
            if reply.head.status >= 400:
                self._failed(self._wire.client.decode_error(reply.head, reply.body))
            else:
                self._take(self._wire.client.decode_body, reply.body)
        self.end()

    def heard(self, head: Head, data: bytes) -> None:
        if self._wire is None or self._done:
            return
        if head.status >= 400:
            self._body.append(data)
            if not data:
                self._failed(self._wire.client.decode_error(head, b"".join(self._body)))
        else:
            self._decoder = self._decoder or self._wire.client.stream_decoder(self._request)
            self._take(self._decoder.feed, data)
        if not data:
            self.end()

    def broke(self, error: DragomanError) -> None:
        self._failed(error)
        self.end()

    def end(self) -> None:
        """Write it down, once."""
        if self._done:
            return
        self._done = True
        self._tape.exchanges.append(
            Recorded(
                wire=self._wire.name if self._wire else "",
                model=self._model,
                request=self._request,
                moments=tuple(self._moments),
                failure=self._failure,
                duration=round(time.monotonic() - self._began, 6),
            )
        )

    def _take(self, decode: Any, data: bytes) -> None:
        at = round(time.monotonic() - self._began, 6)
        try:
            self._moments += [Moment(at=at, event=event) for event in decode(data)]
        except DragomanError as error:
            self._failed(error)

    def _failed(self, error: DragomanError) -> None:
        self._failure = self._failure or Failure(
            kind=type(error).__name__,
            message=error.message,
            status=error.status,
            code=error.code,
            retry_after=error.retry_after,
        )


class _Listening:
    """A handle that tells what it reads."""

    def __init__(self, handle: Handle, note: _Note, head: Head) -> None:
        self._handle = handle
        self._note = note
        self._head = head

    def read(self, within: float | None, /) -> bytes:
        try:
            data = self._handle.read(within)
        except DragomanError as error:
            self._note.broke(error)
            raise
        self._note.heard(self._head, data)
        return data

    async def aread(self, within: float | None, /) -> bytes:
        try:
            data = await self._handle.aread(within)
        except DragomanError as error:
            self._note.broke(error)
            raise
        self._note.heard(self._head, data)
        return data

    def finish(self) -> None:
        self._note.end()
        self._handle.finish()

    async def afinish(self) -> None:
        self._note.end()
        await self._handle.afinish()

    def close(self) -> None:
        self._note.end()
        self._handle.close()

    async def aclose(self) -> None:
        self._note.end()
        await self._handle.aclose()


class Replayer:
    """A transport that answers from a tape: each exchange once, in the order in which it was recorded.

    `speed` 1.0 keeps the timing, 2.0 is twice as fast, None does not wait. A miss raises `ReplayMiss` with the
    difference to the nearest request that is left.

    >>> from dragoman.testing import Scripted
    >>> from dragoman import Registry
    >>> recorder = Recorder(Scripted("Hello!"))
    >>> _ = Registry(env={}, http_client=recorder).model("ollama/x").generate("hi")
    >>> Registry(env={}, http_client=Replayer(recorder.tape)).model("vllm/x").generate("hi").text
    'Hello!'
    """

    def __init__(self, tape: Tape | bytes | str | Path, /, *, speed: float | None = None) -> None:
        if isinstance(tape, str | Path):
            tape = Path(tape).read_bytes()
        self._left = list((Tape.decode(tape) if isinstance(tape, bytes) else tape).exchanges)
        self._speed = speed

    @property
    def left(self) -> list[Recorded]:
        """What has not been asked for."""
        return list(self._left)

    def send(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        recorded, wire = self._find(effect.request)
        time.sleep(self._seconds(recorded.duration))
        return _reply(recorded, wire, effect)

    async def asend(self, effect: Send, /) -> HttpResponse:
        """The whole answer."""
        recorded, wire = self._find(effect.request)
        await asyncio.sleep(self._seconds(recorded.duration))
        return _reply(recorded, wire, effect)

    def open(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        recorded, wire = self._find(effect.request)
        rendered = _render(recorded, wire, stream=True)
        return Exchange(
            Head(status=rendered.status or 200, headers=rendered.headers), _Playing(self, recorded, rendered)
        )

    async def aopen(self, effect: Open, /) -> Exchange:
        """The head of an answer, and a handle to read on."""
        return self.open(effect)

    def close(self) -> None:
        """Nothing is held."""

    def wait(self, seconds: float, /) -> float:
        """How long to wait for what came after so many seconds."""
        return self._seconds(seconds)

    def _seconds(self, recorded: float) -> float:
        return 0.0 if self._speed is None else max(0.0, recorded) / self._speed

    def _find(self, http: HttpRequest) -> tuple[Recorded, Wire]:
        wire = wire_of(http)
        if wire is None:
            raise ReplayMiss(f"no wire has the path {http.path}, and a tape holds exchanges of wires only")
        model, request = wire.server.decode_request(http)
        pairs: list[tuple[str, str]] = []
        for index, recorded in enumerate(self._left):
            same = recorded.wire == wire.name
            there = _pretty(recorded.model, recorded.request, same=same)
            wanted = _pretty(model, request, same=same)
            if there == wanted:
                return self._left.pop(index), wire
            pairs.append((there, wanted))
        raise ReplayMiss(_difference(pairs) if pairs else f"nothing is left on the tape; asked was {model}: {request}")


class _Playing:
    """A handle that gives what was recorded, when it came."""

    def __init__(self, replayer: Replayer, recorded: Recorded, rendered: Rendered) -> None:
        self._replayer = replayer
        self._failure = recorded.failure if recorded.moments or rendered.status is None else None
        times = [moment.at for moment in recorded.moments]
        self._times = iter([0.0, *(later - sooner for sooner, later in pairwise(times))])
        self._pieces: Iterator[bytes] = iter(rendered.pieces)

    def read(self, _within: float | None, /) -> bytes:
        time.sleep(self._replayer.wait(next(self._times, 0.0)))
        return self._next()

    async def aread(self, _within: float | None, /) -> bytes:
        await asyncio.sleep(self._replayer.wait(next(self._times, 0.0)))
        return self._next()

    def _next(self) -> bytes:
        data = next(self._pieces, b"")
        if not data and self._failure is not None:
            _raise_transport(self._failure)
        return data

    def finish(self) -> None:
        self._pieces = iter(())

    async def afinish(self) -> None:
        self.finish()

    def close(self) -> None:
        self.finish()

    async def aclose(self) -> None:
        self.finish()


def _raise_transport(failure: Failure) -> None:
    kinds = {kind.__name__: kind for kind in TransportError.__subclasses__()}
    if failure.kind in kinds:
        raise kinds[failure.kind](failure.message)


def _render(recorded: Recorded, wire: Wire, *, stream: bool) -> Rendered:
    request = msgspec.structs.replace(recorded.request, stream=stream)
    failure = recorded.failure
    if failure is not None and not recorded.moments:
        _raise_transport(failure)
        error = classify(failure.message, status=failure.status, codes=(failure.code,), retry_after=failure.retry_after)
        return render(error, wire, request)
    return render_events([moment.event for moment in recorded.moments], wire, request)


def _reply(recorded: Recorded, wire: Wire, _effect: Send) -> HttpResponse:
    rendered = _render(recorded, wire, stream=False)
    return HttpResponse(Head(status=rendered.status or 200, headers=rendered.headers), b"".join(rendered.pieces))


def _pretty(model: str, request: Request, *, same: bool) -> str:
    """What makes two requests the same, as text: not whether it is streamed, nor what only one wire understands.

    Of requests to two wires it is not told either what one of them has to add or leave out.
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
    there, wanted = max(pairs, key=lambda pair: difflib.SequenceMatcher(None, *pair).ratio())
    lines = difflib.unified_diff(there.splitlines(), wanted.splitlines(), "on the tape", "asked", lineterm="")
    return "not on the tape; the difference to the nearest request is\n" + "\n".join(lines)
