"""Citations of a text block, for the client and the server. They support the whole block."""

from dragoman.types import Citation, JsonObject, Text, is_list, is_object
from dragoman.types.citations import SourceUnit
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.common.citations import first_text
from dragoman.wires.common.extra import wire_extra
from dragoman.wires.common.json import whole_number

_PLACES: dict[str, tuple[SourceUnit, str, str]] = {
    "char_location": ("characters", "start_char_index", "end_char_index"),
    "page_location": ("pages", "start_page_number", "end_page_number"),
    "content_block_location": ("blocks", "start_block_index", "end_block_index"),
    "search_result_location": ("blocks", "start_block_index", "end_block_index"),
}
_KINDS = {unit: kind for kind, (unit, _, _) in reversed(_PLACES.items())}


def read_citations(citations: object) -> tuple[Citation, ...]:
    """The citations of a text block."""
    return tuple(_read(item) for item in citations if is_object(item)) if is_list(citations) else ()


def _read(data: JsonObject) -> Citation:
    unit, start, end = _PLACES.get(str(data.get("type")), (None, "", ""))
    source, index = first_text(data, "source"), data.get("document_index", data.get("search_result_index"))
    is_url = source is not None and source.startswith(("https://", "http://"))
    return Citation(
        url=first_text(data, "url") or (source if is_url else None),
        title=first_text(data, "title", "document_title"),
        source=first_text(data, "file_id") or (None if is_url else source),
        document_index=whole_number(index),
        cited_text=first_text(data, "cited_text"),
        source_unit=unit,
        source_start=whole_number(data.get(start)),
        source_end=whole_number(data.get(end)),
    )


def are_of_gateway(citations: object) -> bool:
    """Whether the gateway wrote citations of another provider: without the index that Anthropic wants back."""
    items = citations if is_list(citations) else []
    return any(is_object(item) and item.get("encrypted_index") == "" for item in items)


def write_citations(text: Text) -> list[JsonObject]:
    """The citations of a text of another wire."""
    return [_write(citation) for citation in text.citations]


def _write(citation: Citation) -> JsonObject:
    quote = {"cited_text": citation.cited_text or ""}
    if citation.url is not None:
        title = {"title": citation.title, "url": citation.url, "encrypted_index": ""}
        return {"type": "web_search_result_location", **quote, **title}
    unit = citation.source_unit or "characters"
    kind = _KINDS[unit]
    _, start, end = _PLACES[kind]
    place = {start: citation.source_start or 0, end: citation.source_end or citation.source_start or 0}
    name = {
        "document_index": citation.document_index or 0,
        "document_title": citation.title,
        "file_id": citation.source,
    }
    return {"type": kind, **quote, **name, **place}


def with_citations(text: Text) -> JsonObject:
    """The members of a text block in an answer besides its text."""
    own = wire_extra(text.extra, NAME)
    if "citations" in own or not text.citations:
        return own
    return {**own, "citations": write_citations(text)}
