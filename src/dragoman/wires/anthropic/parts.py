"""Parts of messages and tools as blocks of the Messages API, for the client and the server."""

from collections.abc import Callable
from typing import Any, TypeAlias

from dragoman.errors import InvalidRequest, Unsupported
from dragoman.schema.adapt import adapt
from dragoman.types import (
    AnyTool,
    Document,
    HostedResult,
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
)
from dragoman.types.data_urls import encode_base64, is_data_url
from dragoman.types.fast_constructors import new_call, new_result, new_text
from dragoman.wires.anthropic.citations import are_of_gateway, read_citations
from dragoman.wires.anthropic.client_tools import (
    COVERED,
    decode_client_tool,
    decode_tool_reference,
    own_block,
    own_definition,
)
from dragoman.wires.anthropic.hosted_tools import decode_call, decode_hosted_result, decode_hosted_tool
from dragoman.wires.anthropic.schema import (
    CALL_ID,
    CALL_ID_LENGTH,
    HOSTED_RESULTS,
    NAME,
    SCHEMA_DIALECT,
    AnthropicTool,
    MediaBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.wires.common.extra import CHANGED, TEXT_BEFORE, make_extra, wire_extra
from dragoman.wires.common.history import cannot_send, fit_id, has_content
from dragoman.wires.common.hosted_tools import texts_of
from dragoman.wires.common.json import objects, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import NO_ARGUMENTS, object_schema
from dragoman.wires.common.request_body import decode_base64_field, invalid_field, read_fields


def encode_block(part: Part, notices: NoticeCollector) -> JsonObject:
    """One block of a message."""
    match part:
        case Text() if part.extra and (block := own_block(part)) is not None:
            return block
        case Text():
            return {"type": "text", "text": part.text, **wire_extra(part.extra, NAME)}
        case Thinking():
            head = {"type": "redacted_thinking"} if part.redacted else {"type": "thinking", "thinking": part.text}
            return {**head, **wire_extra(part.extra, NAME)}
        case ToolCall():
            id = fit_id(part.id, CALL_ID, CALL_ID_LENGTH, notices)
            call = {"type": "tool_use", "id": id, "name": part.name, "input": part.arguments}
            return {**call, **wire_extra(part.extra, NAME)}
        case ToolResult():
            return encode_result(part, notices)
        case Image():
            if part.detail not in (None, "auto"):
                notices.add("dropped", "image detail", "not supported")
            if part.data is None and (part.url or "").startswith("http:"):
                raise Unsupported(f"{NAME}: image URLs must use https; pass the bytes instead")
            return encode_image(part)
        case Document():
            title = without_none({"title": part.name})
            context = without_none({"context": wire_extra(part.extra, COVERED).get(TEXT_BEFORE)})
            return {
                "type": "document",
                "source": _source(part, notices),
                **title,
                **context,
                **wire_extra(part.extra, NAME),
            }
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def encode_image(image: Image) -> JsonObject:
    """The block of an image: its bytes, or its URL."""
    url, extra = image.url or "", wire_extra(image.extra, NAME)
    if image.data is None and is_data_url(url):
        try:
            image = Image.from_data_url(url)
        except ValueError as error:
            raise InvalidRequest(f"the URL of an image is not valid: {error}") from error
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": url}, **extra}
    media_type, data = image.mime or "image/png", encode_base64(image.data)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}, **extra}


def _source(document: Document, notices: NoticeCollector) -> JsonObject:
    if document.url and not document.data:
        return {"type": "url", "url": document.url}
    if document.mime == "application/pdf":
        return {"type": "base64", "media_type": document.mime, "data": encode_base64(document.data)}
    if not document.mime.startswith("text/"):
        raise cannot_send(document, NAME)
    if document.mime != "text/plain":
        notices.add("changed", "type of a document", f"{document.mime} is sent as text/plain")
    try:
        text = document.data.decode()
    except UnicodeDecodeError as error:
        raise Unsupported(f"{NAME}: a text document must be UTF-8; pass it as a PDF") from error
    return {"type": "text", "media_type": "text/plain", "data": text}


def encode_result(result: ToolResult, notices: NoticeCollector) -> JsonObject:
    """The block with the result of one call."""
    content: Any = result.content
    if not isinstance(content, str):
        content = [encode_block(part, notices) for part in result.parts if has_content(part, notices)]
    elif not has_content(new_text(text=content), notices):
        content = None
    id = fit_id(result.id, CALL_ID, CALL_ID_LENGTH, notices)
    fields = {"content": content or None, "is_error": result.is_error or None}
    return {"type": "tool_result", "tool_use_id": id, **without_none(fields), **wire_extra(result.extra, NAME)}


_Decode: TypeAlias = Callable[[JsonObject, str], Part | None]


def decode_block(data: str | JsonObject, where: str) -> Part:
    """The inverse of `encode_block`; an unknown block becomes an Opaque."""
    if isinstance(data, str):
        return new_text(text=data)
    read = _DECODERS.get(str(data.get("type")))
    return (read(data, where) if read else None) or Opaque(wire=NAME, data=data)


def _rest(rest: JsonObject) -> dict[str, Any]:
    """The members to keep in `extra`; an empty list of citations is left out."""
    return {key: value for key, value in rest.items() if value is not None and (key != "citations" or value)}


def _text(data: JsonObject, where: str) -> Part:
    fields, rest = read_fields(TextBlock, data, where)
    citations = read_citations(rest.get("citations"))
    if are_of_gateway(rest.get("citations")):
        del rest["citations"]
    return new_text(text=fields.text, extra=make_extra(NAME, _rest(rest)), citations=citations)


def _thinking(data: JsonObject, where: str) -> Part:
    fields, rest = read_fields(ThinkingBlock, data, where)
    return Thinking(text=fields.thinking, extra={NAME: thinking_extra(rest)})


