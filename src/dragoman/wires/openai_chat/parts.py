"""Encodes and decodes the parts of messages, tool calls and tools, for both halves."""

from collections.abc import Iterable
from itertools import zip_longest

import msgspec

from dragoman.schema.strict import is_strict
from dragoman.types import (
    AnyTool,
    Audio,
    Citation,
    Document,
    HostedCall,
    HostedResult,
    Image,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    TokenLogprob,
    Tool,
    ToolCall,
    is_list,
    is_object,
)
from dragoman.types.arguments import arguments_text, parse_history_arguments
from dragoman.types.base import unchecked
from dragoman.types.data_urls import data_url, decode_base64, encode_base64, is_data_url, split_data_url
from dragoman.types.fast_constructors import new_call, new_text
from dragoman.wires.common.citations import (
    first_text,
    read_annotations,
    read_search_results,
    write_annotation,
)
from dragoman.wires.common.extra import make_extra, wire_extra
from dragoman.wires.common.history import cannot_send
from dragoman.wires.common.json import encode_json, object_of, objects, without_none
from dragoman.wires.common.logprobs import read_logprobs, write_logprobs
from dragoman.wires.common.raw_input import input_text
from dragoman.wires.common.request_body import invalid_field, read_fields
from dragoman.wires.openai_chat.custom_tools import decode_custom_tool
from dragoman.wires.openai_chat.hosted_tools import decode_hosted_tool, write_executed
from dragoman.wires.openai_chat.schema import (
    AUDIO_FORMATS,
    AUDIO_TYPES,
    COVERED,
    CUSTOM,
    FUNCTION_CALL,
    NAME,
    REASONING_FIELDS,
    ChatAssistantMessage,
    ChatFunctionDefinition,
    ChatInputFunctionCall,
    ChatMessage,
)


def encode_part(part: Part) -> JsonObject:
    """One content part of a user message."""
    match part:
        case Text():
            return {"type": "text", "text": part.text, **wire_extra(part.extra, NAME)}
        case Image():
            image = without_none({"url": image_url(part), "detail": part.detail})
            return _with_extra("image_url", image, part.extra)
        case Document() if part.data or not part.url:
            file = {"filename": part.name or "document", "file_data": data_url(part.mime, part.data)}
            return _with_extra("file", file, part.extra)
        case Audio() if part.mime in AUDIO_FORMATS:
            audio = {"data": encode_base64(part.data), "format": AUDIO_FORMATS[part.mime]}
            return _with_extra("input_audio", audio, part.extra)
        case Opaque():
            return part.data
        case _:
            raise cannot_send(part, NAME)


def _with_extra(kind: str, inner: JsonObject, extra: JsonObject) -> JsonObject:
    """A part with the extra fields of the part and of its inner object."""
    fields = wire_extra(extra, NAME)
    return {"type": kind, **fields, kind: {**inner, **wire_extra(fields, kind)}}


def decode_part(data: str | JsonObject, where: str) -> Part:
    """The inverse of `encode_part`; unknown parts become `Opaque`."""
    if isinstance(data, str):
        return new_text(text=data)
    read = _DECODERS.get(str(data.get("type")))
    try:
        part = read(data) if read else None
    except ValueError as error:
        raise invalid_field(where, str(error)) from error
    return part or Opaque(wire=NAME, data=data)


def _text(data: JsonObject) -> Part | None:
    text = data.get("text")
    return new_text(text=text, extra=_rest(data, "text")) if isinstance(text, str) else None


def _image(data: JsonObject) -> Part | None:
    image = data.get("image_url")
    image = {"url": image} if isinstance(image, str) else image
    if not is_object(image) or not isinstance(image.get("url"), str) or not _is_text(image.get("detail")):
        return None
    url, extra = image["url"], _extra(data, "image_url", image, "url", "detail")
    if is_data_url(url):
        return msgspec.structs.replace(Image.from_data_url(url, detail=image.get("detail")), extra=extra)
    return Image(url=url, detail=image.get("detail"), extra=extra)


def _file(data: JsonObject) -> Part | None:
    file = data.get("file")
    if not is_object(file) or not is_data_url(str(file.get("file_data"))) or not _is_text(file.get("filename")):
        return None
    mime, content = split_data_url(file["file_data"])
    extra = _extra(data, "file", file, "file_data", "filename")
    return Document(data=content, mime=mime, name=file.get("filename"), extra=extra)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _audio(data: JsonObject) -> Part | None:
    audio = data.get("input_audio")
    mime = AUDIO_TYPES.get(str(audio.get("format"))) if is_object(audio) else None
    if not is_object(audio) or mime is None or not isinstance(audio.get("data"), str):
        return None
    extra = _extra(data, "input_audio", audio, "data", "format")
    return Audio(data=decode_base64(audio["data"]), mime=mime, extra=extra)


