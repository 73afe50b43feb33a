"""Encodes a request as a call of Bedrock's Converse or ConverseStream.

The model, an inference profile or an ARN, is a segment of the path. Fields that the caller put into `extra` win over
fields made from the request; objects are merged.
"""

from urllib.parse import quote

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Message, Request, Tool, ToolCall, ToolResult, is_object
from dragoman.wires.bedrock.hosted_tools import encode_hosted_tool
from dragoman.wires.bedrock.messages import encode_messages, separate_points
from dragoman.wires.bedrock.parts import encode_result, encode_tool
from dragoman.wires.bedrock.schema import (
    CACHE_POINT,
    DEFAULT_MAX_TOKENS,
    EFFORT_TO_WIRE,
    MIN_BUDGET,
    MODEL_FIELDS,
    NAME,
    SERVICE_TIERS,
)
from dragoman.wires.common.caching import block_ttl
from dragoman.wires.common.event_stream import CONTENT_TYPE
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    encode_options,
    encode_rare_options,
    encode_tier,
    max_tokens,
    requested_reasoning,
    schema_name,
    strict_if_supported,
    supported_tools,
    to_budget,
    to_effort,
    tool_choice,
)


def encode_request(request: Request, target: Target, /) -> HttpRequest:
    """The HTTP request for a target."""
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notices)
    system, messages, turns = encode_messages(request, target, notices)
    check_prompt(request, messages, target)
    if request.cache and messages:
        ttl = block_ttl(request.cache_ttl, notices)
        messages[-1]["content"].append({"cachePoint": {**CACHE_POINT["cachePoint"], **ttl}})
    separate_points(messages)
    limit, model_fields = _encode_reasoning(request, target, extra, notices)
    body: JsonObject = {"messages": messages}
    for field, value in (
        ("system", system),
        ("inferenceConfig", _encode_inference(request, target, extra, limit, model_fields, notices)),
        ("toolConfig", _encode_tool_config(request, target, turns, extra, model_fields, notices)),
        ("outputConfig", _encode_format(request, target, notices)),
        ("additionalModelRequestFields", model_fields),
        ("requestMetadata", _encode_metadata(request, target, notices)),
    ):
        own = extra.pop(field, None)
        merged = {**value, **own} if is_object(value) and is_object(own) else own or value
        if merged:
            body[field] = merged
    _note_unsupported(request, notices)
    body.update(_encode_tier(request, target, extra, notices))
    method = "converse-stream" if request.stream else "converse"
    headers = {"accept": CONTENT_TYPE} if request.stream else {}
    path = f"/model/{quote(target.model, safe='')}/{method}"
    body |= extra
    if target.hosting is not None:  # InvokeModel with a body of Nova
        body = {**to_native(body), "stream": request.stream}
    return post_request(target, path, body, notices, **headers)


def to_native(body: JsonObject, /) -> JsonObject:
    """The body of a call of Converse in Nova's form.

    >>> to_native({"inferenceConfig": {"maxTokens": 5}, "additionalModelRequestFields": {"reasoningConfig": {}}})
    {'inferenceConfig': {'maxTokens': 5}, 'reasoningConfig': {}}
    """
    native = {name: value for name, value in body.items() if name != MODEL_FIELDS}
    fields = body.get(MODEL_FIELDS)
    for name, value in fields.items() if is_object(fields) else ():
        old = native.get(name)
        native[name] = {**old, **value} if is_object(old) and is_object(value) else value
    return native


def encode_tool_result(result: ToolResult, /) -> JsonObject:
    """The user message with the result of one call."""
    return {"role": "user", "content": [encode_result(result, NoticeCollector(NAME))]}


# Reasoning ------------------------------------------------------------------------------------------------------------


