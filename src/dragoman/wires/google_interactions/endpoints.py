"""The API's endpoints besides generation, as a client: models. It counts no tokens and has no embeddings."""

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import ModelInfo
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.http import get_request


class _Endpoints(Endpoints):
    def encode_models(self, target: Target, /) -> HttpRequest:
        return get_request(target, "/models?pageSize=1000")

    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of a page; Google leaves out an empty list."""
        return () if body.strip() == b"{}" else super().decode_models(body)


ENDPOINTS = _Endpoints()