_DECODERS = {"text": _text, "image_url": _image, "file": _file, "input_audio": _audio}


def decode_image_part(data: JsonObject, where: str) -> Part:
    """An image that a model made, marked with this wire so that it is sent back in `images`."""
    part = decode_part(data, where)
    if not isinstance(part, Image):
        return Opaque(wire=NAME, data={"images": [data]})
    return msgspec.structs.replace(part, extra={NAME: wire_extra(part.extra, NAME)})


def reasoning_fields(message: ChatMessage | ChatAssistantMessage) -> list[str]:
    """The fields that contain the thinking: some servers send it twice, and some send a second field that is empty."""
    if message.reasoning_content is None and message.reasoning is None and message.reasoning_text is None:
        return []
    fields = [field for field in REASONING_FIELDS if isinstance(getattr(message, field), str)]
    if len(fields) < 2:
        return fields
    first = next((field for field in fields if getattr(message, field)), fields[0])
    return [field for field in fields if getattr(message, field) == getattr(message, first)]


def decode_thinking(data: JsonObject) -> Thinking | None:
    """The thinking in a content part, where it is a list of texts; None for other parts."""
    if data.get("type") == "reasoning" and is_list(data.get("summary")):
        return _decode_summary(objects(data["summary"]))
    texts = data.get("thinking")
    if data.get("type") != "thinking" or not is_list(texts):
        return None
    text = "".join(str(item.get("text", "")) for item in texts if is_object(item))
    rest = {key: value for key, value in data.items() if key not in ("type", "thinking")}
    return Thinking(text=text, extra={NAME: {"fields": ["content"], **({"chunk": rest} if rest else {})}})


def _decode_summary(texts: list[JsonObject]) -> Thinking:
    """The thinking in a part as Databricks sends it: texts, the last with a signature."""
    signed = {key: value for item in texts for key, value in item.items() if key not in ("type", "text") and value}
    text = "".join(str(item.get("text") or "") for item in texts)
    return Thinking(text=text, extra={NAME: {"fields": ["content"], "summary": signed}})


def encode_summary(text: str, signed: JsonObject) -> JsonObject:
    """The inverse of `_decode_summary`, as one text."""
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, **signed}]}


def _rest(data: JsonObject, known: str) -> JsonObject:
    rest = {key: value for key, value in data.items() if key not in ("type", known)}
    return make_extra(NAME, rest)


def _extra(data: JsonObject, kind: str, inner: JsonObject, *known: str) -> JsonObject:
    """The unknown fields of a part and of its inner object."""
    rest = {key: value for key, value in inner.items() if key not in known and value is not None}
    return make_extra(NAME, {**wire_extra(_rest(data, kind), NAME), **make_extra(kind, rest)})


def image_url(image: Image) -> str:
    """The URL of an image, or a data URL with its bytes."""
    if image.data is None:
        return image.url or ""
    return data_url(image.mime or "image/png", image.data)


def encode_call(call: ToolCall, *, to_provider: bool = False) -> JsonObject:
    """A tool call, with the provider's original text of the arguments."""
    own = {**wire_extra(call.extra, COVERED), **wire_extra(call.extra, NAME)} if call.extra else {}
    extra = {key: value for key, value in own.items() if key != FUNCTION_CALL}
    if extra.get("type") == CUSTOM:
        field, inner = CUSTOM, {"name": call.name, "input": input_text(call)}
    else:
        field, inner = "function", {"name": call.name, "arguments": arguments_text(call, to_provider=to_provider)}
    return {"id": call.id, "type": field, **extra, field: {**inner, **wire_extra(extra, field)}}


def is_function_call(call: ToolCall) -> bool:
    """Whether a call has the legacy form `function_call`: one per message, without an id."""
    return bool(wire_extra(call.extra, NAME).get(FUNCTION_CALL))


def decode_function_call(data: JsonObject, where: str) -> ToolCall:
    """A `function_call`, marked as such in its extra."""
    call = decode_function(data, where)
    return msgspec.structs.replace(call, extra={NAME: {FUNCTION_CALL: True, **wire_extra(call.extra, NAME)}})


def decode_call(data: JsonObject, where: str) -> ToolCall:
    """The inverse of `encode_call`."""
    id, extra = str(data.get("id") or ""), call_rest(data)
    if is_object(custom := data.get("custom")):
        arguments = {"input": custom.get("input", "")}
        own = {COVERED: {"type": CUSTOM}, **make_extra(NAME, extra)}
        return new_call(id=id, name=str(custom.get("name", "")), arguments=arguments, extra=own)
    call = decode_function(data.get("function"), f"{where}.function")
    return unchecked(call, id=id, extra=make_extra(NAME, extra))


