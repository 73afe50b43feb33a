"""Models and embeddings of Ollama; it counts no tokens."""

from collections.abc import Sequence

from dragoman.extras import Embeddable, Extras, http_get, words_of
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.wire import Notes, http_request, without_none
from dragoman.wires.ollama.shapes import NAME


class _Extras(Extras):
    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /api/tags."""
        return http_get(target, "/api/tags")

    def encode_embeddings(self, texts: Sequence[Embeddable], dimensions: int | None, target: Target, /) -> HttpRequest:
        """POST /api/embed."""
        body = {"model": target.model, "input": words_of(texts, target), **without_none({"dimensions": dimensions})}
        return http_request(target, "/api/embed", body, Notes(NAME))


EXTRAS = _Extras()
