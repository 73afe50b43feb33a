"""Google's endpoints besides generation, as a server: models and token counts."""

import msgspec

from dragoman.http import HttpRequest
from dragoman.types import JsonObject, ModelInfo, Request, is_object
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.request_body import decode_request_json
from dragoman.wires.common.server_endpoints import (
    Route,
    ServerEndpoint,
    count_tokens_endpoint,
    list_models_endpoint,
    show_model_endpoint,
)
from dragoman.wires.google.schema import camel
from dragoman.wires.google.server import GeminiServer

_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_COUNT = ":countTokens"


def _encode_model(model: ModelInfo) -> JsonObject:
    fields = {
        "name": f"models/{model.id}",
        "displayName": model.name or model.id,
        "inputTokenLimit": model.context_window,
        "outputTokenLimit": model.max_output,
        "supportedGenerationMethods": _METHODS,
    }
    return without_none(fields)


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"models": [_encode_model(model) for model in models]}


def _decode_count(http: HttpRequest) -> tuple[str, Request]:
    """Decode a request to count: the body itself, or its `generateContentRequest`."""
    body = camel(decode_request_json(http))
    inner = body.get("generateContentRequest")
    path = http.path.partition("?")[0].removesuffix(_COUNT) + ":generateContent"
    generate = msgspec.structs.replace(http, path=path, body=encode_json(inner if is_object(inner) else body))
    return GeminiServer().decode_request(generate)


def _endpoints(version: str, header: str | None) -> tuple[ServerEndpoint, ...]:
    path = f"/{version}/models"
    return (
        list_models_endpoint(Route(method="GET", path=path, header=header), _encode_models),
        show_model_endpoint(Route(method="GET", path=f"{path}/{{model}}", header=header), _encode_model),
        count_tokens_endpoint(
            Route(method="POST", path=f"{path}/{{model}}{_COUNT}"), _decode_count, lambda count: {"totalTokens": count}
        ),
    )


SERVER_ENDPOINTS = (*_endpoints("v1beta", None), *_endpoints("v1", "x-goog-api-client"))
