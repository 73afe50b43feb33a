"""The server half of the Responses API: decodes requests of clients and encodes responses."""

from collections.abc import Mapping
from math import inf
from typing import Any, get_args

import msgspec

from dragoman.errors import DragomanError
from dragoman.events import Started
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.strict import is_strict
from dragoman.types import (
    Effort,
    HostedCall,
    HostedResult,
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
    is_object,
)
from dragoman.types.fast_constructors import new_message, new_result, new_text
from dragoman.types.json_size import count_values
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.history import as_system, split_error
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import encode_not_stored
from dragoman.wires.common.options import EFFORTS
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    invalid_field,
    make_request,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_responses.client_tools import (
    NO_TOOLS,
    OfferedTools,
    call_id_of_output,
    decode_client_call,
    decode_client_output,
    function_name,
    is_client_call,
    loaded_tools,
    tools_message,
)
from dragoman.wires.openai_responses.compaction_item import (
    MAX_VALUES,
    CompactedConversation,
    is_own,
    read_compaction,
)
from dragoman.wires.openai_responses.found_tools import with_found_tools
from dragoman.wires.openai_responses.hosted_tools import decode_hosted_item, encode_hosted_call
from dragoman.wires.openai_responses.parts import (
    EMPTY_MESSAGE,
    decode_call,
    decode_content,
    decode_image_call,
    decode_other_item,
    decode_output_text,
    decode_reasoning,
    decode_tools,
    item_of,
    item_rest,
    message_extra,
    text_extra,
    type_of,
)
from dragoman.wires.openai_responses.request_echo import ECHO
from dragoman.wires.openai_responses.schema import (
    CUSTOM,
    DEFAULTS,
    FIELDS_THAT_NEED_STORE,
    LOGPROBS,
    NAME,
    ResponsesCallOutput,
    ResponsesMessage,
    ResponsesRequest,
)
from dragoman.wires.openai_responses.stream_encoder import ResponsesStreamEncoder, encode_final_response, encode_output

_VERBOSITIES: tuple[Verbosity, ...] = get_args(Verbosity)
_CHOICES = ("auto", "none", "required")
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
RESULT_TYPES = ("function_call_output", f"{CUSTOM}_output")
_CALLS = ("function_call", CUSTOM)

BOUNDS = (
    ("temperature", "temperature", 0, 2),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_output_tokens", 1, inf),
    ("top_logprobs", "top_logprobs", 0, 20),
)
"""The limits of OpenAI."""


