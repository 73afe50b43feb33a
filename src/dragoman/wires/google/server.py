"""The server half of Google's generateContent: decodes requests, encodes whole answers and errors."""

import re
from itertools import chain
from math import inf
from typing import cast, get_args
from urllib.parse import parse_qs, unquote

from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.adapt import adapt
from dragoman.types import (
    Effort,
    HostedCall,
    HostedResult,
    JsonObject,
    Part,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    is_list,
    is_object,
)
from dragoman.types.requests import MAX_CHOICES
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_items,
    make_request,
    missing_field,
    read_body,
    read_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.google.from_openapi import from_openapi
from dragoman.wires.google.hosted_tools import has_form
from dragoman.wires.google.messages import decode_content, decode_system, link_contents
from dragoman.wires.google.parts import decode_tools
from dragoman.wires.google.schema import (
    ALT,
    ENUM,
    LEVELS,
    NAME,
    NEUTRAL_CONFIG,
    SCHEMA_DIALECT,
    TOOL_CHOICE_FROM_WIRE,
    TOOL_CHOICE_TO_WIRE,
    GeminiRequest,
    GenerationConfig,
    as_objects,
    camel,
)
from dragoman.wires.google.stream_encoder import (
    GeminiStreamEncoder,
    as_enum,
    encode_answer,
    encode_answer_part,
    encode_error,
    wants_enum,
)

_PATH = (
    r".*?/(?:publishers/(?P<publisher>[^/]+)/)?(?P<group>models|tunedModels|endpoints)/(?P<name>.+)"
    r":(?P<method>generateContent|streamGenerateContent)"
)
_BARE_PATH = r"/v1(?:beta)?/(?P<name>.+):(?P<method>generateContent|streamGenerateContent)"
"""A path whose model is not in a group: Vercel's provider asks so for names with a slash (2026-11)."""
CLOUD_PATHS = tuple(
    f"/{version}/{place}publishers/{{publisher}}"
    for version in ("v1beta1", "v1")
    for place in ("projects/{project}/locations/{location}/", "")
)
"""The beginnings of the cloud's paths, with and without a project."""
_EFFORTS = frozenset(get_args(Effort))
_INTEGERS = ("topK", "maxOutputTokens", "seed", "logprobs", "candidateCount")

BOUNDS = (
    ("temperature", "generationConfig.temperature", 0, 2),
    ("top_p", "generationConfig.topP", 0, 1),
    ("max_tokens", "generationConfig.maxOutputTokens", 1, inf),
    ("frequency_penalty", "generationConfig.frequencyPenalty", -2, 2),
    ("presence_penalty", "generationConfig.presencePenalty", -2, 2),
    ("top_logprobs", "generationConfig.logprobs", 0, 20),
    ("n", "generationConfig.candidateCount", 1, MAX_CHOICES),
)
"""The ranges that Google accepts."""


class GeminiServer:
    """Serves `generateContent` and `streamGenerateContent`."""

    has_citations = True
    # The official Python package asks for v1 if its base URL is not Google's (2.25, 2026-11).
    routes = tuple(
        Route(method="POST", path=f"{prefix}/models/{{model}}:{method}")
        for prefix in ("/v1beta", "/v1", *CLOUD_PATHS)
        for method in ("generateContent", "streamGenerateContent")
    ) + tuple(
        Route(method="POST", path=f"/{version}/{{model}}:{method}")
        for version in ("v1beta", "v1")
        for method in ("generateContent", "streamGenerateContent")
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, extra = read_body(GeminiRequest, http, ("contents", "tools"), camel)
        model, stream, is_array = _decode_path(http.path, body.model)
        config, other_config = read_fields(
            GenerationConfig, _decode_config(body.generation_config or {}), "generationConfig"
        )
        schema, own_config, covered = _decode_schema(config, other_config)
        reasoning, is_reasoning_covered = _decode_reasoning(own_config)
        covered |= {"thinkingConfig"} if is_reasoning_covered else set()
        covered |= {field for field, value in NEUTRAL_CONFIG.items() if own_config.get(field) == value}
        system, system_extra = decode_system(body.system_instruction)
        tools = tuple(chain.from_iterable(decode_items(as_objects(body.tools), decode_tools, "tools")))
        choice, is_choice_covered = _decode_tool_choice(body.tool_config)
        verbatim: JsonObject = {}
        extra.update(system_extra)
        # The client half encodes a covered choice itself if there are functions.
        if body.tool_config and not (is_choice_covered and any(isinstance(tool, Tool) for tool in tools)):
            (verbatim if is_choice_covered else extra)["toolConfig"] = body.tool_config
        if own_config:
            (verbatim if own_config.keys() <= covered else extra)["generationConfig"] = own_config
        return model, make_request(
            BOUNDS,
            messages=link_contents(decode_items(as_objects(body.contents), decode_content, "contents")),
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
            frequency_penalty=config.frequency_penalty,
            presence_penalty=config.presence_penalty,
            logprobs=config.response_logprobs,
            top_logprobs=config.logprobs,
            n=config.candidate_count,
            service_tier=_decode_tier(body.service_tier),
            reasoning=reasoning,
            stream=stream,
            extra={**request_extra(NAME, extra, verbatim), **({ALT: "json"} if is_array else {})},
        )

    def check(self, _model: str, request: Request, /) -> None:
        if not request.messages:
            raise missing_field("contents")
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, request: Request | None = None, /) -> HttpResponse:
        if request is not None and wants_enum(request):
            parts = tuple(as_enum(part) for part in response.message.parts)
            response = replace(response, message=replace(response.message, parts=parts))
        return HttpResponse(body=encode_json(encode_answer(response)))

    def supports_part(self, part: Part, /) -> bool:
        if isinstance(part, HostedCall | HostedResult):
            return has_form(part)
        return encode_answer_part(part) is not None or isinstance(part, Text | Thinking)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return error_response(error, encode_error(error))

    def stream_encoder(self, request: Request, /) -> StreamEncoder:
        return GeminiStreamEncoder(request)