def decode_function(data: object, where: str) -> ToolCall:
    """A call without an id, from its `function` object."""
    function, _ = read_fields(ChatInputFunctionCall, data, where)
    text = function.arguments
    text = text if isinstance(text, str) else encode_json(text or {}).decode()
    arguments, raw = parse_history_arguments(text)
    extra = make_extra(NAME, call_rest({"function": data}))
    return new_call(id="", name=function.name, arguments=arguments, raw=raw, extra=extra)


def call_rest(data: JsonObject) -> JsonObject:
    """The fields of a call that `ToolCall` does not have; those inside `function` or `custom` under that name."""
    rest = {key: value for key, value in data.items() if key not in _CALL_MEMBERS}
    for field, known in (("function", ("name", "arguments")), ("custom", ("name", "input"))):
        inner = data.get(field)
        if is_object(inner):
            unknown = {key: value for key, value in inner.items() if key not in known}
            rest[field] = without_none(unknown) or None
    return without_none(rest)


_CALL_MEMBERS = frozenset({"id", "type", "index", "function", "custom"})


def encode_assistant(parts: Iterable[Part], default_field: str | None, *, to_provider: bool = False) -> JsonObject:
    """An assistant message. Thinking goes to the field that it came in, or to `default_field`."""
    message: JsonObject = {"role": "assistant", "content": None}
    texts: list[Text] = []
    chunks: list[JsonObject] = []
    calls: list[JsonObject] = []
    hosted: list[HostedCall | HostedResult] = []
    for part in parts:
        match part:
            case Text() if not part.extra:
                texts.append(part)
                chunks.append({"type": "text", "text": part.text})
            case Text() if wire_extra(part.extra, NAME).get("refusal"):
                message["refusal"] = message.get("refusal", "") + part.text
            case Text():
                texts.append(part)
                chunks.append(encode_part(msgspec.structs.replace(part, extra=_request_extra(part))))
            case Thinking():
                _encode_thinking(part, message, chunks, default_field)
            case ToolCall() if is_function_call(part) and FUNCTION_CALL not in message:
                message[FUNCTION_CALL] = encode_call(part, to_provider=to_provider)["function"]
            case ToolCall():
                calls.append(encode_call(part, to_provider=to_provider))
            case Image():
                message.setdefault("images", []).append(encode_part(part))
            case HostedCall() | HostedResult():
                hosted.append(part)
            case Opaque() if is_message_field(part):
                fields = part.data.items()
                message.update({key: message.get(key, []) + v if is_list(v) else v for key, v in fields})
            case Opaque():
                chunks += [part.data] if part.wire == NAME else []
            case _:
                raise cannot_send(part, NAME)
    if chunks:
        plain = len(chunks) == len(texts) and all(chunk.keys() == {"type", "text"} for chunk in chunks)
        message["content"] = "".join([text.text for text in texts]) if plain else chunks
    elif not calls and message.keys().isdisjoint(("refusal", FUNCTION_CALL)):
        message["content"] = ""
    if calls:
        message["tool_calls"] = calls
    return {**message, **write_executed(hosted)} if hosted else message


def is_message_field(part: Opaque) -> bool:
    """Whether a block is a field of the message, not a part of its content."""
    return part.wire == NAME and part.data.keys() in ({"audio"}, {"images"})


RESPONSE_ONLY = frozenset({"logprobs", "annotations", "citations", "search_results", "context"})
"""Extra fields of a text that only responses have."""


def read_choice_logprobs(logprobs: JsonObject) -> dict[str, list[TokenLogprob]]:
    """The tokens of the text (`content`) and of a refusal (`refusal`)."""
    tokens, numbers = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if is_list(tokens) and is_list(numbers):
        # The form of the Completions API; a few servers have it in Chat Completions, too (2026-09).
        tops = logprobs.get("top_logprobs")
        items = [
            {"token": token, "logprob": number, "top_logprobs": _read_alternatives(top)}
            for token, number, top in zip_longest(tokens, numbers, tops if is_list(tops) else ())
        ]
        return {"text": read_logprobs(items)}
    return {"text": read_logprobs(logprobs.get("content")), "refusal": read_logprobs(logprobs.get("refusal"))}


def _read_alternatives(top: object) -> list[JsonObject]:
    return [{"token": token, "logprob": number} for token, number in top.items()] if is_object(top) else []


