"""A generateContent call's bytes in, a Request out; a Response or events in, their bytes in this dialect out."""

import re
from typing import cast, get_args
from urllib.parse import parse_qs, unquote

import msgspec

from dragoman.errors import DragomanError, InvalidRequest
from dragoman.fitting import fit
from dragoman.history import as_system
from dragoman.http import HttpReply, HttpRequest
from dragoman.types import (
    Effort,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    Response,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    is_list,
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
    wire_extra,
    without_none,
)
from dragoman.wires.google.openapi import from_openapi
from dragoman.wires.google.parts import decode_part, decode_tools, wire_id
from dragoman.wires.google.shapes import (
    ALT,
    CHOICES,
    MODES,
    NAME,
    SUBSET,
    ConfigShape,
    ContentShape,
    GenerateRequest,
    camel,
    join_notes,
    listed,
    write_usage,
)
from dragoman.wires.google.writer import ChunkWriter, encode_end, encode_failure, encode_head, encode_said, text_notes

_PATH = r".*?/(?P<place>models|tunedModels|endpoints)/(?P<name>.+):(?P<method>generateContent|streamGenerateContent)"
_EFFORTS = frozenset(get_args(Effort))
_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "user"}
_WHOLE = ("topK", "maxOutputTokens", "seed")


class Server:
    """They call us."""

    # The official Python package asks for v1 where its base URL is not Google's (2.25, 2026-11).
    routes = tuple(
        Route(method="POST", path=f"/{version}/models/{{model}}:{method}")
        for version in ("v1beta", "v1")
        for method in ("generateContent", "streamGenerateContent")
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model's name and the request."""
        shape, extra = read_shape(GenerateRequest, camel(decode_request_json(http)), "body")
        model, stream, array = _decode_path(http.path, shape.model)
        config, more = read_shape(ConfigShape, _decode_config(shape.generation_config or {}), "generationConfig")
        schema, kept = _decode_schema(config, more)
        reasoning = _decode_reasoning(more)
        system, beside = _decode_system(shape.system_instruction)
        tools = decode_tools(listed(shape.tools))
        choice, covered = _decode_choice(shape.tool_config, tools)
        extra.update({**beside, **({"toolConfig": shape.tool_config} if shape.tool_config and not covered else {})})
        extra.update({"generationConfig": kept} if kept else {})
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
            extra={**own_extra(NAME, extra), **({ALT: "json"} if array else {})},
        )

    def encode_body(self, response: Response, /) -> HttpReply:
        """The whole answer in this dialect."""
        parts: list[JsonObject] = []
        notes: JsonObject = {}
        for part in response.message.parts:
            parts += [encoded] if (encoded := encode_said(part)) else []
            notes = join_notes(notes, text_notes(part))
        body = {
            **encode_end(response.finish, parts, notes),
            "usageMetadata": write_usage(response.usage),
            **encode_head(response.id, response.model, response.created),
        }
        return HttpReply(body=encode_json(without_none(body)))

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal in this dialect."""
        body = encode_json(encode_failure(error))
        return HttpReply(status=error.http_status, headers=error_headers(error), body=body)

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        """A writer of one streamed answer, in the form that was asked for."""
        return ChunkWriter(request)


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
    shape, _ = read_shape(ContentShape, camel(data or {}), "systemInstruction")
    parts = _decode_parts(shape, "systemInstruction")
    texts = [part for part in parts if isinstance(part, Text)]
    return texts, {} if len(texts) == len(parts) else {"systemInstruction": data}


def _decode_parts(shape: ContentShape, where: str) -> list[Part]:
    decoded = [decode_part(part, f"{where}.parts[{i}]") for i, part in enumerate(listed(shape.parts))]
    return [part for part in decoded if part is not None]


def _decode_contents(contents: list[JsonObject]) -> tuple[Message, ...]:
    """The turns: those of the model that follow each other are one, and so are results that follow each other."""
    turns: list[Message] = []
    calls = _Calls()
    for i, data in enumerate(contents):
        where = f"contents[{i}]"
        shape, rest = read_shape(ContentShape, camel(data), where)
        role = _ROLES.get(shape.role)
        if role is None:
            raise InvalidRequest(f"{where}.role: {shape.role!r} is none of {', '.join(_ROLES)}")
        results: list[Part] = []
        others: list[Part] = []
        for part in _decode_parts(shape, where):
            if isinstance(part, ToolResult):
                results.append(calls.answer(part))
            else:
                others.append(calls.add(part) if isinstance(part, ToolCall) else part)
        if results:
            _add(turns, Message(role="tool", parts=tuple(results)))
        if any(isinstance(part, ToolCall) for part in others):
            role = "assistant"
        if others or not results:
            _add(turns, Message(role=role, parts=tuple(others), extra=own_extra(NAME, rest)))
        calls.turned = role == "user"
    return tuple(turns)


def _add(turns: list[Message], turn: Message) -> None:
    if turn.role != "user" and turns and turns[-1].role == turn.role:
        before = turns.pop()
        turn = Message(role=turn.role, parts=before.parts + turn.parts, extra={**before.extra, **turn.extra})
    turns.append(turn)


class _Calls:
    """The calls so far: those without an id get one, and a response without one answers the first of its name."""

    def __init__(self) -> None:
        self.turned = False
        self._count = 0
        self._waiting: dict[str, ToolCall] = {}
        self._recent: list[str] = []

    def add(self, call: ToolCall) -> ToolCall:
        self._count += 1
        self._recent = [] if self.turned else self._recent
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
        waiting = (self._waiting[id] for id in self._recent if id in self._waiting)
        call = next((call for call in waiting if name in ("", call.name)), None)
        return self._waiting.pop(call.id) if call is not None else None


def _with_id(result: ToolResult, id: str) -> ToolResult:
    return msgspec.structs.replace(result, extra=own_extra(NAME, {**wire_extra(result.extra, NAME), "id": id}))


def _decode_choice(config: JsonObject | None, tools: tuple[Tool | Opaque, ...]) -> tuple[str | None, bool]:
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
    functions = any(isinstance(tool, Tool) for tool in tools)
    return choice, plain and functions and mode in MODES.values() and not names


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


def _decode_schema(config: ConfigShape, more: JsonObject) -> tuple[JsonObject | None, JsonObject]:
    """The schema of the answer, and the config that our words do not cover."""
    mime, schema = config.response_mime_type, config.response_json_schema
    if schema is not None:
        changed = bool(fit(schema, SUBSET, where="generationConfig.responseJsonSchema")[1])
        return schema, {**more, **({"responseJsonSchema": schema} if changed else {})}
    if mime not in (None, "application/json"):
        return None, {**more, "responseMimeType": mime}
    if is_object(openapi := more.get("responseSchema")):
        return from_openapi(openapi), more
    for form in listed(more.get("responseFormat")):
        text = form.get("text") if is_object(form) else None
        if is_object(text) and is_object(text.get("schema")):
            return text["schema"], more
    return {} if mime else None, more


def _decode_reasoning(more: JsonObject) -> Effort | int | None:
    """How hard to think; what says just that is taken out of the rest."""
    if not is_object(more.get("thinkingConfig")):
        return None
    config = camel(more["thinkingConfig"])
    budget, level = config.get("thinkingBudget"), str(config.get("thinkingLevel", "")).lower()
    if level in _EFFORTS:
        return cast("Effort", level)
    if not isinstance(budget, int) or budget < 0:
        return None
    if config == {**({"includeThoughts": True} if budget else {}), "thinkingBudget": budget}:
        del more["thinkingConfig"]
    return budget or "none"
