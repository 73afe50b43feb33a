"""Events in, the bytes of a native stream out; and what a whole body says in the same words."""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.errors import AuthFailed, ChainExhausted, DragomanError, ProviderError, RequestError, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.types import Attempt, Finish, JsonObject, Notice, Response, Text, Thinking, ToolCall, ToolResult
from dragoman.wires.common.errors import URL_PATTERN, is_out_of_credit
from dragoman.wires.common.framing import encode_sse
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.native.parts import encode_assistant, encode_call, encode_part
from dragoman.wires.native.problems import InvalidNativeRequest
from dragoman.wires.native.schema import BY_STATUS, ERRORS, INTERNAL, NO_CREDIT, NativeError, write_usage

_FIELDS = {"text": "content", "thinking": "thinking"}
_FORBIDDEN = 403
_UNPROCESSABLE = 422
_OURS = f"{Unsupported.__name__}: "
"""How the error of an attempt begins that was refused before a byte left."""


def encode_answer(response: Response) -> JsonObject:
    """A whole answer."""
    choice = {"index": 0, "message": encode_assistant(response.message.parts, {}), **_end(response.finish)}
    head = {"id": response.id, "object": "chat.completion", "created": response.created, "model": response.model}
    return {**head, "choices": [choice], "usage": write_usage(response.usage), **_notices(response.notices)}


def _end(finish: Finish) -> JsonObject:
    return {"finish_reason": finish.reason, **without_none({"finish_raw": finish.raw})}


def _notices(notices: Iterable[Notice]) -> JsonObject:
    told = [{"kind": notice.kind, "what": notice.what, "why": notice.why} for notice in notices]
    return {"notices": told} if told else {}


class NativeStreamEncoder:
    """Events to chunks; `index` tells of which part, and a part that ends says what its pieces did not."""

    content_type = "text/event-stream"

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._fields: dict[int, str] = {}
        self._streamed: set[int] = set()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return self._chunk({"index": event.index, self._fields[event.index]: event.text})
            case PartStarted():
                self._fields[event.index] = _FIELDS.get(event.kind, "content")
                return b""
            case PartEnded():
                return self._ended(event)
            case Started():
                self._head = {"id": event.id, "object": "chat.completion.chunk"}
                self._head |= {"created": event.created, "model": event.model}
                return self._chunk({"role": "assistant"})
            case Finished():
                last = {"usage": write_usage(event.usage), **_notices(event.notices)}
                return self._chunk({}, _end(event.finish), last) + encode_sse(b"[DONE]")
            case Ping():
                return b": ping\n\n"
            case _:
                return encode_sse(encode_json({"error": encode_failure(event)}))

    def _ended(self, event: PartEnded) -> bytes:
        part = event.part
        match part:
            case ToolCall():
                return self._chunk({"tool_calls": [encode_call(part)]})
            case ToolResult():
                return b""
            case Text() | Thinking() if event.index in self._streamed:
                told = encode_part(part)
                del told["text"]
            case _:
                told = encode_part(part)
        return self._chunk({"index": event.index, "part": told})

    def _chunk(self, delta: JsonObject, end: JsonObject | None = None, more: JsonObject | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, **(end or {"finish_reason": None})}
        return encode_sse(encode_json({**self._head, "choices": [choice], **(more or {})}))


def status_of(error: DragomanError) -> int:
    """The status of a refusal: its class's own, but where ours says more."""
    if isinstance(error, AuthFailed) and error.status == _FORBIDDEN:
        return _FORBIDDEN
    return _UNPROCESSABLE if isinstance(error, Unsupported) else error.http_status


def _refusal_of(error: DragomanError) -> NativeError:
    found = next((refusal for kind, refusal in ERRORS if isinstance(error, kind)), INTERNAL)
    if found is INTERNAL or isinstance(error, RequestError | AuthFailed):
        found = BY_STATUS.get(status_of(error), found)
    return replace(found, code=NO_CREDIT) if is_out_of_credit(error) else found


def encode_failure(error: DragomanError) -> JsonObject:
    """The refusal: what is wrong, where, and how to find it in the logs; no bytes, key or address of a provider."""
    refusal = _refusal_of(error)
    problems = error.problems if isinstance(error, InvalidNativeRequest) else ()
    first = problems[0] if problems else None
    told = {
        "message": _words(error, refusal),
        "type": refusal.type,
        "code": first.code if first is not None else refusal.code,
        "param": first.param if first is not None else error.param,
        "provider": error.provider,
        "request_id": error.request_id,
        "problems": problems or None,
    }
    return without_none(told)


def _words(error: DragomanError, refusal: NativeError) -> str:
    """The words of an error; others in their place where they may hold what a provider sent."""
    if isinstance(error, ChainExhausted) and error.attempts:
        return f"no target could answer: {'; '.join(map(_tried, error.attempts))}"
    if refusal.instead is not None:
        return refusal.instead
    if isinstance(error, ProviderError) and error.message.lstrip()[:1] in ("<", "{", "["):
        return "the provider refused, and gave no reason in words"
    return re.sub(URL_PATTERN, "[address]", error.message)


def _tried(attempt: Attempt) -> str:
    """How an attempt ended; why, where no byte had left, so that the words are ours."""
    told = f"{attempt.target} {attempt.outcome}"
    why = attempt.error or ""
    return f"{told} ({re.sub(URL_PATTERN, '[address]', why)})" if why.startswith(_OURS) else told
