"""Uploads of files in the form of OpenAI, which others share: one request with a form."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import Malformed
from dragoman.http import HttpRequest, HttpResponse
from dragoman.targets.target import Target
from dragoman.types import Audio, Document, Image, JsonObject, Opaque, Request, is_object
from dragoman.types.files import file_name
from dragoman.wires.common.json import decode_json
from dragoman.wires.common.multipart import FormField, encode_form

FILE_TTL = 7 * 86400
"""Seconds for which a provider stores a file of ours."""
MARGIN = 300.0
"""An id is not used in its last seconds."""
_ANY = msgspec.json.Decoder()


OPENAI_FIELDS = {
    "purpose": "user_data",
    "expires_after[anchor]": "created_at",
    "expires_after[seconds]": str(FILE_TTL),
}
"""What OpenAI wants to know of a file."""
Media: TypeAlias = Image | Document | Audio
"""Parts that may be files."""


class Uploaded(msgspec.Struct, frozen=True):
    """A file that the provider has stored: what requests refer to it by, and for how many seconds."""

    id: str
    seconds: float


class NextUpload(msgspec.Struct, frozen=True):
    """The next request of an upload, after some seconds."""

    http: HttpRequest
    wait: float = 0.0


class FormUploads:
    """Files that are uploaded as a form. `fields` are sent with the file; `refer` makes the part with the id."""

    def __init__(
        self,
        wire: str,
        fields: Mapping[str, str],
        /,
        *,
        accepts: Callable[[Media], bool],
        reference: Callable[[Media, str], JsonObject],
        headers: Mapping[str, str] | None = None,
        mime_of: Callable[[Media], str] = lambda part: str(part.mime),
    ) -> None:
        self._wire = wire
        self._fields = fields
        self._accepts = accepts
        self._reference = reference
        self._headers = headers or {}
        self._mime_of = mime_of

    def start(self, part: Media, target: Target, /) -> HttpRequest | None:
        if not part.data or not self._accepts(part):
            return None
        file = FormField(data=part.data, filename=file_name(part), mime=self._mime_of(part))
        fields = [(name, FormField(data=value.encode())) for name, value in self._fields.items()]
        headers, body = encode_form([*fields, ("file", file)])
        return upload_request(target, "/files", body, {**self._headers, **headers})

    def follow(self, response: HttpResponse, _part: Media, _target: Target, /) -> Uploaded | NextUpload:
        return Uploaded(read_id(response.body, "id"), FILE_TTL - MARGIN)

    def refer(self, part: Media, id: str, /) -> Opaque:
        return Opaque(wire=self._wire, data=self._reference(part, id))

    def complete(self, request: Request, /) -> Request:
        return request


def upload_request(target: Target, path: str, body: bytes, headers: Mapping[str, str], /) -> HttpRequest:
    """A POST of any body to a path below the target's base URL."""
    origin, prefix = target.origin_and_prefix
    own = {**target.auth_headers(), **target.headers}
    return HttpRequest(
        method="POST",
        origin=origin,
        path=prefix + path,
        headers={**own, **headers},
        body=body,
        secret=target.api_key,
    )


def read_id(body: bytes, name: str, /) -> str:
    """A text of the JSON of a response."""
    data: Any = decode_json(_ANY, body)
    value = data.get(name) if is_object(data) else None
    if not isinstance(value, str) or not value:
        raise Malformed(f"the response to an upload has no {name}")
    return value


def is_text_document(part: Media, /) -> bool:
    """Whether a part is a document of text."""
    return isinstance(part, Document) and part.mime.startswith("text/")


def is_image(part: Media, /) -> bool:
    """Whether a part is an image of a type that every provider stores."""
    return isinstance(part, Image) and part.mime in _IMAGES


_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def is_document(part: Media, /) -> bool:
    """Whether a part is a document, and no video."""
    return isinstance(part, Document) and not part.mime.startswith("video/")
