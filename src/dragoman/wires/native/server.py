"""The server half of the native protocol: decodes requests, encodes whole answers and errors."""

from typing import Any

from dragoman.errors import DragomanError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.schema.cost_bounds import CompileBudget
from dragoman.schema.validate import schema_error
from dragoman.types import HostedTool, JsonObject, Part, Request, Response, Tool, ToolResult, is_object
from dragoman.types.hosted_tools import HOSTED_KINDS
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.options import NO_ARGUMENTS
from dragoman.wires.common.request_body import decode_request_json
from dragoman.wires.common.server_endpoints import Route, error_response
from dragoman.wires.native.messages import NativeHistory
from dragoman.wires.native.parts import decode_hosted_tool
from dragoman.wires.native.problems import ProblemCollector
from dragoman.wires.native.schema import FUNCTION_FIELDS, NAME, PATH, REQUEST_FIELDS, TOOL_FIELDS
from dragoman.wires.native.stream_encoder import NativeStreamEncoder, encode_answer, encode_error, http_status_of

_GATEWAY_FIELDS = ("conversation_id", "tier")
"""Fields for the gateway, not for the model."""


class NativeServer:
    """Serves the native chat completions."""

    has_citations = True
    routes = (Route(method="POST", path=f"{PATH}/chat/completions"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The model or the tier, and the request; one error lists all problems."""
        problems = ProblemCollector()
        body = problems.read_object(decode_request_json(http), REQUEST_FIELDS, "", required=("messages",))
        history = NativeHistory(problems)
        history.read(body.get("messages") or [])
        budget = CompileBudget()
        tools = _decode_tools(body.get("tools") or [], problems, budget)
        choice = _decode_choice(body.get("tool_choice"), tools, problems)
        _check(body, problems, budget)
        problems.check()
        stop = body.get("stop")
        gateway_fields = {name: body[name] for name in _GATEWAY_FIELDS if name in body}
        return body.get("model") or body.get("tier") or "", Request(
            messages=history.messages(),
            system=as_system(history.system),
            tools=tools,
            tool_choice=choice,
            schema=body.get("schema"),
            schema_name=body.get("schema_name") or "response",
            temperature=body.get("temperature"),
            top_p=body.get("top_p"),
            max_tokens=body.get("max_tokens"),
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            reasoning=body.get("reasoning"),
            cache=body.get("cache"),
            cache_ttl=body.get("cache_ttl"),
            stream=bool(body.get("stream")),
            extra=request_extra(NAME, {}, gateway_fields),
        )

    def check(self, _model: str, _request: Request, /) -> None:
        """Accept everything: `decode_request` has checked it, and a request without a model means a tier."""

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpResponse:
        return HttpResponse(body=encode_json(encode_answer(response)))

    def supports_part(self, part: Part, /) -> bool:
        return not isinstance(part, ToolResult)

    def encode_error(self, error: DragomanError, /) -> HttpResponse:
        return error_response(error, {"error": encode_error(error)}, http_status_of(error))

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        return NativeStreamEncoder()


def _check(body: dict[str, Any], problems: ProblemCollector, budget: CompileBudget) -> None:
    """Check conditions between fields."""
    if "model" in body and "tier" in body:
        problems.add("tier", "conflict", "set model or tier, not both")
    conversation = body.get("conversation_id")
    if conversation is not None and not conversation.isprintable():
        problems.add("conversation_id", "invalid_value", "must contain only printable characters")
    schema = body.get("schema")
    if schema is not None and (why := schema_error(schema, budget)) is not None:
        problems.add("schema", "invalid_schema", why)


def _decode_tools(tools: list[Any], problems: ProblemCollector, budget: CompileBudget) -> tuple[Tool | HostedTool, ...]:
    decoded: list[Tool | HostedTool] = []
    names: set[str] = set()
    for i, data in enumerate(tools):
        where = f"tools[{i}]"
        if is_object(data) and data.get("type") in HOSTED_KINDS:
            hosted = decode_hosted_tool(data, where, problems)
            decoded += [] if hosted is None else [hosted]
            continue
        outer = problems.read_object(data, TOOL_FIELDS, where, required=("type", "function"))
        if outer.get("function") is None:
            continue
        inner = problems.read_object(
            outer["function"], FUNCTION_FIELDS, f"{where}.function", required=("name", "description", "parameters")
        )
        name, parameters = inner.get("name"), inner.get("parameters")
        if name in names:
            problems.add(f"{where}.function.name", "duplicate_tool", f"another tool has the name {name!r}")
        if parameters is not None:
            _check_parameters(parameters, f"{where}.function.parameters", problems, budget)
        names.add(name or "")
        decoded.append(
            Tool(
                name=name or "",
                description=inner.get("description"),
                parameters=None if parameters == NO_ARGUMENTS else parameters,
                strict=inner.get("strict"),
                extra=outer.get("extra") or {},
            )
        )
    return tuple(decoded)


def _check_parameters(schema: JsonObject, where: str, problems: ProblemCollector, budget: CompileBudget) -> None:
    if schema.get("type") != "object":
        problems.add(where, "invalid_schema", 'type must be "object"')
    if (why := schema_error(schema, budget)) is not None:
        problems.add(where, "invalid_schema", why)


def _decode_choice(
    choice: str | JsonObject | None, tools: tuple[Tool | HostedTool, ...], problems: ProblemCollector
) -> str | None:
    functions = [tool for tool in tools if isinstance(tool, Tool)]
    match choice:
        case None | "auto" | "none":
            return choice
        case "required":
            if not tools:
                problems.add("tool_choice", "no_tools", "a call is required, but there are no tools")
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            if not any(tool.name == name for tool in functions):
                names = ", ".join(tool.name for tool in functions) or "none"
                problems.add("tool_choice", "unknown_tool", f"must name a tool, got {name!r}; known are {names}")
            return name
        case _:
            problems.add(
                "tool_choice",
                "invalid_value",
                'must be auto, none, required or {"type": "function", "function": {"name": …}}',
            )
            return None
