"""Decodes the responses of the Responses API.

A response is a list of output items. A stream opens items, sends deltas and closes items, in any order, and ends with a
snapshot of the whole response. Servers omit any of these, so each item is a `_Slot` that collects what is known, and
the snapshot completes the items that were not closed. Text and thinking become events at once. Calls and other items
become events in the order of the items, as soon as they are complete. A whole body is a stream whose items are complete
from the start.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from dragoman.errors import Malformed, ProviderError
from dragoman.events import Assembler, check_open
from dragoman.types import Finish, JsonObject, Notice, Opaque, Request, Text, Usage, is_list, is_object
from dragoman.types.arguments import parse_arguments
from dragoman.wires.common.content_filters import filter_notices, prompt_results
from dragoman.wires.common.errors import error_from_json
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.framing import BARE, Frame
from dragoman.wires.common.history import calls_before
from dragoman.wires.common.json import decode_frame, decode_json, encode_json, objects, to_timestamp, without_none
from dragoman.wires.common.prompt_size import note_cut_prompt
from dragoman.wires.common.stream_decoder import truncated_error
from dragoman.wires.openai_responses.client_tools import decode_client_call, is_client_call
from dragoman.wires.openai_responses.hosted_tools import decode_hosted_item
from dragoman.wires.openai_responses.parts import (
    EMPTY_MESSAGE,
    decode_image_call,
    decode_other_item,
    decode_output_text,
    decode_reasoning,
    item_rest,
    message_extra,
    name_and_extra,
    text_extra,
    type_of,
)
from dragoman.wires.openai_responses.schema import (
    CUSTOM,
    FILTERS,
    NAME,
    PERMANENT_CODES,
    ResponseObject,
    ResponsesStreamEvent,
    finish_reason,
    read_usage,
)

_EVENT = msgspec.json.Decoder(ResponsesStreamEvent, strict=False)
_RESPONSE = msgspec.json.Decoder(ResponseObject, strict=False)
_OBJECT = msgspec.json.Decoder(JsonObject)
_CALLS = ("function_call", CUSTOM)
_INPUT_START = '{"input":"'


_START_EVENTS = ("created", "queued", "in_progress")
_END_EVENTS = ("completed", "incomplete", "failed", "cancelled", "done")
_SNAPSHOTS = frozenset((*_START_EVENTS, *_END_EVENTS))
_STREAMED = ("message", "reasoning")
_LATE_FIELDS = ("role", "content", "summary", "status", "encrypted_content", "call_id", "name", "arguments", "input")


class _Slot(msgspec.Struct):
    """What is known of one output item."""

    number: int
    type: str
    added: JsonObject = {}
    final: JsonObject | None = None
    pieces: list[str] = []
    """The text of a call's arguments so far."""
    texts: dict[int, JsonObject] = {}
    """The content parts of a message so far."""
    form: str | None = None
    """`content` or `summary`: the form in which its thinking came first."""
    section: int = 0
    sections: set[int] = set()
    """The sections of its thinking that have text."""

    @property
    def early_fields(self) -> JsonObject:
        """The fields that are final before the item ends; its status and encrypted content are not."""
        return item_rest(self.added, *_LATE_FIELDS)


