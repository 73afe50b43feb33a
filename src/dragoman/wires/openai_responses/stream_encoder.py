"""Encodes responses and events as the objects and the stream of the Responses API.

Texts that follow each other are content parts of one message item. The item stays open until another kind of part
starts or the response ends, because only then is it clear that no further text follows.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Started
from dragoman.types import (
    Finish,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    Usage,
    is_list,
)
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.notices import encode_late_notices
from dragoman.wires.common.options import tier_word
from dragoman.wires.common.raw_input import CallWriter
from dragoman.wires.openai_responses.client_tools import CLIENT_CALLS, NO_TOOLS, OfferedTools, encode_call
from dragoman.wires.openai_responses.found_tools import CALLER, FoundCallReader
from dragoman.wires.openai_responses.hosted_tools import encode_hosted_call
from dragoman.wires.openai_responses.parts import (
    EMPTY_MESSAGE,
    by_item,
    encode_image_call,
    encode_message,
    encode_output_text,
    encode_reasoning,
    item_of,
    type_of,
    with_annotations,
)
from dragoman.wires.openai_responses.request_echo import ECHO_DEFAULTS
from dragoman.wires.openai_responses.schema import (
    CUSTOM,
    ECHOED_FIELDS,
    FINISH_REASON_TO_WIRE,
    NAME,
    STATUSES,
    finish_reason,
    make_item_id,
    write_usage,
)

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    CUSTOM: "ctc",
    "image_generation_call": "ig",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "computer_call": "cu",
    "apply_patch_call": "apc",
    "tool_search_call": "tsc",
}


def encode_response(
    head: Started, echo: JsonObject, *, status: str, output: list[JsonObject], usage: JsonObject | None = None
) -> JsonObject:
    """A response object with all fields that clients' types require; `echo` has those of the request."""
    return {
        **ECHO_DEFAULTS,
        **echo,
        "id": head.id or "",
        "object": "response",
        "created_at": head.created or 0,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.model or "",
        "output": output,
        "usage": usage,
    }


def encode_final_response(
    head: Started, echo: JsonObject, output: list[JsonObject], finish: Finish, usage: Usage, tier: str | None
) -> JsonObject:
    """The response object of a finished response."""
    reason = _status_or_reason(finish, output)
    status = reason if reason in STATUSES else "incomplete"
    details = None if reason == status else {"reason": reason}
    response = encode_response(head, echo, status=status, output=output, usage=write_usage(usage))
    return {
        **response,
        "incomplete_details": details,
        "completed_at": echo.get("completed_at") if status == "completed" else None,
        "service_tier": tier_word(tier, "default") or response["service_tier"],
        **{key: value for key, value in wire_extra(finish.extra, NAME).items() if key in ECHOED_FIELDS},
    }


def _status_or_reason(finish: Finish, output: list[JsonObject]) -> str:
    """The provider's raw word if it has the same meaning in this dialect."""
    kinds = {type_of(item) for item in output}
    content = [part for item in output if type_of(item) == "message" for part in item.get("content") or ()]
    reason = finish_reason(
        finish.raw or "",
        calls=bool(kinds & CLIENT_CALLS),
        asks_approval="mcp_approval_request" in kinds,
        refused=any(type_of(part) == "refusal" for part in content),
    )
    # Clients read the reason of an incomplete response, so the bare status is not enough.
    is_foreign = finish.raw in (None, "", "incomplete") or reason != finish.reason
    return FINISH_REASON_TO_WIRE[finish.reason] if is_foreign else str(finish.raw)


def encode_output(parts: tuple[Part, ...], response_id: str | None, tools: OfferedTools = NO_TOOLS) -> list[JsonObject]:
    """The output items of a whole message."""
    output: list[JsonObject] = []
    for part in by_item(parts):
        if isinstance(part, Opaque):
            output += [part.data] if part.wire == NAME else []
            continue
        if isinstance(part, tuple):
            output += [item] if (item := encode_hosted_call(*part)) else []
            continue
        item = encode_message(part, is_answer=True) if isinstance(part, list) else _encode_item(part, tools)
        if item is not None:
            output.append(_complete(item, response_id, len(output)))
    return output


