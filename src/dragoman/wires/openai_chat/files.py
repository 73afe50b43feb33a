"""Files that OpenAI stores, in Chat Completions: documents that requests refer to by an id."""

from dragoman.types import JsonObject
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.uploads import OPENAI_FIELDS, FormUploads, Media, is_document
from dragoman.wires.openai_chat.schema import NAME


def _reference(part: Media, id: str) -> JsonObject:
    return {"type": "file", **wire_extra(part.extra, NAME), "file": {"file_id": id}}


FILES = FormUploads(NAME, OPENAI_FIELDS, accepts=is_document, reference=_reference)
