"""Encodes answers for clients of the Interactions API, streamed or whole.

In a stream each part is a step of its own, one after another: deltas do not tell the contents of a step apart.
"""

from typing import Any

from dragoman.errors import Blocked, DragomanError, ModelNotFound
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import (
    Finish,
    HostedCall,
    HostedResult,
    JsonObject,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    is_list,
    is_object,
)
from dragoman.types.arguments import arguments_text
from dragoman.wires.common.citations import write_annotation
from dragoman.wires.common.errors import context_error_message, is_out_of_credit
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.notices import encode_late_notices
from dragoman.wires.common.options import finish_word, tier_word
from dragoman.wires.common.part_order import PartEvent, PartOrder
from dragoman.wires.common.times import write_time
from dragoman.wires.google_interactions.hosted_tools import encode_hosted
from dragoman.wires.google_interactions.parts import encode_content, encode_step, encode_steps, is_content_part
from dragoman.wires.google_interactions.previous_interaction import echoed_fields
from dragoman.wires.google_interactions.schema import (
    BLOCK_CODE,
    BLOCKED,
    ERROR_CODES,
    FINISH_REASONS,
    NAME,
    NO_MESSAGE,
    STATUSES,
    TOO_LONG,
    write_usage,
)

DONE = b"event: done\ndata: [DONE]\n\n"


def encode_answer(response: Response) -> JsonObject:
    """The body of a whole answer."""
    parts = [part for part in response.message.parts if can_encode(part) and not _is_silent(part)]
    end = _encode_end(response.finish, response.usage, response.service_tier)
    return {**_head(response.id, response.model, response.created), **end, "steps": encode_steps(parts, "model_output")}


def can_encode(part: Part) -> bool:
    """Whether answers of the API can have the part."""
    match part:
        case Thinking(redacted=True, text="") if NAME not in part.extra:
            return False
        case Opaque():
            return part.wire == NAME
        case ToolResult():
            return False
        case HostedCall() | HostedResult():
            return encode_hosted(part) is not None
        case _:
            return True


def _is_silent(part: Part) -> bool:
    """Whether a part is a text or a thought without content."""
    return isinstance(part, Text | Thinking) and not part.text and not wire_extra(part.extra, NAME)


def _head(id: str | None, model: str | None, created: int | None) -> JsonObject:
    return without_none({"id": id, "object": "interaction", "model": model, "created": write_time(created)})


def _encode_end(finish: Finish, usage: Usage, tier: str | None) -> JsonObject:
    """The members of an interaction that say how it ended."""
    extra = dict(wire_extra(finish.extra, NAME))
    more = extra.pop("usage", None)
    tokens = {} if usage.source == "unknown" else write_usage(usage, object_of(more))
    if finish.reason == "blocked" and not extra.get("errors"):
        extra["errors"] = [{"code": finish.raw if finish.raw in BLOCKED else BLOCK_CODE, "message": NO_MESSAGE}]
    fields = {"service_tier": tier_word(tier, "standard"), "usage": tokens or None}
    return {"status": finish_word(finish, FINISH_REASONS, STATUSES), **without_none(fields), **extra}


def encode_error(error: DragomanError) -> JsonObject:
    """The body of an error."""
    code = ERROR_CODES.get(error.http_status) or ("invalid_request" if error.http_status < 500 else "api_error")
    if is_out_of_credit(error):
        code = "quota_exceeded"
    elif isinstance(error, ModelNotFound):
        code = "model_not_found"
    elif isinstance(error, Blocked):
        code = BLOCK_CODE
    return {"error": {"message": context_error_message(error, TOO_LONG), "code": code}}


