"""Bedrock's endpoints besides generation, as a client: token counts, embeddings and rankings.

Models are listed by another service of AWS. Embeddings and rankings are made by InvokeModel, in the form of each
maker (2026-11).
"""

from collections.abc import Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request
from dragoman.wires.bedrock.encoder import encode_request
from dragoman.wires.common.endpoints import Embeddable, Endpoints, require_texts
from dragoman.wires.common.http import post_request
from dragoman.wires.common.invoke import invoke_path
from dragoman.wires.common.json import without_none
from dragoman.wires.common.notices import NoticeCollector

COHERE_TEXTS = 96
"""Texts of one request to a model of Cohere."""
_COUNTED = frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"})


class _Endpoints(Endpoints):
    counts_tokens = True

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        http = encode_request(
            msgspec.structs.replace(request, stream=False), msgspec.structs.replace(target, hosting=None)
        )
        body = msgspec.json.decode(http.body, type=dict[str, object])
        counted = {"input": {"converse": {key: value for key, value in body.items() if key in _COUNTED}}}
        path = http.path.removesuffix("/converse") + "/count-tokens"
        return msgspec.structs.replace(http, path=path, body=msgspec.json.encode(counted))

    def decode_tokens(self, body: bytes, /) -> int:
        return super().decode_tokens(body.replace(b'"inputTokens"', b'"input_tokens"'))

    def batch_size(self, target: Target, /) -> int:
        """Amazon's own models take one text per request."""
        return COHERE_TEXTS if target.quirks.embeddings == "texts" else 1

    def encode_embeddings(self, texts: Sequence[Embeddable], dimensions: int | None, target: Target, /) -> HttpRequest:
        strings = require_texts(texts, target)
        if target.quirks.embeddings == "texts":
            body: JsonObject = {"texts": strings, "input_type": "search_document", "embedding_types": ["float"]}
            body |= without_none({"output_dimension": dimensions})
        elif target.quirks.embeddings == "single":
            params = {"embeddingPurpose": "GENERIC_INDEX", "text": {"truncationMode": "NONE", "value": strings[0]}}
            params |= without_none({"embeddingDimension": dimensions})
            body = {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": params}
        else:
            body = {"inputText": strings[0], **without_none({"dimensions": dimensions})}
        return _invoke(target, body)

    def encode_rerank(self, query: str, documents: Sequence[str], top: int | None, target: Target, /) -> HttpRequest:
        body = {"query": query, "documents": [*documents], **without_none({"top_n": top})}
        return _invoke(target, {**body, "api_version": 2} if target.quirks.rerank == "api_version" else body)


def _invoke(target: Target, body: JsonObject) -> HttpRequest:
    plain = msgspec.structs.replace(target, hosting=None)
    return post_request(plain, invoke_path(target.model, stream=False), body, NoticeCollector(target.wire))


ENDPOINTS = _Endpoints()
