"""Models, counted tokens and embeddings: exact requests, and the recorded answers of real servers."""

import json
import struct
from typing import Any

import pytest

from dragoman import wires
from dragoman.engine.effects import Now, Send
from dragoman.engine.endpoints import rerank
from dragoman.engine.failover import ChainOptions
from dragoman.errors import AuthFailed, InvalidRequest, Malformed, ModelNotFound, Overloaded, RateLimited, Unsupported
from dragoman.http import HttpRequest
from dragoman.registry import Registry
from dragoman.targets.providers import target as target_of
from dragoman.targets.target import Quirks, Target
from dragoman.testing import FaultyServer, RawResponse
from dragoman.types import Request, Tool, Usage, user
from dragoman.types.data_urls import encode_base64
from dragoman.types.embedding import EmbeddingOptions
from tests.support.paths import CORPUS

TIDE = Tool(name="tide", description="The tide", parameters={"type": "object"})


def at(provider: str, model: str = "m", **facts: Any) -> Target:
    target = target_of(f"{provider}/{model}", api_key="k")
    return Target(**{**{name: getattr(target, name) for name in target.__struct_fields__}, **facts})


def request_parts(http: HttpRequest) -> tuple[str, str, Any]:
    return http.method, http.url, json.loads(http.body) if http.body else None


# ── what is sent ────────────────────────────────────────────────────────────

MODELS = {
    "openai": "https://api.openai.com/v1/models",
    "openai-responses": "https://api.openai.com/v1/models",
    "groq": "https://api.groq.com/openai/v1/models",
    "anthropic": "https://api.anthropic.com/v1/models?limit=1000",
    "google": "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000",
    "ollama": "http://localhost:11434/api/tags",
}


@pytest.mark.parametrize("provider", MODELS)
def test_models_are_asked_for(provider: str) -> None:
    target = at(provider)
    http = wires.get(target.wire).endpoints.encode_models(target)
    assert request_parts(http) == ("GET", MODELS[provider], None)
    assert "k" in " ".join(http.headers.values())


EMBEDDINGS: dict[str, tuple[str, Any]] = {
    "openai": ("https://api.openai.com/v1/embeddings", {"model": "m", "input": ["a", "b"], "dimensions": 8}),
    "mistral": ("https://api.mistral.ai/v1/embeddings", {"model": "m", "input": ["a", "b"], "output_dimension": 8}),
    "google": (
        "https://generativelanguage.googleapis.com/v1beta/models/m:batchEmbedContents",
        {
            "requests": [
                {"model": "models/m", "content": {"parts": [{"text": text}]}, "outputDimensionality": 8}
                for text in ("a", "b")
            ]
        },
    ),
    "ollama": ("http://localhost:11434/api/embed", {"model": "m", "input": ["a", "b"], "dimensions": 8}),
}


@pytest.mark.parametrize("provider", EMBEDDINGS)
def test_embeddings_are_asked_for(provider: str) -> None:
    target = at(provider)
    http = wires.get(target.wire).endpoints.encode_embeddings(["a", "b"], EmbeddingOptions(dimensions=8), target)
    assert request_parts(http) == ("POST", *EMBEDDINGS[provider])