def write_choice_logprobs(parts: Iterable[Part]) -> JsonObject | None:
    """The inverse of `read_choice_logprobs`; None if the parts have none."""
    fields: dict[str, list[JsonObject] | None] = {"content": None, "refusal": None}
    for part in parts:
        if isinstance(part, Text) and part.logprobs:
            field = "refusal" if wire_extra(part.extra, NAME).get("refusal") else "content"
            fields[field] = [*(fields[field] or ()), *write_logprobs(part.logprobs)]
    return fields if any(fields.values()) else None


def read_citations(fields: JsonObject) -> tuple[Citation, ...]:
    """The citations of a text, from the fields next to it: annotations, or else search results, or else URLs."""
    annotations = read_annotations(fields.get("annotations")) or _read_context(object_of(fields.get("context")))
    return tuple(annotations or read_search_results(fields.get("search_results"), fields.get("citations")))


def _read_context(context: JsonObject) -> list[Citation]:
    """What was found in the data of the user."""
    citations = context.get("citations")
    return [
        Citation(
            url=first_text(item, "url"),
            title=first_text(item, "title"),
            source=first_text(item, "filepath"),
            cited_text=first_text(item, "content"),
        )
        for item in objects(citations)
    ]


def write_citations(texts: Iterable[Text], offset: int = 0) -> list[JsonObject]:
    """The annotations of texts of another wire; `offset` is where the first one begins in the content."""
    annotations: list[JsonObject] = []
    for text in texts:
        annotations += [_write_annotation(citation, text.text, offset) for citation in text.citations]
        offset += len(text.text)
    return annotations


def _write_annotation(citation: Citation, text: str, offset: int) -> JsonObject:
    flat = write_annotation(citation, text, offset=offset)
    kind = flat.pop("type")
    # Some servers have the words of the source, too.
    quote = {"content": citation.cited_text} if citation.cited_text else {}
    return {"type": kind, kind: {**flat, **quote}}


def _request_extra(text: Text) -> JsonObject:
    extra = {key: value for key, value in wire_extra(text.extra, NAME).items() if key not in RESPONSE_ONLY}
    return make_extra(NAME, extra)


def _encode_thinking(part: Thinking, message: JsonObject, chunks: list[JsonObject], default_field: str | None) -> None:
    extra = wire_extra(part.extra, NAME)
    fields = extra.get("fields") or ([default_field] if default_field else [])
    if fields == ["content"] and "summary" in extra:
        chunks.append(encode_summary(part.text, extra["summary"]))
    elif fields == ["content"]:
        thinking = [{"type": "text", "text": part.text}]
        chunks.append({"type": "thinking", "thinking": thinking, **extra.get("chunk", {})})
    elif part.text or extra.get("fields"):
        message.update({field: message.get(field, "") + part.text for field in fields})
    if details := extra.get("details"):
        message["reasoning_details"] = message.get("reasoning_details", []) + details
    for name, value in extra.get("state", {}).items():
        message[name] = [*message.get(name, []), *value] if is_list(value) else value


def encode_tool(tool: Tool | Opaque) -> JsonObject:
    """The definition of a tool."""
    if isinstance(tool, Opaque):
        return tool.data
    if is_object(own := wire_extra(tool.extra, COVERED).get("tool")):
        return own
    function = without_none(
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": tool.strict}
    )
    extra = wire_extra(tool.extra, NAME)
    return {"type": "function", "function": {**function, **extra.get("function", {})}, **_outer(extra)}


def _outer(extra: JsonObject) -> JsonObject:
    return {key: value for key, value in extra.items() if key != "function"}


def decode_tool(data: JsonObject, where: str) -> AnyTool:
    """The inverse of `encode_tool`; a tool that the vocabulary does not have becomes `Opaque`."""
    if "function" not in data:
        return decode_custom_tool(data, where) or decode_hosted_tool(data) or Opaque(wire=NAME, data=data)
    tool = decode_definition(data["function"], f"{where}.function")
    outer = {key: value for key, value in data.items() if key not in ("type", "function")}
    return msgspec.structs.replace(tool, extra=make_extra(NAME, {**outer, **wire_extra(tool.extra, NAME)}))


def decode_definition(data: object, where: str) -> Tool:
    """A tool, from its `function` object."""
    function, rest = read_fields(ChatFunctionDefinition, data, where)
    if function.strict and function.parameters is not None and not is_strict(function.parameters):
        # Some servers accept the flag for any schema (2026-08), so it is sent as it is on this wire.
        rest = {**rest, "strict": True}
    return Tool(
        name=function.name,
        description=function.description,
        parameters=function.parameters,
        strict=function.strict,
        extra=make_extra(NAME, {"function": rest} if rest else {}),
    )