class ResponsesDecoder:
    """A `ResponseDecoder` for streams and whole bodies."""

    def __init__(self, request: Request | None) -> None:
        self.out = Assembler(calls_before=calls_before(request))
        self._request = request
        self._slots: list[_Slot] = []
        self._unfinished = 0
        self._released = 0
        self._by_key: dict[int | str | None, _Slot] = {}
        self._refused = False
        self._asks_approval = False
        self._handlers: dict[str, Callable[[ResponsesStreamEvent], None]] = {
            **dict.fromkeys(_START_EVENTS, self._started),
            **dict.fromkeys(_END_EVENTS, self._completed),
            **dict.fromkeys(("output_text.annotation.added", "output_text_annotation.added"), self._annotation),
            "output_item.added": self._added,
            "output_item.done": self._done,
            "content_part.added": self._part_added,
            "content_part.done": self._part_done,
            "output_text.delta": self._text_delta,
            "output_text.done": partial(self._set_text, field="text"),
            "refusal.delta": self._refusal_delta,
            "refusal.done": partial(self._set_text, field="refusal"),
            "reasoning_summary_text.delta": self._summary_delta,
            "reasoning_summary_text.done": partial(self._thinking_done, form="summary"),
            "reasoning_text.delta": self._content_delta,
            "reasoning_text.done": partial(self._thinking_done, form="content"),
            "function_call_arguments.delta": self._arguments_delta,
            "function_call_arguments.done": self._arguments_done,
            "custom_tool_call_input.delta": self._input_delta,
            "custom_tool_call_input.done": self._input_done,
        }

    def read_body(self, body: bytes) -> None:
        self._read_whole(decode_json(_RESPONSE, body), body)

    def read_frame(self, frame: Frame) -> None:
        if frame.data.strip() == b"[DONE]":
            raise truncated_error(NAME, "response.completed event")
        if frame.name == BARE:
            self._read_whole(decode_frame(_RESPONSE, frame), frame.data)
            return
        try:
            event: ResponsesStreamEvent = decode_frame(_EVENT, frame)
        except Malformed:
            # An unknown event may use the fields of known events for something else.
            if self._kind(decode_frame(_OBJECT, frame).get("type"), frame) in self._handlers:
                raise
            return
        kind = self._kind(event.type, frame)
        if kind in self._handlers:
            if event.response is None and kind in _SNAPSHOTS:
                # Some servers put the fields of the response into the event itself (seen 2025-11).
                event.response = decode_frame(_RESPONSE, frame)
            self._handlers[kind](event)
        elif kind == "error" or event.error:
            raise _error(decode_frame(_OBJECT, frame))

    @staticmethod
    def _kind(type: object, frame: Frame) -> str:
        return str(type or frame.name).removeprefix("response.")

    def _read_whole(self, response: ResponseObject, body: bytes) -> None:
        if response.output is None and response.status is None:
            data = decode_json(_OBJECT, body)
            if {"error", "message", "detail", "code"} & data.keys():
                raise _error(data)
            raise Malformed(f"{NAME}: the body has no output")
        self._end_with(response, response.status)

    def end(self) -> None:
        raise truncated_error(NAME, "response.completed event")

    # Which item -------------------------------------------------------------------------------------------------------

    def _slot(self, event: ResponsesStreamEvent, kind: str) -> _Slot | None:
        """The item that an event belongs to; None if the item is complete or of another type."""
        slot = self._find(event.output_index, event.item_id)
        if slot is None or (slot.type != kind and slot.type in _STREAMED and kind in _STREAMED):
            slot = self._new_slot(event, kind, without_none({"id": event.item_id}))
        return slot if slot.type == kind and slot.final is None else None

    def _ended(self, event: ResponsesStreamEvent, kind: str) -> _Slot | None:
        """The item whose whole text an event has; None if its id is new, because servers change ids (2026-08)."""
        is_new = self._find(event.output_index, event.item_id) is None
        return None if is_new and any(slot.type == kind for slot in self._slots) else self._slot(event, kind)

    def _find(self, *keys: int | str | None) -> _Slot | None:
        """An item by its index, else by its id; the last item if both are None."""
        present = tuple(key for key in keys if key is not None) or (None,)
        return next((self._by_key[key] for key in present if key in self._by_key), None)

    def _new_slot(self, event: ResponsesStreamEvent, kind: str, item: JsonObject) -> _Slot:
        last = self._slots[-1] if self._slots else None
        if last is not None and last.type == "reasoning" and last.final is None:
            self._open_thinking(last, None)
        check_open(self._unfinished)
        self._unfinished += 1
        slot = _Slot(number=len(self._slots), type=kind, added=item)
        self._slots.append(slot)
        for key in (event.output_index, event.item_id, _id(item), None):
            self._by_key[key] = slot
        return slot

    def _added(self, event: ResponsesStreamEvent) -> None:
        item = event.item or {}
        if (slot := self._same_item(event, item)) is None:
            self._new_slot(event, type_of(item), item)
        elif slot.final is None:
            slot.added = item

    def _same_item(self, event: ResponsesStreamEvent, item: JsonObject) -> _Slot | None:
        """The slot of an item that came before, in another event or in the same one, sent again."""
        slot = self._by_key.get(_id(item) if event.output_index is None else event.output_index)
        if slot is None or slot.type != type_of(item):
            return None
        known = _id(slot.final or slot.added)
        return slot if known is not None and known == _id(item) else None

    def _done(self, event: ResponsesStreamEvent) -> None:
        item = event.item or {}
        kind = type_of(item)
        slot = self._find(event.output_index, _id(item))
        if slot is not None and slot.final is not None and slot is self._same_item(event, item):
            return
        if slot is None or slot.final is not None or slot.type != kind:
            slot = self._new_slot(event, kind, item)
        self._end_item(slot, item)

    def _end_item(self, slot: _Slot, item: JsonObject) -> None:
        slot.final = item
        self._unfinished -= 1
        self.out.count_characters(len(encode_json(item)))
        if slot.type == "message":
            self._end_message(slot, item)
        elif slot.type == "reasoning":
            self._end_thinking(slot, item)
        self._release()

    def _release(self) -> None:
        """Emit the calls and other items that are complete, in order."""
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
        elif is_client_call(item):
            self.out.add_part(decode_client_call(item))
        elif slot.type == "image_generation_call":
            self.out.add_part(decode_image_call(item))
        elif (hosted := decode_hosted_item(item)) is not None:
            for part in hosted:
                self.out.add_part(part)
        else:
            self._asks_approval = self._asks_approval or slot.type == "mcp_approval_request"
            self.out.add_part(decode_other_item(item))

    # Messages ---------------------------------------------------------------------------------------------------------

    def _part_added(self, event: ResponsesStreamEvent) -> None:
        kind = type_of(event.part or {})
        if kind == "reasoning_text":
            self._thinking_delta(event, "content", "")
        elif kind in ("output_text", "refusal"):
            self._add_text(event, "", refused=kind == "refusal")

    def _part_done(self, event: ResponsesStreamEvent) -> None:
        part = event.part or {}
        slot = self._slot(event, "message") if type_of(part) in ("output_text", "refusal") else None
        if slot is not None:
            self.out.count_characters(len(encode_json(part)))
            slot.texts[event.content_index or 0] = part

    def _text_delta(self, event: ResponsesStreamEvent) -> None:
        self._add_text(event, event.delta, refused=False)

    def _refusal_delta(self, event: ResponsesStreamEvent) -> None:
        self._add_text(event, event.delta, refused=True)

    def _set_text(self, event: ResponsesStreamEvent, field: Literal["text", "refusal"]) -> None:
        """Keep a whole text: some servers send it without deltas, and without the item that has it."""
        slot, text = self._ended(event, "message"), event.text if field == "text" else event.refusal
        if slot is not None and isinstance(text, str):
            self._add_text(event, "", refused=field == "refusal")
            self.out.count_characters(len(text))
            slot.texts[event.content_index or 0][field] = text

    def _add_text(self, event: ResponsesStreamEvent, text: object, *, refused: bool) -> None:
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
            self.out.open(key, "text", text_extra(slot.early_fields, {}, refused=refused))
        return key

    def _annotation(self, event: ResponsesStreamEvent) -> None:
        self._add_text(event, "", refused=False)
        slot = self._slot(event, "message")
        if slot is not None:
            part = slot.texts[event.content_index or 0]
            annotations = part.get("annotations")
            self.out.count_characters(len(encode_json(event.annotation)))
            if is_list(annotations):
                annotations.append(event.annotation)
            else:
                part["annotations"] = [event.annotation]

    def _end_message(self, slot: _Slot, item: JsonObject) -> None:
        content = item.get("content")
        content = [{"type": "output_text", "text": content}] if isinstance(content, str) and content else content
        parts = objects(content)
        rest = message_extra(item)
        texts = [
            decode_output_text(part, rest) for part in parts or [slot.texts[index] for index in sorted(slot.texts)]
        ]
        indexes = self._streamed_indexes(slot, texts) if parts else sorted(slot.texts)
        if indexes is None:
            self._end_divided(slot, texts)
            return
        for index, text in zip(indexes, texts, strict=True):
            if isinstance(text, Opaque):
                self.out.add_part(text)
                continue
            key = self._open_text(slot, index, refused=_is_refusal(text))
            self._complete(key, "text", text.text)
            if text.extra:
                self.out.add_extra(key, NAME, text.extra[NAME])
            self.out.add_logprobs(key, text.logprobs)
            self.out.add_citations(key, text.citations)
            self.out.close(key)
        if not texts:
            self.out.add_part(Text(text="", extra=text_extra(rest, {EMPTY_MESSAGE: True}, refused=False)))

    def _streamed_indexes(self, slot: _Slot, texts: list[Text | Opaque]) -> list[int] | None:
        """The index in the stream of each part; None if the stream divided the text into other parts."""
        streamed = {index: self.out.text_of((slot.number, index)) for index in sorted(slot.texts)}
        return match_texts(streamed, [None if isinstance(text, Opaque) else text.text for text in texts])

    def _end_divided(self, slot: _Slot, parts: list[Text | Opaque]) -> None:
        """End a message whose parts are not those of the stream: the parts of the stream stay, each text comes once."""
        indexes = sorted(slot.texts)
        texts = [part for part in parts if isinstance(part, Text)]
        streamed = sum(len(self.out.text_of((slot.number, index))) for index in indexes)
        last = self._open_text(slot, indexes[-1], refused=False)
        self.out.delta(last, "text", "".join(text.text for text in texts)[streamed:])
        for place, text in enumerate(texts):
            self._refused = self._refused or _is_refusal(text)
            key = (slot.number, indexes[min(place, len(indexes) - 1)])
            if text.extra:
                self.out.add_extra(key, NAME, text.extra[NAME])
            self.out.add_logprobs(key, text.logprobs)
            self.out.add_citations(key, text.citations)
        for index in indexes:
            self.out.close((slot.number, index))
        for part in parts:
            if isinstance(part, Opaque):
                self.out.add_part(part)

    def _complete(self, key: object, kind: Literal["text", "thinking"], whole: str) -> None:
        """Emit the rest of a text whose deltas were incomplete."""
        streamed = self.out.text_of(key)
        if whole.startswith(streamed):
            self.out.delta(key, kind, whole[len(streamed) :])

    # Reasoning --------------------------------------------------------------------------------------------------------

    def _summary_delta(self, event: ResponsesStreamEvent) -> None:
        self._thinking_delta(event, "summary", event.delta)

    def _content_delta(self, event: ResponsesStreamEvent) -> None:
        self._thinking_delta(event, "content", event.delta)

    def _thinking_done(self, event: ResponsesStreamEvent, form: Literal["content", "summary"]) -> None:
        """Add the whole text of a section that had no deltas."""
        slot = self._ended(event, "reasoning")
        section = (event.content_index if form == "content" else event.summary_index) or 0
        if slot is not None and section not in slot.sections:
            self._thinking_delta(event, form, event.text)

    def _thinking_delta(self, event: ResponsesStreamEvent, form: str, text: object) -> None:
        slot = self._slot(event, "reasoning")
        if slot is None or not isinstance(text, str):
            return
        self._open_thinking(slot, form)
        section = (event.content_index if form == "content" else event.summary_index) or 0
        if text and slot.form == form:
            gap = "\n\n" if slot.section != section and self.out.text_of(slot.number) else ""
            slot.section = section
            slot.sections.add(section)
            self.out.delta(slot.number, "thinking", gap + text)

    def _open_thinking(self, slot: _Slot, form: str | None) -> None:
        slot.form = slot.form or form
        if not self.out.is_open(slot.number):
            raw = {"content": [{"type": "reasoning_text", "text": ""}]} if form == "content" else {}
            self.out.open(slot.number, "thinking", {NAME: {**slot.early_fields, **raw}})

    def _end_thinking(self, slot: _Slot, item: JsonObject) -> None:
        thinking = decode_reasoning(item)
        self._open_thinking(slot, "content" if item.get("content") else None)
        self._complete(slot.number, "thinking", thinking.text)
        text = self.out.text_of(slot.number)
        if not thinking.text and slot.form == "summary":
            thinking.extra[NAME].pop("summary", None)
        if slot.form == "content" and not item.get("content"):
            thinking.extra[NAME]["content"] = [{"type": "reasoning_text", "text": text}]
        self.out.add_extra(slot.number, NAME, thinking.extra[NAME])
        self.out.close(slot.number, redacted=not text)

    # Calls ------------------------------------------------------------------------------------------------------------

    def _arguments_delta(self, event: ResponsesStreamEvent) -> None:
        self._arguments(event, "function_call", event.delta)

    def _input_delta(self, event: ResponsesStreamEvent) -> None:
        self._arguments(event, CUSTOM, event.delta)

    def _arguments(self, event: ResponsesStreamEvent, kind: str, text: object) -> None:
        slot = self._slot(event, kind)
        if slot is not None and isinstance(text, str):
            self.out.count_characters(len(text))
            slot.pieces.append(text)
            if self.out.call_deltas and slot.added.get("name"):
                self._stream_call(slot, text)

    def _stream_call(self, slot: _Slot, text: str) -> None:
        """Emit a fragment; the input of a custom tool is a member of the arguments."""
        if slot.type == CUSTOM:
            start = "" if self.out.is_open(slot.number) else _INPUT_START
            text = start + encode_json(text).decode()[1:-1]
        self._open_call(slot, {key: value for key, value in slot.added.items() if key != "status"})
        self.out.add_call_fragment(slot.number, text=text)

    def _open_call(self, slot: _Slot, item: JsonObject) -> None:
        if not self.out.is_open(slot.number):
            name, extra = name_and_extra(item, str(item.get("name") or ""))
            self.out.add_call_fragment(slot.number, id=str(item.get("call_id") or ""), name=name)
            for wire, data in extra.items():
                self.out.add_extra(slot.number, wire, data)

    def _arguments_done(self, event: ResponsesStreamEvent) -> None:
        slot = self._slot(event, "function_call")
        if slot is not None and isinstance(event.arguments, str):
            self.out.count_characters(len(event.arguments))
            slot.pieces = [event.arguments]

    def _input_done(self, event: ResponsesStreamEvent) -> None:
        slot = self._ended(event, CUSTOM)
        if slot is not None and isinstance(event.input, str):
            self.out.count_characters(len(event.input))
            slot.pieces = [event.input]

    def _call(self, slot: _Slot, item: JsonObject) -> None:
        field = "input" if slot.type == CUSTOM else "arguments"
        arguments = item.get(field) or "".join(slot.pieces)
        text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
        if item.get("status") == "incomplete":
            why = f"the response ended in the middle of its arguments: {text}"
            self.out.notices.append(Notice(kind="dropped", what=f"tool call {item.get('name')}", why=why))
            self.out.drop_call(slot.number)
            return
        self._open_call(slot, item)
        _, extra = name_and_extra(item, str(item.get("name") or ""))
        for wire, data in extra.items():
            self.out.add_extra(slot.number, wire, data)
        if slot.type == CUSTOM:
            text = encode_json({"input": text}).decode()
        self.out.replace_call_text(slot.number, text)
        self.out.close(slot.number)

    # The end ----------------------------------------------------------------------------------------------------------

    def _started(self, event: ResponsesStreamEvent) -> None:
        self._start(event.response or ResponseObject())

    def _start(self, response: ResponseObject) -> None:
        self.out.start(id=str(response.id or ""), model=response.model, created=to_timestamp(response.created_at))

    def _completed(self, event: ResponsesStreamEvent) -> None:
        response = event.response or ResponseObject()
        kind = str(event.type).removeprefix("response.")
        self._end_with(response, response.status or ("completed" if kind == "done" else kind))

    def _end_with(self, response: ResponseObject, status: str | None) -> None:
        out = self.out
        self._start(response)
        if response.usage is not None:
            out.usage = read_usage(response.usage)
        if isinstance(response.service_tier, str):
            out.service_tier = response.service_tier
        if response.error or status in ("failed", "cancelled"):
            error = response.error or {"code": status, "message": f"the response ended with status {status}"}
            raise _error({"error": error, FILTERS: response.content_filters}, usage=out.usage)
        output = _Output(response.output or [])
        for slot in self._slots:
            item = output.take(slot)
            if slot.final is None:
                self._end_item(slot, _incomplete_item(slot, status) if item is None else item)
        for item in output.remaining():
            self._end_item(self._new_slot(ResponsesStreamEvent(), type_of(item), item), item)
        note_cut_prompt(out, self._request, NAME)
        detail = (response.incomplete_details or {}).get("reason")
        raw = detail if isinstance(detail, str) and detail else status
        reason = finish_reason(raw, calls=out.has_calls, asks_approval=self._asks_approval, refused=self._refused)
        is_blocked, extra = self._read_filters(response)
        out.finish(Finish(reason="blocked" if is_blocked and reason == "stop" else reason, raw=raw, extra=extra))

    def _read_filters(self, response: ResponseObject) -> tuple[bool, dict[str, Any]]:
        """Whether a content filter blocked the answer, and the results for the `extra` of the finish."""
        scores: JsonObject = {"moderation": response.moderation} if response.moderation else {}
        known = objects(response.content_filters)
        if not known:
            return False, make_extra(NAME, scores)
        answer = [item for item in known if item.get("source_type") != "prompt"]
        prompt = [item for item in known if item.get("source_type") == "prompt"]
        self.out.notices.extend(filter_notices(prompt_results(prompt), prompt_results(answer)))
        return any(item.get("blocked") is True for item in answer), make_extra(NAME, {FILTERS: known, **scores})


