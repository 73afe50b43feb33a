"""Encodes answers as Ollama sends them: one JSON object per line, or one object for a whole answer."""

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.errors import DragomanError
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started
from dragoman.types import Finish, JsonObject, Part, Response, Text, Thinking, Usage
from dragoman.wires.common.errors import context_error_message
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.framing import encode_ndjson
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.logprobs import write_logprobs
from dragoman.wires.common.notices import encode_notices
from dragoman.wires.common.options import finish_word
from dragoman.wires.ollama.parts import encode_message, has_field
from dragoman.wires.ollama.schema import DONE_REASONS, FINISH_REASONS, NAME, TOO_LONG, write_time, write_usage

_EMPTY: JsonObject = {"role": "assistant", "content": ""}


class OllamaStreamEncoder:
    """Encodes the events of one answer as lines.

    `content_fields` turns a message into the fields of a line: `message` in a chat, `response` in a generate call.
    """

    content_type = "application/x-ndjson"

    def __init__(self, content_fields: Callable[[JsonObject], JsonObject]) -> None:
        self._content_fields = content_fields
        self._head = _encode_head(None, None)
        self._fields: dict[int, str] = {}
        self._streamed: set[int] = set()
        self._call_count = 0

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return self._line({self._fields[event.index]: event.text})
            case PartStarted():
                self._fields[event.index] = "thinking" if event.kind == "thinking" else "content"
                return b""
            case PartEnded():
                return self._part_ended(event)
            case Started():
                self._head = _encode_head(event.model, event.created)
                return b""
            case Finished():
                return self._line({}, **_encode_end(event.finish, event.usage), **encode_notices(event.notices))
            case DragomanError():
                return encode_ndjson(encode_json(encode_error(event)))
            case _:
                # Clients parse every line as JSON, so a ping has no form here.
                return b""

    def _line(self, content: JsonObject, **more: Any) -> bytes:
        message = {**_EMPTY, **content}
        return encode_ndjson(encode_json({**self._head, **self._content_fields(message), "done": False, **more}))

    def _part_ended(self, event: PartEnded) -> bytes:
        """Encode what the deltas of a part did not contain."""
        parts = [] if event.index in self._streamed else [event.part]
        message = _encode_parts(parts, calls_before=self._call_count)
        self._call_count += len(message.get("tool_calls", ()))
        logprobs = _logprobs(event.part)
        more = {"logprobs": logprobs} if logprobs else {}
        return self._line(message, **more) if more or message != _EMPTY else b""


def encode_answer(response: Response, content_fields: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The body of a whole answer."""
    parts = response.message.parts
    logprobs = [logprob for part in parts for logprob in _logprobs(part)]
    return {
        **_encode_head(response.model, response.created),
        **content_fields(_encode_parts(parts)),
        **_encode_end(response.finish, response.usage),
        **({"logprobs": logprobs} if logprobs else {}),
    }


def encode_error(error: DragomanError) -> JsonObject:
    """The body of an error."""
    return {"error": context_error_message(error, TOO_LONG)}


def _encode_head(model: str | None, created: int | None) -> JsonObject:
    return {"model": model or "", "created_at": write_time(created)}


def _encode_end(finish: Finish, usage: Usage) -> JsonObject:
    reason = None if finish.reason == "other" else finish_word(finish, FINISH_REASONS, DONE_REASONS)
    durations = wire_extra(finish.extra, NAME)
    return {"done": True, **without_none({"done_reason": reason}), **durations, **write_usage(usage)}


def _encode_parts(parts: Iterable[Part], *, calls_before: int = 0) -> JsonObject:
    """The message with some parts of an answer; parts without a field are left out."""
    return encode_message("assistant", filter(has_field, parts), "", calls_before=calls_before)


def _logprobs(part: Part) -> list[Any]:
    if isinstance(part, Text):
        return write_logprobs(part.logprobs)
    extra = wire_extra(part.extra, NAME) if isinstance(part, Thinking) else {}
    return extra.get("logprobs") or []