class InteractionsStreamEncoder:
    """Encodes the events of one answer."""

    content_type = "text/event-stream"

    def __init__(self, request: Request | None = None) -> None:
        self._request = request
        self._head: JsonObject = {}
        self._count = 0
        """How many events there are: their ids count from 1."""
        self._index = 0
        self._order = PartOrder(self._write)
        self._kind = ""
        self._is_open = False
        """Whether the start of the current step is written."""
        self._has_delta = False

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartStarted() | PartDelta() | CallDelta() | PartEnded():
                return self._order.feed(event)
            case Started():
                self._head = _head(event.id, event.model, event.created)
                created = self._event("interaction.created", interaction={**self._head, "status": "in_progress"})
                id = event.id or ""
                return created + self._event("interaction.status_update", interaction_id=id, status="in_progress")
            case Finished():
                end = _encode_end(event.finish, event.usage, event.service_tier)
                cut = self._order.cut(lambda: self._stop() if self._is_open else b"")
                whole = {**self._head, **end, **echoed_fields(self._request), **encode_late_notices(event.notices)}
                return cut + self._event("interaction.completed", interaction=whole) + DONE
            case Ping():
                return b": ping\n\n"
            case _:
                return self._event("error", **encode_error(event))

    def _event(self, name: str, **members: Any) -> bytes:
        self._count += 1
        return encode_sse(encode_json({"event_type": name, **members, "event_id": str(self._count)}), name=name)

    def _write(self, event: PartEvent) -> bytes:
        match event:
            case PartStarted():
                self._kind, self._has_delta = event.kind, False
                if event.name is None:
                    return b""
                call: JsonObject = {"type": "function_call", "id": event.id, "name": event.name, "arguments": {}}
                return self._start({**call, **wire_extra(event.extra, NAME)})
            case PartDelta():
                self._has_delta = True
                return self._text(event.text)
            case CallDelta():
                return self._delta({"type": "arguments_delta", "arguments": event.text})
            case _:
                return self._part_ended(event.part)

    def _start(self, step: JsonObject) -> bytes:
        self._is_open = True
        return self._event("step.start", index=self._index, step=step)

    def _delta(self, delta: JsonObject) -> bytes:
        return self._event("step.delta", index=self._index, delta=delta)

    def _stop(self) -> bytes:
        self._is_open = False
        self._index += 1
        return self._event("step.stop", index=self._index - 1)

    def _text(self, text: str) -> bytes:
        delta: JsonObject = {"type": "text", "text": text}
        if self._kind != "text":
            delta = {"type": "thought_summary", "content": delta}
        return (b"" if self._is_open else self._start(self._step())) + self._delta(delta)

    def _step(self) -> JsonObject:
        """The start of the step of a text or a thought."""
        return {"type": "model_output" if self._kind == "text" else "thought"}

    def _part_ended(self, part: Part) -> bytes:
        """Write what the deltas did not contain."""
        if not self._is_open and (not can_encode(part) or _is_silent(part)):
            return b""
        match part:
            case Text() | Thinking():
                text = b"" if self._has_delta or not part.text else self._text(part.text)
                data = text + self._rest(part)
            case ToolCall():
                data = b"" if self._is_open else self._call(part)
            case _:
                data = self._whole(part)
        return data + self._stop() if self._is_open else data

    def _rest(self, part: Text | Thinking) -> bytes:
        """The members of a text or a thought that are not its text."""
        extra = wire_extra(part.extra, NAME)
        deltas: list[JsonObject] = []
        if isinstance(part, Text):
            annotations = extra.get("annotations") or [write_annotation(each, part.text) for each in part.citations]
            deltas += [{"type": "text_annotation_delta", "annotations": annotations}] if annotations else []
        else:
            summary = extra.get("summary")
            images = [item for item in (summary if is_list(summary) else ()) if not _is_text(item)]
            deltas += [{"type": "thought_summary", "content": image} for image in images]
            deltas += [{"type": "thought_signature", "signature": extra["signature"]}] if "signature" in extra else []
        opening = b"" if self._is_open or not deltas else self._start(self._step())
        return opening + b"".join(map(self._delta, deltas))

    def _call(self, call: ToolCall) -> bytes:
        start = self._start({**encode_step(call), "arguments": {}})
        return start + self._delta({"type": "arguments_delta", "arguments": arguments_text(call)})

    def _whole(self, part: Part) -> bytes:
        if is_content_part(part):
            return self._start({"type": "model_output"}) + self._delta(encode_content(part))
        return self._start(encode_step(part))


def _is_text(content: object) -> bool:
    return is_object(content) and content.get("type") == "text"