def test_embeddings_are_asked_for_as_cohere_takes_them() -> None:
    target = at("openai", base_url="https://api.cohere.com/v2", quirks=Quirks(embeddings="texts"))
    http = wires.get(target.wire).endpoints.encode_embeddings(["a"], EmbeddingOptions(), target)
    body = {"model": "m", "texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]}
    assert request_parts(http) == ("POST", "https://api.cohere.com/v2/embed", body)


REQUEST = Request(
    messages=(user("hi"),), system="Be brief.", tools=(TIDE,), temperature=0.5, max_tokens=9, stop=("x",), stream=True
)


def test_tokens_are_counted_by_anthropic() -> None:
    http = wires.get("anthropic").endpoints.encode_tokens(REQUEST, at("anthropic", "claude"))
    assert http.url == "https://api.anthropic.com/v1/messages/count_tokens"
    assert json.loads(http.body).keys() == {"model", "messages", "system", "tools"}
    assert http.headers["anthropic-version"]


def test_tokens_are_counted_by_responses() -> None:
    http = wires.get("openai_responses").endpoints.encode_tokens(REQUEST, at("openai-responses", "gpt"))
    assert http.url == "https://api.openai.com/v1/responses/input_tokens"
    assert json.loads(http.body).keys() <= {"model", "input", "instructions", "tools"}


@pytest.mark.parametrize("model", ["gemini", "tunedModels/mine"])
def test_tokens_are_counted_by_google(model: str) -> None:
    http = wires.get("google").endpoints.encode_tokens(REQUEST, at("google", model))
    resource = model if "/" in model else f"models/{model}"
    assert http.path == f"/v1beta/{resource}:countTokens"
    body = json.loads(http.body)["generateContentRequest"]
    assert body["model"] == resource
    assert body["contents"]


def test_what_a_wire_does_not_have_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="counting tokens is not supported"):
        wires.get("openai_chat").endpoints.encode_tokens(REQUEST, at("groq"))
    with pytest.raises(Unsupported, match="embeddings are not supported"):
        wires.get("anthropic").endpoints.encode_embeddings(["a"], EmbeddingOptions(), at("anthropic"))
    from dragoman.wires.common.endpoints import Endpoints

    with pytest.raises(Unsupported, match="listing models is not supported"):
        Endpoints().encode_models(at("groq"))


@pytest.mark.parametrize("wire", wires.NAMES)
def test_every_wire_says_what_it_has(wire: str) -> None:
    target = Target(provider="p", model="m", wire=wire, base_url="http://x")
    assert wires.get(wire).endpoints.batch_size(target) > 0


# ── what is read ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ([{"id": "a"}], ["a"]),
        ({"models": [{"name": "models/gemini", "displayName": "Gemini", "inputTokenLimit": 9}]}, ["gemini"]),
        ({"models": [{"name": "llama:8b", "model": "llama:8b"}]}, ["llama:8b"]),
        ({"data": None}, []),
    ],
)
def test_models_are_read(body: Any, ids: list[str]) -> None:
    assert [model.id for model in wires.get("openai_chat").endpoints.decode_models(json.dumps(body).encode())] == ids


def test_facts_of_models_are_read() -> None:
    body = {"data": [{"id": "a", "display_name": "A", "created": 5, "context_length": 9, "max_output_tokens": 3}]}
    (model,) = wires.get("openai_chat").endpoints.decode_models(json.dumps(body).encode())
    assert (model.name, model.created, model.context_window, model.max_output) == ("A", 5, 9, 3)


FLOATS = encode_base64(struct.pack("<2f", 0.5, -1.0))


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"index": 1, "embedding": [1]}, {"index": 0, "embedding": [0.5, -1]}], "usage": {"prompt_tokens": 4}},
        {"data": [{"embedding": FLOATS}, {"embedding": [1]}], "usage": {"total_tokens": 4}},
        {"embeddings": [{"values": [0.5, -1]}, {"values": [1]}], "prompt_eval_count": 4},
        {"embeddings": [[0.5, -1], [1]], "prompt_eval_count": 4},
        {"embeddings": {"float": [[0.5, -1], [1]]}, "meta": {"billed_units": {"input_tokens": 4}}},
    ],
)
def test_embeddings_are_read_in_order(body: Any) -> None:
    found = wires.get("openai_chat").endpoints.decode_embeddings(json.dumps(body).encode())
    assert found.vectors == ((0.5, -1.0), (1.0,))
    assert found.usage.input == 4


def test_usage_that_is_not_told_is_unknown() -> None:
    assert wires.get("google").endpoints.decode_embeddings(b'{"embeddings":[{"values":[1]}]}').usage.source == "unknown"


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"embeddings":3}',
        b'{"embeddings":[{"values":3}]}',
        b"<html>",
        b'{"embeddings":[["1", "a"]]}',
        b'{"data":[{"embedding":"?"}]}',
    ],
)
def test_what_is_no_embedding_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        wires.get("openai_chat").endpoints.decode_embeddings(body)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"input_tokens":"many"}'])
def test_what_is_no_number_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        wires.get("anthropic").endpoints.decode_tokens(body)


@pytest.mark.parametrize("body", [b"3", b"{}", b'{"error":{"message":"busy"}}', b'{"data":{"a":1}}'])
def test_what_is_no_list_of_models_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        wires.get("openai_chat").endpoints.decode_models(body)


