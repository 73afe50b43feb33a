"""Parts, messages and tools in the JSON of the native protocol, for the client and the server."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.types import Extra, HostedTool, JsonObject, Opaque, Part, Text, Tool, ToolCall, ToolResult
from dragoman.types.base import encode_unknown
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import NO_ARGUMENTS
from dragoman.wires.native.problems import ProblemCollector


def encode_part(part: Part) -> JsonObject:
    """The JSON of a part: its `type` and its fields."""
    return msgspec.to_builtins(part)  # type: ignore[no-any-return]  # a Struct becomes an object


def encode_content(parts: Iterable[Part]) -> str | list[JsonObject] | None:
    """The simplest form of some parts: null, a string, or a list."""
    parts = tuple(parts)
    match parts:
        case ():
            return None
        case (Text(text=text, extra=extra, citations=()),) if text and not extra:
            return text
        case _:
            return [encode_part(part) for part in parts]


def encode_call(call: ToolCall) -> JsonObject:
    """A call, with its arguments as an object."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function, **_extra(call.extra)}


def encode_assistant(parts: Iterable[Part], extra: Extra) -> JsonObject:
    """A message of the assistant. Without calls, missing content is an empty string."""
    parts = tuple(parts)
    calls = [encode_call(part) for part in parts if isinstance(part, ToolCall)]
    content = encode_content(part for part in parts if is_content(part))
    if calls:
        return {"role": "assistant", "content": content, "tool_calls": calls, **_extra(extra)}
    return {"role": "assistant", "content": content or "", **_extra(extra)}


def is_content(part: Part) -> bool:
    """Whether a part belongs into the content, unlike calls and results."""
    return not isinstance(part, ToolCall | ToolResult)


def encode_message(role: str, parts: Iterable[Part], extra: Extra) -> JsonObject:
    """A message of the system or the user."""
    return {"role": role, "content": encode_content(parts), **_extra(extra)}


def encode_result(result: ToolResult) -> JsonObject:
    """The message with the result of one call."""
    content: Any = result.content
    if not isinstance(content, str):
        content = [encode_part(part) for part in content]
    error = {"is_error": True} if result.is_error else {}
    return {"role": "tool", "tool_call_id": result.id, "content": content, **error, **_extra(result.extra)}


def encode_tool(tool: Tool | Opaque) -> JsonObject:
    """The definition of a tool; the name replaces a missing description, which the protocol requires."""
    if isinstance(tool, Opaque):
        return tool.data
    has_description = bool((tool.description or "").strip())
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description if has_description else tool.name,
        "parameters": NO_ARGUMENTS if tool.parameters is None else tool.parameters,
        **({} if tool.strict is None else {"strict": tool.strict}),
    }
    return {"type": "function", "function": function, **_extra(tool.extra)}


def encode_hosted_tool(tool: HostedTool, _: NoticeCollector) -> JsonObject:
    """The definition of a tool that the provider runs: its `type` and its fields."""
    data: JsonObject = msgspec.to_builtins(tool, enc_hook=encode_unknown)
    return {name: value for name, value in data.items() if name != "fallback"}


def decode_hosted_tool(data: JsonObject, where: str, problems: ProblemCollector) -> HostedTool | None:
    """The inverse of `encode_hosted_tool`; None and a problem if it is wrong."""
    tool: HostedTool | None = problems.read(data, HostedTool, where)
    if tool is not None:
        known = {"type", *tool.__struct_encode_fields__} - {"fallback"}
        for name in sorted(data.keys() - known):
            problems.add(f"{where}.{name}", "unknown_field", "unknown field for a tool of this type")
    return tool


def _extra(extra: Extra) -> JsonObject:
    return {"extra": extra} if extra else {}
