"""Encodes a request as a call of Anthropic's Messages API.

Reasoning is decided first, because it sets `max_tokens` and limits sampling options and the tool choice. The values
follow, then the body. Fields that the caller put into `extra` win over fields made from the request.
"""

import re

import msgspec

from dragoman.http import HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.targets.target import Target
from dragoman.types import (
    Effort,
    JsonObject,
    McpServer,
    Message,
    Request,
    Text,
    ToolResult,
    is_list,
    is_object,
)
from dragoman.wires.anthropic.client_tools import COVERED
from dragoman.wires.anthropic.hosted_tools import MCP_BETA, encode_hosted_tool, encode_mcp_server
from dragoman.wires.anthropic.messages import (
    continues_without_thinking,
    encode_messages,
    encode_system,
    prepare_history,
)
from dragoman.wires.anthropic.parts import encode_result, encode_tool
from dragoman.wires.anthropic.plain import encode_plain
from dragoman.wires.anthropic.schema import (
    BETA,
    DEFAULT_MAX_TOKENS,
    EFFORT_TO_WIRE,
    EPHEMERAL,
    MIN_BUDGET,
    NAME,
    SCHEMA_DIALECT,
    SERVICE_TIERS,
    TOOL_CHOICE_TO_WIRE,
    VERSION,
    WITHOUT_SAMPLING,
)
from dragoman.wires.common.caching import block_ttl
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.hosted_tools import hosted_tools_of
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import object_of, without_none
from dragoman.wires.common.json_prompt import json_instruction
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    encode_options,
    encode_rare_options,
    encode_tier,
    max_tokens,
    parallel_tool_calls,
    requested_reasoning,
    strict_if_supported,
    supported_tools,
    to_budget,
    to_effort,
    tool_choice,
)

PATH = "/messages"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
_REASONING_KEYS = ("type", "budget_tokens", "effort")
_MERGED_FIELDS = ("thinking", "output_config", "metadata")
"""Objects whose members come from the request and from `extra`."""


def version_header(target: Target, /) -> dict[str, str]:
    """The header with the version of the API; a cloud that has the version in the body gets none."""
    if target.hosting is not None and "anthropic_version" in target.hosting.fields:
        return {}
    return {"anthropic-version": target.quirks.api_version or VERSION}


def encode_plain_request(request: Request, target: Target) -> HttpRequest | None:
    """The HTTP request if it is only text, with few options; else None."""
    body = encode_plain(request, target)
    return None if body is None else post_request(target, PATH, body, None, **version_header(target))


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target, with a notice for everything that it drops or changes."""
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = dict(body_extra(request, target, notices))
    system, turns = prepare_history(request, target, notices)
    limit = max_tokens(request, target, notices)
    if limit is None:
        limit = target.capabilities.max_output or DEFAULT_MAX_TOKENS
    if _is_reasoning_verbatim(request, target, extra):
        reasoning = _Reasoning(max_tokens=limit)
    else:
        extra = _without_reasoning(extra, target)
        reasoning = _encode_reasoning(request, target, turns, limit, notices)
    thinking = {**reasoning.thinking, **object_of(extra.get("thinking"))}
    is_thinking = thinking.get("type") in ("enabled", "adaptive")
    betas = _names_of_betas(extra.pop("betas", []))
    if request.tools and _needs_mcp_beta(request, target):
        betas.append(MCP_BETA)
    if "block_binding" in reasoning.thinking:
        betas.append(BINDING_BETA)
    betas = _valid_betas(betas, notices)
    output_format = _encode_format(request, target, notices)
    if request.schema is not None and not output_format:
        system = [*system, Text(text=json_instruction(request.schema))]
    messages = encode_messages(turns, notices)
    check_prompt(request, messages, target)
    merged = {
        "thinking": thinking if "type" in thinking else {},
        "output_config": {**reasoning.output_config, **output_format, **object_of(extra.get("output_config"))},
        "metadata": {**without_none({"user_id": request.user}), **object_of(extra.get("metadata"))},
    }
    body: JsonObject = {
        "model": target.model,
        "max_tokens": reasoning.max_tokens,
        **({"system": encode_system(system)} if system else {}),
        "messages": messages,
        **_encode_tools(request, target, notices, is_thinking=is_thinking),
        **_encode_sampling(request, target, extra, notices, is_thinking=is_thinking),
        **_encode_other_options(request, target, extra, notices),
        **{field: value for field, value in merged.items() if value},
        **{field: value for field, value in extra.items() if field not in _MERGED_FIELDS or not is_object(value)},
    }
    headers = version_header(target)
    if betas and target.hosting is not None and target.hosting.betas_in_body:
        body["anthropic_beta"] = betas
    elif betas:
        headers["anthropic-beta"] = ",".join(betas)
    return post_request(target, PATH, body, notices, **headers)


def encode_tool_result(result: ToolResult) -> JsonObject:
    """The user message with the result of one call."""
    return {"role": "user", "content": [encode_result(result, NoticeCollector(NAME))]}


def _names_of_betas(betas: object) -> list[str]:
    """The beta features that a caller put into `extra`, as in Anthropic's SDK: a list, or a text with commas."""
    return [str(name) for name in betas] if is_list(betas) else str(betas).split(",")