def exchanges(kind: str) -> list[Any]:
    files = sorted((CORPUS / kind).glob("*.json")) if CORPUS.exists() else []
    return [pytest.param(json.loads(file.read_text(encoding="utf-8")), id=file.stem[-50:]) for file in files]


def body_of(exchange: Any) -> bytes | None:
    response = exchange["response"]
    return json.dumps(response["body"]).encode() if response["status"] == 200 else None


@pytest.mark.parametrize("exchange", exchanges("models"))
def test_recorded_models_are_read(exchange: Any) -> None:
    body = body_of(exchange)
    if body is not None and not exchange["request"]["path"].endswith("/curie"):
        assert all(model.id for model in wires.get("openai_chat").endpoints.decode_models(body))


@pytest.mark.parametrize("exchange", exchanges("count-tokens"))
def test_recorded_counts_are_read(exchange: Any) -> None:
    if (body := body_of(exchange)) is not None:
        assert wires.get("openai_chat").endpoints.decode_tokens(body) > 0


@pytest.mark.parametrize("exchange", exchanges("embeddings"))
def test_recorded_embeddings_are_read(exchange: Any) -> None:
    body = body_of(exchange)
    if body is not None and ":embedContent" not in exchange["request"]["path"]:
        is_bytes = exchange["model"].startswith("pplx-")
        target = at("perplexity") if is_bytes else at("openai")
        found = wires.get("openai_chat").endpoints.decode_embeddings(body, target)
        assert all(found.vectors)
        if is_bytes:
            assert {len(vector) for vector in found.vectors} == {exchange["request"]["body"].get("dimensions", 1024)}
            assert all(-128 <= number <= 127 for vector in found.vectors for number in vector)


# ── the plans ───────────────────────────────────────────────────────────────


def test_embeddings_come_from_a_server() -> None:
    body = json.dumps({"data": [{"index": 0, "embedding": [1, 2]}], "usage": {"prompt_tokens": 3}}).encode()
    with FaultyServer(RawResponse(body=body)) as server:
        found = server.model().embed("hi")
    assert (found.vectors, found.usage.input, found.target) == (((1.0, 2.0),), 3, "server/model")
    assert server.http[0].path == "/v1/embeddings"


def test_many_texts_are_many_requests() -> None:
    pages = [[{"values": [number]} for number in range(100)], [{"values": [100]}]]
    with FaultyServer(*(RawResponse(body=json.dumps({"embeddings": page}).encode()) for page in pages)) as server:
        found = server.model("google").embed([str(number) for number in range(101)])
    assert [vector[0] for vector in found.vectors] == list(range(101))
    assert len(server.http) == 2


def test_a_missing_vector_is_malformed() -> None:
    with (
        FaultyServer(RawResponse(body=b'{"data":[{"index":0,"embedding":[1]}]}')) as server,
        pytest.raises(Malformed, match="2 texts"),
    ):
        server.model(retries=0).embed(["a", "b"])


def test_no_texts_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        Registry(env={}).model("demo/any").embed([])


def test_a_transient_fault_is_tried_again() -> None:
    with FaultyServer(RawResponse(status=503), RawResponse(body=b'{"data":[{"id":"a"}]}')) as server:
        assert [model.id for model in server.model(backoff=0.0).list_models()] == ["a"]


def listed(*ids: str, **more: object) -> RawResponse:
    return RawResponse(body=json.dumps({"data": [{"id": id} for id in ids], **more}).encode())


def test_a_list_of_models_is_read_to_its_end() -> None:
    pages = (listed("a", "b", has_more=True, last_id="b c"), listed("c", has_more=False, last_id="c"))
    with FaultyServer(*pages) as server:
        assert [found.id for found in server.model("anthropic").list_models()] == ["a", "b", "c"]
    assert server.http[1].path == "/v1/models?limit=1000&after_id=b%20c"


def test_pages_of_models_are_asked_for_by_their_token() -> None:
    pages = [{"models": [{"name": f"models/{id}"}], "nextPageToken": token} for id, token in (("a", "t1"), ("b", "t2"))]
    last = RawResponse(body=b'{"models": [{"name": "models/c"}]}')
    with FaultyServer(*(RawResponse(body=json.dumps(page).encode()) for page in pages), last) as server:
        assert [found.id for found in server.model("google").list_models()] == ["a", "b", "c"]
    assert len(server.http) == 3


