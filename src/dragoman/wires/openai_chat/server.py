"""The server half of Chat Completions: decodes requests of clients and encodes responses.

Most requests contain only text messages and a few options; `decode_plain` decodes them in one step. All others go
through `decode_any`, which accepts the extensions of many servers. A field whose meaning `Request` has in full is kept
verbatim (see `wires.common.extra`); `_is_covered` decides that.
"""

from collections import defaultdict, deque
from math import inf
from typing import Any, get_args
from urllib.parse import unquote

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import (
    AnyTool,
    Choice,
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
    Verbosity,
    is_list,
    is_object,
)
from dragoman.types.base import unchecked
from dragoman.types.fast_constructors import new_message, new_result, new_text, text_message, text_request
from dragoman.types.requests import MAX_CHOICES, MOST
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.history import as_system, split_error
from dragoman.wires.common.json import DECODE_ERRORS, encode_json, whole_number, without_none
from dragoman.wires.common.open_turns import UnlinkedResult
from dragoman.wires.common.options import EFFORTS, tier_word
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_items,
    invalid_field,
    make_request,
    read_body,
    read_fields,
    require_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.openai_chat.custom_tools import custom_names, restore
from dragoman.wires.openai_chat.hosted_tools import (
    EXECUTED,
    OPTIONS_FIELD,
    ExecutedTools,
    decode_search_options,
)
from dragoman.wires.openai_chat.parts import (
    decode_call,
    decode_definition,
    decode_function_call,
    decode_image_part,
    decode_part,
    decode_thinking,
    decode_tool,
    encode_assistant,
    encode_part,
    read_citations,
    reasoning_fields,
    write_choice_logprobs,
)
from dragoman.wires.openai_chat.plain import encode_plain_body
from dragoman.wires.openai_chat.response_format import decode_format, format_extra, is_covered_format
from dragoman.wires.openai_chat.schema import (
    CITATIONS,
    DEFAULTS,
    FUNCTION_CALL,
    MESSAGE_CITATIONS,
    NAME,
    REASONING_FIELDS,
    REASONING_OPTIONS,
    REASONING_STATE,
    ChatAssistantMessage,
    ChatInputMessage,
    ChatPlainRequest,
    ChatRequest,
    write_usage,
)
from dragoman.wires.openai_chat.stream_encoder import (
    ChatStreamEncoder,
    encode_filters,
    encode_finish,
    encode_prompt_filters,
    is_supported,
    text_extra,
)

_EFFORTS: dict[str, Effort] = {effort: effort for effort in EFFORTS}
_VERBOSITIES: dict[str, Verbosity] = {word: word for word in get_args(Verbosity)}
_CHOICES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TOOL_TURN = Message(role="tool")

BOUNDS = (
    ("temperature", "temperature", 0, 2),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_tokens", 1, inf),
    ("frequency_penalty", "frequency_penalty", -2, 2),
    ("presence_penalty", "presence_penalty", -2, 2),
    ("top_logprobs", "top_logprobs", 0, 20),
    ("n", "n", 1, MAX_CHOICES),
)
"""The limits of OpenAI."""


_DEPLOYMENTS = "/openai/deployments/"
PLACE_PATHS = tuple(
    f"/{version}/projects/{{project}}/locations/{{location}}/endpoints/openapi" for version in ("v1", "v1beta1")
)
"""The beginnings of a cloud's paths for clients of OpenAI, by project and location."""


