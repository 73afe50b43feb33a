"""Encodes and decodes the content, items and tools of the Responses API, for both halves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dragoman.schema.strict import is_strict
from dragoman.types import (
    AnyTool,
    Document,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Opaque,
    Part,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    is_list,
    is_object,
)
from dragoman.types.arguments import parse_history_arguments
from dragoman.types.data_urls import data_url, decode_base64, encode_base64, is_data_url, split_data_url
from dragoman.types.fast_constructors import new_call, new_text
from dragoman.wires.common.citations import read_annotations, write_annotation
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, objects, text_of, without_none
from dragoman.wires.common.logprobs import read_logprobs, write_logprobs
from dragoman.wires.common.request_body import invalid_field, read_fields, require_object
from dragoman.wires.openai_responses.client_tools import (
    OfferedTools,
    call_extra,
    decode_client_call,
    decode_client_tool,
    encode_call,
    function_name,
    is_client_call,
)
from dragoman.wires.openai_responses.found_tools import CALLER, as_call_of_caller
from dragoman.wires.openai_responses.hosted_tools import decode_hosted_tool, joined_hosted
from dragoman.wires.openai_responses.schema import CUSTOM, NAME, ResponsesCall, ResponsesFunction, is_own_item_id

_NO_ARGUMENTS: dict[bool, JsonObject] = {
    False: {"type": "object", "properties": {}},
    True: {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
}
"""The parameters of a tool without parameters, by whether it is strict."""
_DEFAULT_FILENAME = "document"
_DEFAULT_DETAIL = "auto"
_DEFAULT_FORMAT = "png"


# Content of user messages and of results ------------------------------------------------------------------------------


def encode_content(part: Part) -> JsonObject:
    """One content part of a user or system message, or of a result."""
    match part:
        case Text():
            return {"type": "input_text", "text": part.text, **wire_extra(part.extra, NAME)}
        case Image():
            url = data_url(part.mime or "image/png", part.data) if part.data is not None else part.url or ""
            # Servers that validate with the SDK's types require a detail (2026-11).
            image = {"type": "input_image", "image_url": url, "detail": part.detail or _DEFAULT_DETAIL}
            return {**image, **wire_extra(part.extra, NAME)}
        case Document(url=str(url)) if not part.data:
            return {"type": "input_file", "file_url": url, **wire_extra(part.extra, NAME)}
        case Document():
            data = data_url(part.mime, part.data)
            file = {"type": "input_file", "filename": part.name or _DEFAULT_FILENAME, "file_data": data}
            return {**file, **wire_extra(part.extra, NAME)}
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def decode_content(data: JsonObject, where: str) -> Text | Image | Document | Opaque:
    """The inverse of `encode_content`; unknown parts become `Opaque`."""
    read = _CONTENT.get(type_of(data))
    try:
        part = read(data) if read else None
    except ValueError as error:
        raise invalid_field(where, str(error)) from error
    return part or Opaque(wire=NAME, data=data)


def _text(data: JsonObject) -> Text | None:
    text = data.get("text")
    return new_text(text=text, extra=make_extra(NAME, _rest(data, "text"))) if isinstance(text, str) else None


def _image(data: JsonObject) -> Image | None:
    url, detail = data.get("image_url"), data.get("detail")
    if not isinstance(url, str) or not isinstance(detail, str | None):
        return None
    detail = None if detail == _DEFAULT_DETAIL else detail
    extra = make_extra(NAME, _rest(data, "image_url", "detail"))
    if is_data_url(url):
        return msgspec.structs.replace(Image.from_data_url(url, detail=detail), extra=extra)
    return Image(url=url, detail=detail, extra=extra)


def _file(data: JsonObject) -> Document | None:
    file, name = data.get("file_data"), data.get("filename")
    if isinstance(url := data.get("file_url"), str) and file is None:
        document = Document.from_url(url)
        return msgspec.structs.replace(document, extra=make_extra(NAME, _rest(data, "file_url")))
    if not isinstance(file, str) or not is_data_url(file) or not isinstance(name, str | None):
        return None
    mime, content = split_data_url(file)
    extra = make_extra(NAME, _rest(data, "file_data", "filename"))
    return Document(data=content, mime=mime, name=None if name == _DEFAULT_FILENAME else name, extra=extra)


_CONTENT = {"input_text": _text, "text": _text, "output_text": _text, "input_image": _image, "input_file": _file}


def type_of(data: JsonObject) -> str:
    """The type of an item or a content part; "" if it has none."""
    return text_of(data.get("type"))


def _rest(data: JsonObject, *known: str) -> JsonObject:
    return {key: value for key, value in data.items() if key not in known and key != "type"}


# Message items of the assistant ---------------------------------------------------------------------------------------


def message_extra(item: JsonObject) -> JsonObject:
    """The fields of a message item besides its content: id, phase, a status other than "completed"."""
    return item_rest(item, "role", "content")


def item_rest(item: JsonObject, *known: str) -> JsonObject:
    """The other fields of an item, without an id made by dragoman and without the status "completed"."""
    rest = _rest(item, *known)
    if is_own_item_id(rest.get("id")):
        del rest["id"]
    if rest.get("status") == "completed":
        del rest["status"]
    return rest


def item_of(text: Text) -> JsonObject:
    """The fields of the message item of a text."""
    return wire_extra(wire_extra(text.extra, NAME), "item")


def decode_output_text(part: JsonObject, item: JsonObject) -> Text | Opaque:
    """A content part of an assistant message; `item` has the other fields of the message item."""
    kind = type_of(part)
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str) or kind not in ("output_text", "refusal", "input_text", "text"):
        return Opaque(wire=NAME, data={"type": "message", "role": "assistant", **item, "content": [part]})
    rest = {key: value for key, value in _rest(part, "text", "refusal", "logprobs").items() if value not in ([], None)}
    logprobs = tuple(read_logprobs(part.get("logprobs")))
    return new_text(
        text=text,
        extra=text_extra(item, rest, refused=kind == "refusal"),
        logprobs=logprobs,
        citations=tuple(read_annotations(rest.get("annotations"))),
    )


def text_extra(item: JsonObject, rest: JsonObject, *, refused: bool) -> dict[str, JsonObject]:
    """The extra of a text: the fields of its item, its own fields, and whether it is a refusal."""
    fields = {**({"item": item} if item else {}), **rest, **({"refusal": True} if refused else {})}
    return make_extra(NAME, fields)


EMPTY_MESSAGE = "empty"
"""Marks the text of a message item without content; the item must stay, because a reasoning item needs it."""


def encode_output_text(text: Text, *, is_answer: bool = False) -> JsonObject:
    """The inverse of `decode_output_text`. Log probabilities of another wire stand only in an answer."""
    rest = {key: value for key, value in wire_extra(text.extra, NAME).items() if key not in ("item", EMPTY_MESSAGE)}
    if rest.pop("refusal", False):
        return {"type": "refusal", "refusal": text.text, **rest}
    logprobs = (
        {"logprobs": write_logprobs(text.logprobs)} if text.logprobs and (is_answer or NAME in text.extra) else {}
    )
    annotations = [write_annotation(citation, text.text) for citation in text.citations]
    cited = {"annotations": annotations} if annotations else {}
    return {"type": "output_text", "text": text.text, **cited, **rest, **logprobs}


def encode_message(texts: list[Text], *, is_answer: bool = False) -> JsonObject:
    """The message item of texts."""
    item = item_of(texts[0])
    content = [
        encode_output_text(text, is_answer=is_answer)
        for text in texts
        if not wire_extra(text.extra, NAME).get(EMPTY_MESSAGE)
    ]
    if "id" in item:
        # An item with an id is an output message, which requires a status and annotations.
        item = {"status": "completed", **item}
        content = [with_annotations(part) for part in content]
    return {"type": "message", "role": "assistant", **item, "content": content}


def with_annotations(part: JsonObject) -> JsonObject:
    """An output text with the required field `annotations`."""
    return {**part, "annotations": part.get("annotations", [])} if part["type"] == "output_text" else part


def by_item(parts: Iterable[Part]) -> Iterator[list[Text] | Part | tuple[HostedCall, HostedResult | None]]:
    """Group consecutive texts of one message item in a list, and calls with their results; other parts stay alone."""
    texts: list[Text] = []
    for part in joined_hosted(parts):
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


def decode_call(data: JsonObject, where: str) -> ToolCall:
    """The inverse of `encode_call`."""
    call, _ = read_fields(ResponsesCall, data, where)
    text: str | None = call.input or ""
    if call.type != CUSTOM:
        text = call.arguments if isinstance(call.arguments, str) else encode_json(call.arguments or {}).decode()
    return make_call(data, call.call_id, call.name, text or "")


def returned_call(request: Request) -> Callable[[ToolCall], ToolCall]:
    """Makes the calls that the client of a request sends back: their items may not have all arguments."""
    tools = OfferedTools(request.tools, request.messages)

    def returned(call: ToolCall) -> ToolCall:
        restored = tools.restore(call)
        if restored is call:
            return call
        item = encode_call(restored)
        decoded = decode_client_call(item) if is_client_call(item) else decode_call(item, "call")
        return as_call_of_caller(decoded) if call.name == CALLER else decoded

    return returned


def make_call(item: JsonObject, id: str, name: str, text: str) -> ToolCall:
    """A call from its item, and the text of its arguments or, for a custom tool, its input."""
    name, extra = name_and_extra(item, name)
    if item.get("type") == CUSTOM:
        return new_call(id=id, name=name, arguments={"input": text}, extra=extra)
    arguments, raw = parse_history_arguments(text)
    return new_call(id=id, name=name, arguments=arguments, raw=raw, extra=extra)


def name_and_extra(item: JsonObject, name: str) -> tuple[str, dict[str, Any]]:
    """The name of a call's function, and what else its item says."""
    namespace = item.get("namespace")
    rest = {key: value for key, value in item.items() if key not in _CALL_MEMBERS}
    if not isinstance(namespace, str) or not namespace:
        return name, call_extra(item.get("type"), rest)
    extra = call_extra(item.get("type"), rest, name=name, namespace=namespace)
    return function_name(namespace, name), extra