def test_the_token_of_a_page_is_sent_once() -> None:
    http = HttpRequest(method="GET", path="/models?pageSize=2&pageToken=t1")
    following = wires.get("google").endpoints.next_page(http, b'{"models": [], "nextPageToken": "t2"}')
    assert following is not None
    assert following.path == "/models?pageSize=2&pageToken=t2"


def test_a_list_that_never_ends_is_left() -> None:
    with FaultyServer(listed("a", has_more=True, last_id="a"), repeat=True) as server:
        assert [found.id for found in server.model("anthropic").list_models()] == ["a"]
    assert len(server.http) == 2


def test_the_window_of_a_llama_cpp_server_is_known() -> None:
    with FaultyServer(RawResponse(body=b'{"data": [{"id": "a", "meta": {"n_ctx_train": 4096}}]}')) as server:
        assert server.model().list_models()[0].context_window == 4096


def test_a_page_that_is_a_bare_list_is_the_last() -> None:
    assert wires.get("openai_chat").endpoints.next_page(HttpRequest(method="GET", path="/models"), b"[]") is None


def test_a_refusal_is_typed() -> None:
    with FaultyServer(RawResponse(status=404, body=b'{"error":{"message":"no such model"}}')) as server:
        with pytest.raises(ModelNotFound) as caught:
            server.model("anthropic").count_tokens("hi")
        assert (caught.value.provider, caught.value.model) == ("server", "model")


@pytest.mark.parametrize(("verb", "arguments"), [("list_models", ()), ("embed", ("hi",)), ("count_tokens", ("hi",))])
def test_a_refusal_inside_of_a_200_is_typed(verb: str, arguments: tuple[str, ...]) -> None:
    body = b'{"error":{"type":"overloaded_error","message":"no room today"}}'
    with FaultyServer(RawResponse(body=body)) as server, pytest.raises(Overloaded, match="no room today"):
        getattr(server.model("google", retries=0), verb)(*arguments)


def test_what_is_neither_an_answer_nor_a_refusal_is_malformed() -> None:
    with FaultyServer(RawResponse(body=b"{}")) as server, pytest.raises(Malformed, match="has no list of models"):
        server.model(retries=0).list_models()
    for body in (b"<html>", b'{"data": "\xff"}', b"[" * 1_000_000):
        with FaultyServer(RawResponse(body=body)) as server, pytest.raises(Malformed):
            server.model(retries=0).list_models()


def test_a_last_page_without_models_is_the_end() -> None:
    first = RawResponse(body=b'{"models": [{"name": "models/a"}], "nextPageToken": "t1"}')
    with FaultyServer(first, RawResponse(body=b"{}")) as server:
        assert [found.id for found in server.model("google").list_models()] == ["a"]


def test_retries_end() -> None:
    with FaultyServer(RawResponse(status=503), repeat=True) as server:
        with pytest.raises(Overloaded):
            server.model(backoff=0.0).list_models()
        assert len(server.http) == 3


def test_a_long_wait_is_not_taken() -> None:
    with FaultyServer(RawResponse(status=429, headers={"retry-after": "60"})) as server, pytest.raises(RateLimited):
        server.model().list_models()


def test_a_missing_key_is_told() -> None:
    with pytest.raises(AuthFailed, match="GROQ_API_KEY"):
        Registry(env={}).model("groq/llama").list_models()


def test_the_demo_has_models_and_embeddings() -> None:
    model = Registry(env={}).model("demo/any")
    assert "any" in [found.id for found in model.list_models()]
    near, far = model.embed(["the tide at Brest", "tide in Brest", "stock prices"]).vectors[1:]
    first = model.embed("the tide at Brest").vectors[0]
    assert _dot(first, near) > _dot(first, far)


