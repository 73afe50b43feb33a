"""Google's endpoints besides generation, as a server: models, token counts and embeddings."""

from typing import NoReturn

import msgspec

from dragoman.errors import Unsupported
from dragoman.http import HttpRequest
from dragoman.types import Embeddings, JsonObject, ModelInfo, Request, is_list, is_object
from dragoman.types.checks import shown
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires.common.embedding_forms import read_options
from dragoman.wires.common.json import encode_json, object_of, without_none
from dragoman.wires.common.request_body import decode_request_json, invalid_field, missing_field
from dragoman.wires.common.server_endpoints import (
    Embed,
    Route,
    ServerEndpoint,
    ShowModel,
    count_tokens_endpoint,
    embeddings_endpoint,
    json_response,
    list_models_endpoint,
    path_parameter,
    path_parameters,
    show_model_endpoint,
)
from dragoman.wires.google.schema import NAME, camel
from dragoman.wires.google.server import CLOUD_PATHS, GeminiServer, published

_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_COUNT = ":countTokens"
_EMBED_FIELDS = frozenset({"model", "content", "outputDimensionality"})


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


def _decode_text(content: object, field: str) -> str:
    """The text of a content to embed. Its parts are one text."""
    parts = content.get("parts") if is_object(content) else None
    texts = [part.get("text") if is_object(part) else None for part in parts] if is_list(parts) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise invalid_field(f"{field}.parts", "must be a list of parts with a text; other parts cannot be embedded")
    return "\n".join(map(str, texts))


def _decode_embed(model: str, requests: list[tuple[str, JsonObject]]) -> Embed:
    """Decode the requests of a body, each with the name of its field."""
    options = [_decode_options(request) for _, request in requests]
    if any(each != options[0] for each in options):
        raise invalid_field("requests", "must have the same options in all requests; send one body for each of them")
    prefixes = [f"{field}.content" if field else "content" for field, _ in requests]
    texts = tuple(
        _decode_text(request.get("content"), prefix) for (_, request), prefix in zip(requests, prefixes, strict=True)
    )
    return Embed(model, texts, options[0])


def _decode_options(fields: JsonObject) -> EmbeddingOptions:
    size = fields.get("outputDimensionality")
    if not (size is None or (isinstance(size, int) and size > 0)):
        raise invalid_field("outputDimensionality", f"must be a whole number > 0, got {shown(size)}")
    return read_options(NAME, {name: fields[name] for name in fields if name not in _EMBED_FIELDS}, size)


def _embed_endpoint(path: str) -> ServerEndpoint:
    route = Route(method="POST", path=f"{path}/{{model}}:embedContent")

    def decode(http: HttpRequest) -> Embed:
        return _decode_embed(path_parameter(route, http), [("", camel(decode_request_json(http)))])

    def encode(_: Embed, embeddings: Embeddings) -> JsonObject:
        return {"embedding": {"values": list(embeddings.vectors[0])}}

    return embeddings_endpoint(route, decode, encode)


def _batch_embed_endpoint(path: str) -> ServerEndpoint:
    route = Route(method="POST", path=f"{path}/{{model}}:batchEmbedContents")

    def decode(http: HttpRequest) -> Embed:
        requests = camel(decode_request_json(http)).get("requests")
        if not is_list(requests) or not requests:
            raise missing_field("requests")
        named = [(f"requests[{i}]", camel(object_of(request))) for i, request in enumerate(requests)]
        return _decode_embed(path_parameter(route, http), named)

    def encode(_: Embed, embeddings: Embeddings) -> JsonObject:
        return {"embeddings": [{"values": list(vector)} for vector in embeddings.vectors]}

    return embeddings_endpoint(route, decode, encode)


def _endpoints(version: str, header: str | None) -> tuple[ServerEndpoint, ...]:
    path = f"/{version}/models"
    return (
        list_models_endpoint(Route(method="GET", path=path, header=header), _encode_models),
        show_model_endpoint(Route(method="GET", path=f"{path}/{{model}}", header=header), _encode_model),
        # Vercel's provider leaves out `models` for names with a slash (2026-11).
        *(endpoint for each in (path, f"/{version}") for endpoint in _model_endpoints(each)),
    )


def _model_endpoints(path: str) -> tuple[ServerEndpoint, ...]:
    route = Route(method="POST", path=f"{path}/{{model}}{_COUNT}")
    count = count_tokens_endpoint(route, _decode_count, lambda count: {"totalTokens": count})
    return count, _embed_endpoint(path), _batch_embed_endpoint(path)


def _encode_cloud_model(model: ModelInfo) -> JsonObject:
    return {"name": f"publishers/google/models/{model.id}", "launchStage": "GA"}


