"""The models of another gateway; the native protocol has no embeddings and counts no tokens."""

from dragoman.extras import Extras, http_get
from dragoman.http import HttpRequest
from dragoman.target import Target


class _Extras(Extras):
    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /models."""
        return http_get(target, "/models")


EXTRAS = _Extras()
