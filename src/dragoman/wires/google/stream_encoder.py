"""Events of an answer in, the bytes of its chunks out: as events or as a JSON array."""

from datetime import UTC, datetime

import msgspec

from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import Finish, JsonObject, Opaque, Part, Request, Text, Thinking, ToolCall, ToolResult, Usage
from dragoman.wires.common.errors import context_error_message
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import JsonArrayEncoder, encode_sse
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.options import finish_word
from dragoman.wires.google.parts import encode_call, encode_part, part_extra, wire_id
from dragoman.wires.google.schema import (
    ALT,
    FINISH_NOTES,
    FINISH_REASONS,
    FINISH_VALUES,
    NAME,
    STATUS_WORDS,
    TEXT_NOTES,
    TOO_LONG,
    write_usage,
)


class GeminiStreamEncoder:
    """Events to chunks."""

    def __init__(self, request: Request) -> None:
        array = request.extra.get(ALT) == "json"
        self.content_type = "application/json" if array else "text/event-stream"
        self._array = JsonArrayEncoder() if array else None
        self._head: JsonObject = {}
        self._thoughts: set[int] = set()
        self._held: set[int] = set()
        self._streamed: set[int] = set()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        match event:
            case PartDelta():
                return self._delta(event)
            case PartStarted():
                # What has a signature is one part, so it waits until it is whole.
                self._held |= {event.index} if part_extra(event.extra) else set()
                self._thoughts |= {event.index} if event.kind == "thinking" else set()
                return b""
            case PartEnded():
                return self._ended(event.index, event.part)
            case Started():
                self._head = encode_head(event.id, event.model, event.created)
                return b""
            case Finished():
                return self._finished(event.finish, event.usage)
            case Ping():
                # The official Python package reads a comment as a broken chunk (2.25, 2026-11).
                return b""
            case _:
                return self._frame(encode_failure(event)) + self._close()

    def _frame(self, data: JsonObject) -> bytes:
        encoded = encode_json(data)
        return encode_sse(encoded) if self._array is None else self._array.feed(encoded)

    def _close(self) -> bytes:
        return b"" if self._array is None else self._array.feed(b"")

    def _chunk(self, part: JsonObject | None, notes: JsonObject) -> bytes:
        content = {} if part is None else {"content": {"role": "model", "parts": [part]}}
        return self._frame({"candidates": [{"index": 0, **content, **notes}], **self._head})

    def _delta(self, event: PartDelta) -> bytes:
        if event.index in self._held:
            return b""
        self._streamed.add(event.index)
        thought = {"thought": True} if event.index in self._thoughts else {}
        return self._chunk({"text": event.text, **thought}, {})

    def _ended(self, index: int, part: Part) -> bytes:
        encoded = None if index in self._streamed else encode_said(part)
        notes = text_notes(part)
        return self._chunk(encoded, notes) if encoded or notes else b""

    def _finished(self, finish: Finish, usage: Usage) -> bytes:
        blocked = "promptFeedback" in wire_extra(finish.extra, NAME)
        end = encode_end(finish, [] if blocked else [{"text": ""}], {})
        told = without_none({"usageMetadata": write_usage(usage)})
        return self._frame({**end, **told, **self._head}) + self._close()


def encode_failure(error: DragomanError) -> JsonObject:
    """The refusal in this dialect."""
    status = error.http_status
    word = STATUS_WORDS.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    details: list[JsonObject] = []
    if error.retry_after is not None:
        details.append({"@type": f"{_RPC}.RetryInfo", "retryDelay": f"{error.retry_after}s"})
    if error.param is not None:
        violation = {"field": error.param, "description": error.message}
        details.append({"@type": f"{_RPC}.BadRequest", "fieldViolations": [violation]})
    told = {"code": status, "message": context_error_message(error, TOO_LONG), "status": word}
    return {"error": {**told, **({"details": details} if details else {})}}


_RPC = "type.googleapis.com/google.rpc"


def encode_said(part: Part) -> JsonObject | None:
    """A part of an answer; None where it has nothing to say in this dialect."""
    match part:
        case ToolCall():
            # A call that came from this wire without an id is passed on without one, so that none leaks to it later.
            return encode_call(part, wire_id(part) if NAME in part.extra else part.id)
        case Opaque() if part.wire != NAME:
            return None
        case Text() | Thinking() if not part.text and not part_extra(part.extra):
            return None
        case ToolResult():
            return None
        case Thinking(redacted=True) if part.text:
            return encode_part(msgspec.structs.replace(part, redacted=False))
        case _:
            return encode_part(part)


def text_notes(part: Part) -> JsonObject:
    """What belongs to a text and stands beside it in this dialect."""
    extra = wire_extra(part.extra, NAME) if isinstance(part, Text) else {}
    return {key: extra[key] for key in TEXT_NOTES if key in extra}


def encode_head(id: str | None, model: str | None, created: int | None) -> JsonObject:
    """What every chunk tells of the answer."""
    known = created is not None and 0 <= created < _YEAR_10000
    time = datetime.fromtimestamp(created or 0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if known else None
    return without_none({"modelVersion": model, "createTime": time, "responseId": id})


_YEAR_10000 = 253402300800


def encode_end(finish: Finish, parts: list[JsonObject], notes: JsonObject) -> JsonObject:
    """The candidate that says why it ended; of a prompt that was blocked, the reason in its place."""
    ending = wire_extra(finish.extra, NAME)
    feedback = {"promptFeedback": ending["promptFeedback"]} if "promptFeedback" in ending else {}
    if feedback and not parts:
        return feedback
    candidate = {
        "index": 0,
        "content": {"role": "model", **({"parts": parts} if parts else {})},
        "finishReason": finish_word(finish, FINISH_REASONS, FINISH_VALUES),
        **notes,
        **{key: ending[key] for key in (*TEXT_NOTES, *FINISH_NOTES) if key in ending},
    }
    return {"candidates": [candidate], **feedback}