class _Output:
    """The items of the final snapshot, matched with the items of the stream."""

    def __init__(self, items: list[JsonObject]) -> None:
        self._items = dict(enumerate(items))
        self._places: dict[tuple[str, int | str | None], deque[int]] = {}
        for place, item in self._items.items():
            for key in {_id(item), None}:
                self._places.setdefault((type_of(item), key), deque()).append(place)

    def take(self, slot: _Slot) -> JsonObject | None:
        """Remove the item of a slot: by id, else by type in order, because some servers send a new id in each event."""
        for key in (_id(slot.final or slot.added), None):
            places = self._places.get((slot.type, key), deque())
            while places:
                if (item := self._items.pop(places.popleft(), None)) is not None:
                    return item
        return None

    def remaining(self) -> list[JsonObject]:
        """The items that were not in the stream."""
        return list(self._items.values())


def _incomplete_item(slot: _Slot, status: str | None) -> JsonObject:
    """An item that was never completed, from what the stream sent."""
    if slot.type in _CALLS:
        text = "".join(slot.pieces)
        cut = status == "incomplete" and not (text and parse_arguments(text) is not None)
        rest = {key: value for key, value in slot.added.items() if key not in ("arguments", "input", "status")}
        return {**rest, "type": slot.type, **({"status": "incomplete"} if cut else {})}
    return {"type": slot.type, **slot.early_fields} if slot.type in _STREAMED else slot.added


