"""Encodes requests to Chat Completions servers.

Servers differ in the names of fields and in what they accept; `Target.quirks` says how. A field that the caller puts
into `extra` wins over the encoder's own field for the same thing, whatever name it has (`SAME_CONCEPT`).
"""

import msgspec

from dragoman.http import HttpRequest
from dragoman.schema.strict import is_strict
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wires.common.extra import body_extra, wire_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import object_of, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    STANDARD_TIERS,
    OptionField,
    encode_options,
    encode_rare_options,
    fit_user,
    max_tokens,
    parallel_tool_calls,
    requested_reasoning,
    schema_name,
    schema_strict,
    target_of_options,
    to_effort,
    tools_and_choice,
    why_not_strict,
)
from dragoman.wires.openai_chat.custom_tools import as_functions, custom_names
from dragoman.wires.openai_chat.hosted_tools import hosted_encoder, search_options
from dragoman.wires.openai_chat.messages import encode_messages
from dragoman.wires.openai_chat.parts import encode_tool
from dragoman.wires.openai_chat.plain import encode_plain
from dragoman.wires.openai_chat.schema import CUSTOM, NAME, OWN_TIERS, RARE_FIELDS, REASONING_OPTIONS, SAME_CONCEPT

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


PATH = "/chat/completions"


def encode_plain_request(request: Request, target: Target) -> HttpRequest | None:
    """The HTTP request if it is only text, with few options; else None."""
    body = encode_plain(request, target)
    return None if body is None else post_request(target, PATH, body, None)


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for this target."""
    if not target.quirks.client_tools and request.tools:
        request = as_functions(request)
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notices)
    stream_options = extra.pop("stream_options", None)
    if request.schema is not None and not target.quirks.json_schema:
        extra.pop("response_format", None)
    messages = encode_messages(request, target, notices)
    check_prompt(request, messages, target)
    body: JsonObject = {
        "model": target.model,
        "messages": messages,
        **_encode_tools(request, target, notices),
        **_encode_options(request, target, extra, notices),
        **_encode_schema(request, target, extra, notices),
        **_encode_reasoning(request, target, extra, notices),
    }
    for field, others in SAME_CONCEPT.items() if extra else ():
        if any(other in extra for other in others):
            body.pop(field, None)
    return post_request(target, PATH, {**body, **encode_stream(request, target, stream_options), **extra}, notices)


def encode_tools(tools: list[Tool | Opaque], _: NoticeCollector) -> list[JsonObject]:
    """Tool definitions as they stand in a request."""
    return [encode_tool(tool) for tool in tools]


def _encode_tools(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    if not request.tools and request.tool_choice is None:
        return {}
    customs = custom_names(request.tools)
    tools, choice = tools_and_choice(
        request, target, notices, lambda name: _named_choice(name, customs), hosted_encoder(target)
    )
    options = search_options(request.tools, target)
    if not tools:
        return options
    parallel = parallel_tool_calls(request, target, notices)
    return {
        **options,
        "tools": [encode_tool(_with_valid_strict(tool, target, notices)) for tool in tools],
        **without_none({"tool_choice": choice, "parallel_tool_calls": parallel}),
    }


def _named_choice(name: str, customs: frozenset[str]) -> JsonObject:
    kind = CUSTOM if name in customs else "function"
    return {"type": kind, kind: {"name": name}}


def _with_valid_strict(tool: Tool | Opaque, target: Target, notices: NoticeCollector) -> Tool | Opaque:
    """The tool without `strict` if the target does not know it or the parameters do not satisfy it."""
    if isinstance(tool, Opaque) or tool.strict is None:
        return tool
    extra = wire_extra(tool.extra, NAME)
    function = dict(extra.get("function", {}))
    verbatim = function.pop("strict", None)
    if target.quirks.strict and (verbatim or not tool.strict or is_strict(tool.parameters or _NO_PARAMETERS)):
        return tool
    if tool.strict:
        notices.add("dropped", f"strict of {tool.name}", why_not_strict(target))
    return msgspec.structs.replace(tool, strict=None, extra={NAME: {**extra, "function": function}})


def _encode_options(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    target = target_of_options(request, target)
    quirks = target.quirks
    options: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, "top_k" if quirks.top_k and quirks.sampling else None),
        ("seed", request.seed, quirks.seed_field),
        ("stop", list(request.stop) or None, "stop" if quirks.stop else None),
        ("max_tokens", max_tokens(request, target, notices), quirks.max_tokens_field or "max_completion_tokens"),
        ("user", fit_user(request, notices) if quirks.user_field else request.user, quirks.user_field),
        ("metadata", request.metadata or None, "metadata" if quirks.metadata else None),
    )
    body = encode_options(options, extra, notices)
    body.update(encode_rare_options(request, target, RARE_FIELDS, extra, notices))
    if body.get("service_tier") in STANDARD_TIERS - OWN_TIERS:
        body["service_tier"] = "default"
    return body


def _encode_schema(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    schema = request.schema
    if schema is None or "response_format" in extra:
        return {}
    if not schema or not target.quirks.json_schema:
        return {"response_format": {"type": "json_object"}}
    strict = schema_strict(request, schema, target, notices)
    json_schema = without_none({"name": schema_name(request, notices), "schema": schema, "strict": strict})
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _encode_reasoning(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    if not extra.keys().isdisjoint(REASONING_OPTIONS):
        return {}
    reasoning = requested_reasoning(request, target, notices)
    if reasoning is None:
        return {}
    if target.quirks.reasoning == "object" and isinstance(reasoning, int):
        return {"reasoning": {"max_tokens": reasoning}}
    effort = to_effort(reasoning, target, notices)
    match target.quirks.reasoning:
        case "object":
            return {"reasoning": {"effort": effort}}
        case "switch":
            return _encode_switch(effort, target, notices)
        case _:
            return {"reasoning_effort": effort}


def _encode_switch(effort: str, target: Target, notices: NoticeCollector) -> JsonObject:
    """On or off, and the effort if the target is known to support one."""
    thinking = {"type": "disabled" if effort == "none" else "enabled"}
    if target.quirks.efforts is not None and effort != "none":
        return {"thinking": thinking, "reasoning_effort": effort}
    if effort not in ("none", "medium"):
        notices.add("changed", "reasoning", f"{effort!r} became on: only on and off are supported")
    return {"thinking": thinking}


def encode_stream(request: Request, target: Target, stream_options: object) -> JsonObject:
    """The fields of a request that asks for a stream."""
    if not request.stream:
        return {}
    if not target.quirks.stream_usage:
        return {"stream": True}
    options = object_of(stream_options)
    return {"stream": True, "stream_options": {**options, "include_usage": True}}
