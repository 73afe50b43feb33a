"""Files that the Gemini API stores: an upload in two requests, and a video is processed before it can be used."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import Malformed, ProviderError
from dragoman.http import HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import Opaque, Request, is_object
from dragoman.types.files import file_name
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.http import get_request
from dragoman.wires.common.json import decode_json, encode_json
from dragoman.wires.common.uploads import MARGIN, Media, NextUpload, Uploaded
from dragoman.wires.google.encoder import cloud_of
from dragoman.wires.google.schema import NAME

FILE_TTL = 48 * 3600
"""Seconds for which the API stores a file (2026-11)."""
POLL = 2.0
"""Seconds between two checks of a file that is being processed."""
_ANY = msgspec.json.Decoder()


class GeminiFiles:
    """Uploads to the Gemini API, and references to them. Vertex AI has no such files."""

    def start(self, part: Media, target: Target, /) -> HttpRequest | None:
        if not part.data or cloud_of(target) is not None:
            return None
        origin, prefix = target.origin_and_prefix
        headers = {
            "content-type": "application/json",
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(len(part.data)),
            "x-goog-upload-header-content-type": str(part.mime),
        }
        return HttpRequest(
            method="POST",
            origin=origin,
            path=f"/upload{prefix}/files",
            headers={**target.auth_headers(), **target.headers, **headers},
            body=encode_json({"file": {"displayName": file_name(part)[:512]}}),
            secret=target.api_key,
        )

    def follow(self, response: HttpResponse, part: Media, target: Target, /) -> Uploaded | NextUpload:
        if (url := response.header("x-goog-upload-url")) is not None:
            return NextUpload(_content_request(url, part, target))
        data: Any = decode_json(_ANY, response.body)
        file = data.get("file", data) if is_object(data) else None
        if not is_object(file) or not isinstance(uri := file.get("uri"), str):
            raise Malformed("the response to an upload has no uri")
        match file.get("state"):
            case "PROCESSING":
                return NextUpload(get_request(target, f"/{file.get('name')}"), POLL)
            case "FAILED":
                raise ProviderError(f"the provider could not process the file {file_name(part)}", status=400)
            case _:
                return Uploaded(uri, FILE_TTL - MARGIN)

    def refer(self, part: Media, id: str, /) -> Opaque:
        data = {"fileData": {"mimeType": part.mime, "fileUri": id}, **wire_extra(part.extra, NAME)}
        return Opaque(wire=NAME, data=data)

    def complete(self, request: Request, /) -> Request:
        return request


def _content_request(url: str, part: Media, target: Target) -> HttpRequest:
    """The request with the bytes, to the address that the provider gave; the key is not sent there."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if origin != target.origin_and_prefix[0] and parts.scheme != "https":
        raise Malformed("the address for an upload must use https")
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers = {"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"}
    return HttpRequest(method="POST", origin=origin, path=path, headers=headers, body=part.data or b"")
