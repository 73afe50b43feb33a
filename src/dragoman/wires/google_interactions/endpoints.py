"""The API's endpoints besides generation, as a client: models. It counts no tokens and has no embeddings."""

from dragoman.types import ModelInfo
from dragoman.wires.common.endpoints import Endpoints


class _Endpoints(Endpoints):
    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of a page; Google leaves out an empty list."""
        return () if body.strip() == b"{}" else super().decode_models(body)


ENDPOINTS = _Endpoints("/models?pageSize=1000")
