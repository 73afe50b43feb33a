"""Parts of messages to and from the JSON of generateContent, for both halves."""

from collections.abc import Callable
from typing import Any, cast

from dragoman.events import parse_arguments
from dragoman.media.sniff import KNOWN
from dragoman.schema.adapt import adapt
from dragoman.types import (
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
    decode_base64,
    encode_base64,
    is_object,
)
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.request_body import invalid_field, read_fields
from dragoman.wires.google.openapi import from_openapi
from dragoman.wires.google.schema import (
    FILES,
    NAME,
    SCHEMA_DIALECT,
    TEXT_NOTES,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GeminiTool,
    camel,
    listed,
)


def part_extra(extra: JsonObject) -> JsonObject:
    """What the extra of a text holds of the part itself, and not of its candidate."""
    return {key: value for key, value in wire_extra(extra, NAME).items() if key not in TEXT_NOTES}


def encode_part(part: Part) -> JsonObject:
    """One part of a content; calls and results have their own."""
    match part:
        case Text():
            return {"text": part.text, **part_extra(part.extra)}
        case Thinking():
            text = {} if part.redacted else {"text": part.text}
            return {**text, "thought": True, **wire_extra(part.extra, NAME)}
        case Image(data=None):
            file = {"mimeType": part.mime or _guessed(part.url or ""), "fileUri": part.url}
            return _with_extra({"fileData": file}, part.extra)
        case Image() | Document() | Audio():
            blob = {"mimeType": part.mime or "image/png", "data": encode_base64(part.data or b"")}
            return _with_extra({"inlineData": blob}, part.extra)
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def _guessed(url: str) -> str:
    """The type of a picture by the ending of its URL; most are JPEG."""
    path = url.partition("?")[0].partition("#")[0]
    kind = f"image/{path.rpartition('.')[2].lower()}"
    return kind if kind in KNOWN else "image/jpeg"


def _with_extra(part: JsonObject, extra: JsonObject) -> JsonObject:
    """A part with what stood beside its data, and inside it."""
    own = wire_extra(extra, NAME)
    inner = {key: {**value, **own.get(key, {})} for key, value in part.items()}
    return {**own, **inner}


def wire_id(call: ToolCall) -> str | None:
    """The id that a call had on this wire, if any."""
    return cast("str | None", wire_extra(call.extra, NAME).get("id"))


def encode_call(call: ToolCall, id: str | None) -> JsonObject:
    """A function call under this id, or none."""
    beside = {key: value for key, value in wire_extra(call.extra, NAME).items() if key not in ("id", "functionCall")}
    inner = wire_extra(wire_extra(call.extra, NAME), "functionCall")
    return {"functionCall": {**without_none({"id": id, "name": call.name, "args": call.arguments}), **inner}, **beside}


def encode_result(result: ToolResult, id: str | None = None, *, media: bool = False) -> JsonObject:
    """A function response; its pictures and documents stand in it where the target can take them there."""
    extra = dict(wire_extra(result.extra, NAME))
    media = extra.pop("media", media)
    beside = extra.pop("beside", {})
    inside = [part for part in result.parts if media and not isinstance(part, Text)]
    parts = [encode_part(part) for part in inside if not isinstance(part, Opaque) or part.wire == NAME]
    response = without_none(
        {"id": id, "name": result.name, "response": _encode_response(result), "parts": parts or None}
    )
    return {"functionResponse": {**response, **extra}, **beside}


def _encode_response(result: ToolResult) -> JsonObject:
    """A JSON object goes as one where that says the same text; anything else as text."""
    text = result.text
    value = parse_arguments(text) if text.startswith("{") else None
    same = value is not None and encode_json(value) == text.encode()
    return {"error" if result.is_error else "output": value if same else text}


def encode_tool(tool: Tool, notes: NoticeCollector) -> JsonObject:
    """A function's declaration; parameters that a client of this wire wrote go as they are."""
    extra = wire_extra(tool.extra, NAME)
    schema = None
    if tool.parameters is not None and not _is_empty(tool.parameters) and not _SCHEMAS & extra.keys():
        schema, notices = adapt(tool.parameters, SCHEMA_DIALECT, where=f"tools.{tool.name}")
        notes.extend(*notices)
    if tool.strict:
        notes.add("dropped", f"tool {tool.name}: strict", "it has no strict tools")
    told = {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}
    return {**without_none(told), **extra}


_SCHEMAS = frozenset(("parameters", "parametersJsonSchema"))


def _is_empty(schema: JsonObject) -> bool:
    """Whether a schema takes no arguments; models have refused an object without properties (seen 2024-06)."""
    said = {key for key, value in schema.items() if value} - {"title", "description", "$schema"}
    return said <= {"type"} and schema.get("type") == "object"


def decode_tools(tools: list[JsonObject]) -> tuple[Tool | Opaque, ...]:
    """The functions of all tools, and the tools that run at the provider."""
    decoded: list[Tool | Opaque] = []
    for i, data in enumerate(tools):
        shape, others = read_fields(GeminiTool, camel(data), f"tools[{i}]")
        for j, declaration in enumerate(listed(shape.function_declarations)):
            decoded.append(_tool(declaration, f"tools[{i}].functionDeclarations[{j}]"))
        decoded += [Opaque(wire=NAME, data={name: value}) for name, value in others.items()]
    return tuple(decoded)


