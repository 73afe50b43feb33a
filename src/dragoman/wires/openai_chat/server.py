"""A Chat Completions call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

from typing import Any, cast, get_args

import msgspec

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Ping, Started
from dragoman.framing import encode_sse
from dragoman.history import as_system, split_error
from dragoman.http import HttpReply, HttpRequest
from dragoman.types import (
    Document,
    Effort,
    Finish,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    ResultPart,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    is_object,
)
from dragoman.wire import (
    Route,
    StreamEncoder,
    decode_request_json,
    encode_json,
    error_headers,
    finish_word,
    own_extra,
    read_shape,
    whole_number,
    wire_extra,
    without_none,
)
from dragoman.wires.openai_chat.parts import (
    decode_call,
    decode_part,
    decode_thinking,
    decode_tool,
    encode_assistant,
    encode_call,
    encode_part,
    reasoning_fields,
)
from dragoman.wires.openai_chat.shapes import (
    CITATIONS,
    FINISH,
    FINISH_WORD,
    NAME,
    REASONING_FIELDS,
    SAME_CONCEPT,
    ChatRequest,
    MessageShape,
    write_usage,
)

_EFFORTS = frozenset(get_args(Effort))
_CHOICES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class Server:
    """They call us."""

    routes = (Route(method="POST", path="/v1/chat/completions"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, extra = read_shape(ChatRequest, decode_request_json(http), "body")
        system, messages = _decode_messages(shape.messages)
        extra = {**extra, **_beside_schema(shape), **_beside_choice(shape)}
        if shape.reasoning_effort is not None and (
            shape.reasoning_effort not in _EFFORTS or extra.keys() & set(SAME_CONCEPT["reasoning_effort"])
        ):
            extra["reasoning_effort"] = shape.reasoning_effort
        return shape.model, Request(
            messages=messages,
            system=as_system(system),
            tools=tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ())),
            tool_choice=_decode_choice(shape.tool_choice),
            parallel_tool_calls=shape.parallel_tool_calls,
            **_decode_format(shape.response_format),
            temperature=shape.temperature,
            top_p=shape.top_p,
            top_k=whole_number(extra.get("top_k")),
            max_tokens=shape.max_completion_tokens if shape.max_tokens is None else shape.max_tokens,
            stop=(shape.stop,) if isinstance(shape.stop, str) else tuple(shape.stop or ()),
            seed=whole_number(extra.get("random_seed")) if shape.seed is None else shape.seed,
            reasoning=_decode_reasoning(shape.reasoning_effort, extra),
            user=shape.user,
            metadata=shape.metadata or {},
            stream=bool(shape.stream),
            extra=own_extra(NAME, extra),
        )

    def encode_body(self, response: Response, /) -> HttpReply:
        """The whole answer in this dialect."""
        message = encode_assistant(response.message.parts, REASONING_FIELDS[0])
        message.setdefault("refusal", None)
        notes = _text_notes(response.message.parts)
        if "annotations" in notes:
            message["annotations"] = notes["annotations"]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": notes.get("logprobs"),
            "finish_reason": _finish_word(response.finish),
        }
        body = {
            "id": response.id or "",
            "object": "chat.completion",
            "created": response.created or 0,
            "model": response.model or "",
            "choices": [choice],
            "usage": write_usage(response.usage),
            **{key: notes[key] for key in CITATIONS if key in notes},
        }
        return HttpReply(body=encode_json(body))

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json({"error": _error(error)})
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return _Writer(request)


def _error(error: DragomanError) -> JsonObject:
    kind = "invalid_request_error" if error.http_status < 500 else "api_error"
    return {"message": error.message, "type": kind, "param": None, "code": error.code}


def _decode_messages(messages: list[JsonObject]) -> tuple[list[Text], tuple[Message, ...]]:
    """Leading system messages, and the turns; results that follow each other are one turn."""
    system: list[Text] = []
    turns: list[Message] = []
    calls = _Calls()
    for i, data in enumerate(messages):
        where = f"messages[{i}]"
        shape, rest = read_shape(MessageShape, data, where)
        role = _ROLES.get(shape.role)
        if role is None:
            raise InvalidRequest(f"{where}.role: {shape.role!r} is none of {', '.join(_ROLES)}")
        if role == "tool":
            result = _decode_result(shape, rest, where, calls)
            before = turns.pop().parts if turns and turns[-1].role == "tool" else ()
            turns.append(Message(role="tool", parts=(*before, result)))
            continue
        parts = _decode_assistant(shape, where, calls) if role == "assistant" else _decode_content(shape, where)
        if role == "system" and not turns:
            system += [_system_text(part, rest) for part in parts]
        else:
            turns.append(Message(role=role, parts=parts, extra=own_extra(NAME, rest)))
    return system, tuple(turns)


class _Calls:
    """The calls so far: those without an id get one, and results without one answer the first that waits."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, str] = {}

    def add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        call = call if call.id else msgspec.structs.replace(call, id=f"call_{self._count}")
        self._waiting[call.id] = call.name
        return call

    def answer(self, id: str | None, name: str) -> tuple[str, str]:
        if not id:
            same = [waiting for waiting, called in self._waiting.items() if called == name] or list(self._waiting)
            id = same[0] if same else ""
        return id, self._waiting.pop(id, name)