class OpenAIChatServer:
    """The server half of Chat Completions."""

    has_citations = True
    routes = (
        Route(method="POST", path="/v1/chat/completions"),
        Route(method="POST", path="/openai/v1/chat/completions"),
        Route(method="POST", path="/openai/deployments/{model}/chat/completions"),
        *(Route(method="POST", path=f"{start}/chat/completions") for start in PLACE_PATHS),
    )
    """OpenAI's path, and those of clouds."""

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        model, request = decode_plain(http.body) or decode_any(http)
        return model or deployment(http) or "", request

    def check(self, model: str, request: Request, /) -> None:
        require_fields({"model": model, "messages": request.messages or request.system})
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        if (plain := encode_plain_body(response)) is not None:
            headers = {"content-type": "application/json"}
            return msgspec.structs.replace(_RESPONSE, headers=headers, body=encode_json(plain))
        choices: list[JsonObject] = []
        customs = frozenset[str]() if request is None or not request.tools else custom_names(request.tools)
        citations: JsonObject = {}
        for index, choice in enumerate(response.choices):
            encoded, extra = _encode_choice(index, choice, customs)
            choices.append(encoded)
            citations = citations or {key: extra[key] for key in CITATIONS if key in extra}
        body = {
            "id": response.id or "",
            "object": "chat.completion",
            "created": response.created or 0,
            "model": response.model or "",
            "choices": choices,
            "usage": write_usage(response.usage),
            **without_none({"service_tier": tier_word(response.service_tier, "default")}),
            **citations,
            **encode_prompt_filters(response.finish),
        }
        return HttpResponse(body=encode_json(body))

    def supports_part(self, part: Part, /) -> bool:
        return is_supported(part)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return error_response(error, {"error": encode_openai_error(error)})

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return ChatStreamEncoder(request)


def deployment(http: HttpRequest, /) -> str | None:
    """The deployment in a path of Azure, which is the model if the body has none."""
    if not http.path.startswith(_DEPLOYMENTS):
        return None
    path = http.path.partition("?")[0].removeprefix(_DEPLOYMENTS)
    for ending in ("/chat/completions", "/completions", "/embeddings"):
        path = path.removesuffix(ending)
    return unquote(path)


def is_within(value: float | None, most: float) -> bool:
    """Whether an option has a value that `Request` takes; else `decode_any` makes the error."""
    return value is None or 0 <= value <= most


def _encode_choice(index: int, choice: Choice, customs: frozenset[str]) -> tuple[JsonObject, JsonObject]:
    """A choice, and the fields of its texts that do not belong into it."""
    parts = [part for part in choice.message.parts if is_supported(part)]
    if customs:
        parts = [part for each in parts if is_supported(part := restore(each, customs))]
    message = encode_assistant(parts, REASONING_FIELDS[0])
    extra = text_extra(parts)
    message |= {key: extra[key] for key in MESSAGE_CITATIONS if key in extra}
    encoded = {
        "index": index,
        "message": {"refusal": None, **message},
        "logprobs": write_choice_logprobs(parts),
        "finish_reason": encode_finish(choice.finish, is_refused="refusal" in message),
        **encode_filters(choice.finish),
    }
    return encoded, extra


def decode_plain(body: bytes) -> tuple[str, Request] | None:
    """Decode a request with text messages only, at a fifth of the cost; None for all other requests."""
    try:
        plain = _PLAIN.decode(body)
    except DECODE_ERRORS:
        return None
    most = plain.max_tokens
    if not (is_within(plain.temperature, 2) and is_within(plain.top_p, 1) and (most is None or -1 <= most <= MOST)):
        return None
    system: list[str] = []
    turns: list[Message] = []
    for message in plain.messages:
        if turns or message.role != "system":
            turns.append(text_message(message.role, message.content))
        else:
            system.append(message.content)
    instructions = system[0] if len(system) == 1 else as_system([new_text(text) for text in system])
    # Everything was checked above or by the decoder, and `Request` would check it again.
    request = text_request(tuple(turns), instructions, plain.temperature, plain.top_p, most, stream=plain.stream)
    return plain.model, request


_RESPONSE = HttpResponse()
_PLAIN = msgspec.json.Decoder(ChatPlainRequest)


