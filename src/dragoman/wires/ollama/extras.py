"""Models and embeddings of Ollama; it counts no tokens."""

from collections.abc import Sequence

from dragoman.extras import Extras, http_get
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.wire import Notes, http_request, without_none
from dragoman.wires.ollama.shapes import NAME


class _Extras(Extras):
    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /api/tags."""
        return http_get(target, "/api/tags")

    def encode_embeddings(self, texts: Sequence[str], dimensions: int | None, target: Target, /) -> HttpRequest:
        """POST /api/embed."""
        body = {"model": target.model, "input": list(texts), **without_none({"dimensions": dimensions})}
        return http_request(target, "/api/embed", body, Notes(NAME))


EXTRAS = _Extras()
