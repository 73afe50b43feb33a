"""A Request and its Target in, the bytes of a Chat Completions call out, with notices of what was bent on the way."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.schema.strict import is_strict
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_object
from dragoman.wires.common.extra import body_extra, wire_extra
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    OptionField,
    encode_options,
    max_tokens,
    only_tool,
    parallel_tool_calls,
    requested_reasoning,
    schema_name,
    supported_tools,
    to_effort,
    tool_choice,
    why_not_strict,
)
from dragoman.wires.openai_chat.messages import encode_messages
from dragoman.wires.openai_chat.parts import encode_tool
from dragoman.wires.openai_chat.schema import NAME, REASONING_OPTIONS, SAME_CONCEPT

_NOTHING: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    notes = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notes)
    options = extra.pop("stream_options", None)
    if request.schema is not None and not target.quirks.json_schema:
        extra.pop("response_format", None)
    body: JsonObject = {"model": target.model, "messages": encode_messages(request, target, notes)}
    if request.tools or request.tool_choice is not None:
        body |= _tools(request, target, notes)
    body |= _options(request, target, extra, notes)
    if request.schema is not None and "response_format" not in extra:
        body |= _schema(request, request.schema, target, notes)
    if extra.keys().isdisjoint(REASONING_OPTIONS):
        body |= _reasoning(request, target, notes)
    for field, others in SAME_CONCEPT.items() if extra else ():
        if any(other in extra for other in others):
            body.pop(field, None)
    if request.stream:
        body["stream"] = True
        if target.quirks.stream_usage:
            body["stream_options"] = {**(options if is_object(options) else {}), "include_usage": True}
    return post_request(target, "/chat/completions", body | extra, notes)


def encode_tools(tools: list[Tool | Opaque], _: NoticeCollector) -> list[JsonObject]:
    """The definitions of tools as they stand in a request."""
    return [encode_tool(tool) for tool in tools]


def _tools(request: Request, target: Target, notes: NoticeCollector) -> JsonObject:
    own = supported_tools(request, notes)
    choice: str | JsonObject | None = tool_choice(request, target, own, notes)
    if choice == "required":
        choice = target.quirks.required_choice
    elif choice not in (None, "auto", "none"):
        if target.quirks.named_choice:
            choice = {"type": "function", "function": {"name": choice}}
        else:
            own, choice = only_tool(str(choice), own, notes), target.quirks.required_choice
    if not own:
        return {}
    parallel = parallel_tool_calls(request, target, notes)
    return {
        "tools": [encode_tool(_without_strict(tool, target, notes)) for tool in own],
        **without_none({"tool_choice": choice, "parallel_tool_calls": parallel}),
    }


def _without_strict(tool: Tool | Opaque, target: Target, notes: NoticeCollector) -> Tool | Opaque:
    """The tool without a flag that the target does not know, or that its parameters do not satisfy."""
    if isinstance(tool, Opaque) or tool.strict is None:
        return tool
    extra = wire_extra(tool.extra, NAME)
    function = dict(extra.get("function", {}))
    verbatim = function.pop("strict", None)
    if target.quirks.strict and (verbatim or not tool.strict or is_strict(tool.parameters or _NOTHING)):
        return tool
    if tool.strict:
        notes.add("dropped", f"strict of {tool.name}", why_not_strict(target))
    return msgspec.structs.replace(tool, strict=None, extra={NAME: {**extra, "function": function}})


def _schema(request: Request, schema: JsonObject, target: Target, notes: NoticeCollector) -> JsonObject:
    strict = request.schema_strict
    if not schema or not target.quirks.json_schema:
        return {"response_format": {"type": "json_object"}}
    if not target.quirks.strict or (strict and not is_strict(schema)):
        if strict:
            notes.add("dropped", "schema_strict", why_not_strict(target))
        strict = None
    json_schema = without_none({"name": schema_name(request, notes), "schema": schema, "strict": strict})
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _options(request: Request, target: Target, extra: JsonObject, notes: NoticeCollector) -> JsonObject:
    quirks = target.quirks
    told: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, "top_k" if quirks.top_k else None),
        ("seed", request.seed, quirks.seed_field),
        ("stop", list(request.stop) or None, "stop" if quirks.stop else None),
        ("max_tokens", max_tokens(request, target, notes), quirks.max_tokens_field or "max_completion_tokens"),
        ("user", request.user, quirks.user_field),
        ("metadata", request.metadata or None, "metadata" if quirks.metadata else None),
    )
    return encode_options(told, extra, notes)


def _reasoning(request: Request, target: Target, notes: NoticeCollector) -> JsonObject:
    reasoning, quirks = requested_reasoning(request, target, notes), target.quirks
    if reasoning is None:
        return {}
    if quirks.reasoning == "object" and isinstance(reasoning, int):
        return {"reasoning": {"max_tokens": reasoning}}
    effort = to_effort(reasoning, target, notes)
    match quirks.reasoning:
        case "object":
            return {"reasoning": {"effort": effort}}
        case "switch":
            return _switch(effort, target, notes)
        case _:
            return {"reasoning_effort": effort}


def _switch(effort: str, target: Target, notes: NoticeCollector) -> JsonObject:
    """On or off; how hard beside it, where the target is known to take words for that."""
    thinking = {"type": "disabled" if effort == "none" else "enabled"}
    if target.quirks.efforts is not None and effort != "none":
        return {"thinking": thinking, "reasoning_effort": effort}
    if effort not in ("none", "medium"):
        notes.add("changed", "reasoning", f"it can only be on or off, so {effort!r} is on")
    return {"thinking": thinking}
