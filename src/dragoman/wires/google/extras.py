"""Models, embeddings, and counted tokens of the Gemini API."""

from collections.abc import Sequence

import msgspec

from dragoman.extras import Embeddable, Extras, http_get, words_of
from dragoman.http import HttpRequest
from dragoman.target import Target
from dragoman.types import Request
from dragoman.wire import Notes, http_request, without_none
from dragoman.wires.google.request import encode_request
from dragoman.wires.google.shapes import NAME

_GENERATE = ":generateContent"


class _Extras(Extras):
    most_texts = 100

    def encode_models(self, target: Target, /) -> HttpRequest:
        """GET /models."""
        return http_get(target, "/models?pageSize=1000")

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        """POST :countTokens, with the request as it would be."""
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        counted = {"generateContentRequest": {"model": _resource(target), **body}}
        path = http.path.removesuffix(_GENERATE) + ":countTokens"
        return msgspec.structs.replace(http, path=path, body=msgspec.json.encode(counted))

    def encode_embeddings(self, texts: Sequence[Embeddable], dimensions: int | None, target: Target, /) -> HttpRequest:
        """POST :batchEmbedContents."""
        requests = [
            without_none(
                {
                    "model": _resource(target),
                    "content": {"parts": [{"text": text}]},
                    "outputDimensionality": dimensions,
                }
            )
            for text in words_of(texts, target)
        ]
        return http_request(target, f"/{_resource(target)}:batchEmbedContents", {"requests": requests}, Notes(NAME))


def _resource(target: Target) -> str:
    return target.model if "/" in target.model else f"models/{target.model}"


EXTRAS = _Extras()
