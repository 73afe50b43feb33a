"""Server endpoints besides generation: model lists, token counts, embeddings and stored responses, in each dialect."""

import struct
from typing import Any

import msgspec
import pytest

from dragoman import wires
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.events import Event, Finished, PartDelta, PartEnded, PartStarted, Started, fold
from dragoman.http import HttpRequest
from dragoman.types import (
    Embeddings,
    Finish,
    HostedCall,
    Message,
    ModelInfo,
    RankedDocument,
    Ranking,
    Request,
    Response,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    dump,
    load,
    system,
    tool_results,
    user,
)
from dragoman.types.data_urls import decode_base64
from dragoman.types.embedding import EmbeddingOptions
from dragoman.wires import NAMES, get
from dragoman.wires.common.server_endpoints import (
    CountTokens,
    DropResponse,
    Embed,
    FetchResponse,
    ListModels,
    Rerank,
    ResponseContinuation,
    Route,
    ServerEndpoint,
    ShowModel,
    StaticDocument,
    StoredResponse,
    StoredResponseQuery,
    path_parameter,
)

MODELS = (
    ModelInfo(id="demo/any"),
    ModelInfo(id="fast", name="Fast", created=1763370000, context_window=8192, max_output=512),
)
VECTORS = Embeddings(vectors=((0.5, -1.0),), usage=Usage(input=3))

ACTIVE = {
    "lifecycle": "active",
    "deprecated_at": None,
    "retires_at": None,
    "max_input_tokens": None,
    "max_tokens": None,
}
"""What Anthropic says of each model besides its name."""


def endpoint(wire: str, method: str, path: str) -> ServerEndpoint:
    return next(
        result
        for result in wires.get(wire).server_endpoints
        if (result.route.method, result.route.path) == (method, path)
    )


def encoded(wire: str, method: str, path: str, endpoint_request: Any, result: Any) -> Any:
    return msgspec.json.decode(endpoint(wire, method, path).encode(endpoint_request, result).body)


def decoded(wire: str, method: str, path: str, body: Any = None, at: str | None = None) -> Any:
    http = HttpRequest(method=method, path=at or path, body=msgspec.json.encode(body))
    return endpoint(wire, method, path).decode(http)


def test_no_two_dialects_answer_at_one_place() -> None:
    routes = [route for name in NAMES for half in (get(name).server, *get(name).other_servers) for route in half.routes]
    routes += [service.route for name in NAMES for service in wires.get(name).server_endpoints]
    assert len(routes) == len(set(routes))


def test_a_path_that_is_another_holds_nothing() -> None:
    assert path_parameter(Route(method="GET", path="/a/{id}"), HttpRequest(method="GET", path="/b/1")) == ""


# Models ---------------------------------------------------------------------------------------------------------------


def test_models_as_openai_lists_them() -> None:
    assert decoded("openai_chat", "GET", "/v1/models") == ListModels()
    assert encoded("openai_chat", "GET", "/v1/models", ListModels(), MODELS) == {
        "object": "list",
        "data": [
            {"id": "demo/any", "object": "model", "created": 0, "owned_by": "demo"},
            {"id": "fast", "object": "model", "created": 1763370000, "owned_by": "dragoman"},
        ],
    }
    path = "/v1/models/{model}"
    assert decoded("openai_chat", "GET", path, at="/v1/models/demo/any") == ShowModel("demo/any")
    assert encoded("openai_chat", "GET", path, ShowModel("fast"), MODELS[1])["id"] == "fast"


@pytest.mark.parametrize("created", [None, -1, 2**40])
def test_a_model_for_anthropics_clients_always_has_a_time(created: int | None) -> None:
    model = ModelInfo(id="fast", created=created)
    shown = encoded("anthropic", "GET", "/v1/models/{model}", ShowModel("fast"), model)
    assert shown["created_at"] == "1970-01-01T00:00:00Z"


