"""A native call's bytes in, a Request out; a Response or events in, their bytes in our own protocol out."""

from typing import Any

from dragoman.errors import DragomanError
from dragoman.http import HttpReply, HttpRequest
from dragoman.schema.validate import schema_error
from dragoman.types import JsonObject, Part, Request, Response, Tool, ToolResult
from dragoman.wires.base import StreamEncoder
from dragoman.wires.common.errors import error_headers
from dragoman.wires.common.extra import request_extra
from dragoman.wires.common.history import as_system
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json
from dragoman.wires.common.server_endpoints import Route
from dragoman.wires.native.messages import NativeHistory
from dragoman.wires.native.problems import ProblemCollector
from dragoman.wires.native.schema import BODY, FUNCTION, NAME, NO_ARGUMENTS, PATH, TOOL
from dragoman.wires.native.stream_encoder import NativeStreamEncoder, encode_answer, encode_failure, status_of

_OWN = ("conversation_id", "tier")
"""What is asked of the gateway, and not of a model."""


class NativeServer:
    """They call us."""

    routes = (Route(method="POST", path=f"{PATH}/chat/completions"),)

    def decode_request(self, http: HttpRequest, /) -> tuple[str, Request]:
        """The name of a model or tier, or neither, and the request; all that is wrong with it in one error."""
        problems = ProblemCollector()
        body = problems.members(decode_request_json(http), BODY, "", required=("messages",))
        turns = NativeHistory(problems)
        turns.read(body.get("messages") or [])
        tools = _decode_tools(body.get("tools") or [], problems)
        choice = _decode_choice(body.get("tool_choice"), tools, problems)
        _check(body, problems)
        problems.check()
        stop = body.get("stop")
        told = {name: body[name] for name in _OWN if name in body}
        return body.get("model") or body.get("tier") or "", Request(
            messages=turns.messages(),
            system=as_system(turns.system),
            tools=tools,
            tool_choice=choice,
            schema=body.get("schema"),
            schema_name=body.get("schema_name") or "response",
            temperature=body.get("temperature"),
            top_p=body.get("top_p"),
            max_tokens=body.get("max_tokens"),
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            reasoning=body.get("reasoning"),
            stream=bool(body.get("stream")),
            extra=request_extra(NAME, {}, told),
        )

    def check(self, _model: str, _request: Request, /) -> None:
        """Nothing: all that is wrong was told, and who names no model means a tier."""

    def encode_body(self, response: Response, _: Request | None = None, /) -> HttpReply:
        """The whole answer."""
        return HttpReply(body=encode_json(encode_answer(response)))

    def supports_part(self, part: Part, /) -> bool:
        """Whether an answer has a place for a part: for all that a model says."""
        return not isinstance(part, ToolResult)

    def encode_error(self, error: DragomanError, /) -> HttpReply:
        """The refusal."""
        body = encode_json({"error": encode_failure(error)})
        return HttpReply(status=status_of(error), headers=error_headers(error), body=body)

    def stream_encoder(self, _: Request, /) -> StreamEncoder:
        """A writer of one streamed answer."""
        return NativeStreamEncoder()


def _check(body: dict[str, Any], problems: ProblemCollector) -> None:
    """What no single field tells."""
    if "model" in body and "tier" in body:
        problems.add("tier", "conflict", "give a model or a tier, not both")
    conversation = body.get("conversation_id")
    if conversation is not None and not conversation.isprintable():
        problems.add("conversation_id", "invalid_value", "it must be of printable characters")
    schema = body.get("schema")
    if schema is not None and (why := schema_error(schema)) is not None:
        problems.add("schema", "invalid_schema", why)


def _decode_tools(tools: list[Any], problems: ProblemCollector) -> tuple[Tool, ...]:
    decoded: list[Tool] = []
    names: set[str] = set()
    for i, data in enumerate(tools):
        where = f"tools[{i}]"
        outer = problems.members(data, TOOL, where, required=("type", "function"))
        if outer.get("function") is None:
            continue
        inner = problems.members(
            outer["function"], FUNCTION, f"{where}.function", required=("name", "description", "parameters")
        )
        name, parameters = inner.get("name"), inner.get("parameters")
        if name in names:
            problems.add(f"{where}.function.name", "duplicate_tool", f"another tool is called {name!r}")
        if parameters is not None:
            _check_parameters(parameters, f"{where}.function.parameters", problems)
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


def _check_parameters(schema: JsonObject, where: str, problems: ProblemCollector) -> None:
    if schema.get("type") != "object":
        problems.add(where, "invalid_schema", 'its type must be "object"')
    if (why := schema_error(schema)) is not None:
        problems.add(where, "invalid_schema", why)


def _decode_choice(choice: str | JsonObject | None, tools: tuple[Tool, ...], problems: ProblemCollector) -> str | None:
    match choice:
        case None | "auto" | "none":
            return choice
        case "required":
            if not tools:
                problems.add("tool_choice", "no_tools", "a call is required, and there are no tools")
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            if not any(tool.name == name for tool in tools):
                there = ", ".join(tool.name for tool in tools) or "none"
                problems.add("tool_choice", "unknown_tool", f"no tool is called {name!r}; there are {there}")
            return name
        case _:
            problems.add(
                "tool_choice",
                "invalid_value",
                'expected auto, none, required or {"type": "function", "function": {"name": …}}',
            )
            return None
