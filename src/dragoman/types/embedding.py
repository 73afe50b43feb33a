"""What a user may say about embeddings besides the texts."""

from typing import Literal, TypeAlias, get_args

from dragoman.types.base import JsonObject
from dragoman.types.checks import check_choice, check_whole_number
from dragoman.types.structs import Value

EmbeddingPurpose: TypeAlias = Literal["query", "document", "similarity", "classification", "clustering"]
"""What a vector is for: some models make other vectors of questions than of the documents that answer them."""
Truncation: TypeAlias = Literal["start", "end", "none"]
"""Which end of a text that is too long is cut off; with `none`, such a text is an error."""


class EmbeddingOptions(Value, frozen=True, kw_only=True):
    """The options of a request for embeddings."""

    dimensions: int | None = None
    purpose: EmbeddingPurpose | None = None
    truncate: Truncation | None = None
    user: str | None = None
    extra: dict[str, JsonObject] = {}
    """Fields that only one form of requests has, by the name of the form."""

    def __post_init__(self) -> None:
        if self.dimensions is not None:
            check_whole_number("dimensions", self.dimensions, least=1)
        if self.purpose is not None:
            check_choice("purpose", self.purpose, get_args(EmbeddingPurpose))
        if self.truncate is not None:
            check_choice("truncate", self.truncate, get_args(Truncation))