class OpenAIResponsesServer:
    """The server half of the Responses API."""

    has_citations = True
    routes = tuple(
        Route(method="POST", path=path) for path in ("/v1/responses", "/openai/v1/responses", "/openai/responses")
    )
    """OpenAI's path, and those of Azure."""

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, nullable = read_fields(ResponsesRequest, decode_request_json(http), "body")
        extra = without_none(nullable)
        is_stateful = any(extra.get(field) for field in FIELDS_THAT_NEED_STORE) or bool(extra.get("store"))
        conversation = _Conversation(is_stateful=is_stateful)
        conversation.read(body.input or [])
        offered = decode_tools(body.tools, "tools")
        messages, tools = with_found_tools(conversation.messages(), offered, decode_tools)
        system = [] if body.instructions is None else [Text(text=body.instructions)]
        choice, choice_extra, covered_choice = _decode_choice(body.tool_choice)
        verbosity, text = _decode_verbosity(body.text or {})
        schema, format_extra, covered_format = _decode_text(text)
        has_logprobs = LOGPROBS in (body.include or ())
        include = [item for item in body.include or () if item != LOGPROBS]
        if include:
            extra["include"] = include
        effort, reasoning_extra, covered_reasoning = _decode_reasoning(body.reasoning or {})
        rest = {**extra, **choice_extra, **format_extra, **reasoning_extra}
        if body.top_logprobs is not None and not has_logprobs:
            # Without the item of `include`, it has no effect.
            covered_reasoning["top_logprobs"] = body.top_logprobs
        defaults = {field: rest.pop(field) for field, value in DEFAULTS.items() if rest.get(field) == value}
        return body.model, make_request(
            BOUNDS,
            messages=messages,
            system=as_system([*system, *conversation.system]),
            tools=(*tools, *loaded_tools(messages, tools, decode_tools)),
            tool_choice=choice,
            parallel_tool_calls=body.parallel_tool_calls,
            **schema,
            temperature=body.temperature,
            top_p=body.top_p,
            max_tokens=body.max_output_tokens,
            logprobs=True if has_logprobs else None,
            top_logprobs=body.top_logprobs if has_logprobs else None,
            service_tier=body.service_tier,
            verbosity=verbosity,
            reasoning=effort,
            user=body.user,
            metadata=body.metadata or {},
            stream=bool(body.stream),
            extra=request_extra(NAME, rest, {**defaults, **covered_choice, **covered_format, **covered_reasoning}),
        )

    def check(self, model: str, request: Request, /) -> None:
        if not model:
            raise missing_field("model")
        if not (request.messages or request.system or _is_continued(request)):
            raise missing_field("input")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        head = Started(id=response.id, model=response.model, created=response.created)
        tools = NO_TOOLS if request is None else OfferedTools(request.tools, request.messages)
        output = encode_output(response.message.parts, response.id, tools)
        echo = {} if request is None else wire_extra(request.extra, ECHO)
        tier = response.service_tier
        body = encode_final_response(head, echo, output, response.finish, response.usage, tier)
        return HttpResponse(body=encode_json(body | encode_not_stored(response.notices)))

    def supports_part(self, part: Part, /) -> bool:
        match part:
            case Opaque():
                return part.wire == NAME
            case HostedCall():
                return encode_hosted_call(part, None) is not None
            case _:
                return isinstance(part, Text | Thinking | ToolCall | Image | HostedResult)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        body = encode_json({"error": encode_openai_error(error)})
        return HttpResponse(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return ResponsesStreamEncoder(wire_extra(request.extra, ECHO), OfferedTools(request.tools, request.messages))


_NOT_AS_WRITTEN = "is not as this gateway wrote it; compact the conversation again"


def _is_continued(request: Request) -> bool:
    """Whether the server knows earlier messages, so that the request may have none."""
    return not wire_extra(request.extra, NAME).keys().isdisjoint(("conversation", "previous_response_id", "prompt"))


class _Conversation:
    """Decodes input items: the items of one assistant turn become one message, and so do consecutive results."""

    def __init__(self, *, is_stateful: bool) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], JsonObject]] = []
        self._is_stateful = is_stateful
        self._names: dict[str, str] = {}
        self._compacted_values = 0

    def messages(self) -> tuple[Message, ...]:
        return tuple(
            new_message(role=role, parts=tuple(turn), extra=extra) if role != "developer" else tools_message(extra)
            for role, turn, extra in self._turns
        )

    def read(self, input: str | list[JsonObject]) -> None:
        items: list[JsonObject] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        self._is_stateful = self._is_stateful or any(item_kind(item) == "item_reference" for item in items)
        for i, item in enumerate(items):
            self._item(item, f"input[{i}]")

    def _item(self, item: JsonObject, where: str) -> None:
        kind = item_kind(item)
        if kind == "message":
            self._message(item, where)
        elif kind == "additional_tools":
            self._turns.append(("developer", [], item))
        elif call_id_of_output(item) in self._names:
            self._append("tool", decode_client_output(item, self._names))
        elif is_client_call(item):
            self._add_call(decode_client_call(item))
        elif kind in RESULT_TYPES and (item.get("call_id") is not None or not item.get("name")):
            self._result(item, where)
        elif kind in _CALLS:
            self._add_call(decode_call(item, where))
        elif kind == "reasoning":
            self._append("assistant", decode_reasoning(item))
        elif kind == "image_generation_call":
            self._append("assistant", decode_image_call(item))
        elif (compaction := read_compaction(item, where)) is not None:
            self._compaction(compaction, where)
        elif is_own(item):
            raise invalid_field(where, _NOT_AS_WRITTEN)
        elif (hosted := decode_hosted_item(item)) is not None:
            self._append("assistant", *hosted)
        else:
            self._append("assistant", decode_other_item(item))

    def _compaction(self, compaction: CompactedConversation, where: str) -> None:
        self._compacted_values += count_values(compaction.user, MAX_VALUES + 1)
        if self._compacted_values > MAX_VALUES:
            raise invalid_field(where, f"has more than {MAX_VALUES} values, with those before it; send fewer")
        for item in compaction.user:
            if item_kind(item) != "message":
                raise invalid_field(where, _NOT_AS_WRITTEN)
            self._message(item, where)
        self._append("user", compaction.text)

    def _add_call(self, call: ToolCall) -> None:
        self._names[call.id] = call.name
        self._append("assistant", call)

    def _append(self, role: Role, *parts: Part) -> None:
        if not self._turns or self._turns[-1][0] != role:
            self._turns.append((role, [], {}))
        self._turns[-1][1].extend(parts)

    def _message(self, item: JsonObject, where: str) -> None:
        message, fields = read_fields(ResponsesMessage, item, where)
        rest = item_rest(fields)
        role = _ROLES.get(message.role)
        if role is None:
            raise invalid_field(f"{where}.role", f"must be one of {', '.join(_ROLES)}, got {message.role!r}")
        if role == "assistant":
            self._assistant_message(message, message_extra(item))
            return
        parts = _decode_parts(message.content, f"{where}.content")
        texts = [part for part in parts if isinstance(part, Text)]
        if role == "system" and not self._turns and len(texts) == len(parts):
            self.system += [self._system_text(text, message.role, rest) for text in texts]
        else:
            self._turns.append((role, list(parts), make_extra(NAME, rest)))

    def _system_text(self, text: Text, role: str, rest: JsonObject) -> Text:
        """A system text. If the server stores the conversation, it must stay an item: `instructions` are not stored."""
        extra = {**wire_extra(text.extra, NAME), **rest}
        fields = {"role": role, **extra} if extra or self._is_stateful else {}
        return new_text(text=text.text, extra=make_extra(NAME, fields))

    def _assistant_message(self, message: ResponsesMessage, item: JsonObject) -> None:
        content = message.content
        content = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
        parts: list[Part] = [decode_output_text(part, item) for part in content or ()]
        if not parts:
            parts = [Text(text="", extra=text_extra(item, {EMPTY_MESSAGE: True}, refused=False))]
        last = self._turns[-1][1][-1] if self._turns and self._turns[-1][0] == "assistant" else None
        if isinstance(last, Text) and item_of(last) == item:
            self._turns.append(("assistant", parts, {}))
        else:
            self._append("assistant", *parts)

    def _result(self, item: JsonObject, where: str) -> None:
        result = decode_result(item, where, self._names)
        if result.id not in self._names and self._is_stateful:
            self._append("assistant", Opaque(wire=NAME, data=item))
        else:
            self._append("tool", result)


