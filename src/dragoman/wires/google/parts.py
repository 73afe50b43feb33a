"""Parts of messages and tools in the JSON of generateContent, for the client and the server."""

from collections.abc import Callable
from typing import Any, cast

from dragoman.media.sniff import KNOWN
from dragoman.schema.adapt import adapt
from dragoman.types import (
    AnyTool,
    Audio,
    Document,
    Image,
    JsonObject,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    is_object,
)
from dragoman.types.arguments import parse_arguments
from dragoman.types.data_urls import encode_base64
from dragoman.types.fast_constructors import new_call, new_result, new_text
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.request_body import decode_base64_field, invalid_field, read_fields
from dragoman.wires.google.from_openapi import from_openapi
from dragoman.wires.google.hosted_tools import decode_hosted_part, decode_hosted_tool
from dragoman.wires.google.schema import (
    FILES,
    NAME,
    SCHEMA_DIALECT,
    SIGNATURE,
    TEXT_FIELDS,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GeminiTool,
    as_objects,
    camel,
)


def part_extra(extra: JsonObject) -> JsonObject:
    """The members of `extra` that belong to the part, not to its candidate."""
    if not extra:
        return {}
    return {key: value for key, value in wire_extra(extra, NAME).items() if key not in TEXT_FIELDS}


def encode_part(part: Part) -> JsonObject:
    """One part of a content, except calls and results."""
    match part:
        case Text():
            return {"text": part.text, **part_extra(part.extra)}
        case Thinking():
            text = {} if part.redacted else {"text": part.text}
            return {**text, "thought": True, **wire_extra(part.extra, NAME)}
        case Image(data=None):
            file = {"mimeType": part.mime or _guess_mime(part.url or ""), "fileUri": part.url}
            return _with_extra({"fileData": file}, part.extra)
        case Document(url=str()) if not part.data:
            return _with_extra({"fileData": {"mimeType": part.mime, "fileUri": part.url}}, part.extra)
        case Image() | Document() | Audio():
            blob = {"mimeType": part.mime or "image/png", "data": encode_base64(part.data or b"")}
            return _with_extra({"inlineData": blob}, part.extra)
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def _guess_mime(url: str) -> str:
    """The type of an image by the ending of its URL; JPEG by default."""
    path = url.partition("?")[0].partition("#")[0]
    kind = f"image/{path.rpartition('.')[2].lower()}"
    return kind if kind in KNOWN else "image/jpeg"


def _with_extra(part: JsonObject, extra: JsonObject) -> JsonObject:
    """A part with the members of `extra`, both next to its data and inside it."""
    own = wire_extra(extra, NAME)
    inner = {key: {**value, **own.get(key, {})} for key, value in part.items()}
    return {**own, **inner}


def wire_id(call: ToolCall) -> str | None:
    """The id that Google gave a call, if any."""
    return cast("str | None", wire_extra(call.extra, NAME).get("id"))


def encode_call(call: ToolCall, id: str | None) -> JsonObject:
    """A function call, with this id if there is one."""
    outer = {key: value for key, value in wire_extra(call.extra, NAME).items() if key not in ("id", "functionCall")}
    inner = wire_extra(wire_extra(call.extra, NAME), "functionCall")
    return {"functionCall": {**without_none({"id": id, "name": call.name, "args": call.arguments}), **inner}, **outer}


def encode_result(result: ToolResult, id: str | None = None, *, media: bool = False) -> JsonObject:
    """A function response; with `media`, its images and documents are inside it."""
    extra = dict(wire_extra(result.extra, NAME))
    if not extra and isinstance(result.content, str):
        response = {"name": result.name, "response": _encode_response(result)}
        return {"functionResponse": response if id is None else {"id": id, **response}}
    media = extra.pop("media", media)
    outer = extra.pop("outer_fields", {})
    inside = [part for part in result.parts if media and not isinstance(part, Text)]
    parts = [encode_part(part) for part in inside if not isinstance(part, Opaque) or part.wire == NAME]
    response = without_none(
        {"id": id, "name": result.name, "response": _encode_response(result), "parts": parts or None}
    )
    return {"functionResponse": {**response, **extra}, **outer}


