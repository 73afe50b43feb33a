"""Bedrock's endpoints besides generation, as a server: token counts; by InvokeModel, embeddings and rankings."""

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.http import HttpRequest, HttpResponse
from dragoman.types import Embeddings, JsonObject, Ranking, Request, is_object
from dragoman.types.checks import shown
from dragoman.wires.bedrock.schema import NAME, CohereTexts, NovaEmbedding, NovaTask, RankingRequest, TitanText
from dragoman.wires.bedrock.server import ConverseServer
from dragoman.wires.common.embedding_forms import FORMS, NOVA, TITAN, read_options
from dragoman.wires.common.extra import make_extra
from dragoman.wires.common.header_counts import count_headers
from dragoman.wires.common.invoke import COUNT_PATH, WHOLE_PATH, body_form, counted_form, read_path
from dragoman.wires.common.json import encode_json
from dragoman.wires.common.request_body import decode_request_json, invalid_field, read_fields
from dragoman.wires.common.server_endpoints import (
    Embed,
    Rerank,
    Route,
    ServerEndpoint,
    count_tokens_endpoint,
    embeddings_endpoint,
    json_response,
)


def _decode_count(http: HttpRequest) -> tuple[str, Request]:
    """Decode a request to count: the body of a call of Converse."""
    body = decode_request_json(http)
    source = body.get("input") if is_object(body) else None
    inner = source.get("converse") if is_object(source) else None
    if not is_object(inner):
        raise invalid_field("input", "must have the member converse, or invokeModel with the body of a chat")
    path = http.path.partition("?")[0].removesuffix("/count-tokens") + "/converse"
    return ConverseServer().decode_request(replace(http, path=path, body=encode_json(inner)))


# Embeddings -----------------------------------------------------------------------------------------------------------


def _decode_titan(http: HttpRequest) -> Embed:
    body, rest = read_fields(TitanText, decode_request_json(http), "body")
    _check_types("embeddingTypes", rest.pop("embeddingTypes", None))
    return Embed(read_path(http)[0], (body.input_text,), read_options(TITAN.name, rest, body.dimensions))


def _encode_titan(_: Embed, embeddings: Embeddings) -> JsonObject:
    vector = list(embeddings.vectors[0])
    return {
        "embedding": vector,
        "embeddingsByType": {"float": vector},
        "inputTextTokenCount": embeddings.usage.input or 0,
    }


def _decode_cohere(http: HttpRequest) -> Embed:
    body, rest = read_fields(CohereTexts, decode_request_json(http), "body")
    _check_types("embedding_types", rest.pop("embedding_types", None))
    options = read_options(FORMS["texts"].name, rest, body.output_dimension)
    return Embed(read_path(http)[0], tuple(body.texts), options)


def _check_types(field: str, types: object) -> None:
    if types not in (None, [], ["float"]):
        raise invalid_field(field, f"must be [float], got {encode_json(types).decode()[:100]}; leave it out")


def _encode_cohere(embed: Embed, embeddings: Embeddings) -> JsonObject:
    vectors = [list(vector) for vector in embeddings.vectors]
    return {"embeddings": vectors, "id": "", "response_type": "embeddings_floats", "texts": list(embed.texts)}


def _encode_cohere_by_type(embed: Embed, embeddings: Embeddings) -> JsonObject:
    flat = _encode_cohere(embed, embeddings)
    return {**flat, "embeddings": {"float": flat["embeddings"]}, "response_type": "embeddings_by_type"}


def _decode_nova(http: HttpRequest) -> Embed:
    body, others = read_fields(NovaTask, decode_request_json(http), "body")
    if body.task_type != "SINGLE_EMBEDDING":
        raise invalid_field("taskType", f"must be SINGLE_EMBEDDING, got {shown(body.task_type)}")
    params, rest = read_fields(NovaEmbedding, body.single_embedding_params, "singleEmbeddingParams")
    if not isinstance(value := params.text.get("value"), str):
        raise invalid_field("singleEmbeddingParams.text.value", f"must be a text, got {shown(value)}")
    text = {name: each for name, each in params.text.items() if name != "value"}
    cut = {"truncationMode": text.pop("truncationMode", None)}
    ignored = [*(f"text.{name}" for name in text), *(name for name, each in others.items() if each != _NOVA_VERSION)]
    options = read_options(NOVA.name, {**rest, **cut}, params.embedding_dimension)
    return Embed(read_path(http)[0], (value,), options, ignored_fields=tuple(ignored))


_NOVA_VERSION = "nova-multimodal-embed-v1"
"""The `schemaVersion` that is meant if a body has none."""


def _encode_nova(_: Embed, embeddings: Embeddings) -> JsonObject:
    return {"embeddings": [{"embeddingType": "TEXT", "embedding": list(vector)} for vector in embeddings.vectors]}


def _by_body(is_form: Callable[[JsonObject], bool]) -> Route:
    def accepts(body: JsonObject) -> bool:
        return body_form(body) == "embeddings" and is_form(body)

    return Route(method="POST", path=WHOLE_PATH, accepts=accepts)


def _is_by_type(body: JsonObject) -> bool:
    """Whether the answer has vectors by type: if the request says which, or is for a model that always does so."""
    return body.keys() & {"embedding_types", "output_dimension"} != set()


# Rankings -------------------------------------------------------------------------------------------------------------


def _decode_rerank(http: HttpRequest) -> Rerank:
    body, rest = read_fields(RankingRequest, decode_request_json(http), "body")
    # Models that need this version get it by their quirk.
    extra = make_extra(NAME, {name: value for name, value in rest.items() if (name, value) != ("api_version", 2)})
    return Rerank(read_path(http)[0], body.query, tuple(body.documents), body.top_n, extra=extra)


def _encode_ranking(_: Rerank, ranking: Ranking) -> HttpResponse:
    results = [{"index": document.index, "relevance_score": document.score} for document in ranking.documents]
    return json_response({"results": results})


_CHATS = frozenset({"messages", "converse", "chat"})
"""Bodies of InvokeModel whose tokens other endpoints count."""


def _with_counts(endpoint: ServerEndpoint) -> ServerEndpoint:
    """The endpoint, whose answers have the counts of tokens in headers."""

    def encode(request: Embed | Rerank, result: Embeddings | Ranking) -> HttpResponse:
        http = endpoint.encode(request, result)
        return replace(http, headers={**http.headers, **count_headers(result.usage)})

    return replace(endpoint, encode=encode)


_INVOKED = (
    embeddings_endpoint(_by_body(lambda body: "inputText" in body), _decode_titan, _encode_titan),
    embeddings_endpoint(
        _by_body(lambda body: "texts" in body and _is_by_type(body)), _decode_cohere, _encode_cohere_by_type
    ),
    embeddings_endpoint(
        _by_body(lambda body: "texts" in body and not _is_by_type(body)), _decode_cohere, _encode_cohere
    ),
    embeddings_endpoint(_by_body(lambda body: "singleEmbeddingParams" in body), _decode_nova, _encode_nova),
    ServerEndpoint(
        Route(method="POST", path=WHOLE_PATH, accepts=lambda body: body_form(body) == "rerank"),
        _decode_rerank,
        _encode_ranking,
    ),
)
SERVER_ENDPOINTS = (
    count_tokens_endpoint(
        Route(method="POST", path=COUNT_PATH, accepts=lambda body: counted_form(body) not in _CHATS),
        _decode_count,
        lambda count: {"inputTokens": count},
    ),
    *map(_with_counts, _INVOKED),
)
