"""A Chat Completions call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

from typing import Any, get_args

import msgspec

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.history import as_system, split_error
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema import is_strict
from dragoman.types import (
    Document,
    Effort,
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
    is_object,
)
from dragoman.wire import (
    Route,
    StreamEncoder,
    decode_request_json,
    encode_json,
    error_headers,
    own_extra,
    read_shape,
    whole_number,
    wire_extra,
    without_none,
)
from dragoman.wires.openai_chat.parts import (
    decode_call,
    decode_function,
    decode_made,
    decode_part,
    decode_thinking,
    decode_tool,
    encode_assistant,
    encode_part,
    reasoning_fields,
)
from dragoman.wires.openai_chat.shapes import (
    CITATIONS,
    NAME,
    REASONING_FIELDS,
    SAME_CONCEPT,
    AssistantShape,
    ChatRequest,
    MessageShape,
    write_usage,
)
from dragoman.wires.openai_chat.writer import ChatWriter, encode_failure, encode_finish, text_notes

_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_NEAREST: dict[str | None, Effort] = {**{effort: effort for effort in _EFFORTS}, "xhigh": "max"}
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
        shape, rest = read_shape(ChatRequest, decode_request_json(http), "body")
        system, messages = _decode_messages(shape.messages)
        extra = without_none(rest)
        if _is_more_than_a_word(shape.reasoning_effort, extra):
            extra["reasoning_effort"] = shape.reasoning_effort
        extra.update({**_beside_format(shape.response_format or {}), **_beside_choice(shape.tool_choice)})
        return shape.model, Request(
            messages=messages,
            system=as_system(system),
            tools=tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ())),
            tool_choice=_decode_choice(shape.tool_choice),
            parallel_tool_calls=shape.parallel_tool_calls,
            **_decode_format(shape.response_format or {}),
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
        notes = text_notes(response.message.parts)
        if "annotations" in notes:
            message["annotations"] = notes["annotations"]
        choice = {
            "index": 0,
            "message": {"refusal": None, **message},
            "logprobs": notes.get("logprobs"),
            "finish_reason": encode_finish(response.finish, is_refused="refusal" in message),
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
        body = encode_json({"error": encode_failure(error)})
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return ChatWriter(request)


def _decode_messages(messages: list[JsonObject]) -> tuple[list[Text], tuple[Message, ...]]:
    """Leading system messages, and the turns; results that follow each other are one turn."""
    system: list[Text] = []
    turns: list[Message] = []
    calls = _Calls()
    for i, data in enumerate(messages):
        where = f"messages[{i}]"
        expected = AssistantShape if data.get("role") == "assistant" else MessageShape
        shape, nullable = read_shape(expected, data, where)
        rest = without_none(nullable)
        role = _ROLES.get(shape.role)
        if role is None:
            raise InvalidRequest(f"{where}.role: {shape.role!r} is none of {', '.join(_ROLES)}")
        if role == "tool":
            result = _decode_result(shape, rest, where, calls)
            before = turns.pop().parts if turns and turns[-1].role == "tool" else ()
            turns.append(Message(role="tool", parts=(*before, result)))
            continue
        if isinstance(shape, AssistantShape):
            parts = _decode_assistant(shape, where, calls)
        else:
            parts = _decode_content(shape, where)
        if role == "system" and not turns:
            system += [_system_text(part, rest, where) for part in parts]
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


def _system_text(part: Part, message: JsonObject, where: str) -> Text:
    if not isinstance(part, Text):
        raise InvalidRequest(f"{where}.content: a system message takes text only")
    extra = {**wire_extra(part.extra, NAME), **({"message": message} if message else {})}
    return Text(text=part.text, extra=own_extra(NAME, extra))


def _decode_content(shape: MessageShape, where: str) -> tuple[Part, ...]:
    content = shape.content
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    pieces = content if isinstance(content, list) else [content]
    return tuple(decode_part(piece, f"{where}.content[{i}]") for i, piece in enumerate(pieces))


def _decode_assistant(shape: AssistantShape, where: str, calls: _Calls) -> tuple[Part, ...]:
    parts: list[Part] = []
    fields = reasoning_fields(shape)
    if fields or shape.reasoning_details:
        extra = without_none({"fields": fields or None, "details": shape.reasoning_details})
        text = getattr(shape, fields[0]) if fields else ""
        parts.append(Thinking(text=text, redacted=not fields, extra={NAME: extra}))
    said = (_decode_said(part) for part in _decode_content(shape, where))
    parts += [part for part in said if part != Text(text="")]
    if shape.refusal:
        parts.append(Text(text=shape.refusal, extra={NAME: {"refusal": True}}))
    parts += [decode_made(image, f"{where}.images[{i}]") for i, image in enumerate(shape.images or ())]
    for i, call in enumerate(shape.tool_calls or ()):
        parts.append(calls.add(decode_call(call, f"{where}.tool_calls[{i}]")))
    if shape.function_call is not None:
        parts.append(calls.add(decode_function(shape.function_call, f"{where}.function_call")))
    return tuple(parts)


def _decode_said(part: Part) -> Part:
    """Parts that only an assistant's content has: thinking and refusals."""
    match part:
        case Opaque(data={"type": "refusal", "refusal": str(text), **rest}) if not rest:
            return Text(text=text, extra={NAME: {"refusal": True}})
        case Opaque():
            return decode_thinking(part.data) or part
        case _:
            return part