def test_models_as_anthropic_lists_them() -> None:
    assert endpoint("anthropic", "GET", "/v1/models").route.header == "anthropic-version"
    assert encoded("anthropic", "GET", "/v1/models", ListModels(), MODELS) == {
        "data": [
            {
                "type": "model",
                "id": "demo/any",
                "display_name": "demo/any",
                "created_at": "1970-01-01T00:00:00Z",
                **ACTIVE,
            },
            {
                "type": "model",
                "id": "fast",
                "display_name": "Fast",
                "created_at": "2025-11-17T09:00:00Z",
                **ACTIVE,
                "max_input_tokens": 8192,
                "max_tokens": 512,
            },
        ],
        "has_more": False,
        "first_id": "demo/any",
        "last_id": "fast",
    }
    assert encoded("anthropic", "GET", "/v1/models", ListModels(), ())["last_id"] is None


def test_models_as_google_lists_them() -> None:
    path = "/v1beta/models"
    assert encoded("google", "GET", path, ListModels(), MODELS)["models"][1] == {
        "name": "models/fast",
        "displayName": "Fast",
        "inputTokenLimit": 8192,
        "outputTokenLimit": 512,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
    assert decoded("google", "GET", f"{path}/{{model}}", at=f"{path}/fast") == ShowModel("fast")


def test_models_as_ollama_lists_them() -> None:
    listed = encoded("ollama", "GET", "/api/tags", ListModels(), MODELS)["models"]
    assert (listed[1]["model"], listed[1]["modified_at"]) == ("fast", "2025-11-17T09:00:00Z")
    assert decoded("ollama", "POST", "/api/show", {"model": "fast"}) == ShowModel("fast")
    assert decoded("ollama", "POST", "/api/show", {"name": "fast"}) == ShowModel("fast")
    shown = encoded("ollama", "POST", "/api/show", ShowModel("fast"), MODELS[1])
    assert shown["model_info"] == {"general.architecture": "dragoman", "dragoman.context_length": 8192}
    with pytest.raises(InvalidRequest, match=r"^model is required$"):
        decoded("ollama", "POST", "/api/show", {})


def test_models_as_we_list_them() -> None:
    assert encoded("native", "GET", "/native/v1/models", ListModels(), MODELS) == {
        "object": "list",
        "data": [
            {"id": "demo/any", "object": "model"},
            {
                "id": "fast",
                "object": "model",
                "name": "Fast",
                "created": 1763370000,
                "context_window": 8192,
                "max_output": 512,
            },
        ],
    }


def test_what_ollama_recites() -> None:
    assert decoded("ollama", "GET", "/api/version") == StaticDocument()
    assert encoded("ollama", "GET", "/api/version", StaticDocument(), None)["version"].count(".") == 2
    assert encoded("ollama", "GET", "/api/ps", StaticDocument(), None) == {"models": []}


# Tokens ---------------------------------------------------------------------------------------------------------------

HELLO = Request(messages=(user("Hello"),))


def test_tokens_as_anthropic_counts_them() -> None:
    body = {"model": "fast", "messages": [{"role": "user", "content": "Hello"}]}
    assert decoded("anthropic", "POST", "/v1/messages/count_tokens", body) == CountTokens("fast", HELLO)
    endpoint_request = CountTokens("fast", HELLO)
    assert encoded("anthropic", "POST", "/v1/messages/count_tokens", endpoint_request, 5) == {"input_tokens": 5}


@pytest.mark.parametrize("wrap", [False, True])
def test_tokens_as_google_counts_them(wrap: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = "/v1beta/models/{model}:countTokens"
    body: Any = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    body = {"generateContentRequest": {"model": "models/fast", **body}} if wrap else body
    endpoint_request = decoded("google", "POST", path, body, at="/v1beta/models/fast:countTokens?key=k")
    assert endpoint_request == CountTokens("fast", HELLO)
    assert encoded("google", "POST", path, endpoint_request, 5) == {"totalTokens": 5}


def test_tokens_as_the_responses_api_counts_them() -> None:
    path = "/v1/responses/input_tokens"
    endpoint_request = decoded("openai_responses", "POST", path, {"model": "fast", "input": "Hello"})
    assert endpoint_request == CountTokens("fast", HELLO)
    expected = {"object": "response.input_tokens", "input_tokens": 5}
    assert encoded("openai_responses", "POST", path, endpoint_request, 5) == expected


# Embeddings -----------------------------------------------------------------------------------------------------------


def test_vectors_as_openai_gives_them() -> None:
    path = "/v1/embeddings"
    endpoint_request = decoded("openai_chat", "POST", path, {"model": "fast", "input": "Hello", "dimensions": 2})
    assert endpoint_request == Embed("fast", ("Hello",), EmbeddingOptions(dimensions=2))
    assert encoded("openai_chat", "POST", path, endpoint_request, VECTORS) == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
        "model": "fast",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


def test_vectors_are_packed_where_that_is_asked_for() -> None:
    path = "/v1/embeddings"
    endpoint_request = decoded(
        "openai_chat", "POST", path, {"model": "m", "input": ["a", "b"], "encoding_format": "base64"}
    )
    assert endpoint_request == Embed("m", ("a", "b"), vector_formats=("base64",))
    packed = encoded("openai_chat", "POST", path, endpoint_request, VECTORS)["data"][0]["embedding"]
    assert struct.unpack("<2f", decode_base64(packed)) == (0.5, -1.0)


@pytest.mark.parametrize(
    ("value", "texts"), [([1, 2], ((1, 2),)), ([[1, 2], [3]], ((1, 2), (3,))), (["a", [3]], ("a", (3,)))]
)
def test_vectors_may_be_those_of_tokens(value: object, texts: tuple[object, ...]) -> None:
    endpoint_request = decoded("openai_chat", "POST", "/v1/embeddings", {"model": "m", "input": value})
    assert isinstance(endpoint_request, Embed)
    assert endpoint_request.texts == texts


@pytest.mark.parametrize("value", [[], [1, "a"], [1, [2]], [1.5], 3, None])
def test_what_is_no_text_has_no_vector(value: object) -> None:
    with pytest.raises(InvalidRequest, match="input"):
        decoded("openai_chat", "POST", "/v1/embeddings", {"model": "m", "input": value})


def test_vectors_as_ollama_gives_them() -> None:
    endpoint_request = decoded("ollama", "POST", "/api/embed", {"model": "fast", "input": ["a"]})
    assert endpoint_request == Embed("fast", ("a",))
    assert decoded("ollama", "POST", "/api/embed", {"model": "fast", "input": "a"}) == endpoint_request
    expected = {"model": "fast", "embeddings": [[0.5, -1.0]], "prompt_eval_count": 3}
    assert encoded("ollama", "POST", "/api/embed", endpoint_request, VECTORS) == expected


# One turn of Ollama ---------------------------------------------------------------------------------------------------

GENERATE = get("ollama").other_servers[0]


def test_a_prompt_is_a_chat_of_one_turn() -> None:
    body = {"model": "fast", "prompt": "Hello", "system": "Be brief.", "options": {"seed": 7}, "stream": False}
    http = HttpRequest(method="POST", path="/api/generate", body=msgspec.json.encode(body))
    endpoint_request = Request(messages=(user("Hello"),), system="Be brief.", seed=7)
    assert GENERATE.decode_request(http) == ("fast", endpoint_request)
    assert GENERATE.routes == (Route(method="POST", path="/api/generate"),)


def test_what_is_said_to_a_prompt_is_a_response() -> None:
    message = assistant(Thinking(text="Hm."), "Hello")
    reply = GENERATE.encode_body(
        Response(message=message, finish=Finish(reason="stop"), model="fast", created=1763370000)
    )
    assert msgspec.json.decode(reply.body) == {
        "model": "fast",
        "created_at": "2025-11-17T09:00:00Z",
        "response": "Hello",
        "thinking": "Hm.",
        "done": True,
        "done_reason": "stop",
    }
    assert GENERATE.supports_part(Text(text="Hello"))
    assert not GENERATE.supports_part(ToolCall(id="call_1", name="now"))


def test_a_streamed_response_to_a_prompt() -> None:
    encoder = GENERATE.stream_encoder(Request())
    events: list[Event] = [
        Started(model="fast"),
        PartStarted(index=0, kind="text"),
        PartDelta(index=0, text="Hello"),
        PartEnded(index=0, part=Text(text="Hello")),
        Finished(finish=Finish(reason="stop")),
    ]
    lines = [msgspec.json.decode(line) for event in events for line in encoder.feed(event).splitlines()]
    assert [(line["response"], line["done"]) for line in lines] == [("Hello", False), ("", True)]
    assert fold(events).text == "Hello"


# Answers that are kept ------------------------------------------------------------------------------------------------

CALL = ToolCall(id="call_1", name="tide", arguments={"port": "Brest"})


def memory() -> ResponseContinuation:
    result = wires.get("openai_responses").continuation
    assert result is not None
    return result


def split_request(**body: Any) -> tuple[StoredResponseQuery, Request]:
    http = HttpRequest(method="POST", path="/v1/responses", body=msgspec.json.encode({"model": "m", **body}))
    return memory().split(get("openai_responses").server.decode_request(http)[1], http.body)


def answered(*parts: Any, id: str = "resp_1") -> Response:
    return Response(id=id, message=assistant(*parts), finish=Finish(reason="stop"))


def test_only_what_remembers_has_a_memory() -> None:
    assert [name for name in NAMES if wires.get(name).continuation] == [
        "google_interactions",
        "openai_responses",
    ]


def test_an_answer_is_kept_unless_that_is_not_wanted() -> None:
    query, request = split_request(input="Hello")
    assert (query, request.messages) == (StoredResponseQuery(store=True), HELLO.messages)
    assert split_request(input="Hello", store=False)[0] == StoredResponseQuery(store=False)
    query, request = split_request(input="Hello", previous_response_id="resp_1", store=True, truncation="auto")
    assert query == StoredResponseQuery(previous_id="resp_1", store=True)
    assert request.extra["openai_responses"] == {"truncation": "auto"}


def test_a_kept_answer_has_the_time_of_its_end() -> None:
    request = split_request(input="Hello")[1]
    memory().note_completed(request, 1794700000)
    body = get("openai_responses").server.encode_body(answered("Hi"), request).body
    assert msgspec.json.decode(body)["completed_at"] == 1794700000


def test_a_kept_answer_says_what_was_asked() -> None:
    request = split_request(input="Hello", instructions="Be brief.", text={"verbosity": "low"})[1]
    stored = load(dump(memory().record(request, answered("Hi"))), StoredResponse)
    message = encoded("openai_responses", "GET", "/v1/responses/{id}", FetchResponse("resp_1"), stored)
    assert (message["instructions"], message["text"]) == ("Be brief.", {"format": {"type": "text"}, "verbosity": "low"})


def test_a_request_goes_on_from_an_answer() -> None:
    first = split_request(input="Tide?", instructions="Be brief.")[1]
    stored = memory().record(first, answered("Where?"))
    second = memory().join(stored, split_request(input="Brest", previous_response_id="resp_1")[1])
    assert second.messages == (user("Tide?"), assistant("Where?"), user("Brest"))
    assert second.system is None


def test_a_result_finds_the_call_that_is_kept() -> None:
    stored = memory().record(split_request(input="Tide?")[1], answered(CALL))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"}
    more = {"role": "user", "content": "Well?"}
    second = memory().join(stored, split_request(input=[output, more], previous_response_id="resp_1")[1])
    result = ToolResult(id="call_1", name="tide", content="4.2 m")
    assert second.messages == (user("Tide?"), assistant(CALL), tool_results(result), user("Well?"))


def test_what_is_no_result_stays_where_it_is() -> None:
    stored = StoredResponse(messages=(), response=answered("Hi"))
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "4.2 m"},
    ]
    joined = memory().join(stored, split_request(input=items, previous_response_id="resp_1")[1])
    assert joined.messages == (
        tool_results(ToolResult(id="call_1", content="4.2 m")),
        Message(
            role="assistant", parts=(HostedCall(id="ws_1", tool="web_search", extra={"openai_responses": items[0]}),)
        ),
    )
    assert memory().join(stored, Request(messages=(Message(role="user"),))).messages == (Message(role="user"),)


