"""Anthropic's endpoints besides generation, as a server: models, token counts and files."""

from dragoman.types import JsonObject, ModelInfo
from dragoman.wires.anthropic.file_endpoints import FILE_ENDPOINTS
from dragoman.wires.anthropic.server import AnthropicServer
from dragoman.wires.common.server_endpoints import (
    Route,
    count_tokens_endpoint,
    first_and_last,
    list_models_endpoint,
    show_model_endpoint,
)
from dragoman.wires.common.times import write_time

_HEADER = "anthropic-version"
"""The header that distinguishes Anthropic's clients; OpenAI's use the same path."""

_UNKNOWN_TIME = "1970-01-01T00:00:00Z"
"""Clients require a time."""


def _encode_model(model: ModelInfo) -> JsonObject:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.name or model.id,
        "created_at": write_time(model.created) or _UNKNOWN_TIME,
        "lifecycle": "active",  # a gateway lists only models that it serves
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_output,
    }


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    data = [_encode_model(model) for model in models]
    return {"data": data, "has_more": False, **first_and_last(data)}


SERVER_ENDPOINTS = (
    list_models_endpoint(Route(method="GET", path="/v1/models", header=_HEADER), _encode_models),
    show_model_endpoint(Route(method="GET", path="/v1/models/{model}", header=_HEADER), _encode_model),
    *(
        count_tokens_endpoint(
            Route(method="POST", path=path), AnthropicServer().decode_request, lambda count: {"input_tokens": count}
        )
        for path in (
            "/v1/messages/count_tokens",
            "/anthropic/v1/messages/count_tokens",
            "/v1/projects/{project}/locations/{location}/publishers/anthropic/models/count-tokens:rawPredict",
        )
    ),
    *FILE_ENDPOINTS,
)