_CALL_MEMBERS = frozenset({"type", "call_id", "name", "namespace", "arguments", "input"})


def encode_reasoning(thinking: Thinking) -> JsonObject:
    """A reasoning item; verbatim if the thinking came as one."""
    return {"type": "reasoning", "summary": _summary(thinking.text), **wire_extra(thinking.extra, NAME)}


def decode_reasoning(item: JsonObject) -> Thinking:
    """The inverse of `encode_reasoning`: the readable text, with the item as extra."""
    text = _readable(item.get("content")) or _readable(item.get("summary"))
    rest = _rest(item)
    if is_own_item_id(rest.get("id")):
        del rest["id"]
    if rest.get("summary") == _summary(text):
        del rest["summary"]
    return Thinking(text=text, redacted=not text, extra={NAME: rest})


def _summary(text: str) -> list[JsonObject]:
    return [{"type": "summary_text", "text": text}] if text else []


def _readable(pieces: object) -> str:
    texts = [piece.get("text") for piece in objects(pieces)]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def encode_image_call(image: Image) -> JsonObject:
    """The item of an image that the model made."""
    extra = wire_extra(image.extra, NAME)
    if image.data is None:
        return {"type": "image_generation_call", "result": image.url, **extra}
    format = (image.mime or "image/png").removeprefix("image/")
    output_format = {} if format == _DEFAULT_FORMAT else {"output_format": format}
    return {"type": "image_generation_call", "result": encode_base64(image.data), **output_format, **extra}


