"""Parts of messages and tools as content blocks of Converse, for the client and the server.

A block is an object with one member, which names its kind: `{"text": …}`, `{"toolUse": …}`.
"""

import re
from typing import Any

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.types import (
    AnyTool,
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
    is_list,
    is_object,
)
from dragoman.types.data_urls import encode_base64, is_data_url
from dragoman.types.fast_constructors import new_call, new_result, new_text
from dragoman.wires.bedrock.hosted_tools import decode_hosted_block, decode_hosted_tool, read_citations
from dragoman.wires.bedrock.schema import (
    CALL_ID,
    CALL_ID_LENGTH,
    DOCUMENT_FORMATS,
    DOCUMENT_TYPES,
    IMAGE_FORMATS,
    IMAGE_TYPES,
    NAME,
    ConverseMedia,
    ConverseResult,
    ToolSpec,
    ToolUse,
)
from dragoman.wires.common.extra import VERBATIM, make_extra, wire_extra
from dragoman.wires.common.history import cannot_send, fit_id, has_content
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import NO_ARGUMENTS, object_schema
from dragoman.wires.common.request_body import decode_base64_field, invalid_field, read_fields, require_object

DOCUMENT_NAME = "document"


def encode_block(part: Part, notices: NoticeCollector) -> JsonObject:
    """One block of a message."""
    match part:
        case Text():
            return _encode_text(part)
        case Thinking():
            return encode_thinking(part)
        case ToolCall():
            return {"toolUse": encode_call(part, fit_id(part.id, CALL_ID, CALL_ID_LENGTH, notices))}
        case ToolResult():
            return encode_result(part, notices)
        case Image():
            if part.detail not in (None, "auto"):
                notices.add("dropped", "image detail", "not supported")
            return encode_image(part)
        case Document():
            return _encode_document(part, notices)
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def _encode_text(part: Text) -> JsonObject:
    extra = wire_extra(part.extra, NAME)
    if "json" in (own := {**wire_extra(part.extra, NAME + VERBATIM), **extra}):
        return {"json": own["json"]}
    if "guardContent" in extra:
        return {"guardContent": extra["guardContent"]}
    if "citations" in extra:
        content = {"content": [{"text": part.text}]} if part.text else {}
        return {"citationsContent": {**content, **extra}}
    return {"text": part.text}


def encode_thinking(part: Thinking) -> JsonObject:
    """The block of thinking: a text and its signature, or encrypted bytes."""
    extra = wire_extra(part.extra, NAME)
    if "redactedContent" in extra:
        return {"reasoningContent": {"redactedContent": extra["redactedContent"]}}
    return {"reasoningContent": {"reasoningText": {"text": part.text, **extra}}}


def encode_call(call: ToolCall, id: str) -> JsonObject:
    """The content of a call's block."""
    return {"toolUseId": id, "name": call.name, "input": call.arguments, **wire_extra(call.extra, NAME)}


def encode_image(image: Image) -> JsonObject:
    """The block of an image, with its bytes."""
    if image.data is None and is_data_url(image.url or ""):
        try:
            image = Image.from_data_url(image.url or "")
        except ValueError as error:
            raise InvalidRequest(f"the URL of an image is not valid: {error}") from error
    if image.data is None:
        raise Unsupported(f"{NAME}: cannot send the URL of an image; pass the bytes, or fetch_images=True")
    format = IMAGE_FORMATS.get(image.mime or "image/png")
    if format is None:
        raise cannot_send(image, NAME)
    data = {"format": format, "source": {"bytes": encode_base64(image.data)}}
    return {"image": {**data, **wire_extra(image.extra, NAME)}}


def _encode_document(document: Document, notices: NoticeCollector) -> JsonObject:
    format = DOCUMENT_FORMATS.get(document.mime, "txt" if document.mime.startswith("text/") else None)
    if format is None:
        raise cannot_send(document, NAME)
    if document.mime not in DOCUMENT_FORMATS:
        notices.add("changed", "type of a document", f"{document.mime} is sent as text/plain")
    name = re.sub(r"[^A-Za-z0-9 ()\[\]-]+", "-", document.name or DOCUMENT_NAME)
    name = re.sub(r"\s+", " ", name).strip()[:200] or DOCUMENT_NAME
    if name != (document.name or DOCUMENT_NAME):
        notices.add("renamed", "name of a document", f"became {name}: only letters, digits, blanks, - and brackets")
    data = {"format": format, "name": name, "source": {"bytes": encode_base64(document.data)}}
    return {"document": {**data, **wire_extra(document.extra, NAME)}}


def encode_result(result: ToolResult, notices: NoticeCollector) -> JsonObject:
    """The block with the result of one call."""
    parts: tuple[ResultPart, ...] = result.parts
    content = [encode_block(part, notices) for part in parts if can_send(part, notices)]
    id = fit_id(result.id, CALL_ID, CALL_ID_LENGTH, notices)
    status = {"status": "error"} if result.is_error else {}
    return {"toolResult": {"toolUseId": id, "content": content, **status, **wire_extra(result.extra, NAME)}}


def can_send(part: Part, notices: NoticeCollector) -> bool:
    """Whether a part can be sent; a text of white space only if it has fields of its own."""
    has_fields = isinstance(part, Text) and bool(wire_extra(part.extra, NAME))
    return has_fields or has_content(part, notices)


def decode_block(data: JsonObject, where: str) -> Part:
    """The inverse of `encode_block`; an unknown block becomes an Opaque."""
    part = (_decode_known(data, where) or decode_hosted_block(data)) if len(data) == 1 else None
    # A cache point only saves money.
    return Opaque(wire=NAME, data=data, is_optional=data.keys() == {"cachePoint"}) if part is None else part


