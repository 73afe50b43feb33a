"""A Chat Completions call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

from collections import defaultdict, deque
from itertools import takewhile
from math import inf
from typing import Any

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema.strict import is_strict
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
    Tool,
    ToolCall,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.history import as_system, split_error
from dragoman.wires.common.json import encode_json, whole_number, without_none
from dragoman.wires.common.options import EFFORTS
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    invalid_field,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_chat.parts import (
    decode_call,
    decode_definition,
    decode_lone_call,
    decode_made,
    decode_part,
    decode_thinking,
    decode_tool,
    encode_assistant,
    encode_part,
    reasoning_fields,
)
from dragoman.wires.openai_chat.schema import (
    CITATIONS,
    IDLE,
    LONE,
    NAME,
    REASONING_FIELDS,
    REASONING_OPTIONS,
    ChatAssistantMessage,
    ChatInputMessage,
    ChatPlainRequest,
    ChatRequest,
    write_usage,
)
from dragoman.wires.openai_chat.stream_encoder import ChatStreamEncoder, encode_finish, is_sayable, text_notes

_NEAREST: dict[str, Effort] = {**{effort: effort for effort in EFFORTS}, "xhigh": "max"}
_CHOICES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

BOUNDS = (
    ("temperature", "temperature", 0, 2),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_tokens", 1, inf),
)
"""What OpenAI refuses to go beyond."""


class OpenAIChatServer:
    """They call us."""

    routes = (Route(method="POST", path="/v1/chat/completions"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        return decode_plain(http.body) or decode_any(http)

    def check(self, model: str, request: Request, /) -> None:
        """Refuse what can be read, and is no request that servers answer."""
        if not model:
            raise missing_field("model")
        if not (request.messages or request.system):
            raise missing_field("messages")
        if (whole_number(wire_extra(request.extra, NAME).get("n")) or 1) > 1:
            raise invalid_field("n", "a request has one answer; ask again for another")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect."""
        parts = [part for part in response.message.parts if is_sayable(part)]
        message = encode_assistant(parts, REASONING_FIELDS[0])
        notes = text_notes(parts)
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

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return is_sayable(part)

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json({"error": encode_openai_error(error)})
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return ChatStreamEncoder(request)


def decode_plain(body: bytes) -> tuple[str, Request] | None:
    """As `decode_request` at a fifth of the cost, where nothing but texts are said; None where more is, or amiss."""
    try:
        asked = _PLAIN.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    said = asked.messages
    leading = [*takewhile(lambda one: one.role == "system", said)]
    return asked.model, Request(
        messages=tuple([Message(role=one.role, parts=(Text(text=one.content),)) for one in said[len(leading) :]]),
        system=as_system([Text(text=one.content) for one in leading]),
        temperature=asked.temperature,
        top_p=asked.top_p,
        max_tokens=asked.max_tokens,
        stream=asked.stream,
    )


_PLAIN = msgspec.json.Decoder(ChatPlainRequest)


def decode_any(http: HttpRequest) -> tuple[str, Request]:
    """As `decode_request`, whatever is asked."""
    shape, rest = read_fields(ChatRequest, decode_request_json(http), "body")
    system, messages = _decode_messages(shape.messages)
    extra = without_none(rest)
    seed = whole_number(extra.get("random_seed")) if shape.seed is None else shape.seed
    effort = shape.reasoning_effort
    if _is_more_than_a_word(effort, extra):
        extra["reasoning_effort"] = effort
    reasoning = _decode_reasoning(extra if effort is None else {"reasoning_effort": effort, **extra})
    extra.update(_beside_format(shape.response_format or {}))
    extra.update(_beside_choice(shape.tool_choice))
    covered = {key: value for key, value in extra.items() if _is_covered(key, value, seed, reasoning)}
    tools, choice = _decode_tools(shape)
    if not shape.tools and is_list(functions := extra.get("functions")):
        tools, choice = _decode_functions(functions, extra.get(LONE))
        covered.update((key, extra[key]) for key in ("functions", LONE) if key in extra)
    return shape.model, Request(
        messages=messages,
        system=as_system(system),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=shape.parallel_tool_calls,
        **_decode_format(shape.response_format or {}),
        temperature=shape.temperature,
        top_p=shape.top_p,
        top_k=whole_number(extra.get("top_k")),
        max_tokens=shape.max_completion_tokens if shape.max_tokens is None else shape.max_tokens,
        stop=(shape.stop,) if isinstance(shape.stop, str) else tuple(shape.stop or ()),
        seed=seed,
        reasoning=reasoning,
        user=shape.user,
        metadata=shape.metadata or {},
        stream=bool(shape.stream),
        extra=request_extra(NAME, {key: extra[key] for key in extra if key not in covered}, covered),
    )