def _encode_reasoning(
    request: Request, target: Target, extra: JsonObject, notices: NoticeCollector
) -> tuple[int | None, JsonObject]:
    """`max_tokens`, and the fields of the model for reasoning; each family of models has its own."""
    limit = max_tokens(request, target, notices, least=1)
    own = extra.get("additionalModelRequestFields")
    reasoning = requested_reasoning(request, target, notices)
    if reasoning is None or (is_object(own) and own.keys() & _REASONING_FIELDS):
        return limit, {}
    match target.quirks.reasoning:
        case "budget":
            budget = to_budget(reasoning)
            if not budget:
                return limit, {}
            if budget < MIN_BUDGET:
                notices.add("changed", "reasoning", f"a budget must be at least {MIN_BUDGET} tokens")
                budget = MIN_BUDGET
            if limit is None or limit <= budget:
                if limit is not None:
                    notices.add("changed", "max_tokens", f"it includes the thinking budget; raised from {limit}")
                limit = budget + (limit or DEFAULT_MAX_TOKENS)
            return limit, {"thinking": {"type": "enabled", "budget_tokens": budget}}
        case "adaptive":
            effort = to_effort(reasoning or "none", target, notices)
            if effort == "none":
                return limit, {}
            level = "low" if effort == "minimal" else effort
            display = {"display": "summarized"} if target.quirks.hidden_thinking else {}
            return limit, {"thinking": {"type": "adaptive", **display}, "output_config": {"effort": level}}
        case "effort" | "object" as form:
            effort = to_effort(reasoning or "none", target, notices)
            if effort == "none":
                return limit, {}
            value = EFFORT_TO_WIRE[effort]
            if value != effort:
                notices.add("changed", "reasoning", f"{effort!r} is not supported; sent as {value!r}")
            if form == "effort":
                return limit, {"reasoning_effort": value}
            return limit, {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": value}}
        case _:
            if reasoning not in ("none", 0):
                why = "the form for this model is not known; set additionalModelRequestFields in extra"
                notices.add("dropped", "reasoning", why)
            return limit, {}


_REASONING_FIELDS = {"thinking", "output_config", "reasoningConfig", "reasoning_config", "reasoning_effort"}


# Other options --------------------------------------------------------------------------------------------------------


def _encode_inference(
    request: Request,
    target: Target,
    extra: JsonObject,
    limit: int | None,
    model_fields: JsonObject,
    notices: NoticeCollector,
) -> JsonObject:
    quirks = target.quirks
    sampling = quirks.sampling and not _is_thinking(model_fields)
    stop = [text for text in request.stop if text.strip()]
    if len(stop) < len(request.stop):
        notices.add("dropped", "stop", "a stop sequence of white space is not supported")
    options = (
        ("max_tokens", limit, "maxTokens"),
        ("temperature", request.temperature, "temperature" if sampling else None),
        ("top_p", request.top_p, "topP" if sampling else None),
        ("stop", stop or None, "stopSequences" if quirks.stop else None),
    )
    config = encode_options(options, extra, notices)
    if quirks.temperature_excludes_top_p and "temperature" in config and config.pop("topP", None) is not None:
        notices.add("dropped", "top_p", "not supported together with temperature")
    if request.top_k is not None:
        if quirks.top_k and sampling:
            model_fields |= (
                {"top_k": request.top_k} if target.hosting is None else {"inferenceConfig": {"topK": request.top_k}}
            )
        else:
            notices.add("dropped", "top_k", "not supported")
    return config


def _is_thinking(model_fields: JsonObject) -> bool:
    thinking = model_fields.get("thinking")
    return is_object(thinking) and thinking.get("type") in ("enabled", "adaptive")


def _encode_tool_config(
    request: Request,
    target: Target,
    turns: list[Message],
    extra: JsonObject,
    model_fields: JsonObject,
    notices: NoticeCollector,
) -> JsonObject:
    tools = supported_tools(request, notices, encode_hosted_tool, target)
    choice = tool_choice(request, target, tools, notices)
    if request.parallel_tool_calls is not None:
        notices.add("dropped", "parallel_tool_calls", "not supported")
    called = dict.fromkeys(part.name for turn in turns for part in turn.parts if isinstance(part, ToolCall))
    if not tools and called and "toolConfig" not in extra:
        # 400: toolConfig must be defined when using toolUse and toolResult blocks.
        notices.add("repaired", "tools", "the history has calls; added the names of their tools")
        tools += [Tool(name=name) for name in called]
        choice = "none"
    if not tools:
        return {}
    if choice == "none" and not called:
        notices.add("changed", "tool_choice", "'none' is not supported; the tools are left out")
        return {}
    tools = strict_if_supported(tools, target, notices)
    config: JsonObject = {"tools": [encode_tool(tool, notices) for tool in tools]}
    if choice == "none":
        if request.tool_choice == "none":
            notices.add("dropped", "tool_choice", "'none' is not supported if the history has calls")
        return config
    if choice not in (None, "auto") and _is_thinking(model_fields):
        notices.add("changed", "tool_choice", "a call cannot be forced together with thinking; sent as auto")
        choice = "auto"
    if choice is not None:
        config["toolChoice"] = (
            {"auto": {}} if choice == "auto" else {"any": {}} if choice == "required" else {"tool": {"name": choice}}
        )
    return config


def _encode_format(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    """The `outputConfig` for the schema; {} if the target cannot enforce it."""
    if request.schema is None:
        return {}
    if not request.schema or not target.quirks.json_schema or not target.capabilities.structured:
        notices.add("changed", "schema", "it cannot be enforced; requested in the system prompt")
        return {}
    schema = {"name": schema_name(request, notices), "schema": encode_json(request.schema).decode()}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _encode_metadata(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    if request.metadata and not target.quirks.metadata:
        notices.add("dropped", "metadata", "not supported")
        return {}
    return dict(request.metadata)


def _encode_tier(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    tier = encode_rare_options(request, target, {"service_tier": "serviceTier"}, extra, notices).get("serviceTier")
    word = None if tier is None else encode_tier(tier, SERVICE_TIERS, notices)
    return {"serviceTier": {"type": word}} if word else {}


def _note_unsupported(request: Request, notices: NoticeCollector) -> None:
    if request.seed is not None:
        notices.add("dropped", "seed", "not supported")
    if request.user is not None:
        notices.add("dropped", "user", "not supported")
