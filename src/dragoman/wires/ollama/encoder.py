"""Encodes a request as a call of Ollama's `/api/chat`."""

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request
from dragoman.wires.common.extra import body_extra
from dragoman.wires.common.history import check_prompt
from dragoman.wires.common.http import post_request
from dragoman.wires.common.json import object_of
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import (
    encode_options,
    encode_rare_options,
    max_tokens,
    requested_reasoning,
    supported_tools,
    target_of_options,
    to_budget,
    to_effort,
    tool_choice,
)
from dragoman.wires.ollama.context import context_size
from dragoman.wires.ollama.messages import encode_messages
from dragoman.wires.ollama.parts import encode_format, encode_tool
from dragoman.wires.ollama.schema import NAME

PENALTIES = ("frequency_penalty", "presence_penalty")
RARE_FIELDS = {name: name for name in (*PENALTIES, "logprobs", "top_logprobs")}


def encode_chat(request: Request, target: Target) -> HttpRequest:
    """The HTTP request for a target, with a notice for everything that it drops or changes."""
    notices = NoticeCollector(NAME, strict=request.strict)
    extra = body_extra(request, target, notices)
    caller_options = extra.pop("options", None)
    messages = encode_messages(request, notices)
    check_prompt(request, messages, target)
    tools = _encode_tools(request, target, notices)
    format = {} if "format" in extra else _encode_schema(request.schema, tools, notices)
    think = {} if "think" in extra else _encode_think(request, target, notices)
    limit = max_tokens(request, target, notices)
    rare = encode_rare_options(request, target, RARE_FIELDS, extra, notices)
    options = {
        **_context_option(messages, tools, limit, target),
        **object_of(caller_options),
        **_encode_options(request, target, limit, extra, notices),
        **{name: rare.pop(name) for name in PENALTIES if name in rare},
    }
    body: JsonObject = {
        "model": target.model,
        "messages": messages,
        "stream": request.stream,
        **({"tools": tools} if tools else {}),
        **format,
        **think,
        **({"options": options} if options else {}),
        **rare,
        **extra,
    }
    return post_request(target, "/api/chat", body, notices)


def _context_option(
    messages: list[JsonObject], tools: list[JsonObject], limit: int | None, target: Target
) -> JsonObject:
    size = context_size(messages, tools, limit, target.capabilities.context_window)
    return {} if size is None else {"num_ctx": size}


def _encode_tools(request: Request, target: Target, notices: NoticeCollector) -> list[JsonObject]:
    if request.tool_choice == "none":
        return []
    if request.parallel_tool_calls is False:
        notices.add("dropped", "parallel_tool_calls", "not supported")
    own = supported_tools(request, notices, None, target)
    if tool_choice(request, target, own, notices) not in (None, "auto"):
        notices.add("changed", "tool_choice", "a call cannot be forced; sent as auto")
    return [encode_tool(tool, notices) for tool in own]


def _encode_schema(schema: JsonObject | None, tools: list[JsonObject], notices: NoticeCollector) -> JsonObject:
    if schema is None:
        return {}
    if not tools:
        return {"format": encode_format(schema, notices)}
    notices.add("changed", "schema", "format prevents tool calls; the schema is only in the system prompt")
    return {}


def _encode_think(request: Request, target: Target, notices: NoticeCollector) -> JsonObject:
    reasoning = requested_reasoning(request, target, notices)
    if reasoning is None:
        return {}
    if target.quirks.reasoning == "level":
        effort = to_effort(reasoning, target, notices)
        level = _LEVELS.get(effort, effort)
        if level and level != effort:
            notices.add("changed", "reasoning", f"{effort!r} is not supported; sent as {level!r}")
        return {"think": level}
    if to_budget(reasoning) <= 0:
        return {"think": False}
    if reasoning != "medium":
        notices.add("changed", "reasoning", f"thinking is only on or off; {reasoning!r} is sent as true")
    return {"think": True}


_LEVELS: dict[str, bool | str] = {"none": False, "minimal": "low", "xhigh": "max"}


def _encode_options(
    request: Request, target: Target, limit: int | None, extra: JsonObject, notices: NoticeCollector
) -> JsonObject:
    quirks = target_of_options(request, target).quirks
    options = (
        ("temperature", request.temperature, "temperature" if quirks.sampling else None),
        ("top_p", request.top_p, "top_p" if quirks.sampling else None),
        ("top_k", request.top_k, "top_k" if quirks.sampling else None),
        ("seed", request.seed, "seed" if quirks.seed_field else None),
        ("max_tokens", limit, "num_predict"),
        ("stop", request.stop or None, "stop" if quirks.stop else None),
        ("user", request.user or None, None),
        ("metadata", request.metadata or None, None),
        ("cache", request.cache or None, None),
    )
    return encode_options(options, extra, notices)
