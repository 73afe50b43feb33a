"""Files that Anthropic stores: documents and images that requests refer to by an id."""

from msgspec.structs import replace

from dragoman.types import Document, Image, JsonObject, Request, is_list
from dragoman.wires.anthropic.schema import NAME, VERSION
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.json import without_none
from dragoman.wires.common.uploads import FILE_TTL, FormUploads, Media, is_image, is_text_document

BETA_NAME = "files-api-2025-04-14"


def _accepts(part: Media) -> bool:
    return is_image(part) or is_text_document(part) or (isinstance(part, Document) and part.mime == "application/pdf")


def _reference(part: Media, id: str) -> JsonObject:
    kind = "image" if isinstance(part, Image) else "document"
    title = without_none({"title": part.name}) if isinstance(part, Document) else {}
    return {"type": kind, "source": {"type": "file", "file_id": id}, **title, **wire_extra(part.extra, NAME)}


def _mime(part: Media) -> str:
    """The type of the upload: documents of text must be plain."""
    return "text/plain" if is_text_document(part) else str(part.mime)


class AnthropicFiles(FormUploads):
    """Uploads to Anthropic, and references to them."""

    def __init__(self) -> None:
        headers = {"anthropic-version": VERSION, "anthropic-beta": BETA_NAME}
        super().__init__(
            NAME,
            {"expires_in_seconds": str(FILE_TTL)},
            accepts=_accepts,
            reference=_reference,
            headers=headers,
            mime_of=_mime,
        )

    def complete(self, request: Request, /) -> Request:
        extra = wire_extra(request.extra, NAME)
        betas = extra.get("betas")
        names = [*betas] if is_list(betas) else [] if betas is None else str(betas).split(",")
        if BETA_NAME in names:
            return request
        return replace(request, extra={**request.extra, NAME: {**extra, "betas": [*names, BETA_NAME]}})
