"""The models of another gateway; the native protocol has no embeddings and counts no tokens."""

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.http import get_request


class _Endpoints(Endpoints):
    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /models."""
        return get_request(target, "/models")


ENDPOINTS = _Endpoints()
