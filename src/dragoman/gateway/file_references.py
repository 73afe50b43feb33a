"""Files of the gateway in requests: an id in the form of the client's dialect stands for the content.

A request keeps its ids, so that a stored conversation does not have the content twice. Only the chain of targets gets a
copy with the content, as an image, a document or audio, which every wire then sends in its own form.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.errors import InvalidRequest
from dragoman.gateway.errors import BodyTooLarge, NotStored
from dragoman.gateway.files import FileStore, is_gateway_file
from dragoman.types import (
    Audio,
    Document,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Request,
    ResultPart,
    ToolResult,
    is_object,
)
from dragoman.wires.common.server_endpoints import FileContent

_PARTS = frozenset({"document", "image", "file", "input_file", "input_image"})
"""The types of parts that may have a file."""
_OWN_FIELDS = frozenset({"type", "source", "file", "file_id", "title", "filename", "detail"})
"""The fields of such parts that become those of ours; the others stay in `extra`."""
_MAX_REFERENCES = 100
"""References of one request."""


async def load_files(
    request: Request, files: FileStore, owner: str | None, /, *, max_bytes: int
) -> dict[str, FileContent]:
    """The files of this gateway that a request refers to, by id; InvalidRequest if the owner has no such file.

    `max_bytes` limits the content of all references together: a short request may refer to a large file many times.
    """
    contents: dict[str, FileContent] = {}
    size = count = 0
    for part in _references(request):
        id = _own_id(part)
        if part.data.get("type") not in _PARTS:
            raise InvalidRequest(
                f"{part.data.get('type')!r} must have the id of a file of its provider, got a file of the gateway; "
                "send it as a document",
                param="file_id",
            )
        if id not in contents:
            contents[id] = await _read(files, owner, id)
        size, count = size + contents[id].file.size, count + 1
        if size > max_bytes or count > _MAX_REFERENCES:
            raise BodyTooLarge(
                f"the files of a request must have at most {max_bytes} bytes together, in at most {_MAX_REFERENCES} "
                "places; send fewer of them",
                param="file_id",
            )
    return contents


async def _read(files: FileStore, owner: str | None, id: str) -> FileContent:
    try:
        return await files.read(owner, id)
    except NotStored as error:
        raise InvalidRequest(error.message, param="file_id") from error


def insert_files(request: Request, files: Mapping[str, FileContent], /) -> Request:
    """The request with the content of files in place of their ids."""
    if not files:
        return request

    def insert(part: Any) -> Any:
        if isinstance(part, ToolResult) and not isinstance(part.content, str):
            return replace(part, content=tuple(map(insert, part.content)))
        if not isinstance(part, Opaque) or (id := _own_id(part)) not in files:
            return part
        return _content_part(part, files[id])

    return replace(request, messages=tuple(_changed(message, insert) for message in request.messages))


def _changed(message: Message, change: Callable[[Part], Part]) -> Message:
    parts = tuple(map(change, message.parts))
    return message if parts == message.parts else replace(message, parts=parts)


def _references(request: Request) -> Iterator[Opaque]:
    """The parts with an id of one of our files."""
    for message in request.messages:
        for part in message.parts:
            inner: tuple[Part | ResultPart, ...] = part.parts if isinstance(part, ToolResult) else (part,)
            for each in inner:
                if isinstance(each, Opaque) and _own_id(each):
                    yield each


def _own_id(part: Opaque) -> str:
    """The id of one of our files in a part of any dialect; "" if it has none."""
    data = part.data
    for place in (data, _object(data, "source"), _object(data, "file")):
        id = place.get("file_id")
        if isinstance(id, str) and is_gateway_file(id):
            return id
    return ""


def _object(data: JsonObject, name: str) -> JsonObject:
    value = data.get(name)
    return value if is_object(value) else {}


def _content_part(part: Opaque, content: FileContent) -> Part:
    """The part of a file; its type is that of the file, whatever the client called it."""
    file, data = content.file, content.data
    rest = {key: value for key, value in part.data.items() if key not in _OWN_FIELDS}
    extra = {part.wire: rest} if rest else {}
    detail = part.data.get("detail")
    if file.mime.startswith("image/"):
        wanted = detail if isinstance(detail, str) and detail != "auto" else None
        return Image(data=data, mime=file.mime, detail=wanted, extra=extra)
    if file.mime.startswith("audio/"):
        return Audio(data=data, mime=file.mime, extra=extra)
    title = part.data.get("title") or part.data.get("filename") or _object(part.data, "file").get("filename")
    name = title if isinstance(title, str) else file.name
    mime = "application/pdf" if data.startswith(b"%PDF-") else file.mime
    return Document(data=data, mime=mime, name=name, extra=extra)
