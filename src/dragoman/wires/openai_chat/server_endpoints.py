"""Models, embeddings and files for clients of OpenAI."""

import struct

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Embeddings, JsonObject, ModelInfo, Ranking
from dragoman.types.data_urls import encode_base64
from dragoman.wires.common.json import without_none
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Rerank,
    Route,
    ServerEndpoint,
    embeddings_endpoint,
    json_response,
    list_models_endpoint,
    show_model_endpoint,
)
from dragoman.wires.openai_chat.file_endpoints import FILE_ENDPOINTS
from dragoman.wires.openai_chat.schema import OpenAIEmbeddingsRequest, RerankRequest
from dragoman.wires.openai_chat.server import PLACE_PATHS, deployment


def _encode_model(model: ModelInfo) -> JsonObject:
    owner = model.id.partition("/")[0] if "/" in model.id else "dragoman"
    return {"id": model.id, "object": "model", "created": model.created or 0, "owned_by": owner}


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"object": "list", "data": [_encode_model(model) for model in models]}


def _decode_embed(http: HttpRequest) -> Embed:
    body, rest = read_fields(OpenAIEmbeddingsRequest, decode_request_json(http), "body")
    model = body.model or deployment(http)
    if not model:
        raise missing_field("model")
    base64 = body.encoding_format == "base64"
    return Embed(
        model, decode_texts(body.input, "input"), body.dimensions, base64, ignored_fields=tuple(without_none(rest))
    )


def decode_texts(value: str | list[str | int | list[int]], field: str) -> tuple[str | tuple[int, ...], ...]:
    """The texts of a text or a list of texts, where a text may also be a list of tokens."""
    pieces = [value] if isinstance(value, str) else value
    tokens = tuple(piece for piece in pieces if isinstance(piece, int))
    if not pieces or (tokens and len(tokens) < len(pieces)):
        raise invalid_field(field, "must be a text, a list of texts, a list of tokens or a list of these")
    if tokens:
        return (tokens,)
    return tuple(tuple(piece) if isinstance(piece, list) else piece for piece in pieces if not isinstance(piece, int))


def _encode_embeddings(request: Embed, embeddings: Embeddings) -> JsonObject:
    tokens = embeddings.usage.input or 0
    vectors = [_pack(vector) if request.base64 else list(vector) for vector in embeddings.vectors]
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)],
        "model": request.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _pack(vector: tuple[float, ...]) -> str:
    return encode_base64(struct.pack(f"<{len(vector)}f", *vector))


def _decode_rerank(http: HttpRequest) -> Rerank:
    body, rest = read_fields(RerankRequest, decode_request_json(http), "body")
    if not body.model:
        raise missing_field("model")
    texts = tuple(_document(document, index) for index, document in enumerate(body.documents))
    ignored = tuple(without_none(rest))
    return Rerank(body.model, body.query, texts, body.top_n, bool(body.return_documents), ignored_fields=ignored)


def _document(document: str | JsonObject, index: int) -> str:
    text = document if isinstance(document, str) else document.get("text")
    if not isinstance(text, str):
        raise invalid_field(f"documents[{index}]", "must be a text or an object with a text")
    return text


def _encode_ranking(request: Rerank, ranking: Ranking) -> HttpResponse:
    tokens = ranking.usage.input or 0
    results: list[JsonObject] = []
    for document in ranking.documents:
        results.append({"index": document.index, "relevance_score": document.score})
        if request.with_texts:
            results[-1]["document"] = {"text": request.documents[document.index]}
    return json_response(
        {
            "object": "rerank",
            "model": request.model,
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"api_version": {"version": "2"}, "tokens": {"input_tokens": tokens}},
        }
    )


_MODELS = ("/v1", "/openai/v1", "/openai")
"""The beginnings of the paths; those with `/openai` are a cloud's."""

SERVER_ENDPOINTS = (
    *(
        list_models_endpoint(Route(method="GET", path=f"{start}/models"), _encode_models)
        for start in (*_MODELS, *PLACE_PATHS)
    ),
    *(show_model_endpoint(Route(method="GET", path=f"{start}/models/{{model}}"), _encode_model) for start in _MODELS),
    *(
        embeddings_endpoint(Route(method="POST", path=f"{start}/embeddings"), _decode_embed, _encode_embeddings)
        for start in ("/v1", "/openai/v1", "/openai/deployments/{model}")
    ),
    *(
        ServerEndpoint(Route(method="POST", path=f"{start}/rerank"), _decode_rerank, _encode_ranking)
        for start in ("", "/v1", "/v2")
    ),
    *FILE_ENDPOINTS,
)
