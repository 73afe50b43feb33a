"""Encodes answers for clients of Converse, streamed or whole.

A stream has one block at a time. Parts that interleave wait until the current block ends.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from dragoman.errors import DragomanError, RequestError
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import (
    Document,
    Finish,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Opaque,
    Part,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
    is_object,
)
from dragoman.types.arguments import arguments_text
from dragoman.wires.bedrock.hosted_tools import encode_hosted, write_citations
from dragoman.wires.bedrock.parts import encode_block, encode_call
from dragoman.wires.bedrock.schema import FINISH_REASONS, NAME, NO_METRICS, STOP_REASONS, write_usage
from dragoman.wires.common.aws_errors import encode_error, exception_name
from dragoman.wires.common.event_stream import CONTENT_TYPE, encode_event, encode_exception
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.json import encode_json, object_of
from dragoman.wires.common.notices import NoticeCollector, encode_notices
from dragoman.wires.common.options import finish_word, tier_word
from dragoman.wires.common.part_order import PartEvent, PartOrder

_LATE_FIELDS = frozenset({"metrics", "trace", "performanceConfig"})
"""Members of an answer that a stream has in `metadata`; the others are in `messageStop`."""

_RESPONSE_FIELDS = "additionalModelResponseFields"
"""The only member of `messageStop` in which Converse allows members of any name."""


def encode_end(finish: Finish, usage: Usage, tier: str | None) -> tuple[JsonObject, JsonObject]:
    """The members of `messageStop` and of `metadata`."""
    extra = wire_extra(finish.extra, NAME)
    stop: JsonObject = {"stopReason": finish_word(finish, FINISH_REASONS, STOP_REASONS)}
    stop |= {key: value for key, value in extra.items() if key not in _LATE_FIELDS and key != "usage"}
    more = extra.get("usage")
    counts = {**write_usage(usage), **object_of(more)}
    late = {key: value for key, value in extra.items() if key in _LATE_FIELDS}
    word = tier_word(tier, "default")
    return stop, {"usage": counts, "metrics": NO_METRICS, **({"serviceTier": {"type": word}} if word else {}), **late}


EncodeEnd: TypeAlias = Callable[[Finish, Usage, str | None], tuple[JsonObject, JsonObject]]
"""Makes the members of `messageStop` and of `metadata`."""


def encode_answer(response: Response, end: EncodeEnd = encode_end) -> JsonObject:
    """The body of a whole answer."""
    blocks = [block for part in response.message.parts if (block := encode_answer_part(part)) is not None]
    stop, metadata = end(response.finish, response.usage, response.service_tier)
    return {"output": {"message": {"role": "assistant", "content": blocks}}, **stop, **metadata}


def encode_answer_part(part: Part) -> JsonObject | None:
    """The block of a part; None if the API has no such block."""
    match part:
        case Thinking(redacted=True, text="") if NAME not in part.extra:
            return None
        case ToolCall():
            return {"toolUse": encode_call(part, part.id)}
        case Opaque() if part.wire != NAME:
            return None
        case HostedCall() | HostedResult():
            return encode_hosted(part)
        case Text(citations=(_, *_)) if NAME not in part.extra:
            return {"citationsContent": {"content": [{"text": part.text}], "citations": write_citations(part)}}
        case Text() | Thinking() | Image() | Document() | Opaque():
            try:
                return encode_block(part, NoticeCollector(NAME))
            except RequestError:
                return None
        case _:
            return None


def _event(name: str, **members: Any) -> bytes:
    return encode_event(name, encode_json(members))


class ConverseStreamEncoder:
    """Encodes the events of one answer."""

    content_type = CONTENT_TYPE

    def __init__(self, end: EncodeEnd = encode_end) -> None:
        self._end = end
        self._index = 0
        self._order = PartOrder(self._write)
        self._kind = ""
        self._has_started = False
        """Whether the current block is a call that was begun before its end."""
        self._has_delta = False

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartStarted() | PartDelta() | CallDelta() | PartEnded():
                return self._order.feed(event)
            case Started():
                return _event("messageStart", role="assistant")
            case Finished():
                stop, metadata = self._end(event.finish, event.usage, event.service_tier)
                if late := encode_notices(event.notices):
                    stop[_RESPONSE_FIELDS] = {**object_of(stop.get(_RESPONSE_FIELDS)), **late}
                return (
                    self._order.cut(lambda: self._stop() if self._has_started else b"")
                    + _event("messageStop", **stop)
                    + _event("metadata", **metadata)
                )
            case Ping():
                return b""
            case _:
                name = exception_name(event)
                return encode_exception(name[0].lower() + name[1:], encode_json(encode_error(event)))

    def _write(self, event: PartEvent) -> bytes:
        match event:
            case PartStarted():
                self._has_delta = False
                self._kind = event.kind
                self._has_started = event.name is not None
                call = {"toolUseId": event.id, "name": event.name, **wire_extra(event.extra, NAME)}
                return self._start({"toolUse": call}) if self._has_started else b""
            case PartDelta():
                self._has_delta = True
                return self._text(event.text)
            case CallDelta():
                return self._delta({"toolUse": {"input": event.text}})
            case _:
                return self._part_ended(event.part)

    def _text(self, text: str) -> bytes:
        return self._delta({"text": text} if self._kind == "text" else {"reasoningContent": {"text": text}})

    def _delta(self, delta: JsonObject) -> bytes:
        return _event("contentBlockDelta", contentBlockIndex=self._index, delta=delta)

    def _start(self, start: JsonObject) -> bytes:
        return _event("contentBlockStart", contentBlockIndex=self._index, start=start)

    def _part_ended(self, part: Part) -> bytes:
        block = encode_answer_part(part)
        if block is None:
            return b""
        return (b"" if self._has_started else self._content(part, block)) + self._stop()

    def _stop(self) -> bytes:
        self._index += 1
        return _event("contentBlockStop", contentBlockIndex=self._index - 1)

    def _content(self, part: Part, block: JsonObject) -> bytes:
        """Encode what the deltas did not contain."""
        match part:
            case ToolCall():
                call = {key: value for key, value in block["toolUse"].items() if key != "input"}
                return self._start({"toolUse": call}) + self._delta({"toolUse": {"input": arguments_text(part)}})
            case Text() if self._kind == "text":
                data = b"" if self._has_delta else self._text(part.text)
                return data + b"".join(self._delta({"citation": citation}) for citation in write_citations(part))
            case Thinking() if "redactedContent" in block["reasoningContent"]:
                return self._delta(block)
            case Thinking():
                data = b"" if self._has_delta else self._text(part.text)
                signature = wire_extra(part.extra, NAME).get("signature")
                return data + (self._delta({"reasoningContent": {"signature": signature}}) if signature else b"")
            case _:
                return self._whole(block)

    def _whole(self, block: JsonObject) -> bytes:
        """Encode a whole block; the input of a call and the content of a result go into a delta."""
        match block:
            case {"toolUse": call} if is_object(call):
                start, delta = _split(call, "input")
                return self._start({"toolUse": start}) + self._delta(
                    {"toolUse": {"input": encode_json(delta).decode()}}
                )
            case {"image": image} if is_object(image):
                delta = {name: value for name, value in image.items() if name in ("source", "error")}
                start = {name: value for name, value in image.items() if name not in delta}
                return self._start({"image": start}) + (self._delta({"image": delta}) if delta else b"")
            case {"toolResult": result} if is_object(result):
                start, delta = _split(result, "content")
                return self._start({"toolResult": start}) + (self._delta({"toolResult": delta}) if delta else b"")
            case _:
                return self._start(block)


def _split(data: JsonObject, field: str) -> tuple[JsonObject, Any]:
    return {key: value for key, value in data.items() if key != field}, data.get(field)
