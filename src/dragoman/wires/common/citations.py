"""Citations in the forms that several protocols share, and as numbered sources for protocols without one.

Annotations of OpenAI's protocols count characters of the text. A citation without a place supports the whole part.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.types import Citation, JsonObject, Text, is_list, is_object
from dragoman.types.parts import number_sources
from dragoman.wires.common.json import object_of, objects, whole_number

CITATION_FIELDS = frozenset({
    "annotations", "citations", "search_results", "citationMetadata", "groundingMetadata", "urlContextMetadata",
})  # fmt: skip
"""Members of a text's `extra` that its citations cover."""


def text_or_none(value: object, /) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def first_text(data: JsonObject, *names: str) -> str | None:
    """The first member that is a text.

    >>> first_text({"uri": "https://x"}, "url", "uri")
    'https://x'
    """
    return next((text for name in names if (text := text_or_none(data.get(name))) is not None), None)


def read_annotations(annotations: object, /) -> list[Citation]:
    """The citations among the annotations of a text; the others are left out.

    >>> read_annotations([{"type": "url_citation", "url": "https://x", "start_index": 0, "end_index": 4}])[0].end
    4
    """
    return [citation for annotation in objects(annotations) if (citation := _read_annotation(annotation)) is not None]


def _read_annotation(data: JsonObject) -> Citation | None:
    kind = data.get("type")
    inner = data.get(kind) if isinstance(kind, str) else None
    if is_object(inner):  # Chat Completions has the members inside
        data = {**data, **inner}
    if is_list(data.get("sources")) and "text" in data:
        return _read_span(data)
    if not isinstance(kind, str) or kind not in _ANNOTATIONS:
        return None
    start, end = whole_number(data.get("start_index")), whole_number(data.get("end_index"))
    has_place = start is not None and end is not None and end > start
    page = whole_number(data.get("page_number"))
    return Citation(
        url=first_text(data, "url", "document_uri"),
        title=first_text(data, "title", "filename", "file_name", "name"),
        source=first_text(data, "file_id", "source", "place_id"),
        start=start if has_place else None,
        end=end if has_place else None,
        cited_text=first_text(data, "cited_text", "content"),
        source_unit=None if page is None else "pages",
        source_start=page,
        source_end=page,
    )


_ANNOTATIONS = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path", "place_citation"})


_NOTHING: JsonObject = {}


def _read_span(data: JsonObject) -> Citation:
    """A citation of Cohere: a span of the text with its sources, of which the first one counts."""
    source: JsonObject = next((item for item in data["sources"] if is_object(item)), _NOTHING)
    inner = source.get("document") or source.get("tool_output")
    document: JsonObject = object_of(inner)
    return Citation(
        url=first_text(document, "url"),
        title=first_text(document, "title"),
        source=first_text(source, "id"),
        start=whole_number(data.get("start")),
        end=whole_number(data.get("end")),
        cited_text=first_text(document, "snippet", "text"),
    )


def read_search_results(results: object, urls: object, /) -> list[Citation]:
    """The sources that an answer lists next to its text: results of a search, and URLs in the order of their numbers.

    >>> [source.title for source in read_search_results([{"url": "https://x", "title": "X"}], ["https://y", "https://x"])]
    [None, 'X']
    """
    known = {
        item["url"]: Citation(
            url=item["url"], title=first_text(item, "title", "name"), cited_text=first_text(item, "snippet", "content")
        )
        for item in objects(results)
        if text_or_none(item.get("url"))
    }
    listed = [url for url in urls if isinstance(url, str) and url] if is_list(urls) else []
    return [known.get(url) or Citation(url=url) for url in dict.fromkeys([*listed, *known])]


def write_annotation(citation: Citation, text: str, /, *, offset: int = 0) -> JsonObject:
    """The annotation of a citation in the form of the Responses API; `offset` is where the text begins.

    >>> write_annotation(Citation(url="https://x"), "Ebb.")["end_index"]
    4
    """
    start = 0 if citation.start is None else citation.start
    end = len(text) if citation.end is None else citation.end
    place = {"start_index": offset + start, "end_index": offset + end}
    if citation.url is not None:
        return {"type": "url_citation", **place, "url": citation.url, "title": citation.title or citation.url}
    name = citation.title or citation.source or ""
    number = citation.document_index or 0
    return {"type": "file_citation", "file_id": citation.source or "", "filename": name, "index": number}


def covers_citations(data: Any, /) -> bool:
    """Whether the citations of a text have all that the data of another wire has about it.

    >>> covers_citations({"annotations": []}), covers_citations({"signature": "s"})
    (True, False)
    """
    return is_object(data) and data.keys() <= CITATION_FIELDS


def with_numbered_sources(text: Text, /) -> Text:
    """The text with its sources below, for protocols whose messages have no citations.

    A source whose URL stands in the text already is not repeated.

    >>> with_numbered_sources(Text(text="At six.", citations=(Citation(url="https://x", title="Tides"),))).text
    'At six.\\n\\nSources:\\n[1] Tides: https://x'
    """
    sources = unique_sources(text.citations)
    if not sources or all(source.url is not None and source.url in text.text for source in sources):
        return replace(text, citations=())
    lines = "\n".join(number_sources(sources))
    return replace(text, text=f"{text.text}\n\nSources:\n{lines}", citations=())


def unique_sources(citations: Iterable[Citation], /) -> list[Citation]:
    """Each source once, in order.

    >>> len(unique_sources([Citation(url="https://x", start=0, end=1), Citation(url="https://x", start=2, end=3)]))
    1
    """
    by_source: dict[object, Citation] = {}
    for citation in citations:
        key = citation.url or (citation.source, citation.document_index, citation.title, citation.cited_text)
        by_source.setdefault(key, citation)
    return [*by_source.values()]
