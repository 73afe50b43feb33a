"""Encodes events as a Chat Completions stream.

The bytes around the text are the same in all chunks of a part, so they are encoded once per part.
"""

from collections.abc import Iterable
from typing import Any, TypeGuard

from dragoman.errors import DragomanError
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import (
    Choice,
    Finish,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    ToolCall,
    is_object,
)
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import full_extra, wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.notices import encode_notices
from dragoman.wires.common.options import finish_word, tier_word
from dragoman.wires.common.raw_input import CallWriter, input_text
from dragoman.wires.openai_chat.custom_tools import custom_names, restore
from dragoman.wires.openai_chat.hosted_tools import EXECUTED, ExecutedWriter
from dragoman.wires.openai_chat.parts import (
    encode_assistant,
    encode_call,
    encode_part,
    encode_summary,
    is_function_call,
    is_message_field,
    write_choice_logprobs,
    write_citations,
)
from dragoman.wires.openai_chat.schema import (
    CITATIONS,
    CLIENT_FINISH_REASONS,
    COVERED,
    CUSTOM,
    FILTERS,
    FINISH_REASON_TO_WIRE,
    FUNCTION_CALL,
    MESSAGE_CITATIONS,
    MODERATION,
    NAME,
    PROMPT_FILTERS,
    REASONING_FIELDS,
    TEXT_PLACEHOLDER,
    write_usage,
)

_LISTED = ("content: thinking",)
"""Stands for thinking in a list as content."""
_SUMMARIZED = ("content: reasoning",)
"""Stands for thinking in a list as content, as a summary."""