def _dot(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


async def _counted(model: Any) -> tuple[int, int, int]:
    return await model.acount_tokens("hi"), len(await model.alist_models()), len((await model.aembed("a")).vectors)


def test_async_is_the_same() -> None:
    import asyncio

    lines = (
        RawResponse(body=b'{"object":"response.input_tokens","input_tokens":7}'),
        RawResponse(body=b'{"data":[{"id":"a"}]}'),
        RawResponse(body=b'{"data":[{"index":0,"embedding":[1]}]}'),
    )
    with FaultyServer(*lines) as server:
        assert asyncio.run(_counted(server.model("openai_responses"))) == (7, 1, 1)


def test_tokens_go_as_they_are_to_servers_like_openais() -> None:
    http = wires.get("openai_chat").endpoints.encode_embeddings([(1, 2), "a"], EmbeddingOptions(), at("openai"))
    assert json.loads(http.body)["input"] == [[1, 2], "a"]


@pytest.mark.parametrize("target", [at("google"), at("ollama"), at("openai", quirks=Quirks(embeddings="texts"))])
def test_tokens_are_refused_where_only_texts_are_taken(target: Target) -> None:
    with pytest.raises(Unsupported, match="got tokens") as raised:
        wires.get(target.wire).endpoints.encode_embeddings([(1, 2)], EmbeddingOptions(), target)
    assert raised.value.param == "input"


# Vertex AI ------------------------------------------------------------------------------------------------------------

VERTEX = "https://example.org/v1/projects/p/locations/l/publishers/google"


def vertex(model: str) -> Target:
    return target_of(f"vertex/{model}", api_key="k", base_url=VERTEX)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("m", f"{VERTEX}/models/m"),
        ("models/m", f"{VERTEX}/models/m"),
        ("publishers/meta/models/m", "https://example.org/v1/projects/p/locations/l/publishers/meta/models/m"),
        ("meta/m", "https://example.org/v1/projects/p/locations/l/publishers/meta/models/m"),
        ("projects/q/locations/l/endpoints/7", "https://example.org/v1/projects/q/locations/l/endpoints/7"),
    ],
)
def test_tokens_are_counted_by_vertex(model: str, url: str) -> None:
    request = Request(messages=(user("hi"),), max_tokens=9)
    http = wires.get("google").endpoints.encode_tokens(request, vertex(model))
    method, found, body = request_parts(http)
    assert (method, found) == ("POST", f"{url}:countTokens")
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert "generateContentRequest" not in body


def test_models_are_listed_by_vertex() -> None:
    http = wires.get("google").endpoints.encode_models(vertex("m"))
    assert request_parts(http)[1] == "https://example.org/v1beta1/publishers/google/models?pageSize=100"


@pytest.mark.parametrize("dimensions", [None, 8])
def test_embeddings_are_asked_of_vertex(dimensions: int | None) -> None:
    endpoints = wires.get("google").endpoints
    options = {} if dimensions is None else {"outputDimensionality": dimensions}
    asked = EmbeddingOptions(dimensions=dimensions)
    old, new = vertex("text-embedding-005"), vertex("gemini-embedding-2")
    assert (endpoints.batch_size(old), endpoints.batch_size(new)) == (100, 1)
    _, url, body = request_parts(endpoints.encode_embeddings(["a", "b"], asked, old))
    assert url == f"{VERTEX}/models/text-embedding-005:predict"
    assert body == {"instances": [{"content": "a"}, {"content": "b"}], **({"parameters": options} if options else {})}
    _, url, body = request_parts(endpoints.encode_embeddings(["a"], asked, new))
    assert url == f"{VERTEX}/models/gemini-embedding-2:embedContent"
    content = {"role": "user", "parts": [{"text": "a"}]}
    assert body == {"content": content, **({"embedContentConfig": options} if options else {})}


def test_embeddings_of_vertex_are_read() -> None:
    decode = wires.get("google").endpoints.decode_embeddings
    one = {"embeddings": {"values": [0.5], "statistics": {"token_count": 3}}}
    found = decode(json.dumps({"predictions": [one, one]}).encode())
    assert (found.vectors, found.usage.input) == (((0.5,), (0.5,)), 6)
    assert decode(json.dumps({"predictions": [one, {"embeddings": {"values": [1]}}]}).encode()).usage.input is None
    assert decode(json.dumps({"predictions": [[1, 2]]}).encode()).vectors == ((1, 2),)
    found = decode(b'{"embedding": {"values": [0.5]}, "usageMetadata": {"promptTokenCount": 2}}')
    assert (found.vectors, found.usage.input) == (((0.5,),), 2)


