"""A generateContent call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

import re
from collections import deque
from math import inf
from typing import cast, get_args
from urllib.parse import parse_qs, unquote

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.types import (
    Effort,
    JsonObject,
    Message,
    Part,
    Request,
    Response,
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
from dragoman.wires.common.errors import error_headers
from dragoman.wires.common.extra import make_extra, request_extra, wire_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json, whole_number, without_none
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_request_json,
    invalid_field,
    missing_field,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.google.openapi import from_openapi
from dragoman.wires.google.parts import decode_part, decode_tools, wire_id
from dragoman.wires.google.schema import (
    ALT,
    CHOICES,
    IDLE,
    MODES,
    NAME,
    SCHEMA_DIALECT,
    GeminiRequest,
    GeminiTurn,
    GenerationConfig,
    camel,
    join_notes,
    listed,
    write_usage,
)
from dragoman.wires.google.stream_encoder import (
    GeminiStreamEncoder,
    encode_end,
    encode_failure,
    encode_head,
    encode_said,
    text_notes,
)

_PATH = r".*?/(?P<place>models|tunedModels|endpoints)/(?P<name>.+):(?P<method>generateContent|streamGenerateContent)"
_EFFORTS = frozenset(get_args(Effort))
_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "user"}
_WHOLE = ("topK", "maxOutputTokens", "seed")

BOUNDS = (
    ("temperature", "generationConfig.temperature", 0, 2),
    ("top_p", "generationConfig.topP", 0, 1),
    ("max_tokens", "generationConfig.maxOutputTokens", 1, inf),
)
"""What Google refuses to go beyond."""


class GeminiServer:
    """They call us."""

    # The official Python package asks for v1 where its base URL is not Google's (2.25, 2026-11).
    routes = tuple(
        Route(method="POST", path=f"/{version}/models/{{model}}:{method}")
        for version in ("v1beta", "v1")
        for method in ("generateContent", "streamGenerateContent")
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, extra = read_fields(GeminiRequest, camel(decode_request_json(http)), "body")
        model, stream, array = _decode_path(http.path, shape.model)
        config, more = read_fields(GenerationConfig, _decode_config(shape.generation_config or {}), "generationConfig")
        schema, kept, said = _decode_schema(config, more)
        reasoning, is_whole = _decode_reasoning(kept)
        said |= {"thinkingConfig"} if is_whole else set()
        said |= {field for field, value in IDLE.items() if kept.get(field) == value}
        system, beside = _decode_system(shape.system_instruction)
        tools = decode_tools(listed(shape.tools))
        choice, is_choice = _decode_choice(shape.tool_config)
        covered: JsonObject = {}
        extra.update(beside)
        # The choice is said again in our words where there is something to choose from.
        if shape.tool_config and not (is_choice and any(isinstance(tool, Tool) for tool in tools)):
            (covered if is_choice else extra)["toolConfig"] = shape.tool_config
        if kept:
            (covered if kept.keys() <= said else extra)["generationConfig"] = kept
        return model, Request(
            messages=_decode_contents(listed(shape.contents)),
            system=as_system(system),
            tools=tools,
            tool_choice=choice,
            schema=schema,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            max_tokens=config.max_output_tokens,
            stop=tuple(config.stop_sequences),
            seed=config.seed,
            reasoning=reasoning,
            stream=stream,
            extra={**request_extra(NAME, extra, covered), **({ALT: "json"} if array else {})},
        )

    def check(self, _model: str, request: Request, /) -> None:
        """Refuse what can be read, and is no request that servers answer; no path is without a model."""
        if not request.messages:
            raise missing_field("contents")
        config = wire_extra(wire_extra(request.extra, NAME), "generationConfig")
        if (whole_number(config.get("candidateCount")) or 1) > 1:
            raise invalid_field("generationConfig.candidateCount", "a request has one answer; ask again for another")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpReply:
        """The whole answer in this dialect."""
        parts: list[JsonObject] = []
        notes: JsonObject = {}
        for part in response.message.parts:
            parts += [encoded] if (encoded := encode_said(part)) else []
            join_notes(notes, text_notes(part))
        body = {
            **encode_end(response.finish, parts, notes),
            "usageMetadata": write_usage(response.usage),
            **encode_head(response.id, response.model, response.created),
        }
        return HttpReply(body=encode_json(without_none(body)))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer in this dialect has a place for a part."""
        return encode_said(part) is not None or isinstance(part, Text | Thinking)

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json(encode_failure(error))
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer, in the form that was asked for."""
        return GeminiStreamEncoder(request)


def _decode_path(path: str, model: str) -> tuple[str, bool, bool]:
    """The model, whether a stream is asked for, and whether as a JSON array: of any prefix, of Vertex too."""
    path, _, query = path.partition("?")
    found = re.fullmatch(_PATH, path)
    if found is None:
        return model.removeprefix("models/"), False, False
    name = unquote(found["name"]).removeprefix("models/")
    model = name if found["place"] == "models" else f"{found['place']}/{name}"
    stream = found["method"] == "streamGenerateContent"
    return model, stream, stream and "sse" not in parse_qs(query).get("alt", ())


def _decode_system(data: str | JsonObject | None) -> tuple[list[Text], JsonObject]:
    """The system texts; one that is more than text is kept as it is, too."""
    if isinstance(data, str):
        return [Text(text=data)], {}
    shape, _ = read_fields(GeminiTurn, camel(data or {}), "systemInstruction")
    parts = _decode_parts(shape, "systemInstruction")
    texts = [part for part in parts if isinstance(part, Text)]
    return texts, {} if len(texts) == len(parts) else {"systemInstruction": data}


def _decode_parts(shape: GeminiTurn, where: str) -> list[Part]:
    decoded = [decode_part(part, f"{where}.parts[{i}]") for i, part in enumerate(listed(shape.parts))]
    return [part for part in decoded if part is not None]


def _decode_contents(contents: list[JsonObject]) -> tuple[Message, ...]:
    """The turns: those of the model that follow each other are one, and so are results that follow each other."""
    turns: list[_Turn] = []
    calls = _Calls()
    for i, data in enumerate(contents):
        where = f"contents[{i}]"
        shape, rest = read_fields(GeminiTurn, camel(data), where)
        role = _ROLES.get(shape.role)
        if role is None:
            raise invalid_field(f"{where}.role", f"{shape.role!r} is none of {', '.join(_ROLES)}")
        results: list[Part] = []
        others: list[Part] = []
        for part in _decode_parts(shape, where):
            if isinstance(part, ToolResult):
                results.append(calls.answer(part))
            else:
                others.append(calls.add(part) if isinstance(part, ToolCall) else part)
        if results:
            _add(turns, _Turn(role="tool", parts=results))
        if any(isinstance(part, ToolCall) for part in others):
            role = "assistant"
        if others or not results:
            _add(turns, _Turn(role=role, parts=others, extra=make_extra(NAME, rest)))
        calls.turned = role == "user"
    return tuple(Message(role=turn.role, parts=tuple(turn.parts), extra=turn.extra) for turn in turns)


class _Turn(msgspec.Struct):
    """A message that may go on."""

    role: Role
    parts: list[Part]
    extra: JsonObject = {}


def _add(turns: list[_Turn], turn: _Turn) -> None:
    if turn.role == "user" or not turns or turns[-1].role != turn.role:
        turns.append(turn)
        return
    turns[-1].parts += turn.parts
    turns[-1].extra = {**turns[-1].extra, **turn.extra}


class _Calls:
    """The calls so far: those without an id get one, and a response without one answers the first of its name."""

    def __init__(self) -> None:
        self.turned = False
        self._count = 0
        self._waiting: dict[str, ToolCall] = {}
        self._recent: deque[str] = deque()

    def add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        self._recent = deque() if self.turned else self._recent
        self.turned = False
        call = call if call.id else msgspec.structs.replace(call, id=f"call_{self._count}")
        self._waiting[call.id] = call
        self._recent.append(call.id)
        return call

    def answer(self, result: ToolResult) -> ToolResult:
        call = self._waiting.pop(result.id, None) or self._named(result.name)
        if call is None:
            return _with_id(result, result.id) if result.id else result
        result = _with_id(result, result.id) if result.id not in ("", wire_id(call)) else result
        return msgspec.structs.replace(result, id=call.id, name=result.name or call.name)

    def _named(self, name: str) -> ToolCall | None:
        while self._recent and self._recent[0] not in self._waiting:
            self._recent.popleft()
        waiting = (self._waiting[id] for id in self._recent if id in self._waiting)
        call = next((call for call in waiting if name in ("", call.name)), None)
        return self._waiting.pop(call.id) if call is not None else None


def _with_id(result: ToolResult, id: str) -> ToolResult:
    return msgspec.structs.replace(result, extra=make_extra(NAME, {**wire_extra(result.extra, NAME), "id": id}))


def _decode_choice(config: JsonObject | None) -> tuple[str | None, bool]:
    """Our word for a choice, and whether it says all."""
    outer = camel(config or {})
    calling = outer.get("functionCallingConfig")
    if not is_object(calling):
        return None, False
    calling = camel(calling)
    mode, given = str(calling.get("mode", "AUTO")).upper(), calling.get("allowedFunctionNames")
    names = [str(name) for name in given] if is_list(given) else []
    choice = CHOICES.get(mode)
    if mode == "ANY" and len(names) == 1:
        choice = names.pop()
    plain = outer.keys() == {"functionCallingConfig"} and calling.keys() <= {"mode", "allowedFunctionNames"}
    return choice, plain and mode in MODES.values() and not names


def _decode_config(data: JsonObject) -> JsonObject:
    """The config with whole numbers as such: they may come as text or with a fraction of zero."""
    config = camel(data)
    if "_responseJsonSchema" in config:
        config["responseJsonSchema"] = config.pop("_responseJsonSchema")
    for field in _WHOLE:
        value = config.get(field)
        if (isinstance(value, str) and re.fullmatch("-?[0-9]+", value)) or (
            isinstance(value, float) and value.is_integer()
        ):
            config[field] = int(value)
    return config


def _decode_schema(config: GenerationConfig, more: JsonObject) -> tuple[JsonObject | None, JsonObject, set[str]]:
    """The schema of the answer, the config that is kept as it came, and the fields of it that the schema says."""
    mime, schema = config.response_mime_type, config.response_json_schema
    if schema is not None:
        changed = bool(adapt(schema, SCHEMA_DIALECT, where="generationConfig.responseJsonSchema")[1])
        return schema, {**more, **({"responseJsonSchema": schema} if changed else {})}, {"responseJsonSchema"}
    if mime not in (None, "application/json"):
        return None, {**more, "responseMimeType": mime}, {"responseMimeType"} if mime == "text/plain" else set()
    if is_object(openapi := more.get("responseSchema")):
        return from_openapi(openapi), more, {"responseSchema"}
    for form in listed(more.get("responseFormat")):
        text = form.get("text") if is_object(form) else None
        if is_object(text) and is_object(text.get("schema")):
            return text["schema"], more, {"responseFormat"} if _is_plain(more["responseFormat"]) else set()
    return {} if mime else None, more, set()


def _is_plain(format: JsonObject | list[JsonObject]) -> bool:
    """Whether a format is one of text, of which nothing is told but its schema."""
    form, *others = listed(format)
    return not others and form.keys() == {"text"} and camel(form["text"]).keys() <= {"schema", "mimeType"}


def _decode_reasoning(kept: JsonObject) -> tuple[Effort | int | None, bool]:
    """How hard to think, and whether that says all; what we would write again is taken out of what is kept."""
    if not is_object(kept.get("thinkingConfig")):
        return None, False
    config = camel(kept["thinkingConfig"])
    budget, level = config.get("thinkingBudget"), str(config.get("thinkingLevel", "")).lower()
    is_hidden = config.get("includeThoughts") is False
    if level in _EFFORTS:
        return cast("Effort", level), config.keys() <= {"thinkingLevel", "includeThoughts"} and not is_hidden
    if not isinstance(budget, int) or budget < 0:
        return None, False
    if config == {**({"includeThoughts": True} if budget else {}), "thinkingBudget": budget}:
        del kept["thinkingConfig"]
    is_whole = config.keys() <= {"thinkingBudget", "includeThoughts"} and not (budget and is_hidden)
    return budget or "none", is_whole
