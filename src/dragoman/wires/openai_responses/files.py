"""Files that OpenAI stores, in the Responses API: documents and images that requests refer to by an id."""

from dragoman.types import Image, JsonObject
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.uploads import OPENAI_FIELDS, FormUploads, Media, is_document, is_image
from dragoman.wires.openai_responses.schema import NAME


def _reference(part: Media, id: str) -> JsonObject:
    extra = wire_extra(part.extra, NAME)
    if isinstance(part, Image):
        return {"type": "input_image", "file_id": id, "detail": part.detail or "auto", **extra}
    return {"type": "input_file", "file_id": id, **extra}


FILES = FormUploads(NAME, OPENAI_FIELDS, accepts=lambda part: is_document(part) or is_image(part), reference=_reference)