def thinking_extra(rest: JsonObject) -> JsonObject:
    """The signature and other members of thinking; an empty signature is left out."""
    return {key: value for key, value in rest.items() if value is not None and (key != "signature" or value)}


def _redacted(data: JsonObject, _: str) -> Part:
    return decode_redacted(data)


def decode_redacted(data: JsonObject) -> Thinking:
    """Encrypted thinking."""
    rest = {key: value for key, value in data.items() if key != "type"}
    return Thinking(text="", redacted=True, extra={NAME: rest})


def _tool_use(data: JsonObject, where: str) -> Part:
    fields, rest = read_fields(ToolUseBlock, data, where)
    return new_call(id=fields.id, name=fields.name, arguments=fields.input, extra=make_extra(NAME, _rest(rest)))


def _image(data: JsonObject, where: str) -> Part | None:
    fields, rest = read_fields(MediaBlock, data, where)
    extra = make_extra(NAME, _rest(rest))
    match fields.source:
        case {"type": "base64", "media_type": str(mime), "data": str(text)}:
            return Image(data=decode_base64_field(text, f"{where}.source.data"), mime=mime, extra=extra)
        case {"type": "url", "url": str(url)}:
            return Image(url=url, extra=extra)
        case _:
            return None


def _document(data: JsonObject, where: str) -> Part | None:
    fields, rest = read_fields(MediaBlock, data, where)
    context = rest.pop("context", None)
    extra = {**make_extra(NAME, _rest(rest)), **({COVERED: {TEXT_BEFORE: context}} if context else {})}
    match fields.source:
        case {"type": "base64", "media_type": "application/pdf" as mime, "data": str(text)}:
            return Document(
                data=decode_base64_field(text, f"{where}.source.data"), mime=mime, name=fields.title, extra=extra
            )
        case {"type": "text", "data": str(text)}:
            return Document(data=text.encode(), mime="text/plain", name=fields.title, extra=extra)
        case {"type": "url", "url": str(url)}:
            return Document(data=b"", mime="application/pdf", name=fields.title, url=url, extra=extra)
        case _:
            return None


def _search_result(data: JsonObject, _: str) -> Part | None:
    """A search result of the user as a text for other wires."""
    blocks = data.get("content")
    texts = [str(block.get("text") or "") for block in objects(blocks)]
    head = [str(data[name]) for name in ("title", "source") if data.get(name)]
    covered = {"block": data, CHANGED: "a search result is sent as text"}
    return Text(text="\n".join([*head, *texts]), extra={COVERED: covered})


def _compaction(data: JsonObject, _: str) -> Part | None:
    """The summary of an earlier conversation; None if it is encrypted."""
    text = data.get("content")
    return HostedResult(id="", tool="compaction", content=text, extra={NAME: data}) if isinstance(text, str) else None


_DECODERS: dict[str, _Decode] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    "search_result": _search_result,
    "compaction": _compaction,
    "server_tool_use": decode_call,
    "mcp_tool_use": decode_call,
    **dict.fromkeys(HOSTED_RESULTS, decode_hosted_result),
}


def decode_result(data: JsonObject, where: str) -> ToolResult:
    """The inverse of `encode_result`, without the name of the tool, which its call has."""
    fields, rest = read_fields(ToolResultBlock, data, where)
    content: str | tuple[ResultPart, ...] = fields.content if isinstance(fields.content, str) else ""
    if isinstance(fields.content, list):
        content = tuple(_result_part(piece, f"{where}.content[{i}]") for i, piece in enumerate(fields.content))
    return new_result(
        id=fields.tool_use_id,
        name="",
        content=content,
        is_error=bool(fields.is_error),
        extra=make_extra(NAME, _rest(rest)),
    )


def _result_part(data: str | JsonObject, where: str) -> ResultPart:
    if not isinstance(data, str) and data.get("type") == "tool_reference":
        return decode_tool_reference(data) or Opaque(wire=NAME, data=data)
    part = decode_block(data, where)
    if isinstance(part, Text | Image | Document | Opaque):
        return part
    raise invalid_field(where, f"must not be of type {part.__struct_config__.tag} inside a result")


def encode_tool(tool: Tool | Opaque, notices: NoticeCollector) -> JsonObject:
    """The definition of a tool; the schema of a strict tool is adapted to what the API can enforce."""
    if isinstance(tool, Opaque):
        return tool.data
    if tool.extra and (definition := own_definition(tool)) is not None:
        return definition
    schema = object_schema(tool, notices)
    if tool.strict:
        schema, schema_notices = adapt(schema, SCHEMA_DIALECT, where=f"tool {tool.name}")
        notices.extend(*schema_notices)
    fields = {"description": tool.description, "input_schema": schema, "strict": tool.strict}
    return {"name": tool.name, **without_none(fields), **wire_extra(tool.extra, NAME)}


def decode_tool(data: JsonObject, where: str) -> AnyTool:
    """The inverse of `encode_tool`; a tool of the provider that the vocabulary does not have becomes an Opaque."""
    if "input_schema" not in data:
        return decode_hosted_tool(data) or decode_client_tool(data) or Opaque(wire=NAME, data=data)
    fields, rest = read_fields(AnthropicTool, data, where)
    callers = texts_of(rest.get("allowed_callers"))
    covered = {COVERED: {CHANGED: "only code was to call it; the model can"}}
    return Tool(
        name=fields.name,
        description=fields.description,
        parameters=None if fields.input_schema == NO_ARGUMENTS else fields.input_schema,
        strict=fields.strict,
        extra={
            **make_extra(NAME, without_none(rest)),
            **(covered if callers and "direct" not in callers else {}),
        },
    )
