"""A Request and its Target in, the bytes of a Responses call out, with notices of what was bent on the way."""

from typing import Any

import msgspec

from dragoman.http import HttpRequest
from dragoman.schema.strict import is_strict
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Opaque, Request, Tool, is_list, is_object
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
from dragoman.wires.openai_responses.messages import encode_input
from dragoman.wires.openai_responses.parts import encode_tool
from dragoman.wires.openai_responses.schema import ENCRYPTED, MIN_OUTPUT, NAME, STATEFUL


def encode_request(request: Request, target: Target) -> HttpRequest:
    """The exact bytes for this target."""
    notes = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notes)
    body: JsonObject = {"model": target.model, **encode_input(request, target, notes)}
    body |= {**_tools(request, target, notes), **_options(request, target, extra, notes)}
    if text := _text(request, target, _object(extra.pop("text", None)), notes):
        body["text"] = text
    if reasoning := _reasoning(request, target, _object(extra.pop("reasoning", None)), notes):
        body["reasoning"] = reasoning
    if not any(extra.get(field) for field in STATEFUL):
        body["store"] = False
    if include := _include(extra.pop("include", None), target):
        body["include"] = include
    if request.stream:
        body["stream"] = True
    else:
        extra.pop("stream_options", None)
    return post_request(target, "/responses", {**body, **extra}, notes)


def _object(value: object) -> JsonObject:
    return value if is_object(value) else {}


def _include(given: object, target: Target) -> list[Any]:
    """What is asked for besides, and encrypted reasoning, which is replayed in the next turn."""
    wanted = list(given) if is_list(given) else []
    return wanted if ENCRYPTED in wanted or not target.capabilities.thinking else [*wanted, ENCRYPTED]


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
            choice = {"type": "function", "name": choice}
        else:
            own, choice = only_tool(str(choice), own, notes), target.quirks.required_choice
    parallel = parallel_tool_calls(request, target, notes)
    tools = [_tool(tool, target, notes) for tool in own] or None
    return without_none({"tools": tools, "tool_choice": choice if tools else None, "parallel_tool_calls": parallel})


def _tool(tool: Tool | Opaque, target: Target, notes: NoticeCollector) -> JsonObject:
    """A tool without a strict flag that the target does not know, or that its parameters do not satisfy."""
    if isinstance(tool, Tool) and tool.strict and not _may_be_strict(tool, target):
        notes.add("dropped", f"strict of {tool.name}", why_not_strict(target))
        tool = msgspec.structs.replace(tool, strict=None)
    data = encode_tool(tool)
    return data if target.quirks.strict else {key: value for key, value in data.items() if key != "strict"}


def _may_be_strict(tool: Tool, target: Target) -> bool:
    own = wire_extra(tool.extra, NAME)
    told = own.get("strict") is True or "function" in own
    return target.quirks.strict and (told or tool.parameters is None or is_strict(tool.parameters))


def _text(request: Request, target: Target, given: JsonObject, notes: NoticeCollector) -> JsonObject:
    """The format beside what a client's own `text` says; a format in that says more than our words do."""
    schema, strict = request.schema, request.schema_strict
    if schema is None or (target.quirks.json_schema and "format" in given):
        return given
    if not schema or not target.quirks.json_schema:
        return {**given, "format": {"type": "json_object"}}
    if not target.quirks.strict or (strict and not is_strict(schema)):
        if strict:
            notes.add("dropped", "schema_strict", why_not_strict(target))
        strict = None
    name = schema_name(request, notes)
    form = without_none({"type": "json_schema", "name": name, "schema": schema, "strict": strict})
    return {**given, "format": form}


def _options(request: Request, target: Target, extra: JsonObject, notes: NoticeCollector) -> JsonObject:
    quirks = target.quirks
    told: tuple[OptionField, ...] = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, None),
        ("seed", request.seed, None),
        ("stop", request.stop or None, None),
        ("max_tokens", max_tokens(request, target, notes, least=MIN_OUTPUT), "max_output_tokens"),
        ("user", request.user, quirks.user_field),
        ("metadata", request.metadata or None, "metadata" if quirks.metadata else None),
    )
    return encode_options(told, extra, notes)


def _reasoning(request: Request, target: Target, given: JsonObject, notes: NoticeCollector) -> JsonObject:
    """How hard to think, beside what a client's own `reasoning` says."""
    reasoning = None if "effort" in given else requested_reasoning(request, target, notes)
    return given if reasoning is None else {"effort": to_effort(reasoning, target, notes), **given}