def _decode_messages(messages: list[JsonObject]) -> tuple[list[Text], tuple[Message, ...]]:
    """Leading system messages, and the turns; results that follow each other are one turn."""
    system: list[Text] = []
    turns: list[tuple[Role, list[Part], JsonObject]] = []
    calls = _Calls()
    for i, data in enumerate(messages):
        where = f"messages[{i}]"
        expected = ChatAssistantMessage if data.get("role") == "assistant" else ChatInputMessage
        shape, nullable = read_fields(expected, data, where)
        rest = without_none(nullable) if nullable else nullable
        role = _ROLES.get(shape.role)
        if role is None:
            raise invalid_field(f"{where}.role", f"{shape.role!r} is none of {', '.join(_ROLES)}")
        if role == "tool":
            if not turns or turns[-1][0] != "tool":
                turns.append(("tool", [], {}))
            turns[-1][1].append(_decode_result(shape, rest, where, calls))
            continue
        if isinstance(shape, ChatAssistantMessage):
            parts = _decode_assistant(shape, where, calls)
        else:
            parts = _decode_content(shape, where)
        if role == "system" and not turns:
            system += [_system_text(part, rest, where) for part in parts]
        else:
            turns.append((role, parts, rest))
    return system, tuple(
        [Message(role=role, parts=tuple(parts), extra=make_extra(NAME, rest)) for role, parts, rest in turns]
    )


class _Calls:
    """The calls so far: those without an id get one, and results without one answer the first that waits."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, str] = {}
        self._all: deque[str] = deque()
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        call = call if call.id else msgspec.structs.replace(call, id=f"call_{self._count}")
        self._waiting[call.id] = call.name
        self._all.append(call.id)
        self._by_name[call.name].append(call.id)
        return call

    def answer(self, id: str | None, name: str) -> tuple[str, str]:
        if not id:
            id = self._first(self._by_name[name]) or self._first(self._all) or ""
        return id, self._waiting.pop(id, name)

    def _first(self, ids: deque[str]) -> str | None:
        while ids and ids[0] not in self._waiting:
            ids.popleft()
        return ids[0] if ids else None


def _system_text(part: Part, message: JsonObject, where: str) -> Text:
    if not isinstance(part, Text):
        raise invalid_field(f"{where}.content", "a system message takes text only")
    if not message:
        return part
    return Text(text=part.text, extra={NAME: {**wire_extra(part.extra, NAME), "message": message}})


def _decode_content(shape: ChatInputMessage, where: str) -> list[Part]:
    content = shape.content
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(text=content)]
    pieces = content if isinstance(content, list) else [content]
    return [decode_part(piece, f"{where}.content[{i}]") for i, piece in enumerate(pieces)]


def _decode_assistant(shape: ChatAssistantMessage, where: str, calls: _Calls) -> list[Part]:
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
        parts.append(calls.add(decode_lone_call(shape.function_call, f"{where}.{LONE}")))
    return parts


def _decode_said(part: Part) -> Part:
    """Parts that only an assistant's content has: thinking and refusals."""
    match part:
        case Opaque(data={"type": "refusal", "refusal": str(text), **rest}) if not rest:
            return Text(text=text, extra={NAME: {"refusal": True}})
        case Opaque():
            return decode_thinking(part.data) or part
        case _:
            return part