# ── rankings, and embeddings of Bedrock and Perplexity ──────────────────────


@pytest.mark.parametrize("provider", ["together", "fireworks", "vllm", "llama-cpp", "llama-swap"])
def test_documents_are_ranked(provider: str) -> None:
    http = wires.get("openai_chat").endpoints.encode_rerank("ships", ["a", "b"], 1, at(provider, "m"))
    assert http.path.endswith("/v1/rerank")
    assert json.loads(http.body) == {"model": "m", "query": "ships", "documents": ["a", "b"], "top_n": 1}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "ollama"])
def test_a_provider_without_rankings_says_so(provider: str) -> None:
    target = at(provider)
    with pytest.raises(Unsupported, match="ranking documents is not supported"):
        wires.get(target.wire).endpoints.encode_rerank("a", ["b"], None, target)


METERED = {"tokens": {"input_tokens": 5}}


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"results": [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 1}], "meta": {}}, None),
        ({"data": [{"index": 1, "relevance_score": 1}, {"index": 0, "score": 0.1}], "usage": {"total_tokens": 7}}, 7),
        ({"results": [{"index": 1, "score": 1}, {"index": 0, "score": 0.1}], "meta": METERED}, 5),
        ([{"index": 0, "score": 0.1}, {"index": 1, "score": 1}], None),
    ],
)
def test_rankings_are_read_the_best_first(body: Any, tokens: int | None) -> None:
    ranking = wires.get("openai_chat").endpoints.decode_rerank(json.dumps(body).encode())
    assert [(document.index, document.score) for document in ranking.documents] == [(1, 1.0), (0, 0.1)]
    assert ranking.usage.input == tokens


@pytest.mark.parametrize(
    "body",
    [{}, [], {"results": []}, {"results": [{"index": 0}]}, {"results": [{"index": -1, "score": 1}]}, {"results": [3]}],
)
def test_a_body_that_is_not_a_ranking_is_malformed(body: Any) -> None:
    with pytest.raises(Malformed):
        wires.get("openai_chat").endpoints.decode_rerank(json.dumps(body).encode())


def test_vectors_of_bytes_are_requested_and_decoded() -> None:
    endpoints, target = wires.get("openai_chat").endpoints, at("perplexity", "pplx-embed")
    http = endpoints.encode_embeddings(["a"], EmbeddingOptions(dimensions=2), target)
    assert http.url == "https://api.perplexity.ai/v1/embeddings"
    assert json.loads(http.body) == {"model": "pplx-embed", "input": ["a"], "dimensions": 2}
    assert endpoints.decode_embeddings(b'{"data": [{"index": 0, "embedding": "AX8="}]}', target).vectors == ((1, 127),)


def bedrock(model: str, **facts: Any) -> Target:
    return Target(provider="bedrock", model=model, wire="bedrock", base_url="https://bedrock", **facts)


def test_embeddings_are_requested_from_bedrock() -> None:
    endpoints = wires.get("bedrock").endpoints
    titan = bedrock("amazon.titan-embed-text-v2:0")
    http = endpoints.encode_embeddings(["a"], EmbeddingOptions(dimensions=256), titan)
    assert http.path == "/model/amazon.titan-embed-text-v2%3A0/invoke"
    assert json.loads(http.body) == {"inputText": "a", "dimensions": 256}
    assert endpoints.batch_size(titan) == 1
    found = endpoints.decode_embeddings(b'{"embedding": [0.5, 1], "inputTextTokenCount": 3}')
    assert (found.vectors, found.usage.input) == (((0.5, 1.0),), 3)
    cohere = bedrock("cohere.embed-v4:0", quirks=Quirks(embeddings="texts"))
    assert endpoints.batch_size(cohere) == 96
    assert json.loads(endpoints.encode_embeddings(["a", "b"], EmbeddingOptions(), cohere).body) == {
        "texts": ["a", "b"],
        "input_type": "search_document",
        "embedding_types": ["float"],
    }


def test_the_demo_ranks_documents() -> None:
    model = Registry(env={}).model("demo/any")
    ranking = model.rerank("grey ships", ["a harbour", "two grey ships", "one ships"], top=2)
    assert [document.index for document in ranking.documents] == [1, 2]
    assert (ranking.target, ranking.usage.input) == ("demo/any", 9)
    with pytest.raises(InvalidRequest, match="documents must have at least one"):
        model.rerank("a", [])
    with pytest.raises(InvalidRequest, match="top must be"):
        model.rerank("a", ["b"], top=0)


