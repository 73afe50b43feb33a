"""Parts of messages to and from the content and the items of the Responses API, for both halves."""

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.events import arguments_text, parse_history_arguments
from dragoman.schema.strict import is_strict
from dragoman.types import (
    Document,
    Image,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    data_url,
    decode_base64,
    encode_base64,
    is_data_url,
    is_list,
    is_object,
    split_data_url,
)
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import invalid_field, read_fields
from dragoman.wires.openai_responses.schema import CUSTOM, NAME, ResponsesCall, ResponsesFunction, is_invented

_NO_ARGUMENTS: dict[bool, JsonObject] = {
    False: {"type": "object", "properties": {}},
    True: {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
}
"""The parameters of a tool that takes none, by whether it is strict."""
_UNNAMED = "document"
_USUAL_DETAIL = "auto"
_USUAL_FORM = "png"


# Content of user messages and of results ------------------------------------------------------------------------------


def encode_content(part: Part) -> JsonObject:
    """One content part of a message that is not the assistant's, or of a result."""
    match part:
        case Text():
            return {"type": "input_text", "text": part.text, **wire_extra(part.extra, NAME)}
        case Image():
            url = data_url(part.mime or "image/png", part.data) if part.data is not None else part.url or ""
            # Servers that check against the SDK's types demand a detail (2026-11).
            image = {"type": "input_image", "image_url": url, "detail": part.detail or _USUAL_DETAIL}
            return {**image, **wire_extra(part.extra, NAME)}
        case Document():
            data = data_url(part.mime, part.data)
            file = {"type": "input_file", "filename": part.name or _UNNAMED, "file_data": data}
            return {**file, **wire_extra(part.extra, NAME)}
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def decode_content(data: JsonObject, where: str) -> Text | Image | Document | Opaque:
    """The mirror of `encode_content`; what we have no word for is kept as it is."""
    read = _CONTENT.get(type_of(data))
    try:
        part = read(data) if read else None
    except ValueError as error:
        raise invalid_field(where, str(error)) from error
    return part or Opaque(wire=NAME, data=data)


def _text(data: JsonObject) -> Text | None:
    text = data.get("text")
    return Text(text=text, extra=make_extra(NAME, _rest(data, "text"))) if isinstance(text, str) else None


def _image(data: JsonObject) -> Image | None:
    url, detail = data.get("image_url"), data.get("detail")
    if not isinstance(url, str) or not isinstance(detail, str | None):
        return None
    detail = None if detail == _USUAL_DETAIL else detail
    extra = make_extra(NAME, _rest(data, "image_url", "detail"))
    if is_data_url(url):
        return msgspec.structs.replace(Image.from_data_url(url, detail=detail), extra=extra)
    return Image(url=url, detail=detail, extra=extra)


def _file(data: JsonObject) -> Document | None:
    file, name = data.get("file_data"), data.get("filename")
    if not isinstance(file, str) or not is_data_url(file) or not isinstance(name, str | None):
        return None
    mime, content = split_data_url(file)
    extra = make_extra(NAME, _rest(data, "file_data", "filename"))
    return Document(data=content, mime=mime, name=None if name == _UNNAMED else name, extra=extra)


_CONTENT = {"input_text": _text, "text": _text, "output_text": _text, "input_image": _image, "input_file": _file}


def type_of(data: JsonObject) -> str:
    """The type of an item or of a content part; "" where it has none."""
    kind = data.get("type")
    return kind if isinstance(kind, str) else ""


def _rest(data: JsonObject, *known: str) -> JsonObject:
    return {key: value for key, value in data.items() if key not in known and key != "type"}


# Message items of the assistant ---------------------------------------------------------------------------------------


def message_extra(item: JsonObject) -> JsonObject:
    """What a message item has beside its content: id, phase, a status that is not the usual one."""
    return item_rest(item, "role", "content")


def item_rest(item: JsonObject, *known: str) -> JsonObject:
    """An item without what we know, without an id of our own making, and without the usual status."""
    rest = _rest(item, *known)
    if is_invented(rest.get("id")):
        del rest["id"]
    if rest.get("status") == "completed":
        del rest["status"]
    return rest


def item_of(text: Text) -> JsonObject:
    """What the message item of a text has beside its content."""
    return wire_extra(wire_extra(text.extra, NAME), "item")


def decode_said(part: JsonObject, item: JsonObject) -> Text | Opaque:
    """A content part of an assistant's message item; `item` is what the item has beside it."""
    kind = type_of(part)
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str) or kind not in ("output_text", "refusal", "input_text", "text"):
        return Opaque(wire=NAME, data={"type": "message", "role": "assistant", **item, "content": [part]})
    rest = {key: value for key, value in _rest(part, "text", "refusal").items() if value not in ([], None)}
    return Text(text=text, extra=text_extra(item, rest, refused=kind == "refusal"))