def _encode_response(result: ToolResult) -> JsonObject:
    """A JSON object as an object if it encodes to the same text; anything else as text."""
    text = result.text
    value = parse_arguments(text) if text.startswith("{") else None
    is_same = value is not None and encode_json(value) == text.encode()
    return {"error" if result.is_error else "output": value if is_same else text}


def encode_tool(tool: Tool, notices: NoticeCollector) -> JsonObject:
    """The declaration of a function; parameters from a client of Google are sent as they came."""
    extra = wire_extra(tool.extra, NAME)
    schema = None
    if tool.parameters is not None and not _is_empty(tool.parameters) and not _SCHEMAS & extra.keys():
        schema, schema_notices = adapt(tool.parameters, SCHEMA_DIALECT, where=f"tools.{tool.name}")
        notices.extend(*schema_notices)
    if tool.strict:
        notices.add("dropped", f"tool {tool.name}: strict", "not supported")
    fields = {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}
    return {**without_none(fields), **extra}


_SCHEMAS = frozenset(("parameters", "parametersJsonSchema"))


def _is_empty(schema: JsonObject) -> bool:
    """Whether a schema has no arguments; models have refused an object without properties (seen 2024-06)."""
    keywords = {key for key, value in schema.items() if value} - {"title", "description", "$schema"}
    return keywords <= {"type"} and schema.get("type") == "object"


def decode_tools(data: JsonObject, where: str) -> list[AnyTool]:
    """The functions of one tool, and the tools in it that run at the provider."""
    tool, others = read_fields(GeminiTool, camel(data), where)
    functions = as_objects(tool.function_declarations)
    decoded: list[AnyTool] = [_tool(each, f"{where}.functionDeclarations[{i}]") for i, each in enumerate(functions)]
    decoded += [
        decode_hosted_tool(name, value) or Opaque(wire=NAME, data={name: value}) for name, value in others.items()
    ]
    return decoded


def _tool(data: JsonObject, where: str) -> Tool:
    function, extra = read_fields(FunctionDeclaration, camel(data), where)
    parameters = function.parameters_json_schema
    if parameters is not None and (_is_empty(parameters) or adapt(parameters, SCHEMA_DIALECT, where=where)[1]):
        extra["parametersJsonSchema"] = parameters
    if function.parameters is not None:
        extra["parameters"] = function.parameters
        parameters = from_openapi(function.parameters)
    return Tool(
        name=function.name, description=function.description, parameters=parameters, extra=make_extra(NAME, extra)
    )


def decode_part(data: JsonObject, where: str) -> Part | None:
    """The inverse of the encoders: an unknown part becomes an Opaque, an empty one None."""
    fields = camel(data)
    if fields.get("thought") is False:
        del fields["thought"]
    if not fields or (len(fields) == 1 and "thought" in fields):
        return None
    for kind in _DECODERS:  # a loop: a generator costs more, and long histories have thousands of parts
        if kind in fields:
            break
    else:
        return decode_hosted_part(fields, data) or Opaque(wire=NAME, data=data)
    try:
        part = _DECODERS[kind](fields, where)
    except TypeError as error:
        raise invalid_field(f"{where}.{kind}", str(error)) from error
    # What a thought made is a draft: a conversation means the same without it.
    return part or Opaque(wire=NAME, data=data, is_optional=data.get("thought") is True)


def _text(fields: JsonObject, _: str) -> Part | None:
    text = fields.pop("text", None)
    thought = fields.pop("thought", False)
    if not isinstance(text, str | None):
        raise TypeError("must be a string")
    if text is None and not fields.keys() <= _THOUGHT_FIELDS:
        return None
    if thought:
        return Thinking(text=text or "", redacted=text is None, extra={NAME: fields})
    return new_text(text=text or "", extra=make_extra(NAME, fields))


