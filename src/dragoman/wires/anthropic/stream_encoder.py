"""Encodes answers for clients of the Messages API, streamed or whole.

The API streams one block at a time. Parts that interleave wait until the current block ends. A text starts its block at
once; thinking of another wire waits for its first delta, because it may turn out to be encrypted and left out.
"""

from typing import Any

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
    is_list,
    is_object,
)
from dragoman.types.arguments import arguments_text
from dragoman.wires.anthropic.citations import with_citations
from dragoman.wires.anthropic.hosted_tools import encode_hosted
from dragoman.wires.anthropic.parts import encode_block, encode_image
from dragoman.wires.anthropic.schema import (
    ERROR_TYPES,
    ERRORS_BY_STATUS,
    EVENT_FIELDS,
    FINER_ERRORS,
    FINISH_REASONS,
    NAME,
    STOP_REASONS,
    TOO_LONG,
    write_usage,
)
from dragoman.wires.common.errors import context_error_message, is_out_of_credit
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector, encode_notices
from dragoman.wires.common.options import finish_word, tier_word
from dragoman.wires.common.part_order import PartEvent, PartOrder


def encode_error(error: DragomanError) -> JsonObject:
    """The body of an error."""
    by_class = next(name for kind, name in ERROR_TYPES if isinstance(error, kind))
    by_status = ERRORS_BY_STATUS.get(error.http_status, by_class)
    request_id = {} if error.request_id is None else {"request_id": error.request_id}
    kind = "billing_error" if is_out_of_credit(error) else error.code if error.code in FINER_ERRORS else by_status
    return {"type": "error", "error": {"type": kind, "message": context_error_message(error, TOO_LONG)}, **request_id}


def encode_answer(response: Response) -> JsonObject:
    """The body of a whole answer."""
    blocks = [block for part in response.message.parts if (block := encode_answer_part(part)) is not None]
    stop, usage = _encode_end(response.finish, response.usage, response.service_tier)
    return {**_message(response.id, response.model), "content": blocks, **stop, "usage": usage}


def _message(id: str | None, model: str | None) -> JsonObject:
    return {"id": id or "", "type": "message", "role": "assistant", "model": model or ""}


def _encode_end(finish: Finish, usage: Usage, tier: str | None) -> tuple[JsonObject, JsonObject]:
    """The members of the stop reason, and the usage."""
    extra = wire_extra(finish.extra, NAME)
    rest = {key: value for key, value in extra.items() if key != "usage"}
    stop = {"stop_reason": finish_word(finish, FINISH_REASONS, STOP_REASONS), "stop_sequence": None, **rest}
    own = extra.get("usage", {})
    return stop, {
        **write_usage(usage, own),
        **without_none({"service_tier": tier_word(tier, "standard")}),
        **own,
    }


