"""The events of a streamed answer, `fold`, which joins them to a Response, and the Assembler, which makes them.

A wire's decoder calls the Assembler with what it reads; the Assembler emits events that follow one grammar for all
providers:

    Started ( PartStarted PartDelta* PartEnded | Ping )* Finished          parts may interleave, by index

If the fragments of calls are wanted (`Assembler.call_deltas`), a call is `PartStarted CallDelta* PartEnded`. If the
length limit cuts a call off, it has no PartEnded: only a PartEnded has a call that can be run.
"""

from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias

import msgspec

from dragoman.errors import InvalidRequest, Malformed, MalformedToolCall, TooLarge
from dragoman.types import (
    UNKNOWN_USAGE,
    Choice,
    Citation,
    Extra,
    Finish,
    JsonObject,
    Notice,
    Part,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    Usage,
)
from dragoman.types.arguments import parse_arguments, raw_arguments
from dragoman.types.checks import wrong_value
from dragoman.types.fast_constructors import new_call, new_message, new_text
from dragoman.types.parts import PartKind as PartKind  # noqa: PLC0414 - for its users
from dragoman.types.parts import kind_of as kind_of  # noqa: PLC0414 - for its users


class Started(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="started"):
    """The provider has begun to answer."""

    id: str | None = None
    model: str | None = None
    created: int | None = None


class PartStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="part_started"):
    """A part begins; `extra` has what is known of it. A call whose fragments follow has its `id` and `name`."""

    index: int
    kind: PartKind
    extra: Extra = {}
    id: str | None = None
    name: str | None = None


class PartDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="part_delta", gc=False):
    """More of a text or thinking part."""

    index: int
    text: str


class CallDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="call_delta", gc=False):
    """More of the JSON text of a call's arguments. It can be shown, but only the call in PartEnded can be run."""

    index: int
    text: str


class PartEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="part_ended"):
    """A part is complete: `part` is all of it."""

    index: int
    part: Part


