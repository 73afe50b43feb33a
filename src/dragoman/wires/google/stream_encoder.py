"""Encodes answers for clients of generateContent: whole, or streamed as events or as a JSON array."""

import msgspec

from dragoman.errors import DragomanError
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import (
    Choice,
    Finish,
    HostedCall,
    HostedResult,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wires.common.errors import context_error_message
from dragoman.wires.common.extra import full_extra, wire_extra
from dragoman.wires.common.framing import JsonArrayEncoder, encode_sse
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import notice_text
from dragoman.wires.common.options import finish_word, tier_word
from dragoman.wires.common.times import write_time
from dragoman.wires.google.hosted_tools import answer_fields, encode_hosted
from dragoman.wires.google.logprobs import write_logprobs_result
from dragoman.wires.google.parts import encode_call, encode_part, part_extra, wire_id
from dragoman.wires.google.schema import (
    ALT,
    ENUM,
    FINISH_FIELDS,
    FINISH_REASONS,
    FINISH_VALUES,
    NAME,
    STATUS_NAMES,
    TEXT_FIELDS,
    TOO_LONG,
    join_fields,
    write_usage,
)


class GeminiStreamEncoder:
    """Encodes the events of one answer as chunks."""

    def __init__(self, request: Request) -> None:
        is_array = request.extra.get(ALT) == "json"
        self.content_type = "application/json" if is_array else "text/event-stream"
        self._array = JsonArrayEncoder() if is_array else None
        self._head: JsonObject = {}
        self._is_enum = wants_enum(request)
        self._thoughts: set[int] = set()
        self._unstreamed: set[int] = set()
        self._streamed: set[int] = set()
        self._parts_with_sources: list[Part] = []
        """What the metadata at the end is made of."""

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta():
                return self._delta(event)
            case PartStarted():
                # A part with a signature cannot be split into chunks, nor can a value that is written as JSON.
                is_whole = part_extra(event.extra) or (self._is_enum and event.kind == "text")
                self._unstreamed |= {event.index} if is_whole else set()
                self._thoughts |= {event.index} if event.kind == "thinking" else set()
                return b""
            case PartEnded():
                return self._part_ended(event.index, event.part)
            case Started():
                self._head = _encode_head(event.id, event.model, event.created)
                return b""
            case Finished():
                return self._finished(event)
            case CallDelta():
                # Clients expect whole calls: fragments are an option of Vertex that they must ask for.
                return b""
            case Ping():
                # The official Python package reads a comment as a broken chunk (2.25, 2026-11).
                return b""
            case _:
                return self._frame(encode_error(event)) + self._close()

    def _frame(self, data: JsonObject) -> bytes:
        encoded = encode_json(data)
        return encode_sse(encoded) if self._array is None else self._array.feed(encoded)

    def _close(self) -> bytes:
        return b"" if self._array is None else self._array.feed(b"")

    def _chunk(self, part: JsonObject | None, fields: JsonObject) -> bytes:
        content = {} if part is None else {"content": {"role": "model", "parts": [part]}}
        return self._frame({"candidates": [{"index": 0, **content, **fields}], **self._head})

    def _delta(self, event: PartDelta) -> bytes:
        if event.index in self._unstreamed:
            return b""
        self._streamed.add(event.index)
        thought = {"thought": True} if event.index in self._thoughts else {}
        return self._chunk({"text": event.text, **thought}, {})

    def _part_ended(self, index: int, part: Part) -> bytes:
        if isinstance(part, HostedCall | HostedResult) or (isinstance(part, Text) and part.citations):
            self._parts_with_sources.append(part)
        elif isinstance(part, Text):
            self._parts_with_sources.append(Text(text=part.text))
        encoded = None if index in self._streamed else encode_answer_part(as_enum(part) if self._is_enum else part)
        fields = _text_fields(part)
        return self._chunk(encoded, fields) if encoded or fields else b""

    def _finished(self, event: Finished) -> bytes:
        is_blocked = "promptFeedback" in wire_extra(event.finish.extra, NAME)
        others = [
            self._frame({"candidates": [_encode_choice(index, choice)], **self._head})
            for index, choice in enumerate(event.other_choices, 1)
        ]
        end = _encode_end(event.finish, [] if is_blocked else [{"text": ""}], answer_fields(self._parts_with_sources))
        if event.notices and "candidates" in end:
            # The member for humans: official packages drop or refuse members that they do not know.
            last = end["candidates"][0]
            texts = (last.get("finishMessage"), *map(notice_text, event.notices))
            last["finishMessage"] = "; ".join(text for text in texts if text)
        tokens = without_none({"usageMetadata": _encode_usage(event.usage, event.service_tier)})
        return b"".join([*others, self._frame({**end, **tokens, **self._head}), self._close()])


def wants_enum(request: Request) -> bool:
    """Whether the client wants one value of an enum, as plain text."""
    return wire_extra(full_extra(request, NAME), "generationConfig").get("responseMimeType") == ENUM


def as_enum(part: Part) -> Part:
    """A text that is a JSON string, as its value; other parts as they are."""
    if not isinstance(part, Text):
        return part
    try:
        value = msgspec.json.decode(part.text, type=str)
    except msgspec.MsgspecError:
        return part
    return msgspec.structs.replace(part, text=value)


def encode_answer(response: Response) -> JsonObject:
    """The body of a whole answer."""
    parts, fields = _encode_parts(response.message)
    end = _encode_end(response.finish, parts, fields)
    if response.other_choices and "candidates" in end:
        end["candidates"] += [_encode_choice(index, choice) for index, choice in enumerate(response.other_choices, 1)]
    body = {
        **end,
        "usageMetadata": _encode_usage(response.usage, response.service_tier),
        **_encode_head(response.id, response.model, response.created),
    }
    return without_none(body)


def _encode_parts(message: Message) -> tuple[list[JsonObject], JsonObject]:
    """The parts of an answer, and the fields about its texts."""
    parts: list[JsonObject] = []
    fields: JsonObject = {}
    tokens: list[TokenLogprob] = []
    for part in message.parts:
        parts += [encoded] if (encoded := encode_answer_part(part)) else []
        own = _text_fields(part)
        own.pop("logprobsResult", None)
        join_fields(fields, own)
        tokens += part.logprobs if isinstance(part, Text) else ()
    join_fields(fields, answer_fields(message.parts))
    return parts, {**fields, **({"logprobsResult": write_logprobs_result(tokens)} if tokens else {})}


def _encode_choice(index: int, choice: Choice) -> JsonObject:
    """A candidate after the first."""
    parts, fields = _encode_parts(choice.message)
    return {**_encode_candidate(choice.finish, parts, fields), "index": index}


def _encode_usage(usage: Usage, tier: str | None) -> JsonObject | None:
    word = tier_word(tier, "standard")
    return without_none({**(write_usage(usage) or {}), "serviceTier": word}) or None


def encode_error(error: DragomanError) -> JsonObject:
    """The body of an error."""
    status = error.http_status
    name = STATUS_NAMES.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    details: list[JsonObject] = []
    if error.retry_after is not None:
        details.append({"@type": f"{_RPC}.RetryInfo", "retryDelay": f"{error.retry_after}s"})
    if error.param is not None:
        violation = {"field": error.param, "description": error.message}
        details.append({"@type": f"{_RPC}.BadRequest", "fieldViolations": [violation]})
    fields = {"code": status, "message": context_error_message(error, TOO_LONG), "status": name}
    return {"error": {**fields, **({"details": details} if details else {})}}


_RPC = "type.googleapis.com/google.rpc"


def encode_answer_part(part: Part) -> JsonObject | None:
    """The JSON of a part of an answer; None if the API has none for it."""
    match part:
        case ToolCall():
            # A call that Google sent without an id is passed on without one, so that Google never sees ours.
            return encode_call(part, wire_id(part) if NAME in part.extra else part.id)
        case Opaque() if part.wire != NAME:
            return None
        case Text() | Thinking() if not part.text and not part_extra(part.extra):
            return None
        case ToolResult():
            return None
        case HostedCall() | HostedResult():
            return encode_hosted(part)
        case Thinking(redacted=True) if part.text:
            return encode_part(msgspec.structs.replace(part, redacted=False))
        case _:
            return encode_part(part)


def _text_fields(part: Part) -> JsonObject:
    """The fields about a text, which stand next to it in the candidate."""
    extra = wire_extra(part.extra, NAME) if isinstance(part, Text) else {}
    fields = {key: extra[key] for key in TEXT_FIELDS if key in extra}
    if isinstance(part, Text) and part.logprobs:
        fields["logprobsResult"] = write_logprobs_result(part.logprobs)
    return fields


def _encode_head(id: str | None, model: str | None, created: int | None) -> JsonObject:
    """The members of every chunk."""
    return without_none({"modelVersion": model, "createTime": write_time(created), "responseId": id})


def _encode_end(finish: Finish, parts: list[JsonObject], fields: JsonObject) -> JsonObject:
    """The last candidate; for a blocked prompt the feedback instead."""
    ending = wire_extra(finish.extra, NAME)
    feedback = {"promptFeedback": ending["promptFeedback"]} if "promptFeedback" in ending else {}
    if feedback and not parts:
        return feedback
    return {"candidates": [_encode_candidate(finish, parts, fields)], **feedback}


def _encode_candidate(finish: Finish, parts: list[JsonObject], fields: JsonObject) -> JsonObject:
    ending = wire_extra(finish.extra, NAME)
    return {
        "index": 0,
        "content": {"role": "model", **({"parts": parts} if parts else {})},
        "finishReason": finish_word(finish, FINISH_REASONS, FINISH_VALUES),
        **fields,
        **{key: ending[key] for key in (*TEXT_FIELDS, *FINISH_FIELDS) if key in ending},
    }
