"""Encodes a request as a call of Google's generateContent.

Fields that the caller put into `extra` win over fields made from the request; inside `generationConfig` and
`toolConfig` they are merged member by member.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.http import HttpRequest
from dragoman.schema.adapt import adapt
from dragoman.targets.target import Target
from dragoman.types import Effort, ImageGeneration, JsonObject, Opaque, Request, Tool, ToolResult
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.hosted_tools import hosted_tools_of
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
    to_budget,
    to_effort,
    tool_choice,
)
from dragoman.wires.google.hosted_tools import encode_hosted_tool
from dragoman.wires.google.messages import encode_messages
from dragoman.wires.google.parts import encode_result, encode_tool
from dragoman.wires.google.schema import (
    ALT,
    ALTERNATIVE_FIELDS,
    LEVELS,
    MAX_BUDGET,
    MAX_STOPS,
    NAME,
    OPTION_NAMES,
    RARE_FIELDS,
    SCHEMA_DIALECT,
    SERVICE_TIERS,
    TOOL_CHOICE_TO_WIRE,
    camel,
)

_RESOURCE = "(models|tunedModels|endpoints|publishers|projects)/"
_CLOUD = r"(?P<version>.*?/v1(?:beta1)?)(?P<place>/projects/[^/]+/locations/[^/]+)?/publishers/google"
"""The path of a base URL of Vertex AI, with and without a project."""


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target, with a notice for everything that it drops or changes."""
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = camel(body_extra(request, target, notices))
    extra_config, extra_tool_config = _pop_object(extra, "generationConfig"), _pop_object(extra, "toolConfig")
    system, contents = encode_messages(request, target, notices)
    check_prompt(request, contents, target)
    tools = supported_tools(request, notices, encode_hosted_tool, target)
    rare = encode_rare_options(request, target, RARE_FIELDS, {}, notices)
    tier = encode_tier(rare.pop("serviceTier"), SERVICE_TIERS, notices) if "serviceTier" in rare else None
    config = {
        **rare,
        **_encode_options(request, target, extra_config, notices),
        **_encode_reasoning(request, target, extra_config, notices),
        **({"responseModalities": ["TEXT", "IMAGE"]} if hosted_tools_of(request, ImageGeneration, target) else {}),
    }
    if request.schema is not None and not target.quirks.schema_with_tools and _functions(request):
        notices.add("changed", "schema", "not supported together with functions; requested in the system prompt")
        system.append({"text": json_instruction(request.schema)})
    else:
        config |= _encode_schema(request, extra_config, notices)
    body: JsonObject = {
        "systemInstruction": {"parts": system} if system else None,
        "contents": contents,
        "tools": encode_tools(tools, notices) or None,
        "toolConfig": _encode_tool_config(request, target, extra_tool_config, notices) or None,
        "generationConfig": {**_without_alternatives(config, extra_config), **extra_config} or None,
        "serviceTier": tier,
    }
    target, resource = locate(target)
    return post_request(target, resource + _method(request), {**without_none(body), **extra}, notices)


def _method(request: Request) -> str:
    if not request.stream:
        return ":generateContent"
    return ":streamGenerateContent" + ("" if request.extra.get(ALT) == "json" else "?alt=sse")


def cloud_of(target: Target) -> re.Match[str] | None:
    """The parts of the path of the base URL if Vertex AI serves the target: `version` and `place`."""
    return re.fullmatch(_CLOUD, target.origin_and_prefix[1])


def locate(target: Target) -> tuple[Target, str]:
    """The path that contains the model, and the target whose base URL it starts from.

    A model is under `models/`, unless its name is a resource name. Resources of Vertex AI that are not Google's own
    models, such as tuned models, are outside of the base URL.
    """
    model = target.model
    if "/" not in model:
        return target, f"/models/{quote(model, safe='')}"
    is_resource = re.match(_RESOURCE, model) is not None
    cloud = cloud_of(target)
    if cloud is None or model.startswith("models/"):
        return target, f"/{quote(model)}" if is_resource else f"/models/{quote(model, safe='')}"
    publisher, _, name = model.partition("/")
    resource = model if is_resource else f"publishers/{publisher}/models/{name}"
    path = cloud["version"] + ("" if resource.startswith("projects/") else cloud["place"] or "")
    return replace(target, base_url=target.origin_and_prefix[0] + path), f"/{quote(resource)}"


def _pop_object(extra: JsonObject, name: str) -> JsonObject:
    """Take an object out of `extra`, to merge it with ours."""
    return camel(object_of(extra.pop(name, None)))


def _without_alternatives(config: JsonObject, extra_config: JsonObject) -> JsonObject:
    """The fields for which the caller set no alternative."""
    return {
        field: value
        for field, value in config.items()
        if not extra_config.keys() & set(ALTERNATIVE_FIELDS.get(field, ()))
    }


