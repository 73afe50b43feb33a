"""Ollama's endpoints besides generation, as a server: models, embeddings, version."""

from hashlib import sha256

from dragoman.http import HttpRequest
from dragoman.types import Embeddings, JsonObject, ModelInfo
from dragoman.wires.common.embedding_forms import read_options
from dragoman.wires.common.json import without_none
from dragoman.wires.common.request_body import decode_request_json, missing_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Route,
    ServerEndpoint,
    ShowModel,
    embeddings_endpoint,
    json_response,
    list_models_endpoint,
    static_endpoint,
)
from dragoman.wires.ollama.schema import NAME, OllamaEmbedRequest, OllamaOldEmbedRequest, OllamaShowRequest, write_time

VERSION = "0.13.0"
"""The version of the API that is served (2026-11); clients ask for it before they send tools or think."""
_DETAILS: JsonObject = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": None,
    "parameter_size": "",
    "quantization_level": "",
}


def _encode_model(model: ModelInfo) -> JsonObject:
    fields = {"name": model.id, "model": model.id, "modified_at": write_time(model.created)}
    # Clients tell models apart by their digest.
    return {**fields, "size": 0, "digest": sha256(model.id.encode()).hexdigest(), "details": _DETAILS}


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"models": [_encode_model(model) for model in models]}


def _decode_show(http: HttpRequest) -> ShowModel:
    body, _ = read_fields(OllamaShowRequest, decode_request_json(http), "body")
    name = body.model or body.name
    if not name:
        raise missing_field("model")
    return ShowModel(name)


def _encode_show(model: ModelInfo) -> JsonObject:
    info = {"general.architecture": "dragoman", "dragoman.context_length": model.context_window}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _DETAILS,
        "model_info": without_none(info),
        "capabilities": ["completion", "tools", "vision", "thinking"],
        "modified_at": write_time(model.created),
    }


def _decode_embed(http: HttpRequest) -> Embed:
    body, rest = read_fields(OllamaEmbedRequest, decode_request_json(http), "body")
    texts = (body.input,) if isinstance(body.input, str) else tuple(body.input)
    return Embed(body.model, texts, read_options(NAME, rest, body.dimensions))


def _encode_embeddings(query: Embed, embeddings: Embeddings) -> JsonObject:
    vectors = [list(vector) for vector in embeddings.vectors]
    return {
        "model": query.model,
        "embeddings": vectors,
        **without_none({"prompt_eval_count": embeddings.usage.input}),
    }


def _decode_old_embed(http: HttpRequest) -> Embed:
    """Decode a request of `/api/embeddings`, which Ollama replaced with `/api/embed` but still serves (2026-11)."""
    body, rest = read_fields(OllamaOldEmbedRequest, decode_request_json(http), "body")
    return Embed(body.model, (body.prompt,), read_options(NAME, rest))


def _encode_old_embedding(_: Embed, embeddings: Embeddings) -> JsonObject:
    return {"embedding": list(embeddings.vectors[0])}


SERVER_ENDPOINTS = (
    list_models_endpoint(Route(method="GET", path="/api/tags"), _encode_models),
    ServerEndpoint(
        Route(method="POST", path="/api/show"), _decode_show, lambda _, model: json_response(_encode_show(model))
    ),
    embeddings_endpoint(Route(method="POST", path="/api/embed"), _decode_embed, _encode_embeddings),
    embeddings_endpoint(Route(method="POST", path="/api/embeddings"), _decode_old_embed, _encode_old_embedding),
    static_endpoint(Route(method="GET", path="/api/version"), lambda: json_response({"version": VERSION})),
    static_endpoint(Route(method="GET", path="/api/ps"), lambda: json_response({"models": []})),
)