class ChatStreamEncoder:
    """A `StreamEncoder` that writes chunks."""

    content_type = "text/event-stream"

    def __init__(self, request: Request) -> None:
        options = full_extra(request, NAME).get("stream_options")
        self._usage_chunk = is_object(options) and bool(options.get("include_usage"))
        self._head: JsonObject = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": ""}
        self._fields: dict[int, tuple[str, ...]] = {}
        self._templates: dict[int, list[bytes]] = {}
        self._calls = 0
        self._started: dict[int, int] = {}
        """The index of a call whose fragments are written, by the index of its part."""
        self._known: dict[int, JsonObject] = {}
        """The fields that were sent at the start of a call."""
        self._customs = custom_names(request.tools) if request.tools else frozenset[str]()
        self._inputs: dict[int, CallWriter] = {}
        """The free text of calls of custom tools, by the index of their part."""
        self._streamed: set[int] = set()
        self._executed: ExecutedWriter | None = None
        self._length = 0
        """Characters of the texts that have ended."""
        self._is_refused = False

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return encode_json(event.text).join(self._template(event.index))
            case CallDelta() if event.index in self._inputs:
                return self._input(event.index, self._inputs[event.index].read(event.text))
            case CallDelta():
                delta = {"index": self._started[event.index], "function": {"arguments": event.text}}
                return self._chunk({"tool_calls": [delta]})
            case PartStarted(id=str(id), name=str(name)):
                return self._call_started(event, id, name)
            case PartStarted():
                self._fields[event.index] = _fields(event)
                self._templates.pop(event.index, None)
                return b""
            case PartEnded():
                return self._ended(event)
            case Started():
                self._head.update(id=event.id or "", created=event.created or 0, model=event.model or "")
                return self._chunk({"role": "assistant", "content": ""})
            case Finished():
                return self._finished(event)
            case Ping():
                return b": ping\n\n"
            case _:
                return encode_sse(encode_json({"error": encode_openai_error(event)}))

    def _template(self, index: int) -> list[bytes]:
        """The bytes before and after the text in each chunk of a part."""
        template = self._templates.get(index)
        if template is None:
            chunk = self._chunk(_delta(self._fields[index], TEXT_PLACEHOLDER))
            template = self._templates[index] = chunk.split(encode_json(TEXT_PLACEHOLDER))
        return template

    def _chunk(self, delta: JsonObject, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
        choice: JsonObject = {"index": index, "delta": delta, "finish_reason": finish}
        for field in ("logprobs", FILTERS):
            if field in more:
                choice[field] = more.pop(field)
        return encode_sse(encode_json({**self._head, "choices": [choice], **more}))

    def _ended(self, event: PartEnded) -> bytes:
        part = restore(event.part, self._customs) if self._customs else event.part
        if not is_supported(part):
            return b""
        match part:
            case ToolCall() if event.index in self._started:
                return self._call_ended(event.index, part)
            case ToolCall() if is_function_call(part):
                return self._chunk({FUNCTION_CALL: encode_call(part)["function"]})
            case ToolCall():
                call = {"index": self._calls, **encode_call(part)}
                self._calls += 1
                return self._chunk({"tool_calls": [call]})
            case Text() | Thinking():
                return self._text_ended(event.index, part)
            case HostedCall() | HostedResult():
                self._executed = self._executed or ExecutedWriter()
                return self._chunk({EXECUTED: [self._executed.write(part)]})
            case Image():
                return self._chunk({"images": [encode_part(part)]})
            case _:
                return self._chunk(part.data if is_message_field(part) else {"content": [part.data]})

    def _call_started(self, event: PartStarted, id: str, name: str) -> bytes:
        if name in self._customs:
            self._inputs[event.index] = CallWriter(raw=True)
            call = encode_call(ToolCall(id=id, name=name, extra={**event.extra, COVERED: {"type": CUSTOM}}))
        else:
            call = encode_call(ToolCall(id=id, name=name, extra=event.extra))
            call["function"]["arguments"] = ""
        self._started[event.index] = self._calls
        self._known[event.index] = wire_extra(event.extra, NAME)
        self._calls += 1
        return self._chunk({"tool_calls": [{"index": self._started[event.index], **call}]})

    def _call_ended(self, index: int, call: ToolCall) -> bytes:
        """The chunk with fields of a call that came after its start, such as a signature."""
        known = self._known[index]
        late = {key: value for key, value in wire_extra(call.extra, NAME).items() if known.get(key) != value}
        writer = self._inputs.pop(index, None)
        rest = b"" if writer is None else self._input(index, writer.rest(input_text(call)))
        return rest + (self._chunk({"tool_calls": [{"index": self._started[index], **late}]}) if late else b"")

    def _input(self, index: int, text: str) -> bytes:
        """A piece of the free text of a call."""
        return self._chunk({"tool_calls": [{"index": self._started[index], CUSTOM: {"input": text}}]}) if text else b""

    def _text_ended(self, index: int, part: Text | Thinking) -> bytes:
        """The chunk with what is known only at the end: details, citations, and text that came without deltas."""
        extra = wire_extra(part.extra, NAME)
        self._is_refused = self._is_refused or bool(extra.get("refusal"))
        is_new = index not in self._streamed and bool(part.text or extra.get("fields"))
        delta = _delta(self._fields[index], part.text) if is_new else {}
        if "details" in extra:
            delta["reasoning_details"] = extra["details"]
        delta.update(extra.get("state", {}))
        if extra.get("summary"):
            delta.setdefault("content", []).append(encode_summary("", extra["summary"]))
        if "chunk" in extra:
            delta.setdefault("content", []).append({"type": "thinking", "thinking": [], **extra["chunk"]})
        if annotations := extra.get("annotations") or self._annotations(part, extra):
            delta["annotations"] = annotations
        if "context" in extra:
            delta["context"] = extra["context"]
        more: dict[str, Any] = {key: extra[key] for key in CITATIONS if key in extra}
        if isinstance(part, Text) and part.logprobs:
            more["logprobs"] = write_choice_logprobs([part])
        return self._chunk(delta, **more) if delta or more else b""

    def _annotations(self, part: Text | Thinking, extra: JsonObject) -> list[JsonObject]:
        """The citations of a text of another wire."""
        if not isinstance(part, Text):
            return []
        offset, self._length = self._length, self._length + len(part.text)
        if not part.citations or not extra.keys().isdisjoint((*CITATIONS, *MESSAGE_CITATIONS)):
            return []
        return write_citations([part], offset)

    def _finished(self, event: Finished) -> bytes:
        tokens = write_usage(event.usage)
        finish_reason = encode_finish(event.finish, is_refused=self._is_refused)
        others = b"".join(self._other(index, choice) for index, choice in enumerate(event.other_choices, 1))
        tier = {} if event.service_tier is None else {"service_tier": tier_word(event.service_tier, "default")}
        filters = {**encode_prompt_filters(event.finish), **encode_filters(event.finish)} if event.finish.extra else {}
        if event.notices:
            filters |= encode_notices(event.notices)
        if not self._usage_chunk:
            more: dict[str, Any] = {**filters, **tier, **({"usage": tokens} if tokens else {})}
            last = self._chunk({}, finish_reason, **more)
        else:
            usage_chunk: JsonObject = {**self._head, "choices": [], "usage": tokens, **tier}
            last = self._chunk({}, finish_reason, **filters) + encode_sse(encode_json(usage_chunk))
        return others + last + encode_sse(b"[DONE]")

    def _other(self, index: int, choice: Choice) -> bytes:
        """A choice after the first: it is known as a whole, so it has one chunk, and one for its end."""
        parts = [part for each in choice.message.parts if is_supported(part := restore(each, self._customs))]
        message = encode_assistant(parts, REASONING_FIELDS[0])
        for position, call in enumerate(message.get("tool_calls", ())):
            call["index"] = position
        more: dict[str, Any] = {}
        if (logprobs := write_choice_logprobs(parts)) is not None:
            more["logprobs"] = logprobs
        finish = encode_finish(choice.finish, is_refused="refusal" in message)
        whole = self._chunk(message, index=index, **more)
        return whole + self._chunk({}, finish, index, **encode_filters(choice.finish))


def is_supported(part: Part) -> TypeGuard[Text | Thinking | ToolCall | Image | HostedCall | HostedResult | Opaque]:
    """Whether responses can contain a part; other parts are dropped."""
    if isinstance(part, Opaque):
        return part.wire == NAME
    return isinstance(part, Text | Thinking | ToolCall | Image | HostedCall | HostedResult)


def _fields(event: PartStarted) -> tuple[str, ...]:
    """The fields that a part is written to, or `_LISTED`, or `_SUMMARIZED`."""
    extra = wire_extra(event.extra, NAME)
    if event.kind == "thinking":
        fields = tuple(extra.get("fields") or REASONING_FIELDS[:1])
        if fields == ("content",):
            return _SUMMARIZED if "summary" in extra else _LISTED
        return fields
    return ("refusal",) if extra.get("refusal") else ("content",)


def _delta(fields: tuple[str, ...], text: str) -> JsonObject:
    if fields == _SUMMARIZED:
        return {"content": [encode_summary(text, {})]}
    if fields == _LISTED:
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
    return dict.fromkeys(fields, text)


def encode_finish(finish: Finish, *, is_refused: bool) -> str | None:
    """The `finish_reason` of a response; a refusal has no reason of its own."""
    if is_refused:
        return finish.raw if finish.raw in CLIENT_FINISH_REASONS else "stop"
    if finish.reason == "other" and (raw := wire_extra(finish.extra, NAME).get("finish_reason")):
        return str(raw)
    is_unknown = finish.raw is None and finish.reason == "other"
    return None if is_unknown else finish_word(finish, CLIENT_FINISH_REASONS, FINISH_REASON_TO_WIRE)


def encode_filters(finish: Finish) -> JsonObject:
    """The field of a choice with the results of content filters."""
    results = wire_extra(finish.extra, NAME).get(FILTERS)
    return {FILTERS: results} if results else {}


def encode_prompt_filters(finish: Finish) -> JsonObject:
    """The fields of a body with the results of content filters for the prompt, and of a moderation."""
    own = wire_extra(finish.extra, NAME)
    moderation = {MODERATION: own[MODERATION]} if MODERATION in own else {}
    results = own.get(PROMPT_FILTERS)
    return {**({PROMPT_FILTERS: [{"prompt_index": 0, FILTERS: results}]} if results else {}), **moderation}


def text_extra(parts: Iterable[Part]) -> JsonObject:
    """The annotations and citations of texts, which are fields of the message or the body."""
    fields: JsonObject = {}
    offset = 0
    for part in parts:
        if not isinstance(part, Text):
            continue
        if part.citations and not any(key in wire_extra(part.extra, NAME) for key in (*MESSAGE_CITATIONS, *CITATIONS)):
            fields.setdefault("annotations", []).extend(write_citations([part], offset))
        offset += len(part.text)
        extra = wire_extra(part.extra, NAME)
        if "annotations" in extra:
            fields.setdefault("annotations", []).extend(extra["annotations"])
        fields.update((key, extra[key]) for key in (*CITATIONS, "context") if key in extra)
    return fields
