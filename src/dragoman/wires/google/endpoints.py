"""Google's endpoints besides generation, as a client: models, embeddings and token counts.

The Gemini API and Vertex AI have other forms of all of them (google-genai 3.3, 2026-11).
"""

from collections.abc import Sequence

import msgspec

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import JsonObject, ModelInfo, Request
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.embedding_forms import GOOGLE, GOOGLE_CLOUD, EmbeddingForm, encode_embedding_options
from dragoman.wires.common.endpoints import Embeddable, Endpoints, require_texts
from dragoman.wires.common.http import get_request, post_request
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.google.encoder import cloud_of, encode_request, locate
from dragoman.wires.google.schema import NAME

_GENERATE = ":generateContent"
_COUNTED_FIELDS = ("systemInstruction", "tools", "generationConfig", "contents")
"""What Vertex AI takes to count; it refuses other fields."""
_INSTANCE_FIELDS = {"taskType": "task_type", "title": "title"}
"""The fields of a text in a request of `predict`."""


class _Endpoints(Endpoints):
    counts_tokens = True

    def embedding_form(self, target: Target, /) -> EmbeddingForm:
        return GOOGLE if cloud_of(target) is None else GOOGLE_CLOUD

    def batch_size(self, target: Target, /) -> int:
        """Gemini's models for embeddings take one text per request on Vertex AI."""
        is_single = cloud_of(target) is not None and (_is_embed_content(target) or "gemini" in target.model)
        return 1 if is_single else super().batch_size(target)

    def encode_models(self, target: Target, /) -> HttpRequest:
        http = get_request(target, "/models?pageSize=1000")
        if (cloud := cloud_of(target)) is None:
            return http
        # Only v1beta1 lists models, for all projects and locations.
        root = cloud["version"].rpartition("/")[0]
        return msgspec.structs.replace(http, path=f"{root}/v1beta1/publishers/google/models?pageSize=100")

    def decode_models(self, body: bytes, /) -> tuple[ModelInfo, ...]:
        """The models of a page; Google leaves out an empty list."""
        return () if body.strip() == b"{}" else super().decode_models(body)

    def encode_tokens(self, request: Request, target: Target, /) -> HttpRequest:
        http = encode_request(msgspec.structs.replace(request, stream=False), target)
        body = msgspec.json.decode(http.body, type=dict[str, object])
        if cloud_of(target) is None:
            counted: JsonObject = {"generateContentRequest": {"model": _resource(target), **body}}
        else:
            counted = {field: body[field] for field in _COUNTED_FIELDS if field in body}
        path = http.path.removesuffix(_GENERATE) + ":countTokens"
        return msgspec.structs.replace(http, path=path, body=msgspec.json.encode(counted))

    def encode_embeddings(
        self, texts: Sequence[Embeddable], options: EmbeddingOptions, target: Target, /
    ) -> HttpRequest:
        strings, notices = require_texts(texts, target), NoticeCollector(NAME)
        if cloud_of(target) is not None:
            return _encode_cloud_embeddings(strings, options, target, notices)
        fields = encode_embedding_options(options, GOOGLE, target, notices)
        model = _resource(target)
        requests = [{"model": model, "content": {"parts": [{"text": text}]}, **fields} for text in strings]
        return post_request(target, f"/{model}:batchEmbedContents", {"requests": requests}, notices)


def _is_embed_content(target: Target) -> bool:
    """Whether Vertex AI serves the model by `embedContent`, as google-genai decides it; the others by `predict`."""
    model = target.model.rpartition("/")[2]
    return ("gemini" in model and model != "gemini-embedding-001") or "maas" in model


def _encode_cloud_embeddings(
    texts: list[str], options: EmbeddingOptions, target: Target, notices: NoticeCollector
) -> HttpRequest:
    fields = encode_embedding_options(options, GOOGLE_CLOUD, target, notices)
    if _is_embed_content(target):
        content = {"role": "user", "parts": [{"text": text} for text in texts]}
        method, field = ":embedContent", "embedContentConfig"
        body: JsonObject = {"content": content}
    else:
        method, field = ":predict", "parameters"
        # What a text is for belongs to each text.
        own = {_INSTANCE_FIELDS[name]: fields.pop(name) for name in _INSTANCE_FIELDS if name in fields}
        body = {"instances": [{"content": text, **own} for text in texts]}
    if fields:
        body[field] = fields
    target, resource = locate(target)
    return post_request(target, resource + method, body, notices)


def _resource(target: Target) -> str:
    return target.model if "/" in target.model else f"models/{target.model}"


ENDPOINTS = _Endpoints()