def _decode_tier(tier: str | None) -> str | None:
    """The tier in lower case; None for the value that means "no choice"."""
    word = (tier or "").lower().removeprefix("service_tier_")
    return None if word in ("", "unspecified") else word


def published(publisher: str | None, name: str, /) -> str:
    """The model of a publisher; google-genai writes `a/b` as the model b of the publisher a."""
    return name if publisher in (None, "google") else f"{unquote(publisher)}/{name}"


def _decode_path(path: str, model: str) -> tuple[str, bool, bool]:
    """The model, whether to stream, and whether the stream is a JSON array; Vertex's longer paths are read, too."""
    path, _, query = path.partition("?")
    match = re.fullmatch(_PATH, path) or re.fullmatch(_BARE_PATH, path)
    if match is None:
        return model.removeprefix("models/"), False, False
    name, parts = unquote(match["name"]).removeprefix("models/"), match.groupdict()
    group = parts.get("group", "models")
    model = published(parts.get("publisher"), name) if group == "models" else f"{group}/{name}"
    stream = match["method"] == "streamGenerateContent"
    return model, stream, stream and "sse" not in parse_qs(query).get("alt", ())


def _decode_tool_choice(config: JsonObject | None) -> tuple[str | None, bool]:
    """The tool choice, and whether it covers the config."""
    outer = camel(config or {})
    calling = outer.get("functionCallingConfig")
    if not is_object(calling):
        return None, False
    calling = camel(calling)
    mode, allowed = str(calling.get("mode", "AUTO")).upper(), calling.get("allowedFunctionNames")
    names = [str(name) for name in allowed] if is_list(allowed) else []
    choice = TOOL_CHOICE_FROM_WIRE.get(mode)
    if mode == "ANY" and len(names) == 1:
        choice = names.pop()
    is_plain = outer.keys() == {"functionCallingConfig"} and calling.keys() <= {"mode", "allowedFunctionNames"}
    return choice, is_plain and mode in TOOL_CHOICE_TO_WIRE.values() and not names


def _decode_config(data: JsonObject) -> JsonObject:
    """The config with integers as int; they may come as text or as a float."""
    config = camel(data)
    if "_responseJsonSchema" in config:
        config["responseJsonSchema"] = config.pop("_responseJsonSchema")
    for field in _INTEGERS:
        value = config.get(field)
        if (isinstance(value, str) and re.fullmatch("-?[0-9]+", value)) or (
            isinstance(value, float) and value.is_integer()
        ):
            config[field] = int(value)
    return config


def _decode_schema(config: GenerationConfig, other: JsonObject) -> tuple[JsonObject | None, JsonObject, set[str]]:
    """The schema of the answer, the config to keep as it came, and the fields of it that the schema covers."""
    mime, schema = config.response_mime_type, config.response_json_schema
    openapi = other.get("responseSchema")
    if mime == ENUM and (enum := from_openapi(openapi) if is_object(openapi) else schema) is not None:
        own_config = without_none({**other, "responseMimeType": mime, "responseJsonSchema": schema})
        return enum, own_config, {"responseMimeType", "responseJsonSchema", "responseSchema"}
    if schema is not None:
        is_changed = bool(adapt(schema, SCHEMA_DIALECT, where="generationConfig.responseJsonSchema")[1])
        return schema, {**other, **({"responseJsonSchema": schema} if is_changed else {})}, {"responseJsonSchema"}
    if mime not in (None, "application/json"):
        return None, {**other, "responseMimeType": mime}, {"responseMimeType"} if mime == "text/plain" else set()
    if is_object(openapi):
        return from_openapi(openapi), other, {"responseSchema"}
    for format in as_objects(other.get("responseFormat")):
        text = format.get("text") if is_object(format) else None
        if is_object(text) and is_object(text.get("schema")):
            return text["schema"], other, {"responseFormat"} if _is_schema_only(other["responseFormat"]) else set()
    return {} if mime else None, other, set()


def _is_schema_only(format: JsonObject | list[JsonObject]) -> bool:
    """Whether a format is for text, and has nothing but a schema."""
    first, *others = as_objects(format)
    return not others and first.keys() == {"text"} and camel(first["text"]).keys() <= {"schema", "mimeType"}


def _decode_reasoning(own_config: JsonObject) -> tuple[Effort | int | None, bool]:
    """The reasoning, and whether it covers the config; a budget that the client half encodes alike is removed."""
    if not is_object(own_config.get("thinkingConfig")):
        return None, False
    config = camel(own_config["thinkingConfig"])
    budget, level = config.get("thinkingBudget"), str(config.get("thinkingLevel", "")).lower()
    is_hidden = config.get("includeThoughts") is False
    if level in _EFFORTS:
        effort = cast("Effort", level)
        is_same = LEVELS[effort] == effort.upper() and not is_hidden
        return effort, is_same and config.keys() <= {"thinkingLevel", "includeThoughts"}
    if not isinstance(budget, int) or budget < 0:
        return None, False
    if config == {**({"includeThoughts": True} if budget else {}), "thinkingBudget": budget}:
        del own_config["thinkingConfig"]
    is_covered = config.keys() <= {"thinkingBudget", "includeThoughts"} and not (budget and is_hidden)
    return budget or "none", is_covered