def decode_any(http: HttpRequest) -> tuple[str, Request]:
    """Decode any request."""
    body, rest = read_body(ChatRequest, http, ("messages", "tools"))
    system, messages = _link_messages(decode_items(body.messages, _decode_message, "messages"))
    extra = without_none(rest)
    seed = whole_number(extra.get("random_seed")) if body.seed is None else body.seed
    effort = body.reasoning_effort
    if _needs_verbatim_effort(effort, extra):
        extra["reasoning_effort"] = effort
    reasoning = _decode_reasoning(extra if effort is None else {"reasoning_effort": effort, **extra})
    format = body.response_format
    extra.update(format_extra(format) if format else {})
    extra.update(_choice_extra(body.tool_choice))
    extra.update(_rare_extra(body))
    covered = {key: value for key, value in extra.items() if _is_covered(key, value, seed, reasoning)}
    tools, choice = _decode_tools(body)
    if not body.tools and is_list(functions := extra.get("functions")):
        tools, choice = _decode_functions(functions, extra.get(FUNCTION_CALL))
        covered.update((key, extra[key]) for key in ("functions", FUNCTION_CALL) if key in extra)
    if OPTIONS_FIELD in extra and (search := decode_search_options(extra[OPTIONS_FIELD])):
        covered[OPTIONS_FIELD] = extra[OPTIONS_FIELD]
        tools = (*tools, *search)
    return body.model, make_request(
        BOUNDS,
        messages=messages,
        system=as_system(system),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=body.parallel_tool_calls,
        **(decode_format(format) if format else {}),
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=whole_number(extra.get("top_k")),
        max_tokens=body.max_completion_tokens if body.max_tokens is None else body.max_tokens,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        seed=seed,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        logit_bias=body.logit_bias,
        logprobs=body.logprobs if isinstance(body.logprobs, bool) else None,
        top_logprobs=body.top_logprobs,
        n=body.n,
        service_tier=body.service_tier,
        verbosity=_VERBOSITIES.get(body.verbosity or ""),
        reasoning=reasoning,
        user=body.user,
        metadata=body.metadata or {},
        stream=bool(body.stream),
        extra=request_extra(NAME, {key: extra[key] for key in extra if key not in covered}, covered),
    )


class _DecodedMessage(msgspec.Struct):
    """A message before its calls have ids, and its result is matched with a call."""

    message: Message
    rest: JsonObject = {}
    result: UnlinkedResult | None = None


def _decode_message(data: JsonObject, where: str) -> _DecodedMessage:
    """Decode a message. The id and the name of a result are those in its own fields."""
    expected = ChatAssistantMessage if data.get("role") == "assistant" else ChatInputMessage
    message, nullable = read_fields(expected, data, where)
    rest = without_none(nullable) if nullable else nullable
    role = _ROLES.get(message.role)
    if role is None:
        raise invalid_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}, got {message.role!r}")
    if role == "tool":
        result = _decode_result(message, rest, where)
        return _DecodedMessage(_TOOL_TURN, result=UnlinkedResult(result))
    if isinstance(message, ChatAssistantMessage):
        parts = _decode_assistant(message, where)
        if rest:
            parts = [*_executed(rest.pop(EXECUTED, None)), *_with_citations(parts, rest)]
    else:
        parts = _decode_content(message, where)
    return _DecodedMessage(new_message(role=role, parts=tuple(parts), extra=make_extra(NAME, rest)), rest)


def _link_messages(items: list[_DecodedMessage]) -> tuple[list[Text], tuple[Message, ...]]:
    """The leading system messages, and the turns; consecutive results are one turn."""
    system: list[Text] = []
    turns: list[Message] = []
    results: list[Part] = []
    calls = _Calls()
    for i, item in enumerate(items):
        if item.result is not None:
            own = item.result.result
            results.append(item.result.link(*calls.find(own.id, own.name)))
            continue
        if results:
            turns.append(new_message("tool", tuple(results)))
            results = []
        message = item.message
        if message.role == "system" and not turns:
            system += [_system_text(part, item.rest, f"messages[{i}]") for part in message.parts]
        elif message.role == "assistant":
            turns.append(calls.add_all(message))
        else:
            turns.append(message)
    if results:
        turns.append(new_message("tool", tuple(results)))
    return system, tuple(turns)


