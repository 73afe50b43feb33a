"""Embeddings and rankings for clients of Cohere, and for those who imitate its rankings: Jina, Voyage, vLLM."""

from collections.abc import Mapping

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Embeddings, JsonObject, Ranking, is_list, is_object
from dragoman.types.checks import shown
from dragoman.wires.common.embedding_forms import FORMS, VectorFormat, encode_vectors, read_options
from dragoman.wires.common.json import without_none
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Rerank,
    Route,
    ServerEndpoint,
    embeddings_endpoint,
    json_response,
)
from dragoman.wires.openai_chat.schema import RerankRequest, TextsRequest

_FORMATS: Mapping[str, VectorFormat] = {"float": "float", "base64": "base64"}
"""The `embedding_types` that we can make of any vectors."""


# Embeddings -----------------------------------------------------------------------------------------------------------


def _decode_embed(http: HttpRequest) -> Embed:
    body, rest = read_fields(TextsRequest, decode_request_json(http), "body")
    if not body.model:
        raise missing_field("model")
    if body.images:
        raise invalid_field("images", f"must be absent, got {len(body.images)}; send texts")
    if body.texts and body.inputs:
        raise invalid_field("inputs", "must be absent if there are texts, got both; send one of them")
    texts = body.texts or [_input_text(each, index) for index, each in enumerate(body.inputs or [])]
    if not texts:
        raise missing_field("texts")
    types = body.embedding_types
    if types is not None and not (types and _FORMATS.keys() >= {*types}):
        raise invalid_field("embedding_types", f"must be float or base64, got {', '.join(types) or 'none'}")
    is_old = types is None and http.path.startswith("/v1/")
    return Embed(
        body.model,
        tuple(texts),
        read_options(FORMS["texts"].name, rest, body.output_dimension),
        () if is_old else tuple(_FORMATS[each] for each in types or ("float",)),
    )


def _input_text(item: JsonObject, index: int) -> str:
    """The text of an input; its parts are one text."""
    parts = item.get("content")
    texts = [part.get("text") if is_object(part) else None for part in parts] if is_list(parts) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise invalid_field(f"inputs[{index}].content", "must be a list of texts; other parts cannot be embedded")
    return "\n".join(map(str, texts))


def _encode_embeddings(request: Embed, embeddings: Embeddings) -> JsonObject:
    by_type = {format: encode_vectors(embeddings.vectors, format) for format in request.vector_formats}
    return {
        "id": "",
        "embeddings": by_type or encode_vectors(embeddings.vectors, "float"),
        "texts": list(request.texts),
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": embeddings.usage.input or 0}},
        "response_type": "embeddings_by_type" if by_type else "embeddings_floats",
    }


# Rankings -------------------------------------------------------------------------------------------------------------


def _decode_rerank(http: HttpRequest) -> Rerank:
    body, rest = read_fields(RerankRequest, decode_request_json(http), "body")
    if not body.model:
        raise missing_field("model")
    texts = tuple(_document(document, index) for index, document in enumerate(body.documents))
    top = body.top_n if body.top_n is not None else body.top_k
    ignored = tuple(without_none(rest))
    return Rerank(body.model, body.query, texts, top, bool(body.return_documents), ignored_fields=ignored)


def _document(document: str | JsonObject, index: int) -> str:
    text = document if isinstance(document, str) else document.get("text")
    if not isinstance(text, str):
        raise invalid_field(f"documents[{index}]", f"must be a text or an object with a text, got {shown(document)}")
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


SEARCH_ENDPOINTS = (
    *(
        embeddings_endpoint(Route(method="POST", path=f"{start}/embed"), _decode_embed, _encode_embeddings)
        for start in ("/v1", "/v2")
    ),
    *(
        ServerEndpoint(Route(method="POST", path=f"{start}/rerank"), _decode_rerank, _encode_ranking)
        for start in ("", "/v1", "/v2")
    ),
)