def _encode_item(part: Part, tools: OfferedTools) -> JsonObject | None:
    match part:
        case Thinking():
            return encode_reasoning(part)
        case ToolCall():
            return encode_call(tools.restore(part))
        case Image():
            return encode_image_call(part)
        case _:
            return None


def _complete(item: JsonObject, response_id: str | None, index: int) -> JsonObject:
    """An item with the fields that output items require: an id, a status and annotations."""
    prefix = _PREFIXES[item["type"]]
    status = {} if prefix == "rs" else {"status": "completed"}
    content = {"content": [with_annotations(part) for part in item["content"]]} if prefix == "msg" else {}
    return {"id": make_item_id(prefix, response_id, index), **status, **item, **content}


class _Item(msgspec.Struct):
    """A message or reasoning item of the stream."""

    index: int
    id: str
    started: JsonObject
    """The fields of the item at its start, besides its content."""
    item: JsonObject = {}
    content: dict[int, JsonObject] = {}
    open: int = 0
    over: bool = False


class _Part(msgspec.Struct):
    """A text or thinking part of the stream."""

    item: _Item
    kind: str
    """`output_text`, `refusal`, `reasoning_text`, `reasoning_summary_text`."""
    content_index: int = 0
    streamed: bool = False


class _Call(msgspec.Struct):
    """The item of a call of the stream."""

    index: int
    item: JsonObject
    """Without its arguments or input."""
    writer: CallWriter


