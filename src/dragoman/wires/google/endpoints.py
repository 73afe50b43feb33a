"""Google's endpoints besides generation, as a client: models, embeddings and token counts."""

from collections.abc import Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import ModelInfo, Request
from dragoman.wires.common.endpoints import Embeddable, Endpoints, require_texts
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.json import without_none
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google.encoder import encode_request
from dragoman.wires.google.schema import NAME

_GENERATE = ":generateContent"


class _Endpoints(Endpoints):
    counts_tokens = True

    max_texts = 100

    def encode_models(self, target: Target, /) -> HttpRequest:
        return get_request(target, "/models?pageSize=1000")

    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of a page; Google leaves out an empty list."""
        return () if body.strip() == b"{}" else super().decode_models(body)

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        counted = {"generateContentRequest": {"model": _resource(target), **body}}
        path = http.path.removesuffix(_GENERATE) + ":countTokens"
        return msgspec.structs.replace(http, path=path, body=msgspec.json.encode(counted))

    def encode_embeddings(self, texts: Sequence[Embeddable], dimensions: int | None, target: Target, /) -> HttpRequest:
        requests = [
            without_none(
                {
                    "model": _resource(target),
                    "content": {"parts": [{"text": text}]},
                    "outputDimensionality": dimensions,
                }
            )
            for text in require_texts(texts, target)
        ]
        return post_request(
            target, f"/{_resource(target)}:batchEmbedContents", {"requests": requests}, NoticeCollector(NAME)
        )


def _resource(target: Target) -> str:
    return target.model if "/" in target.model else f"models/{target.model}"


ENDPOINTS = _Endpoints()