def test_system_items_stay_and_instructions_do_not() -> None:
    items = [{"role": "developer", "content": "In French."}, {"role": "user", "content": "Hello"}]
    first = split_request(input=items, instructions="Be brief.", store=True)[1]
    stored = memory().record(first, answered("Bonjour"))
    assert [message.text for message in stored.messages] == ["In French.", "Hello", "Bonjour"]
    assert stored.messages[0].role == system("x").role
    assert load(dump(stored), StoredResponse) == stored


def test_a_kept_answer_can_be_fetched_and_dropped() -> None:
    path = "/v1/responses/{id}"
    assert decoded("openai_responses", "GET", path, at="/v1/responses/resp_1").id == "resp_1"
    assert decoded("openai_responses", "DELETE", path, at="/v1/responses/resp_1") == DropResponse("resp_1")
    fetched = encoded(
        "openai_responses",
        "GET",
        path,
        FetchResponse("resp_1"),
        StoredResponse(messages=(), response=answered("Hello")),
    )
    assert fetched["output"][0]["content"][0]["text"] == "Hello"
    dropped = {"id": "resp_1", "object": "response", "deleted": True}
    assert encoded("openai_responses", "DELETE", path, DropResponse("resp_1"), None) == dropped


# Embeddings of Google's clients, and of old clients of Ollama ---------------------------------------------------------


