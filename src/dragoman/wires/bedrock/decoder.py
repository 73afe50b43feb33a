"""Decodes the answers of Converse and ConverseStream into events.

A whole body goes through the methods of a stream, with each block started and ended at once. The usage of a stream
comes in its last event, `metadata`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from dragoman.errors import InvalidRequest, Malformed
from dragoman.events import Assembler, check_open
from dragoman.http import Head
from dragoman.types import (
    Choice,
    Finish,
    FinishReason,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    is_list,
    is_object,
)
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.wires.bedrock.hosted_tools import read_citations
from dragoman.wires.bedrock.parts import decode_block
from dragoman.wires.bedrock.schema import ANSWER_FIELDS, COUNTS, FINISH_REASONS, NAME, NO_METRICS, read_usage
from dragoman.wires.bedrock.text_forms import GUARDRAIL, INTERVENED, MEANINGS, TEXT, TextPiece, read_piece
from dragoman.wires.common.aws_errors import decode_error, decode_exception
from dragoman.wires.common.event_stream import EXCEPTION
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.framing import Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, encode_json, object_of, text_of
from dragoman.wires.common.stream_decoder import truncated_error

_ANY = msgspec.json.Decoder()
STREAMED = frozenset({"text", "reasoningContent"})
HOSTED = "hosted toolUse"
"""The kind of a call of the provider's own tool, which it runs itself."""


class _Block(msgspec.Struct):
    """A block that is not complete yet."""

    slot: int
    kind: str = ""
    data: JsonObject = {}
    citations: list[Any] = []
    fragments: list[str] = []
    """The input of a call of the provider's own tool, or redacted reasoning."""
    items: list[Any] = []
    """The content of a result that the provider's own tool gave."""


