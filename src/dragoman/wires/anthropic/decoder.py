"""Decodes the answers of the Messages API into events.

A stream is decoded event by event; the table `_events` maps each type of event to a method. A whole body goes through
the same methods, with each block started and ended at once.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from dragoman.errors import DragomanError, InvalidRequest, Malformed
from dragoman.events import Assembler, check_open
from dragoman.types import Finish, JsonObject, Notice, Opaque, Part, Request, is_list, is_object
from dragoman.wires.anthropic.citations import read_citations
from dragoman.wires.anthropic.parts import decode_block, decode_redacted, thinking_extra
from dragoman.wires.anthropic.schema import (
    COUNTS,
    EVENT_FIELDS,
    FINISH_REASONS,
    MESSAGE_FIELDS,
    NAME,
    AnthropicEvent,
    read_usage,
)
from dragoman.wires.common.aws_errors import decode_exception
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.event_stream import EXCEPTION
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.framing import BARE, Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, encode_json, objects
from dragoman.wires.common.stream_decoder import truncated_error

_EVENT = msgspec.json.Decoder(AnthropicEvent, strict=False)
_ANY = msgspec.json.Decoder()


class _Block(msgspec.Struct):
    """A block that is not complete yet."""

    slot: int
    kind: str
    data: JsonObject
    pieces: list[str] = []
    citations: list[Any] = []
    added: dict[str, list[str]] = {}
    """Text members that unknown deltas extend, as pieces."""

    def text(self, field: str) -> str:
        return str(self.data.get(field) or "")

    def rest(self, *known: str) -> JsonObject:
        return {key: value for key, value in self.data.items() if key not in ("type", *known) and value is not None}

    def add(self, delta: JsonObject) -> None:
        """Apply an unknown delta: texts are appended, other values replaced."""
        for key, value in delta.items():
            if key == "type" or value is None:
                continue
            old = self.data.get(key)
            if isinstance(old, str) and isinstance(value, str):
                self.added.setdefault(key, [old]).append(value)
            else:
                self.added.pop(key, None)
                self.data[key] = value

    def whole(self) -> JsonObject:
        return {**self.data, **{key: "".join(pieces) for key, pieces in self.added.items()}}


class AnthropicDecoder:
    """Decodes one answer, whole or streamed."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._stop_reason: str | None = None
        self._usage: JsonObject = {}
        self._finish_extra: JsonObject = {}
        self._blocks: dict[int | None, _Block] = {}
        self._count = 0
        self._empty_call: int | None = None
        """The slot of a finished call without arguments, if it is the last block."""

    def read_body(self, body: bytes) -> None:
        self._read_message(decode_json(_ANY, body))

    def read_frame(self, frame: Frame) -> None:
        if frame.name == BARE:
            self._read_message(decode_frame(_ANY, frame))
            return
        if frame.data.strip() == b"[DONE]":
            self.end()
        event = AnthropicEvent() if frame.name == "error" else self._decode(frame)
        kind = event.type or frame.name
        if event.error or kind == "error":
            raise error_from_json(frame.data.decode("utf-8", "replace"))
        if (read := self._events.get(kind)) is not None:
            read(self, event)
        elif kind.startswith(EXCEPTION):
            raise decode_exception(kind.removeprefix(EXCEPTION), frame.data)

    def _decode(self, frame: Frame) -> AnthropicEvent:
        try:
            event: AnthropicEvent = decode_frame(_EVENT, frame)
        except Malformed:
            # An unknown event may use the names of known members for other things.
            data = decode_frame(_ANY, frame)
            if not is_object(data) or str(data.get("type") or frame.name) in self._events:
                raise
            return AnthropicEvent(type="unknown", error=data.get("error"))
        return event

    def end(self) -> None:
        raise truncated_error(NAME, "message_stop event")

    def _read_message(self, message: object) -> None:
        if not is_object(message) or message.get("error") or "content" not in message:
            raise _body_error(message)
        self._message_start(AnthropicEvent(message=message))
        self._message_stop(AnthropicEvent())

    def _message_start(self, event: AnthropicEvent) -> None:
        """Start a message; a body has its blocks here, and so has the stream of a continued turn (seen 2026-04)."""
        message: JsonObject = event.message if is_object(event.message) else {}
        self.out.start(id=str(message.get("id") or ""), model=str(message.get("model") or ""))
        self._read_message_fields(message)
        self._note_dropped_thinking(message)
        for index, block in enumerate(_content(message.get("content"))):
            has_input = block.get("input") is not None
            start: JsonObject = {**block, "input": {}} if has_input else block
            self._block_start(AnthropicEvent(index=index, content_block=start))
            if has_input:
                self._input(self._blocks[index], encode_json(block["input"]).decode())
            self._close(index)

    def _note_dropped_thinking(self, message: JsonObject) -> None:
        entries = objects(message.get("input_transformations"))
        reasons = {str(entry.get("reason")): None for entry in entries if entry.get("type") == "thinking_dropped"}
        for reason in reasons:
            why = f"the provider left out earlier thinking: {reason}"
            self.out.notices.append(Notice(kind="dropped", what="thinking", why=why))

    def _message_delta(self, event: AnthropicEvent) -> None:
        rest = {field: getattr(event, field) for field in EVENT_FIELDS}
        self._read_message_fields({**(event.delta or {}), **rest, "usage": event.usage})

    def _read_message_fields(self, message: JsonObject) -> None:
        """Read the members of a message besides its blocks; the latest value of each wins."""
        reason = message.get("stop_reason")
        self._stop_reason = reason if isinstance(reason, str) and reason else self._stop_reason
        self._finish_extra.update((k, v) for k, v in message.items() if k not in MESSAGE_FIELDS and v is not None)
        usage = message.get("usage")
        if is_object(usage):
            self._usage.update((key, value) for key, value in usage.items() if value is not None)
            known = read_usage(self._usage)
            self.out.usage = known if known.input or known.output else None
            if isinstance(tier := self._usage.get("service_tier"), str):
                self.out.service_tier = tier

    def _ping(self, _: AnthropicEvent) -> None:
        self.out.ping()

    def _message_stop(self, _: AnthropicEvent) -> None:
        for index in list(self._blocks):
            self._close(index)
        raw = self._stop_reason
        if raw is not None and raw not in FINISH_REASONS:
            self._finish_extra["stop_reason"] = raw
        if usage := {key: value for key, value in self._usage.items() if key not in COUNTS}:
            self._finish_extra["usage"] = usage
        self.out.finish(
            Finish(reason=FINISH_REASONS.get(raw or "", "other"), raw=raw, extra=make_extra(NAME, self._finish_extra))
        )

    def _block_start(self, event: AnthropicEvent) -> None:
        if self._is_same_call(event):
            return
        self._close(event.index)
        if self._empty_call is not None:
            self.out.close(self._empty_call)
            self._empty_call = None
        check_open(len(self._blocks))
        data = event.content_block or {}
        block = self._blocks[event.index] = _Block(slot=self._count, kind=str(data.get("type") or ""), data=data)
        self._count += 1
        match block.kind:
            case "text":
                citations = block.data.get("citations")
                block.citations = [*citations] if is_list(citations) else []
                self.out.open(block.slot, "text", make_extra(NAME, block.rest("text", "citations")))
                self.out.delta(block.slot, "text", block.text("text"))
            case "thinking":
                extra = {NAME: thinking_extra(block.rest("thinking"))}
                self.out.open(block.slot, "thinking", extra)
                self.out.delta(block.slot, "thinking", block.text("thinking"))
            case _:
                pass

    def _is_same_call(self, event: AnthropicEvent) -> bool:
        """Whether the start of a call that is open comes again."""
        block, id = self._blocks.get(event.index), (event.content_block or {}).get("id")
        return block is not None and block.kind == "tool_use" and bool(id) and id == block.data.get("id")

    def _block_delta(self, event: AnthropicEvent) -> None:
        delta = event.delta or {}
        kind = str(delta.get("type"))
        block = self._blocks.get(event.index)
        if block is None and kind in _IMPLIED:
            self._block_start(AnthropicEvent(index=event.index, content_block={"type": _IMPLIED[kind]}))
            block = self._blocks[event.index]
        if block is None:
            raise Malformed(f"{NAME}: a {kind} for block {event.index}, which is not open")
        match block.kind, kind:
            case ("text", "text_delta"):
                self.out.delta(block.slot, "text", str(delta.get("text") or ""))
            case ("text", "citations_delta"):
                self.out.count_characters(len(encode_json(delta)))
                block.citations.append(delta.get("citation"))
            case ("thinking", "thinking_delta"):
                self.out.delta(block.slot, "thinking", str(delta.get("thinking") or ""))
            case ("thinking", "signature_delta"):
                self.out.add_extra(block.slot, NAME, thinking_extra({"signature": delta.get("signature")}))
            case (_, "input_json_delta"):
                self._input(block, str(delta.get("partial_json") or ""))
            case ("text" | "thinking" | "tool_use", _):
                pass
            case _:
                self.out.count_characters(len(encode_json(delta)))
                block.add(delta)

    def _input(self, block: _Block, text: str) -> None:
        if not text:
            return
        if block.kind == "tool_use":
            if not self.out.is_open(block.slot):
                self._open_call(block)
            self.out.add_call_fragment(block.slot, text=text)
        else:
            self.out.count_characters(len(text))
            block.pieces.append(text)

    def _block_stop(self, event: AnthropicEvent) -> None:
        self._close(event.index)

    def _close(self, index: int | None) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        match block.kind:
            case "text":
                if block.citations:
                    self.out.add_extra(block.slot, NAME, {"citations": block.citations})
                    self.out.add_citations(block.slot, read_citations(block.citations))
                self.out.close(block.slot)
            case "thinking":
                self.out.close(block.slot)
            case "tool_use":
                self._end_call(block)
            case _:
                self.out.add_part(self._whole(block))

    def _open_call(self, block: _Block) -> None:
        self.out.add_call_fragment(block.slot, id=block.text("id"), name=block.text("name"))
        if rest := block.rest("id", "name", "input"):
            self.out.add_extra(block.slot, NAME, rest)

    def _end_call(self, block: _Block) -> None:
        is_empty = not self.out.is_open(block.slot)
        if is_empty:
            input = block.data.get("input")
            self._open_call(block)
            self.out.add_call_fragment(block.slot, text=encode_json(input).decode() if input else None)
            is_empty = not input
        if is_empty:
            # The next event tells whether the call has no arguments or the length limit cut them off.
            self._empty_call = block.slot
        else:
            self.out.close(block.slot)

    def _whole(self, block: _Block) -> Part:
        """The part of a block that is not streamed, or whose deltas have no event."""
        data = block.whole()
        if text := "".join(block.pieces):
            try:
                data["input"] = _ANY.decode(text)
            except msgspec.MsgspecError:
                why = f"cut off: {text}"
                self.out.notices.append(Notice(kind="dropped", what=f"input of {block.kind}", why=why))
        if block.kind == "redacted_thinking":
            return decode_redacted(data)
        try:
            return decode_block(data, "content")
        except InvalidRequest:
            return Opaque(wire=NAME, data=data)

    _events: ClassVar[dict[str, "Callable[[AnthropicDecoder, AnthropicEvent], None]"]] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
        "ping": _ping,
    }


_IMPLIED = {"text_delta": "text", "thinking_delta": "thinking"}
"""The type of a block whose start a server left out, by its first delta."""


def _content(content: object) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if is_list(content) else []
    if not all(is_object(block) for block in blocks):
        raise Malformed(f"{NAME}: a block of the content is not an object")
    return blocks


def _body_error(data: object) -> DragomanError:
    if is_object(data) and {"error", "message", "detail", "msg"} & data.keys():
        return error_from_json(data)
    return Malformed(f"{NAME}: the body has no content")
