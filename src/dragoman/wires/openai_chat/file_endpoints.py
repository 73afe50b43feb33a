"""Files for clients of OpenAI."""

import re

import msgspec

from dragoman.errors import InvalidRequest
from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import JsonObject
from dragoman.wires.common.file_endpoints import (
    file_endpoints,
    files_after,
    query_members,
    read_limit,
    uploaded_file,
    whole_seconds,
)
from dragoman.wires.common.multipart import FormField
from dragoman.wires.common.request_body import missing_field
from dragoman.wires.common.server_endpoints import FileQuery, StoredFile, UploadedFile, first_and_last, json_response

MAX_LIMIT = 10_000
_PURPOSE = re.compile(r"[a-z][a-z_-]{0,39}")


class _Page(msgspec.Struct, frozen=True):
    """Which files a client wants."""

    after: str
    limit: int
    order: str
    purpose: str | None


def _decode_upload(fields: dict[str, FormField]) -> UploadedFile:
    if (purpose := fields.get("purpose")) is None:
        raise missing_field("purpose")
    if not _PURPOSE.fullmatch(purpose.text):
        raise InvalidRequest(
            f"purpose must be assistants, batch, fine-tune, vision, user_data or evals, got {purpose.text[:40]!r}",
            param="purpose",
        )
    anchor = fields.get("expires_after[anchor]")
    if anchor is not None and anchor.text != "created_at":
        raise InvalidRequest(
            f"expires_after.anchor must be created_at, got {anchor.text[:40]!r}", param="expires_after.anchor"
        )
    seconds = whole_seconds(fields, "expires_after[seconds]", days=30)
    return uploaded_file(fields, purpose=purpose.text, seconds=seconds)


def _decode_list(http: HttpRequest) -> _Page:
    query = query_members(http)
    order = query.get("order", ["desc"])[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest(f"order must be asc or desc, got {order[:20]!r}", param="order")
    limit = read_limit(query, MAX_LIMIT, MAX_LIMIT)
    return _Page(query.get("after", [""])[-1], limit, order, query.get("purpose", [None])[-1])


def _encode_file(file: StoredFile) -> JsonObject:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
        "expires_at": file.expires,
    }


def _encode_list(query: FileQuery, files: tuple[StoredFile, ...]) -> HttpResponse:
    page: _Page = query.options
    chosen = [file for file in files if page.purpose is None or file.purpose == page.purpose]
    rest = files_after(chosen if page.order == "desc" else chosen[::-1], page.after, "after")
    data = [_encode_file(file) for file in rest[: page.limit]]
    return json_response({"object": "list", "data": data, **first_and_last(data), "has_more": len(rest) > len(data)})


def _encode_dropped(file: StoredFile) -> JsonObject:
    return {"id": file.id, "object": "file", "deleted": True}


FILE_ENDPOINTS = tuple(
    endpoint
    for start in ("/v1/files", "/openai/v1/files", "/openai/files")
    for endpoint in file_endpoints(
        start,
        None,
        decode_upload=_decode_upload,
        decode_list=_decode_list,
        encode_file=_encode_file,
        encode_list=_encode_list,
        encode_dropped=_encode_dropped,
    )
)
