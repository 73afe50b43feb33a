"""Encodes requests to the Responses API.

The caller's own `text`, `reasoning` and `include` in `extra` are merged with what the encoder sends; every other field
of `extra` wins over the encoder's field.
"""

from typing import Any

import msgspec

from dragoman.http import HttpRequest
from dragoman.schema.strict import is_strict
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_list
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
from dragoman.wires.openai_responses.client_tools import as_functions, encode_definitions
from dragoman.wires.openai_responses.hosted_tools import encode_hosted_tool
from dragoman.wires.openai_responses.messages import encode_input
from dragoman.wires.openai_responses.parts import encode_tool
from dragoman.wires.openai_responses.schema import (
    ENCRYPTED,
    FIELDS_THAT_NEED_STORE,
    LOGPROBS,
    MIN_OUTPUT,
    NAME,
    RARE_FIELDS,
)

_MERGED = ("text", "reasoning", "include")


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for this target."""
    notices = NoticeCollector(NAME, strict=request.strict)
    if not target.quirks.client_tools:
        request = as_functions(request)
    extra = body_extra(request, target, notices)
    if not request.stream:
        extra.pop("stream_options", None)
    options = _encode_options(request, target, extra, notices)
    text = without_none({"verbosity": options.pop("verbosity", None)}) | object_of(extra.get("text"))
    has_logprobs = bool(options.pop("logprobs", False))
    prompt = encode_input(request, target, notices)
    check_prompt(request, [*prompt, *(field for field in FIELDS_THAT_NEED_STORE if extra.get(field))], target)
    body: JsonObject = {
        "model": target.model,
        **prompt,
        **_encode_tools(request, target, notices),
        **options,
        **_encode_text(request, target, text, notices),
        **_encode_reasoning(request, target, object_of(extra.get("reasoning")), notices),
        **({} if any(extra.get(field) for field in FIELDS_THAT_NEED_STORE) else {"store": False}),
        **_encode_include(extra.get("include"), target, has_logprobs=has_logprobs),
        **({"stream": True} if request.stream else {}),
    }
    rest = {field: value for field, value in extra.items() if field not in _MERGED}
    return post_request(target, "/responses", {**body, **rest}, notices)


def encode_tools(tools: list[Tool | Opaque], _: NoticeCollector) -> list[JsonObject]:
    """Tool definitions as they stand in a request."""
    return encode_definitions(tools, encode_tool)


def _encode_tools(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    tools, choice = tools_and_choice(request, target, notices, _named_choice, encode_hosted_tool)
    parallel = parallel_tool_calls(request, target, notices)
    encoded = encode_definitions(tools, lambda tool: _encode_tool(tool, target, notices)) or None
    return without_none({"tools": encoded, "tool_choice": choice if encoded else None, "parallel_tool_calls": parallel})


def _named_choice(name: str) -> JsonObject:
    return {"type": "function", "name": name}


def _encode_tool(tool: Tool | Opaque, target: Target, notices: NoticeCollector) -> JsonObject:
    """The tool without `strict` if the target does not know it or the parameters do not satisfy it."""
    if isinstance(tool, Tool) and tool.strict and not _can_be_strict(tool, target):
        notices.add("dropped", f"strict of {tool.name}", why_not_strict(target))
        tool = msgspec.structs.replace(tool, strict=None)
    data = encode_tool(tool)
    return data if target.quirks.strict else {key: value for key, value in data.items() if key != "strict"}


def _can_be_strict(tool: Tool, target: Target) -> bool:
    extra = wire_extra(tool.extra, NAME)
    verbatim = extra.get("strict") is True or "function" in extra
    return target.quirks.strict and (verbatim or tool.parameters is None or is_strict(tool.parameters))


def _encode_options(request: Request, target: Target, extra: JsonObject, notices: NoticeCollector) -> JsonObject:
    target = target_of_options(request, target)
    quirks = target.quirks
    options: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, None),
        ("seed", request.seed, None),
        ("stop", request.stop or None, None),
        ("max_tokens", max_tokens(request, target, notices, least=MIN_OUTPUT), "max_output_tokens"),
        ("user", fit_user(request, notices) if quirks.user_field else request.user, quirks.user_field),
        ("metadata", request.metadata or None, "metadata" if quirks.metadata else None),
    )
    body = encode_options(options, extra, notices)
    body.update(encode_rare_options(request, target, RARE_FIELDS, extra, notices))
    if body.get("service_tier") in STANDARD_TIERS:
        body["service_tier"] = "default"
    return body


def _encode_text(request: Request, target: Target, text: JsonObject, notices: NoticeCollector) -> JsonObject:
    """`text` with the format for the schema; a format of the caller's own wins, because it may say more."""
    schema = request.schema
    if schema is None or (target.quirks.json_schema and "format" in text):
        return {"text": text} if text else {}
    if not schema or not target.quirks.json_schema:
        return {"text": {**text, "format": {"type": "json_object"}}}
    strict = schema_strict(request, schema, target, notices)
    name = schema_name(request, notices)
    format = without_none({"type": "json_schema", "name": name, "schema": schema, "strict": strict})
    return {"text": {**text, "format": format}}


def _encode_reasoning(request: Request, target: Target, fields: JsonObject, notices: NoticeCollector) -> JsonObject:
    """`reasoning` with the effort of the request, unless the caller's own `reasoning` has one."""
    reasoning = None if "effort" in fields else requested_reasoning(request, target, notices)
    if reasoning is not None:
        fields = {"effort": to_effort(reasoning, target, notices), **fields}
    return {"reasoning": fields} if fields else {}


def _encode_include(include: object, target: Target, *, has_logprobs: bool) -> JsonObject:
    """`include` with encrypted reasoning, which the next request sends back, and with log probabilities."""
    items: list[Any] = list(include) if is_list(include) else []
    if target.capabilities.thinking and ENCRYPTED not in items:
        items.append(ENCRYPTED)
    if has_logprobs and LOGPROBS not in items:
        items.append(LOGPROBS)
    return {"include": items} if items else {}
