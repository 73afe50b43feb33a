"""Events in, the bytes of a Chat Completions stream out; and what a whole body says in the same words."""

from collections.abc import Iterable
from typing import Any, TypeGuard

from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import (
    Finish,
    Image,
    JsonObject,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    ToolCall,
    Usage,
    is_object,
)
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import full_extra, wire_extra
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.options import finish_word
from dragoman.wires.openai_chat.parts import add_logprobs, encode_call, encode_part, is_lone, stands_beside
from dragoman.wires.openai_chat.schema import (
    CITATIONS,
    FINISH_WORD,
    LONE,
    NAME,
    PIECE,
    REASONING_FIELDS,
    SAID,
    write_usage,
)


class ChatStreamEncoder:
    """Events to chunks."""

    content_type = "text/event-stream"

    def __init__(self, request: Request) -> None:
        options = full_extra(request, NAME).get("stream_options")
        self._usage_chunk = is_object(options) and bool(options.get("include_usage"))
        self._head: JsonObject = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": ""}
        self._fields: dict[int, tuple[str, ...]] = {}
        self._frames: dict[int, list[bytes]] = {}
        self._calls = 0
        self._streamed: set[int] = set()
        self._is_refused = False

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return encode_json(event.text).join(self._frame(event.index))
            case PartStarted():
                self._fields[event.index] = _fields(event)
                self._frames.pop(event.index, None)
                return b""
            case PartEnded():
                return self._ended(event)
            case Started():
                self._head.update(id=event.id or "", created=event.created or 0, model=event.model or "")
                return self._chunk({"role": "assistant", "content": ""})
            case Finished():
                return self._finished(event.finish, event.usage)
            case Ping():
                return b": ping\n\n"
            case _:
                return encode_sse(encode_json({"error": encode_openai_error(event)}))

    def _frame(self, index: int) -> list[bytes]:
        """What stands around a piece of text in each chunk of a part: written once, not with every piece."""
        frame = self._frames.get(index)
        if frame is None:
            chunk = self._chunk(_delta(self._fields[index], PIECE))
            frame = self._frames[index] = chunk.split(encode_json(PIECE))
        return frame

    def _chunk(self, delta: JsonObject, finish: str | None = None, **more: Any) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
        if "logprobs" in more:
            choice["logprobs"] = more.pop("logprobs")
        return encode_sse(encode_json({**self._head, "choices": [choice], **more}))

    def _ended(self, event: PartEnded) -> bytes:
        part = event.part
        if not is_sayable(part):
            return b""
        match part:
            case ToolCall() if is_lone(part):
                return self._chunk({LONE: encode_call(part)["function"]})
            case ToolCall():
                call = {"index": self._calls, **encode_call(part)}
                self._calls += 1
                return self._chunk({"tool_calls": [call]})
            case Text() | Thinking():
                return self._late_text(event.index, part)
            case Image():
                return self._chunk({"images": [encode_part(part)]})
            case _:
                return self._chunk(part.data if stands_beside(part) else {"content": [part.data]})

    def _late_text(self, index: int, part: Text | Thinking) -> bytes:
        """What only the end of a part tells: its details and citations, and a text that came without deltas."""
        extra = wire_extra(part.extra, NAME)
        self._is_refused = self._is_refused or bool(extra.get("refusal"))
        unsupported_parts = index not in self._streamed and bool(part.text or extra.get("fields"))
        delta = _delta(self._fields[index], part.text) if unsupported_parts else {}
        if "details" in extra:
            delta["reasoning_details"] = extra["details"]
        if "chunk" in extra:
            delta.setdefault("content", []).append({"type": "thinking", "thinking": [], **extra["chunk"]})
        if "annotations" in extra:
            delta["annotations"] = extra["annotations"]
        more = {key: extra[key] for key in (*CITATIONS, "logprobs") if key in extra}
        return self._chunk(delta, **more) if delta or more else b""

    def _finished(self, finish: Finish, usage: Usage) -> bytes:
        told = write_usage(usage)
        word = encode_finish(finish, is_refused=self._is_refused)
        if not self._usage_chunk:
            last = self._chunk({}, word, **({"usage": told} if told else {}))
        else:
            tail: JsonObject = {**self._head, "choices": [], "usage": told}
            last = self._chunk({}, word) + encode_sse(encode_json(tail))
        return last + encode_sse(b"[DONE]")


def is_sayable(part: Part) -> TypeGuard[Text | Thinking | ToolCall | Image | Opaque]:
    """Whether an answer in this dialect has a place for a part; the others are left out, in a body and in a stream."""
    if isinstance(part, Opaque):
        return part.wire == NAME
    return isinstance(part, Text | Thinking | ToolCall | Image)


def _fields(event: PartStarted) -> tuple[str, ...]:
    """The fields that a part is written to; ("",) is a list of thinking in the content."""
    extra = wire_extra(event.extra, NAME)
    if event.kind == "thinking":
        fields = tuple(extra.get("fields") or REASONING_FIELDS[:1])
        return ("",) if fields == ("content",) else fields
    return ("refusal",) if extra.get("refusal") else ("content",)


def _delta(fields: tuple[str, ...], text: str) -> JsonObject:
    if fields == ("",):
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
    return dict.fromkeys(fields, text)


def encode_finish(finish: Finish, *, is_refused: bool) -> str | None:
    """The dialect's word, or a server's own of this dialect; a refusal is told by its text, and by no word."""
    if is_refused:
        return finish.raw if finish.raw in SAID else "stop"
    if finish.reason == "other" and (word := wire_extra(finish.extra, NAME).get("finish_reason")):
        return str(word)
    untold = finish.raw is None and finish.reason == "other"
    return None if untold else finish_word(finish, SAID, FINISH_WORD)


def text_notes(parts: Iterable[Part]) -> JsonObject:
    """What belongs to texts and stands elsewhere in this dialect: log-probabilities and citations."""
    notes: JsonObject = {}
    for part in parts:
        if not isinstance(part, Text) or not part.extra:
            continue
        extra = wire_extra(part.extra, NAME)
        if "annotations" in extra:
            notes.setdefault("annotations", []).extend(extra["annotations"])
        add_logprobs(notes, extra.get("logprobs", {}))
        notes.update((key, extra[key]) for key in CITATIONS if key in extra)
    return notes