def _cloud_model(route: Route, http: HttpRequest) -> str:
    publisher, name = path_parameters(route, http)[-2:]
    return published(publisher, name)


def _cloud_embed_endpoint(path: str) -> ServerEndpoint:
    """Embeddings of newer models: one text, with its options in an object of their own."""
    route = Route(method="POST", path=f"{path}/{{model}}:embedContent")

    def decode(http: HttpRequest) -> Embed:
        body = camel(decode_request_json(http))
        options = camel(object_of(body.pop("embedContentConfig", None)))
        return _decode_embed(_cloud_model(route, http), [("", {**body, **options})])

    def encode(_: Embed, embeddings: Embeddings) -> JsonObject:
        usage = without_none({"promptTokenCount": embeddings.usage.input})
        return {"embedding": {"values": list(embeddings.vectors[0])}, **({"usageMetadata": usage} if usage else {})}

    return embeddings_endpoint(route, decode, encode)


def _instance_text(text: object, index: int) -> str:
    if not isinstance(text, str):
        raise invalid_field(f"instances[{index}].content", f"must be a text, got {shown(text)}; send one text in each")
    return text


def _predict_endpoint(path: str) -> ServerEndpoint:
    """Embeddings as the cloud serves them: one text per instance."""
    route = Route(method="POST", path=f"{path}/{{model}}:predict")

    def decode(http: HttpRequest) -> Embed:
        body = decode_request_json(http)
        instances, parameters = (body.get("instances"), body.get("parameters")) if is_object(body) else (None, None)
        items = [object_of(item) for item in instances] if is_list(instances) else []
        if not items:
            raise invalid_field("instances", f"must be a list of objects, got {shown(instances)}; send one per text")
        texts = [_instance_text(item.get("content"), index) for index, item in enumerate(items)]
        own = [_decode_options({**camel(item), **camel(object_of(parameters))}) for item in items]
        if any(each != own[0] for each in own):
            raise invalid_field("instances", "must have the same options, got several; send one body for each of them")
        return Embed(_cloud_model(route, http), tuple(texts), own[0])

    def encode(_: Embed, embeddings: Embeddings) -> JsonObject:
        # The count is that of all texts together; the cloud has one for each.
        tokens = (embeddings.usage.input or 0) // len(embeddings.vectors)
        statistics = {"token_count": tokens, "truncated": False}
        vectors = [{"values": list(vector), "statistics": statistics} for vector in embeddings.vectors]
        return {"predictions": [{"embeddings": vector} for vector in vectors]}

    return embeddings_endpoint(route, decode, encode)


def _cloud_endpoints(path: str) -> tuple[ServerEndpoint, ...]:
    count = Route(method="POST", path=f"{path}/{{model}}{_COUNT}")
    return (
        count_tokens_endpoint(count, _decode_count, lambda count: {"totalTokens": count}),
        _predict_endpoint(path),
        _cloud_embed_endpoint(path),
        *(_cloud_model_endpoints(path) if "{project}" not in path else ()),
    )


def _cloud_model_endpoints(path: str) -> tuple[ServerEndpoint, ...]:
    show = Route(method="GET", path=f"{path}/{{model}}")
    return (
        list_models_endpoint(
            Route(method="GET", path=path.replace("{publisher}", "google")),
            lambda models: {"publisherModels": [_encode_cloud_model(model) for model in models]},
        ),
        ServerEndpoint(
            show,
            lambda http: ShowModel(_cloud_model(show, http)),
            lambda _, model: json_response(_encode_cloud_model(model)),
        ),
    )


def _no_caches(_: HttpRequest) -> NoReturn:
    raise Unsupported(
        "cachedContents are not stored here; send the whole prompt with each request: targets that cache prompts do so"
    )


def _cache_endpoints(path: str) -> tuple[ServerEndpoint, ...]:
    """Refusals in Google's form: a prompt that is stored at one provider would bind a request to it."""
    routes = [Route(method=method, path=path) for method in ("POST", "GET")]
    routes += [Route(method=method, path=f"{path}/{{id}}") for method in ("GET", "PATCH", "DELETE")]
    return tuple(ServerEndpoint(route, _no_caches, lambda _request, _result: json_response({})) for route in routes)


SERVER_ENDPOINTS = (
    *_endpoints("v1beta", None),
    *_endpoints("v1", "x-goog-api-client"),
    *(endpoint for path in CLOUD_PATHS for endpoint in _cloud_endpoints(f"{path}/models")),
    *(
        endpoint
        for version in ("v1", "v1beta", "v1beta1")
        for path in (f"/{version}", f"/{version}/projects/{{project}}/locations/{{location}}")
        for endpoint in _cache_endpoints(f"{path}/cachedContents")
    ),
)
