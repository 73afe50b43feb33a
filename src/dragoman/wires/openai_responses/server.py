"""A Responses call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

from collections.abc import Mapping
from math import inf
from typing import Any

import msgspec

from dragoman.errors import DragomanError
from dragoman.events import Started
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema.strict import is_strict
from dragoman.types import (
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
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import encode_openai_error, error_headers
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.history import as_system, split_error
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.options import EFFORTS
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    invalid_field,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.openai_responses.parts import (
    EMPTY,
    decode_call,
    decode_content,
    decode_made,
    decode_reasoning,
    decode_said,
    decode_tool,
    item_of,
    item_rest,
    message_extra,
    text_extra,
    type_of,
)
from dragoman.wires.openai_responses.request_echo import ECHO
from dragoman.wires.openai_responses.schema import (
    CUSTOM,
    IDLE,
    NAME,
    STATEFUL,
    ResponsesCallOutput,
    ResponsesMessage,
    ResponsesRequest,
)
from dragoman.wires.openai_responses.stream_encoder import ResponsesStreamEncoder, encode_output, ended

_CHOICES = ("auto", "none", "required")
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
OUTPUTS = ("function_call_output", f"{CUSTOM}_output")
_CALLS = ("function_call", CUSTOM)

BOUNDS = (
    ("temperature", "temperature", 0, 2),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_output_tokens", 1, inf),
)
"""What OpenAI refuses to go beyond."""


class OpenAIResponsesServer:
    """They call us."""

    routes = (Route(method="POST", path="/v1/responses"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, nullable = read_fields(ResponsesRequest, decode_request_json(http), "body")
        extra = without_none(nullable)
        remembers = any(extra.get(field) for field in STATEFUL) or bool(extra.get("store"))
        conversation = _Conversation(remembers=remembers)
        conversation.read(shape.input or [])
        system = [] if shape.instructions is None else [Text(text=shape.instructions)]
        choice, beside_choice = _decode_choice(shape.tool_choice)
        form, beside_format, covered_format = _decode_format(shape.text or {})
        effort, beside_effort, covered_effort = _decode_reasoning(shape.reasoning or {})
        rest = {**extra, **beside_choice, **beside_format, **beside_effort}
        idle = {field: rest.pop(field) for field, value in IDLE.items() if rest.get(field) == value}
        return shape.model, Request(
            messages=conversation.messages(),
            system=as_system([*system, *conversation.system]),
            tools=tuple(decode_tool(tool, f"tools[{i}]") for i, tool in enumerate(shape.tools or ())),
            tool_choice=choice,
            parallel_tool_calls=shape.parallel_tool_calls,
            **form,
            temperature=shape.temperature,
            top_p=shape.top_p,
            max_tokens=shape.max_output_tokens,
            reasoning=effort,
            user=shape.user,
            metadata=shape.metadata or {},
            stream=bool(shape.stream),
            extra=request_extra(NAME, rest, {**idle, **covered_format, **covered_effort}),
        )

    def check(self, model: str, request: Request, /) -> None:
        """Refuse what can be read, and is no request that servers answer: what is said may be known to them."""
        if not model:
            raise missing_field("model")
        if not (request.messages or request.system or _goes_on(request)):
            raise missing_field("input")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect."""
        head = Started(id=response.id, model=response.model, created=response.created)
        output = encode_output(response.message.parts, response.id)
        asked = {} if request is None else wire_extra(request.extra, ECHO)
        return HttpReply(body=encode_json(ended(head, asked, output, response.finish, response.usage)))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return part.wire == NAME if isinstance(part, Opaque) else isinstance(part, Text | Thinking | ToolCall | Image)

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json({"error": encode_openai_error(error)})
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return ResponsesStreamEncoder(wire_extra(request.extra, ECHO))


def _goes_on(request: Request) -> bool:
    """Whether the server knows what it is about."""
    return not wire_extra(request.extra, NAME).keys().isdisjoint(("conversation", "previous_response_id", "prompt"))


