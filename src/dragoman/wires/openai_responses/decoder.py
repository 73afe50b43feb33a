"""The bytes of a response in, events out: items by their place, whatever order and however much of them is told."""

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.errors import Malformed, ProviderError
from dragoman.events import Assembler, check_open, parse_arguments
from dragoman.types import Finish, JsonObject, Notice, Opaque, Request, Text, ToolCall, is_list, is_object
from dragoman.wires.common.client import truncated
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.framing import BARE, Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, encode_json, to_timestamp, without_none
from dragoman.wires.openai_responses.parts import (
    EMPTY,
    call_extra,
    decode_made,
    decode_reasoning,
    decode_said,
    item_rest,
    message_extra,
    text_extra,
    type_of,
)
from dragoman.wires.openai_responses.schema import (
    CUSTOM,
    NAME,
    PERMANENT_CODES,
    ResponsesReply,
    ResponsesStreamEvent,
    finish_reason,
    read_usage,
)

_EVENT = msgspec.json.Decoder(ResponsesStreamEvent, strict=False)
_REPLY = msgspec.json.Decoder(ResponsesReply, strict=False)
_OBJECT = msgspec.json.Decoder(JsonObject)
_CALLS = ("function_call", CUSTOM)


_BEGINNINGS = ("created", "queued", "in_progress")
_ENDS = ("completed", "incomplete", "failed", "cancelled", "done")
_SNAPSHOTS = frozenset((*_BEGINNINGS, *_ENDS))
_STREAMED = ("message", "reasoning")
_UNSETTLED = ("role", "content", "summary", "status", "encrypted_content", "call_id", "name", "arguments", "input")


class _Slot(msgspec.Struct):
    """One output item, as far as it is known."""

    number: int
    type: str
    added: JsonObject = {}
    final: JsonObject | None = None
    pieces: list[str] = []
    """The text of a call's arguments so far."""
    texts: dict[int, JsonObject] = {}
    """The content parts of a message, as far as they were told."""
    form: str | None = None
    """`content` or `summary`: how its thinking came first."""
    section: int = 0

    @property
    def hint(self) -> JsonObject:
        """What is known for good before the item ends; its status and its encrypted content are not."""
        return item_rest(self.added, *_UNSETTLED)


