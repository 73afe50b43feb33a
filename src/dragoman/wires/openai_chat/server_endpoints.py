"""Models, embeddings and files for clients of OpenAI."""

from collections.abc import Mapping

from dragoman.http import HttpRequest
from dragoman.types import Embeddings, JsonObject, ModelInfo
from dragoman.wires.common.embedding_forms import VectorFormat, encode_vectors, read_options
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Route,
    embeddings_endpoint,
    list_models_endpoint,
    show_model_endpoint,
)
from dragoman.wires.openai_chat.file_endpoints import FILE_ENDPOINTS
from dragoman.wires.openai_chat.schema import NAME, OpenAIEmbeddingsRequest
from dragoman.wires.openai_chat.search_endpoints import SEARCH_ENDPOINTS
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
    formats: tuple[VectorFormat, ...] = ()
    if body.encoding_format == "base64":
        formats = (_PACKED.get(str(rest.get("output_dtype")), "base64"),)
    return Embed(model, decode_texts(body.input, "input"), read_options(NAME, rest, body.dimensions), formats)


_PACKED: Mapping[str, VectorFormat] = {
    "int8": "base64_int8",
    "binary": "base64_int8",
    "uint8": "base64_uint8",
    "ubinary": "base64_uint8",
}
"""What base64 has for each `output_dtype`; floats for the others."""


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
    format: VectorFormat = request.vector_formats[0] if request.vector_formats else "float"
    vectors = encode_vectors(embeddings.vectors, format)
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)],
        "model": request.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


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
    *SEARCH_ENDPOINTS,
    *FILE_ENDPOINTS,
)