class _Conversation:
    """Input items to turns: the items of one assistant's turn are one message, and so are results in a row."""

    def __init__(self, *, remembers: bool) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], JsonObject]] = []
        self._remembers = remembers
        self._names: dict[str, str] = {}

    def messages(self) -> tuple[Message, ...]:
        return tuple(
            Message(role=r, parts=tuple(parts), extra=make_extra(NAME, rest)) for r, parts, rest in self._turns
        )

    def read(self, given: str | list[JsonObject]) -> None:
        items: list[JsonObject] = [{"role": "user", "content": given}] if isinstance(given, str) else given
        self._remembers = self._remembers or any(_kind(item) == "item_reference" for item in items)
        for i, item in enumerate(items):
            self._item(item, f"input[{i}]")

    def _item(self, item: JsonObject, where: str) -> None:
        kind = _kind(item)
        if kind == "message":
            self._message(item, where)
        elif kind in OUTPUTS and (item.get("call_id") is not None or not item.get("name")):
            self._result(item, where)
        elif kind in _CALLS:
            call = decode_call(item, where)
            self._names[call.id] = call.name
            self._append("assistant", call)
        elif kind == "reasoning":
            self._append("assistant", decode_reasoning(item))
        elif kind == "image_generation_call":
            self._append("assistant", decode_made(item))
        else:
            self._append("assistant", Opaque(wire=NAME, data=item))

    def _append(self, role: Role, *parts: Part) -> None:
        if not self._turns or self._turns[-1][0] != role:
            self._turns.append((role, [], {}))
        self._turns[-1][1].extend(parts)

    def _message(self, item: JsonObject, where: str) -> None:
        shape, rest = read_fields(ResponsesMessage, item, where)
        role = _ROLES.get(shape.role)
        if role is None:
            raise invalid_field(f"{where}.role", f"{shape.role!r} is none of {', '.join(_ROLES)}")
        if role == "assistant":
            self._said(shape, message_extra(item))
            return
        parts = _decode_parts(shape.content, f"{where}.content")
        texts = [part for part in parts if isinstance(part, Text)]
        if role == "system" and not self._turns and len(texts) == len(parts):
            self.system += [self._system_text(text, shape.role, rest) for text in texts]
        else:
            self._turns.append((role, list(parts), rest))

    def _system_text(self, text: Text, role: str, rest: JsonObject) -> Text:
        """A text of the system prompt. Where the server remembers, an item is not what `instructions` are."""
        extra = {**wire_extra(text.extra, NAME), **rest}
        kept = {"role": role, **extra} if extra or self._remembers else {}
        return Text(text=text.text, extra=make_extra(NAME, kept))

    def _said(self, shape: ResponsesMessage, item: JsonObject) -> None:
        content = [{"type": "output_text", "text": shape.content}] if isinstance(shape.content, str) else shape.content
        parts: list[Part] = [decode_said(part, item) for part in content or ()]
        if not parts:
            parts = [Text(text="", extra=text_extra(item, {EMPTY: True}, refused=False))]
        last = self._turns[-1][1][-1] if self._turns and self._turns[-1][0] == "assistant" else None
        if isinstance(last, Text) and item_of(last) == item:
            self._turns.append(("assistant", parts, {}))
        else:
            self._append("assistant", *parts)

    def _result(self, item: JsonObject, where: str) -> None:
        result = decode_result(item, where, self._names)
        if result.id not in self._names and self._remembers:
            self._append("assistant", Opaque(wire=NAME, data=item))
        else:
            self._append("tool", result)


def _kind(item: JsonObject) -> str:
    """The type of an item; messages and references may leave it out."""
    return type_of(item) or ("message" if "role" in item or "id" not in item else "item_reference")


def decode_result(item: JsonObject, where: str, names: Mapping[str, str]) -> ToolResult:
    """The result that answers a call; `names` are those of the calls so far."""
    shape, rest = read_fields(ResponsesCallOutput, item, where)
    content, is_error = _decode_output(shape.output, f"{where}.output")
    extra = make_extra(NAME, item_rest(rest))
    name = names.get(shape.call_id, "")
    return ToolResult(id=shape.call_id, name=name, content=content, is_error=is_error, extra=extra)


def _decode_parts(content: str | list[JsonObject] | None, where: str) -> tuple[ResultPart, ...]:
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(decode_content(part, f"{where}[{i}]") for i, part in enumerate(content or ()))


def _decode_output(output: str | list[JsonObject], where: str) -> tuple[str | tuple[ResultPart, ...], bool]:
    if isinstance(output, str):
        return split_error(output)
    parts = _decode_parts(output, where)
    match parts:
        case (Text() as first, *rest):
            text, is_error = split_error(first.text)
            kept = (msgspec.structs.replace(first, text=text),) if text or not is_error else ()
            return (*kept, *rest), is_error
        case _:
            return parts, False


def _decode_choice(choice: str | JsonObject | None) -> tuple[str | None, JsonObject]:
    """Our word for a choice, and its verbatim form where our word does not say all of it."""
    match choice:
        case None:
            return None, {}
        case str() if choice in _CHOICES:
            return choice, {}
        case {"type": "function", "name": str(name)}:
            return name, {}
        case {"type": "allowed_tools", "mode": str(mode)} if mode in _CHOICES:
            return mode, {"tool_choice": choice}
        case _:
            return None, {"tool_choice": choice}


def _decode_format(text: JsonObject) -> tuple[dict[str, Any], JsonObject, JsonObject]:
    """The schema; what `text` says beside it, and what it says in its own form, verbatim."""
    form = text.get("format")
    known: dict[str, Any] = {}
    if form == {"type": "json_object"}:
        known = {"schema": {}}
    elif is_object(form) and form.get("type") == "json_schema" and is_object(form.get("schema")):
        name, strict = form.get("name"), form.get("strict")
        known = {"schema": form["schema"], "schema_strict": strict if isinstance(strict, bool) else None}
        known |= {"schema_name": name} if isinstance(name, str) else {}
    covered = form is None or (known != {} and without_none(form).keys() <= {"type", "name", "schema", "strict"})
    if covered and (not known.get("schema_strict") or is_strict(known["schema"])):
        rest = _rest(text, "format")
        return known, {"text": rest} if rest else {}, {}
    covered = covered or form == {"type": "text"}
    return (known, {}, {"text": text}) if covered and text.keys() == {"format"} else (known, {"text": text}, {})


_ALIASES: dict[str, Effort] = {**{effort: effort for effort in EFFORTS}, "xhigh": "max"}


def _decode_reasoning(reasoning: JsonObject) -> tuple[Effort | None, JsonObject, JsonObject]:
    """How hard to think; what `reasoning` says beside it, and what it says in its own form, verbatim."""
    told = reasoning.get("effort")
    effort = _ALIASES.get(told) if isinstance(told, str) else None
    if effort == told:
        rest = _rest(reasoning, "effort")
        return effort, {"reasoning": rest} if rest else {}, {}
    whole = {"reasoning": reasoning}
    return (effort, {}, whole) if effort and reasoning.keys() == {"effort"} else (effort, whole, {})


def _rest(data: JsonObject, known: str) -> JsonObject:
    return {key: value for key, value in data.items() if key != known and value is not None}
