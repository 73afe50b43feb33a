"""Ollama's endpoints besides generation, as a client: models and embeddings."""

from collections.abc import Sequence

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.embedding_forms import OLLAMA, EmbeddingForm, encode_embedding_options
from dragoman.wires.common.endpoints import Embeddable, Endpoints, require_texts
from dragoman.wires.common.http import post_request
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.ollama.schema import NAME


class _Endpoints(Endpoints):
    def embedding_form(self, _target: Target, /) -> EmbeddingForm:
        return OLLAMA

    def encode_embeddings(
        self, texts: Sequence[Embeddable], options: EmbeddingOptions, target: Target, /
    ) -> HttpRequest:
        notices = NoticeCollector(NAME)
        fields = encode_embedding_options(options, OLLAMA, target, notices)
        body = {"model": target.model, "input": require_texts(texts, target), **fields}
        return post_request(target, "/api/embed", body, notices)


ENDPOINTS = _Endpoints("/api/tags")