def decode_image_call(item: JsonObject) -> Image | Opaque:
    """The inverse of `encode_image_call`; an item without an image becomes `Opaque`."""
    result = item.get("result")
    if not isinstance(result, str):
        return Opaque(wire=NAME, data=item)
    if result.startswith("http"):
        return Image(url=result, extra=make_extra(NAME, item_rest(item, "result")))
    format = item.get("output_format") or _DEFAULT_FORMAT
    known = ("result",) if format == _DEFAULT_FORMAT else ("result", "output_format")
    extra = make_extra(NAME, item_rest(item, *known))
    try:
        return Image(data=decode_base64(result), mime=f"image/{format}", extra=extra)
    except ValueError:
        return Opaque(wire=NAME, data=item)


def decode_other_item(item: JsonObject) -> Opaque:
    """An item that the vocabulary does not have. The list of tools of an MCP server is only known to save time."""
    return Opaque(wire=NAME, data=item, is_optional=type_of(item) in ("mcp_list_tools", "compaction_trigger"))


# Tools ----------------------------------------------------------------------------------------------------------------


def encode_tool(tool: Tool | Opaque) -> JsonObject:
    """The definition of a tool; `strict` is always sent, because the server makes the schema strict if it is absent."""
    if isinstance(tool, Opaque):
        return tool.data
    extra = wire_extra(tool.extra, NAME)
    if "function" in extra:
        return {"type": "function", "name": tool.name, **extra}
    strict = tool.strict is True
    fields = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": _NO_ARGUMENTS[strict] if tool.parameters is None else tool.parameters,
        "strict": strict,
    }
    return without_none({**fields, **extra})


def decode_tools(data: object, where: str) -> list[AnyTool]:
    """The inverse of `encode_tools`; a tool of the provider that the vocabulary does not have becomes `Opaque`."""
    tools: list[AnyTool] = []
    for i, tool in enumerate(data if is_list(data) else ()):
        tools += decode_tool_entry(require_object(tool, f"{where}[{i}]"), f"{where}[{i}]")
    return tools


def decode_tool_entry(data: JsonObject, where: str) -> Sequence[AnyTool]:
    """The tools of one entry: a namespace has several."""
    hosted = decode_hosted_tool(data)
    return [hosted] if hosted else decode_client_tool(data, where, decode_tool) or [decode_tool(data, where)]


def decode_tool(data: JsonObject, where: str) -> Tool | Opaque:
    """The inverse of `encode_tool`; a tool that is not a function becomes `Opaque`."""
    if data.get("type") != "function":
        return Opaque(wire=NAME, data=data)
    inner = data.get("function")
    # Servers also accept the form of Chat Completions, with the name outside as well (seen 2025-10).
    nested = is_object(inner)
    function, rest = read_fields(ResponsesFunction, inner if nested else data, f"{where}.function" if nested else where)
    # Some servers accept the flag for any schema (2026-08), so it is sent as it is on this wire.
    invalid = function.strict and function.parameters is not None and not is_strict(function.parameters)
    flag = {"strict": function.strict} if invalid or function.strict is None else {}
    extra = _rest(data, "name") if nested else {**rest, **flag}
    return Tool(
        name=function.name,
        description=function.description,
        parameters=None if function.parameters == _NO_ARGUMENTS[bool(function.strict)] else function.parameters,
        strict=function.strict or None,
        extra=make_extra(NAME, extra),
    )
