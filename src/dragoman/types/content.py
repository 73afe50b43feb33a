"""Reads content that is not made of our parts yet: strings, Pillow images, and the blocks of MCP and of other SDKs.

A block is a dict with a `type`, or an object of an SDK that can be dumped to one.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.types.base import JsonObject, is_object
from dragoman.types.caching import CachePoint, mark_part
from dragoman.types.checks import as_items, as_text, wrong_value
from dragoman.types.data_urls import decode_base64, is_data_url
from dragoman.types.files import File
from dragoman.types.json_values import encode_value
from dragoman.types.media_files import UNKNOWN_TYPE, is_pil
from dragoman.types.parts import (
    Audio,
    Document,
    HostedCall,
    HostedResult,
    Image,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)


def read_parts(parameter: str, value: Any, /) -> tuple[Part, ...]:
    """The parts of a message.

    >>> read_parts("parts", [{"type": "text", "text": "hello"}])[0].text
    'hello'
    """
    if isinstance(value, str | Part | CachePoint | File) or is_pil(value) or _block(value) is not None:
        value = (value,)
    parts: list[Part] = []
    for item in as_items(parameter, value, _EXPECTED):
        point = _read_point(item)
        if point is None:
            parts.append(_read_part(parameter, item))
        elif parts:
            parts[-1] = mark_part(parts[-1], point)
        else:
            raise InvalidRequest(
                f"{parameter} must not begin with a CachePoint; put it after the part that it follows", param=parameter
            )
    return tuple(parts)


def _read_point(value: Any) -> CachePoint | None:
    if isinstance(value, CachePoint):
        return value
    if is_object(value) and value.get("type") == "cache_point" and value.keys() <= {"type", "ttl"}:
        return CachePoint(value.get("ttl"))
    return None


_EXPECTED = "a str, a part (Text, Image, Document, …) or a list of these"


def _read_part(parameter: str, value: Any) -> Part:
    part = _as_part(value)
    if part is not None:
        return part
    block = _block(value)
    if block is not None:
        part = read_block(parameter, block)
        if part is None:
            raise InvalidRequest(
                f"{parameter} has a block of type {block['type']!r} that cannot be read; pass a part such as Text",
                param=parameter,
            )
        return part
    hint = 'put it into a list of its own, such as [dragoman.user("hi")]' if hasattr(value, "parts") else ""
    raise wrong_value(parameter, _EXPECTED, value, hint)


def _as_part(value: Any) -> Part | None:
    if isinstance(value, Part):
        return value
    if isinstance(value, File):
        return value.part
    if isinstance(value, str):
        return Text(text=value)
    return Image.from_pil(value) if is_pil(value) else None


def read_result_content(value: Any, /) -> str | tuple[ResultPart, ...]:
    """The content of a tool result: text, parts, or JSON text of any other value.

    >>> read_result_content([12, 30])
    '[12,30]'
    """
    if isinstance(value, str):
        return as_text("content", value)
    if isinstance(value, ResultPart) or is_pil(value):
        return (_result_part(value),)
    if isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
        if any(isinstance(item, Part) or is_pil(item) for item in items):
            return tuple(_result_part(item) for item in items)
        parts = _read_blocks(items)
        if parts is not None:
            return parts
    return _json_text(value)


def _result_part(value: Any) -> ResultPart:
    part = _as_part(value) or _read_optional_block(value)
    if isinstance(part, ResultPart):
        return part
    raise wrong_value("content", _EXPECTED_RESULT, value)


def _read_blocks(items: Iterable[Any]) -> tuple[ResultPart, ...] | None:
    """The parts of a list of blocks; None if it is another JSON value."""
    parts: list[ResultPart] = []
    for item in items:
        part = _read_optional_block(item)
        if isinstance(part, Audio):
            part = Text(text=f"[audio of type {part.mime}, not supported in a tool result]")
        if not isinstance(part, ResultPart):
            return None
        parts.append(part)
    return tuple(parts) or None


def _json_text(value: Any) -> str:
    if _is_bytes(value):
        hint = "pass an Image or a Document with the bytes as its data"
        raise wrong_value("content", _EXPECTED_RESULT, value, hint)
    return encode_value("content", value, _EXPECTED_RESULT).decode()


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


_EXPECTED_RESULT = "text, parts (Text, Image, Document) or any JSON value"


# Blocks ---------------------------------------------------------------------------------------------------------------


def _block(value: Any) -> JsonObject | None:
    """A block as a dict; None if the value is not one."""
    if not is_object(value) and callable(dump := getattr(value, "model_dump", None)):
        value = dump(mode="json", by_alias=True, exclude_none=True)
    return value if is_object(value) and isinstance(value.get("type"), str) else None


def _read_optional_block(value: Any) -> Part | None:
    block = _block(value)
    return None if block is None else read_block("content", block)


class _BrokenMediaError(Exception):
    """The bytes of a block cannot be read."""


def read_block(parameter: str, block: JsonObject, /) -> Part | None:
    """The part of a block of MCP, Anthropic, OpenAI, or of `dump`; None if it has another form.

    >>> read_block("content", {"type": "image", "data": "aGk=", "mimeType": "image/png"}).mime
    'image/png'
    """
    kind = block["type"]
    read = _READERS.get(kind)
    try:
        return read(block) if read is not None else None
    except _BrokenMediaError as error:
        raise InvalidRequest(
            f"{parameter} must have media in base64, got a block of type {kind!r} whose data is another text; "
            "encode the bytes, or pass an Image or a Document with them",
            param=parameter,
        ) from error.__cause__
    except (KeyError, TypeError, AttributeError, InvalidRequest, msgspec.ValidationError):
        return None


def _read_text(block: JsonObject) -> Part:
    return Text(text=block["text"], extra=block.get("extra") or {})


def _read_image(block: JsonObject) -> Part:
    if "source" in block:
        data, mime, url = _read_source(block["source"])
        return Image(data=data, mime=mime, url=url)
    return msgspec.convert(_with_mime(block), Image)


def _read_image_url(block: JsonObject) -> Part:
    image = block["image_url"]
    url, detail = (image, block.get("detail")) if isinstance(image, str) else (image["url"], image.get("detail"))
    if not is_data_url(url):
        return Image(url=url, detail=detail)
    try:
        return Image.from_data_url(url, detail=detail)
    except InvalidRequest as error:
        raise _BrokenMediaError from error


def _read_document(block: JsonObject) -> Part:
    if "source" not in block:
        return msgspec.convert(_with_mime(block), Document)
    data, mime, url = _read_source(block["source"])
    return Document(data=data or b"", mime=mime or "application/pdf", name=block.get("title"), url=url)


def _read_source(source: JsonObject) -> tuple[bytes | None, str | None, str | None]:
    """The bytes, the type and the URL of Anthropic's `source`."""
    match source:
        case {"type": "base64", "media_type": str(mime), "data": str(data)}:
            return _decode(data), mime, None
        case {"type": "text", "data": str(text)}:
            return text.encode(), source.get("media_type", "text/plain"), None
        case {"type": "url", "url": str(url)}:
            return None, None, url
        case _:
            raise KeyError("source")


