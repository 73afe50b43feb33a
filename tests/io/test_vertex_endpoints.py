"""Vertex AI besides generation: google-genai is the oracle of what is sent, and reads the same answers."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from dragoman import wires
from dragoman.errors import DragomanError
from dragoman.models import Model
from dragoman.registry import Registry
from dragoman.testing import FaultyServer, RawResponse
from dragoman.types import Opaque
from dragoman.types.embedding import EmbeddingOptions
from tests.support.recorder import Recorder

genai: Any = import_module("google.genai")
types: Any = import_module("google.genai.types")
PLACE = "/v1/projects/p/locations/europe-west4/publishers/google"
ENV = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}


def sdk(origin: str) -> Any:
    credentials = import_module("google.oauth2.credentials").Credentials(token="token-1")
    # The SDK's own choice is v1beta1, also where v1 has all that we send.
    options = types.HttpOptions(base_url=origin, api_version="v1", retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(
        vertexai=True, project="p", location="europe-west4", credentials=credentials, http_options=options
    )


def ours(origin: str, model: str) -> Model:
    registry = Registry(env=ENV)
    return registry.model(f"vertex/{model}", base_url=origin + PLACE, api_key="token-1", retries=0)


class Endpoint(NamedTuple):
    """How the SDK calls an endpoint, how we do, and the answer that both read."""

    model: str
    call_theirs: Callable[[Any], Any]
    call_ours: Callable[[Model], Any]
    body: Any


def list_theirs(client: Any) -> list[str]:
    return [str(found.name).rpartition("/")[2] for found in client.models.list(config={"page_size": 100})]


def list_ours(model: Model) -> list[str]:
    return [found.id for found in model.list_models()]


def count_theirs(client: Any) -> int:
    config = types.CountTokensConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(google_search=types.GoogleSearch())],
        generation_config=types.GenerationConfig(max_output_tokens=9),
    )
    contents = [types.Content(role="user", parts=[types.Part(text="When?")])]
    return int(client.models.count_tokens(model="gemini-x", contents=contents, config=config).total_tokens)


def count_ours(model: Model) -> int:
    safety = [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"}]
    search = Opaque(wire="google", data={"googleSearch": {}})
    extra = {"google.safetySettings": safety}
    return int(model.count_tokens("When?", system="Be brief.", max_tokens=9, tools=[search], extra=extra))


def embedding(model: str, body: Any) -> Endpoint:
    def theirs(client: Any) -> list[tuple[float, ...]]:
        found = client.models.embed_content(model=model, contents="When?", config={"output_dimensionality": 2})
        return [tuple(map(float, item.values)) for item in found.embeddings]

    def ours(target: Model) -> list[tuple[float, ...]]:
        return list(target.embed("When?", dimensions=2).vectors)

    return Endpoint(model, theirs, ours, body)


PREDICTIONS = {"predictions": [{"embeddings": {"values": [0.5, 1.0], "statistics": {"token_count": 3}}}]}
EMBEDDING = {"embedding": {"values": [0.5, 1.0]}, "usageMetadata": {"promptTokenCount": 3}}
MODELS = {"publisherModels": [{"name": "publishers/google/models/gemini-x", "launchStage": "GA"}]}
ENDPOINTS = {
    "list": Endpoint("m", list_theirs, list_ours, MODELS),
    "count": Endpoint("gemini-x", count_theirs, count_ours, {"totalTokens": 12}),
    "predict": embedding("text-embedding-005", PREDICTIONS),
    "predict, gemini": embedding("gemini-embedding-001", PREDICTIONS),
    "embedContent": embedding("gemini-embedding-2", EMBEDDING),
    "embedContent, another publisher": embedding("intfloat/multilingual-e5-maas", EMBEDDING),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_google_genai_sends_and_reads_the_same(name: str) -> None:
    endpoint = ENDPOINTS[name]
    with Recorder(200, endpoint.body) as server:
        expected = endpoint.call_theirs(sdk(server.origin))
        assert endpoint.call_ours(ours(server.origin, endpoint.model)) == expected
        their_request, our_request = server.requests
    their_path, our_path = unquote(their_request.path), unquote(our_request.path)
    if name == "list":
        # Only v1beta1 has it, whatever the SDK was asked for.
        their_path = their_path.replace("/v1/", "/v1beta1/").replace("queryBase=True", "")
        assert our_path.partition("?")[0] == urlsplit(their_path).path == "/v1beta1/publishers/google/models"
        assert parse_qs(urlsplit(our_path).query).items() <= parse_qs(urlsplit(their_path).query).items()
        return
    assert our_path == their_path
    body = their_request.json
    if name == "count":
        assert body["systemInstruction"].pop("role") == "user"
    assert our_request.json == body


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("endpoints/123", "/v1/projects/p/locations/europe-west4/endpoints/123"),
        ("projects/q/locations/us-east1/endpoints/1", "/v1/projects/q/locations/us-east1/endpoints/1"),
        ("publishers/meta/models/llama", "/v1/projects/p/locations/europe-west4/publishers/meta/models/llama"),
        ("meta/llama", "/v1/projects/p/locations/europe-west4/publishers/meta/models/llama"),
        ("models/gemini-x", f"{PLACE}/models/gemini-x"),
    ],
)
def test_resources_outside_of_the_base_url(model: str, path: str) -> None:
    with FaultyServer(RawResponse(status=400), repeat=True) as server:
        origin = server.base_url("google").rpartition("/v1")[0]
        target = ours(origin, model)
        with pytest.raises(DragomanError):
            target.generate("hi")
        with pytest.raises(DragomanError):
            list(target.stream("hi"))
        assert [request.path for request in server.http] == [
            f"{path}:generateContent",
            f"{path}:streamGenerateContent?alt=sse",
        ]


def test_a_resource_of_vertex_express() -> None:
    target = Registry(env={}, api_key="k").target("vertex-express/meta/llama")
    http = wires.get("google").endpoints.encode_embeddings(["a"], EmbeddingOptions(), target)
    assert http.url == "https://aiplatform.googleapis.com/v1/publishers/meta/models/llama:predict"


def test_gemini_embeds_one_text_per_request() -> None:
    with Recorder(200, PREDICTIONS) as server:
        found = ours(server.origin, "gemini-embedding-001").embed(["a", "b"])
        assert [request.json for request in server.requests] == [
            {"instances": [{"content": "a"}]},
            {"instances": [{"content": "b"}]},
        ]
    assert (found.vectors, found.usage.input) == (((0.5, 1.0), (0.5, 1.0)), 6)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (EMBEDDING, 3),
        ({"predictions": [{"embeddings": {"values": [1]}}]}, None),
        ({"predictions": [{"embeddings": {"values": [1], "statistics": {"token_count": "x"}}}]}, None),
        ({"predictions": [[1.0]]}, None),
    ],
)
def test_tokens_of_embeddings(body: Any, tokens: int | None) -> None:
    with Recorder(200, body) as server:
        assert ours(server.origin, "text-embedding-005").embed("a").usage.input == tokens