EMBED_ONE, EMBED_MANY = "/v1beta/models/{model}:embedContent", "/v1beta/models/{model}:batchEmbedContents"


def test_google_clients_embed_one_text() -> None:
    body = {
        "model": "models/demo/any",
        "content": {"parts": [{"text": "ships"}, {"text": "tides"}]},
        "output_dimensionality": 8,
        "taskType": "RETRIEVAL_QUERY",
    }
    embed = decoded("google", "POST", EMBED_ONE, body, at="/v1beta/models/demo/any:embedContent")
    assert embed == Embed("demo/any", ("ships\ntides",), EmbeddingOptions(dimensions=8, purpose="query"))
    assert encoded("google", "POST", EMBED_ONE, embed, VECTORS) == {"embedding": {"values": [0.5, -1.0]}}


def test_google_clients_embed_many_texts() -> None:
    requests = [{"model": "models/m", "content": {"parts": [{"text": text}]}} for text in ("a", "b")]
    embed = decoded("google", "POST", EMBED_MANY, {"requests": requests}, at="/v1beta/models/m:batchEmbedContents")
    assert embed == Embed("m", ("a", "b"))
    two = Embeddings(vectors=((0.5,), (1.0,)), usage=Usage(input=3))
    assert encoded("google", "POST", EMBED_MANY, embed, two) == {"embeddings": [{"values": [0.5]}, {"values": [1.0]}]}


