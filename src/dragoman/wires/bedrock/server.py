"""The server half of Bedrock's Converse: decodes requests, encodes whole answers and errors."""

import re
from math import inf
from urllib.parse import unquote

import msgspec

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Effort, JsonObject, Part, Request, Response, is_object
from dragoman.wires.base import StreamEncoder
from dragoman.wires.bedrock.messages import decode_message, decode_system, link_messages
from dragoman.wires.bedrock.parts import decode_tool
from dragoman.wires.bedrock.schema import NAME, ConverseRequest, InferenceConfig, ToolConfig
from dragoman.wires.bedrock.stream_encoder import ConverseStreamEncoder, encode_answer, encode_answer_part
from dragoman.wires.common.aws_errors import encode_aws_error
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import DECODE_ERRORS, encode_json
from dragoman.wires.common.request_body import (
    check_bounds,
    check_inner_json,
    decode_items,
    make_request,
    read_body,
    read_fields,
    require_fields,
)
from dragoman.wires.common.server_endpoints import Route

_PATH = r".*?/model/(?P<model>[^/]+(?:/[^/]+)*)/(?P<method>converse|converse-stream)(?:\?.*)?"
_EFFORTS: dict[str, Effort] = {"low": "low", "medium": "medium", "high": "high", "max": "max"}
BOUNDS = (
    ("temperature", "inferenceConfig.temperature", 0, 1),
    ("top_p", "inferenceConfig.topP", 0, 1),
    ("max_tokens", "inferenceConfig.maxTokens", 1, inf),
)
"""The ranges that Bedrock accepts."""


_NO_NAME = Request().schema_name
_SCHEMA_FIELD = "outputConfig.textFormat.structure.jsonSchema.schema"


class ConverseServer:
    """Serves `/model/{model}/converse` and `/model/{model}/converse-stream`."""

    has_citations = True
    routes = (
        Route(method="POST", path="/model/{model}/converse"),
        Route(method="POST", path="/model/{model}/converse-stream"),
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, extra = read_body(ConverseRequest, http, ("messages",))
        messages, cache = link_messages(decode_items(body.messages, decode_message, "messages"))
        config, other_config = read_fields(InferenceConfig, body.inference_config or {}, "inferenceConfig")
        tool_config, other_tool_config = read_fields(ToolConfig, body.tool_config or {}, "toolConfig")
        choice, choice_extra = _decode_tool_choice(tool_config.tool_choice or {})
        schema, schema_name, output_config = _decode_format(body.output_config or {})
        model_fields = body.additional_model_request_fields or {}
        reasoning = _decode_reasoning(model_fields)
        own = {
            "inferenceConfig": other_config,
            "toolConfig": {**other_tool_config, **choice_extra},
            "outputConfig": output_config,
        }
        extra |= {field: value for field, value in own.items() if value}
        verbatim: JsonObject = {}
        if model_fields:
            (verbatim if reasoning is not None and model_fields.keys() <= _REASONING else extra)[
                "additionalModelRequestFields"
            ] = model_fields
        path = re.fullmatch(_PATH, http.path)
        tier, tier_extra = _decode_tier(body.service_tier or {})
        extra |= tier_extra
        return unquote(path["model"]) if path else "", make_request(
            BOUNDS,
            messages=messages,
            system=as_system(decode_system(body.system or [])),
            tools=tuple(decode_tool(tool, f"toolConfig.tools[{i}]") for i, tool in enumerate(tool_config.tools)),
            tool_choice=choice,
            schema=schema,
            schema_name=schema_name or _NO_NAME,
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            stop=tuple(config.stop_sequences or ()),
            service_tier=tier,
            reasoning=reasoning,
            cache=True if cache else None,
            metadata=body.request_metadata or {},
            stream=bool(path and path["method"] == "converse-stream"),
            extra=request_extra(NAME, extra, verbatim),
        )

    def check(self, model: str, request: Request, /) -> None:
        require_fields({"modelId": model, "messages": request.messages})
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json(encode_answer(response)))

    def supports_part(self, part: Part, /) -> bool:
        return encode_answer_part(part) is not None

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return encode_aws_error(error)

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return ConverseStreamEncoder()


def _decode_tier(tier: JsonObject) -> tuple[str | None, JsonObject]:
    """The service tier, and its verbatim form if it is not one that we know."""
    kind = tier.get("type")
    if isinstance(kind, str) and tier.keys() == {"type"}:
        return kind, {}
    return None, {"serviceTier": tier} if tier else {}


_REASONING = frozenset({"thinking", "reasoning_effort", "reasoningConfig", "output_config"})


def _decode_tool_choice(data: JsonObject) -> tuple[str | None, JsonObject]:
    """The tool choice, and the data itself if the choice does not cover it."""
    match data:
        case {"auto": {}}:
            return "auto", {}
        case {"any": {}}:
            return "required", {}
        case {"tool": {"name": str(name)}}:
            return name, {}
        case _:
            return None, {"toolChoice": data} if data else {}


def _decode_format(config: JsonObject) -> tuple[JsonObject | None, str | None, JsonObject]:
    """The schema of the answer, its name, and the members of `outputConfig` that these do not cover."""
    match config:
        case {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": str(text)} as inner}}}:
            check_inner_json(text.encode("utf-8", "replace"), _SCHEMA_FIELD)
            try:
                schema = msgspec.json.decode(text)
            except DECODE_ERRORS:
                return None, None, config
            if not is_object(schema) or not inner.keys() <= {"schema", "name"}:
                return schema if is_object(schema) else None, None, config
            name = inner.get("name")
            rest = {key: value for key, value in config.items() if key != "textFormat"}
            return schema, name if isinstance(name, str) else None, rest
        case _:
            return None, None, config


def _decode_reasoning(fields: JsonObject) -> Effort | int | None:
    match fields:
        case {"thinking": {"type": "enabled", "budget_tokens": int(budget)}}:
            return budget
        case {"thinking": {"type": "disabled"}} | {"reasoningConfig": {"type": "disabled"}}:
            return "none"
        case {"thinking": {"type": "adaptive"}, "output_config": {"effort": str(effort)}}:
            return _EFFORTS.get(effort, "high")
        case {"thinking": {"type": "adaptive"}}:
            return "high"
        case {"reasoning_effort": str(effort)} | {"reasoningConfig": {"maxReasoningEffort": str(effort)}}:
            return _EFFORTS.get(effort)
        case _:
            return None
