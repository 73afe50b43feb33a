"""A Request and its Target in, the bytes of a Chat Completions call out, with notices of what was bent on the way."""

import re
from typing import Any

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.reasoning import as_effort
from dragoman.schema import is_strict
from dragoman.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_object
from dragoman.wire import Notes, body_extra, http_request, wire_extra, without_none
from dragoman.wires.openai_chat.parts import encode_tool
from dragoman.wires.openai_chat.shapes import NAME, SAME_CONCEPT
from dragoman.wires.openai_chat.turns import encode_messages

_NOT_IN_NAMES = r"[^A-Za-z0-9_-]"
_NOTHING: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    notes = Notes(NAME, strict=request.strict)
    extra = body_extra(request, target, notes)
    options = extra.pop("stream_options", None)
    if request.schema is not None and not target.quirks.json_schema:
        extra.pop("response_format", None)
    body: JsonObject = {"model": target.model, "messages": encode_messages(request, target, notes)}
    for encode in (_tools, _schema, _options, _reasoning):
        body.update(encode(request, target, notes))
    for field, others in SAME_CONCEPT.items():
        if any(other in extra for other in others):
            body.pop(field, None)
    if request.stream:
        body["stream"] = True
        if target.quirks.stream_usage:
            body["stream_options"] = {**(options if is_object(options) else {}), "include_usage": True}
    return http_request(target, "/chat/completions", {**body, **extra}, notes)


def _tools(request: Request, target: Target, notes: Notes) -> JsonObject:
    own = [tool for tool in request.tools if isinstance(tool, Tool) or tool.wire == NAME]
    if len(own) < len(request.tools):
        notes.add("dropped", "a tool that runs at another provider", "it has no such tool")
    choice = _choice(request, target, own, notes)
    if is_object(choice) and not target.quirks.named_choice:
        own, choice = _only(str(request.tool_choice), own, notes), target.quirks.required_choice
    if not own:
        return {}
    parallel = request.parallel_tool_calls
    if parallel is not None and not target.quirks.parallel_tool_calls:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
        parallel = None
    return {
        "tools": [encode_tool(_without_strict(tool, target, notes)) for tool in own],
        **without_none({"tool_choice": choice, "parallel_tool_calls": parallel}),
    }


def _choice(request: Request, target: Target, tools: list[Tool | Opaque], notes: Notes) -> str | JsonObject | None:
    choice = request.tool_choice
    if choice in (None, "auto", "none"):
        return choice
    if not tools:
        notes.add("dropped", "tool_choice", "there are no tools")
        return None
    if not target.limits.forced_choice:
        notes.add("changed", "tool_choice", "a call cannot be forced, so the choice is its own")
        return "auto"
    if choice == "required":
        return target.quirks.required_choice
    return {"type": "function", "function": {"name": choice}}


def _only(name: str, tools: list[Tool | Opaque], notes: Notes) -> list[Tool | Opaque]:
    named: list[Tool | Opaque] = [tool for tool in tools if isinstance(tool, Tool) and tool.name == name]
    if not named:
        raise InvalidRequest(f"tool_choice: no tool is called {name!r}")
    notes.add("changed", "tool_choice", "it cannot name a tool, so it is given that one alone")
    return named


def _without_strict(tool: Tool | Opaque, target: Target, notes: Notes) -> Tool | Opaque:
    """The tool without a flag that the target does not know, or that its parameters do not satisfy."""
    if isinstance(tool, Opaque) or tool.strict is None:
        return tool
    extra = wire_extra(tool.extra, NAME)
    function = dict(extra.get("function", {}))
    verbatim = function.pop("strict", None)
    if target.quirks.strict and (verbatim or not tool.strict or is_strict(tool.parameters or _NOTHING)):
        return tool
    if tool.strict:
        notes.add("dropped", f"strict of {tool.name}", _why_not_strict(target))
    return msgspec.structs.replace(tool, strict=None, extra={NAME: {**extra, "function": function}})


def _why_not_strict(target: Target) -> str:
    return "the schema does not satisfy the strict rules" if target.quirks.strict else "it has no such flag"


def _schema(request: Request, target: Target, notes: Notes) -> JsonObject:
    schema, strict = request.schema, request.schema_strict
    if schema is None:
        return {}
    if not schema or not target.quirks.json_schema:
        return {"response_format": {"type": "json_object"}}
    if not target.quirks.strict or (strict and not is_strict(schema)):
        if strict:
            notes.add("dropped", "schema_strict", _why_not_strict(target))
        strict = None
    name = re.sub(_NOT_IN_NAMES, "_", request.schema_name)[:64] or "response"
    if name != request.schema_name:
        notes.add("renamed", "schema_name", f"a name is made of letters, digits, _ and -, so it is {name}")
    json_schema = without_none({"name": name, "schema": schema, "strict": strict})
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _options(request: Request, target: Target, notes: Notes) -> JsonObject:
    quirks = target.quirks
    told: tuple[tuple[str, Any, str | None], ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, "top_k" if quirks.top_k else None),
        ("seed", request.seed, quirks.seed_field),
        ("stop", list(request.stop) or None, "stop" if quirks.stop else None),
        ("max_tokens", _max_tokens(request, target, notes), quirks.max_tokens_field or "max_completion_tokens"),
        ("user", request.user, quirks.user_field),
        ("metadata", request.metadata or None, "metadata" if quirks.metadata else None),
    )
    body: JsonObject = {}
    for name, value, field in told:
        if value is None:
            continue
        if field is not None:
            body[field] = value
        elif name not in wire_extra(request.extra, NAME):
            notes.add("dropped", name, "it has no such option")
    return body


def _max_tokens(request: Request, target: Target, notes: Notes) -> int | None:
    told, most = request.max_tokens, target.limits.max_output
    if told is None or most is None or told <= most:
        return told
    notes.add("changed", "max_tokens", f"{told} is more than the {most} that it can")
    return most


def _reasoning(request: Request, target: Target, notes: Notes) -> JsonObject:
    reasoning, quirks = request.reasoning, target.quirks
    wanted = reasoning not in (None, "none", 0)
    if not target.limits.thinking:
        if wanted:
            notes.add("dropped", "reasoning", "the model does not think")
        return {}
    if request.tools and not quirks.reasoning_with_tools:
        if wanted:
            notes.add("changed", "reasoning", "a model that has tools may not think, so it does not")
        reasoning = "none"
    if reasoning is None:
        return {}
    if quirks.reasoning == "object" and isinstance(reasoning, int):
        return {"reasoning": {"max_tokens": reasoning}}
    effort = as_effort(reasoning, target, notes)
    match quirks.reasoning:
        case "object":
            return {"reasoning": {"effort": effort}}
        case "switch":
            return _switch(effort, target, notes)
        case _:
            return {"reasoning_effort": effort}


def _switch(effort: str, target: Target, notes: Notes) -> JsonObject:
    """On or off; how hard beside it, where the target is known to take words for that."""
    thinking = {"type": "disabled" if effort == "none" else "enabled"}
    if target.quirks.efforts is not None and effort != "none":
        return {"thinking": thinking, "reasoning_effort": effort}
    if effort not in ("none", "medium"):
        notes.add("changed", "reasoning", f"it can only be on or off, so {effort!r} is on")
    return {"thinking": thinking}
