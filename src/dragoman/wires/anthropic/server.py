"""The server half of Anthropic's Messages API: decodes requests, encodes whole answers and errors."""

import re
from math import inf
from urllib.parse import unquote

from dragoman.errors import DragomanError, Overloaded
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import AnyTool, Effort, JsonObject, Part, Request, Response, is_object
from dragoman.wires.anthropic.hosted_tools import decode_mcp_servers
from dragoman.wires.anthropic.messages import decode_message, decode_system, split_system
from dragoman.wires.anthropic.parts import decode_tool
from dragoman.wires.anthropic.schema import (
    DEFAULT_EFFORT,
    EFFORT_FROM_WIRE,
    EPHEMERAL,
    MODEL_IN_PATH,
    NAME,
    OVERLOADED,
    TOOL_CHOICE_FROM_WIRE,
    AnthropicRequest,
)
from dragoman.wires.anthropic.stream_encoder import (
    AnthropicStreamEncoder,
    encode_answer,
    encode_answer_part,
    encode_error,
)
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.item_cache import plain_items
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.open_turns import link_results
from dragoman.wires.common.request_body import (
    check_bounds,
    decode_items,
    make_request,
    read_body,
    require_fields,
)
from dragoman.wires.common.server_endpoints import Route, error_response

BOUNDS = (
    ("temperature", "temperature", 0, 1),
    ("top_p", "top_p", 0, 1),
    ("max_tokens", "max_tokens", 0, inf),
    ("top_k", "top_k", 0, inf),
)
"""The ranges that Anthropic accepts."""


class AnthropicServer:
    """Serves `/v1/messages`, also under the paths of Azure and Vertex AI."""

    has_citations = True
    routes: tuple[Route, ...] = (
        Route(method="POST", path="/v1/messages"),
        Route(method="POST", path="/anthropic/v1/messages"),
        *(
            Route(
                method="POST",
                path=f"/v1/projects/{{project}}/locations/{{location}}/publishers/anthropic/models/{{model}}:{method}",
            )
            for method in ("rawPredict", "streamRawPredict")
        ),
    )

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        body, extra = read_body(AnthropicRequest, http, ("messages", "tools"))
        system = decode_system(body)
        leading, messages = split_system(link_results(decode_items(body.messages, decode_message, "messages")))
        choice, parallel, choice_extra = _decode_tool_choice(body.tool_choice or {})
        schema, output_config = _decode_format(body)
        reasoning, thinking, is_thinking_covered = _decode_reasoning(body.thinking or {}, output_config.get("effort"))
        user, metadata = _decode_metadata(body.metadata or {})
        own_fields = {
            "betas": _decode_betas(http, body),
            "tool_choice": choice_extra,
            "output_config": output_config,
            "thinking": thinking,
            "metadata": metadata,
            "cache_control": {} if body.cache_control == EPHEMERAL else body.cache_control,
        }
        is_covered = {"output_config": output_config == {"effort": reasoning}, "thinking": is_thinking_covered}
        verbatim = {field: value for field, value in own_fields.items() if value and is_covered.get(field)}
        extra |= {field: value for field, value in own_fields.items() if value and not is_covered.get(field)}
        tools, servers = _decode_tools(body.tools or [], extra)
        verbatim |= servers
        path = re.fullmatch(MODEL_IN_PATH, http.path)
        model, method = (unquote(path[1]), path[2]) if path else ("", "")
        return model or body.model, make_request(
            BOUNDS,
            messages=messages,
            system=as_system([*system, *leading]),
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=parallel,
            schema=schema,
            temperature=body.temperature,
            top_p=body.top_p,
            top_k=body.top_k,
            max_tokens=body.max_tokens,
            stop=tuple(body.stop_sequences or ()),
            service_tier=body.service_tier,
            reasoning=reasoning,
            cache=True if body.cache_control else None,
            user=user,
            stream=bool(body.stream or method == "streamRawPredict"),
            extra=request_extra(NAME, extra, verbatim),
        )

    def check(self, model: str, request: Request, /) -> None:
        require_fields({"model": model, "messages": request.messages})
        check_bounds(request, BOUNDS)

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json(encode_answer(response)))

    def supports_part(self, part: Part, /) -> bool:
        return encode_answer_part(part) is not None

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        status = OVERLOADED if isinstance(error, Overloaded) else error.http_status
        return error_response(error, encode_error(error), status)

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return AnthropicStreamEncoder()