def _system_text(part: Part, rest: JsonObject) -> Text:
    if not isinstance(part, Text):
        raise InvalidRequest("a system message takes text only")
    extra = {**wire_extra(part.extra, NAME), **rest}
    return Text(text=part.text, extra=own_extra(NAME, extra))


def _decode_content(shape: MessageShape, where: str) -> tuple[Part, ...]:
    content = shape.content
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    pieces = content if isinstance(content, list) else [content]
    return tuple(decode_part(piece, f"{where}.content[{i}]") for i, piece in enumerate(pieces))


def _decode_assistant(shape: MessageShape, where: str, calls: _Calls) -> tuple[Part, ...]:
    parts: list[Part] = []
    fields = reasoning_fields(shape)
    if fields or shape.reasoning_details:
        extra = without_none({"fields": fields or None, "details": shape.reasoning_details})
        text = getattr(shape, fields[0]) if fields else ""
        parts.append(Thinking(text=text, redacted=not fields, extra={NAME: extra}))
    for part in _decode_content(shape, where):
        if isinstance(part, Opaque):
            parts.append(decode_thinking(part.data) or part)
        elif not (isinstance(part, Text) and not part.text):
            parts.append(part)
    if shape.refusal:
        parts.append(Text(text=shape.refusal, extra={NAME: {"refusal": True}}))
    for i, call in enumerate(shape.tool_calls or ()):
        parts.append(calls.add(decode_call(call, f"{where}.tool_calls[{i}]")))
    return tuple(parts)


def _decode_result(shape: MessageShape, rest: JsonObject, where: str, calls: _Calls) -> ToolResult:
    parts = _decode_content(shape, where)
    texts = [part for part in parts if isinstance(part, Text)]
    text, is_error = split_error("\n".join(part.text for part in texts))
    content: str | tuple[ResultPart, ...] = text
    if len(texts) < len(parts) or any(part.extra for part in texts):
        first = [msgspec.structs.replace(texts[0], text=split_error(texts[0].text)[0])] if texts else []
        others = [part for part in parts if part not in texts[:1] and isinstance(part, Text | Image | Document)]
        content = (*first, *others)
    id, name = calls.answer(shape.tool_call_id, str(rest.get("name") or ""))
    return ToolResult(id=id, name=name, content=content, is_error=is_error, extra=own_extra(NAME, rest))


def _decode_choice(choice: str | JsonObject | None) -> str | None:
    match choice:
        case str():
            return _CHOICES.get(choice)
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def _beside_choice(shape: ChatRequest) -> JsonObject:
    known = shape.tool_choice is None or _decode_choice(shape.tool_choice) is not None
    return {} if known else {"tool_choice": shape.tool_choice}


def _decode_format(data: JsonObject | None) -> dict[str, Any]:
    kind = (data or {}).get("type")
    if kind == "json_object":
        return {"schema": {}}
    inner = (data or {}).get("json_schema")
    if kind != "json_schema" or not is_object(inner) or not is_object(inner.get("schema")):
        return {}
    name, strict = inner.get("name"), inner.get("strict")
    return {
        "schema": inner["schema"],
        "schema_name": name if isinstance(name, str) else "response",
        "schema_strict": strict if isinstance(strict, bool) else None,
    }


