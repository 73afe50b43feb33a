"""The endpoints of the native protocol besides generation, as a server: models and documentation."""

from functools import cache

from dragoman.http import HttpResponse
from dragoman.types import JsonObject, ModelInfo
from dragoman.wires.common.json import encode_json, without_none
from dragoman.wires.common.server_endpoints import Route, list_models_endpoint, static_endpoint
from dragoman.wires.native.openapi import document
from dragoman.wires.native.page import page
from dragoman.wires.native.schema import PATH


def _encode_model(model: ModelInfo) -> JsonObject:
    fields = {
        "id": model.id,
        "object": "model",
        "name": model.name,
        "created": model.created,
        "context_window": model.context_window,
        "max_output": model.max_output,
    }
    return without_none(fields)


def _encode_models(models: tuple[ModelInfo, ...]) -> JsonObject:
    return {"object": "list", "data": [_encode_model(model) for model in models]}


@cache
def _document() -> HttpResponse:
    return HttpResponse(body=encode_json(document()))


@cache
def _page() -> HttpResponse:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": policy}
    return HttpResponse(headers=headers, body=page().encode())


SERVER_ENDPOINTS = (
    list_models_endpoint(Route(method="GET", path=f"{PATH}/models"), _encode_models),
    static_endpoint(Route(method="GET", path="/native/openapi.json"), _document),
    static_endpoint(Route(method="GET", path="/native/docs"), _page),
)