def _decode_tools(definitions: list[JsonObject], extra: JsonObject) -> tuple[tuple[AnyTool, ...], JsonObject]:
    """The tools, with MCP servers at the place of the tool that names them; and the field of the servers."""
    if not extra.get("mcp_servers"):
        return tuple(decode_items(definitions, decode_tool, "tools")), {}
    definitions = plain_items(definitions)
    servers = {server.name: server for server in decode_mcp_servers(extra["mcp_servers"], definitions)}
    field = {"mcp_servers": extra.pop("mcp_servers")} if servers else {}
    tools: list[AnyTool] = []
    for i, data in enumerate(definitions):
        is_server = data.get("type") == "mcp_toolset" and data.get("mcp_server_name") in servers
        tools.append(servers.pop(data["mcp_server_name"]) if is_server else decode_tool(data, f"tools[{i}]"))
    return (*tools, *servers.values()), field


def _decode_betas(http: HttpRequest, body: AnthropicRequest) -> list[str]:
    headers = [value for name, value in http.headers.items() if name.lower() == "anthropic-beta"]
    names = [name.strip() for value in headers for name in value.split(",")]
    return [*dict.fromkeys(name for name in (*names, *(body.anthropic_beta or ())) if name)]


def _decode_tool_choice(data: JsonObject) -> tuple[str | None, bool | None, JsonObject]:
    """The tool choice, whether calls may be parallel, and the data itself if these two do not cover it."""
    kind, name, disabled = data.get("type"), data.get("name"), data.get("disable_parallel_tool_use")
    parallel = not disabled if isinstance(disabled, bool) else None
    choice = name if kind == "tool" and isinstance(name, str) else TOOL_CHOICE_FROM_WIRE.get(str(kind))
    is_covered = choice is not None and data.keys() <= {"type", "name", "disable_parallel_tool_use"}
    return choice, parallel, {} if is_covered else data


def _decode_format(body: AnthropicRequest) -> tuple[JsonObject | None, JsonObject]:
    """The schema of the answer, and the other members of `output_config`."""
    config = body.output_config or {}
    # Until 2026 the format was a field of its own, `output_format`.
    format = config.get("format") or body.output_format or {}
    rest = {key: value for key, value in config.items() if key != "format" and value is not None}
    schema = format.get("schema") if is_object(format) and format.get("type") == "json_schema" else None
    is_covered = is_object(schema) and format.keys() <= {"type", "schema"}
    if format and not is_covered:
        rest["format"] = format
    return schema if is_object(schema) else None, rest


def _decode_reasoning(thinking: JsonObject, effort: object) -> tuple[Effort | int | None, JsonObject, bool]:
    """The reasoning, the part of `thinking` to keep, and whether the reasoning covers it."""
    level = EFFORT_FROM_WIRE.get(str(effort))
    rest = {key: value for key, value in thinking.items() if key not in ("type", "budget_tokens")}
    match thinking:
        case {"type": "disabled"}:
            return "none", thinking if effort else rest, not rest
        case {"type": "enabled", "budget_tokens": int(budget)}:
            return budget, thinking if effort else rest, not rest
        case {"type": "adaptive"}:
            return level or DEFAULT_EFFORT, thinking, rest in ({}, {"display": "summarized"})
        case _:
            return level, thinking, False


def _decode_metadata(metadata: JsonObject) -> tuple[str | None, JsonObject]:
    user = metadata.get("user_id")
    rest = {key: value for key, value in metadata.items() if key != "user_id"}
    return user if isinstance(user, str) else None, rest