def _beside_schema(shape: ChatRequest) -> JsonObject:
    """A format that our words do not cover whole is kept verbatim beside them."""
    data = shape.response_format or {}
    inner = data.get("json_schema")
    covered = data.keys() <= {"type"} or (
        data.keys() <= {"type", "json_schema"} and is_object(inner) and inner.keys() <= {"name", "schema", "strict"}
    )
    return {} if covered else {"response_format": data}


def _decode_reasoning(effort: str | None, extra: JsonObject) -> Effort | int | None:
    if effort in _EFFORTS:
        return cast("Effort", effort)
    match extra:
        case {"reasoning": {"effort": str(word)}} if word in _EFFORTS:
            return cast("Effort", word)
        case {"reasoning": {"max_tokens": int(tokens)}}:
            return tokens
        case {"reasoning": {"enabled": False}} | {"thinking": {"type": "disabled"}} | {"enable_thinking": False}:
            return "none"
        case {"reasoning": {"enabled": True}} | {"thinking": {"type": "enabled"}} | {"enable_thinking": True}:
            return "medium"
        case _:
            return None


def _finish_word(finish: Finish) -> str | None:
    unknown = finish.raw is None and finish.reason == "other"
    return None if unknown else finish_word(finish, FINISH, FINISH_WORD)


def _text_notes(parts: tuple[Part, ...]) -> JsonObject:
    """What belongs to the text and stands elsewhere in this dialect: log-probabilities and citations."""
    notes: JsonObject = {}
    for part in parts:
        if isinstance(part, Text):
            notes.update(wire_extra(part.extra, NAME))
    return notes


class _Writer:
    """Events to chunks."""

    content_type = "text/event-stream"

    def __init__(self, request: Request) -> None:
        options = wire_extra(request.extra, NAME).get("stream_options")
        self._usage_chunk = is_object(options) and bool(options.get("include_usage"))
        self._head: JsonObject = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": ""}
        self._fields: dict[int, tuple[str, ...]] = {}
        self._calls = 0
        self._streamed: set[int] = set()

    def feed(self, event: Event | DragomanError, /) -> bytes:
        """The bytes of one event."""
        match event:
            case PartDelta():
                self._streamed.add(event.index)
                return self._chunk(_delta(self._fields[event.index], event.text))
            case PartStarted():
                self._fields[event.index] = _fields(event)
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
            case DragomanError():
                return encode_sse(encode_json({"error": _error(event)}))

    def _chunk(self, delta: JsonObject, finish: str | None = None, **more: Any) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
        if "logprobs" in more:
            choice["logprobs"] = more.pop("logprobs")
        return encode_sse(encode_json({**self._head, "choices": [choice], **more}))

    def _ended(self, event: PartEnded) -> bytes:
        match event.part:
            case ToolCall():
                call = {"index": self._calls, **encode_call(event.part)}
                self._calls += 1
                return self._chunk({"tool_calls": [call]})
            case Text() | Thinking():
                return self._late_text(event.index, event.part)
            case Image():
                return self._chunk({"images": [encode_part(event.part)]})
            case Opaque() if event.part.wire == NAME:
                return self._chunk({"content": [event.part.data]} if "type" in event.part.data else event.part.data)
            case _:
                return b""

    def _late_text(self, index: int, part: Text | Thinking) -> bytes:
        """What only the end of a part tells: its details and citations, and a text that came without deltas."""
        extra = wire_extra(part.extra, NAME)
        delta: JsonObject = {}
        if part.text and index not in self._streamed:
            delta = _delta(self._fields[index], part.text)
        if isinstance(part, Thinking):
            if "details" in extra:
                delta["reasoning_details"] = extra["details"]
            if "chunk" in extra:
                delta.setdefault("content", []).append({"type": "thinking", "thinking": [], **extra["chunk"]})
            return self._chunk(delta) if delta else b""
        if "annotations" in extra:
            delta["annotations"] = extra["annotations"]
        more = {key: extra[key] for key in (*CITATIONS, "logprobs") if key in extra}
        return self._chunk(delta, **more) if delta or more else b""

    def _finished(self, finish: Finish, usage: Usage) -> bytes:
        told = write_usage(usage)
        word = _finish_word(finish)
        if not self._usage_chunk:
            last = self._chunk({}, word, **({"usage": told} if told else {}))
        else:
            tail: JsonObject = {**self._head, "choices": [], "usage": told}
            last = self._chunk({}, word) + encode_sse(encode_json(tail))
        return last + encode_sse(b"[DONE]")


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
