"""Bedrock's endpoints besides generation, as a client: token counts, embeddings and rankings.

Models are listed by another service of AWS. Embeddings and rankings are made by InvokeModel, in the form of each
maker (2026-11).
"""

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, Request
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.bedrock.encoder import encode_request
from dragoman.wires.common.embedding_forms import FORMS, NOVA, TITAN, EmbeddingForm, encode_embedding_options
from dragoman.wires.common.endpoints import Embeddable, Endpoints, require_texts
from dragoman.wires.common.http import post_request
from dragoman.wires.common.invoke import invoke_path
from dragoman.wires.common.json import without_none
from dragoman.wires.common.notices import NoticeCollector

_FORMS: Mapping[str | None, EmbeddingForm] = {"texts": FORMS["texts"], "single": NOVA}
"""By the quirk `embeddings`; other models have the form of Titan."""
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

    def embedding_form(self, target: Target, /) -> EmbeddingForm:
        return _FORMS.get(target.quirks.embeddings, TITAN)

    def encode_embeddings(
        self, texts: Sequence[Embeddable], options: EmbeddingOptions, target: Target, /
    ) -> HttpRequest:
        strings, notices = require_texts(texts, target), NoticeCollector(target.wire)
        kind = target.quirks.embeddings
        fields = encode_embedding_options(options, self.embedding_form(target), target, notices)
        if kind == "texts":
            body: JsonObject = {"texts": strings, **fields}
        elif kind == "single":
            text = {"truncationMode": fields.pop("truncationMode", "NONE"), "value": strings[0]}
            body = {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": {**fields, "text": text}}
        else:
            body = {"inputText": strings[0], **fields}
        return _invoke(target, body, notices)

    def encode_rerank(self, query: str, documents: Sequence[str], top: int | None, target: Target, /) -> HttpRequest:
        body = {"query": query, "documents": [*documents], **without_none({"top_n": top})}
        body |= without_none({"api_version": target.quirks.rerank_version})
        return _invoke(target, body, NoticeCollector(target.wire))


def _invoke(target: Target, body: JsonObject, notices: NoticeCollector) -> HttpRequest:
    plain = msgspec.structs.replace(target, hosting=None)
    return post_request(plain, invoke_path(target.model, stream=False), body, notices)


ENDPOINTS = _Endpoints()