UNFIT: list[tuple[Any, str]] = [
    ({}, "requests"),
    ({"requests": []}, "requests"),
    ({"requests": [3]}, "requests[0].content.parts"),
    ({"requests": [{"content": "text"}]}, "requests[0].content.parts"),
    ({"requests": [{"content": {"parts": [3]}}]}, "requests[0].content.parts"),
    ({"requests": [{"content": {"parts": [{"inlineData": {}}]}}]}, "requests[0].content.parts"),
    ({"requests": [{"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 0}]}, "outputDimensionality"),
    ({"requests": [{"outputDimensionality": 1}, {"outputDimensionality": 2}]}, "requests"),
]


@pytest.mark.parametrize(("body", "param"), UNFIT)
def test_what_google_clients_cannot_embed_is_refused(body: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decoded("google", "POST", EMBED_MANY, body, at="/v1beta/models/m:batchEmbedContents")
    assert caught.value.param == param


def test_old_clients_of_ollama_embed_one_text() -> None:
    embed = decoded("ollama", "POST", "/api/embeddings", {"model": "m", "prompt": "ships", "keep_alive": "5m"})
    assert embed == Embed("m", ("ships",), EmbeddingOptions(extra={"ollama": {"keep_alive": "5m"}}))
    assert encoded("ollama", "POST", "/api/embeddings", embed, VECTORS) == {"embedding": [0.5, -1.0]}


# Clouds ---------------------------------------------------------------------------------------------------------------

CLOUD = "/v1beta1/projects/{project}/locations/{location}/publishers/{publisher}/models"


@pytest.mark.parametrize(
    ("wire", "path", "at", "body"),
    [
        (
            "bedrock",
            "/model/{model}/count-tokens",
            "/model/fast/count-tokens",
            {"input": {"converse": {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}}},
        ),
        (
            "anthropic",
            "/v1/projects/{project}/locations/{location}/publishers/anthropic/models/count-tokens:rawPredict",
            "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
            {"model": "fast", "messages": [{"role": "user", "content": "hi"}]},
        ),
        (
            "google",
            f"{CLOUD}/{{model}}:countTokens",
            "/v1beta1/projects/p/locations/l/publishers/google/models/fast:countTokens",
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        ),
    ],
)
def test_clouds_count_tokens(wire: str, path: str, at: str, body: Any) -> None:
    assert decoded(wire, "POST", path, body, at) == CountTokens("fast", Request(messages=(user("hi"),)))


def test_bedrock_counts_only_converse() -> None:
    assert encoded("bedrock", "POST", "/model/{model}/count-tokens", None, 7) == {"inputTokens": 7}
    bodies: list[dict[str, Any]] = [{"input": {"invokeModel": {"body": "e30="}}}, {"input": []}, {}]
    for body in bodies:
        with pytest.raises(InvalidRequest, match="input must have the member converse"):
            decoded("bedrock", "POST", "/model/{model}/count-tokens", body, "/model/fast/count-tokens")


def test_vertex_lists_models() -> None:
    path = "/v1beta1/publishers/google/models"
    names = [{"name": f"publishers/google/models/{id}", "launchStage": "GA"} for id in ("demo/any", "fast")]
    assert encoded("google", "GET", path, ListModels(), MODELS) == {"publisherModels": names}
    show = "/v1beta1/publishers/{publisher}/models/{model}"
    assert decoded("google", "GET", show, None, f"{path}/fast") == ShowModel("fast")
    assert decoded("google", "GET", show, None, "/v1beta1/publishers/demo/models/any") == ShowModel("demo/any")
    assert encoded("google", "GET", show, ShowModel("fast"), MODELS[1]) == names[1]


def test_vertex_embeds() -> None:
    path, at = f"{CLOUD}/{{model}}:predict", "/v1beta1/projects/p/locations/l/publishers/google/models/e:predict"
    body = {"instances": [{"content": "a"}, {"content": "b"}], "parameters": {"outputDimensionality": 2, "x": 1}}
    assert decoded("google", "POST", path, body, at) == Embed(
        "e", ("a", "b"), EmbeddingOptions(dimensions=2, extra={"google": {"x": 1}})
    )
    assert decoded("google", "POST", path, {"instances": [{"content": "a"}]}, at) == Embed("e", ("a",))
    answer = encoded("google", "POST", path, Embed("e", ("a",)), VECTORS)
    assert answer["predictions"][0]["embeddings"]["values"] == [0.5, -1.0]
    assert answer["predictions"][0]["embeddings"]["statistics"] == {"token_count": 3, "truncated": False}


def test_newer_models_of_vertex_embed() -> None:
    path, at = (
        f"{CLOUD}/{{model}}:embedContent",
        "/v1beta1/projects/p/locations/l/publishers/demo/models/e:embedContent",
    )
    content = {"role": "user", "parts": [{"text": "a"}]}
    body = {"content": content, "embedContentConfig": {"outputDimensionality": 2, "taskType": "x"}}
    assert decoded("google", "POST", path, body, at) == Embed(
        "demo/e", ("a",), EmbeddingOptions(dimensions=2, extra={"google": {"taskType": "x"}})
    )
    assert decoded("google", "POST", path, {"content": content, "embedContentConfig": 1}, at) == Embed("demo/e", ("a",))
    vectors = Embeddings(vectors=((0.5, -1.0),), usage=Usage(input=3))
    expected = {"embedding": {"values": [0.5, -1.0]}}
    assert encoded("google", "POST", path, Embed("e", ("a",)), vectors) == {
        **expected,
        "usageMetadata": {"promptTokenCount": 3},
    }
    unknown = Embeddings(vectors=((0.5, -1.0),), usage=Usage(source="unknown"))
    assert encoded("google", "POST", path, Embed("e", ("a",)), unknown) == expected


SIZES: list[Any] = [0, -1, "2", []]
NOT_EMBEDDED: list[Any] = [
    *({}, {"instances": []}, {"instances": [{"text": "a"}]}, {"instances": ["a"]}, {"instances": 1}),
    *({"instances": [{"content": "a"}], "parameters": {"outputDimensionality": size}} for size in SIZES),
]


@pytest.mark.parametrize("body", NOT_EMBEDDED)
def test_vertex_refuses_what_cannot_be_embedded(body: Any) -> None:
    path, at = f"{CLOUD}/{{model}}:predict", "/v1beta1/projects/p/locations/l/publishers/google/models/e:predict"
    with pytest.raises(InvalidRequest, match=r"instances(\[0\].content)? must be|outputDimensionality must be"):
        decoded("google", "POST", path, body, at)


def test_azure_embeds_by_deployment() -> None:
    path, at = "/openai/deployments/{model}/embeddings", "/openai/deployments/my%20e/embeddings?api-version=1"
    assert decoded("openai_chat", "POST", path, {"input": "a"}, at) == Embed("my e", ("a",))
    with pytest.raises(InvalidRequest, match="model is required"):
        decoded("openai_chat", "POST", "/openai/v1/embeddings", {"input": "a"})


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_documents_are_ranked_for_clients_of_cohere(path: str) -> None:
    body = {"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 2, "return_documents": True, "k": 1}
    query = decoded("openai_chat", "POST", path, body)
    assert query == Rerank("m", "q", ("a", "b"), 2, with_texts=True, ignored_fields=("k",))
    ranking = Ranking(documents=(RankedDocument(index=1, score=0.5),), usage=Usage(input=3))
    assert encoded("openai_chat", "POST", path, query, ranking) == {
        "object": "rerank",
        "model": "m",
        "results": [{"index": 1, "relevance_score": 0.5, "document": {"text": "b"}}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
        "meta": {"api_version": {"version": "2"}, "tokens": {"input_tokens": 3}},
    }
    plain = decoded("openai_chat", "POST", path, {"model": "m", "query": "q", "documents": ["a"]})
    assert "document" not in encoded("openai_chat", "POST", path, plain, ranking)["results"][0]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"query": "q", "documents": ["a"]}, "model"),
        ({"model": "m", "documents": ["a"]}, "query"),
        ({"model": "m", "query": "q", "documents": [{"title": "a"}]}, "documents[0]"),
    ],
)
def test_a_ranking_without_what_it_needs_is_refused(body: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded("openai_chat", "POST", "/v1/rerank", body)
    assert refused.value.param == param


def test_stored_prompts_of_google_are_refused() -> None:
    there = [each for each in wires.get("google").server_endpoints if "cachedContents" in each.route.path]
    assert {each.route.method for each in there} == {"GET", "POST", "PATCH", "DELETE"}
    with pytest.raises(Unsupported, match="send the whole prompt with each request"):
        there[0].decode(HttpRequest(method="POST", path=there[0].route.path))
    assert there[0].encode(None, None).body == b"{}"
