"""Encodes a request as a call of another gateway."""

from collections.abc import Iterable

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Message, Opaque, Request, Tool
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import repair
from dragoman.wires.common.http import post_request
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    OptionField,
    encode_options,
    encode_rare_options,
    encode_stop,
    max_tokens,
    requested_reasoning,
    supported_tools,
    tool_choice,
)
from dragoman.wires.native.parts import encode_assistant, encode_hosted_tool, encode_message, encode_result, encode_tool
from dragoman.wires.native.schema import MAX_STOPS, NAME


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target, with a notice for everything that it drops or changes."""
    notices = NoticeCollector(NAME, strict=request.strict, carries_all=True)
    extra = body_extra(request, target, notices)
    body: JsonObject = {
        "model": target.model,
        "messages": _encode_messages(request, notices),
        **_encode_tools(request, target, notices),
        **_encode_schema(request, notices),
        **encode_options(_options(request, target, notices), extra, notices),
        **encode_rare_options(request, target, {}, extra, notices),
        **({"stream": True} if request.stream else {}),
    }
    return post_request(target, "/chat/completions", {**body, **extra}, notices)


def encode_tools(tools: list[Tool | Opaque], notices: NoticeCollector) -> list[JsonObject]:
    """The definitions of some tools."""
    for tool in tools:
        if isinstance(tool, Tool) and not (tool.description or "").strip():
            notices.add("repaired", f"description of {tool.name}", "a description is required; the name is sent")
    return [encode_tool(tool) for tool in tools]


def _encode_messages(request: Request, notices: NoticeCollector) -> list[JsonObject]:
    history = repair(request, notices, system_turns=True)
    system = [encode_message("system", history.system, {})] if history.system else []
    return [*system, *(message for turn in history.turns for message in _encode_turn(turn))]


def _encode_turn(turn: Message) -> Iterable[JsonObject]:
    match turn.role:
        case "tool":
            return [encode_result(result) for result in turn.tool_results]
        case "assistant":
            return [encode_assistant(turn.parts, turn.extra)]
        case _:
            return [encode_message(turn.role, turn.parts, turn.extra)]


def _encode_tools(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    tools = supported_tools(request, notices, encode_hosted_tool, target)
    if request.parallel_tool_calls is not None:
        notices.add("dropped", "parallel_tool_calls", "not supported")
    choice = tool_choice(request, target, tools, notices)
    body: JsonObject = {"tools": encode_tools(tools, notices)} if tools else {}
    if choice in (None, "auto", "none", "required"):
        return {**body, **({"tool_choice": choice} if choice else {})}
    return {**body, "tool_choice": {"type": "function", "function": {"name": choice}}}


def _encode_schema(request: Request, notices: NoticeCollector) -> JsonObject:
    if request.schema is None:
        return {}
    if request.schema_strict:
        notices.add("dropped", "schema_strict", "not supported")
    name = {} if request.schema_name == "response" else {"schema_name": request.schema_name}
    return {"schema": request.schema, **name}


def _options(request: Request, target: Target, notices: NoticeCollector) -> tuple[OptionField, ...]:
    return (
        ("temperature", request.temperature, "temperature"),
        ("top_p", request.top_p, "top_p"),
        ("max_tokens", max_tokens(request, target, notices), "max_tokens"),
        ("stop", encode_stop(request, notices, MAX_STOPS), "stop"),
        ("reasoning", requested_reasoning(request, target, notices), "reasoning"),
        ("top_k", request.top_k, None),
        ("seed", request.seed, None),
        ("user", request.user or None, None),
        ("metadata", request.metadata or None, None),
        ("cache", request.cache, "cache"),
        ("cache_ttl", request.cache_ttl, "cache_ttl"),
    )
