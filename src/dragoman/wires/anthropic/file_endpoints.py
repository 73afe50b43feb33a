"""Files for clients of Anthropic."""

from collections.abc import Sequence

import msgspec

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
from dragoman.wires.common.server_endpoints import FileQuery, StoredFile, UploadedFile, json_response
from dragoman.wires.common.times import write_time

_HEADER = "anthropic-version"
_CURSOR = "page_"
"""The beginning of the cursors of pages."""


class _Page(msgspec.Struct, frozen=True):
    """Which files a client wants."""

    after: str
    before: str
    limit: int
    ids: frozenset[str]


def _decode_upload(fields: dict[str, FormField]) -> UploadedFile:
    return uploaded_file(fields, seconds=whole_seconds(fields, "expires_in_seconds", days=90))


def _decode_list(http: HttpRequest) -> _Page:
    query = query_members(http)
    # Packages before 2026 have after_id and before_id, newer ones a cursor.
    cursor = query.get("page", [""])[-1].removeprefix(_CURSOR) or query.get("after_id", [""])[-1]
    ids = frozenset((*query.get("ids", ()), *query.get("ids[]", ())))
    return _Page(cursor, query.get("before_id", [""])[-1], read_limit(query, 20, 1000), ids)


def _encode_file(file: StoredFile) -> JsonObject:
    return {
        "type": "file",
        "id": file.id,
        "filename": file.name,
        "mime_type": file.mime,
        "size_bytes": file.size,
        "created_at": write_time(file.created),
        "downloadable": True,
        "expires_at": write_time(file.expires),
    }


def _encode_list(query: FileQuery, files: tuple[StoredFile, ...]) -> HttpResponse:
    page: _Page = query.options
    if page.ids:
        remaining: Sequence[StoredFile] = [file for file in files if file.id in page.ids]
    elif page.before:
        remaining = files_after(files[::-1], page.before, "before_id")
    else:
        remaining = files_after(files, page.after, "page")
    limit = len(remaining) if page.ids else page.limit
    listed, rest = list(remaining[:limit]), remaining[limit:]
    if page.before:
        listed.reverse()
    first, last = (listed[0].id, listed[-1].id) if listed else (None, None)
    return json_response(
        {
            "data": [_encode_file(file) for file in listed],
            "has_more": bool(rest),
            "first_id": first,
            "last_id": last,
            "next_page": f"{_CURSOR}{last}" if rest and not page.before else None,
        }
    )


FILE_ENDPOINTS = file_endpoints(
    "/v1/files",
    _HEADER,
    decode_upload=_decode_upload,
    decode_list=_decode_list,
    encode_file=_encode_file,
    encode_list=_encode_list,
    encode_dropped=lambda file: {"id": file.id, "type": "file_deleted"},
)