def text_extra(item: JsonObject, rest: JsonObject, *, refused: bool) -> dict[str, JsonObject]:
    """The extra of a text: of its item, of itself, and whether it is a refusal."""
    own = {**({"item": item} if item else {}), **rest, **({"refusal": True} if refused else {})}
    return make_extra(NAME, own)


EMPTY = "empty"
"""Marks the text that stands for a message item without content, which its reasoning item needs to follow it."""


def encode_said(text: Text) -> JsonObject:
    """The mirror of `decode_said`."""
    rest = {key: value for key, value in wire_extra(text.extra, NAME).items() if key not in ("item", EMPTY)}
    if rest.pop("refusal", False):
        return {"type": "refusal", "refusal": text.text, **rest}
    return {"type": "output_text", "text": text.text, **rest}


def encode_message(texts: list[Text]) -> JsonObject:
    """The message item that some texts were in."""
    item = item_of(texts[0])
    content = [encode_said(text) for text in texts if not wire_extra(text.extra, NAME).get(EMPTY)]
    if "id" in item:
        # An item with an id is an output message, which must have a status and annotations.
        item = {"status": "completed", **item}
        content = [with_annotations(part) for part in content]
    return {"type": "message", "role": "assistant", **item, "content": content}


def with_annotations(part: JsonObject) -> JsonObject:
    """An output text has annotations, if none."""
    return {**part, "annotations": part.get("annotations", [])} if part["type"] == "output_text" else part


def by_item(parts: Iterable[Part]) -> Iterator[list[Text] | Part]:
    """Texts that follow each other in one message item as a list, each other part alone."""
    texts: list[Text] = []
    for part in parts:
        if texts and not (isinstance(part, Text) and item_of(part) == item_of(texts[0])):
            yield texts
            texts = []
        if isinstance(part, Text):
            texts.append(part)
        else:
            yield part
    if texts:
        yield texts


# Other items of the assistant -----------------------------------------------------------------------------------------


def encode_call(call: ToolCall) -> JsonObject:
    """A call's item; the provider's own text of the arguments is given back as it was."""
    extra = wire_extra(call.extra, NAME)
    if is_custom(call):
        return {
            "type": CUSTOM,
            "call_id": call.id,
            "name": call.name,
            "input": call.arguments.get("input", ""),
            **extra,
        }
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments_text(call),
        **extra,
    }


def is_custom(call: ToolCall) -> bool:
    """Whether a call is of a tool that takes plain text."""
    return wire_extra(call.extra, NAME).get("type") == CUSTOM


def call_extra(item: JsonObject) -> JsonObject:
    """What a call's item has beside what a ToolCall says."""
    mark = {"type": CUSTOM} if item.get("type") == CUSTOM else {}
    return {**mark, **item_rest(item, "call_id", "name", "arguments", "input")}


def decode_call(data: JsonObject, where: str) -> ToolCall:
    """The mirror of `encode_call`."""
    shape, _ = read_fields(ResponsesCall, data, where)
    extra = make_extra(NAME, call_extra(data))
    if shape.type == CUSTOM:
        return ToolCall(id=shape.call_id, name=shape.name, arguments={"input": shape.input or ""}, extra=extra)
    text = shape.arguments if isinstance(shape.arguments, str) else encode_json(shape.arguments or {}).decode()
    arguments, raw = parse_history_arguments(text)
    return ToolCall(id=shape.call_id, name=shape.name, arguments=arguments, raw=raw, extra=extra)


