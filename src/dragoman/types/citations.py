"""`Citation`: where a text of an answer comes from."""

from typing import Literal, TypeAlias

from dragoman.types.base import Extra
from dragoman.types.structs import Value

SourceUnit: TypeAlias = Literal["characters", "pages", "blocks"]


class Citation(Value, frozen=True, kw_only=True):
    """A source of a text: a page of the web, a file, or a document of the request."""

    url: str | None = None
    title: str | None = None
    source: str | None = None
    """The provider's id of the source, if it has no URL: a file, a document, a search result."""
    document_index: int | None = None
    """Which document or search result of the request it is, from 0."""
    start: int | None = None
    """The first character of the text that it supports. None if the provider does not say; the part is then meant."""
    end: int | None = None
    """The character after the last one."""
    cited_text: str | None = None
    """The words of the source."""
    source_unit: SourceUnit | None = None
    """What `source_start` and `source_end` count: characters and blocks from 0, pages from 1."""
    source_start: int | None = None
    """Where the words are in the source."""
    source_end: int | None = None
    extra: Extra = {}