def _error(data: JsonObject, *, usage: Usage | None = None) -> ProviderError:
    fields = {key: value for key, value in data.items() if key not in ("type", "sequence_number")}
    error = fields.get("error")
    code = error.get("code") if is_object(error) else fields.get("code")
    return error_from_json({**fields, "status_code": 400} if str(code) in PERMANENT_CODES else fields, usage=usage)


def _is_refusal(text: Text) -> bool:
    return bool(wire_extra(text.extra, NAME).get("refusal"))


def match_texts(streamed: dict[int, str], final: list[str | None]) -> list[int] | None:
    """The index in the stream of each text of a complete message; None stands for a part that is not text.

    Some servers count the parts of the stream from another number, or count parts that the complete message does not
    have (seen 2026-11). The result is None if the same text was divided into other parts.

    >>> match_texts({1: "Hel"}, ["Hello"]), match_texts({0: "a", 1: "b"}, ["ab"])
    ([1], None)
    """
    indexes = {i: i for i, text in enumerate(final) if i in streamed and (text or "").startswith(streamed[i])}
    free = [index for index in streamed if index not in indexes]
    for place, text in enumerate(final):
        if place not in indexes and text:
            index = next((index for index in free if streamed[index] and text.startswith(streamed[index])), None)
            if index is not None:
                indexes[place] = index
                free.remove(index)
    whole = "".join(text or "" for text in final)
    if any(streamed[index] for index in free) and whole.startswith("".join(streamed.values())):
        return None
    unused = iter([*free, *range(max(streamed, default=-1) + 1, max(streamed, default=-1) + 1 + len(final))])
    return [indexes[place] if place in indexes else next(unused) for place in range(len(final))]


def _id(item: JsonObject) -> int | str | None:
    id = item.get("id")
    return id if isinstance(id, int | str) else None