class ResponsesDecoder:
    """Items to events; a whole body is a stream whose items are done at once."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._slots: list[_Slot] = []
        self._unfinished = 0
        self._released = 0
        self._by_key: dict[int | str | None, _Slot] = {}
        self._refused = False
        self._asks = False
        self._readers: dict[str, Callable[[ResponsesStreamEvent], None]] = {
            **dict.fromkeys(_BEGINNINGS, self._started),
            **dict.fromkeys(_ENDS, self._completed),
            **dict.fromkeys(("output_text.annotation.added", "output_text_annotation.added"), self._annotation),
            "output_item.added": self._added,
            "output_item.done": self._done,
            "content_part.added": self._part_added,
            "content_part.done": self._part_done,
            "output_text.delta": self._text_delta,
            "refusal.delta": self._refusal_delta,
            "reasoning_summary_text.delta": self._summary_delta,
            "reasoning_text.delta": self._content_delta,
            "function_call_arguments.delta": self._arguments_delta,
            "function_call_arguments.done": self._arguments_done,
            "custom_tool_call_input.delta": self._input_delta,
        }

    def read_body(self, body: bytes) -> None:
        self._read_whole(decode_json(_REPLY, body), body)

    def read_frame(self, frame: Frame) -> None:
        if frame.data.strip() == b"[DONE]":
            raise truncated(NAME, "response.completed event")
        if frame.name == BARE:
            self._read_whole(decode_frame(_REPLY, frame), frame.data)
            return
        try:
            event: ResponsesStreamEvent = decode_frame(_EVENT, frame)
        except Malformed:
            # An event that we do not know may use our words for other things.
            if self._kind(decode_frame(_OBJECT, frame).get("type"), frame) in self._readers:
                raise
            return
        kind = self._kind(event.type, frame)
        if kind in self._readers:
            if event.response is None and kind in _SNAPSHOTS:
                # Some servers tell the response in the event itself (seen 2025-11).
                event.response = decode_frame(_REPLY, frame)
            self._readers[kind](event)
        elif kind == "error" or event.error:
            raise _failure(decode_frame(_OBJECT, frame))

    @staticmethod
    def _kind(told: object, frame: Frame) -> str:
        return str(told or frame.name).removeprefix("response.")

    def _read_whole(self, reply: ResponsesReply, body: bytes) -> None:
        if reply.output is None and reply.status is None:
            data = decode_json(_OBJECT, body)
            if {"error", "message", "detail", "code"} & data.keys():
                raise _failure(data)
            raise Malformed(f"{NAME}: the body has no output")
        self._end_with(reply, reply.status)

    def end(self) -> None:
        """The connection closed without a terminal event."""
        raise truncated(NAME, "response.completed event")

    # Which item -------------------------------------------------------------------------------------------------------

    def _slot(self, event: ResponsesStreamEvent, kind: str) -> _Slot | None:
        """The item that an event tells more of; None where that item is over, or of another kind."""
        slot = self._find(event.output_index, event.item_id)
        if slot is None or (slot.type != kind and slot.type in _STREAMED and kind in _STREAMED):
            slot = self._new_slot(event, kind, without_none({"id": event.item_id}))
        return slot if slot.type == kind and slot.final is None else None

    def _find(self, *keys: int | str | None) -> _Slot | None:
        """An item by its index, else by its id; the last one where neither is told."""
        told = tuple(key for key in keys if key is not None) or (None,)
        return next((self._by_key[key] for key in told if key in self._by_key), None)

    def _new_slot(self, event: ResponsesStreamEvent, kind: str, item: JsonObject) -> _Slot:
        last = self._slots[-1] if self._slots else None
        if last is not None and last.type == "reasoning" and last.final is None:
            self._think(last, None)
        check_open(self._unfinished)
        self._unfinished += 1
        slot = _Slot(number=len(self._slots), type=kind, added=item)
        self._slots.append(slot)
        for key in (event.output_index, event.item_id, _id(item), None):
            self._by_key[key] = slot
        return slot

    def _added(self, event: ResponsesStreamEvent) -> None:
        item = event.item or {}
        self._new_slot(event, type_of(item), item)

    def _done(self, event: ResponsesStreamEvent) -> None:
        item = event.item or {}
        kind = type_of(item)
        slot = self._find(event.output_index, _id(item))
        if slot is None or slot.final is not None or slot.type != kind:
            slot = self._new_slot(event, kind, item)
        self._end_item(slot, item)

    def _end_item(self, slot: _Slot, item: JsonObject) -> None:
        slot.final = item
        self._unfinished -= 1
        self.out.spend(len(encode_json(item)))
        if slot.type == "message":
            self._end_message(slot, item)
        elif slot.type == "reasoning":
            self._end_thinking(slot, item)
        self._release()

    def _release(self) -> None:
        """Emit the calls and blocks that are whole, in the order of their items."""
        while self._released < len(self._slots):
            slot = self._slots[self._released]
            if slot.type not in _STREAMED:
                if slot.final is None:
                    return
                self._release_one(slot, slot.final)
            self._released += 1

    def _release_one(self, slot: _Slot, item: JsonObject) -> None:
        if slot.type in _CALLS:
            self._call(slot, item)
        elif slot.type == "image_generation_call":
            self.out.whole(decode_made(item))
        else:
            self._asks = self._asks or slot.type == "mcp_approval_request"
            self.out.whole(Opaque(wire=NAME, data=item))

    # Messages ---------------------------------------------------------------------------------------------------------

    def _part_added(self, event: ResponsesStreamEvent) -> None:
        kind = type_of(event.part or {})
        if kind == "reasoning_text":
            self._thought(event, "content", "")
        elif kind in ("output_text", "refusal"):
            self._say(event, "", refused=kind == "refusal")

    def _part_done(self, event: ResponsesStreamEvent) -> None:
        part = event.part or {}
        slot = self._slot(event, "message") if type_of(part) in ("output_text", "refusal") else None
        if slot is not None:
            self.out.spend(len(encode_json(part)))
            slot.texts[event.content_index or 0] = part

    def _text_delta(self, event: ResponsesStreamEvent) -> None:
        self._say(event, event.delta, refused=False)

    def _refusal_delta(self, event: ResponsesStreamEvent) -> None:
        self._say(event, event.delta, refused=True)

    def _say(self, event: ResponsesStreamEvent, text: object, *, refused: bool) -> None:
        slot = self._slot(event, "message")
        if slot is not None and isinstance(text, str):
            index = event.content_index or 0
            if index not in slot.texts:
                check_open(len(slot.texts))
                slot.texts[index] = (
                    {"type": "refusal", "refusal": ""} if refused else {"type": "output_text", "text": ""}
                )
            self.out.delta(self._open_text(slot, index, refused=refused), "text", text)

    def _open_text(self, slot: _Slot, index: int, *, refused: bool) -> object:
        self._refused = self._refused or refused
        key = (slot.number, index)
        if not self.out.is_open(key):
            self.out.open(key, "text", text_extra(slot.hint, {}, refused=refused))
        return key

    def _annotation(self, event: ResponsesStreamEvent) -> None:
        self._say(event, "", refused=False)
        slot = self._slot(event, "message")
        if slot is not None:
            part = slot.texts[event.content_index or 0]
            held = part.get("annotations")
            self.out.spend(len(encode_json(event.annotation)))
            if is_list(held):
                held.append(event.annotation)
            else:
                part["annotations"] = [event.annotation]

    def _end_message(self, slot: _Slot, item: JsonObject) -> None:
        content = item.get("content")
        content = [{"type": "output_text", "text": content}] if isinstance(content, str) and content else content
        told = [part for part in content if is_object(part)] if is_list(content) else []
        rest = message_extra(item)
        for index, part in enumerate(told or [slot.texts[index] for index in sorted(slot.texts)]):
            said = decode_said(part, rest)
            if isinstance(said, Opaque):
                self.out.whole(said)
                continue
            key = self._open_text(slot, index, refused=type_of(part) == "refusal")
            self._complete(key, "text", said.text)
            if said.extra:
                self.out.note(key, NAME, said.extra[NAME])
            self.out.close(key)
        if not told and not slot.texts:
            self.out.whole(Text(text="", extra=text_extra(rest, {EMPTY: True}, refused=False)))

    def _complete(self, key: object, kind: Literal["text", "thinking"], whole: str) -> None:
        """Say what the end of a part tells and its deltas did not."""
        streamed = self.out.text_of(key)
        if whole.startswith(streamed):
            self.out.delta(key, kind, whole[len(streamed) :])

    # Reasoning --------------------------------------------------------------------------------------------------------

    def _summary_delta(self, event: ResponsesStreamEvent) -> None:
        self._thought(event, "summary", event.delta)

    def _content_delta(self, event: ResponsesStreamEvent) -> None:
        self._thought(event, "content", event.delta)

    def _thought(self, event: ResponsesStreamEvent, form: str, text: object) -> None:
        slot = self._slot(event, "reasoning")
        if slot is None or not isinstance(text, str):
            return
        self._think(slot, form)
        section = (event.content_index if form == "content" else event.summary_index) or 0
        if text and slot.form == form:
            gap = "\n\n" if slot.section != section and self.out.text_of(slot.number) else ""
            slot.section = section
            self.out.delta(slot.number, "thinking", gap + text)

    def _think(self, slot: _Slot, form: str | None) -> None:
        slot.form = slot.form or form
        if not self.out.is_open(slot.number):
            raw = {"content": [{"type": "reasoning_text", "text": ""}]} if form == "content" else {}
            self.out.open(slot.number, "thinking", {NAME: {**slot.hint, **raw}})

    def _end_thinking(self, slot: _Slot, item: JsonObject) -> None:
        thinking = decode_reasoning(item)
        self._think(slot, "content" if item.get("content") else None)
        self._complete(slot.number, "thinking", thinking.text)
        text = self.out.text_of(slot.number)
        if not thinking.text and slot.form == "summary":
            thinking.extra[NAME].pop("summary", None)
        if slot.form == "content" and not item.get("content"):
            thinking.extra[NAME]["content"] = [{"type": "reasoning_text", "text": text}]
        self.out.note(slot.number, NAME, thinking.extra[NAME])
        self.out.close(slot.number, redacted=not text)

    # Calls ------------------------------------------------------------------------------------------------------------

    def _arguments_delta(self, event: ResponsesStreamEvent) -> None:
        self._arguments(event, "function_call", event.delta)

    def _input_delta(self, event: ResponsesStreamEvent) -> None:
        self._arguments(event, CUSTOM, event.delta)

    def _arguments(self, event: ResponsesStreamEvent, kind: str, text: object) -> None:
        slot = self._slot(event, kind)
        if slot is not None and isinstance(text, str):
            self.out.spend(len(text))
            slot.pieces.append(text)

    def _arguments_done(self, event: ResponsesStreamEvent) -> None:
        slot = self._slot(event, "function_call")
        if slot is not None and isinstance(event.arguments, str):
            self.out.spend(len(event.arguments))
            slot.pieces = [event.arguments]

    def _call(self, slot: _Slot, item: JsonObject) -> None:
        field = "input" if slot.type == CUSTOM else "arguments"
        given = item.get(field) or "".join(slot.pieces)
        text = given if isinstance(given, str) else encode_json(given).decode()
        id, name, extra = str(item.get("call_id") or ""), str(item.get("name") or ""), call_extra(item)
        if item.get("status") == "incomplete":
            why = f"the response ended before its arguments did: {text}"
            self.out.notices.append(Notice(kind="dropped", what=f"tool call {name}", why=why))
        elif slot.type == CUSTOM:
            self.out.whole(ToolCall(id=id, name=name, arguments={"input": text}, extra={NAME: extra}))
        else:
            self.out.fragment(slot.number, id=id, name=name, text=text)
            if extra:
                self.out.note(slot.number, NAME, extra)
            self.out.close(slot.number)

    # The end ----------------------------------------------------------------------------------------------------------

    def _started(self, event: ResponsesStreamEvent) -> None:
        self._start(event.response or ResponsesReply())

    def _start(self, reply: ResponsesReply) -> None:
        self.out.start(id=str(reply.id or ""), model=reply.model, created=to_timestamp(reply.created_at))

    def _completed(self, event: ResponsesStreamEvent) -> None:
        reply = event.response or ResponsesReply()
        kind = str(event.type).removeprefix("response.")
        self._end_with(reply, reply.status or ("completed" if kind == "done" else kind))

    def _end_with(self, reply: ResponsesReply, status: str | None) -> None:
        out = self.out
        self._start(reply)
        if reply.usage is not None:
            out.usage = read_usage(reply.usage)
        if reply.error or status in ("failed", "cancelled"):
            error = _failure({"error": reply.error or {"code": status, "message": f"the response ended as {status}"}})
            error.usage = out.usage
            raise error
        output = _Output(reply.output or [])
        for slot in self._slots:
            item = output.take(slot)
            if slot.final is None:
                self._end_item(slot, _so_far(slot, status) if item is None else item)
        for item in output.left():
            self._end_item(self._new_slot(ResponsesStreamEvent(), type_of(item), item), item)
        told = (reply.incomplete_details or {}).get("reason")
        word = told if isinstance(told, str) and told else status
        reason = finish_reason(word, calls=out.has_calls, asks=self._asks, refused=self._refused)
        out.finish(Finish(reason=reason, raw=word))


class _Output:
    """The items that the end of a stream tells, each to be taken by the item that the stream told of."""

    def __init__(self, items: list[JsonObject]) -> None:
        self._left = dict(enumerate(items))
        self._places: dict[tuple[str, int | str | None], deque[int]] = {}
        for place, item in self._left.items():
            for key in {_id(item), None}:
                self._places.setdefault((type_of(item), key), deque()).append(place)

    def take(self, slot: _Slot) -> JsonObject | None:
        """By its id, else by the order of its kind: there are servers that make up a new id with each event."""
        for key in (_id(slot.final or slot.added), None):
            places = self._places.get((slot.type, key), deque())
            while places:
                if (item := self._left.pop(places.popleft(), None)) is not None:
                    return item
        return None

    def left(self) -> list[JsonObject]:
        """Those that the stream did not tell of."""
        return list(self._left.values())


def _so_far(slot: _Slot, status: str | None) -> JsonObject:
    """An item whose end was never told, as the stream left it."""
    if slot.type in _CALLS:
        text = "".join(slot.pieces)
        cut = status == "incomplete" and not (text and parse_arguments(text) is not None)
        rest = {key: value for key, value in slot.added.items() if key not in ("arguments", "input", "status")}
        return {**rest, "type": slot.type, **({"status": "incomplete"} if cut else {})}
    return {"type": slot.type, **slot.hint} if slot.type in _STREAMED else slot.added


def _failure(data: JsonObject) -> ProviderError:
    told = {key: value for key, value in data.items() if key not in ("type", "sequence_number")}
    error = told.get("error")
    code = error.get("code") if is_object(error) else told.get("code")
    return error_from_json({**told, "status_code": 400} if str(code) in PERMANENT_CODES else told)


def _id(item: JsonObject) -> int | str | None:
    id = item.get("id")
    return id if isinstance(id, int | str) else None