def _read_audio(block: JsonObject) -> Part:
    return msgspec.convert(_with_mime(block), Audio)


def _with_mime(block: JsonObject) -> JsonObject:
    """A block with our name for the type of its data, and the bytes."""
    mime = block.get("mimeType") or block.get("mime_type") or block.get("mime")
    if not mime:
        return block
    data = block.get("data")
    return {**block, "mime": mime, **({"data": _decode(data)} if isinstance(data, str) else {})}


def _decode(data: str) -> bytes:
    try:
        return decode_base64(data)
    except InvalidRequest as error:
        raise _BrokenMediaError from error


def _read_resource(block: JsonObject) -> Part:
    resource = block["resource"]
    if "text" in resource:
        return Text(text=resource["text"])
    mime = resource.get("mimeType") or UNKNOWN_TYPE
    data = _decode(resource["blob"])
    return Image(data=data, mime=mime) if mime.startswith("image/") else Document(data=data, mime=mime)


def _read_link(block: JsonObject) -> Part:
    return Text(text=f"[{block.get('title') or block['name']}: {block['uri']}]")


def _read_thinking(block: JsonObject) -> Part:
    if "thinking" not in block:
        return msgspec.convert(block, Thinking)
    signature = {"signature": block["signature"]} if "signature" in block else {}
    return Thinking(text=block["thinking"], extra={"anthropic": signature})


def _read_tool_use(block: JsonObject) -> Part:
    return ToolCall(id=block["id"], name=block["name"], arguments=block["input"])


def _read_result(block: JsonObject) -> Part:
    id = block["tool_use_id"] if "tool_use_id" in block else block["id"]
    name, content = block.get("name", ""), block.get("content", "")
    return ToolResult(id=id, name=name, content=content, is_error=block.get("is_error", False))


_READERS: dict[str, Callable[[JsonObject], Part]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "image": _read_image,
    "image_url": _read_image_url,
    "input_image": _read_image_url,
    "document": _read_document,
    "audio": _read_audio,
    "resource": _read_resource,
    "resource_link": _read_link,
    "thinking": _read_thinking,
    "tool_use": _read_tool_use,
    "tool_call": lambda block: msgspec.convert(block, ToolCall),
    "tool_result": _read_result,
    "hosted_call": lambda block: msgspec.convert(block, HostedCall),
    "hosted_result": lambda block: msgspec.convert(block, HostedResult),
    "opaque": lambda block: msgspec.convert(block, Opaque),
}