_THOUGHT_FIELDS = frozenset((SIGNATURE, "partMetadata"))


def _inline(fields: JsonObject, where: str) -> Part | None:
    blob = _inner(fields, "inlineData")
    mime = blob.pop("mimeType", None)
    kind = _media_kind(mime)
    # An image that is a thought is a draft, not the answer (gemini-3-pro-image, 2025-11).
    if kind is None or "thought" in fields:
        return None
    data = decode_base64_field(str(blob.pop("data", "")), f"{where}.inlineData")
    name = {"name": blob["displayName"]} if kind is Document and "displayName" in blob else {}
    extra = make_extra(NAME, {**fields, **({"inlineData": blob} if blob else {})})
    return kind(data=data, mime=str(mime), extra=extra, **name)


def _media_kind(mime: object) -> Callable[..., Part] | None:
    kind, _, subtype = mime.partition("/") if isinstance(mime, str) else ("", "", "")
    if kind in ("text", "video") or (kind == "application" and subtype == "pdf"):
        return Document
    return {"image": Image, "audio": Audio}.get(kind)


def _file(fields: JsonObject, _: str) -> Part | None:
    file = _inner(fields, "fileData")
    mime, url = file.pop("mimeType", None), file.pop("fileUri", None)
    if not str(url).startswith(("https://", "http://")) or str(url).startswith(FILES):
        return None
    extra = {NAME: {**fields, **({"fileData": file} if file else {})}}
    if str(mime).startswith("video/"):
        return Document(data=b"", url=url, mime=mime, extra=extra)
    return Image(url=url, mime=mime, extra=extra) if _media_kind(mime) is Image else None


def _inner(fields: JsonObject, name: str) -> JsonObject:
    inner = fields.pop(name)
    if not is_object(inner):
        raise TypeError("must be an object")
    return camel(inner)


def _call(fields: JsonObject, where: str) -> ToolCall:
    """A call. Its `extra` always has an entry for Google, so that its id, or the lack of one, is known later."""
    call, inner = read_fields(FunctionCall, _inner(fields, "functionCall"), f"{where}.functionCall")
    return new_call(
        id=call.id or "",
        name=call.name,
        arguments=call.args,
        extra={NAME: {**({"id": call.id} if call.id else {}), **fields, **make_extra("functionCall", inner)}},
    )


def _result(fields: JsonObject, where: str) -> ToolResult:
    result, extra = read_fields(FunctionResponse, _inner(fields, "functionResponse"), f"{where}.functionResponse")
    text, is_error, is_covered = _decode_response(result.response)
    if not is_covered:
        extra["response"] = result.response
    if fields:
        extra["outer_fields"] = fields
    content: str | tuple[ResultPart, ...] = text
    if result.parts:
        extra["media"] = True
        media = [_media(part, f"{where}.functionResponse.parts[{i}]") for i, part in enumerate(result.parts) if part]
        content = (new_text(text=text), *media)
    return new_result(
        id=result.id or "", name=result.name, content=content, is_error=is_error, extra=make_extra(NAME, extra)
    )


def _media(data: JsonObject, where: str) -> ResultPart:
    part = decode_part(data, where)
    return part if isinstance(part, Image | Document) else Opaque(wire=NAME, data=data)


def _decode_response(response: JsonObject) -> tuple[str, bool, bool]:
    """The text of a response, whether it is an error, and whether these two cover it."""
    is_error = "error" in response
    value: Any = response
    if len(response) == 1:
        value = response.get("error", response.get("output", response))
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text, is_error, _encode_response(new_result(id="", name="", content=text, is_error=is_error)) == response


_DECODERS: dict[str, Callable[[JsonObject, str], Part | None]] = {
    "functionCall": _call,
    "functionResponse": _result,
    "inlineData": _inline,
    "fileData": _file,
    "text": _text,
    "thought": _text,
}