def encode_answer_part(part: Part) -> JsonObject | None:
    """The block of a part; None if the API has no such block."""
    match part:
        case Thinking(redacted=True, text="") if NAME not in part.extra:
            return None
        case Thinking() if part.text or not part.redacted:
            return {"type": "thinking", "thinking": part.text, "signature": "", **wire_extra(part.extra, NAME)}
        case ToolCall():
            call = {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
            return {**call, **wire_extra(part.extra, NAME)}
        case Image() | Document():
            return _encode_media(part)
        case Text(citations=(_, *_)):
            return {"type": "text", "text": part.text, **with_citations(part)}
        case Text() | Thinking():
            return encode_block(part, NoticeCollector(NAME))
        case HostedCall() | HostedResult():
            return encode_hosted(part)
        case Opaque() if part.wire == NAME:
            return part.data
        case _:
            return None


def _encode_media(part: Image | Document) -> JsonObject | None:
    try:
        return encode_image(part) if isinstance(part, Image) else encode_block(part, NoticeCollector(NAME))
    except RequestError:
        return None


def _sse(kind: str, **members: Any) -> bytes:
    return encode_sse(encode_json({"type": kind, **members}), name=kind)


class AnthropicStreamEncoder:
    """Encodes the events of one answer."""

    content_type = "text/event-stream"

    def __init__(self) -> None:
        self._index = 0
        self._order = PartOrder(self._write)
        self._kind = ""
        self._has_started = False
        self._has_delta = False

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartStarted() | PartDelta() | CallDelta() | PartEnded():
                return self._order.feed(event)
            case Started():
                usage = {"input_tokens": 0, "output_tokens": 0}
                rest: JsonObject = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
                return _sse("message_start", message={**_message(event.id, event.model), **rest})
            case Finished():
                return self._order.cut(lambda: self._stop() if self._has_started else b"") + self._finished(event)
            case Ping():
                return _sse("ping")
            case _:
                return encode_sse(encode_json(encode_error(event)), name="error")

    def _write(self, event: PartEvent) -> bytes:
        match event:
            case PartStarted():
                self._has_started = self._has_delta = False
                self._kind = event.kind
                own = wire_extra(event.extra, NAME)
                if event.name is not None:
                    self._has_started = True
                    return self._start({"type": "tool_use", "id": event.id, "name": event.name, "input": {}, **own})
                # Thinking of another wire may turn out to be encrypted, which this API cannot express.
                is_early = event.kind == "text" or (event.kind == "thinking" and NAME in event.extra)
                return self._begin(own) if is_early and "data" not in own else b""
            case PartDelta():
                self._has_delta = True
                return self._begin({}) + self._delta(*_DELTA[self._kind], event.text)
            case CallDelta():
                return self._delta("input_json_delta", "partial_json", event.text)
            case _:
                return self._part_ended(event.part)

    def _begin(self, extra: JsonObject) -> bytes:
        """Start a text or thinking block, once."""
        if self._has_started:
            return b""
        self._has_started = True
        rest = {key: value for key, value in extra.items() if key != _LATE[self._kind]}
        return self._start({"type": self._kind, **_EMPTY[self._kind], **rest})

    def _start(self, block: JsonObject) -> bytes:
        return _sse("content_block_start", index=self._index, content_block=block)

    def _delta(self, kind: str, field: str, value: object) -> bytes:
        return _sse("content_block_delta", index=self._index, delta={"type": kind, field: value})

    def _part_ended(self, part: Part) -> bytes:
        block = encode_answer_part(part)
        if block is None:
            return b""
        if isinstance(part, Text | Thinking) and block["type"] == self._kind:
            data = self._streamed(part)
        else:
            data = b"" if self._has_started else self._whole(part, block)
        return data + self._stop()

    def _stop(self) -> bytes:
        self._index += 1
        return _sse("content_block_stop", index=self._index - 1)

    def _streamed(self, part: Text | Thinking) -> bytes:
        """Encode what the deltas did not contain: citations, signature, and a text that came without deltas."""
        extra = with_citations(part) if isinstance(part, Text) else wire_extra(part.extra, NAME)
        data = self._begin(extra)
        if part.text and not self._has_delta:
            data += self._delta(*_DELTA[self._kind], part.text)
        late = extra.get(_LATE[self._kind])
        if is_list(late):
            return data + b"".join(self._delta("citations_delta", "citation", citation) for citation in late)
        return data + self._delta("signature_delta", "signature", late) if late else data

    def _whole(self, part: Part, block: JsonObject) -> bytes:
        """Encode a whole block; its input goes into a delta, where clients look for it."""
        input = block.get("input")
        if not is_object(input):
            return self._start(block)
        text = arguments_text(part) if isinstance(part, ToolCall) else encode_json(input).decode()
        return self._start({**block, "input": {}}) + self._delta("input_json_delta", "partial_json", text)

    def _finished(self, event: Finished) -> bytes:
        stop, usage = _encode_end(event.finish, event.usage, event.service_tier)
        outer = {field: stop.pop(field) for field in EVENT_FIELDS if field in stop}
        outer |= encode_notices(event.notices)
        return _sse("message_delta", delta=stop, **outer, usage=usage) + _sse("message_stop")


_EMPTY: dict[str, JsonObject] = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
_DELTA = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
_LATE = {"text": "citations", "thinking": "signature"}