def _decode_known(data: JsonObject, where: str) -> Part | None:
    match data:
        case {"text": str(text)}:
            return new_text(text=text)
        case {"json": value}:
            return new_text(text=encode_json(value).decode(), extra={NAME + VERBATIM: {"json": value}})
        case {"guardContent": {"text": {"text": str(text)}} as guard}:
            return new_text(text=text, extra={NAME: {"guardContent": guard}})
        case {"citationsContent": content} if is_object(content):
            return decode_citations(content)
        case {"reasoningContent": {"reasoningText": inner}} if is_object(inner):
            rest = {key: value for key, value in inner.items() if key != "text" and value is not None}
            return Thinking(text=str(inner.get("text") or ""), extra={NAME: rest})
        case {"reasoningContent": {"redactedContent": str(inner)}}:
            return Thinking(text="", redacted=True, extra={NAME: {"redactedContent": inner}})
        case {"toolUse": {"type": _}}:
            return None  # a call of the provider's own tool, which it has run itself
        case {"toolUse": call}:
            fields, rest = read_fields(ToolUse, call, f"{where}.toolUse")
            arguments = fields.input if is_object(fields.input) else {}
            return new_call(
                id=fields.tool_use_id, name=fields.name, arguments=arguments, extra=make_extra(NAME, without_none(rest))
            )
        case {"image": media}:
            return _decode_image(media, f"{where}.image")
        case {"document": media}:
            return _decode_document(media, f"{where}.document")
        case _:
            return None


def decode_citations(content: JsonObject) -> Text:
    """The text of a block with citations."""
    texts = content.get("content")
    text = "".join(str(item.get("text") or "") for item in texts if is_object(item)) if is_list(texts) else ""
    rest = {key: value for key, value in content.items() if key != "content"}
    return new_text(text=text, extra={NAME: rest}, citations=read_citations(content.get("citations")))


def _decode_image(media: Any, where: str) -> Part | None:
    fields, rest = read_fields(ConverseMedia, media, where)
    mime, source = IMAGE_TYPES.get(fields.format), fields.source.get("bytes")
    if mime is None or not isinstance(source, str) or fields.source.keys() != {"bytes"}:
        return None
    return Image(
        data=decode_base64_field(source, f"{where}.source.bytes"), mime=mime, extra=make_extra(NAME, without_none(rest))
    )


def _decode_document(media: Any, where: str) -> Part | None:
    fields, rest = read_fields(ConverseMedia, media, where)
    mime, name = DOCUMENT_TYPES.get(fields.format), None if fields.name == DOCUMENT_NAME else fields.name
    match fields.source:
        case {"bytes": str(source), **others} if mime is not None and not others:
            return Document(
                data=decode_base64_field(source, f"{where}.source.bytes"),
                mime=mime,
                name=name,
                extra=make_extra(NAME, without_none(rest)),
            )
        case {"text": str(text), **others} if not others:
            data = text.encode()
        case {"content": [*blocks], **others} if not others and all(_is_text(block) for block in blocks):
            data = "\n".join(block["text"] for block in blocks).encode()
        case _:
            return None
    # Converse gets its own form of the source back, and a format that is not one of text.
    own = {**without_none(rest), "source": fields.source}
    if mime is None or not mime.startswith("text/"):
        own |= {"format": fields.format} if fields.format else {}
        mime = "text/plain"
    return Document(data=data, mime=mime, name=name, extra={NAME: own})


def _is_text(block: Any) -> bool:
    return is_object(block) and block.keys() == {"text"} and isinstance(block["text"], str)


def decode_result(data: JsonObject, where: str) -> ToolResult:
    """The inverse of `encode_result`, without the name of the tool, which its call has."""
    fields, rest = read_fields(ConverseResult, data["toolResult"], f"{where}.toolResult")
    content: str | tuple[ResultPart, ...]
    match fields.content:
        case [{"text": str(text)} as only] if len(only) == 1:
            content = text
        case []:
            content = ""
        case blocks:
            content = tuple(_result_part(block, f"{where}.toolResult.content[{i}]") for i, block in enumerate(blocks))
    return new_result(
        id=fields.tool_use_id,
        name="",
        content=content,
        is_error=fields.status == "error",
        extra=make_extra(NAME, without_none(rest)),
    )


def _result_part(data: JsonObject, where: str) -> ResultPart:
    part = decode_block(data, where)
    if isinstance(part, Text | Image | Document | Opaque):
        return part
    raise invalid_field(where, f"must not be of type {part.__struct_config__.tag} inside a result")


def encode_tool(tool: Tool | Opaque, notices: NoticeCollector) -> JsonObject:
    """The definition of a tool."""
    if isinstance(tool, Opaque):
        return tool.data
    schema = {"json": object_schema(tool, notices)}
    fields = {"name": tool.name, "description": tool.description or None, "inputSchema": schema}
    return {"toolSpec": {**without_none({**fields, "strict": tool.strict}), **wire_extra(tool.extra, NAME)}}


def decode_tool(data: JsonObject, where: str) -> AnyTool:
    """The inverse of `encode_tool`; a cache point, and a tool that the vocabulary does not have, becomes an Opaque."""
    if data.keys() != {"toolSpec"}:
        return decode_hosted_tool(data) or Opaque(wire=NAME, data=data)
    fields, rest = read_fields(ToolSpec, data["toolSpec"], f"{where}.toolSpec")
    schema = require_object(fields.input_schema.get("json"), f"{where}.toolSpec.inputSchema.json")
    return Tool(
        name=fields.name,
        description=fields.description,
        parameters=None if schema == NO_ARGUMENTS else schema,
        strict=fields.strict,
        extra=make_extra(NAME, without_none(rest)),
    )