def _decode_result(shape: MessageShape, rest: JsonObject, where: str, calls: _Calls) -> ToolResult:
    parts = [_result_part(part) for part in _decode_content(shape, where)]
    texts = [part for part in parts if isinstance(part, Text) and not part.extra]
    content: str | tuple[ResultPart, ...]
    if len(texts) == len(parts):
        content, is_error = split_error("\n".join(part.text for part in texts))
    else:
        content, is_error = _split_first(parts)
    id, name = calls.answer(shape.tool_call_id, str(rest.get("name") or ""))
    return ToolResult(id=id, name=name, content=content, is_error=is_error, extra=own_extra(NAME, rest))


def _result_part(part: Part) -> ResultPart:
    return part if isinstance(part, Text | Image | Document | Opaque) else Opaque(wire=NAME, data=encode_part(part))


def _split_first(parts: list[ResultPart]) -> tuple[tuple[ResultPart, ...], bool]:
    """The parts, and whether the first text says that it is an error; it stands without that word then."""
    for i, part in enumerate(parts):
        if isinstance(part, Text):
            text, is_error = split_error(part.text)
            return (*parts[:i], msgspec.structs.replace(part, text=text), *parts[i + 1 :]), is_error
    return tuple(parts), False


def _decode_choice(choice: str | JsonObject | None) -> str | None:
    match choice:
        case str():
            return _CHOICES.get(choice)
        case {"function": {"name": str(name)}}:
            return name
        case {"allowed_tools": {"mode": str(mode)}}:
            return _CHOICES.get(mode)
        case _:
            return None


def _beside_choice(choice: str | JsonObject | None) -> JsonObject:
    covered = choice is None or (_decode_choice(choice) is not None and "allowed_tools" not in choice)
    return {} if covered else {"tool_choice": choice}


def _decode_format(data: JsonObject) -> dict[str, Any]:
    if data.get("type") == "json_object":
        return {"schema": data["schema"] if is_object(data.get("schema")) else {}}
    inner = _json_schema(data)
    if inner is None:
        return {}
    name, strict = inner.get("name"), inner.get("strict")
    return {
        "schema": inner["schema"],
        "schema_name": name if isinstance(name, str) else "response",
        "schema_strict": strict if isinstance(strict, bool) else None,
    }


def _beside_format(data: JsonObject) -> JsonObject:
    """A format that our words do not cover whole is kept verbatim beside them."""
    inner = _json_schema(data)
    if inner is None:
        covered = data.keys() <= {"type"} and data.get("type") in (None, "text", "json_object")
    else:
        known = data.keys() <= {"type", "json_schema"} and without_none(inner).keys() <= {"name", "schema", "strict"}
        covered = known and (not inner.get("strict") or is_strict(inner["schema"]))
    return {} if covered else {"response_format": data}


def _json_schema(data: JsonObject) -> JsonObject | None:
    inner = data.get("json_schema")
    if data.get("type") != "json_schema" or not is_object(inner) or not is_object(inner.get("schema")):
        return None
    return inner


def _is_more_than_a_word(effort: str | None, extra: JsonObject) -> bool:
    return effort is not None and (effort not in _EFFORTS or bool(extra.keys() & set(SAME_CONCEPT["reasoning_effort"])))


def _decode_reasoning(effort: str | None, extra: JsonObject) -> Effort | int | None:
    if effort in _NEAREST:
        return _NEAREST[effort]
    match extra:
        case {"reasoning": {"effort": str(word)}} if word in _NEAREST:
            return _NEAREST[word]
        case {"reasoning": {"max_tokens": int(tokens)}}:
            return tokens
        case {"thinking": {"type": "enabled", "budget_tokens": int(tokens)}}:
            return tokens
        case {"reasoning": {"enabled": False}} | {"thinking": {"type": "disabled"}} | {"enable_thinking": False}:
            return "none"
        case {"reasoning": {"enabled": True}} | {"thinking": {"type": "enabled"}} | {"enable_thinking": True}:
            return "medium"
        case _:
            return None