def _tool(data: JsonObject, where: str) -> Tool:
    shape, extra = read_fields(FunctionDeclaration, camel(data), where)
    parameters = shape.parameters_json_schema
    if parameters is not None and (_is_empty(parameters) or adapt(parameters, SCHEMA_DIALECT, where=where)[1]):
        extra["parametersJsonSchema"] = parameters
    if shape.parameters is not None:
        extra["parameters"] = shape.parameters
        parameters = from_openapi(shape.parameters)
    return Tool(name=shape.name, description=shape.description, parameters=parameters, extra=make_extra(NAME, extra))


def decode_part(data: JsonObject, where: str) -> Part | None:
    """The mirror of the encoders; what we have no word for is kept as it is, and nothing is None."""
    fields = camel(data)
    if fields.get("thought") is False:
        del fields["thought"]
    if not fields.keys() - {"thought"}:
        return None
    kind = next((kind for kind in _DECODERS if kind in fields), None)
    if kind is None:
        return Opaque(wire=NAME, data=data)
    try:
        part = _DECODERS[kind](fields, where)
    except TypeError as error:
        raise invalid_field(f"{where}.{kind}", str(error)) from error
    return part or Opaque(wire=NAME, data=data)


def _text(fields: JsonObject, _: str) -> Part | None:
    text = fields.pop("text", None)
    thought = fields.pop("thought", False)
    if not isinstance(text, str | None):
        raise TypeError("expected a text")
    if text is None and not fields.keys() <= _BESIDE_A_THOUGHT:
        return None
    if thought:
        return Thinking(text=text or "", redacted=text is None, extra={NAME: fields})
    return Text(text=text or "", extra=make_extra(NAME, fields))


_BESIDE_A_THOUGHT = frozenset(("thoughtSignature", "partMetadata"))


def _inline(fields: JsonObject, where: str) -> Part | None:
    blob = _inner(fields, "inlineData")
    mime = blob.pop("mimeType", None)
    kind = _media_kind(mime)
    # A picture that is a thought is a draft, not the answer (gemini-3-pro-image, 2025-11).
    if kind is None or "thought" in fields:
        return None
    try:
        data = decode_base64(str(blob.pop("data", "")))
    except ValueError as error:
        raise invalid_field(f"{where}.inlineData", str(error)) from error
    name = {"name": blob["displayName"]} if kind is Document and "displayName" in blob else {}
    extra = make_extra(NAME, {**fields, **({"inlineData": blob} if blob else {})})
    return kind(data=data, mime=str(mime), extra=extra, **name)


def _media_kind(mime: object) -> Callable[..., Part] | None:
    kind, _, subtype = mime.partition("/") if isinstance(mime, str) else ("", "", "")
    if kind == "text" or (kind == "application" and subtype == "pdf"):
        return Document
    return {"image": Image, "audio": Audio}.get(kind)


def _file(fields: JsonObject, _: str) -> Part | None:
    file = _inner(fields, "fileData")
    mime, url = file.pop("mimeType", None), file.pop("fileUri", None)
    if _media_kind(mime) is not Image or not str(url).startswith(("https://", "http://")) or str(url).startswith(FILES):
        return None
    return Image(url=url, mime=mime, extra={NAME: {**fields, **({"fileData": file} if file else {})}})


def _inner(fields: JsonObject, name: str) -> JsonObject:
    inner = fields.pop(name)
    if not is_object(inner):
        raise TypeError("expected an object")
    return camel(inner)


def _call(fields: JsonObject, where: str) -> ToolCall:
    """Its extra always has this wire's name: a call that is known here, with the id that it had here, or none."""
    shape, inner = read_fields(FunctionCall, _inner(fields, "functionCall"), f"{where}.functionCall")
    return ToolCall(
        id=shape.id or "",
        name=shape.name,
        arguments=shape.args,
        extra={NAME: {**({"id": shape.id} if shape.id else {}), **fields, **make_extra("functionCall", inner)}},
    )


def _result(fields: JsonObject, where: str) -> ToolResult:
    shape, extra = read_fields(FunctionResponse, _inner(fields, "functionResponse"), f"{where}.functionResponse")
    text, is_error, whole = _decode_response(shape.response)
    if not whole:
        extra["response"] = shape.response
    if fields:
        extra["beside"] = fields
    content: str | tuple[ResultPart, ...] = text
    if shape.parts:
        extra["media"] = True
        media = [_media(part, f"{where}.functionResponse.parts[{i}]") for i, part in enumerate(shape.parts) if part]
        content = (Text(text=text), *media)
    return ToolResult(
        id=shape.id or "", name=shape.name, content=content, is_error=is_error, extra=make_extra(NAME, extra)
    )


def _media(data: JsonObject, where: str) -> ResultPart:
    part = decode_part(data, where)
    return part if isinstance(part, Image | Document) else Opaque(wire=NAME, data=data)


def _decode_response(response: JsonObject) -> tuple[str, bool, bool]:
    """The text of a response, whether it is an error, and whether these two say all of it."""
    is_error = "error" in response
    value: Any = response
    if len(response) == 1:
        value = response.get("error", response.get("output", response))
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text, is_error, _encode_response(ToolResult(id="", content=text, is_error=is_error)) == response


_DECODERS: dict[str, Callable[[JsonObject, str], Part | None]] = {
    "functionCall": _call,
    "functionResponse": _result,
    "inlineData": _inline,
    "fileData": _file,
    "text": _text,
    "thought": _text,
}