def test_an_index_beyond_the_documents_is_malformed() -> None:
    body = b'{"results": [{"index": 5, "score": 1}]}'
    with FaultyServer(RawResponse(body=body)) as server, pytest.raises(Malformed, match="beyond the 1 documents"):
        Registry(env={"VLLM_BASE_URL": f"{server.origin}/v1"}).model("vllm/m", retries=0).rerank("a", ["b"])


# Records that have rankings and embeddings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ("cohere/rerank-v3.5", "https://api.cohere.ai/v2/rerank"),
        ("openrouter/cohere/rerank-v3.5", "https://openrouter.ai/api/v1/rerank"),
        ("together/m", "https://api.together.xyz/v1/rerank"),
        ("fireworks/m", "https://api.fireworks.ai/inference/v1/rerank"),
    ],
)
def test_each_record_with_a_reranker_has_its_address(spec: str, url: str) -> None:
    target = Registry(env={}).target(spec)
    http = wires.get(target.wire).endpoints.encode_rerank("ships", ["a", "b"], 1, target)
    assert http.url == url
    assert json.loads(http.body) == {"model": target.model, "query": "ships", "documents": ["a", "b"], "top_n": 1}


@pytest.mark.parametrize(("model", "more"), [("cohere.rerank-v3-5:0", {"api_version": 2}), ("amazon.rerank-v1:0", {})])
def test_bedrock_ranks_by_its_models(model: str, more: dict[str, int]) -> None:
    target = Registry(env={"AWS_REGION": "us-west-2"}).target(f"bedrock/{model}")
    endpoints = wires.get(target.wire).endpoints
    http = endpoints.encode_rerank("ships", ["a", "b"], None, target)
    assert http.path == f"/model/{model.replace(':', '%3A')}/invoke"
    assert json.loads(http.body) == {"query": "ships", "documents": ["a", "b"], **more}
    body = b'{"results": [{"index": 0, "relevance_score": 0.17}, {"index": 1, "relevance_score": 0.87}]}'
    assert [document.index for document in endpoints.decode_rerank(body).documents] == [1, 0]


def test_cohere_has_embeddings_of_its_own_form() -> None:
    target = Registry(env={}).target("cohere/embed-v4.0")
    http = wires.get(target.wire).endpoints.encode_embeddings(["ships"], EmbeddingOptions(purpose="query"), target)
    assert http.url == "https://api.cohere.ai/v2/embed"
    assert json.loads(http.body)["input_type"] == "search_query"


def test_counts_in_headers_are_the_usage_of_a_body_without_them() -> None:
    counts = {"X-Amzn-Bedrock-Input-Token-Count": "5"}
    vectors = RawResponse(headers=counts, body=b'{"embeddings": {"float": [[0.5]]}}')
    ranking = RawResponse(headers=counts, body=b'{"results": [{"index": 0, "relevance_score": 0.5}]}')
    with FaultyServer(vectors, ranking) as server:
        registry = Registry(env={"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.origin, "AWS_BEARER_TOKEN_BEDROCK": "k"})
        assert registry.model("bedrock/cohere.embed-v4:0").embed("ships").usage == Usage(input=5)
        assert registry.model("bedrock/cohere.rerank-v3-5:0").rerank("ships", ["a"]).usage == Usage(input=5)


def test_fields_that_only_its_wire_has_are_sent_with_a_ranking() -> None:
    target = Registry(env={"AWS_REGION": "us-west-2", "AWS_BEARER_TOKEN_BEDROCK": "k"}).target(
        "bedrock/cohere.rerank-v3"
    )
    plan = rerank("ships", ["a"], None, target, ChainOptions(), {"max_tokens_per_doc": 9})
    assert isinstance(next(plan), Now)
    assert isinstance(plan.send(0.0), Now)
    effect = plan.send(0.0)
    assert isinstance(effect, Send)
    body = json.loads(effect.request.body)
    assert body == {"query": "ships", "documents": ["a"], "api_version": 2, "max_tokens_per_doc": 9}
