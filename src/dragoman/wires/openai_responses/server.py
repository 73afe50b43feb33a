"""The server half of the Responses API: decodes requests of clients and encodes responses."""

from itertools import chain
from math import inf
from typing import Any, get_args

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
    Opaque,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    Verbosity,
    is_object,
)
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import encode_openai_error
from dragoman.wires.common.extra import request_extra, wire_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import encode_not_stored
from dragoman.wires.common.options import EFFORTS
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_items,
    make_request,
    read_body,
    require_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.openai_responses.client_tools import (
    NO_TOOLS,
    OfferedTools,
    function_name,
    loaded_tools,
)
from dragoman.wires.openai_responses.found_tools import with_found_tools
from dragoman.wires.openai_responses.hosted_tools import encode_hosted_call
from dragoman.wires.openai_responses.incoming_items import ItemReader
from dragoman.wires.openai_responses.parts import (
    decode_tool_entry,
    decode_tools,
)
from dragoman.wires.openai_responses.request_echo import ECHO
from dragoman.wires.openai_responses.schema import (
    DEFAULTS,
    FIELDS_THAT_NEED_STORE,
    LOGPROBS,
    NAME,
    ResponsesRequest,
)
from dragoman.wires.openai_responses.stream_encoder import ResponsesStreamEncoder, encode_final_response, encode_output

_VERBOSITIES: tuple[Verbosity, ...] = get_args(Verbosity)
_CHOICES = ("auto", "none", "required")

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
        body, nullable = read_body(ResponsesRequest, http, ("input", "tools"))
        extra = without_none(nullable)
        is_stateful = any(extra.get(field) for field in FIELDS_THAT_NEED_STORE) or bool(extra.get("store"))
        conversation = ItemReader(is_stateful=is_stateful)
        conversation.read(body.input or [])
        offered = [*chain.from_iterable(decode_items(body.tools, decode_tool_entry, "tools"))]
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
        require_fields({"model": model, "input": request.messages or request.system or _is_continued(request)})
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
        return error_response(error, {"error": encode_openai_error(error)})

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return ResponsesStreamEncoder(wire_extra(request.extra, ECHO), OfferedTools(request.tools, request.messages))


def _is_continued(request: Request) -> bool:
    """Whether the server knows earlier messages, so that the request may have none."""
    return not wire_extra(request.extra, NAME).keys().isdisjoint(("conversation", "previous_response_id", "prompt"))


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