class _Calls:
    """The calls so far; those without an id get one. A result without an id belongs to the first call that has none."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, str] = {}
        self._all: deque[str] = deque()
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def add_all(self, message: Message) -> Message:
        """Add the calls of an answer; the answer, with their ids."""
        parts = [self._add(part) if isinstance(part, ToolCall) else part for part in message.parts]
        has_ids = all(call.id for call in message.tool_calls)
        return message if has_ids else unchecked(message, parts=tuple(parts))

    def _add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        call = call if call.id else unchecked(call, id=f"call_{self._count}")
        self._waiting[call.id] = call.name
        self._all.append(call.id)
        self._by_name[call.name].append(call.id)
        return call

    def find(self, id: str, name: str) -> tuple[str, str]:
        """The id and the name of the call of a result."""
        if not id:
            id = self._first(self._by_name[name]) or self._first(self._all) or ""
        return id, self._waiting.pop(id, name)

    def _first(self, ids: deque[str]) -> str | None:
        while ids and ids[0] not in self._waiting:
            ids.popleft()
        return ids[0] if ids else None


def _system_text(part: Part, message: JsonObject, where: str) -> Text:
    if not isinstance(part, Text):
        raise invalid_field(f"{where}.content", "must be text in a system message")
    if not message:
        return part
    return new_text(text=part.text, extra={NAME: {**wire_extra(part.extra, NAME), "message": message}})


def _decode_content(message: ChatInputMessage, where: str) -> list[Part]:
    content = message.content
    if content is None:
        return []
    if isinstance(content, str):
        return [new_text(text=content)]
    pieces = content if isinstance(content, list) else [content]
    return [decode_part(piece, f"{where}.content[{i}]") for i, piece in enumerate(pieces)]


def _decode_assistant(message: ChatAssistantMessage, where: str) -> list[Part]:
    parts: list[Part] = []
    fields = reasoning_fields(message)
    state = {name: value for name in REASONING_STATE if (value := getattr(message, name))}
    if fields or message.reasoning_details or state:
        reasoning = {"fields": fields or None, "details": message.reasoning_details, "state": state or None}
        extra = without_none(reasoning)
        text = getattr(message, fields[0]) if fields else ""
        parts.append(Thinking(text=text, redacted=not fields, extra={NAME: extra}))
    content = (_decode_assistant_part(part) for part in _decode_content(message, where))
    parts += [part for part in content if part != new_text(text="")]
    if message.refusal:
        parts.append(new_text(text=message.refusal, extra={NAME: {"refusal": True}}))
    parts += [decode_image_part(image, f"{where}.images[{i}]") for i, image in enumerate(message.images or ())]
    for i, call in enumerate(message.tool_calls or ()):
        parts.append(decode_call(call, f"{where}.tool_calls[{i}]"))
    if message.function_call is not None:
        parts.append(decode_function_call(message.function_call, f"{where}.{FUNCTION_CALL}"))
    return parts


def _executed(entries: object) -> list[Part]:
    """The calls of tools that a server ran."""
    if not is_list(entries):
        return []
    executed = ExecutedTools()
    executed.add(entries)
    return [*executed.take()]


def _with_citations(parts: list[Part], message: JsonObject) -> list[Part]:
    """The parts; the last text has the citations that are next to it."""
    citations = read_citations(message) if "annotations" in message else ()
    for i, part in reversed([*enumerate(parts)]) if citations else ():
        if isinstance(part, Text):
            # The annotations stay in the message for this wire, so the text must not be changed for it.
            cited = msgspec.structs.replace(part, citations=citations, extra={NAME: {}, **part.extra})
            return [*parts[:i], cited, *parts[i + 1 :]]
    return parts


def _decode_assistant_part(part: Part) -> Part:
    """Decode the parts that only assistant messages have: thinking and refusals."""
    match part:
        case Opaque(data={"type": "refusal", "refusal": str(text), **rest}) if not rest:
            return new_text(text=text, extra={NAME: {"refusal": True}})
        case Opaque():
            return decode_thinking(part.data) or part
        case _:
            return part


def _decode_result(message: ChatInputMessage, rest: JsonObject, where: str) -> ToolResult:
    parts = [_result_part(part) for part in _decode_content(message, where)]
    texts = [part for part in parts if isinstance(part, Text) and not part.extra]
    content: str | tuple[ResultPart, ...]
    if len(texts) == len(parts):
        content, is_error = split_error("\n".join(part.text for part in texts))
    else:
        content, is_error = _split_error_parts(parts)
    id, name = message.tool_call_id or "", str(rest.get("name") or "")
    return new_result(id=id, name=name, content=content, is_error=is_error, extra=make_extra(NAME, rest))


def _result_part(part: Part) -> ResultPart:
    return part if isinstance(part, Text | Image | Document | Opaque) else Opaque(wire=NAME, data=encode_part(part))


def _split_error_parts(parts: list[ResultPart]) -> tuple[tuple[ResultPart, ...], bool]:
    """The parts without the error prefix, and whether the first text had it."""
    for i, part in enumerate(parts):
        if isinstance(part, Text):
            text, is_error = split_error(part.text)
            return (*parts[:i], msgspec.structs.replace(part, text=text), *parts[i + 1 :]), is_error
    return tuple(parts), False


def _decode_tools(body: ChatRequest) -> tuple[tuple[AnyTool, ...], str | None]:
    return tuple(decode_items(body.tools, decode_tool, "tools")), _decode_choice(body.tool_choice)


def _decode_functions(functions: list[Any], choice: object) -> tuple[tuple[AnyTool, ...], str | None]:
    """The tools and the tool choice of the legacy form of the API."""
    tools = tuple(decode_definition(function, f"functions[{i}]") for i, function in enumerate(functions))
    return tools, _decode_choice({"function": choice} if is_object(choice) else str(choice))


def _decode_choice(choice: str | JsonObject | None) -> str | None:
    match choice:
        case str():
            return _CHOICES.get(choice)
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case {"allowed_tools": {"mode": str(mode)}}:
            return _CHOICES.get(mode)
        case _:
            return None


def _rare_extra(body: ChatRequest) -> JsonObject:
    """The values of options that `Request` does not have; they are sent as they are to the same protocol."""
    fields: JsonObject = {}
    if not isinstance(body.logprobs, bool | None):
        # A number of alternatives, as a few servers want it.
        fields["logprobs"] = body.logprobs
    if body.verbosity is not None and body.verbosity not in _VERBOSITIES:
        fields["verbosity"] = body.verbosity
    return fields


def _choice_extra(choice: str | JsonObject | None) -> JsonObject:
    covered = choice is None or (_decode_choice(choice) is not None and "allowed_tools" not in choice)
    return {} if covered else {"tool_choice": choice}


def _needs_verbatim_effort(effort: str | None, extra: JsonObject) -> bool:
    return effort is not None and (effort not in EFFORTS or any(field in extra for field in REASONING_OPTIONS))


def _decode_reasoning(extra: JsonObject) -> Effort | int | None:
    if extra.keys().isdisjoint(REASONING_OPTIONS):
        return None
    match extra:
        case {"reasoning_effort": str(effort)} if effort in _EFFORTS:
            return _EFFORTS[effort]
        case {"reasoning": {"effort": str(effort)}} if effort in _EFFORTS:
            return _EFFORTS[effort]
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
    """Whether `Request` has the whole meaning of a field."""
    match field:
        case "top_k":
            return whole_number(value) is not None
        case "random_seed":
            return seed is not None and whole_number(value) == seed
        case "stream_options":
            return is_object(value) and value.keys() <= {"include_usage"}
        case "response_format":
            return is_covered_format(value)
        case _ if field in DEFAULTS:
            return bool(value == DEFAULTS[field])
        case _:
            return field in REASONING_OPTIONS and _is_covered_reasoning(field, value, reasoning)


def _is_covered_reasoning(field: str, value: Any, reasoning: Effort | int | None) -> bool:
    """Whether a field has the same meaning as `Request.reasoning`, and nothing else."""
    if is_object(value) and len(value) > 1 + ("budget_tokens" in value):
        return False
    decoded = _decode_reasoning({field: value})
    is_on = decoded == "medium" and reasoning not in ("none", 0)
    return is_on or (decoded is not None and decoded == reasoning)