class Ping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="ping"):
    """The provider keeps the connection alive."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="finished"):
    """The end of the answer: its reason, usage and notices. Always the last event."""

    finish: Finish
    usage: Usage = UNKNOWN_USAGE
    notices: tuple[Notice, ...] = ()
    service_tier: str | None = None
    other_choices: tuple[Choice, ...] = ()
    """The answers after the first, to a request with `n`; the events before are those of the first."""


class Restarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="restarted"):
    """The stream broke, and another target starts over; discard all earlier events.

    Only with `on_interrupt="restart"`.
    """

    previous: str
    """The target whose stream broke."""
    target: str
    """The target that starts over."""
    why: str


Event: TypeAlias = Started | PartStarted | PartDelta | CallDelta | PartEnded | Ping | Finished
"""The events that wires read and write."""
StreamEvent: TypeAlias = Event | Restarted
"""The events that callers of a stream see."""

_UNSTARTED = Started()
_UNFINISHED = Finished(finish=Finish(reason="other"), usage=Usage(source="partial"))


def fold(events: Iterable[StreamEvent]) -> Response:
    """The response of a stream; if the stream broke, the part that arrived.

    >>> fold([PartEnded(index=0, part=Text(text="hi")), Finished(finish=Finish(reason="stop"))]).text
    'hi'
    """
    if isinstance(events, type) or not hasattr(events, "__iter__"):
        raise wrong_value("events", "a list of events", events)
    try:
        return _fold(events)
    except (TypeError, InvalidRequest) as error:  # events are not checked when they are made
        raise InvalidRequest(f"events must be a list of events, got a wrong one; {error}", param="events") from error


def _fold(events: Iterable[StreamEvent]) -> Response:
    started, finished = _UNSTARTED, _UNFINISHED
    parts: dict[int, Part] = {}
    open_kinds: dict[int, PartKind] = {}
    pieces: dict[int, list[str]] = {}
    for event in events:
        # isinstance() takes longer for each class that it is not, and streams are long.
        if type(event) is PartDelta:
            pieces.setdefault(event.index, []).append(event.text)
        elif type(event) is PartEnded:
            parts[event.index] = event.part
        elif type(event) is PartStarted:
            open_kinds[event.index] = event.kind
        elif type(event) is Started:
            started = event
        elif type(event) is Finished:
            finished = event
        elif type(event) is Restarted:
            started, finished, parts, open_kinds, pieces = _UNSTARTED, _UNFINISHED, {}, {}, {}
        elif type(event) not in (Ping, CallDelta):
            raise wrong_value("event", "an event", event)
    for index, texts in pieces.items():
        if index not in parts:
            kind = Thinking if open_kinds.get(index) == "thinking" else Text
            parts[index] = kind(text="".join(texts))
    return Response(
        id=started.id,
        model=started.model,
        created=started.created,
        message=new_message(role="assistant", parts=tuple([parts[index] for index in sorted(parts)])),
        finish=finished.finish,
        usage=finished.usage,
        notices=finished.notices,
        service_tier=finished.service_tier,
        other_choices=finished.other_choices,
    )


def to_events(response: Response) -> list[Event]:
    """The events of a stream that `fold` joins to this response.

    >>> fold(to_events(fold([Finished(finish=Finish(reason="stop"))]))).finish.reason
    'stop'
    """
    if not isinstance(response, Response):
        raise wrong_value("response", "a Response", response)
    events: list[Event] = [Started(id=response.id, model=response.model, created=response.created)]
    for index, part in enumerate(response.message.parts):
        extra = part.extra if isinstance(part, Text | Thinking) else {}
        events.append(PartStarted(index=index, kind=kind_of(part), extra=extra))
        if isinstance(part, Text | Thinking) and part.text:
            events.append(PartDelta(index=index, text=part.text))
        events.append(PartEnded(index=index, part=part))
    events.append(
        Finished(
            finish=response.finish,
            usage=response.usage,
            notices=response.notices,
            service_tier=response.service_tier,
            other_choices=response.other_choices,
        )
    )
    return events


class _OpenPart(msgspec.Struct):
    index: int
    kind: Literal["text", "thinking"]
    pieces: list[str] = []
    extra: Extra = {}
    logprobs: list[TokenLogprob] = []
    citations: list[Citation] = []
    joined: int = 0
    """How many pieces were made of many shorter ones."""


class _OpenCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    pieces: list[str] = []
    extra: Extra = {}
    shown: int = 0
    """How many pieces were shown as text."""
    index: int | None = None
    """The index of its PartStarted, if that is queued already."""
    is_quoted: bool | None = None
    """Whether its arguments are encoded twice; None before their first character."""


MAX_RESPONSE = 256 * 1024 * 1024
"""Characters of one response; more raise TooLarge."""
MAX_OPEN = 1000
"""Parts that may be open at once."""
_MAX_PIECES = 512
"""Pieces of a text after which they are joined: a short string takes twenty times its length."""
_MAX_SHOWN = 200
"""Characters of a call's arguments in a message or notice."""
_SHOWN = object()
"""The key of the text that shows a call."""


class _TextSplitter(Protocol):
    """Splits a text that arrives in pieces into text and thinking."""

    def feed(self, text: str, /) -> list[tuple[Literal["text", "thinking"], str]]:
        """The pieces that are certain after this text."""
        ...

    def end(self) -> list[tuple[Literal["text", "thinking"], str]]:
        """The pieces that were held back."""
        ...