def encode_reasoning(thinking: Thinking) -> JsonObject:
    """A reasoning item, verbatim where it came as one."""
    return {"type": "reasoning", "summary": _summary(thinking.text), **wire_extra(thinking.extra, NAME)}


def decode_reasoning(item: JsonObject) -> Thinking:
    """The mirror of `encode_reasoning`: what can be read of it, and the item itself."""
    text = _readable(item.get("content")) or _readable(item.get("summary"))
    rest = _rest(item)
    if is_invented(rest.get("id")):
        del rest["id"]
    if rest.get("summary") == _summary(text):
        del rest["summary"]
    return Thinking(text=text, redacted=not text, extra={NAME: rest})


def _summary(text: str) -> list[JsonObject]:
    return [{"type": "summary_text", "text": text}] if text else []


def _readable(pieces: object) -> str:
    found = [piece.get("text") for piece in pieces if is_object(piece)] if is_list(pieces) else []
    return "\n\n".join(text for text in found if isinstance(text, str) and text)


def encode_made(image: Image) -> JsonObject:
    """The item of an image that the model made."""
    extra = wire_extra(image.extra, NAME)
    if image.data is None:
        return {"type": "image_generation_call", "result": image.url, **extra}
    form = (image.mime or "image/png").removeprefix("image/")
    told = {} if form == _USUAL_FORM else {"output_format": form}
    return {"type": "image_generation_call", "result": encode_base64(image.data), **told, **extra}


def decode_made(item: JsonObject) -> Image | Opaque:
    """The mirror of `encode_made`; an item that has no image is kept as it is."""
    result = item.get("result")
    if not isinstance(result, str):
        return Opaque(wire=NAME, data=item)
    if result.startswith("http"):
        return Image(url=result, extra=make_extra(NAME, item_rest(item, "result")))
    form = item.get("output_format") or _USUAL_FORM
    known = ("result",) if form == _USUAL_FORM else ("result", "output_format")
    extra = make_extra(NAME, item_rest(item, *known))
    try:
        return Image(data=decode_base64(result), mime=f"image/{form}", extra=extra)
    except ValueError:
        return Opaque(wire=NAME, data=item)


# Tools ----------------------------------------------------------------------------------------------------------------


def encode_tool(tool: Tool | Opaque) -> JsonObject:
    """A tool's definition. Without `strict` the server would tighten the schema, so that it is said."""
    if isinstance(tool, Opaque):
        return tool.data
    extra = wire_extra(tool.extra, NAME)
    if "function" in extra:
        return {"type": "function", "name": tool.name, **extra}
    strict = tool.strict is True
    told = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": _NO_ARGUMENTS[strict] if tool.parameters is None else tool.parameters,
        "strict": strict,
    }
    return without_none({**told, **extra})


def decode_tool(data: JsonObject, where: str) -> Tool | Opaque:
    """The mirror of `encode_tool`; tools that are not functions are kept as they are."""
    if data.get("type") != "function":
        return Opaque(wire=NAME, data=data)
    inner = data.get("function")
    # The form of Chat Completions is taken too, where the name stands outside as well (seen 2025-10).
    nested = is_object(inner)
    shape, rest = read_fields(ResponsesFunction, inner if nested else data, f"{where}.function" if nested else where)
    # Some servers take the flag for any schema (2026-08), so a client's own word stands on its own wire.
    loose = shape.strict and shape.parameters is not None and not is_strict(shape.parameters)
    flag = {"strict": shape.strict} if loose or shape.strict is None else {}
    extra = _rest(data, "name") if nested else {**rest, **flag}
    return Tool(
        name=shape.name,
        description=shape.description,
        parameters=None if shape.parameters == _NO_ARGUMENTS[bool(shape.strict)] else shape.parameters,
        strict=shape.strict or None,
        extra=make_extra(NAME, extra),
    )