def _needs_mcp_beta(request: Request, target: Target) -> bool:
    """Whether MCP servers of a request need their beta feature; clients of this API name it themselves."""
    servers = hosted_tools_of(request, McpServer, target)
    is_named = any(COVERED in server.extra for server in servers)
    return bool(servers) and not is_named


def _valid_betas(names: list[str], notices: NoticeCollector) -> list[str]:
    valid = [name for name in names if re.fullmatch(BETA, name)]
    if len(valid) < len(names):
        notices.add("dropped", "betas", "one of the names is not valid")
    return valid


# Reasoning ------------------------------------------------------------------------------------------------------------


class _Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    max_tokens: int
    thinking: JsonObject = {}
    output_config: JsonObject = {}


def _is_reasoning_verbatim(request: Request, target: Target, extra: JsonObject) -> bool:
    """Whether the caller set reasoning in the API's own fields, and the target knows them."""
    is_set = "type" in object_of(extra.get("thinking")) or "effort" in object_of(extra.get("output_config"))
    return is_set and (request.reasoning is None or target.quirks.reasoning != "budget")


def _without_reasoning(extra: JsonObject, target: Target) -> JsonObject:
    """`extra` without the members that are made from the request. Opus 4.5 takes an effort besides a budget."""
    from_request = _REASONING_KEYS if target.quirks.efforts is None else ("type", "budget_tokens")
    cleaned = {
        field: {key: value for key, value in inner.items() if key not in from_request}
        for field in ("thinking", "output_config")
        if (inner := object_of(extra.get(field)))
    }
    return {**extra, **cleaned}


def _encode_reasoning(
    request: Request, target: Target, turns: list[Message], limit: int, notices: NoticeCollector
) -> _Reasoning:
    reasoning = requested_reasoning(request, target, notices)
    if reasoning is None:
        binding = _block_binding(target) if request.tools else {}
        return _Reasoning(max_tokens=limit, thinking={"type": "adaptive", **binding} if binding else {})
    if target.quirks.reasoning == "adaptive":
        # A budget of 0 turns thinking off, as "none" does.
        return _encode_adaptive("none" if reasoning == 0 else reasoning, target, limit, notices)
    requested = to_budget(reasoning)
    if not requested:
        return _Reasoning(max_tokens=limit, thinking={"type": "disabled"})
    if continues_without_thinking(turns):
        # 400: a final assistant message must start with a thinking block (seen 2025-12).
        notices.add("dropped", "reasoning", "it cannot start in the middle of a tool loop")
        return _Reasoning(max_tokens=limit)
    budget = max(requested, MIN_BUDGET)
    if budget != requested:
        notices.add("changed", "reasoning", f"a budget must be at least {MIN_BUDGET} tokens")
    budget, limit = _fit_budget(budget, limit, request, target, notices)
    return _Reasoning(max_tokens=limit, thinking={"type": "enabled", "budget_tokens": budget})


def _encode_adaptive(reasoning: Effort | int, target: Target, limit: int, notices: NoticeCollector) -> _Reasoning:
    effort = to_effort(reasoning, target, notices)
    if effort == "none":
        return _Reasoning(max_tokens=limit, thinking={"type": "disabled"})
    value = EFFORT_TO_WIRE[effort]
    if value != effort:
        notices.add("changed", "reasoning", f"{effort!r} is not supported; sent as {value!r}")
    thinking = {"type": "adaptive", **({"display": "summarized"} if target.quirks.hidden_thinking else {})}
    thinking |= _block_binding(target)
    return _Reasoning(max_tokens=limit, thinking=thinking, output_config={"effort": value})