class Assembler:
    """Makes the events of an answer from what a wire's decoder reads.

    The decoder names parts by keys of its own, such as an index or an id. Tool calls are buffered until they are
    complete, so that a PartEnded always has a whole call with valid arguments.

    >>> out = Assembler()
    >>> out.delta("t", "text", "hi"); out.finish(Finish(reason="stop", raw="stop"))
    >>> fold(out.take()).text
    'hi'
    """

    usage: Usage | None = None
    is_body_complete = False
    """Whether the bytes ended as their framing says, so that nothing was cut off."""
    text_splitter: Callable[[bool], _TextSplitter] | None = None
    """Makes a splitter for each text, if texts may have thinking inside; the argument: whether it is the first part."""
    service_tier: str | None = None
    other_choices: tuple[Choice, ...] = ()
    shown_call: str | None = None
    """The name of a tool whose first call is the answer: its arguments are shown as text while they arrive."""
    _shown: _OpenCall | None = None
    call_deltas = False
    """Whether to emit the start of a call with its first arguments, and a CallDelta for each fragment of them."""
    _started = False
    _finished = False
    _index = 0
    _number = 0

    def __init__(self, *, calls_before: int = 0, limit: int = MAX_RESPONSE) -> None:
        self.notices: list[Notice] = []
        self._queue: list[Event] = []
        self._open: dict[object, _OpenPart] = {}
        self._calls: dict[object, _OpenCall] = {}
        self.thinking_extra: Extra = {}
        """The extra of thinking that a splitter finds."""
        self._splitters: dict[object, _TextSplitter] = {}
        self._ids: dict[str, ToolCall | None] = {}
        self._calls_before = calls_before
        self._limit = self._remaining = limit

    @property
    def has_calls(self) -> bool:
        """Whether there was a tool call, complete or not."""
        return bool(self._calls or self._ids)

    @property
    def content_length(self) -> int:
        """Characters of content so far, with those of incomplete calls."""
        return self._limit - self._remaining

    def is_finished(self) -> bool:
        """Whether Finished is queued."""
        return self._finished

    def take(self) -> list[Event]:
        """The events since the last `take`."""
        queue, self._queue = self._queue, []
        return queue

    def ping(self) -> None:
        """Queue a Ping, if the stream has begun and not ended."""
        if self._started:
            self._push(Ping())

    def start(self, *, id: str | None = None, model: str | None = None, created: int | None = None) -> None:
        """Queue Started, if it is not queued yet."""
        if not self._started:
            self._started = True
            self._push(Started(id=id or None, model=model or None, created=created))

    def open(self, key: object, kind: Literal["text", "thinking"], extra: Extra | None = None) -> None:
        """Begin a text or thinking part, if the key is not open."""
        part = self._open.get(key)
        if part is not None and part.kind != kind:
            self._close_part(key)
            part = None
        if part is None:
            check_open(len(self._open))
            extra = extra or {}
            self._open[key] = _OpenPart(index=self._begin(kind, extra), kind=kind, extra=extra)

    def delta(self, key: object, kind: Literal["text", "thinking"], text: str, extra: Extra | None = None) -> None:
        """Add to a text or thinking part, and begin it if necessary; an empty text is ignored."""
        if text and not self._finished:
            self.count_characters(len(text))
            if self.text_splitter is not None and kind == "text":
                if (splitter := self._splitters.get(key)) is None:
                    splitter = self._splitters[key] = self.text_splitter(self._index == 0)
                self._add_pieces(key, splitter.feed(text), extra)
            else:
                self._add_delta(key, kind, text, extra)

    def _add_delta(self, key: object, kind: Literal["text", "thinking"], text: str, extra: Extra | None) -> None:
        part = self._open.get(key)
        if part is None or part.kind != kind:
            self.open(key, kind, extra)
            part = self._open[key]
        part.pieces.append(text)
        if len(part.pieces) - part.joined == _MAX_PIECES:
            part.pieces[part.joined :] = ["".join(part.pieces[part.joined :])]
            part.joined += 1
        self._queue.append(PartDelta(index=part.index, text=text))

    def _add_pieces(
        self, key: object, pieces: list[tuple[Literal["text", "thinking"], str]], extra: Extra | None
    ) -> None:
        for kind, piece in pieces:
            self._add_delta(key, kind, piece, extra if kind == "text" else self.thinking_extra)

    def add_extra(self, key: object, wire: str, data: JsonObject) -> None:
        """Merge `data` into the `extra` of an open part or call."""
        holder = self._open.get(key) or self._call(key)
        holder.extra = {**holder.extra, wire: {**holder.extra.get(wire, {}), **data}}

    def add_logprobs(self, key: object, logprobs: Iterable[TokenLogprob]) -> None:
        """Add the probabilities of the tokens of an open text."""
        self._open[key].logprobs += logprobs

    def add_citations(self, key: object, citations: Iterable[Citation]) -> None:
        """Add sources of an open text."""
        self._open[key].citations += citations

    def text_of(self, key: object) -> str:
        """The text of an open part so far; empty if it is not open."""
        return "".join(self._open[key].pieces) if key in self._open else ""

    def is_open(self, key: object) -> bool:
        """Whether a part or call with this key is open."""
        return key in self._open or key in self._calls

    def release(self, key: object) -> None:
        """Add what a splitter holds back of a text to which nothing more comes. The text stays open."""
        if (splitter := self._splitters.pop(key, None)) is not None:
            self._add_pieces(key, splitter.end(), None)

    def close(self, key: object, *, redacted: bool = False) -> None:
        """End the part or call with this key, if it is open."""
        self.release(key)
        self._close_part(key, redacted=redacted)

    def _close_part(self, key: object, *, redacted: bool = False) -> None:
        if key in self._open:
            part = self._open.pop(key)
            text = "".join(part.pieces)
            whole: Part = (
                new_text(text, part.extra, tuple(part.logprobs), tuple(part.citations))
                if part.kind == "text"
                else Thinking(text=text, redacted=redacted, extra=part.extra)
            )
            self._push(PartEnded(index=part.index, part=whole))
        elif key in self._calls:
            call = self._calls[key]
            if (arguments := parse_arguments("".join(call.pieces))) is not None:
                del self._calls[key]
                self._emit_call(call, arguments)

    def close_others(self, key: object) -> None:
        """End all other text and thinking parts: for wires that do not mark the end of a part."""
        for other in self._open_keys():
            if other not in (key, _SHOWN):
                self.close(other)

    def _open_keys(self) -> list[object]:
        """The keys of open texts and thinking; a splitter may hold back all of a text."""
        return list(dict.fromkeys([*self._open, *self._splitters])) if self._splitters else list(self._open)

    def add_part(self, part: Part) -> None:
        """Add a part that arrived at once."""
        if isinstance(part, ToolCall):
            if self._is_repeated(part):
                return
            part = msgspec.structs.replace(part, id=self._fresh_id(part.id))
            self._ids[part.id] = part
        index = self._begin(kind_of(part), part.extra if isinstance(part, Text | Thinking) else {})
        self._push(PartEnded(index=index, part=part))

    def add_call_fragment(
        self, key: object, *, id: str | None = None, name: str | None = None, text: str | None = None
    ) -> None:
        """Add to a call: the first id and name count, the texts of the arguments are joined."""
        if key not in self._calls:
            check_open(len(self._calls))
        call = self._calls.setdefault(key, _OpenCall())
        if id and not call.id:
            self.count_characters(len(id))
            call.id = id
        if name and not call.name:
            self.count_characters(len(name))
            call.name = name
        if text:
            self.count_characters(len(text))
            call.pieces.append(text)
            if call.is_quoted is None and (start := text.lstrip()[:1]):
                call.is_quoted = start == '"'
            if self.shown_call is not None and call.name == self.shown_call:
                self._show_call(call)
            elif self.call_deltas and call.name:
                self._stream_call(call, text)

    def _show_call(self, call: _OpenCall) -> None:
        self._shown = self._shown or call
        if call is self._shown:
            for piece in call.pieces[call.shown :]:
                self._add_delta(_SHOWN, "text", piece, None)
            call.shown = len(call.pieces)

    def _stream_call(self, call: _OpenCall, text: str) -> None:
        """Queue a fragment. A call starts with its first arguments: a call without any may have been cut off.

        Arguments that are encoded twice are not shown before they are whole.
        """
        if call.index is None:
            if call.is_quoted is not False or call.id in self._ids:
                return
            text = "".join(call.pieces)
            call.id = self._fresh_id(call.id)
            call.index = self._begin("tool_call", call.extra, id=call.id, name=call.name)
        self._push(CallDelta(index=call.index, text=text))

    def replace_call_text(self, key: object, text: str) -> None:
        """Set the whole text of a call's arguments, which counts more than its fragments."""
        call = self._call(key)
        if (streamed := "".join(call.pieces)) != text:
            self.count_characters(len(text))
            call.pieces = [text]
            if call.index is not None and (rest := text.removeprefix(streamed)) != text:
                self._push(CallDelta(index=call.index, text=rest))

    def drop_call(self, key: object) -> None:
        """Forget a call that was cut off, if it is open."""
        self._calls.pop(key, None)

    def call_text(self, key: object) -> str:
        """The arguments of an open call so far."""
        return "".join(self._call(key).pieces)

    def call_is_complete(self, key: object) -> bool:
        """Whether the arguments so far are a complete object."""
        pieces = self._call(key).pieces
        # Called at every fragment: join the pieces only if the last one can be the end.
        return pieces[-1:] != [] and pieces[-1].rstrip()[-1:] in "}l" and parse_arguments("".join(pieces)) is not None

    def finish(self, finish: Finish) -> None:
        """End all open parts and queue Finished. Calls that the length limit cut off are dropped with a notice."""
        if self._finished:
            return
        self.start()
        calls = [(call, self._whole_arguments(call, finish)) for call in self._calls.values()]
        for key in self._open_keys():
            self.close(key)
        for call, arguments in calls:
            if arguments is None and call is self._shown:
                continue
            if arguments is None:
                why = f"the length limit cut its arguments off: {''.join(call.pieces)[:_MAX_SHOWN]}"
                self.notices.append(Notice(kind="dropped", what=f"tool call {call.name}", why=why))
            else:
                self._emit_call(call, arguments)
        self._calls.clear()
        if self._ids and finish.reason in ("stop", "other"):
            finish = msgspec.structs.replace(finish, reason="tool_calls")
        elif self._shown is not None and not self._ids and finish.reason == "tool_calls":
            finish = msgspec.structs.replace(finish, reason="stop")
        self._push(
            Finished(
                finish=finish,
                usage=self.usage or UNKNOWN_USAGE,
                notices=tuple(dict.fromkeys(self.notices)),
                service_tier=self.service_tier,
                other_choices=self.other_choices,
            )
        )
        self._finished = True

    def _begin(self, kind: PartKind, extra: Extra, *, id: str | None = None, name: str | None = None) -> int:
        if not self._started:
            self.start()
        index = self._index
        self._index += 1
        self._push(PartStarted(index=index, kind=kind, extra=extra, id=id, name=name))
        return index

    def _push(self, event: Event) -> None:
        if not self._finished:
            self._queue.append(event)

    def _call(self, key: object) -> _OpenCall:
        if key not in self._calls:
            raise Malformed(f"the stream continues part {key!r}, which is not open")
        return self._calls[key]

    def _whole_arguments(self, call: _OpenCall, finish: Finish) -> JsonObject | None:
        """The arguments of a call that is open at the end; None if the length limit cut them off."""
        text = "".join(call.pieces)
        arguments = parse_arguments(text)
        if finish.reason == "length":
            # The limit cuts the last call: if it has no arguments yet, they were still to come.
            is_last = call is next(reversed(self._calls.values()))
            return None if is_last and not text else arguments
        if arguments is None:
            raise MalformedToolCall(
                f"arguments of {call.name or 'a call'} are not a JSON object: {text[:_MAX_SHOWN]}",
                id=call.id,
                name=call.name,
                text=text,
                usage=self.usage,
            )
        return arguments

    def _emit_call(self, call: _OpenCall, arguments: JsonObject) -> None:
        if self._shown is not None and call.name == self.shown_call:
            if call is self._shown:
                self._close_part(_SHOWN)
            return
        raw = raw_arguments("".join(call.pieces), arguments)
        whole = new_call(id=call.id, name=call.name, arguments=arguments, raw=raw, extra=call.extra)
        if call.index is None:
            self.add_part(whole)
        else:
            self._ids[whole.id] = whole
            self._push(PartEnded(index=call.index, part=whole))

    def _is_repeated(self, call: ToolCall) -> bool:
        """Whether a call with this id is complete already: servers and proxies send frames again."""
        known = self._ids.get(call.id)
        if known is None or known.name != call.name or call.arguments not in ({}, known.arguments):
            return False
        self.notices.append(Notice(kind="repaired", what=f"tool call {call.name}", why="it came twice"))
        return True

    def _fresh_id(self, id: str) -> str:
        if not id or id in self._ids:
            self._number = max(self._number, self._calls_before + len(self._ids) + 1)
            while f"call_{self._number}" in self._ids:
                self._number += 1
            id = f"call_{self._number}"
        self.count_characters(len(id))
        self._ids[id] = None
        return id

    def count_characters(self, size: int) -> None:
        """Count characters against the limit of the response."""
        self._remaining -= size
        if self._remaining < 0:
            raise TooLarge(f"the response has more than {self._limit} characters")


def check_open(count: int, /) -> None:
    """Raise TooLarge if too many parts are open.

    >>> check_open(MAX_OPEN)
    Traceback (most recent call last):
    dragoman.errors.TooLarge: the response has more than 1000 open parts
    """
    if count >= MAX_OPEN:
        raise TooLarge(f"the response has more than {MAX_OPEN} open parts")
