"""Encodes answers and errors of the native protocol, streamed or whole."""

import re

from msgspec.structs import replace

from dragoman.errors import AuthFailed, ChainExhausted, DragomanError, ProviderError, RequestError, Unsupported
from dragoman.events import CallDelta, Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import Attempt, Finish, JsonObject, Response, Text, Thinking, ToolCall, ToolResult
from dragoman.wires.common.errors import URL_PATTERN, is_out_of_credit
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import encode_notices
from dragoman.wires.native.parts import encode_assistant, encode_call, encode_part
from dragoman.wires.native.problems import InvalidNativeRequest
from dragoman.wires.native.schema import ERRORS, ERRORS_BY_STATUS, INTERNAL, NO_CREDIT, NativeErrorCode, write_usage

_FIELDS = {"text": "content", "thinking": "thinking"}
_FORBIDDEN = 403
_UNPROCESSABLE = 422
_UNSENT = f"{Unsupported.__name__}: "
"""The start of an attempt's error if nothing was sent, so that its text is ours."""


def encode_answer(response: Response) -> JsonObject:
    """The body of a whole answer."""
    choice = {"index": 0, "message": encode_assistant(response.message.parts, {}), **_end(response.finish)}
    head = {"id": response.id, "object": "chat.completion", "created": response.created, "model": response.model}
    return {**head, "choices": [choice], "usage": write_usage(response.usage), **encode_notices(response.notices)}


def _end(finish: Finish) -> JsonObject:
    return {"finish_reason": finish.reason, **without_none({"finish_raw": finish.raw})}


class NativeStreamEncoder:
    """Encodes the events of one answer as chunks.

    `index` is the index of a part; a call has its own `index` among the calls. The end of a part contains what its
    deltas did not.
    """

    content_type = "text/event-stream"

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._fields: dict[int, str] = {}
        self._streamed: set[int] = set()
        self._call_count = 0

    def feed(self, event: Event | DragomanError, /) -> bytes:
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return self._chunk({"index": event.index, self._fields[event.index]: event.text})
            case PartStarted():
                self._fields[event.index] = _FIELDS.get(event.kind, "content")
                return b""
            case PartEnded():
                return self._part_ended(event)
            case Started():
                self._head = {"id": event.id, "object": "chat.completion.chunk"}
                self._head |= {"created": event.created, "model": event.model}
                return self._chunk({"role": "assistant"})
            case Finished():
                last = {"usage": write_usage(event.usage), **encode_notices(event.notices)}
                return self._chunk({}, _end(event.finish), last) + encode_sse(b"[DONE]")
            case CallDelta() | Ping():
                return b": ping\n\n"
            case _:
                return encode_sse(encode_json({"error": encode_error(event)}))

    def _part_ended(self, event: PartEnded) -> bytes:
        part = event.part
        match part:
            case ToolCall():
                call = {"index": self._call_count, **encode_call(part)}
                self._call_count += 1
                return self._chunk({"tool_calls": [call]})
            case ToolResult():
                return b""
            case Text() | Thinking() if event.index in self._streamed:
                data = encode_part(part)
                del data["text"]
            case _:
                data = encode_part(part)
        return self._chunk({"index": event.index, "part": data})

    def _chunk(self, delta: JsonObject, end: JsonObject | None = None, more: JsonObject | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, **(end or {"finish_reason": None})}
        return encode_sse(encode_json({**self._head, "choices": [choice], **(more or {})}))


def http_status_of(error: DragomanError) -> int:
    """The HTTP status of an error; 403 and 422 replace the status of the class."""
    if isinstance(error, AuthFailed) and error.status == _FORBIDDEN:
        return _FORBIDDEN
    return _UNPROCESSABLE if isinstance(error, Unsupported) else error.http_status


def _error_code(error: DragomanError) -> NativeErrorCode:
    entry = next((entry for kind, entry in ERRORS if isinstance(error, kind)), INTERNAL)
    if entry is INTERNAL or isinstance(error, RequestError | AuthFailed):
        entry = ERRORS_BY_STATUS.get(http_status_of(error), entry)
    return replace(entry, code=NO_CREDIT) if is_out_of_credit(error) else entry


def encode_error(error: DragomanError) -> JsonObject:
    """The body of an error; it contains no data, key or address of a provider."""
    entry = _error_code(error)
    problems = error.problems if isinstance(error, InvalidNativeRequest) else ()
    first = problems[0] if problems else None
    fields = {
        "message": _message(error, entry),
        "type": entry.type,
        "code": first.code if first is not None else entry.code,
        "param": first.param if first is not None else error.param,
        "provider": error.provider,
        "request_id": error.request_id,
        "problems": problems or None,
    }
    return without_none(fields)


def _message(error: DragomanError, entry: NativeErrorCode) -> str:
    """The message of an error, or another one if it could contain a provider's data."""
    if isinstance(error, ChainExhausted) and error.attempts:
        return f"no target could answer: {'; '.join(map(_attempt_text, error.attempts))}"
    if entry.message is not None:
        return entry.message
    if isinstance(error, ProviderError) and error.message.lstrip()[:1] in ("<", "{", "["):
        return "the provider refused the request without a readable reason"
    return re.sub(URL_PATTERN, "[address]", error.message)


def _attempt_text(attempt: Attempt) -> str:
    """The target and outcome of an attempt, with the error if nothing was sent."""
    text = f"{attempt.target} {attempt.outcome}"
    why = attempt.error or ""
    return f"{text} ({re.sub(URL_PATTERN, '[address]', why)})" if why.startswith(_UNSENT) else text