class ConverseDecoder:
    """Decodes one answer, whole or streamed."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._blocks: dict[object, _Block] = {}
        self._count = 0
        self._stop_reason: str | None = None
        self._finish_extra: JsonObject = {}
        self._empty_call: int | None = None
        """The slot of a finished call without arguments, if it is the last block."""

    def read_body(self, body: bytes) -> None:
        answer = decode_json(_ANY, body)
        output = answer.get("output") if is_object(answer) else None
        message = output.get("message") if is_object(output) else None
        if is_object(answer) and output is None and (piece := read_piece(answer)) is not None:
            self._read_text(piece, answer, is_whole=True)
            return
        if not is_object(answer) or not is_object(message):
            if is_object(answer) and answer.keys() & {"message", "Message", "__type", "error"}:
                raise decode_error(Head(status=500), body)
            raise Malformed(f"{NAME}: the body has no message")
        self.out.start()
        content = message.get("content")
        for block in content if is_list(content) else []:
            if not is_object(block):
                raise Malformed(f"{NAME}: a block of the content is not an object")
            self._whole(block)
        self._message_stop(answer)
        self._metadata(answer)

    def read_frame(self, frame: Frame) -> None:
        if frame.name.startswith(EXCEPTION):
            raise decode_exception(frame.name.removeprefix(EXCEPTION), frame.data)
        if frame.name and frame.name not in self._events:
            return
        event = decode_frame(_ANY, frame)
        if not is_object(event):
            raise Malformed(f"{NAME}: an event is not an object")
        if frame.name:
            self._events[frame.name](self, event)
        else:
            self._read_chunk(event)

    def _read_chunk(self, chunk: JsonObject) -> None:
        """Decode a chunk of InvokeModel: an event of Nova under its name, or a piece of a text."""
        if (piece := read_piece(chunk)) is not None:
            self._read_text(piece, chunk, is_whole=False)
            return
        for name, event in chunk.items():
            if name in self._events and is_object(event):
                self._events[name](self, event)

    def _read_text(self, piece: TextPiece, body: JsonObject, *, is_whole: bool) -> None:
        id = body.get("id")
        self.out.start(id=id if isinstance(id, str) else None)
        (text, raw), *others = piece.texts
        self.out.open(0, "text")
        self.out.delta(0, "text", text)
        self._finish_extra |= piece.rest
        self.out.usage = piece.usage or self.out.usage
        if is_whole or piece.is_last:
            extra = make_extra(TEXT, self._finish_extra)
            is_blocked = body.get(GUARDRAIL) == INTERVENED
            self.out.other_choices = tuple(_choice(text, word) for text, word in others)
            self.out.finish(Finish(reason="blocked" if is_blocked else _meaning(raw), raw=raw, extra=extra))

    def end(self) -> None:
        raise truncated_error(NAME, "metadata event")

    def _message_start(self, _: JsonObject) -> None:
        self.out.start()

    def _block_start(self, event: JsonObject) -> None:
        index = event.get("contentBlockIndex")
        start = event.get("start")
        if self._is_same_call(index, start):
            return
        self._close(index)
        if is_object(start) and start:
            kind, data = next(iter(start.items()))
            data = object_of(data)
            self._begin(index, HOSTED if kind == "toolUse" and "type" in data else kind, data)

    def _is_same_call(self, index: object, start: object) -> bool:
        """Whether the start of a call that is open comes again."""
        block, call = self._blocks.get(_key(index)), start.get("toolUse") if is_object(start) else None
        id = call.get("toolUseId") if is_object(call) else None
        return block is not None and bool(id) and id == block.data.get("toolUseId")

    def _begin(self, index: object, kind: str, data: JsonObject) -> _Block:
        if self._empty_call is not None:
            self.out.close(self._empty_call)
            self._empty_call = None
        check_open(len(self._blocks))
        block = self._blocks[_key(index)] = _Block(slot=self._count, kind=kind, data=data)
        self._count += 1
        return block

    def _block_delta(self, event: JsonObject) -> None:
        index, delta = event.get("contentBlockIndex"), event.get("delta")
        if not is_object(delta):
            return
        for kind, value in delta.items():
            name = "text" if kind == "citation" else kind
            block = self._blocks.get(_key(index))
            if block is None and kind == "toolUse":
                raise Malformed(f"{NAME}: a toolUse delta for block {index}, which is not open")
            if block is None or (block.kind != name and block.kind in STREAMED):
                self._close(index)
                block = self._begin(index, name, {})
            self._delta(block, kind, value)

    def _delta(self, block: _Block, kind: str, value: object) -> None:
        match kind:
            case "text":
                self.out.open(block.slot, "text")
                self.out.delta(block.slot, "text", text_of(value))
            case "citation":
                self.out.open(block.slot, "text")
                self.out.count_characters(len(encode_json(value)))
                block.citations.append(value)
            case "reasoningContent" if is_object(value):
                self._reasoning(block, value)
            case "toolUse" if block.kind == HOSTED and is_object(value):
                self.out.count_characters(len(text_of(value.get("input"))))
                block.fragments.append(text_of(value.get("input")))
            case "toolUse" if is_object(value):
                self._input(block, text_of(value.get("input")))
            case _:
                self.out.count_characters(len(encode_json(value)))
                block.items += value if is_list(value) else [value]

    def _reasoning(self, block: _Block, value: JsonObject) -> None:
        if is_object(inner := value.get("reasoningText")):
            value = inner  # as in a whole block
        if isinstance(redacted := value.get("redactedContent"), str):
            self.out.count_characters(len(redacted))
            block.fragments.append(redacted)
            return
        self.out.open(block.slot, "thinking", {NAME: {}})
        self.out.delta(block.slot, "thinking", text_of(value.get("text")))
        if signature := value.get("signature"):
            self.out.count_characters(len(str(signature)))
            self.out.add_extra(block.slot, NAME, {"signature": signature})

    def _input(self, block: _Block, text: str) -> None:
        if text:
            self.out.add_call_fragment(
                block.slot, id=text_of(block.data.get("toolUseId")), name=text_of(block.data.get("name")), text=text
            )

    def _block_stop(self, event: JsonObject) -> None:
        self._close(event.get("contentBlockIndex"))

    def _close(self, index: object) -> None:
        block = self._blocks.pop(_key(index), None)
        if block is None:
            return
        match block.kind:
            case "text":
                if block.citations:
                    self.out.add_extra(block.slot, NAME, {"citations": block.citations})
                    self.out.add_citations(block.slot, read_citations(block.citations))
                self.out.close(block.slot)
            case "reasoningContent" if block.fragments:
                self.out.close(block.slot)
                extra = {NAME: {"redactedContent": join_base64(block.fragments)}}
                self.out.add_part(Thinking(text="", redacted=True, extra=extra))
            case "reasoningContent":
                self.out.close(block.slot)
            case "toolUse":
                self._end_call(block)
            case "image":
                self.out.add_part(_image(block))
            case kind if kind == HOSTED:
                self._add_block({"toolUse": _hosted(block)})
            case kind:
                data = {**block.data, **({"content": block.items} if block.items else {})}
                self._add_block({kind: data})

    def _add_block(self, data: JsonObject) -> None:
        self.out.add_part(_part(data))

    def _end_call(self, block: _Block) -> None:
        is_empty = not self.out.is_open(block.slot)
        if is_empty:
            data = block.data
            self.out.add_call_fragment(block.slot, id=text_of(data.get("toolUseId")), name=text_of(data.get("name")))
        rest = {key: value for key, value in block.data.items() if key not in _CALL_FIELDS and value is not None}
        if rest:
            self.out.add_extra(block.slot, NAME, rest)
        if is_empty:
            # The next event tells whether the call has no arguments or the length limit cut them off.
            self._empty_call = block.slot
        else:
            self.out.close(block.slot)

    def _whole(self, data: JsonObject) -> None:
        """Decode a block of a whole body."""
        call = data.get("toolUse")
        if is_object(call) and len(data) == 1 and "type" not in call:
            block = self._begin(self._count, "toolUse", {key: value for key, value in call.items() if key != "input"})
            index, value = self._count - 1, call.get("input")
            self._input(block, "" if value is None else encode_json(value).decode())
            self._close(index)
            return
        part = _part(data)
        self._begin(self._count, "", {})
        self._blocks.clear()
        slot = self._count - 1
        match part:
            case Text():
                self.out.open(slot, "text", part.extra)
                self.out.delta(slot, "text", part.text)
                self.out.add_citations(slot, part.citations)
                self.out.close(slot)
            case Thinking(redacted=False):
                self.out.open(slot, "thinking", part.extra)
                self.out.delta(slot, "thinking", part.text)
                self.out.close(slot)
            case _:
                self.out.add_part(part)

    def _message_stop(self, event: JsonObject) -> None:
        for index in list(self._blocks):
            self._close(index)
        reason = event.get("stopReason")
        self._stop_reason = reason if isinstance(reason, str) else None
        self._read_other_fields(event)

    def _read_other_fields(self, event: JsonObject) -> None:
        tier = event.get("serviceTier")
        if is_object(tier) and isinstance(kind := tier.get("type"), str):
            self.out.service_tier = kind
        self._finish_extra.update(
            (key, value)
            for key, value in event.items()
            if key not in ANSWER_FIELDS and value is not None and value != NO_METRICS
        )

    def _metadata(self, event: JsonObject) -> None:
        if self._stop_reason is None and not self.out.is_finished():
            raise Malformed(f"{NAME}: the answer has no stopReason")
        usage, raw = event.get("usage"), self._stop_reason
        self._read_other_fields(event)
        if is_object(usage):
            known = read_usage(usage)
            # The member is required, so servers write 0 if they do not know.
            self.out.usage = known if known.input or known.output else None
            if rest := {key: value for key, value in usage.items() if key not in COUNTS and value}:
                self._finish_extra["usage"] = rest
        if raw is not None and raw not in FINISH_REASONS:
            self._finish_extra["stopReason"] = raw
        reason = FINISH_REASONS.get(raw or "", "other")
        if reason == "tool_calls" and not self.out.has_calls:
            reason = "stop"  # only tools of the provider ran (seen 2026-11 with Nova's code interpreter)
        self.out.finish(Finish(reason=reason, raw=raw, extra=make_extra(NAME, self._finish_extra)))

    _events: ClassVar[dict[str, "Callable[[ConverseDecoder, JsonObject], None]"]] = {
        "messageStart": _message_start,
        "contentBlockStart": _block_start,
        "contentBlockDelta": _block_delta,
        "contentBlockStop": _block_stop,
        "messageStop": _message_stop,
        "metadata": _metadata,
    }


_CALL_FIELDS = frozenset({"toolUseId", "name", "input"})


def _choice(text: str, raw: str | None) -> Choice:
    message = Message(role="assistant", parts=(Text(text=text),))
    return Choice(message=message, finish=Finish(reason=_meaning(raw), raw=raw))


def _meaning(raw: str | None) -> FinishReason:
    return MEANINGS.get(raw or "", "other")


def _hosted(block: _Block) -> JsonObject:
    text = "".join(block.fragments)
    try:
        return {**block.data, "input": _ANY.decode(text or "{}")}
    except msgspec.MsgspecError:
        return {**block.data, "input": text}


def _image(block: _Block) -> Part:
    """An image, whose bytes come in pieces."""
    items: list[JsonObject] = [item for item in block.items if is_object(item)]
    others = {key: value for item in items for key, value in item.items() if key != "source"}
    sources: list[JsonObject] = [source for item in items if is_object(source := item.get("source"))]
    pieces = [piece for source in sources if isinstance(piece := source.get("bytes"), str)]
    rest = {key: value for source in sources for key, value in source.items() if key != "bytes"}
    if pieces:
        rest["bytes"] = join_base64(pieces)
    return _part({"image": {**block.data, **({"source": rest} if rest else {}), **others}})


def _part(data: JsonObject) -> Part:
    """The part of a block; what is not as it should be stays as it is."""
    try:
        return decode_block(data, "content")
    except InvalidRequest:
        return Opaque(wire=NAME, data=data)


def join_base64(pieces: list[str], /) -> str:
    """The base64 of bytes whose pieces are encoded one by one.

    >>> join_base64(["YQ==", "YmM="])
    'YWJj'
    """
    try:
        return pieces[0] if len(pieces) == 1 else encode_base64(b"".join(map(decode_base64, pieces)))
    except ValueError:
        return "".join(pieces)


def _key(index: object) -> object:
    return index if isinstance(index, int | str) else None