def _block_binding(target: Target) -> JsonObject:
    """Let the provider leave out thinking if the conversation before it has changed; otherwise it is a 400 (2026-11).

    Tools come and go in an agent, and clients shorten old results.
    """
    return {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if target.quirks.bound_thinking else {}


def _fit_budget(budget: int, limit: int, request: Request, target: Target, notices: NoticeCollector) -> tuple[int, int]:
    """Make the thinking budget smaller than max_tokens, by lowering the budget or raising max_tokens. Returns both."""
    if budget < limit:
        return budget, limit
    if request.max_tokens is None and target.capabilities.max_output is None:
        return budget, budget + DEFAULT_MAX_TOKENS
    if limit <= MIN_BUDGET:
        raised = max(limit, 1) + MIN_BUDGET
        notices.add("changed", "max_tokens", f"it includes the thinking budget; raised from {limit} to {raised}")
        return MIN_BUDGET, raised
    lowered = max(MIN_BUDGET, limit - limit // 4)
    notices.add("changed", "reasoning", f"a budget must be below max_tokens; lowered from {budget} to {lowered}")
    return lowered, limit


# Other options --------------------------------------------------------------------------------------------------------


def _encode_tools(request: Request, target: Target, notices: NoticeCollector, *, is_thinking: bool) -> JsonObject:
    tools = supported_tools(request, notices, encode_hosted_tool, target)
    choice = tool_choice(request, target, tools, notices)
    if not tools:
        return {}
    tools = strict_if_supported(tools, target, notices)
    servers = [encode_mcp_server(server) for server in hosted_tools_of(request, McpServer, target)]
    return {
        **({"mcp_servers": servers} if servers else {}),
        "tools": [encode_tool(tool, notices) for tool in tools],
        **_encode_tool_choice(choice, request, target, notices, is_thinking=is_thinking),
    }


def _encode_tool_choice(
    choice: str | None, request: Request, target: Target, notices: NoticeCollector, *, is_thinking: bool
) -> JsonObject:
    parallel = parallel_tool_calls(request, target, notices)
    if choice is None and parallel is None:
        return {}
    kind = TOOL_CHOICE_TO_WIRE.get(choice or "auto", "tool")
    if kind in ("any", "tool") and is_thinking:
        notices.add("changed", "tool_choice", "a call cannot be forced together with thinking; sent as auto")
        kind = "auto"
    encoded: JsonObject = {"type": kind, **({"name": choice} if kind == "tool" else {})}
    if parallel is not None and kind != "none":
        encoded["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": encoded}


def _encode_format(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    """The `format` for the schema; {} if the target cannot enforce it."""
    if request.schema is None:
        return {}
    if request.schema and target.quirks.json_schema and target.capabilities.structured:
        schema, schema_notices = adapt(request.schema, SCHEMA_DIALECT, where="schema")
        notices.extend(*schema_notices)
        return {"format": {"type": "json_schema", "schema": schema}}
    notices.add("changed", "schema", "it cannot be enforced; requested in the system prompt")
    return {}


def _encode_sampling(
    request: Request, target: Target, extra: JsonObject, notices: NoticeCollector, *, is_thinking: bool
) -> JsonObject:
    quirks = target.quirks
    is_supported = quirks.sampling and quirks.api_version not in WITHOUT_SAMPLING
    options = (("temperature", request.temperature), ("top_p", request.top_p), ("top_k", request.top_k))
    fields = [(name, value, name if is_supported else None) for name, value in options if name not in extra]
    body = encode_options(fields, extra, notices)
    if is_thinking:
        for name in [name for name, value in body.items() if not _is_allowed_with_thinking(name, value)]:
            notices.add("dropped", name, "not supported together with thinking")
            del body[name]
    if quirks.temperature_excludes_top_p and "temperature" in body and body.pop("top_p", None) is not None:
        notices.add("dropped", "top_p", "not supported together with temperature")
    if body.get("temperature", 0) > 1:
        notices.add("changed", "temperature", "it must be at most 1")
        body["temperature"] = 1.0
    return body


def _is_allowed_with_thinking(name: str, value: float) -> bool:
    return (name == "temperature" and value == 1) or (name == "top_p" and value >= 0.95)


def _encode_other_options(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    body = encode_rare_options(request, target, {"service_tier": "service_tier"}, extra, notices)
    if (tier := body.pop("service_tier", None)) is not None and (word := encode_tier(tier, SERVICE_TIERS, notices)):
        body["service_tier"] = word
    stop = [text for text in request.stop if text.strip()] if target.quirks.stop else []
    if stop:
        body["stop_sequences"] = stop
    if len(stop) < len(request.stop):
        why = "a stop sequence of white space is not supported" if target.quirks.stop else "not supported"
        notices.add("dropped", "stop", why)
    if request.seed is not None:
        notices.add("dropped", "seed", "not supported")
    for field in request.metadata:
        notices.add("dropped", f"metadata: {field}", "only the user's id is supported")
    if request.cache:
        body["cache_control"] = {**EPHEMERAL, **block_ttl(request.cache_ttl, notices)}
    if request.stream:
        body["stream"] = True
    return body
