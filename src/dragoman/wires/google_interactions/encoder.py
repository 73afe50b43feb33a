"""Encodes a request as a call of Google's Interactions API.

Fields that the caller put into `extra` win over fields made from the request; inside `generation_config` they are
merged member by member. The whole conversation is sent, so nothing is stored at Google unless the caller sets `store`.
"""

from dragoman.http import HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import object_of, without_none
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    OptionField,
    encode_options,
    encode_rare_options,
    encode_seed,
    encode_stop,
    encode_tier,
    max_tokens,
    requested_reasoning,
    supported_tools,
    target_of_options,
    to_effort,
    tool_choice,
)
from dragoman.wires.google_interactions.hosted_tools import encode_hosted_tool
from dragoman.wires.google_interactions.messages import encode_messages
from dragoman.wires.google_interactions.parts import encode_tool
from dragoman.wires.google_interactions.schema import (
    FIELDS_THAT_NEED_STORE,
    LEVELS,
    MAX_STOPS,
    NAME,
    REVISION,
    SCHEMA_DIALECT,
    SERVICE_TIERS,
    TOOL_CHOICE_TO_WIRE,
)

_OPTION_NAMES = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
"""Options of a Request by their field in generation_config."""


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target, with a notice for everything that it drops or changes."""
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notices)
    own = extra.pop("generation_config", None)
    extra_config: JsonObject = object_of(own)
    system, steps = encode_messages(request, target, notices)
    check_prompt(request, steps, target)
    tools = supported_tools(request, notices, encode_hosted_tool, target)
    rare = encode_rare_options(request, target, {"service_tier": "service_tier"}, extra, notices)
    tier = encode_tier(rare["service_tier"], SERVICE_TIERS, notices) if "service_tier" in rare else None
    config = {
        **_encode_options(request, target, extra_config, notices),
        **_encode_reasoning(request, target, extra_config, notices),
        **_encode_tool_choice(request, target, tools, extra_config, notices),
        **extra_config,
    }
    format = None
    if request.schema is not None and tools and not target.quirks.schema_with_tools:
        notices.add("changed", "schema", "not supported together with tools; requested in the system prompt")
        system.append(json_instruction(request.schema))
    elif request.schema is not None and "response_format" not in extra:
        format = _encode_format(request.schema, notices)
    body: JsonObject = {
        "model": None if "agent" in extra else target.model,
        "system_instruction": "\n\n".join(system) or None,
        "tools": [encode_tool(tool, notices) for tool in tools] or None,
        "generation_config": config or None,
        "response_format": format,
        "service_tier": tier,
        "store": None if any(extra.get(field) for field in FIELDS_THAT_NEED_STORE) else False,
        "stream": True if request.stream else None,
        "input": steps or None,
    }
    return post_request(target, "/interactions", {**without_none(body), **extra}, notices, **{"api-revision": REVISION})


def _encode_options(request: Request, target: Target, extra_config: JsonObject, notices: NoticeCollector) -> JsonObject:
    quirks = target_of_options(request, target).quirks
    options: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, None),
        ("max_tokens", max_tokens(request, target, notices), "max_output_tokens"),
        ("stop", encode_stop(request, notices, MAX_STOPS), "stop_sequences" if quirks.stop else None),
        ("seed", encode_seed(request, notices), "seed" if quirks.seed_field else None),
        ("user", request.user, None),
        ("metadata", request.metadata or None, None),
    )
    known = {_OPTION_NAMES.get(field, field): value for field, value in extra_config.items()}
    return encode_options(options, known, notices)


def _encode_reasoning(
    request: Request, target: Target, extra_config: JsonObject, notices: NoticeCollector
) -> JsonObject:
    """The level, with summaries of the thoughts; the API has no number of tokens."""
    reasoning = None if "thinking_level" in extra_config else requested_reasoning(request, target, notices)
    if reasoning is None:
        return {}
    effort = to_effort(reasoning, target, notices)
    level = LEVELS[effort]
    if level != effort:
        notices.add("changed", "reasoning", f"{effort!r} is not supported; sent as {level!r}")
    summaries = {} if reasoning in ("none", 0) else {"thinking_summaries": "auto"}
    return {"thinking_level": level, **summaries}


def _encode_tool_choice(
    request: Request, target: Target, tools: list[Tool | Opaque], extra_config: JsonObject, notices: NoticeCollector
) -> JsonObject:
    if request.parallel_tool_calls is False:
        notices.add("dropped", "parallel_tool_calls", "not supported")
    if "tool_choice" in extra_config:
        return {}
    choice = tool_choice(request, target, tools, notices)
    if choice is None or not tools:
        return {}
    word = TOOL_CHOICE_TO_WIRE.get(choice)
    return {"tool_choice": word or {"allowed_tools": {"mode": "any", "tools": [choice]}}}


def _encode_format(schema: JsonObject, notices: NoticeCollector) -> JsonObject:
    adapted: JsonObject = {}
    if schema:
        adapted, schema_notices = adapt(schema, SCHEMA_DIALECT, where="schema")
        notices.extend(*schema_notices)
    return {"type": "text", "mime_type": "application/json", **({"schema": adapted} if adapted else {})}