def _decode_result(shape: ChatInputMessage, rest: JsonObject, where: str, calls: _Calls) -> ToolResult:
    parts = [_result_part(part) for part in _decode_content(shape, where)]
    texts = [part for part in parts if isinstance(part, Text) and not part.extra]
    content: str | tuple[ResultPart, ...]
    if len(texts) == len(parts):
        content, is_error = split_error("\n".join(part.text for part in texts))
    else:
        content, is_error = _split_first(parts)
    id, name = calls.answer(shape.tool_call_id, str(rest.get("name") or ""))
    return ToolResult(id=id, name=name, content=content, is_error=is_error, extra=make_extra(NAME, rest))


def _result_part(part: Part) -> ResultPart:
    return part if isinstance(part, Text | Image | Document | Opaque) else Opaque(wire=NAME, data=encode_part(part))


def _split_first(parts: list[ResultPart]) -> tuple[tuple[ResultPart, ...], bool]:
    """The parts, and whether the first text says that it is an error; it stands without that word then."""
    for i, part in enumerate(parts):
        if isinstance(part, Text):
            text, is_error = split_error(part.text)
            return (*parts[:i], msgspec.structs.replace(part, text=text), *parts[i + 1 :]), is_error
    return tuple(parts), False


def _decode_tools(shape: ChatRequest) -> tuple[tuple[Tool | Opaque, ...], str | None]:
    tools = tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ()))
    return tools, _decode_choice(shape.tool_choice)


def _decode_functions(functions: list[Any], choice: object) -> tuple[tuple[Tool | Opaque, ...], str | None]:
    """Tools and the choice among them, in the first form of the API."""
    tools = tuple(decode_definition(function, f"functions[{i}]") for i, function in enumerate(functions))
    return tools, _decode_choice({"function": choice} if is_object(choice) else str(choice))


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
    """A format that would not be said again as it is, is kept verbatim beside our words."""
    if not data:
        return {}
    inner = _json_schema(data)
    if inner is None:
        plain = data.keys() <= {"type"} and data.get("type") in (None, "text", "json_object")
    else:
        plain = _is_covered_format(data) and (not inner.get("strict") or is_strict(inner["schema"]))
    return {} if plain else {"response_format": data}


def _json_schema(data: JsonObject) -> JsonObject | None:
    inner = data.get("json_schema")
    if data.get("type") != "json_schema" or not is_object(inner) or not is_object(inner.get("schema")):
        return None
    return inner


def _is_more_than_a_word(effort: str | None, extra: JsonObject) -> bool:
    return effort is not None and (effort not in EFFORTS or any(field in extra for field in REASONING_OPTIONS))


def _decode_reasoning(extra: JsonObject) -> Effort | int | None:
    if extra.keys().isdisjoint(REASONING_OPTIONS):
        return None
    match extra:
        case {"reasoning_effort": str(word)} if word in _NEAREST:
            return _NEAREST[word]
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


def _is_covered(field: str, value: Any, seed: int | None, reasoning: Effort | int | None) -> bool:
    """Whether our words say all that a field says; what they say in part is not covered."""
    match field:
        case "top_k":
            return whole_number(value) is not None
        case "random_seed":
            return seed is not None and whole_number(value) == seed
        case "stream_options":
            return is_object(value) and value.keys() <= {"include_usage"}
        case "response_format":
            return _is_covered_format(value)
        case _ if field in IDLE:
            return bool(value == IDLE[field])
        case _:
            return field in REASONING_OPTIONS and _is_covered_reasoning(field, value, reasoning)


def _is_covered_format(data: JsonObject) -> bool:
    inner = _json_schema(data)
    if inner is None:
        return data.keys() == {"type", "schema"} and data["type"] == "json_object" and is_object(data["schema"])
    told = without_none(inner)
    known = data.keys() <= {"type", "json_schema"} and told.keys() <= {"name", "schema", "strict"}
    return known and isinstance(told.get("strict", False), bool)


def _is_covered_reasoning(field: str, value: Any, reasoning: Effort | int | None) -> bool:
    """Whether a field says the same as our word, and nothing beside it."""
    if is_object(value) and len(value) > 1 + ("budget_tokens" in value):
        return False
    meant = _decode_reasoning({field: value})
    is_on = meant == "medium" and reasoning not in ("none", 0)
    return is_on or (meant is not None and meant == reasoning)