class ResponsesStreamEncoder:
    """A `StreamEncoder` that writes the events of the Responses API."""

    content_type = "text/event-stream"

    def __init__(self, echo: JsonObject, tools: OfferedTools) -> None:
        self._echo = echo
        self._tools = tools
        self._calls: dict[int, _Call] = {}
        self._callers: dict[int, tuple[PartStarted, FoundCallReader]] = {}
        """Calls of found tools whose name is not known yet, or whose arguments are read."""
        self._head = Started()
        self._number = 0
        self._count = 0
        self._parts: dict[int, _Part] = {}
        self._output: dict[int, JsonObject] = {}
        self._message: _Item | None = None
        self._hosted: HostedCall | None = None

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta():
                return self._delta(self._parts[event.index], event.text)
            case CallDelta():
                return self._fragment(event)
            case PartStarted():
                return self._part_started(event)
            case PartEnded():
                return self._part_ended(event.index, event.part)
            case Started():
                self._head = event
                snapshot = encode_response(event, self._echo, status="in_progress", output=[])
                return self._event("created", response=snapshot) + self._event("in_progress", response=snapshot)
            case Finished():
                return self._end_hosted() + self._end_message() + self._finished(event)
            case DragomanError():
                # The SDKs raise only for an `error` object; their event type has the same fields without it (2026-11).
                error = encode_openai_error(event)
                flat = {key: error[key] for key in ("code", "message", "param")}
                return self._event("error", **flat, status=event.http_status, error=error)
            case _:
                return b": ping\n\n"

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        kind = kind if kind == "error" else f"response.{kind}"
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return encode_sse(encode_json(data), name=kind)

    def _finished(self, event: Finished) -> bytes:
        output = [self._output[index] for index in sorted(self._output)]
        response = encode_final_response(self._head, self._echo, output, event.finish, event.usage, event.service_tier)
        response |= encode_late_notices(event.notices)
        return self._event("incomplete" if response["status"] == "incomplete" else "completed", response=response)

    # Items ------------------------------------------------------------------------------------------------------------

    def _new_item(self, kind: str, started: JsonObject) -> _Item:
        index = self._next_index()
        id = started.get("id") or make_item_id(_PREFIXES[kind], self._head.id, index)
        return _Item(index=index, id=id, started=started)

    def _item_done(self, index: int, item: JsonObject) -> bytes:
        self._output[index] = item
        return self._event("output_item.done", output_index=index, item=item)

    def _part_started(self, event: PartStarted) -> bytes:
        before = self._end_hosted() if event.kind != "hosted_result" else b""
        return before + self._start_part(event)

    def _start_part(self, event: PartStarted) -> bytes:
        extra = wire_extra(event.extra, NAME)
        match event.kind:
            case "text":
                return self._text_started(event.index, extra)
            case "thinking":
                return self._end_message() + self._thinking_started(event.index, extra)
            case "tool_call" if event.name is not None:
                return self._end_message() + self._call_started(event)
            case _:
                return self._end_message()

    def _end_hosted(self, result: HostedResult | None = None) -> bytes:
        """The item of a call of a tool that the provider ran, which waits for its result."""
        call, self._hosted = self._hosted, None
        if call is None:
            return b""
        is_answer = result is not None and result.id == call.id
        item = encode_hosted_call(call, result if is_answer else None)
        return b"" if item is None else self._whole_item(item)

    def _part_ended(self, index: int, part: Part) -> bytes:
        match part:
            case Text():
                return self._text_ended(self._parts[index], part)
            case Thinking():
                return self._thinking_ended(self._parts[index], part)
            case ToolCall():
                return self._call(index, self._tools.restore(part))
            case HostedCall():
                self._hosted = part
                return b""
            case HostedResult():
                return self._end_hosted(part)
            case Opaque():
                return self._whole_item(part.data) if part.wire == NAME else b""
            case _:
                item = _encode_item(part, self._tools)
                return b"" if item is None else self._whole_item(_complete(item, self._head.id, self._count))

    def _delta(self, part: _Part, text: str) -> bytes:
        before = b""
        if not part.streamed:
            part.streamed = True
            before = self._section(part, "added", "")
        return before + self._event(f"{part.kind}.delta", **self._place(part), delta=text, **_logprobs(part))

    def _place(self, part: _Part) -> JsonObject:
        name = "summary_index" if part.kind == "reasoning_summary_text" else "content_index"
        return {"item_id": part.item.id, "output_index": part.item.index, name: part.content_index}

    def _section(self, part: _Part, verb: str, text: str, **more: Any) -> bytes:
        """The event that opens or closes the content part of a text."""
        summary = part.kind == "reasoning_summary_text"
        kind = "summary_text" if summary else part.kind
        content = {"type": kind, "refusal" if kind == "refusal" else "text": text, **more}
        if kind == "output_text":
            content = with_annotations(content)
        name = "reasoning_summary_part" if summary else "content_part"
        return self._event(f"{name}.{verb}", **self._place(part), part=content)

    # Messages ---------------------------------------------------------------------------------------------------------

    def _text_started(self, index: int, extra: JsonObject) -> bytes:
        started = extra.get("item", {})
        out = b""
        message = self._message
        if message is None or message.started != started:
            out = self._end_message()
            message = self._message = self._new_item("message", started)
            item = {"type": "message", "role": "assistant", **started, "id": message.id, "status": "in_progress"}
            out += self._event("output_item.added", output_index=message.index, item={**item, "content": []})
        kind = "refusal" if extra.get("refusal") else "output_text"
        part = self._parts[index] = _Part(item=message, kind=kind, content_index=len(message.content))
        message.open += 1
        if extra.get(EMPTY_MESSAGE):
            return out
        message.content[part.content_index] = {}
        part.streamed = True
        return out + self._section(part, "added", "")

    def _text_ended(self, part: _Part, text: Text) -> bytes:
        message = part.item
        message.item = item_of(text)
        message.open -= 1
        out = b""
        if not wire_extra(text.extra, NAME).get(EMPTY_MESSAGE):
            out = self._text_done(part, text)
        return out + self._message_done(message) if message.over and not message.open else out

    def _text_done(self, part: _Part, text: Text) -> bytes:
        content = part.item.content[part.content_index] = encode_output_text(text, is_answer=True)
        rest = {key: value for key, value in content.items() if key not in ("type", "text", "refusal")}
        whole = {"refusal" if part.kind == "refusal" else "text": text.text}
        annotations = rest.get("annotations")
        added = b"".join(
            self._event("output_text.annotation.added", **self._place(part), annotation_index=i, annotation=annotation)
            for i, annotation in enumerate(annotations if is_list(annotations) else ())
        )
        logprobs = {**_logprobs(part), **{key: rest[key] for key in ("logprobs",) if key in rest}}
        done = self._event(f"{part.kind}.done", **self._place(part), **whole, **logprobs)
        return added + done + self._section(part, "done", text.text, **rest)

    def _end_message(self) -> bytes:
        """End the message item, at once or when its last part ends."""
        message, self._message = self._message, None
        if message is None:
            return b""
        message.over = True
        return b"" if message.open else self._message_done(message)

    def _message_done(self, message: _Item) -> bytes:
        content = [message.content[index] for index in sorted(message.content)]
        item = {"id": message.id, "type": "message", "role": "assistant", **message.item, "content": content}
        return self._item_done(message.index, _complete(item, self._head.id, message.index))

    # Reasoning --------------------------------------------------------------------------------------------------------

    def _thinking_started(self, index: int, extra: JsonObject) -> bytes:
        item = self._new_item("reasoning", extra)
        kind = "reasoning_text" if extra.get("content") else "reasoning_summary_text"
        self._parts[index] = _Part(item=item, kind=kind)
        added: JsonObject = {"id": item.id, "type": "reasoning", "summary": []}
        return self._event("output_item.added", output_index=item.index, item=added)

    def _thinking_ended(self, part: _Part, thinking: Thinking) -> bytes:
        out = b""
        if part.streamed:
            out = self._event(f"{part.kind}.done", **self._place(part), text=thinking.text)
            out += self._section(part, "done", thinking.text)
        item = {"id": part.item.id, **encode_reasoning(thinking)}
        return out + self._item_done(part.item.index, item)

    # Whole items ------------------------------------------------------------------------------------------------------

    def _call_started(self, event: PartStarted) -> bytes:
        """Begin the item of a call whose arguments follow; an item of another type is written at its end."""
        if self._tools.has_caller and event.name == CALLER:
            self._callers[event.index] = event, FoundCallReader()
            return b""
        call = ToolCall(id=event.id or "", name=event.name or "", extra=event.extra)
        item = encode_call(self._tools.restore(call))
        if item["type"] not in _CALL_EVENTS:
            return b""
        call_item = self._calls[event.index] = self._new_call(item)
        return self._event("output_item.added", output_index=call_item.index, item=call_item.item)

    def _new_call(self, item: JsonObject) -> _Call:
        index = self._next_index()
        _, field = _CALL_EVENTS[item["type"]]
        started = {**_complete(item, self._head.id, index), field: "", "status": "in_progress"}
        return _Call(index, started, CallWriter(raw=item["type"] == CUSTOM))

    def _fragment(self, event: CallDelta) -> bytes:
        if event.index not in self._callers:
            return self._call_delta(self._calls.get(event.index), event.text)
        started, reader = self._callers[event.index]
        is_new = reader.name is None
        text = reader.read(event.text)
        if reader.name is None:
            return b""
        out = self._call_started(replace(started, name=reader.name)) if is_new else b""
        return out + self._call_delta(self._calls.get(event.index), text)

    def _call_delta(self, call: _Call | None, text: str) -> bytes:
        if call is None or not (delta := call.writer.read(text)):
            return b""
        event, _ = _CALL_EVENTS[call.item["type"]]
        return self._event(f"{event}.delta", item_id=call.item["id"], output_index=call.index, delta=delta)

    def _call(self, part_index: int, call: ToolCall) -> bytes:
        self._callers.pop(part_index, None)
        item = encode_call(call)
        if item["type"] not in _CALL_EVENTS:
            return self._whole_item(_complete(item, self._head.id, self._count))
        event, field = _CALL_EVENTS[item["type"]]
        out = b""
        if (started := self._calls.pop(part_index, None)) is None:
            started = self._new_call(item)
            out = self._event("output_item.added", output_index=started.index, item=started.item)
        place = {"item_id": started.item["id"], "output_index": started.index}
        whole: str = item[field]
        if rest := started.writer.rest(whole):
            out += self._event(f"{event}.delta", **place, delta=rest)
        name = {"name": item["name"]} if field == "arguments" else {}
        out += self._event(f"{event}.done", **place, **name, **{field: whole})
        final = {**_complete(item, self._head.id, started.index), "id": started.item["id"]}
        return out + self._item_done(started.index, final)

    def _whole_item(self, item: JsonObject) -> bytes:
        index = self._next_index()
        return self._event("output_item.added", output_index=index, item=item) + self._item_done(index, item)

    def _next_index(self) -> int:
        self._count += 1
        return self._count - 1


_CALL_EVENTS = {"function_call": ("function_call_arguments", "arguments"), CUSTOM: ("custom_tool_call_input", "input")}


def _logprobs(part: _Part) -> JsonObject:
    """A field that clients' types require for output text."""
    return {"logprobs": []} if part.kind == "output_text" else {}