def encode_tools(tools: Iterable[Tool | Opaque], notices: NoticeCollector) -> list[JsonObject]:
    """All functions in one entry, in the place of the first; the API refuses several entries with functions."""
    entries: list[JsonObject] = []
    functions: list[JsonObject] = []
    for tool in tools:
        if isinstance(tool, Tool):
            if not functions:
                entries.append({"functionDeclarations": functions})
            functions.append(encode_tool(tool, notices))
        else:
            entries.append(tool.data)
    return entries


def encode_tool_result(result: ToolResult) -> JsonObject:
    """The content with the result of one call."""
    return {"role": "user", "parts": [encode_result(result)]}


def _functions(request: Request) -> list[Tool | Opaque]:
    return [tool for tool in request.tools if isinstance(tool, Tool)]


def _encode_tool_config(
    request: Request, target: Target, extra_config: JsonObject, notices: NoticeCollector
) -> JsonObject:
    if request.parallel_tool_calls is False:
        notices.add("dropped", "parallel_tool_calls", "not supported")
    if "functionCallingConfig" in extra_config:
        return extra_config
    functions = _functions(request)
    choice = tool_choice(request, target, functions, notices)
    if choice is None or not functions:
        return extra_config
    names = {} if choice in TOOL_CHOICE_TO_WIRE else {"allowedFunctionNames": [choice]}
    return {"functionCallingConfig": {"mode": TOOL_CHOICE_TO_WIRE.get(choice, "ANY"), **names}, **extra_config}


def _encode_options(request: Request, target: Target, extra_config: JsonObject, notices: NoticeCollector) -> JsonObject:
    quirks = target_of_options(request, target).quirks
    options: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "topP" if quirks.sampling else None),
        ("top_k", request.top_k, "topK" if quirks.sampling else None),
        ("max_tokens", max_tokens(request, target, notices), "maxOutputTokens"),
        ("stop", encode_stop(request, notices, MAX_STOPS), "stopSequences" if quirks.stop else None),
        ("seed", encode_seed(request, notices), "seed" if quirks.seed_field else None),
        ("user", request.user, None),
        ("metadata", request.metadata or None, None),
    )
    return encode_options(
        options, {OPTION_NAMES.get(field, field): value for field, value in extra_config.items()}, notices
    )


def _encode_schema(request: Request, extra_config: JsonObject, notices: NoticeCollector) -> JsonObject:
    if request.schema is None:
        return {}
    config: JsonObject = {"responseMimeType": "application/json"}
    if not request.schema or extra_config.keys() & {"responseJsonSchema", *ALTERNATIVE_FIELDS["responseJsonSchema"]}:
        return config
    schema, schema_notices = adapt(request.schema, SCHEMA_DIALECT, where="schema")
    notices.extend(*schema_notices)
    return {**config, "responseJsonSchema": schema}


def _fit_budget(reasoning: Effort | int, target: Target, notices: NoticeCollector) -> int:
    """The thinking budget, within what the model takes."""
    quirks = target.quirks
    requested = to_budget(reasoning)
    least, most = quirks.min_budget or 0, quirks.max_budget
    if not requested and quirks.thinking_off:
        return 0
    if not requested:
        notices.add("changed", "reasoning", f"thinking cannot be turned off; sent {least} tokens")
        return least
    if isinstance(reasoning, str):
        return max(least, min(requested, most or MAX_BUDGET))
    budget = max(least, requested if most is None else min(requested, most))
    if budget != requested:
        limit = "minimum" if budget > requested else "maximum"
        notices.add("changed", "reasoning", f"{requested} tokens became the {limit} of the model, {budget}")
    return budget


def _encode_reasoning(
    request: Request, target: Target, extra_config: JsonObject, notices: NoticeCollector
) -> JsonObject:
    """A level if the target takes one, else a budget; the API refuses both together."""
    reasoning = None if "thinkingConfig" in extra_config else requested_reasoning(request, target, notices)
    if reasoning is None:
        return {}
    if target.quirks.reasoning != "level":
        budget = _fit_budget(reasoning, target, notices)
        return {"thinkingConfig": {**({"includeThoughts": True} if budget else {}), "thinkingBudget": budget}}
    effort = to_effort(reasoning, target, notices)
    if LEVELS[effort] != effort.upper():
        notices.add("changed", "reasoning", f"{effort!r} is not supported; sent as {LEVELS[effort]}")
    include = {} if reasoning in ("none", 0) else {"includeThoughts": True}
    return {"thinkingConfig": {**include, "thinkingLevel": LEVELS[effort]}}
