"""A Request and its Target in, the bytes of a Responses call out, with notices of what was bent on the way."""

import re
from typing import Any

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest
from dragoman.reasoning import as_effort
from dragoman.schema import is_strict
from dragoman.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_list, is_object
from dragoman.wire import Notes, body_extra, http_request, wire_extra, without_none
from dragoman.wires.openai_responses.parts import encode_tool
from dragoman.wires.openai_responses.shapes import ENCRYPTED, MIN_OUTPUT, NAME, STATEFUL
from dragoman.wires.openai_responses.turns import encode_input

_NOT_IN_NAMES = r"[^A-Za-z0-9_-]"


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    notes = Notes(NAME, strict=request.strict)
    extra = body_extra(request, target, notes)
    body: JsonObject = {"model": target.model, **encode_input(request, target, notes)}
    body |= {**_tools(request, target, notes), **_options(request, target, notes)}
    if text := {**_object(extra.pop("text", None)), **_text(request, target, notes)}:
        body["text"] = text
    if reasoning := {**_reasoning(request, target, notes), **_object(extra.pop("reasoning", None))}:
        body["reasoning"] = reasoning
    if not any(extra.get(field) for field in STATEFUL):
        body["store"] = False
    if include := _include(extra.pop("include", None), target):
        body["include"] = include
    if request.stream:
        body["stream"] = True
    else:
        extra.pop("stream_options", None)
    return http_request(target, "/responses", {**body, **extra}, notes)


def _object(value: object) -> JsonObject:
    return value if is_object(value) else {}


def _include(given: object, target: Target) -> list[Any]:
    """What is asked for besides, and encrypted reasoning, which is replayed in the next turn."""
    wanted = list(given) if is_list(given) else []
    return wanted if ENCRYPTED in wanted or not target.limits.thinking else [*wanted, ENCRYPTED]


def _tools(request: Request, target: Target, notes: Notes) -> JsonObject:
    own = [tool for tool in request.tools if isinstance(tool, Tool) or tool.wire == NAME]
    if len(own) < len(request.tools):
        notes.add("dropped", "a tool that runs at another provider", "it has no such tool")
    choice = _choice(request, target, own, notes)
    if is_object(choice) and not target.quirks.named_choice:
        own, choice = _only(str(request.tool_choice), own, notes), target.quirks.required_choice
    parallel = request.parallel_tool_calls
    if parallel is not None and not target.quirks.parallel_tool_calls:
        notes.add("dropped", "parallel_tool_calls", "it has no such switch")
        parallel = None
    tools = [_tool(tool, target, notes) for tool in own] or None
    choice = choice if tools else None
    return without_none({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel})


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
    return target.quirks.required_choice if choice == "required" else {"type": "function", "name": choice}


def _only(name: str, tools: list[Tool | Opaque], notes: Notes) -> list[Tool | Opaque]:
    named: list[Tool | Opaque] = [tool for tool in tools if isinstance(tool, Tool) and tool.name == name]
    if not named:
        raise InvalidRequest(f"tool_choice: no tool is called {name!r}")
    notes.add("changed", "tool_choice", "it cannot name a tool, so it is given that one alone")
    return named


def _tool(tool: Tool | Opaque, target: Target, notes: Notes) -> JsonObject:
    """A tool without a strict flag that the target does not know, or that its parameters do not satisfy."""
    if isinstance(tool, Tool) and tool.strict and not _may_be_strict(tool, target):
        notes.add("dropped", f"strict of {tool.name}", _why_not_strict(target))
        tool = msgspec.structs.replace(tool, strict=None)
    data = encode_tool(tool)
    return data if target.quirks.strict else {key: value for key, value in data.items() if key != "strict"}


def _may_be_strict(tool: Tool, target: Target) -> bool:
    own = wire_extra(tool.extra, NAME)
    told = own.get("strict") is True or "function" in own
    return target.quirks.strict and (told or tool.parameters is None or is_strict(tool.parameters))


def _why_not_strict(target: Target) -> str:
    return "the schema does not satisfy the strict rules" if target.quirks.strict else "it has no such flag"


def _text(request: Request, target: Target, notes: Notes) -> JsonObject:
    schema, strict = request.schema, request.schema_strict
    if schema is None or (target.quirks.json_schema and "format" in _given_text(request)):
        return {}
    if not schema or not target.quirks.json_schema:
        return {"format": {"type": "json_object"}}
    if not target.quirks.strict or (strict and not is_strict(schema)):
        if strict:
            notes.add("dropped", "schema_strict", _why_not_strict(target))
        strict = None
    name = re.sub(_NOT_IN_NAMES, "_", request.schema_name)[:64] or "response"
    if name != request.schema_name:
        notes.add("renamed", "schema_name", f"a name is made of letters, digits, _ and -, so it is {name}")
    form = without_none({"type": "json_schema", "name": name, "schema": schema, "strict": strict})
    return {"format": form}


def _given_text(request: Request) -> JsonObject:
    """What a client's own `text` says beside our words; a format in it says more than they do."""
    return wire_extra(wire_extra(request.extra, NAME), "text")


def _options(request: Request, target: Target, notes: Notes) -> JsonObject:
    quirks = target.quirks
    told: tuple[tuple[str, Any, str | None], ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, None),
        ("seed", request.seed, None),
        ("stop", request.stop or None, None),
        ("max_tokens", _max_tokens(request, target, notes), "max_output_tokens"),
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
    if told is None:
        return None
    fitted = max(told if most is None else min(told, most), MIN_OUTPUT)
    if fitted != told:
        notes.add("changed", "max_tokens", f"{told} is not what it can, so it is {fitted}")
    return fitted


def _reasoning(request: Request, target: Target, notes: Notes) -> JsonObject:
    reasoning = request.reasoning
    wanted = reasoning not in (None, "none", 0)
    if not target.limits.thinking:
        if wanted:
            notes.add("dropped", "reasoning", "the model does not think")
        return {}
    if request.tools and not target.quirks.reasoning_with_tools:
        if wanted:
            notes.add("changed", "reasoning", "a model that has tools may not think, so it does not")
        reasoning = "none"
    return {} if reasoning is None else {"effort": as_effort(reasoning, target, notes)}