def item_kind(item: JsonObject) -> str:
    """The type of an item; messages and references may omit it."""
    return type_of(item) or ("message" if "role" in item or "id" not in item else "item_reference")


def decode_result(item: JsonObject, where: str, names: Mapping[str, str]) -> ToolResult:
    """The result of a call; `names` has the names of the calls so far by id."""
    result, rest = read_fields(ResponsesCallOutput, item, where)
    content, is_error = _decode_output(result.output, f"{where}.output")
    extra = make_extra(NAME, item_rest(rest))
    name = names.get(result.call_id, "")
    return new_result(id=result.call_id, name=name, content=content, is_error=is_error, extra=extra)


def _decode_parts(content: str | list[JsonObject] | None, where: str) -> tuple[ResultPart, ...]:
    if isinstance(content, str):
        return (new_text(text=content),)
    return tuple(decode_content(part, f"{where}[{i}]") for i, part in enumerate(content or ()))


def _decode_output(output: str | list[JsonObject], where: str) -> tuple[str | tuple[ResultPart, ...], bool]:
    if isinstance(output, str):
        return split_error(output)
    parts = _decode_parts(output, where)
    match parts:
        case (Text() as first, *rest):
            text, is_error = split_error(first.text)
            texts = (msgspec.structs.replace(first, text=text),) if text or not is_error else ()
            return (*texts, *rest), is_error
        case _:
            return parts, False


