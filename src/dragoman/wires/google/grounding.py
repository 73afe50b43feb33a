"""Citations in the metadata of a candidate: grounding by a search, and quotations.

Google counts bytes, we count characters.
"""

from collections.abc import Iterable
from typing import Any

from dragoman.types import Citation, HostedCall, HostedResult, JsonObject, Part, Text, is_list, is_object
from dragoman.wires.common.citations import first_text
from dragoman.wires.common.hosted_tools import queries_of
from dragoman.wires.common.json import object_of, objects, whole_number, without_none
from dragoman.wires.google.schema import NAME, camel


def read_citations(text: str, fields: JsonObject) -> list[Citation]:
    """The citations of a text, from the fields next to it."""
    grounding, quotations = fields.get("groundingMetadata"), fields.get("citationMetadata")
    citations = _read_supports(text, camel(grounding)) if is_object(grounding) else []
    if is_object(quotations):
        sources = quotations.get("citationSources") or quotations.get("citations")
        items = [camel(item) for item in objects(sources)]
        citations += [_citation(item, text, item) for item in items if first_text(item, "uri", "title")]
    return citations


def read_chunks(grounding: JsonObject) -> list[Citation]:
    """The sources of a search, in the order of their numbers."""
    chunks = camel(grounding).get("groundingChunks")
    return [_source(chunk) for chunk in (chunks if is_list(chunks) else ())]


def _source(chunk: object) -> Citation:
    data: JsonObject = camel(object_of(chunk))
    inner = next((camel(value) for value in data.values() if is_object(value)), data)
    page = whole_number(inner.get("pageNumber"))
    return Citation(
        url=first_text(inner, "uri"),
        title=first_text(inner, "title"),
        source=first_text(inner, "documentName", "fileSearchStore", "placeId"),
        cited_text=first_text(inner, "text"),
        source_unit=None if page is None else "pages",
        source_start=page,
        source_end=page,
    )


def _read_supports(text: str, grounding: JsonObject) -> list[Citation]:
    sources, supports = read_chunks(grounding), grounding.get("groundingSupports")
    citations: list[Citation] = []
    for support in supports if is_list(supports) else ():
        if not is_object(support):
            continue
        data = camel(support)
        segment, indices = data.get("segment"), data.get("groundingChunkIndices")
        place = camel(object_of(segment))
        numbers = [index for index in (indices if is_list(indices) else ()) if isinstance(index, int)]
        citations += [_with_place(sources[index], text, place) for index in numbers if 0 <= index < len(sources)]
    return citations or [source for source in sources if source.url or source.source or source.title]


def _with_place(source: Citation, text: str, place: JsonObject) -> Citation:
    start, end = _span(text, place)
    return Citation(
        url=source.url,
        title=source.title,
        source=source.source,
        start=start,
        end=end,
        cited_text=source.cited_text,
        source_unit=source.source_unit,
        source_start=source.source_start,
        source_end=source.source_end,
    )


def _citation(item: JsonObject, text: str, place: JsonObject) -> Citation:
    start, end = _span(text, place)
    return Citation(url=first_text(item, "uri"), title=first_text(item, "title"), start=start, end=end)


def _span(text: str, place: JsonObject) -> tuple[int | None, int | None]:
    """The characters of a segment, whose places are bytes; its own text decides if there is one."""
    first, last = whole_number(place.get("startIndex")) or 0, whole_number(place.get("endIndex"))
    if last is None:
        return None, None
    data = text.encode()
    start, end = _characters(data, first), _characters(data, last)
    words = place.get("text")
    if isinstance(words, str) and words and text[start:end] != words and (other := text.find(words)) >= 0:
        return other, other + len(words)
    return (start, end) if end > start else (None, None)


def _characters(data: bytes, index: int) -> int:
    return len(data[:index].decode("utf-8", "ignore"))


def write_grounding(parts: Iterable[Part]) -> JsonObject:
    """The grounding metadata of an answer of another wire.

    Segments count the bytes of all texts together: clients of streams join them, and so do most others.
    """
    entries: dict[Any, JsonObject] = {}
    places: dict[Any, int] = {}
    supports: list[JsonObject] = []
    queries: list[str] = []
    before = 0
    for part in parts:
        if isinstance(part, HostedCall) and part.tool == "web_search" and NAME not in part.extra:
            queries += queries_of(part)
        elif isinstance(part, HostedResult) and part.tool in ("web_search", "file_search") and NAME not in part.extra:
            for source in part.sources:
                places.setdefault(_key(source), len(places))
                entries.setdefault(_key(source), _write_source(source))
        elif isinstance(part, Text):
            for citation in part.citations if NAME not in part.extra else ():
                entries.setdefault(_key(citation), _write_source(citation))
                index = places.setdefault(_key(citation), len(places))
                supports.append({"segment": _segment(part.text, citation, before), "groundingChunkIndices": [index]})
            before += len(part.text.encode())
    chunks = [*entries.values()]
    fields = {"webSearchQueries": queries, "groundingChunks": chunks, "groundingSupports": supports}
    return {name: value for name, value in fields.items() if value}


def _key(source: Citation) -> tuple[Any, ...]:
    if source.url is not None:
        return (source.url,)
    return source.source, source.title, source.document_index, source.cited_text


def _write_source(source: Citation) -> JsonObject:
    if source.url is not None:
        return {"web": {"uri": source.url, "title": source.title or source.url}}
    fields = {"title": source.title, "documentName": source.source, "text": source.cited_text}
    return {"retrievedContext": without_none(fields)}


def _segment(text: str, citation: Citation, before: int) -> JsonObject:
    start, end = citation.start or 0, len(text) if citation.end is None else citation.end
    first, last = before + len(text[:start].encode()), before + len(text[:end].encode())
    return {**({"startIndex": first} if first else {}), "endIndex": last, "text": text[start:end]}
