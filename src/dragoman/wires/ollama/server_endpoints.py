"""Models, vectors and the version as Ollama's clients ask for them."""

from dragoman.http import HttpRequest
from dragoman.types import Embeddings, JsonObject, ModelInfo
from dragoman.wires.common.json import without_none
from dragoman.wires.common.request_body import decode_request_json, invalid_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Route,
    ServerEndpoint,
    ShowModel,
    embeddings_endpoint,
    json_reply,
    list_models_endpoint,
    static_endpoint,
)
from dragoman.wires.ollama.schema import EmbedRequest, ShowRequest, write_moment

VERSION = "0.13.0"
"""The version whose routes and fields we speak (2026-11); clients ask for it before they send tools or think."""
_DETAILS: JsonObject = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": None,
    "parameter_size": "",
    "quantization_level": "",
}


def _encode_model(model: ModelInfo) -> JsonObject:
    known = {"name": model.id, "model": model.id, "modified_at": write_moment(model.created)}
    return {**known, "size": 0, "digest": "", "details": _DETAILS}


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"models": [_encode_model(model) for model in models]}


def _decode_show(http: HttpRequest) -> ShowModel:
    shape, _ = read_fields(ShowRequest, decode_request_json(http), "body")
    name = shape.model or shape.name
    if not name:
        raise invalid_field("model", "it is required")
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
        "modified_at": write_moment(model.created),
    }


def _decode_embed(http: HttpRequest) -> Embed:
    shape, rest = read_fields(EmbedRequest, decode_request_json(http), "body")
    texts = (shape.input,) if isinstance(shape.input, str) else tuple(shape.input)
    return Embed(shape.model, texts, shape.dimensions, unread=tuple(without_none(rest)))


def _encode_embeddings(asked: Embed, found: Embeddings) -> JsonObject:
    vectors = [list(vector) for vector in found.vectors]
    return {"model": asked.model, "embeddings": vectors, **without_none({"prompt_eval_count": found.usage.input})}


SERVER_ENDPOINTS = (
    list_models_endpoint(Route(method="GET", path="/api/tags"), _encode_models),
    ServerEndpoint(
        Route(method="POST", path="/api/show"), _decode_show, lambda _, found: json_reply(_encode_show(found))
    ),
    embeddings_endpoint(Route(method="POST", path="/api/embed"), _decode_embed, _encode_embeddings),
    static_endpoint(Route(method="GET", path="/api/version"), lambda: json_reply({"version": VERSION})),
    static_endpoint(Route(method="GET", path="/api/ps"), lambda: json_reply({"models": []})),
)