def _decode_choice(choice: str | JsonObject | None) -> tuple[str | None, JsonObject, JsonObject]:
    """The tool choice, its verbatim form if `Request` does not have its whole meaning, and its form if it does."""
    match choice:
        case None:
            return None, {}, {}
        case str() if choice in _CHOICES:
            return choice, {}, {}
        case {"type": "function" | "custom", "namespace": str(namespace), "name": str(name)}:
            return function_name(namespace, name), {}, {"tool_choice": choice}
        case {"type": "custom", "name": str(name)}:
            return name, {}, {"tool_choice": choice}
        case {"type": "function", "name": str(name)}:
            return name, {}, {}
        case {"type": "shell" | "local_shell" | "apply_patch" | "computer" | "computer_use_preview" as name}:
            return name, {}, {"tool_choice": choice}
        case {"type": "allowed_tools", "mode": str(mode)} if mode in _CHOICES:
            return mode, {"tool_choice": choice}, {}
        case _:
            return None, {"tool_choice": choice}, {}


def _decode_verbosity(text: JsonObject) -> tuple[Verbosity | None, JsonObject]:
    """The verbosity, and the rest of `text`."""
    word: Verbosity | None = next((word for word in _VERBOSITIES if word == text.get("verbosity")), None)
    return word, text if word is None else {key: value for key, value in text.items() if key != "verbosity"}


def _decode_text(text: JsonObject) -> tuple[dict[str, Any], JsonObject, JsonObject]:
    """The fields of `Request` for the schema, the rest of `text`, and its verbatim format if all of it is covered."""
    format = text.get("format")
    known: dict[str, Any] = {}
    if format == {"type": "json_object"}:
        known = {"schema": {}}
    elif is_object(format) and format.get("type") == "json_schema" and is_object(format.get("schema")):
        name, strict = format.get("name"), format.get("strict")
        known = {"schema": format["schema"], "schema_strict": strict if isinstance(strict, bool) else None}
        known |= {"schema_name": name} if isinstance(name, str) else {}
    covered = format is None or (known != {} and without_none(format).keys() <= {"type", "name", "schema", "strict"})
    if covered and (not known.get("schema_strict") or is_strict(known["schema"])):
        rest = _rest(text, "format")
        return known, {"text": rest} if rest else {}, {}
    covered = covered or format == {"type": "text"}
    return (known, {}, {"text": text}) if covered and text.keys() == {"format"} else (known, {"text": text}, {})


def _decode_reasoning(reasoning: JsonObject) -> tuple[Effort | None, JsonObject, JsonObject]:
    """The effort, the rest of `reasoning`, and its verbatim form if all of it is covered."""
    raw = reasoning.get("effort")
    effort: Effort | None = next((effort for effort in EFFORTS if effort == raw), None)
    if effort == raw:
        rest = _rest(reasoning, "effort")
        return effort, {"reasoning": rest} if rest else {}, {}
    return None, {"reasoning": reasoning}, {}


def _rest(data: JsonObject, known: str) -> JsonObject:
    return {key: value for key, value in data.items() if key != known and value is not None}
