"""Parts of messages and tools as contents, steps and tools of an interaction, for the client and the server.

A content is a text or a medium inside of a step. A step is an input of the user, an output of the model, a thought, a
call or a result. `Opaque.data` is always a whole step, except in a result, where it is a content.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from dragoman.schema.adapt import adapt
from dragoman.types import (
    AnyTool,
    Audio,
    Document,
    HostedCall,
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
    is_list,
    is_object,
)
from dragoman.types.checks import shown
from dragoman.types.data_urls import decode_base64, encode_base64
from dragoman.types.fast_constructors import new_result, new_text
from dragoman.wires.common.citations import read_annotations, write_annotation
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.request_body import invalid_field, read_fields, require_object
from dragoman.wires.google_interactions.hosted_tools import (
    decode_hosted_step,
    decode_hosted_tool,
    encode_hosted,
)
from dragoman.wires.google_interactions.schema import (
    CONTENTS,
    FILES,
    NAME,
    RESOLUTIONS,
    SCHEMA_DIALECT,
    CallStep,
    FunctionTool,
    ResultStep,
)

# Contents -------------------------------------------------------------------------------------------------------------


def encode_content(part: Part) -> JsonObject:
    """The content of a text or a medium."""
    match part:
        case Text():
            annotations = [write_annotation(citation, part.text) for citation in part.citations]
            cited = {"annotations": annotations} if annotations else {}
            return {"type": "text", "text": part.text, **cited, **wire_extra(part.extra, NAME)}
        case Image():
            detail = part.detail if part.detail in RESOLUTIONS else None
            return _medium("image", part, part.url, without_none({"resolution": detail}))
        case Document() if part.mime.startswith("video/"):
            return _medium("video", part, part.url, without_none({"name": part.name}))
        case Document():
            return _medium("document", part, part.url, {})
        case Audio():
            return _medium("audio", part, None, {})
        case _:
            raise cannot_send(part, NAME)


def _medium(type: str, part: Image | Document | Audio, url: str | None, more: JsonObject) -> JsonObject:
    source = {"uri": url} if url and not part.data else {"data": encode_base64(part.data or b"")}
    mime = part.mime or ("image/png" if part.data else None)
    return {"type": type, **source, **without_none({"mime_type": mime}), **more, **wire_extra(part.extra, NAME)}


def decode_content(data: JsonObject, where: str) -> Part | None:
    """The inverse of `encode_content`; None if there is no part for the content."""
    kind = data.get("type")
    if kind == "text":
        text = data.get("text", "")
        if not isinstance(text, str):
            raise invalid_field(f"{where}.text", f"must be a text, got {shown(text)}")
        citations = tuple(read_annotations(data.get("annotations")))
        return new_text(text=text, extra=make_extra(NAME, _rest(data, "type", "text")), citations=citations)
    decode = _MEDIA.get(kind) if isinstance(kind, str) else None
    if decode is None:
        return None
    rest = _rest(data, "type", "data", "uri", "mime_type")
    mime, source, uri = data.get("mime_type"), data.get("data"), data.get("uri")
    if isinstance(source, str) and source and uri is None:
        try:
            return decode(decode_base64(source), None, mime, rest)
        except ValueError as error:
            raise invalid_field(f"{where}.data", str(error)) from error
    is_public = isinstance(uri, str) and uri.startswith(("https://", "http://")) and not uri.startswith(FILES)
    return decode(None, uri, mime, rest) if is_public and not source else None


def _rest(data: JsonObject, *known: str) -> JsonObject:
    return {key: value for key, value in data.items() if key not in known and value is not None}


def _image(data: bytes | None, url: str | None, mime: Any, rest: JsonObject) -> Part | None:
    detail = rest.pop("resolution") if rest.get("resolution") in RESOLUTIONS else None
    # A URL from a client of this API is one that Google fetches.
    extra = {NAME: rest} if url is not None else make_extra(NAME, rest)
    return Image(data=data, url=url, mime=mime if isinstance(mime, str) else None, detail=detail, extra=extra)


def _document(data: bytes | None, url: str | None, mime: Any, rest: JsonObject) -> Part | None:
    if not isinstance(mime, str) or mime.startswith("video/"):
        return None
    return Document(data=data or b"", url=url, mime=mime, extra=make_extra(NAME, rest))


def _video(data: bytes | None, url: str | None, mime: Any, rest: JsonObject) -> Part | None:
    if not isinstance(mime, str) or not mime.startswith("video/"):
        return None
    name = rest.pop("name") if isinstance(rest.get("name"), str) else None
    return Document(data=data or b"", url=url, mime=mime, name=name, extra=make_extra(NAME, rest))


def _audio(data: bytes | None, _: str | None, mime: Any, rest: JsonObject) -> Part | None:
    if data is None or not isinstance(mime, str):
        return None
    return Audio(data=data, mime=mime, extra=make_extra(NAME, rest))


_MEDIA: dict[str, Callable[[bytes | None, str | None, Any, JsonObject], Part | None]] = {
    "image": _image,
    "document": _document,
    "video": _video,
    "audio": _audio,
}


# Steps ----------------------------------------------------------------------------------------------------------------


def encode_steps(parts: Iterable[Part], type: str) -> list[JsonObject]:
    """The steps of a message; contents that follow each other are in one step of this type."""
    steps: list[JsonObject] = []
    for is_content, group in groupby(parts, is_content_part):
        if is_content:
            steps.append({"type": type, "content": [encode_content(part) for part in group]})
        else:
            steps += [encode_step(part) for part in group]
    return steps


def is_content_part(part: Part) -> bool:
    """Whether a part is a content, and not a step of its own."""
    return isinstance(part, Text | Image | Document | Audio)


def encode_step(part: Part) -> JsonObject:
    """The step of a part that is not content."""
    match part:
        case Thinking():
            summary = {"summary": [{"type": "text", "text": part.text}]} if part.text else {}
            return {"type": "thought", **summary, **wire_extra(part.extra, NAME)}
        case ToolCall():
            call = {"id": part.id, "name": part.name, "arguments": part.arguments}
            return {"type": "function_call", **call, **wire_extra(part.extra, NAME)}
        case ToolResult():
            return encode_result(part)
        case Opaque():
            return part.data
        case HostedCall() | HostedResult() if (step := encode_hosted(part)) is not None:
            return step
        case _:
            raise cannot_send(part, NAME)


def encode_result(result: ToolResult) -> JsonObject:
    """The step with the result of one call."""
    value: Any = result.content
    if not isinstance(value, str):
        parts: tuple[ResultPart, ...] = result.parts
        own = [part for part in parts if not isinstance(part, Opaque) or part.wire == NAME]
        value = [part.data if isinstance(part, Opaque) else encode_content(part) for part in own]
    head = {"type": "function_result", "call_id": result.id, **without_none({"name": result.name or None})}
    failed = {"is_error": True} if result.is_error else {}
    return {**head, "result": value, **failed, **wire_extra(result.extra, NAME)}


def decode_step(data: JsonObject, where: str) -> list[Part]:
    """The parts of a step of the model; a step that has none is an Opaque."""
    match data.get("type"):
        case "thought":
            return [decode_thought(data)]
        case "function_call":
            call, rest = read_fields(CallStep, data, where)
            extra = make_extra(NAME, _rest(rest, "type"))
            return [ToolCall(id=call.id, name=call.name, arguments=call.arguments, extra=extra)]
        case "model_output":
            parts = decode_contents(data.get("content"), "model_output", f"{where}.content")
            rest = _rest(data, "type", "content")
            return [*parts, *([Opaque(wire=NAME, data={"type": "model_output", **rest})] if rest else [])]
        case "function_response":
            raise invalid_field(f"{where}.type", "must be function_result, got 'function_response'")
        case _:
            return [decode_hosted_step(data) or Opaque(wire=NAME, data=data)]


def decode_contents(content: object, type: str, where: str) -> list[Part]:
    """The parts of the contents of a step of this type: a list, one content, or a text."""
    if content is None:
        return []
    if isinstance(content, str):
        return [new_text(text=content)]
    items = content if is_list(content) else [content]
    return [part for i, item in enumerate(items) for part in decode_item(item, type, f"{where}[{i}]")]


def decode_item(item: object, type: str, where: str) -> list[Part]:
    """The parts of one content of a step of this type."""
    item = require_object(item, where)
    # Older versions of the API had calls and thoughts among the contents.
    if item.get("type") in _STEPS_IN_CONTENT:
        return decode_step(item, where)
    part = decode_content(item, where)
    return [Opaque(wire=NAME, data={"type": type, "content": [item]}) if part is None else part]


_STEPS_IN_CONTENT = ("thought", "function_call", "function_response")


def decode_thought(data: JsonObject) -> Thinking:
    """The inverse of `encode_step` for thoughts. A thought without a summary has only its signature."""
    rest, summary = _rest(data, "type", "summary"), data.get("summary")
    if rest.get("signature") == "":
        del rest["signature"]
    items = summary if is_list(summary) else []
    texts = [item.get("text") for item in items if is_object(item) and item.get("type") == "text"]
    text = "".join(piece for piece in texts if isinstance(piece, str))
    if any(not is_object(item) or item.keys() != {"type", "text"} for item in items):
        rest["summary"] = summary  # it has images or annotations, too
    return Thinking(text=text, redacted=not text, extra={NAME: rest})


def decode_result(data: JsonObject, where: str, names: dict[str, str]) -> ToolResult:
    """The inverse of `encode_result`; `names` are the tools of the calls so far, by id."""
    fields, rest = read_fields(ResultStep, data, where)
    extra = _rest(rest, "type")
    content: str | tuple[ResultPart, ...]
    value = fields.result
    if value is None or isinstance(value, str):
        content = value or ""
    elif is_list(value):
        content = tuple(_result_part(item, f"{where}.result[{i}]") for i, item in enumerate(value))
    else:
        content, extra["result"] = encode_json(value).decode(), value
    return new_result(
        id=fields.call_id,
        name=fields.name or names.get(fields.call_id, ""),
        content=content,
        is_error=bool(fields.is_error),
        extra=make_extra(NAME, extra),
    )


def _result_part(item: Any, where: str) -> ResultPart:
    part = decode_content(require_object(item, where), where)
    return part if isinstance(part, Text | Image | Document) else Opaque(wire=NAME, data=item)


def is_content_type(data: JsonObject) -> bool:
    """Whether an object is a content, and not a step."""
    kind = data.get("type")
    return isinstance(kind, str) and kind in CONTENTS


# Tools ----------------------------------------------------------------------------------------------------------------


def encode_tool(tool: Tool | Opaque, notices: NoticeCollector) -> JsonObject:
    """The definition of a function, or a tool of Google; parameters from a client of this API stay as they are."""
    if isinstance(tool, Opaque):
        return tool.data
    extra, schema = wire_extra(tool.extra, NAME), None
    if tool.parameters is not None and "parameters" not in extra:
        schema, schema_notices = adapt(tool.parameters, SCHEMA_DIALECT, where=f"tools.{tool.name}")
        notices.extend(*schema_notices)
    if tool.strict:
        notices.add("dropped", f"tool {tool.name}: strict", "not supported")
    fields = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", **without_none(fields), **extra}


def decode_tool(data: JsonObject, where: str) -> AnyTool:
    """The inverse of `encode_tool`."""
    if data.get("type") != "function":
        return decode_hosted_tool(data) or Opaque(wire=NAME, data=data)
    function, rest = read_fields(FunctionTool, data, where)
    extra = _rest(rest, "type")
    parameters = function.parameters
    if parameters is not None and adapt(parameters, SCHEMA_DIALECT, where=where)[1]:
        extra["parameters"] = parameters
    return Tool(
        name=function.name, description=function.description, parameters=parameters, extra=make_extra(NAME, extra)
    )
