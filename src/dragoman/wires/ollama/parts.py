"""Parts of messages, tools and formats in Ollama's JSON, for the client and the server."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.errors import Unsupported
from dragoman.media.sniff import sniff
from dragoman.schema.adapt import adapt
from dragoman.schema.traverse import subschemas
from dragoman.types import Image, JsonObject, Opaque, Part, Text, Thinking, Tool, ToolCall, ToolResult, is_object
from dragoman.types.arguments import parse_arguments, raw_arguments
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.types.fast_constructors import new_call
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send, error_text
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import NO_ARGUMENTS
from dragoman.wires.common.request_body import invalid_field, read_fields, require_object
from dragoman.wires.ollama.schema import FORMAT_DIALECT, NAME, TOOL_DIALECT, OllamaFunction


def encode_image(image: Image) -> str:
    """The base64 of an image; Unsupported if there is only a URL."""
    if image.data is None:
        raise Unsupported(f"{NAME}: cannot send an image by URL; pass its bytes")
    return encode_base64(image.data)


def decode_image(text: str) -> Image:
    """The inverse of `encode_image`; ValueError if the text is not base64."""
    data = decode_base64(text)
    return Image(data=data, mime=sniff(data) or "application/octet-stream")


def has_field(part: Part) -> bool:
    """Whether a message has a field for a part."""
    match part:
        case Image():
            return part.data is not None
        case Opaque():
            return part.wire == NAME
        case _:
            return isinstance(part, Text | Thinking | ToolCall)


def encode_message(role: str, parts: Iterable[Part], separator: str, *, calls_before: int = 0) -> JsonObject:
    """A message of the user or the assistant. Each kind of part has its own field, so their order is lost."""
    texts: list[str] = []
    thoughts: list[str] = []
    images: list[str] = []
    calls: list[JsonObject] = []
    more: JsonObject = {}
    for part in parts:
        match part:
            case Text():
                texts.append(part.text)
            case Thinking():
                thoughts.append(part.text)
            case Image():
                images.append(encode_image(part))
            case ToolCall():
                calls.append(encode_call(part, calls_before + len(calls)))
            case Opaque():
                more.update(part.data)
            case _:
                raise cannot_send(part, NAME, takes="text and images")
    message: JsonObject = {"role": role, "content": separator.join(texts)}
    fields: JsonObject = {"thinking": "".join(thoughts), "images": images, "tool_calls": calls}
    return {**message, **{field: value for field, value in fields.items() if value}, **more}


def encode_call(call: ToolCall, index: int) -> JsonObject:
    """A tool call; its arguments are an object."""
    extra = wire_extra(call.extra, NAME)
    function = {"index": index, "name": call.name, "arguments": call.arguments, **extra.get("function", {})}
    return {"id": call.id, **_outer(extra), "function": function}


def split_call(data: JsonObject) -> tuple[ToolCall, Any]:
    """A call without its arguments, and the arguments as they came."""
    function = data.get("function")
    inner: JsonObject = object_of(function)
    extra = {key: value for key, value in data.items() if key not in ("id", "type", "function")}
    if rest := {key: value for key, value in inner.items() if key not in ("index", "name", "arguments")}:
        extra["function"] = rest
    id, name = str(data.get("id") or ""), str(inner.get("name") or "")
    call = new_call(id=id, name=name, arguments={}, extra=make_extra(NAME, extra))
    return call, inner.get("arguments")


def arguments_text(arguments: object) -> str:
    """The JSON text of arguments that are not an object; models leave them out if a tool takes none."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else encode_json(arguments).decode()


def decode_call(data: JsonObject, where: str) -> ToolCall:
    """The inverse of `encode_call`; arguments may also be the text of an object."""
    require_object(data.get("function"), f"{where}.function")
    call, arguments = split_call(data)
    if is_object(arguments):
        return msgspec.structs.replace(call, arguments=arguments)
    text = arguments_text(arguments)
    parsed = parse_arguments(text)
    if parsed is None:
        raise invalid_field(f"{where}.function.arguments", f"must be an object, got {text[:100]}")
    return msgspec.structs.replace(call, arguments=parsed, raw=raw_arguments(text, parsed))


def encode_result(result: ToolResult) -> JsonObject:
    """The message with the result of one call."""
    message = {"role": "tool", "content": error_text(result), "tool_name": result.name, "tool_call_id": result.id}
    return {**message, **wire_extra(result.extra, NAME)}


def encode_tool(tool: Tool | Opaque, notices: NoticeCollector) -> JsonObject:
    """The definition of a tool, with the schema keywords that the server reads."""
    if isinstance(tool, Opaque):
        return tool.data
    parameters = tool.parameters
    if parameters is not None:
        parameters, schema_notices = adapt(parameters, TOOL_DIALECT, where=f"tools.{tool.name}")
        if any(notice.what.endswith(": $ref") for notice in schema_notices):
            notices.count_inlined(sum(1 for _ in subschemas(parameters)))
        notices.extend(*schema_notices)
    if tool.strict:
        notices.add("dropped", f"tools.{tool.name}: strict", "arguments are never enforced")
    extra = wire_extra(tool.extra, NAME)
    function = without_none({"name": tool.name, "description": tool.description})
    # Templates and llama-server require a schema (2026-08).
    function["parameters"] = NO_ARGUMENTS if parameters is None else parameters
    return {"type": "function", "function": {**function, **extra.get("function", {})}, **_outer(extra)}


def decode_tool(data: JsonObject, where: str) -> Tool | Opaque:
    """The inverse of `encode_tool`; a tool that is not a function becomes an Opaque."""
    if "function" not in data:
        return Opaque(wire=NAME, data=data)
    function, inner = read_fields(OllamaFunction, data["function"], f"{where}.function")
    extra: JsonObject = {key: value for key, value in data.items() if key not in ("type", "function")}
    if inner:
        extra["function"] = inner
    return Tool(
        name=function.name,
        description=function.description,
        parameters=None if function.parameters == NO_ARGUMENTS else function.parameters,
        extra=make_extra(NAME, extra),
    )


def _outer(extra: JsonObject) -> JsonObject:
    return {key: value for key, value in extra.items() if key != "function"}


def encode_format(schema: JsonObject, notices: NoticeCollector) -> str | JsonObject:
    """The `format` for a schema; an empty schema means any JSON."""
    if not schema:
        return "json"
    adapted, schema_notices = adapt(schema, FORMAT_DIALECT, where="schema")
    notices.extend(*schema_notices)
    return adapted
